"""The whole story in one command: pre-train, fine-tune, evaluate, draw."""

import contextlib
import itertools
import json
import platform
import time
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from datasets import DatasetDict
from transformers import AutoModelForPreTraining

from toybert.train import cli, finetune, pretrain
from toybert.train.corpora.best_possible import beside_the_best
from toybert.train.data.checks import check_labels
from toybert.train.data.labels import SENTIMENT
from toybert.train.data.tables import load_corpus
from toybert.train.evaluate import format_results
from toybert.train.finetune import FinetuneOptions, train_finetuning
from toybert.train.hub.folders import load_model, load_tokenizer
from toybert.train.loop.checkpoint import RECORD
from toybert.train.loop.run import peak_memory_mb
from toybert.train.measure import plots
from toybert.train.measure.classification import sentiment_report
from toybert.train.measure.pretraining import pretraining_report
from toybert.train.pretrain import PretrainOptions, train_pretraining

ATTENTION_EXAMPLE = ("Anna lost the key of her house.", "She looked for it in the garden.")
LIBRARIES = ("torch", "transformers", "tokenizers", "datasets", "accelerate")
NEIGHBOUR_EXAMPLES = ["dog", "river", "anna", "bread", "rain", "good", "ran", "nurse"]


@dataclass
class Options:
    """Holds the options of the whole run."""

    output_dir: str | None = cli.option("Folder for the run (default: outputs/toybert-1, or the next free one).", None)
    recipe: str = cli.option(
        "default, sooner (learns a little more in as many steps) or seed (the plain one).", "default"
    )
    epochs: int | None = cli.option("Epochs of pre-training (default: the recipe's).", None)
    finetuning_epochs: int | None = cli.option("Epochs of fine-tuning (default: the recipe's).", None)
    stories: str = cli.option("Corpus folder for pre-training.", PretrainOptions.corpus)
    sentiment: str = cli.option("Corpus folder for fine-tuning.", FinetuneOptions.corpus)
    seed: int = cli.option("Seed of everything random.", 0)
    resume: bool = cli.option("Continue the run in --output-dir where it was interrupted.", False)


def first_free_folder() -> str:
    """Makes and returns the first of outputs/toybert-1, outputs/toybert-2, ... that does not exist yet."""
    for number in itertools.count(1):
        with contextlib.suppress(FileExistsError):
            Path(f"outputs/toybert-{number}").mkdir(parents=True)
            break
    return f"outputs/toybert-{number}"


def train_all(options: Options) -> dict[str, Any]:
    """Pre-trains, fine-tunes, evaluates and draws; returns what it writes into `output_dir/results.json`."""
    began = time.perf_counter()
    pretraining, finetuning = plan(options)
    stories, sentiment = read_corpora(options)
    finetune.read_tables(finetuning)
    folder = Path(options.output_dir or first_free_folder())  # made only once the files have been checked
    pretraining = replace(pretraining, output_dir=str(folder))
    finetuning = replace(finetuning, output_dir=str(folder / "sentiment"), model=str(folder))

    print(f"1/4 pre-training, into {folder}", flush=True)
    runs = {"pretraining": train_pretraining(pretraining)}
    print(f"\n2/4 fine-tuning on sentiment, into {finetuning.output_dir}", flush=True)
    runs["finetuning"] = train_finetuning(finetuning)

    print("\n3/4 evaluating on the test documents and sentences", flush=True)
    trained, accelerator = time.perf_counter(), Accelerator()
    results = {
        **beside_the_best(pretraining_report(folder, stories, accelerator), folder, options.stories),
        **sentiment_report(folder / "sentiment", sentiment, accelerator),
    }
    print(format_results(results))

    print("\n4/4 drawing", flush=True)
    model, tokenizer = load_model(AutoModelForPreTraining, folder), load_tokenizer(folder)
    plots.plot_attention(model, tokenizer, *ATTENTION_EXAMPLE, folder / "figures" / "attention.png")
    plots.plot_neighbours(model, tokenizer, NEIGHBOUR_EXAMPLES, folder / "figures" / "neighbours.png")
    seconds = {name: run["seconds"] for name, run in runs.items()}
    # A resumed run counts the time before the interruption too.
    before = sum(seconds.values()) if options.resume else trained - began
    seconds["total"] = before + time.perf_counter() - trained
    results |= {
        "steps": {name: int(run["step"]) for name, run in runs.items()},
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "peak_memory_mb": round(peak_memory_mb()),
        "recipe": {"pretraining": recipe_of(pretraining), "finetuning": recipe_of(finetuning)},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
        "threads": torch.get_num_threads(),
    }
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"done in {seconds['total']:.0f} s, with at most {results['peak_memory_mb']} MB of memory")
    print(f"the numbers are in {folder}/results.json, the pictures in {folder}/figures and {folder}/sentiment/figures")
    return results


def plan(options: Options) -> tuple[PretrainOptions, FinetuneOptions]:
    """Makes the options of both runs; their folders are unset if `options` names none."""
    if options.resume and not options.output_dir:
        raise ValueError("--resume needs the --output-dir of the run to continue")
    if options.recipe not in pretrain.RECIPES:
        raise ValueError(f"recipe must be one of {', '.join(pretrain.RECIPES)}, got {options.recipe!r}")
    folder = options.output_dir or ""
    both: dict[str, Any] = {"output_dir": folder, "seed": options.seed}
    first, second = both | pretrain.RECIPES[options.recipe], both | finetune.RECIPES.get(options.recipe, {})
    if options.epochs is not None:
        first["epochs"] = options.epochs
    if options.finetuning_epochs is not None:
        second["epochs"] = options.finetuning_epochs
    begun = options.resume and (Path(folder) / "sentiment" / RECORD).is_file()
    return (
        PretrainOptions(corpus=options.stories, resume=options.resume, **first),
        FinetuneOptions(corpus=options.sentiment, resume=begun, **second),
    )


def read_corpora(options: Options) -> tuple[DatasetDict, DatasetDict]:
    """Loads both corpora, and refuses labels other than sentiment before any training starts."""
    stories, sentiment = load_corpus(options.stories, ["sentences"]), load_corpus(options.sentiment, ["text", "label"])
    for split, rows in sentiment.items():
        check_labels(rows["label"], len(SENTIMENT), f"{split}.jsonl in {options.sentiment}")
    return stories, sentiment


def recipe_of(options: PretrainOptions | FinetuneOptions) -> dict[str, Any]:
    """Returns the options that decide what a run learns."""
    left_out = ["output_dir", "resume", "push_to_hub", "repo_id", "corpus", "model", "checkpoint_every"]
    left_out += ["text_column", "label_column", "quote_formulas"]
    return {name: value for name, value in asdict(options).items() if name not in left_out and value is not None}


if __name__ == "__main__":
    cli.run(lambda: train_all(cli.parse(Options, __doc__)))
