"""Claims about failure: whatever is wrong, a script says so in one sentence, with exit code 1, or 2 for usage."""

import json
import pickle
import re
import shlex
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from helpers import make_checkpoint
from safetensors import SafetensorError

from toybert.train import cli, convert, evaluate, publish
from toybert.train.finetune import FinetuneOptions, train_finetuning
from toybert.train.hub.card import command
from toybert.train.hub.folders import ROOT, load_config, load_tokenizer, read_json
from toybert.train.pretrain import RECIPES, PretrainOptions

CORPUS = [{"text": "the cat sat .", "label": 1}, {"text": "it slept .", "label": 0}]


def fails(main: Callable[[], Any], *arguments: object, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a script that has to fail with exit code 1, and returns its one sentence."""
    monkeypatch.setattr("sys.argv", ["script", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        cli.run(main)
    said = stop.value.code
    assert isinstance(said, str)  # Python prints it, and its exit code is 1
    assert said.startswith("error: ")
    assert len(said.splitlines()) == 1
    return said


def raising(error: BaseException) -> Callable[[], None]:
    def main() -> None:
        raise error

    return main


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("cli") / "whole", num_hidden_layers=1)


@pytest.fixture
def checkpoint(whole: Path, tmp_path: Path) -> Path:
    """Returns a checkpoint that the test may damage."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for path in whole.iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def finetune() -> None:
    train_finetuning(cli.parse(FinetuneOptions, None))


@pytest.mark.parametrize("error", [ValueError("epochs is 0"), FileNotFoundError("epochs\n  is 0")])
def test_what_a_user_can_mend_is_said_as_it_is(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fails(raising(error), monkeypatch=monkeypatch) == "error: epochs is 0"


@pytest.mark.parametrize(
    "error",
    [
        SafetensorError("invalid header"),
        pickle.UnpicklingError("invalid header"),
        RuntimeError("invalid header"),
        TypeError("invalid header"),
        json.JSONDecodeError("invalid header", "x", 0),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid header"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_nobody_expected_is_one_sentence_that_leads_to_the_traceback(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = fails(raising(error), monkeypatch=monkeypatch)
    assert said.startswith(f"error: unexpected {type(error).__name__}: ")
    assert "invalid header" in said
    assert said.endswith("(run it again with --debug to see where)")


def test_the_cause_of_what_nobody_expected_is_said_too(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("an error occurred")
    error.__cause__ = ValueError("row 3 is empty")
    assert "an error occurred row 3 is empty" in fails(raising(error), monkeypatch=monkeypatch)


def pretraining(monkeypatch: pytest.MonkeyPatch, *words: str) -> PretrainOptions:
    """Reads the options of a pre-training run from words as one types them."""
    monkeypatch.setattr("sys.argv", ["script", "--output-dir", "x", *words])
    return cli.parse(PretrainOptions, None, RECIPES)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--learning_rate", "0.5", "--min_frequency=3"], {"learning_rate": 0.5, "min_frequency": 3}),
        (["--no-nsp", "--split_sentences"], {"nsp": False, "split_sentences": True}),
        (["--no_nsp", "--nsp"], {}),  # the last one counts
        (["--nsp", "false", "--split-sentences", "True"], {"nsp": False, "split_sentences": True}),
        (["--pack", "true"], {"pack": True}),
        (["--no-pack"], {"pack": False}),
        (["--text-column", "true", "--corpus", "a_b--c_d"], {"text_column": "true", "corpus": "a_b--c_d"}),
        (["--intermediate-size", "12"], {"intermediate_size": 12}),
    ],
)  # fmt: skip
def test_an_option_can_be_typed_as_other_scripts_spell_it(
    words: list[str], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pretraining(monkeypatch, *words) == PretrainOptions(output_dir="x", **expected)


@pytest.mark.parametrize("word", ["--conf", "--hidden", "--nsp=perhaps"])
def test_half_a_name_and_half_a_switch_are_refused(
    word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        pretraining(monkeypatch, word, "64")
    assert stop.value.code == 2
    assert word.partition("=")[0] in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("options_class", [PretrainOptions, FinetuneOptions])
def test_the_help_shows_each_option_once_under_its_heading(
    options_class: type, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["script", "--recipe", "seed", "--help"])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        cli.parse(options_class, None, RECIPES)
    assert stop.value.code == 0
    general, *headed = re.split(r"^(\w+):$", capsys.readouterr().out.partition("\noptions:\n")[2], flags=re.MULTILINE)
    assert set(re.findall(r"--[\w-]+", general)) == {"--config", "--recipe", "--help"}
    assert headed[::2] == ["data", "model", "recipe", "run", "hub"]
    shown = re.findall(r"^  --(?!no-)([\w-]+)", "".join(headed[1::2]), re.MULTILINE)
    assert sorted(shown) == sorted(each.name.replace("_", "-") for each in fields(options_class))
    text = " ".join(" ".join(headed[1::2]).split())
    assert "default: None" not in text
    assert str(ROOT) not in text
    assert "learning rate (default: 0.0001)." in text  # the recipe's
    assert "(required)" in text


@pytest.mark.parametrize("error", [ValueError("x"), OSError("x"), TypeError("x")])
def test_debug_shows_the_traceback(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["script", "--debug"])
    with pytest.raises(type(error)):
        cli.run(raising(error))


def test_no_script_sees_debug_among_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[FinetuneOptions] = []
    monkeypatch.setattr("sys.argv", ["script", "--output-dir", "x", "--debug", "--seed", "3"])
    cli.run(lambda: seen.append(cli.parse(FinetuneOptions, None)))
    assert seen == [FinetuneOptions(output_dir="x", seed=3)]


@pytest.mark.parametrize("main", [convert.main, evaluate.main, finetune], ids=["convert", "evaluate", "finetune"])
def test_every_script_tells_of_debug_in_its_help(
    main: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["script", "--help"])
    with pytest.raises(SystemExit) as stop:
        cli.run(main)
    assert stop.value.code == 0
    assert "--debug" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--epochs", "0", "--output-dir", "x"], "epochs must be .* got 0"),
        (["--epochs", "three", "--output-dir", "x"], "--epochs: .*'three'"),
        (["--output-dri", "x"], "--output-dir"),
        ([], "--output-dir"),
    ],
)
def test_a_mistake_in_the_options_is_named_and_exit_code_2(
    arguments: list[str], named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["script", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.run(finetune)
    assert stop.value.code == 2
    assert re.search(f"error: .*{named}", capsys.readouterr().err.splitlines()[-1])


def test_an_interruption_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["script"])
    with pytest.raises(SystemExit, match="interrupted"):
        cli.run(raising(KeyboardInterrupt()))


@pytest.mark.parametrize("kept", [0, 4, 1000])
def test_torn_weights_are_named_by_every_script(
    kept: int, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = checkpoint / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    corpus = make_corpus(tmp_path)
    finetuning = ["--model", checkpoint, "--corpus", corpus, "--output-dir", tmp_path / "run"]
    for main, arguments in (
        (evaluate.main, [checkpoint]),
        (convert.main, [checkpoint, tmp_path / "bert"]),
        (finetune, finetuning),
    ):
        said = fails(main, *arguments, monkeypatch=monkeypatch)
        assert str(checkpoint) in said
        assert "unexpected" not in said


def make_corpus(folder: Path) -> Path:
    for split in ("train", "validation", "test"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CORPUS), encoding="utf-8")
    return folder


def test_weights_of_another_shape_are_not_called_damaged(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = read_json(checkpoint / "config.json")
    (checkpoint / "config.json").write_text(json.dumps(config | {"intermediate_size": 8}), encoding="utf-8")
    said = fails(evaluate.main, checkpoint, monkeypatch=monkeypatch)
    assert f"the model of {checkpoint} can't be read" in said
    assert "its tensors have other shapes than its config.json says" in said


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", [b"", b"[1]", b"hello", b"\xff\xfe{\x00}\x00", b"{}"])
def test_a_file_that_is_not_what_it_should_be_leads_to_its_folder(
    name: str, content: bytes, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkpoint / name).write_bytes(content)
    if (name, content) == ("tokenizer_config.json", b"{}"):
        return  # says nothing, which is allowed
    load = load_config if name == "config.json" else load_tokenizer
    said = fails(lambda: load(checkpoint), monkeypatch=monkeypatch)
    assert str(checkpoint) in said
    assert "unexpected" not in said


def test_results_that_are_none_stop_publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "results.json").write_text("[]", encoding="utf-8")
    (tmp_path / "README.md").write_text("# A card", encoding="utf-8")
    monkeypatch.setattr(publish, "ROOT", tmp_path)
    options = publish.PublishOptions(repo_id="me/toybert", dry_run=True)
    assert "results.json holds a JSON list, not an object" in fails(
        lambda: publish.publish(options), monkeypatch=monkeypatch
    )


def test_a_model_that_can_not_be_had_from_the_hub_is_named() -> None:
    with pytest.raises(OSError, match="google/bert"):  # some versions of the library name it themselves
        load_config("google/bert")


def test_an_option_that_is_not_there_is_named_in_the_last_line_of_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["script", "--output-dir", "x", "--train-file", "x", "--leraning-rate", "3"])
    with pytest.raises(SystemExit) as stop:
        cli.run(finetune)
    assert stop.value.code == 2
    usage, said = capsys.readouterr().err.splitlines()
    assert usage.endswith("[options]; --help lists them")
    assert said.endswith("error: there is no option --leraning-rate")


@pytest.mark.parametrize(
    "changes",
    [{}, {"nsp": False, "pack": True}, {"streaming": True, "max_steps": 16}, {"pack": False, "text_column": "a b"}],
)
def test_the_command_on_a_card_gives_the_options_that_the_run_had(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = PretrainOptions(output_dir="out", **changes)
    words = shlex.split(command("pretrain", options))
    assert words[:4] == ["accelerate", "launch", "-m", "toybert.train.pretrain"]
    monkeypatch.setattr("sys.argv", ["script", *words[4:]])
    assert cli.parse(PretrainOptions, None, RECIPES) == options
    assert ("--no-nsp" in words) == (not options.nsp)
    assert not {"True", "False"} & set(words) or options.pack is not None


def test_the_command_on_a_card_keeps_a_value_that_begins_with_a_hyphen(monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(command("finetune", FinetuneOptions(output_dir="out", label_column="--resume")))
    monkeypatch.setattr("sys.argv", ["script", *words[4:]])
    assert cli.parse(FinetuneOptions, None).label_column == "--resume"
