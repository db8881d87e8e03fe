"""Claims about uploading a run (the Hub itself is not asked)."""

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.errors import LocalTokenNotFoundError

from toybert.train import hub, publish


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
    with pytest.raises(OSError, match=r"could not upload .* to me/toybert \(it is saved all the same\): \w+Error: no"):
        hub.push(tmp_path, "me/toybert")


def test_a_card_that_does_not_say_what_was_measured_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = (hub.ROOT / "README.md").read_text(encoding="utf-8")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "results.json").write_bytes((hub.ROOT / "figures" / "results.json").read_bytes())
    (tmp_path / "README.md").write_text(card, encoding="utf-8")
    monkeypatch.setattr(publish, "ROOT", tmp_path)
    publish.check_card()
    (tmp_path / "README.md").write_text(card.replace("**99.0 %**", "**99.9 %**"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"README.md does not say what figures/results.json does"):
        publish.check_card()
