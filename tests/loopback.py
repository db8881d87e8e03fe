"""A small Hub on loopback: what its client asks to push and to load models, and failures to order."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import threading
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

USERS = {"hf_me": "me", "hf_other": "other"}  # by token
LARGE = (".safetensors", ".png")
ATTRIBUTES = "".join(f"*{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in LARGE).encode()
REPO, REVISION = r"(?P<repo>[^/]+/[^/]+?)", r"(?P<revision>[^/]+)"
ROUTES = {
    "whoami": r"GET /api/whoami-v2",
    "yaml": r"POST /api/validate-yaml",
    "create": r"POST /api/repos/create",
    "preupload": rf"POST /api/models/{REPO}/preupload/{REVISION}",
    "commit": rf"POST /api/models/{REPO}/commit/{REVISION}",
    "tree": rf"GET /api/models/{REPO}/tree/{REVISION}(/(?P<path>.+))?",
    "info": rf"GET /api/models/{REPO}(/revision/{REVISION})?",
    "batch": rf"POST /{REPO}\.git/info/lfs/objects/batch",
    "put": r"PUT /lfs/(?P<oid>\w{64})",
    "large": r"GET /large/(?P<oid>\w{64})",
    "resolve": rf"(GET|HEAD) /{REPO}/resolve/{REVISION}/(?P<path>.+)",
}


class RefusedError(Exception):
    """Stands for an answer other than 200, with the header that tells the client why."""

    def __init__(self, status: int, message: str, code: str = ""):
        super().__init__(message)
        self.status = status
        self.headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})


@dataclass
class File:
    """Holds a file's content; `large` ones lie outside git."""

    content: bytes
    large: bool = False

    @cached_property
    def oid(self) -> str:
        if self.large:
            return hashlib.sha256(self.content).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(self.content) + self.content).hexdigest()

    def entry(self, path: str) -> dict[str, Any]:
        entry = {"type": "file", "path": path, "size": len(self.content), "oid": self.oid}
        return entry | ({"lfs": {"oid": self.oid, "size": len(self.content), "pointerSize": 130}} if self.large else {})


@dataclass
class Repository:
    """Holds all commits of a repository, each a folder, and the names of some commits."""

    private: bool = False
    commits: dict[str, dict[str, File]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)

    def commit(self, files: dict[str, File], branch: str = "main") -> str:
        """Keeps a folder as the branch's last commit and returns its id."""
        facts = [len(self.commits), sorted((path, file.oid) for path, file in files.items())]
        sha = hashlib.sha1(json.dumps(facts).encode()).hexdigest()
        self.commits[sha], self.refs[branch] = files, sha
        return sha

    def files(self, revision: str = "main") -> dict[str, File]:
        """Returns the folder that a branch, a tag or a commit's id stands for."""
        return self.commits[self.refs.get(revision, revision)]


class Hub(ThreadingHTTPServer):
    """Serves repositories, and keeps their commits, until its `with` ends; `USERS` lists the users that it knows."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.repos: dict[str, Repository] = {}
        self.lfs: set[str] = set()  # repositories whose large files are to come by LFS
        self.objects: dict[str, bytes] = {}  # that came so
        self.log: list[str] = []  # endpoint, method and path of each request
        self.faults: list[list[Any]] = []  # pattern, kind, and how many are still to come
        self.lock = threading.RLock()

    def __enter__(self) -> Hub:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.shutdown()
        self.server_close()

    def fail(self, pattern: str, how: int | str, times: int = 1) -> None:
        """Makes the next requests fail whose line in the log matches a pattern.

        Args:
            how: a status; "cut", halfway through the body; or "lost": all is done, but the answer never arrives.
        """
        self.faults.append([pattern, how, times])

    def fault(self, line: str) -> int | str | None:
        with self.lock:
            self.log.append(line)
            for fault in self.faults:
                if re.search(fault[0], line) and fault[2] > 0:
                    fault[2] -= 1
                    return fault[1]
        return None


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of a connection, one after another."""

    protocol_version = "HTTP/1.1"  # keeps the connection
    disable_nagle_algorithm = True
    server: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:  # the client is gone
            self.close_connection = True

    def cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def body(self, share: float = 1.0) -> bytes:
        """Reads the request's body, or a part of it."""
        return self.rfile.read(int(int(self.headers.get("Content-Length", 0)) * share))

    def handle_request(self) -> None:
        split = urlsplit(self.path)
        request, self.query = f"{self.command} {split.path}", parse_qs(split.query)
        matches = ((name, re.fullmatch(pattern, request)) for name, pattern in ROUTES.items())
        name, match = next(((name, match) for name, match in matches if match), ("", None))
        how = self.server.fault(f"{name} {request}")
        sent = self.body(0.5 if how == "cut" else 1.0)
        if how == "cut" and (sent or self.command == "HEAD"):
            return self.cut()
        try:
            if isinstance(how, int):
                raise RefusedError(how, "an accident")
            if not match:
                raise RefusedError(404, "no such endpoint")
            parts = {key: value and unquote(value) for key, value in match.groupdict().items()}
            with self.server.lock:
                status, headers, content = getattr(self, name)(sent, **parts)
        except RefusedError as refused:
            status, headers, content = refused.status, refused.headers, {"error": str(refused)}
        if how == "lost":
            return self.cut()
        if not isinstance(content, bytes):
            content, headers = json.dumps(content).encode(), {**headers, "Content-Type": "application/json"}
        self.send_response(status)
        for key, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if how == "cut" else content)
        if how == "cut":
            self.cut()

    do_GET = do_HEAD = do_POST = do_PUT = handle_request  # noqa: N815

    def user(self) -> str | None:
        """Returns the token's owner; a token that nobody has is refused even where none is needed."""
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in USERS:
            raise RefusedError(401, "Invalid credentials in Authorization header")
        return USERS.get(token)

    def readable(self, repo: str) -> Repository:
        user, found = self.user(), self.server.repos.get(repo)
        if not found or (found.private and user != repo.split("/")[0]):
            raise RefusedError(404 if user else 401, "Repository not found", "RepoNotFound")
        return found

    def writable(self, repo: str) -> None:
        if (user := self.user()) is None:
            raise RefusedError(401, "Invalid username or password.")
        if user != repo.split("/")[0]:
            raise RefusedError(403, f"you don't have the rights to write to {repo}")

    def files(self, repo: str, revision: str | None) -> dict[str, File]:
        try:
            return self.readable(repo).files(revision or "main")
        except KeyError:
            raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound") from None

    def whoami(self, _: bytes):
        self.writable(f"{self.user()}/")
        return 200, {}, {"type": "user", "name": self.user(), "orgs": [], "auth": {"type": "access_token"}}

    def yaml(self, sent: bytes):
        warnings = [] if json.loads(sent)["content"].startswith("---\n") else [{"message": "no metadata"}]
        return 200, {}, {"errors": [], "warnings": warnings}

    def create(self, sent: bytes):
        asked = json.loads(sent)
        repo = f"{asked['organization'] or self.user()}/{asked['name']}"
        self.writable(repo)
        answer = {"url": f"{self.server.endpoint}/{repo}", "name": repo}
        if repo in self.server.repos:
            return 409, {}, answer | {"error": "You already created this model repo"}
        private = asked.get("private") or asked.get("visibility") == "private"
        self.server.repos[repo] = Repository(private)
        self.server.repos[repo].commit({".gitattributes": File(ATTRIBUTES)})
        return 200, {}, answer

    def preupload(self, sent: bytes, repo: str, revision: str):
        there = self.files(repo, revision)
        self.writable(repo)
        answers = []
        for asked in json.loads(sent)["files"]:
            path = asked["path"]
            mode = "lfs" if repo in self.server.lfs and path.endswith(LARGE) else "regular"
            oid = there[path].oid if path in there else None
            answers.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return 200, {}, {"files": answers}

    def commit(self, sent: bytes, repo: str, revision: str):
        files = dict(self.files(repo, revision))
        self.writable(repo)
        for key, value in ((line["key"], line["value"]) for line in map(json.loads, sent.splitlines())):
            if key == "file":
                files[value["path"]] = File(base64.b64decode(value["content"]))
            elif key == "lfsFile":
                if value["oid"] not in self.server.objects:
                    raise RefusedError(400, f"{value['path']} was never uploaded")
                files[value["path"]] = File(self.server.objects[value["oid"]], large=True)
        sha = self.server.repos[repo].commit(files, revision)
        return 200, {}, {"commitOid": sha, "commitUrl": f"{self.server.endpoint}/{repo}/commit/{sha}"}

    def tree(self, _: bytes, repo: str, revision: str, path: str | None):
        files, prefix = self.files(repo, revision), f"{path}/" if path else ""
        inside = {name: file for name, file in files.items() if name.startswith(prefix)}
        if not inside:
            raise RefusedError(404, f"{path} does not exist on {revision}", "EntryNotFound")
        deep = self.query.get("recursive", ["false"])[0].lower() == "true"
        entries = [file.entry(name) for name, file in inside.items() if deep or "/" not in name[len(prefix) :]]
        folders = {prefix + name[len(prefix) :].split("/")[0] for name in inside if "/" in name[len(prefix) :]}
        return 200, {}, entries + [{"type": "directory", "path": name, "oid": ""} for name in sorted(folders)]

    def info(self, _: bytes, repo: str, revision: str | None):
        siblings = [{"rfilename": path} for path in self.files(repo, revision)]
        found = self.server.repos[repo]
        sha = found.refs.get(revision or "main", revision)
        return 200, {}, {"id": repo, "sha": sha, "private": found.private, "tags": [], "siblings": siblings}

    def batch(self, sent: bytes, repo: str):
        self.writable(repo)
        objects = []
        for asked in json.loads(sent)["objects"]:
            upload = {"upload": {"href": f"{self.server.endpoint}/lfs/{asked['oid']}"}}
            objects.append(asked if asked["oid"] in self.server.objects else asked | {"actions": upload})
        return 200, {}, {"transfer": "basic", "objects": objects}

    def put(self, sent: bytes, oid: str):
        if hashlib.sha256(sent).hexdigest() != oid:
            raise RefusedError(400, "the content is not what was announced")
        self.server.objects[oid] = sent
        return 200, {}, {}

    def large(self, _: bytes, oid: str):
        if "Authorization" in self.headers:
            raise RefusedError(400, "a token went to where it doesn't belong")
        return self.part(self.server.objects[oid], {"ETag": f'"{oid}"'})

    def resolve(self, _: bytes, repo: str, revision: str, path: str):
        files = self.files(repo, revision)
        sha = {"X-Repo-Commit": self.server.repos[repo].refs.get(revision, revision)}
        if path not in files:
            refused = RefusedError(404, "Entry not found", "EntryNotFound")
            refused.headers |= sha
            raise refused
        file = files[path]
        headers = {**sha, "ETag": f'"{file.oid}"'}
        if not file.large:
            return self.part(file.content, headers)
        # Another host, as with the real one: there the client sends no token.
        elsewhere = f"http://localhost:{self.server.server_port}/large/{file.oid}"
        size = str(len(file.content))
        return 302, {**headers, "Location": elsewhere, "X-Linked-Size": size, "X-Linked-Etag": f'"{file.oid}"'}, b""

    def part(self, content: bytes, headers: dict[str, str]):
        """Returns a file, or the part that the client still lacks."""
        begin = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if not begin or self.command == "HEAD":
            return 200, {**headers, "Accept-Ranges": "bytes"}, content
        start = int(begin[1])
        span = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return 206, {**headers, "Content-Range": span}, content[start:]
