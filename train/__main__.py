"""The whole story in one command: pre-train, fine-tune, evaluate, draw."""

import itertools
import json
import platform
import resource
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from transformers import AutoModelForPreTraining

from toybert.train import cli, finetune, pretrain
from toybert.train.data.checks import check_labels
from toybert.train.data.labels import SENTIMENT
from toybert.train.data.tables import load_corpus
from toybert.train.evaluate import format_results
from toybert.train.finetune import FinetuneOptions, train_finetuning
from toybert.train.hub.folders import load_model, load_tokenizer
from toybert.train.measure import plots
from toybert.train.measure.classification import sentiment_report
from toybert.train.measure.pretraining import pretraining_report
from toybert.train.pretrain import PretrainOptions, train_pretraining

ATTENTION_EXAMPLE = ("Anna lost the key of her house.", "She looked for it in the garden.")
NEIGHBOUR_EXAMPLES = ["dog", "river", "anna", "bread", "rain", "good", "ran", "nurse"]


@dataclass
class Options:
    """Holds the options of the whole run."""

    output_dir: str | None = field(
        default=None, metadata={"help": "Default: the first free of outputs/toybert-1, -2 ..."}
    )
    recipe: str = field(default="default", metadata={"help": "default, or seed: the plain one, for comparison."})
    epochs: int | None = field(default=None, metadata={"help": "Epochs of pre-training (default: the recipe's)."})
    finetuning_epochs: int | None = field(default=None, metadata={"help": "Epochs of fine-tuning (likewise)."})
    stories: str = field(default=PretrainOptions.corpus, metadata={"help": "The corpus folder for pre-training."})
    sentiment: str = field(default=FinetuneOptions.corpus, metadata={"help": "The corpus folder for fine-tuning."})
    seed: int = field(default=0, metadata={"help": "Of everything random."})
    resume: bool = field(default=False, metadata={"help": "Continue the run in output_dir where it was interrupted."})


def first_free_folder() -> str:
    """Claims the first of outputs/toybert-1, outputs/toybert-2, ... that does not exist, by making it."""
    for number in itertools.count(1):
        folder = Path(f"outputs/toybert-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return str(folder)
    raise AssertionError("counting does not end")


def train_all(options: Options) -> dict[str, Any]:
    """Pre-trains into `output_dir`, fine-tunes into `output_dir/sentiment`, evaluates both and draws.

    Returns:
        What `output_dir/results.json` holds.
    """
    began = time.perf_counter()
    if options.resume and not options.output_dir:
        raise ValueError("--resume needs the --output-dir of the run that it is to continue")
    for recipes in (pretrain.RECIPES, finetune.RECIPES):
        if options.recipe not in recipes:
            raise ValueError(f"recipe must be one of {', '.join(recipes)}, got {options.recipe!r}")
    # What can be wrong with the files and the options is asked before the first minute is spent.
    stories, sentiment = load_corpus(options.stories, ["sentences"]), load_corpus(options.sentiment, ["text", "label"])
    for split, rows in sentiment.items():
        check_labels(rows["label"], len(SENTIMENT), f"{split}.jsonl in {options.sentiment}")
    pretraining = PretrainOptions(
        output_dir="",
        corpus=options.stories,
        seed=options.seed,
        resume=options.resume,
        **{**pretrain.RECIPES[options.recipe], **given("epochs", options.epochs)},
    )
    finetuning = FinetuneOptions(
        output_dir="",
        corpus=options.sentiment,
        seed=options.seed,
        **{**finetune.RECIPES[options.recipe], **given("epochs", options.finetuning_epochs)},
    )
    finetune.read_tables(finetuning)
    folder = Path(options.output_dir or first_free_folder())
    pretraining = replace(pretraining, output_dir=str(folder))
    finetuning = replace(
        finetuning,
        output_dir=str(folder / "sentiment"),
        model=str(folder),
        resume=options.resume and (folder / "sentiment" / "run.json").is_file(),
    )
    seconds: dict[str, float] = {}
    steps: dict[str, int] = {}

    print(f"1/4 pre-training, into {folder}", flush=True)
    steps["pretraining"], seconds["pretraining"] = step_and_seconds(train_pretraining(pretraining))
    print(f"\n2/4 fine-tuning on sentiment, into {folder / 'sentiment'}", flush=True)
    steps["finetuning"], seconds["finetuning"] = step_and_seconds(train_finetuning(finetuning))

    print("\n3/4 evaluating on the test documents and sentences", flush=True)
    evaluated = time.perf_counter()
    accelerator = Accelerator()
    results = {
        **pretraining_report(folder, stories, accelerator),
        **sentiment_report(folder / "sentiment", sentiment, accelerator),
    }
    print(format_results(results))

    print("\n4/4 drawing", flush=True)
    draw(folder)
    seconds["total"] = time.perf_counter() - began
    if options.resume:  # the part before the interruption was another process's
        seconds["total"] = seconds["pretraining"] + seconds["finetuning"] + time.perf_counter() - evaluated
    results |= {
        "steps": steps,
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "peak_memory_mb": round(peak_memory_mb()),
        "recipe": {"pretraining": recipe_of(pretraining), "finetuning": recipe_of(finetuning)},
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "transformers", "tokenizers", "datasets", "accelerate")},
        },
        "threads": torch.get_num_threads(),
    }
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(
        f"done in {seconds['total']:.0f} s, at most {results['peak_memory_mb']} MB of memory: "
        f"the numbers are in {folder / 'results.json'}, the pictures in {folder / 'figures'} and "
        f"{folder / 'sentiment' / 'figures'}"
    )
    return results


def given(name: str, value: Any) -> dict[str, Any]:
    """Gives an option by its name, or nothing where it was left out."""
    return {} if value is None else {name: value}


def step_and_seconds(figures: dict[str, Any]) -> tuple[int, float]:
    """Gives how many steps a run made, and how long it took."""
    return int(figures["step"]), figures["seconds"]


def draw(folder: Path) -> None:
    """Draws what there is to see in a pre-trained model itself."""
    model, tokenizer = load_model(AutoModelForPreTraining, folder), load_tokenizer(folder)
    plots.plot_attention(model, tokenizer, *ATTENTION_EXAMPLE, folder / "figures" / "attention.png")
    plots.plot_neighbours(model, tokenizer, NEIGHBOUR_EXAMPLES, folder / "figures" / "neighbours.png")


def recipe_of(options: PretrainOptions | FinetuneOptions) -> dict[str, Any]:
    """Gives the options that make the result what it is."""
    left_out = {"output_dir", "resume", "push_to_hub", "repo_id", "corpus", "model", "checkpoint_every"}
    left_out |= {"text_column", "label_column"}
    return {name: value for name, value in asdict(options).items() if name not in left_out and value is not None}


def peak_memory_mb() -> float:
    """Gives the most memory that this process has held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


if __name__ == "__main__":
    cli.run(lambda: train_all(cli.parse(Options, __doc__)))
