"""Uploads a folder to the Hub."""

from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi

from toybert.train.hub.folders import CODE, within

SETTINGS = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
# What `push` uploads from the folder of a run.
UPLOADED = (*CODE, *SETTINGS, "README.md", "model.safetensors", "history.json", "results.json", "figures/*.png")


def check_login() -> None:
    """Refuses an upload without a login or a network, before a run begins."""
    try:
        HfApi().whoami()
    except Exception as error:  # as in `push`
        raise OSError(f"cannot upload to the Hub: {why(error)}") from error


def why(error: Exception) -> str:
    """Returns an error's kind, message and cause in one line."""
    return " ".join(f"{type(error).__name__}: {error} {error.__cause__ or ''}".split())


def push(folder: Path, repo_id: str, patterns: Sequence[str] = UPLOADED, private: bool = False) -> None:
    """Uploads a folder's files that match some patterns as one commit; `private` applies to a new repository.

    Any failure, of the login, the network or the permissions, becomes an OSError. The folder stays as it is.
    """
    api = HfApi()
    try:
        print(f"logged in as {api.whoami()['name']}")
        api.create_repo(repo_id, private=private or None, exist_ok=True)
        paths = sorted(within(path, folder) for pattern in patterns for path in folder.glob(pattern) if path.is_file())
        added = [CommitOperationAdd(path.relative_to(folder).as_posix(), path) for path in paths]
        # upload_folder repeats a failed commit for minutes and then uploads in parts: that can leave half a repository.
        url = api.create_commit(repo_id, added, commit_message="Upload ToyBERT")
    except Exception as error:  # errors of the client, of the system, or of the library below the client
        raise OSError(f"could not upload {folder} to {repo_id} (it is still saved locally): {why(error)}") from error
    print(f"uploaded {folder} to {url}")
