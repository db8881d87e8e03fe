"""The model card that a run leaves in its folder: what was trained, on what, how, and how well."""

import hashlib
import os
import shlex
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from toybert.train.hub.escape import block, code, in_line, in_quotes, plain
from toybert.train.hub.folders import is_hub_id

MARK = "\n<!-- Written by toybert.train, which leaves this card as it is once you have edited it. "
TASKS = {"pretrain": "fill-mask", "finetune": "text-classification"}  # of each script, in the Hub's terms
TAGS = ["bert", "toybert", "custom_code"]
FIGURES = {  # a figure's names on the card and on the Hub; any other is an accuracy, under its own name on the card
    "macro_f1": ("macro-F1", "f1"),
    "micro_f1": ("micro-F1", "f1"),
    "exact_match": ("all labels right", "accuracy"),
    "loss": ("mean squared error", "mse"),  # of a regression; the loss of a classifier is not on the card
    "pearson": ("correlation (Pearson's)", "pearsonr"),
    "spearman": ("correlation of the ranks (Spearman's)", "spearmanr"),
}
Result = tuple[str, str, float, str, float]  # a split, a figure's name and value, its baseline's name and value


def shown(path: str) -> str:
    """Returns a path fit for others to see: relative to the working directory if it is inside, else its last part."""
    relative = os.path.relpath(path)  # leaves a Hub id as it is
    return Path(path).resolve().name if relative == "." or relative.startswith("..") else relative


def command(step: str, options: Any) -> str:
    """Returns the command line that repeats a run: each option that is not at its default."""
    words = ["accelerate", "launch", "-m", f"toybert.train.{step}"]
    for each in fields(options):
        value, name = getattr(options, each.name), each.name.replace("_", "-")
        if value == each.default or name in ("resume", "push-to-hub", "repo-id"):
            continue
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            is_path = name in ("corpus", "model", "init-from", "output-dir") or name.endswith("-file")
            word = shown(value) if is_path else str(value)
            words += [f"--{name}={word}"] if word.startswith("-") else [f"--{name}", word]
    return shlex.join(words)


def signed(card: str) -> str:
    """Returns a card with a last line that holds its hash, from which an edit can be told."""
    return f"{card}{MARK}{hashlib.sha256(card.encode()).hexdigest()} -->\n"


def is_edited(card: str) -> bool:
    """Tells whether a card is anything but what `signed` returned."""
    return card != signed(card.rpartition(MARK)[0])


def fill(path: Path, template: str, head: ModelCardData, **values: Any) -> None:
    """Writes a card from one of the templates beside this file, whole or not at all."""
    where, name = Path(__file__).with_name(template), path.parent.resolve().name
    card = ModelCard.from_template(head, str(where), name=plain(name), **values)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(signed(f"{card}\n"), encoding="utf-8")
    unfinished.replace(path)


def write_card(step: str, model: Any, options: Any, progress: Any, data: list[str], results: list[Result]) -> None:
    """Writes README.md into the folder of a run (pretrain or finetune), unless a person has edited the one there.

    `data` are sentences on what the run learnt from; `results` are the rows of the table of figures.
    """
    path = Path(options.output_dir) / "README.md"
    if path.exists() and is_edited(path.read_text(encoding="utf-8", errors="replace")):
        print(f"left {path} as it is: somebody has edited it")
        return
    figures, rows = [], []
    for split, name, value, baseline, its in results:
        title, kind = FIGURES.get(name, (name, "accuracy"))
        form = ".3f" if kind in ("mse", "pearsonr", "spearmanr") else ".1%"
        rows.append((f"{split}: {title}", f"{value:{form}}", f"{baseline} {its:{form}}"))
        corpus = next(
            filter(None, (getattr(options, f"{part}_file", None) for part in (split, "train"))), options.corpus
        )
        corpus = in_line(Path(corpus).name)
        figures.append(EvalResult(
            task_type=TASKS[step], dataset_type=corpus, dataset_name=corpus, dataset_split=split,
            metric_type=kind, metric_name=title, metric_value=round(value, 4),
        ))  # fmt: skip
    head = ModelCardData(
        library_name="transformers", pipeline_tag=TASKS[step], tags=TAGS,
        model_name=in_line(path.parent.resolve().name), eval_results=figures,
        base_model=options.model if step == "finetune" and is_hub_id(options.model) else None,  # not for a local folder
    )  # fmt: skip
    fill(
        path, "card_template.md", head,
        config=model.config, options=options, progress=progress, data=data, results=rows,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        where=in_quotes(options.repo_id or shown(options.output_dir)), command=block(command(step, options), "bash"),
        torch=version("torch"), transformers=version("transformers"),
    )  # fmt: skip


def write_conversion_card(
    folder: Path, source: str | Path, revision: str | None, config: Any, left_out: list[str]
) -> None:
    """Writes README.md into a converted folder: what it was made from, and how."""
    to_bert = config.model_type == "bert"
    tags, base = ["bert"] if to_bert else TAGS, str(source) if is_hub_id(source) else None
    head = ModelCardData(library_name="transformers", base_model=base, tags=tags)
    values = {"source": code(shown(str(source))), "to_bert": to_bert, "left_out": [code(name) for name in left_out]}
    revision = revision and code(revision)
    fill(folder / "README.md", "conversion_template.md", head, revision=revision, **values)
