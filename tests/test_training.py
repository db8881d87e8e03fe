"""Claims about the training scripts: they learn, repeat and resume exactly, and refuse what would lose something."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import assert_same_run, history, make_checkpoint
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForMaskedLM,
)

import toybert.train.__main__ as story
import toybert.train.loop.loop as loop
from toybert.train import cli
from toybert.train.data.datasets import PretrainDataset
from toybert.train.data.tables import load_corpus
from toybert.train.data.tokens import tokenise
from toybert.train.data.vectors import word_vectors
from toybert.train.data.vocabulary import load_learnt
from toybert.train.finetune import RECIPES as FINETUNE_RECIPES
from toybert.train.finetune import FinetuneOptions, train_finetuning
from toybert.train.hub.folders import load_tokenizer
from toybert.train.loop.checkpoint import checkpoints
from toybert.train.loop.network import VOCABULARY
from toybert.train.measure.plots import plot_pretraining
from toybert.train.pretrain import RECIPES, PretrainOptions, train_pretraining


def write_splits(folder: Path, rows: list[dict[str, Any]]) -> str:
    folder.mkdir()
    for split in ("train", "validation", "test"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(folder)


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Writes 40 documents in which each sentence names a number of its own document."""
    rows = [
        {"sentences": [f"the {thing} number {i} is {word}." for word in ("red", "old", "here", "big")]}
        for i in range(20)
        for thing in ("cat", "house")
    ]
    return write_splits(tmp_path_factory.mktemp("data") / "stories", rows)


@pytest.fixture(scope="module")
def sentiment(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = [
        {"text": f"the {thing} number {i} is {word}.", "label": label}
        for i in range(10)
        for thing in ("cat", "house")
        for word, label in (("red", 0), ("old", 1), ("here", 0))
    ]
    return write_splits(tmp_path_factory.mktemp("data") / "sentiment", rows)


def pretrain(folder: Path, stories: str, **options: Any) -> dict[str, Any]:
    return train_pretraining(
        PretrainOptions(output_dir=str(folder), corpus=stories, **{"epochs": 3, "dropout": 0.1, **options})
    )


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory, stories: str) -> Path:
    """Trains for 3 epochs of 8 steps, with dropout."""
    folder = tmp_path_factory.mktemp("run") / "pretrained"
    pretrain(folder, stories)
    return folder


def test_a_run_learns(pretrained: Path) -> None:
    train, validation = history(pretrained)["train"], history(pretrained)["validation"]
    assert train[-1]["mlm_loss"] < 0.8 * train[0]["mlm_loss"]
    assert [entry["epoch"] for entry in validation] == [1, 2, 3]
    assert [entry["step"] for entry in validation] == [8, 16, 24]
    assert set(train[0]) == {"step", "epoch", "loss", "mlm_loss", "nsp_loss"}
    assert train[0]["loss"] == pytest.approx(train[0]["mlm_loss"] + train[0]["nsp_loss"], rel=1e-5)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(
    pretrained: Path, stories: str, tmp_path: Path
) -> None:
    pretrain(tmp_path / "again", stories)
    pretrain(tmp_path / "other", stories, seed=1)
    assert_same_run(tmp_path / "again", pretrained)
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (pretrained / "model.safetensors").read_bytes()
    assert (tmp_path / "again" / "tokenizer.json").read_bytes() == (pretrained / "tokenizer.json").read_bytes()
    assert history(tmp_path / "other")["train"] != history(pretrained)["train"]


@pytest.mark.parametrize("recipe", ["default", "sooner"])
@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("stop_after", [1, 2])  # checkpoints: in the middle of the first epoch, and of the second
def test_a_resumed_run_is_bit_for_bit_the_run_never_interrupted(
    stories: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int, accumulation: int, recipe: str
) -> None:
    options = {"checkpoint_every": 3 if accumulation == 1 else 1, "gradient_accumulation_steps": accumulation}
    options |= RECIPES[recipe]
    pretrain(tmp_path / "whole", stories, **options)
    saved = []

    def save_then_stop(*arguments: Any) -> None:
        save_checkpoint(*arguments)
        saved.append(arguments)
        if len(saved) == stop_after:
            raise KeyboardInterrupt

    save_checkpoint = loop.save_checkpoint
    with monkeypatch.context() as patch:
        patch.setattr(loop, "save_checkpoint", save_then_stop)
        with pytest.raises(KeyboardInterrupt):
            pretrain(tmp_path / "resumed", stories, **options)
    assert not (tmp_path / "resumed" / "model.safetensors").exists()
    pretrain(tmp_path / "resumed", stories, resume=True, **options)
    assert_same_run(tmp_path / "resumed", tmp_path / "whole")
    steps = [entry["step"] for entry in history(tmp_path / "resumed")["train"]]
    assert steps == sorted(set(steps))


def test_a_run_interrupted_between_an_epochs_last_step_and_its_evaluation_resumes_exactly(
    stories: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"checkpoint_every": 8}  # an epoch has 8 steps: the checkpoint is its last act before it is evaluated
    pretrain(tmp_path / "whole", stories, **options)

    def save_then_stop(*arguments: Any) -> None:
        save_checkpoint(*arguments)
        raise KeyboardInterrupt

    save_checkpoint = loop.save_checkpoint
    with monkeypatch.context() as patch:
        patch.setattr(loop, "save_checkpoint", save_then_stop)
        with pytest.raises(KeyboardInterrupt):
            pretrain(tmp_path / "resumed", stories, **options)
    pretrain(tmp_path / "resumed", stories, resume=True, **options)
    assert_same_run(tmp_path / "resumed", tmp_path / "whole")


def test_a_checkpoint_torn_while_it_was_written_is_not_used(
    stories: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretrain(tmp_path / "whole", stories)

    def tear(source: str, target: str) -> None:
        if Path(target).name == "step-0000016":
            raise OSError("No space left on device")
        replace(source, target)

    replace = os.replace
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", tear)
        with pytest.raises(OSError, match="No space left"):
            pretrain(tmp_path / "torn", stories)
    assert [path.name for path in checkpoints(tmp_path / "torn")] == ["step-0000008"]
    pretrain(tmp_path / "torn", stories, resume=True)
    assert_same_run(tmp_path / "torn", tmp_path / "whole")


def test_only_the_last_two_checkpoints_are_kept(pretrained: Path) -> None:
    assert sorted(path.name for path in (pretrained / "checkpoints").iterdir()) == ["step-0000016", "step-0000024"]


def test_a_folder_that_holds_a_run_is_not_written_over(pretrained: Path, stories: str) -> None:
    before = (pretrained / "model.safetensors").read_bytes()
    with pytest.raises(ValueError, match=r"is not empty: .*--resume"):
        pretrain(pretrained, stories)
    assert (pretrained / "model.safetensors").read_bytes() == before


def test_a_resume_with_another_configuration_names_the_difference(
    pretrained: Path, stories: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"batch_size=32 .* 16"):
        pretrain(pretrained, stories, resume=True, batch_size=16)
    with pytest.raises(FileNotFoundError, match="there is no run to resume"):
        pretrain(tmp_path / "nothing", stories, resume=True)


def test_a_resume_on_other_text_is_refused(stories: str, tmp_path: Path) -> None:
    corpus = Path(shutil.copytree(stories, tmp_path / "stories"))
    pretrain(tmp_path / "run", str(corpus), epochs=1)
    with (corpus / "train.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"sentences": ["the cat is red.", "the cat is old."]}\n')
    with pytest.raises(ValueError, match=r"train\.jsonl is no longer .* run in "):
        pretrain(tmp_path / "run", str(corpus), epochs=1, resume=True)


def test_a_tokenizer_of_another_size_is_refused(pretrained: Path, sentiment: str, tmp_path: Path) -> None:
    grown = Path(shutil.copytree(pretrained, tmp_path / "grown"))
    tokenizer = load_tokenizer(grown)
    tokenizer.add_tokens(["platypus"])
    tokenizer.save_pretrained(grown)
    size = len(tokenizer)
    with pytest.raises(ValueError, match=rf"tokenizer .*{size} .*model .*{size - 1}"):
        train_finetuning(FinetuneOptions(output_dir=str(tmp_path / "run"), model=str(grown), corpus=sentiment))
    assert not (tmp_path / "run").exists()


def test_the_whole_story_resumes_where_it_was_interrupted(
    stories: str, sentiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"stories": stories, "sentiment": sentiment, "epochs": 2, "finetuning_epochs": 2}
    whole = story.train_all(story.Options(output_dir=str(tmp_path / "whole"), **options))

    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    for place, name in ((loop, "save_checkpoint"), (story, "train_finetuning"), (story, "sentiment_report")):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, interrupt)
            resume = (tmp_path / "again").exists()
            with pytest.raises(KeyboardInterrupt):
                story.train_all(story.Options(output_dir=str(tmp_path / "again"), resume=resume, **options))
    again = story.train_all(story.Options(output_dir=str(tmp_path / "again"), resume=True, **options))
    for part in ("mlm", "nsp", "sentiment", "steps"):
        assert again[part] == whole[part]
    assert_same_run(tmp_path / "again" / "sentiment", tmp_path / "whole" / "sentiment")
    assert {path.relative_to(tmp_path / "again").as_posix() for path in (tmp_path / "again").rglob("*.png")} == {
        *(f"figures/{name}.png" for name in ("pretraining", "attention", "neighbours")),
        *(f"sentiment/figures/{name}.png" for name in ("finetuning", "confusion")),
    }
    with pytest.raises(ValueError, match="needs the --output-dir"):
        story.train_all(story.Options(resume=True))


def test_an_interrupted_save_leaves_the_model_that_was_there(
    pretrained: Path, stories: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The final save fails half way; a resume finishes it."""
    import toybert.train.hub.folders as hub

    copy = hub.shutil.copyfile

    def fail(source: Any, target: Any, **options: Any) -> None:
        if "model.unfinished" in str(target):
            raise OSError("No space left on device")
        copy(source, target, **options)

    with monkeypatch.context() as patch:
        patch.setattr(hub.shutil, "copyfile", fail)
        with pytest.raises(OSError, match="No space left"):
            pretrain(tmp_path / "run", stories)
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert not (tmp_path / "run" / "config.json").exists()
    pretrain(tmp_path / "run", stories, resume=True)
    assert_same_run(tmp_path / "run", pretrained)
    assert not (tmp_path / "run" / "model.unfinished").exists()


def test_the_saved_configuration_is_the_models_and_not_the_runs(pretrained: Path) -> None:
    config = json.loads((pretrained / "config.json").read_text())
    root = json.loads((Path(__file__).parents[1] / "config.json").read_text())
    assert config["sparse_prediction"] is False
    apart = ("vocab_size", "transformers_version", "tie_word_embeddings")  # 4.57 leaves the last out where it is True
    assert {k: v for k, v in config.items() if k not in apart} == {k: v for k, v in root.items() if k not in apart}
    assert config["vocab_size"] == len(json.loads((pretrained / "tokenizer.json").read_text())["model"]["vocab"])


def test_training_weights_are_saved_in_float32(pretrained: Path) -> None:
    assert {tensor.dtype for tensor in load_file(pretrained / "model.safetensors").values()} == {torch.float32}


def test_finetuning_moves_every_parameter_and_learns(pretrained: Path, sentiment: str, tmp_path: Path) -> None:
    figures = train_finetuning(
        FinetuneOptions(output_dir=str(tmp_path / "run"), model=str(pretrained), corpus=sentiment, epochs=8)
    )
    assert figures["accuracy"] == figures["train_accuracy"] == 1.0
    before, after = load_file(pretrained / "model.safetensors"), load_file(tmp_path / "run" / "model.safetensors")
    shared = before.keys() & after.keys()
    assert {name for name in after if name not in shared} == {"classifier.weight", "classifier.bias"}
    for name in shared:
        changed = before[name] != after[name]
        if name == "bert.embeddings.token.weight":
            assert changed[5:].any()
        else:
            assert changed.any(), name
    config = AutoConfig.from_pretrained(tmp_path / "run", trust_remote_code=True)
    assert config.id2label == {0: "negative", 1: "positive"}
    assert config.hidden_dropout_prob == 0.1
    history = json.loads((tmp_path / "run" / "history.json").read_text())["validation"]
    assert [entry["epoch"] for entry in history] == list(range(1, 9))
    assert all({"train_accuracy", "accuracy", "loss"} <= set(entry) for entry in history)
    card = (tmp_path / "run" / "README.md").read_text()
    assert "| validation: accuracy | 100.0% | the commonest class in training 66.7% |" in card


def test_a_model_of_fewer_positions_is_finetuned_on_what_it_takes(
    sentiment: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_checkpoint(tmp_path / "short", max_position_embeddings=6)  # the texts have 9 tokens
    options = FinetuneOptions(output_dir=str(tmp_path / "run"), model=str(folder), corpus=sentiment, epochs=1)
    train_finetuning(options)
    assert "cut 60 of the 60" in capsys.readouterr().out


def test_the_card_of_a_run_compares_with_the_commonest_word_at_the_same_targets(pretrained: Path, stories: str) -> None:
    accuracy = history(pretrained)["validation"][-1]["mlm_accuracy"]
    documents = [json.loads(line)["sentences"] for line in (Path(stories) / "validation.jsonl").open()]
    tokenizer = load_tokenizer(pretrained)
    held_out = PretrainDataset(documents, tokenizer)  # its masks are those of epoch 0
    labels = torch.cat([held_out[row]["labels"] for row in range(len(held_out))])
    targets = labels[labels != -100]
    commonest = (targets == tokenizer.convert_tokens_to_ids(".")).float().mean().item()  # one of 7 words is a full stop
    assert 0 < commonest < 0.3
    expected = f"| validation: masked words, 15 % | {accuracy:.1%} | the commonest word {commonest:.1%} |"
    assert expected in (pretrained / "README.md").read_text()


def test_every_file_of_a_run_is_there(pretrained: Path) -> None:
    found = {path.name for path in pretrained.iterdir()}
    assert found - {"special_tokens_map.json"} == {
        "config.json", "configuration_toybert.py", "modeling_toybert.py", "tokenization_toybert.py",
        "model.safetensors", "tokenizer.json", "tokenizer_config.json",
        "README.md", "run.json", "run.vocabulary", "history.json", "figures", "checkpoints",
    }  # fmt: skip


def test_the_picture_of_a_run_shows_its_history(pretrained: Path, tmp_path: Path) -> None:
    logged = history(pretrained)
    plot_pretraining(loop.Progress(train=logged["train"], validation=logged["validation"]), tmp_path)
    drawn = (pretrained / "figures" / "pretraining.png").read_bytes()
    assert drawn == (tmp_path / "pretraining.png").read_bytes()


def test_the_seed_recipe_is_the_plain_one() -> None:
    options = PretrainOptions(output_dir="x", **RECIPES["seed"])
    assert (options.learning_rate, options.schedule, options.mlm_probability) == (1e-4, "constant", 0.15)
    assert (options.batch_size, options.epochs, options.dropout) == (32, 15, 0.1)
    assert (options.muon_learning_rate, options.weight_decay, options.initializer_range) == (0.0, 0.0, 0.02)
    tuned = FinetuneOptions(output_dir="x", **FINETUNE_RECIPES["seed"])
    assert (tuned.learning_rate, tuned.epochs, tuned.schedule, tuned.dropout) == (1e-4, 5, "constant", 0.1)


def test_the_sooner_recipe_hides_fewer_words_from_epoch_to_epoch(
    stories: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = []

    def counting(self: PretrainDataset, rows: Any) -> dict[str, torch.Tensor]:
        batch = getitems(self, rows)
        words = batch["attention_mask"].sum() - 3 * len(rows)
        if len(self.shares) == 3:  # not the validation documents
            shares.append((self.epoch, (batch["labels"] != -100).sum(), words))
        return batch

    getitems = PretrainDataset.__getitems__
    with monkeypatch.context() as patch:
        patch.setattr(PretrainDataset, "__getitems__", counting)
        patch.setattr("toybert.train.pretrain.evaluate_pretraining", lambda *_, **__: {"mlm_accuracy": 0.0})
        pretrain(tmp_path / "run", stories, **RECIPES["sooner"])
    assert {epoch for epoch, *_ in shares} == {0, 1, 2}
    for epoch, expected in enumerate((0.4, 0.275, 0.15)):
        hidden, words = (sum(int(each[n]) for each in shares if each[0] == epoch) for n in (1, 2))
        margin = 0.005 + 5 * (expected * (1 - expected) / words) ** 0.5  # a row has at least one
        assert abs(hidden / words - expected) < margin


def test_a_run_starts_from_the_vectors_of_its_training_text(
    stories: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def stop(model: Any, *_: Any) -> None:
        begun.append(model.get_input_embeddings().weight.detach().clone())
        raise KeyboardInterrupt

    monkeypatch.setattr("toybert.train.pretrain.train", stop)
    for embeddings in ("random", "counts"):
        with pytest.raises(KeyboardInterrupt):
            pretrain(tmp_path / embeddings, stories, embeddings=embeddings)
    words = load_learnt("word", tmp_path / "counts" / VOCABULARY)
    text = load_corpus(stories, ["sentences"], ["train"])["train"]
    vectors = word_vectors(tokenise(text["sentences"], words), len(words), PretrainOptions.hidden_size, seed=0)
    scale = 2 * PretrainOptions.initializer_range
    torch.testing.assert_close((begun[1] - begun[0])[1:], scale * torch.from_numpy(vectors)[1:], rtol=1e-4, atol=1e-6)


def test_the_command_line_takes_defaults_from_the_recipe_and_lets_them_be_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["pretrain", "--output-dir", "x", "--recipe", "seed", "--epochs", "2"])
    assert cli.parse(PretrainOptions, None, RECIPES) == PretrainOptions(
        output_dir="x", **{**RECIPES["seed"], "epochs": 2}
    )
    monkeypatch.setattr(sys, "argv", ["pretrain", "--output-dir", "x"])
    assert cli.parse(PretrainOptions, None, RECIPES) == PretrainOptions(output_dir="x")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs .* 1, got 0"),
        ({"learning_rate": 0.0}, "learning_rate .* 0"),
        ({"batch_size": 33}, "batch_size .* even"),
        ({"vocab_size": 5}, "vocab_size .* 5"),
        ({"initializer_range": 0.0}, "initializer_range .* 0"),
        ({"schedule": "cosine"}, "schedule .* linear or constant"),
        ({"push_to_hub": True}, "push_to_hub .* repo_id"),
        ({"push_to_hub": True, "repo_id": "me/to/bert"}, "me/to/bert"),
        ({"dropout": 1.0}, "dropout .* got 1.0"),
        ({"seed": -1}, "seed .* got -1"),
        ({"weight_decay": float("nan")}, "weight_decay .* got nan"),
        ({"mlm_probability": 0.0}, "mlm_probability .* 0"),
        ({"mlm_probability_end": 1.5}, "mlm_probability_end .* 1.5"),
        ({"mlm_probability_end": 0.1, "streaming": True, "max_steps": 3}, "mlm_probability_end.* streaming"),
        ({"embeddings": "glove"}, "embeddings .* random or counts, got 'glove'"),
        ({"embeddings": "counts", "init_from": "elsewhere"}, "embeddings comes from the checkpoint"),
    ],
)
def test_options_that_no_run_can_have_are_refused(
    stories: str, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        pretrain(tmp_path / "run", stories, **changes)
    assert not (tmp_path / "run").exists()


def test_the_whole_story_asks_what_can_be_wrong_before_it_begins(stories: str, sentiment: str, tmp_path: Path) -> None:
    common = {"output_dir": str(tmp_path / "run"), "stories": stories, "sentiment": sentiment}
    for changes, message in (
        ({"sentiment": str(tmp_path)}, "does not exist"),
        ({"finetuning_epochs": 0}, "epochs .* 1"),
        ({"recipe": "best"}, "recipe .* default, sooner, seed, .*'best'"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            story.train_all(story.Options(**{**common, **changes}))
        assert not (tmp_path / "run").exists()


def test_two_runs_never_take_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [story.first_free_folder() for _ in range(3)] == [f"outputs/toybert-{number}" for number in (1, 2, 3)]


def test_a_folder_of_another_model_is_refused(sentiment: str, tmp_path: Path) -> None:
    BertForMaskedLM(
        BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    ).save_pretrained(tmp_path / "bert")
    with pytest.raises(ValueError, match="bert, not toybert"):
        train_finetuning(
            FinetuneOptions(output_dir=str(tmp_path / "run"), model=str(tmp_path / "bert"), corpus=sentiment)
        )
    assert not (tmp_path / "run").exists()


def test_a_file_is_no_output_folder(stories: str, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(ValueError, match=r"is a file: .*--output-dir"):
        pretrain(tmp_path / "run", stories)
    assert (tmp_path / "run").read_text() == "mine"


def test_a_loss_that_is_no_number_stops_the_run_with_its_step(stories: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the loss is nan at step \d+"):
        pretrain(tmp_path / "run", stories, learning_rate=1e30, max_grad_norm=1e30, epochs=5)


def test_a_checkpoint_that_is_none_is_refused(sentiment: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no config\.json"):
        train_finetuning(
            FinetuneOptions(output_dir=str(tmp_path / "run"), model=str(tmp_path / "empty"), corpus=sentiment)
        )


def test_mistakes_on_the_command_line_are_one_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "toybert.train.pretrain", "--output-dir", tmp_path / "x", "--corpus", tmp_path],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert (
        done.stderr.strip().splitlines()[-1] == f"error: the folder {tmp_path} is empty: it has no text to learn from"
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "x").exists()


def test_saved_runs_load_through_their_auto_classes(pretrained: Path) -> None:
    for auto, new in (
        (AutoModelForPreTraining, set()),
        (AutoModelForSequenceClassification, {"classifier.weight", "classifier.bias"}),
    ):
        _, info = auto.from_pretrained(pretrained, trust_remote_code=True, output_loading_info=True)
        assert set(info["missing_keys"]) == new


@pytest.mark.slow
def test_accelerate_launches_both_scripts_under_bf16_and_the_loss_is_that_of_float32(
    stories: str, sentiment: str, tmp_path: Path
) -> None:
    def launch(precision: str, script: str, *arguments: str) -> None:
        command = ["accelerate", "launch", "--cpu", "--num_processes", "1", "--mixed_precision", precision]
        done = subprocess.run(
            [*command, "-m", f"toybert.train.{script}", *arguments], capture_output=True, text=True, encoding="utf-8"
        )
        assert done.returncode == 0, done.stderr
        assert f"precision {precision}" in done.stdout

    for precision in ("no", "bf16"):
        folder = tmp_path / precision
        launch(precision, "pretrain", "--output-dir", f"{folder}", "--corpus", stories, "--epochs", "6")
        sentiments = f"{folder}-sentiment"
        launch(precision, "finetune", "--output-dir", sentiments, "--model", f"{folder}", "--corpus", sentiment)
        assert {tensor.dtype for tensor in load_file(folder / "model.safetensors").values()} == {torch.float32}
    losses = [history(tmp_path / precision)["train"][-1]["loss"] for precision in ("no", "bf16")]
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="elsewhere the system tells it otherwise")
def test_the_peak_memory_of_a_process_is_not_that_of_its_parent() -> None:
    def measured() -> float:
        code = "from toybert.train.loop.run import peak_memory_mb; print(peak_memory_mb())"
        return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

    alone = measured()  # 340 MB, or 1,120 with a torch for CUDA
    held = bytearray(2**31)  # of this process, which starts the other
    held[::4096] = b"x" * len(held[::4096])
    assert 100 < alone < 2000
    assert abs(measured() - alone) < 100
