"""Claims about the card that a run leaves: it says what was done, gives nothing away, and yields to a person's."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from huggingface_hub import ModelCard
from torch import nn

from toybert.configuration_toybert import ToyBertConfig
from toybert.train.finetune import FinetuneOptions
from toybert.train.hub.card import shown, write_card
from toybert.train.hub.folders import ROOT
from toybert.train.loop.loop import Progress
from toybert.train.measure.results import write_predictions
from toybert.train.pretrain import PretrainOptions


def write(folder: Path, step: str = "pretrain", **options: Any) -> str:
    """Writes the card of a made-up run, and returns it."""
    write_it(folder, step, **options)
    return (folder / "README.md").read_text(encoding="utf-8")


def write_it(folder: Path, step: str = "pretrain", **options: Any) -> None:
    kind = {"pretrain": PretrainOptions, "finetune": FinetuneOptions}[step]
    folder.mkdir(exist_ok=True)
    model = SimpleNamespace(config=ToyBertConfig(vocab_size=1234), parameters=nn.Linear(9, 9).parameters)
    results = [("validation", "accuracy", 0.87654, "a coin", 0.5), ("test", "loss", 0.2, "the mean", 2)]
    run = kind(output_dir=str(folder), **options)
    write_card(step, model, run, Progress(step=77, seconds=8.4), ["12 documents"], results)


@pytest.mark.parametrize(("step", "task"), [("pretrain", "fill-mask"), ("finetune", "text-classification")])
def test_the_metadata_are_valid_and_hold_the_figures(tmp_path: Path, step: str, task: str) -> None:
    write(tmp_path / "mine", step, corpus="/data/secret/tales")
    data = ModelCard.load(tmp_path / "mine" / "README.md").data
    assert (data.library_name, data.pipeline_tag, data.model_name) == ("transformers", task, "mine")
    assert "custom_code" in data.tags
    first, second = data.eval_results
    assert (first.dataset_name, first.dataset_split, first.metric_value) == ("tales", "validation", 0.8765)
    assert (second.dataset_split, second.metric_type, second.metric_value) == ("test", "mse", 0.2)


def test_the_card_says_what_was_done_and_how_well(tmp_path: Path) -> None:
    card = write(tmp_path / "mine", epochs=3, learning_rate=0.5, repo_id="me/mine", push_to_hub=True)
    for said in (
        "# mine\n",
        'model="me/mine"',
        "- 12 documents\n",
        "| validation: accuracy | 87.7% | a coin 50.0% |",
        "| test: mean squared error | 0.200 | the mean 2.000 |",
        "--epochs 3 --learning-rate 0.5\n",
        "77 steps in 8 s",
        "1,234 tokens",
        "figures/pretraining.png",
    ):
        assert said in card


def test_the_card_gives_no_path_of_the_machine_away(tmp_path: Path) -> None:
    card = write(tmp_path / "mine", "finetune", corpus=str(tmp_path / "corpus"), model=str(tmp_path / "model"))
    assert str(tmp_path.parent) not in card
    assert "--output-dir mine --model model --corpus corpus" in card


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_card_is_written_anew_until_a_person_edits_it(
    tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, path = write(tmp_path / "mine"), tmp_path / "mine" / "README.md"
    path.write_bytes(first.replace("\n", ending).encode())  # as git may do on Windows: nobody has edited that
    assert write(tmp_path / "mine", epochs=5) != first
    assert "edited" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "edit",
    [
        lambda card: card.replace("It states no licence", "Its licence is MIT"),
        lambda card: card.replace("library_name", "license: mit\nlibrary_name"),
        lambda card: card + "I measured more.\n",
        lambda card: card.partition("<!--")[0],
        lambda card: "",
    ],
)
def test_a_card_that_a_person_has_edited_is_left_as_it_is(
    tmp_path: Path, edit: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    mine, path = edit(write(tmp_path / "mine")), tmp_path / "mine" / "README.md"
    path.write_text(mine, encoding="utf-8")
    assert write(tmp_path / "mine", epochs=6) == mine
    assert f"left {path} as it is: somebody has edited it" in capsys.readouterr().out


def test_a_card_that_an_editor_saved_in_another_encoding_is_left_as_it_is(tmp_path: Path) -> None:
    write(tmp_path / "mine")
    path = tmp_path / "mine" / "README.md"
    path.write_text("Caf\u00e9", encoding="cp1252")
    write_it(path.parent)
    assert path.read_bytes() == b"Caf\xe9"


def test_predictions_that_a_person_has_edited_are_left_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, rows = tmp_path / "predictions.csv", pd.DataFrame({"text": ["a dog"], "predicted": ["good"]})
    for _ in range(2):
        write_predictions(path, rows)
    assert "as it is" not in capsys.readouterr().out
    path.write_text("text,predicted,mine\na dog,good,bad\n", encoding="utf-8")
    write_predictions(path, rows)
    assert "mine" in path.read_text(encoding="utf-8")
    assert f"left {path} as it is" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [path]


def test_the_base_is_named_where_others_can_find_it(tmp_path: Path) -> None:
    write(tmp_path / "mine", "finetune", model="me/toybert")
    assert ModelCard.load(tmp_path / "mine" / "README.md").data.base_model == "me/toybert"
    write(tmp_path / "mine", "finetune", model=str(tmp_path))
    assert ModelCard.load(tmp_path / "mine" / "README.md").data.base_model is None
    write(tmp_path / "mine")
    assert ModelCard.load(tmp_path / "mine" / "README.md").data.base_model is None


def test_a_folder_is_never_shown_as_a_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine" / "inside").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "mine")
    assert [shown(path) for path in (".", "..", str(tmp_path), "inside", "me/toybert")] == [
        "mine", tmp_path.name, tmp_path.name, "inside", "me/toybert"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("problem", "example"),
    [
        ("single_label_classification", 'print(model({"text": "Some text.", "text_pair": "Another."}))'),
        ("multi_label_classification", 'print(model({"text": "Some text.", "text_pair": "Another."}, top_k=None))'),
        ("regression", 'print(model({"text": "Some text.", "text_pair": "Another."}))'),
    ],
)
def test_the_example_of_a_classifier_asks_as_it_was_trained(tmp_path: Path, problem: str, example: str) -> None:
    model = SimpleNamespace(config=ToyBertConfig(problem_type=problem), parameters=nn.Linear(9, 9).parameters)
    run = FinetuneOptions(output_dir=str(tmp_path), text_pair_column="other")
    results = [("validation", "accuracy", 0.9, "a coin", 0.5)]
    write_card("finetune", model, run, Progress(step=77, seconds=8.4), ["12 rows"], results)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert example in card
    assert ("It gives one of its classes to any text" in card) == problem.startswith("single")


def test_what_a_file_says_is_shown_and_never_run_as_a_template(tmp_path: Path) -> None:
    assert "--corpus '{{ 6 * 7 }} & {% if %}'" in write(tmp_path / "mine", corpus="{{ 6 * 7 }} & {% if %}")


def test_an_installed_package_has_the_templates() -> None:
    project = pytest.importorskip("tomllib").loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["toybert.train.hub"]
    installed = {path for pattern in patterns for path in (ROOT / "train" / "hub").glob(pattern)}
    assert installed == set((ROOT / "train" / "hub").glob("*.md"))
    assert any(words.startswith("jinja2") for words in project["project"]["dependencies"])
