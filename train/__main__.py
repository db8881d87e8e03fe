"""The whole story in one command: pre-train, fine-tune, evaluate, draw."""

import json
import platform
import resource
import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from transformers import AutoModelForPreTraining

from toybert.train import cli, plots
from toybert.train.data import load_corpus
from toybert.train.evaluate import classification_report, pretraining_report, table
from toybert.train.finetune import FinetuneOptions, train_finetuning
from toybert.train.hub import load_model, load_tokenizer
from toybert.train.pretrain import PretrainOptions, train_pretraining

ATTENTION_EXAMPLE = ("Anna lost the key of her house.", "She looked for it in the garden.")
NEIGHBOUR_EXAMPLES = ["dog", "river", "anna", "bread", "rain", "good", "ran", "nurse"]


@dataclass
class Options:
    """Holds the options of the whole run."""

    output_dir: str | None = field(default=None, metadata={"help": "Default: the first free of outputs/toybert-1, -2 ..."})
    recipe: str = field(default="default", metadata={"help": "default, or seed: the plain recipe of the specification."})
    epochs: int | None = field(default=None, metadata={"help": "Epochs of pre-training."})
    finetuning_epochs: int | None = field(default=None, metadata={"help": "Epochs of fine-tuning."})
    stories: str = field(default=PretrainOptions.corpus, metadata={"help": "The corpus folder for pre-training."})
    sentiment: str = field(default=FinetuneOptions.corpus, metadata={"help": "The corpus folder for fine-tuning."})
    seed: int = field(default=0, metadata={"help": "Of everything random."})


def first_free_folder() -> str:
    """Gives the first of outputs/toybert-1, outputs/toybert-2, ... that does not exist."""
    number = 1
    while Path(f"outputs/toybert-{number}").exists():
        number += 1
    return f"outputs/toybert-{number}"


def train_all(options: Options) -> dict[str, Any]:
    """Pre-trains into `output_dir`, fine-tunes into `output_dir/sentiment`, evaluates both and draws.

    Returns:
        What `output_dir/results.json` holds.
    """
    began = time.perf_counter()
    folder = Path(options.output_dir or first_free_folder())
    seconds, steps = {}, {}
    common: dict[str, Any] = {"recipe": options.recipe, "seed": options.seed}

    print(f"1/4 pre-training, into {folder}", flush=True)
    pretraining = PretrainOptions(output_dir=str(folder), corpus=options.stories, epochs=options.epochs, **common)
    steps["pretraining"], seconds["pretraining"] = (train_pretraining(pretraining)[name] for name in ("step", "seconds"))
    print(f"\n2/4 fine-tuning on sentiment, into {folder / 'sentiment'}", flush=True)
    finetuning = FinetuneOptions(
        output_dir=str(folder / "sentiment"),
        model=str(folder),
        corpus=options.sentiment,
        epochs=options.finetuning_epochs,
        **common,
    )
    steps["finetuning"], seconds["finetuning"] = (train_finetuning(finetuning)[name] for name in ("step", "seconds"))

    print("\n3/4 evaluating on the test documents and sentences", flush=True)
    accelerator = Accelerator()
    stories, sentiment = load_corpus(options.stories, ["sentences"]), load_corpus(options.sentiment, ["text", "label"])
    results = {
        **pretraining_report(folder, stories, accelerator),
        **classification_report(folder / "sentiment", sentiment, accelerator),
    }
    print(table(results))

    print("\n4/4 drawing", flush=True)
    draw(folder)
    seconds["total"] = time.perf_counter() - began
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


def draw(folder: Path) -> None:
    """Draws what there is to see in a pre-trained model itself."""
    model, tokenizer = load_model(AutoModelForPreTraining, folder), load_tokenizer(folder)
    plots.plot_attention(model, tokenizer, *ATTENTION_EXAMPLE, folder / "figures" / "attention.png")
    plots.plot_neighbours(model, tokenizer, NEIGHBOUR_EXAMPLES, folder / "figures" / "neighbours.png")


def recipe_of(options: PretrainOptions | FinetuneOptions) -> dict[str, Any]:
    """Gives the options that make the result what it is."""
    left_out = {"output_dir", "resume", "push_to_hub", "repo_id", "corpus", "model", "checkpoint_every"}
    return {name: value for name, value in vars(options).items() if name not in left_out}


def peak_memory_mb() -> float:
    """Gives the most memory that this process has held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


if __name__ == "__main__":
    cli.run(lambda: train_all(cli.parse(Options, __doc__)))
