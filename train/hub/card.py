"""The model card that a run leaves in its folder: what was trained, on what, how, and how well."""

import os
import shlex
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from toybert.train.hub.folders import is_hub_id

MARK = "<!-- Written by toybert.train. Take this line out to make the card your own: it is then left as it is. -->"
TEMPLATE = """---
{head}
---

{MARK}

# {name}

A ToyBERT, which is BERT in a few hundred lines: {c.num_hidden_layers} layers, {c.hidden_size} wide,
{c.num_attention_heads} heads, {parameters:,} parameters.

```python
from transformers import pipeline

model = pipeline("{task}", model="{where}", trust_remote_code=True)
print(model({example}))
```

`trust_remote_code=True` runs the Python files of this folder: read them, and pin the `revision` that you have read.

## Data

{data}

## Results

| | this model | without a network |
|---|---|---|
{results}

The validation split was looked at after each epoch: `python -m toybert.train.evaluate` measures on other text.

![Losses and accuracies](figures/{picture}.png)

## Training

```bash
{command}
```

{p.step:,} steps in {p.seconds:,.0f} s, with torch {torch} and transformers {transformers}; history.json has the losses.

## Limits

- It knows {c.vocab_size:,} tokens, and takes at most {c.max_position_embeddings} at once.
- It knows what its data say, with their gaps and their prejudices.
- {limit}
- No licence is stated: add one to the head of this file before you publish it.
"""
NUMBERS = ("mean squared error", "correlation (Pearson's)", "correlation of the ranks (Spearman's)")  # no shares
Result = tuple[str, str, float, str, float]  # a split, a figure's name and value, its baseline and that one's value
METRIC_TYPES = {  # as the Hub calls them, where it is not accuracy
    "mean squared error": "mse",
    "macro-F1": "f1",
    "micro-F1": "f1",
    "correlation (Pearson's)": "pearsonr",
    "correlation of the ranks (Spearman's)": "spearmanr",
}
# For each step: the task, its picture, something to try, and a limit.
STEPS = {
    "pretrain": (
        "fill-mask",
        "pretraining",
        '"[MASK]"',
        "Next-sentence class **1 says that B follows A**; in Google's and transformers' BERT it is 0 that does.",
    ),
    "finetune": (
        "text-classification",
        "finetuning",
        '"Some text."',
        "It gives one of its classes to any text, also to one that belongs to none.",
    ),
}
# The last two where a classifier has no single class to give.
OTHER_PROBLEMS = {
    "multi_label_classification": (
        '"Some text.", top_k=None',
        "It gives each of its classes a probability by itself, for any text: several may be high, or none.",
    ),
    "regression": ('"Some text."', "It gives a number to any text, also to one that has none."),
}


def shown(path: str) -> str:
    """Gives a path as others may see it: from the working directory, or else its last part."""
    relative = os.path.relpath(path)  # of a Hub id the same
    return Path(path).resolve().name if relative == "." or relative.startswith("..") else relative


def base_model(path: str | Path) -> str | None:
    """Gives the id of a model of the Hub, and None for a folder, which means nothing to others."""
    return str(path) if is_hub_id(path) else None


def command(step: str, options: Any) -> str:
    """Gives the command line that repeats a run: each option that is not at its default."""
    words = ["accelerate", "launch", "-m", f"toybert.train.{step}"]
    for each in fields(options):
        value = getattr(options, each.name)
        if value != each.default and each.name not in ("resume", "push_to_hub", "repo_id"):
            is_path = each.name in ("corpus", "model", "init_from", "output_dir") or each.name.endswith("_file")
            name = each.name.replace("_", "-")
            if each.default is (not value):  # a switch, on or off by itself
                words += [f"--{'' if value else 'no-'}{name}"]
            else:
                words += [f"--{name}", shown(value) if is_path else str(value)]
    return shlex.join(words)


def code(text: str) -> str:
    """Writes any text as code in a line of Markdown, where none of its letters means anything."""
    return "`" + " ".join(text.split()).replace("`", "'") + "`"


def figure(name: str, value: float) -> str:
    """Writes a figure: most are shares."""
    return f"{value:.3f}" if name in NUMBERS else f"{value:.1%}"


def write_card(step: str, model: Any, options: Any, progress: Any, data: list[str], results: list[Result]) -> None:
    """Writes README.md into a run's folder, unless one is there that a person wrote.

    Args:
        step: pretrain or finetune.
        data: sentences on what the run learnt from.
        results: the figures, in the order of the table.
    """
    path = Path(options.output_dir) / "README.md"
    corpus = Path(getattr(options, "train_file", None) or options.corpus).name
    if path.exists() and MARK not in path.read_text(encoding="utf-8"):
        print(f"left {path} as it is: somebody has written it")
        return
    task, picture, example, limit = STEPS[step]
    if step == "finetune":
        example, limit = OTHER_PROBLEMS.get(model.config.problem_type, (example, limit))
        if options.text_pair_column:
            example = example.replace('"Some text."', '{"text": "Some text.", "text_pair": "Another."}')
    if not getattr(options, "nsp", True):
        limit = "It learnt masked words alone: it has no head for next sentences."
    figures = [
        EvalResult(
            task_type=task, dataset_type=corpus, dataset_name=corpus, dataset_split=split,
            metric_type=METRIC_TYPES.get(name, "accuracy"), metric_name=name, metric_value=round(value, 4),
        )
        for split, name, value, _, _ in results
    ]  # fmt: skip
    name = path.parent.resolve().name
    tags = ["bert", "toybert", "custom_code"]
    head = ModelCardData(
        library_name="transformers", pipeline_tag=task, tags=tags, model_name=name, eval_results=figures,
        base_model=base_model(options.model) if step == "finetune" else None,
    )  # fmt: skip
    text = TEMPLATE.format(
        MARK=MARK,
        head=head.to_yaml(),
        name=name,
        c=model.config,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        task=task,
        where=options.repo_id or shown(options.output_dir),
        example=example,
        data="\n".join(f"- {sentence}" for sentence in data),
        results="\n".join(
            f"| {split}: {name} | {figure(name, value)} | {other} {figure(name, its)} |"
            for split, name, value, other, its in results
        ),
        picture=picture,
        command=command(step, options),
        p=progress,
        torch=version("torch"),
        transformers=version("transformers"),
        limit=limit,
    )
    path.write_text(text, encoding="utf-8")


CONVERTED = """---
{head}
---

# {name}

{kind}, converted from `{source}`{revision} by `python -m toybert.train.convert`: the same tensors under other names,
each with its bits, and the two rows of a next-sentence head swapped, as the two kinds number its classes in reverse.

{load}

{left_out}What the original is, what it learnt from, and under which licence it may be used, its own card says.
"""
KINDS = {
    "toybert": (
        "A ToyBERT",
        "`from_pretrained(..., trust_remote_code=True)` runs the three Python files of this folder, which are the "
        "converter's.",
    ),
    "bert": ("A stock BERT", "It loads as any BERT does, without `trust_remote_code`."),
}


def write_conversion_card(
    folder: Path, source: str | Path, revision: str | None, config: Any, left_out: list[str]
) -> None:
    """Writes README.md into a converted folder: from what it was made, and how."""
    kind, load = KINDS[config.model_type]
    head = ModelCardData(
        library_name="transformers",
        base_model=base_model(source),
        tags=["bert", "toybert", "custom_code"] if config.model_type == "toybert" else ["bert"],
    )
    text = CONVERTED.format(
        head=head.to_yaml(),
        name=folder.resolve().name,
        kind=kind,
        source=shown(str(source)),
        revision=f" at revision `{revision}`" if revision else "",
        load=load,
        left_out=f"Left out, as they have no place here: {', '.join(left_out)}.\n\n" if left_out else "",
    )
    (folder / "README.md").write_text(text, encoding="utf-8")
