"""Claims about fine-tuning on a user's own labels: kinds of labels and files, what is measured, what is refused."""

import csv
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import ClassLabel, Dataset, Features, List, Value
from helpers import ROOT, make_checkpoint
from safetensors.torch import load_file, save_file
from scipy import stats
from sklearn.metrics import f1_score, recall_score
from transformers import AutoTokenizer, pipeline

from toybert.train import evaluate, finetune
from toybert.train.data.datasets import FinetuneDataset
from toybert.train.data.labels import MULTI, REGRESSION, SINGLE, learn_labels, looks_like_several
from toybert.train.data.source import find_tables
from toybert.train.data.tables import Table, column_names, load_tables, stratified_split
from toybert.train.finetune import FinetuneOptions, train_finetuning
from toybert.train.measure import plots
from toybert.train.measure.classification import compute_metrics, format_comparison, with_baseline

COLOURS = ("the house was red.", "the house was green.", "the house was old.")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_checkpoint(tmp_path_factory.mktemp("model") / "tiny", num_hidden_layers=1))


@pytest.fixture
def run(model: str, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Returns a function that fine-tunes the tiny model for an epoch, into `tmp_path / "run"`."""

    def fine_tune(**options: Any) -> dict[str, Any]:
        given = {"output_dir": str(tmp_path / "run"), "model": model, "epochs": 1, "batch_size": 8, "dropout": 0.0}
        return train_finetuning(FinetuneOptions(**{**given, **options}))

    return fine_tune


def write(path: Path, text: str | bytes) -> str:
    """Writes a file as it stands, and returns its path."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def write_rows(path: Path, rows: list[dict[str, Any]]) -> str:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def load_table_file(path: str | Path) -> Dataset:
    return load_tables(find_tables("", None, {"train": str(path)}))["train"].rows


def load_folder(folder: Path) -> dict[str, Table]:
    return load_tables(find_tables(str(folder), None, {}))


def table(**columns: list[Any]) -> Table:
    return Table(Dataset.from_dict(columns), "t.jsonl")


def config_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


# What labels stand for


@pytest.mark.parametrize(
    ("values", "problem_type", "names"),
    [
        (["pos", "neg", "très bien", "neg"], SINGLE, ("neg", "pos", "très bien")),
        ([5, 1, 3, 10], SINGLE, ("1", "3", "5", "10")),
        ([1, -1, 1], SINGLE, ("-1", "1")),
        (["10", "9", "9"], SINGLE, ("9", "10")),
        (["1", "2", "many"], SINGLE, ("1", "2", "many")),
        (["food", " food", "bus\t"], SINGLE, ("bus", "food")),
        ([True, False], SINGLE, ("False", "True")),
        ([0.5, 2.0], REGRESSION, ("label",)),
        (["0.5", "2", "1e-3"], REGRESSION, ("label",)),
        ([["b", "a"], [], ["b"]], MULTI, ("a", "b")),
    ],
)
def test_what_labels_stand_for_is_told_from_them(values: list[Any], problem_type: str, names: tuple[str, ...]) -> None:
    labels = learn_labels(table(label=values), "label", None, None)
    assert (labels.problem_type, labels.names) == (problem_type, names)
    encoded = labels.encode(table(label=values))
    if problem_type == SINGLE:
        assert [names[index] for index in encoded] == [str(value).strip() for value in values]
    elif problem_type == MULTI:
        assert encoded.tolist() == [[1, 1], [0, 0], [0, 1]]
    else:
        assert encoded.dtype == torch.float32
        assert encoded.tolist() == pytest.approx([float(value) for value in values])


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        (["['food', 'trip']", "['food']", "[]"], "--label-separator ';'"),
        (['["food"]', '["trip"]'], "--label-separator ';'"),
        (['["food", "trip"]', "food"], None),  # one in two is no rule
        (["food;trip", "trip", "food"], "--label-separator ';'"),
        (["food|trip", "trip|bus", "bus"], "--label-separator '|'"),
        (["food, trip", "trip, food, bus", "bus, trip"], "--label-separator ','"),
        (["art", "art;music;old", "film", "music;film", "old"], "--label-separator ';'"),
        (["Home, Garden", "Food, Drink", "Health"], None),
        (["Portland, OR", "Salem, OR", "Boston, MA", "Salem, MA", "Boise, ID"], None),
        (["pos", "neg"], None),
        (["[spam", "ham]"], None),
        (["1", "2"], None),
    ],
)
def test_cells_that_look_like_several_labels_are_pointed_out(values: list[str], hint: str | None) -> None:
    labels = learn_labels(table(label=values), "label", None, None)
    assert labels.problem_type == SINGLE
    said = looks_like_several(labels.names)
    assert (hint in said) if hint else said is None


def test_names_that_datasets_declares_keep_their_order() -> None:
    names = ClassLabel(names=["worst", "good", "best"])
    single = Dataset.from_dict({"label": [2, 0, 2]}, features=Features({"label": names}))
    labels = learn_labels(Table(single, "t"), "label", None, None)
    assert (labels.names, labels.encode(Table(single, "t")).tolist()) == (("worst", "good", "best"), [2, 0, 2])
    several = Dataset.from_dict({"label": [[2, 0], []]}, features=Features({"label": List(names)}))
    labels = learn_labels(Table(several, "t"), "label", None, None)
    assert labels.encode(Table(several, "t")).tolist() == [[1, 0, 1], [0, 0, 0]]


def test_a_guess_can_be_overruled() -> None:
    stars = table(label=[1, 5, 3])
    assert learn_labels(stars, "label", None, REGRESSION).encode(stars).tolist() == [1, 5, 3]
    versions = table(label=["1.5", "2.0", "2.0"])
    assert learn_labels(versions, "label", None, SINGLE).names == ("1.5", "2.0")
    tags = table(label=[["red", None, ""], [" red "], ["big"]])
    labels = learn_labels(tags, "label", None, None)
    assert (labels.names, labels.encode(tags).tolist()) == (("big", "red"), [[0, 1], [0, 1], [1, 0]])
    tags = table(label=["red; big", "", "big"])
    labels = learn_labels(tags, "label", ";", None)
    assert (labels.problem_type, labels.names) == (MULTI, ("big", "red"))
    assert labels.encode(tags).tolist() == [[1, 1], [0, 0], [1, 0]]


@pytest.mark.parametrize(
    ("values", "how", "message"),
    [
        (["a", "a"], {}, "'label' of t.jsonl .* only .*'a'"),
        ([None, None], {}, "has no label"),
        (["a", None, "b"], {}, "row 2 of t.jsonl has no label"),
        (["a", "", "b"], {}, "row 2 of t.jsonl has no label"),
        ([1.5, float("nan")], {}, "row 2 of t.jsonl has no label"),
        (["1.5", "NA", "2.5"], {}, "row 2 of t.jsonl .* 'NA'"),
        (
            ["a", "b"],
            {"problem_type": REGRESSION},
            "row 1 of t.jsonl .* 'a'.* number",
        ),
        (["a", "b"], {"problem_type": MULTI}, "--label-separator"),
        ([["a"], ["b"]], {"problem_type": SINGLE}, "wants one name"),
        ([[1, 0, 0], [0, 1, 1]], {}, r"row 1 of t.jsonl .*twice .*\['1', '0', '0'\]"),
    ],
)
def test_labels_that_cannot_be_learnt_are_named(values: list[Any], how: dict[str, str], message: str) -> None:
    rows = table(label=values)
    with pytest.raises(ValueError, match=message):
        learn_labels(rows, "label", None, how.get("problem_type")).encode(rows)


def test_a_label_that_training_lacks_is_named() -> None:
    labels = learn_labels(table(label=["a", "b"]), "label", None, None)
    with pytest.raises(ValueError, match=r"row 2 of t\.jsonl has the label 'c', .* a, b"):
        labels.encode(table(label=["a", "c"]))
    assert labels.encode_if_given(table(text=["x"])) is None
    assert labels.encode_if_given(table(label=[None, ""])) is None
    with pytest.raises(ValueError, match=r"row 1 of t\.jsonl has no label"):
        labels.encode_if_given(table(label=[None, "a"]))


# Files


def test_every_cell_of_a_csv_is_the_text_that_stands_there(tmp_path: Path) -> None:
    text = '\ufefftext,label\r\n"NA",null\r\n"a ""b"", c\nd",007\r\nnan,1\r\n,x\r\n'
    rows = load_table_file(write(tmp_path / "t.csv", text))
    assert rows["text"][:] == ["NA", 'a "b", c\nd', "nan", ""]
    assert rows["label"][:] == ["null", "007", "1", "x"]


def test_a_quotation_mark_in_a_tsv_is_text(tmp_path: Path) -> None:
    rows = load_table_file(write(tmp_path / "t.tsv", 'label\ttext\nham\t"so he said\nspam\tan "offer"\n'))
    assert rows["text"][:] == ['"so he said', 'an "offer"']


def test_json_and_parquet_keep_their_types(tmp_path: Path) -> None:
    rows = [{"text": "NA", "label": ["a"]}, {"text": "b", "label": []}]
    for name, content in (("t.json", json.dumps(rows)), ("t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))):
        assert load_table_file(write(tmp_path / name, content)).to_list() == rows
    features = Features({"text": Value("string"), "label": ClassLabel(names=["no", "yes"])})
    Dataset.from_dict({"text": ["a"], "label": [1]}, features=features).to_parquet(tmp_path / "t.parquet")
    assert load_table_file(str(tmp_path / "t.parquet")).features["label"].names == ["no", "yes"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "t.csv is empty"),
        ("t.csv", "text,label\n", "t.csv has no rows"),
        ("t.json", "[]", "t.json .* nothing in it"),
        ("t.csv", "\ntext,label\na,b\n", "first line of .*t.csv is blank"),
        ("t.csv", "text,label\na,b\nc,d,e\n", "line 3 of .*t.csv has 3 cells, its first 2"),
        ("t.csv", "text,label\na,b\nc\n", "line 3 of .*t.csv has 1 cells, its first 2"),
        ("t.csv", 'text,label\n"a,b\nc,d\n', "of .*t.csv .*: unexpected end of data"),
        ("t.csv", "text,text\na,b\n", "'text' twice"),
        ("t.csv", b"text,label\ncaf\xe9,b\n", "line 2 of .*t.csv is not in UTF-8"),
        (
            "t.csv",
            "text,label\na,b\n".encode("utf-16"),
            "line 1 of .*t.csv has a NUL byte: .* UTF-16",
        ),
        ("t.csv", "text,label\na,b\n".encode("utf-16-le"), "line 1 of .*t.csv has a NUL byte: .* UTF-16"),
        ("t.jsonl", "{}\nnot json\n", "line 2 of .*t.jsonl is not JSON"),
        ("t.json", "not json", "t.json cannot be read as json"),
        ("t.parquet", "not parquet", "t.parquet cannot be read as parquet"),
        ("t.xlsx", "x", "t.xlsx .*.csv, .tsv, .json, .jsonl or .parquet"),
    ],
)
def test_a_file_that_is_no_table_is_named(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_table_file(write(tmp_path / name, content))


def test_a_missing_file_and_a_missing_column_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"the file .*t\.csv does not exist"):
        load_table_file(str(tmp_path / "t.csv"))
    path = write(tmp_path / "t.csv", "ham,Go until jurong point\nspam,Free\n")  # no header
    with pytest.raises(ValueError, match=r"no column 'text', .* 'ham', 'Go until jurong"):
        Table(load_table_file(path), path).check_column("text")


@pytest.mark.parametrize("value", [["a", "b"], 12, None])
def test_what_is_no_text_is_named_with_its_row(tmp_path: Path, value: Any) -> None:
    rows = table(text=["a", None] if value is None else [value, value])
    with pytest.raises(ValueError, match=rf"row {2 if value is None else 1} of t.jsonl has "):
        rows.check_text("text")


def test_a_folder_gives_its_files_or_what_datasets_finds_in_it(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write(tmp_path / f"{split}.csv", "text,label\na,b\n")
    tables = load_folder(tmp_path)
    assert sorted(tables) == ["test", "train"]
    write(tmp_path / "train-1.CSV", "text,label\nNA,007\n")
    write(tmp_path / "about.json", "{}")
    assert load_folder(tmp_path)["train"].rows[:] == {
        "text": ["NA", "a"],
        "label": ["007", "b"],
    }
    write(tmp_path / "notes.csv", "text,label\na,b\n")
    with pytest.raises(ValueError, match=r"notes\.csv .* split"):
        load_folder(tmp_path)
    (tmp_path / "notes.csv").unlink()
    write(tmp_path / "train.tsv", "text\tlabel\na\tb\n")
    with pytest.raises(ValueError, match=r"has tables of several kinds, such as test\.csv and train\.tsv"):
        load_folder(tmp_path)
    (tmp_path / "data").mkdir()
    Dataset.from_dict({"text": ["a"], "label": ["b"]}).to_parquet(tmp_path / "data" / "data" / "train-0.parquet")
    assert load_folder(tmp_path / "data")["train"].rows["text"][:] == ["a"]


def test_a_tenth_of_each_class_is_held_out_and_no_class_is_lost() -> None:
    classes = np.repeat([0, 1, 2], [50, 20, 1])
    kept, held = stratified_split(classes, 0.1, seed=0)
    assert np.bincount(classes[held], minlength=3).tolist() == [5, 2, 0]
    assert sorted([*kept, *held]) == list(range(71))
    assert not np.array_equal(held, stratified_split(classes, 0.1, seed=1)[1])
    assert [len(rows) for rows in stratified_split(np.zeros(3), 0.1, seed=0)] == [2, 1]
    with pytest.raises(ValueError, match="nothing to hold out of 1 row"):
        stratified_split(np.zeros(1), 0.1, seed=0)


# Rows


def test_pairs_are_framed_and_cut_as_the_tokenizer_does_it(model: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=True)
    texts = ["the dog " * a for a in (1, 9, 2, 5, 4, 0, 3)]
    pairs = ["a cat ran " * b for b in (1, 1, 9, 4, 3, 2, 0)]
    for length in (16, 17):
        dataset = FinetuneDataset(texts, None, tokenizer, length, pairs)
        batch = dataset.__getitems__(range(len(texts)))
        expected = tokenizer(texts, pairs, truncation=True, max_length=length, padding=True, return_tensors="pt")
        for name, values in batch.items():
            assert torch.equal(values, expected[name]), name
        full = tokenizer(texts, pairs)["input_ids"]
        assert dataset.cut == sum(len(ids) > length for ids in full)
        assert dataset.lengths.tolist() == [min(len(ids), length) for ids in full]


def test_rows_that_are_cut_or_left_out_are_counted(model: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=True)
    dataset = FinetuneDataset(["the dog", "", "the dog ran to the door"], [0.5, 1.5, 2.5], tokenizer, 5)
    assert (dataset.cut, dataset.dropped, dataset.row.tolist()) == (1, 1, [0, 2])
    assert dataset.labels.tolist() == [0.5, 2.5]
    assert dataset.unknown == 0
    assert FinetuneDataset(["the dog", "the xylophone"], None, tokenizer).unknown == 0.25
    several = FinetuneDataset(["the dog", "a cat"], torch.tensor([[0.0, 1.0], [1.0, 1.0]]), tokenizer)
    assert several.__getitems__([1])["labels"].tolist() == [[1.0, 1.0]]


# Figures


def test_figures_of_classes_are_those_of_scikit_learn() -> None:
    random = torch.Generator().manual_seed(0)
    logits, truth = torch.randn(60, 3, generator=random), torch.randint(0, 3, (60,), generator=random)
    figures = compute_metrics(logits, truth, ["a", "b", "c"])
    predicted = logits.argmax(1)
    assert figures["accuracy"] == pytest.approx((predicted == truth).float().mean().item())
    assert figures["macro_f1"] == pytest.approx(f1_score(truth, predicted, average="macro"))
    recall = [figures[f"recall_{name}"] for name in "abc"]
    assert recall == pytest.approx(recall_score(truth, predicted, average=None).tolist())
    assert "recall_d" not in compute_metrics(torch.randn(60, 4), truth, ["a", "b", "c", "d"])  # it does not occur


def test_figures_of_several_labels_and_of_numbers() -> None:
    logits = torch.tensor([[2.0, -1.0], [1.0, 1.0], [-1.0, -1.0], [-2.0, 3.0]])
    truth = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    figures = compute_metrics(logits, truth, ["a", "b"])
    assert (figures["exact_match"], figures["micro_f1"]) == (0.75, pytest.approx(6 / 7))
    assert figures["macro_f1"] == pytest.approx((1 + 2 / 3) / 2)
    assert (figures["recall_a"], figures["recall_b"]) == (1.0, 1.0)
    predicted, target = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([1.0, 3.0, 3.5])
    figures = compute_metrics(predicted, target, ["stars"])
    assert figures["loss"] == pytest.approx((0 + 1 + 0.25) / 3)
    assert figures["pearson"] == pytest.approx(stats.pearsonr(predicted[:, 0], target).statistic)
    assert figures["spearman"] == pytest.approx(1.0)
    assert (
        compute_metrics(torch.ones(3, 1), target, ["stars"])["pearson"] == 0.0
    )  # who always says the same knows nothing


def test_the_baseline_says_what_is_commonest_in_training() -> None:
    training, truth = torch.tensor([0, 1, 1, 1]), torch.tensor([0, 0, 1])
    assert with_baseline(torch.randn(3, 2), truth, training, ["a", "b"])["baseline"]["accuracy"] == pytest.approx(1 / 3)
    numbers = with_baseline(torch.randn(2, 1), torch.tensor([1.0, 3.0]), torch.tensor([2.0, 4.0]), ["x"])["baseline"]
    assert numbers["loss"] == pytest.approx((4 + 0) / 2)
    held = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    assert with_baseline(torch.randn(3, 2), held, held, ["a", "b"])["baseline"]["exact_match"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("classes", [2, 20])
def test_a_confusion_matrix_of_long_names_is_drawn(
    classes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    save = plots.save
    monkeypatch.setattr(plots, "save", lambda figure, path: drawn.append(figure) or save(figure, path))
    names = [f"a class with a very long name, ${i}_x and éß" for i in range(classes)]
    truth = torch.arange(classes).repeat(3)
    plots.plot_confusion(truth, truth.roll(1), names, tmp_path / "confusion.png")
    axes = drawn[0].axes[0]
    shares = np.roll(np.eye(classes), -1, axis=1)  # each class is taken for the one before it
    np.testing.assert_array_equal(axes.images[0].get_array(), shares)
    assert [text.get_text() for text in axes.texts] == [str(int(3 * share)) for share in shares.flat]
    assert (tmp_path / "confusion.png").is_file()


# Runs


def test_a_run_keeps_names_measures_and_predicts(run: Callable, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    lines = [
        f'"{text} {i}",{label}' for i in range(20) for text, label in zip(COLOURS, ("hot", "cool", "age"), strict=True)
    ]
    train = write(tmp_path / "train.csv", "\n".join(["what,kind", *lines, ",hot", f'"{"the dog " * 40}",age']) + "\n")
    test = write(tmp_path / "test.csv", 'what,kind\nthe house was red.,hot\n,age\n"the house, was ""old"".",age\n')
    figures = run(
        train_file=train, test_file=test, text_column="what", label_column="kind", epochs=3, learning_rate=5e-3
    )
    said, folder = capsys.readouterr().out, tmp_path / "run"
    assert "one of 3 classes: age, cool, hot" in said
    assert "left out 1 of the" in said
    assert "cut 1 of the" in said
    assert "of the words of" in said  # "hot" colours are, some numbers are not in its vocabulary
    assert config_of(folder)["id2label"] == {"0": "age", "1": "cool", "2": "hot"}
    assert {"train_accuracy", "loss", "accuracy", "macro_f1", "recall_hot"} <= figures.keys()
    results = json.loads((folder / "results.json").read_text())
    assert results["validation"]["model"]["accuracy"] == pytest.approx(figures["accuracy"])
    assert results["validation"]["baseline"]["accuracy"] == pytest.approx(1 / 3, abs=0.1)
    assert {path.name for path in (folder / "figures").iterdir()} == {"confusion.png", "finetuning.png"}
    with open(folder / "predictions.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["what"] for row in rows] == ["the house was red.", "", 'the house, was "old".']
    assert [row["kind"] for row in rows] == ["hot", "age", "age"]
    assert (rows[1]["predicted"], rows[1]["p(hot)"]) == ("", "")  # a text without a word
    classifier = pipeline("text-classification", model=str(folder), trust_remote_code=True)
    for row in (rows[0], rows[2]):
        answer = classifier(row["what"])[0]
        assert row["predicted"] == answer["label"]
        assert float(row[f"p({answer['label']})"]) == pytest.approx(answer["score"], abs=1e-3)
    card = (folder / "README.md").read_text()
    assert all(f"| {split}: macro-F1 |" in card for split in ("validation", "test"))
    assert "- Classes: `age`, `cool`, `hot`\n" in card
    assert re.search("- left out 1 of the .* rows of the (train|validation) split: they have no word\n", card)


def test_several_labels_a_text_are_learnt(run: Callable, tmp_path: Path) -> None:
    rows = [
        {"text": text, "label": tags} for text, tags in zip(COLOURS, (["hot"], ["hot", "cool"], []), strict=True)
    ] * 10
    file = write_rows(tmp_path / "train.jsonl", rows)
    figures = run(train_file=file, validation_file=file, test_file=file)
    assert {"train_micro_f1", "micro_f1", "macro_f1", "exact_match", "loss", "recall_hot"} <= figures.keys()
    assert config_of(tmp_path / "run")["problem_type"] == MULTI
    header, first = (tmp_path / "run" / "predictions.csv").read_text().splitlines()[:2]
    assert header == "text,label,predicted,p(cool),p(hot)"
    assert first.startswith("the house was red.,hot,")
    assert [path.name for path in (tmp_path / "run" / "figures").iterdir()] == ["finetuning.png"]


@pytest.mark.parametrize("separator", [None, ";"])
def test_a_run_says_that_cells_look_like_several_labels(
    separator: str | None, run: Callable, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    cells = ["red;old", "red", "old"] * 8
    rows = [{"text": text, "label": cell} for text, cell in zip(COLOURS * 8, cells, strict=True)]
    run(train_file=write_rows(tmp_path / "t.jsonl", rows), label_separator=separator)
    assert ("'red;old' are taken as one class" in capsys.readouterr().out) is (separator is None)


def test_numbers_are_regressed_on_for_pairs_of_texts(run: Callable, tmp_path: Path) -> None:
    rows = [{"a": a, "b": b, "near": float(a == b)} for a in COLOURS for b in COLOURS] * 4
    file = write_rows(tmp_path / "train.jsonl", rows)
    columns = {"text_column": "a", "text_pair_column": "b", "label_column": "near"}
    figures = run(train_file=file, validation_file=file, test_file=file, **columns)
    assert {"train_loss", "loss", "pearson", "spearman"} <= figures.keys()
    config = config_of(tmp_path / "run")
    assert (config["problem_type"], config["id2label"]) == (REGRESSION, {"0": "near"})
    assert (tmp_path / "run" / "predictions.csv").read_text().startswith("a,b,near,predicted\n")
    baseline = json.loads((tmp_path / "run" / "results.json").read_text())["test"]["baseline"]
    assert baseline["loss"] == pytest.approx(2 / 9, rel=1e-4)
    card = (tmp_path / "run" / "README.md").read_text()
    for split in ("validation", "test"):
        assert re.search(rf"\| {split}: mean squared error \| 0\.\d{{3}} \| the mean in training 0\.222 \|", card)
        assert re.search(rf"\| {split}: correlation \(Pearson's\) \| -?0\.\d{{3}} \| .* 0\.000 \|", card)


@pytest.mark.parametrize("quoted", [False, True])
def test_a_cell_that_a_spreadsheet_would_run_is_quoted_if_asked(quoted: bool, run: Callable, tmp_path: Path) -> None:
    file = write(tmp_path / "t.csv", "text,=label\n" + "=1+2 dogs,@good\n+cats ran,-1\n" * 10)
    run(train_file=file, test_file=file, label_column="=label", quote_formulas=quoted)
    with open(tmp_path / "run" / "predictions.csv", encoding="utf-8", newline="") as lines:
        head, first, second, *_ = csv.reader(lines)
    mark = "'" * quoted
    assert head == ["text", f"{mark}=label", "predicted", "p(-1)", "p(@good)"]
    assert first[:2] == [f"{mark}=1+2 dogs", f"{mark}@good"]
    assert second[:2] == [f"{mark}+cats ran", "-1"]  # a number is no formula


def test_a_test_file_without_labels_is_predicted_all_the_same(run: Callable, tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", "text\tlabel\n" + "the dog ran\t1\nthe cat sat\t-1\n" * 10)
    run(train_file=train, test_file=write(tmp_path / "test.csv", "text\nthe dog ran\n"))
    assert (tmp_path / "run" / "predictions.csv").read_text().startswith("text,predicted,p(-1),p(1)\nthe dog ran,")
    assert "test" not in json.loads((tmp_path / "run" / "results.json").read_text())


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[tuple[float, float]]], list[torch.Tensor]]:
    """Returns a function that makes up the accuracy and the loss of each epoch.

    The function returns a list that collects the classifier's weights after each epoch.
    """

    def make_up(figures: list[tuple[float, float]]) -> list[torch.Tensor]:
        weights: list[torch.Tensor] = []

        def epoch_figures(model: Any, **_: Any) -> dict[str, float]:
            accuracy, loss = figures[len(weights)]
            weights.append(model.classifier.weight.detach().clone())
            return {"train_accuracy": accuracy, "accuracy": accuracy, "loss": loss}

        monkeypatch.setattr(finetune, "epoch_figures", epoch_figures)
        return weights

    return make_up


@pytest.fixture
def animals(tmp_path: Path) -> str:
    return write(tmp_path / "train.csv", "text,label\n" + "the dog ran,a\nthe cat sat,b\n" * 10)


@pytest.mark.parametrize(
    ("metric", "kept", "seen"),
    [("accuracy", 4, 6), ("loss", 1, 3)],  # of two with the same accuracy, the one with the lower loss
)
def test_the_best_epoch_is_kept_and_the_run_ends_when_no_better_one_comes(
    run: Callable, tmp_path: Path, animals: str, pretend: Callable, metric: str, kept: int, seen: int
) -> None:
    weights = pretend([(0.5, 0.1), (0.9, 0.8), (0.4, 0.9), (0.9, 0.7), (0.9, 0.7), (0.8, 0.2), (1.0, 0.1)])
    options = {"train_file": animals, "validation_file": animals, "epochs": 7, "learning_rate": 0.01}
    figures = run(**options, patience=2, best_metric=metric)
    assert (figures["epoch"], len(weights)) == (kept, seen)
    saved = load_file(tmp_path / "run" / "model.safetensors")["classifier.weight"]
    assert [torch.equal(saved, each) for each in weights] == [epoch == kept for epoch in range(1, seen + 1)]


def test_a_run_that_ended_early_ends_at_the_same_epoch_when_it_is_resumed(
    run: Callable, tmp_path: Path, animals: str, pretend: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend([(0.5, 0.5)] * 6)
    options = {"train_file": animals, "validation_file": animals, "epochs": 6, "patience": 2}

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(finetune, "finish", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(**options)
    figures = run(**options, resume=True)
    history = json.loads((tmp_path / "run" / "history.json").read_text())["validation"]
    assert (figures["epoch"], len(history)) == (1, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patience": -1}, "patience .* got -1"),
        ({"problem_type": "ranking"}, "problem_type .* 'ranking'"),
        ({"best_metric": "loss"}, "best_metric=loss .* patience"),
        ({"validation_file": "v.csv"}, "validation_file needs a train_file"),
        ({"corpus": "me/films"}, "train_file or a corpus.*train.csv and me/films"),
        ({"best_metric": "f1", "patience": 1}, "accuracy, macro_f1, loss, .*'f1'"),
        ({"text_column": "sentence"}, "has no column 'sentence', .* has 'text', 'label'"),
        ({"label_column": "kind"}, "has no column 'kind'"),
    ],
)
def test_what_no_run_can_do_is_refused_before_anything_is_written(
    run: Callable, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    file = write(tmp_path / "train.csv", "text,label\na,x\nb,y\n")
    with pytest.raises(ValueError, match=message):
        run(**{"train_file": None if "validation_file" in options else file, **options})
    assert not (tmp_path / "run").exists()


def test_a_bad_test_file_is_refused_before_anything_is_written(run: Callable, tmp_path: Path) -> None:
    train = write(tmp_path / "train.csv", "text,label\nthe dog,x\nthe cat,y\n")
    for content, message in (
        ("text,label\na,z\n", "has the label 'z'"),
        ("text\n \n", "test.csv cannot be used: no text has a word"),
    ):
        with pytest.raises(ValueError, match=message):
            run(train_file=train, test_file=write(tmp_path / "test.csv", content))
        assert not (tmp_path / "run").exists()


def test_names_of_classes_break_neither_the_card_nor_the_log(
    run: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = ["a | b", "<b>c</b>", "two\nlines", "`code`"]
    rows = [{"text": text, "label": kind} for text in COLOURS for kind in kinds] * 4
    run(train_file=write_rows(tmp_path / "train.jsonl", rows))
    said, card = capsys.readouterr().out, (tmp_path / "run" / "README.md").read_text()
    assert "one of 4 classes: <b>c</b>, `code`, a | b, two lines (single" in said
    assert "recall of two lines" in said
    assert "- Classes: `<b>c</b>`, `` `code` ``, `a | b`, `two lines`\n" in card
    assert list(config_of(tmp_path / "run")["id2label"].values()) == sorted(kinds)


def test_of_many_classes_the_lowest_recalls_are_listed() -> None:
    names = [f"kind {number}" for number in range(30)]
    labels = torch.arange(30)
    logits = torch.nn.functional.one_hot((labels + (labels % 10 == 7)) % 30, 30).float()  # three are taken for others
    listed = format_comparison(with_baseline(logits, labels, labels, names), "training").splitlines()
    assert listed[0].endswith("the commonest class in training")
    assert sum("recall" in line for line in listed) == 21
    assert all("0.000" in line for line in listed if re.search("kind [0-9]*7 ", line))
    assert listed[-1] == "  these 20 classes have the lowest recall of 30"


def test_the_card_of_what_was_made_from_the_shipped_model_says_so(run: Callable, tmp_path: Path, animals: str) -> None:
    run(train_file=animals, model=str(finetune.ROOT))
    assert "- Fine-tuned from the shipped ToyBERT\n" in (tmp_path / "run" / "README.md").read_text()


def test_a_classifier_goes_on_with_its_head_and_says_so(
    run: Callable, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    first = write(tmp_path / "first.csv", "text,label\n" + "the dog,x\nthe cat,y\n" * 5)
    other = write(tmp_path / "other.csv", "text,label\n" + "the dog,u\nthe cat,v\n" * 5)
    run(train_file=first)
    start = str(tmp_path / "run")
    run(train_file=first, model=start, output_dir=str(tmp_path / "again"))
    assert "goes on with its head" not in capsys.readouterr().out
    run(train_file=other, model=start, output_dir=str(tmp_path / "on"))
    assert f"{start} is a classifier of x, y: the training goes on with its head" in capsys.readouterr().out


def test_a_classifier_of_other_classes_is_no_start(run: Callable, tmp_path: Path) -> None:
    two = write(tmp_path / "two.csv", "text,label\n" + "the dog,x\nthe cat,y\n" * 5)
    three = write(tmp_path / "three.csv", "text,label\n" + "the dog,x\nthe cat,y\nthe bird,z\n" * 5)
    run(train_file=two)
    with pytest.raises(ValueError, match=r"2 outputs .* 3"):
        run(train_file=three, model=str(tmp_path / "run"), output_dir=str(tmp_path / "other"))


def test_a_fine_tuned_folder_is_evaluated_on_any_file(
    run: Callable, tmp_path: Path, animals: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    figures = run(train_file=animals, validation_file=animals)
    output = tmp_path / "figures.json"
    arguments = ["evaluate", str(tmp_path / "run"), "--test-file", animals, "--output", str(output)]
    monkeypatch.setattr("sys.argv", arguments)
    evaluate.main()
    found = json.loads(output.read_text())
    assert found["model"]["accuracy"] == pytest.approx(figures["accuracy"])
    assert found["baseline"]["accuracy"] == 0.5
    assert "macro f1" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", arguments[:2])
    with pytest.raises(ValueError, match=r"classifier of a, b.* --test-file"):
        evaluate.main()


@pytest.mark.slow
def test_two_processes_learn_measure_and_predict_what_one_does(run: Callable, model: str, tmp_path: Path) -> None:
    """Neither the rows to validate on nor those to predict come out even, nor do they come in the order of length."""
    lines = [f"{'the dog and ' * (i % 5)}{text[:-1]},{text[14:-1]}\n" for i in range(15) for text in COLOURS]
    train, test = (
        write(tmp_path / name, "text,label\n" + "".join(lines[:n])) for name, n in (("t.csv", 43), ("u.csv", 31))
    )
    files = {"train_file": train, "validation_file": test, "test_file": test}
    options = {**files, "epochs": "3", "batch_size": "8", "dropout": "0", "model": model, "patience": "3"}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    config = str(ROOT / "train" / "configs" / "cpu_two_processes.yaml")
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", config]
    command = [*launch, "-m", "toybert.train.finetune", "--output-dir", str(tmp_path / "two"), *words]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert "training on 2 x cpu" in done.stdout
    run(**files, epochs=3, batch_size=16, patience=3)
    one, two = (list(csv.DictReader((tmp_path / name / "predictions.csv").open())) for name in ("run", "two"))
    assert [row["text"] for row in two] == [line.split(",")[0] for line in lines[:31]]
    for row, other in zip(one, two, strict=True):
        assert row["predicted"] == other["predicted"]
        assert float(row["p(red)"]) == pytest.approx(float(other["p(red)"]), abs=1e-3)  # of four decimals
    results = [json.loads((tmp_path / name / "results.json").read_text()) for name in ("run", "two")]
    for split in ("validation", "test"):
        assert results[0][split]["model"] == pytest.approx(results[1][split]["model"], abs=1e-4)


@pytest.mark.parametrize("freeze", [False, True])
def test_words_stay_where_pre_training_put_them_if_that_is_asked_for(
    run: Callable[..., dict[str, Any]], model: str, tmp_path: Path, freeze: bool
) -> None:
    file = write_rows(tmp_path / "rows.jsonl", [{"text": text, "label": i % 2} for i, text in enumerate(COLOURS * 8)])
    run(train_file=file, freeze_embeddings=freeze)
    before, after = (load_file(Path(folder) / "model.safetensors") for folder in (model, tmp_path / "run"))
    words, layer = "bert.embeddings.token.weight", "bert.layers.0.attention.query.weight"
    assert torch.equal(before[words], after[words]) == freeze
    assert not torch.equal(before[layer], after[layer])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_of_low_precision_are_trained_and_saved_in_float32_and_that_is_said(
    run: Callable[..., dict[str, Any]], model: str, tmp_path: Path, capsys: Any, dtype: torch.dtype
) -> None:
    low = Path(shutil.copytree(model, tmp_path / "low"))
    tensors = {name: weight.to(dtype) for name, weight in load_file(low / "model.safetensors").items()}
    save_file(tensors, low / "model.safetensors", {"format": "pt"})
    settings = json.loads((low / "config.json").read_text()) | {"dtype": str(dtype).removeprefix("torch.")}
    (low / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    file = write_rows(tmp_path / "rows.jsonl", [{"text": text, "label": i % 2} for i, text in enumerate(COLOURS * 8)])
    run(train_file=file, model=str(low), epochs=2)
    assert f"are {settings['dtype']}: they are trained and saved as float32" in capsys.readouterr().out
    assert {str(weight.dtype) for weight in load_file(tmp_path / "run" / "model.safetensors").values()} == {
        "torch.float32"
    }
    assert json.loads((tmp_path / "run" / "config.json").read_text()).get("dtype", "float32") == "float32"


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers_are_refused_by_name(
    run: Callable[..., dict[str, Any]], model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    bad = Path(shutil.copytree(model, tmp_path / "bad"))
    tensors = load_file(bad / "model.safetensors")
    tensors["bert.layers.0.attention.query.weight"][0, 0] = value
    save_file(tensors, bad / "model.safetensors", {"format": "pt"})
    file = write_rows(tmp_path / "rows.jsonl", [{"text": text, "label": i % 2} for i, text in enumerate(COLOURS * 8)])
    message = r"weights of .*bad are no numbers: bert\.layers\.0\.attention\.query\.weight"
    with pytest.raises(ValueError, match=message):
        run(train_file=file, model=str(bad))
    monkeypatch.setattr(sys, "argv", ["evaluate", str(bad)])
    with pytest.raises(ValueError, match=message):
        evaluate.main()


def test_whole_numbers_with_a_point_and_classes_of_one_row_are_doubted(
    run: Callable[..., dict[str, Any]], tmp_path: Path, capsys: Any
) -> None:
    rows = [f"{text},{i % 2}.0\n" for i, text in enumerate(COLOURS * 8)]
    run(train_file=write(tmp_path / "train.csv", "text,label\n" + "".join(rows)), epochs=1)
    assert "labels such as 0.0 are learnt as numbers: if they are classes" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "run")
    rows = [f"{text},{'rare' if i == 5 else i % 2}\n" for i, text in enumerate(COLOURS * 8)]
    run(train_file=write(tmp_path / "train.csv", "text,label\n" + "".join(rows)), epochs=1)
    assert "only one training row each has the label rare" in capsys.readouterr().out


def test_the_columns_of_a_wide_table_are_read_in_no_time(tmp_path: Path) -> None:
    names = [f"column {i}" for i in range(50_000)]
    path = write(tmp_path / "wide.csv", ",".join(names) + "\n")
    began = time.perf_counter()
    assert column_names([Path(path)]) == names
    assert time.perf_counter() - began < 3


def test_a_split_of_many_classes_holds_out_the_same_share_of_each() -> None:
    classes = np.repeat(np.arange(20_000), 20)
    began = time.perf_counter()
    kept, held = stratified_split(classes, 0.1, seed=0)
    assert time.perf_counter() - began < 2
    assert (np.bincount(classes[held]) == 2).all()
    assert sorted([*kept, *held]) == list(range(len(classes)))
