"""Claims about uploading a run (the Hub itself is not asked)."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub.errors import LocalTokenNotFoundError

from toybert.train import cli, publish
from toybert.train.hub import push as hub
from toybert.train.hub.folders import CODE, ROOT, save_hub_folder
from toybert.train.release import read_pages


class Recorder:
    """Stands in for the Hub's client and keeps what it is asked."""

    calls: dict[str, dict[str, Any]]

    def __init__(self) -> None:
        Recorder.calls = {}

    def whoami(self) -> dict[str, str]:
        return {"name": "me"}

    def create_repo(self, repo_id: str, **options: Any) -> None:
        self.calls["create_repo"] = {"repo_id": repo_id, **options}

    def create_commit(self, repo_id: str, operations: list[Any], **options: Any) -> str:
        self.calls["create_commit"] = {operation.path_in_repo: operation.path_or_fileobj for operation in operations}
        return "https://hub/me/toybert"


def test_a_run_is_uploaded_without_its_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    there = ["README.md", "config.json", "figures/pretraining.png", "history.json", "model.safetensors",
             "modeling_toybert.py", "results.json", "tokenizer.json"]  # fmt: skip
    stray = ["checkpoints/step-0000001/optimizer.bin", "checkpoint-3/optimizer.pt", ".env", "run.json", "notes.txt",
             "__pycache__/x.pyc", "events.out.tfevents.1", "model.unfinished/config.json", "training_args.bin",
             "sentiment/checkpoints/step-0000001/model.safetensors"]  # fmt: skip
    for name in (*there, *stray):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(hub, "HfApi", Recorder)
    hub.push(tmp_path, "me/toybert")
    assert Recorder.calls["create_repo"] == {"repo_id": "me/toybert", "private": None, "exist_ok": True}
    assert Recorder.calls["create_commit"] == {name: str(tmp_path / name) for name in there}
    assert "uploaded" in capsys.readouterr().out


@pytest.mark.parametrize("error", [LocalTokenNotFoundError("no token"), ConnectionError("no route")])
def test_an_upload_that_fails_says_so_in_one_sentence_and_that_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class Refusing(Recorder):
        def create_repo(self, repo_id: str, **options: Any) -> None:
            raise error

    monkeypatch.setattr(hub, "HfApi", Refusing)
    with pytest.raises(OSError, match=r"me/toybert .*saved.*: \w+Error: no"):
        hub.push(tmp_path, "me/toybert")


def test_a_login_that_is_missing_is_noticed_before_anything_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stranger(Recorder):
        def whoami(self) -> dict[str, str]:
            raise LocalTokenNotFoundError("no token:\nlog in")

    monkeypatch.setattr(hub, "HfApi", Recorder)
    hub.check_login()
    monkeypatch.setattr(hub, "HfApi", Stranger)
    with pytest.raises(OSError, match="LocalTokenNotFoundError: no token: log in"):
        hub.check_login()


@pytest.mark.parametrize("repo_id", ["me/to/bert", "me/", "my bert", "", "-me/bert"])
def test_what_can_be_no_name_of_a_repository_is_a_usage_error_even_in_a_dry_run(
    repo_id: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "argv", ["publish", f"--repo-id={repo_id}", "--dry-run"])
    with pytest.raises(SystemExit) as stop:
        cli.parse(publish.PublishOptions, None)
    assert stop.value.code == 2
    assert repr(repo_id) in capsys.readouterr().err


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a checkout that holds a folder of its own and a folder that git does not track, and nothing committed."""
    (tmp_path / "tracked").mkdir()
    (tmp_path / "untracked").mkdir()
    for folder in ("tracked", "untracked"):
        (tmp_path / folder / "a.txt").write_text("one", encoding="utf-8")
    for words in (["init", "--quiet"], ["add", "tracked"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(publish, "check_pages", lambda: None)
    monkeypatch.setattr(publish, "ROOT", tmp_path / "tracked")
    return tmp_path


def test_what_is_not_committed_is_told(checkout: Path, capsys: Any) -> None:
    dry = publish.PublishOptions(repo_id="me/toybert", dry_run=True)
    publish.publish(dry)
    assert "not committed as they are: a.txt\n" in capsys.readouterr().out
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, "commit", "--quiet", "-m", "one"], cwd=checkout, check=True)
    publish.publish(dry)
    assert "not committed" not in capsys.readouterr().out
    (checkout / "tracked" / "a.txt").write_text("two", encoding="utf-8")
    publish.publish(dry)
    assert "not committed as they are: a.txt\n" in capsys.readouterr().out


def test_a_folder_that_git_does_not_track_is_refused(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert publish.published_files() == {"a.txt": 3}
    monkeypatch.setattr(publish, "ROOT", checkout / "untracked")
    with pytest.raises(FileNotFoundError, match=r"git .*untracked "):
        publish.published_files()


@pytest.mark.parametrize(
    ("results", "message"),
    [("[]", "holds a JSON list, not an object"), ("", "can't be read"), ("{}", "lacks what the card shows"),
     ('{"mlm": 3}', "lacks what the card shows")],
)  # fmt: skip
def test_results_that_are_none_are_named(
    results: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "results.json").write_text(results, encoding="utf-8")
    (tmp_path / "README.md").write_text("# A card", encoding="utf-8")
    monkeypatch.setattr(publish, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=f"results.json {message}"):
        publish.check_pages()


def test_what_an_interrupted_save_left_behind_is_cleared(tmp_path: Path) -> None:
    class Saved:
        config, model_max_length = SimpleNamespace(max_position_embeddings=8), 8

        def save_pretrained(self, folder: Path, **how: Any) -> None:
            folder.mkdir(exist_ok=True)
            (folder / "config.json").write_text("new", encoding="utf-8")

    (tmp_path / "model.unfinished").mkdir()
    for name in ("config.json", "stale.bin"):
        (tmp_path / "model.unfinished" / name).write_text("old", encoding="utf-8")
    save_hub_folder(Saved(), Saved(), tmp_path)  # type: ignore[arg-type]
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", *CODE}
    assert (tmp_path / "config.json").read_text(encoding="utf-8") == "new"


@pytest.mark.parametrize(
    ("name", "figure"),
    [("README.md", "**99.0 %**"), ("docs/results.md", "| 99.0 % |"), ("docs/train.md", "6,512 steps")],
)
def test_a_page_that_does_not_say_what_was_measured_is_not_published(
    name: str, figure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("figures", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "figures" / "results.json").write_bytes((ROOT / "figures" / "results.json").read_bytes())
    pages = read_pages()
    for page, text in pages.items():
        (tmp_path / page).write_text(text, encoding="utf-8")
    monkeypatch.setattr(publish, "ROOT", tmp_path)
    publish.check_pages()
    changed = pages[name].replace(figure, figure.replace("9", "8").replace("5", "4"))
    (tmp_path / name).write_text(changed, encoding="utf-8")
    with pytest.raises(ValueError, match=f"{name} .* figures/results.json"):
        publish.check_pages()


def test_the_pages_of_docs_are_published_and_the_benchmarks_are_not() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this copy of the repository is no git checkout")
    published = publish.published_files().keys()
    assert read_pages().keys() <= published
    assert {name.split("/")[0] for name in published} >= {"docs", "train", "tests", "figures"}
    assert not [name for name in published if name.startswith(("benchmarks/", ".ci/"))]
