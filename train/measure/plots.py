"""The pictures of a run, drawn without a screen."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.ticker import MaxNLocator
from transformers import PreTrainedTokenizerBase

Entries = list[dict[str, float]]
MOST_CLASSES = 20  # that a picture, or a line of a log, has room for


def save(figure: Any, path: Path) -> None:
    """Writes a figure as a PNG, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)


def curve(
    axes: Any,
    train: Entries,
    validation: Entries,
    name: str,
    title: str,
    validation_name: str = "",
    unit: str = "cross-entropy (nats)",
) -> None:
    """Draws one loss by step, in training and on held-out text; values that are no numbers are left out."""
    for entries, key, style, label in (
        (train, name, {"color": "tab:blue", "linewidth": 1.2}, "training"),
        (validation, validation_name or name, {"color": "tab:orange", "marker": "o", "markersize": 4}, "validation"),
    ):
        points = sorted({entry["step"]: entry[key] for entry in entries if np.isfinite(entry.get(key, np.nan))}.items())
        if points:
            axes.plot(*zip(*points, strict=True), label=label, **style)
    axes.set(title=title, xlabel="optimiser step", ylabel=unit)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend()


def accuracy_curve(axes: Any, validation: Entries, names: dict[str, str], title: str = "Accuracy") -> None:
    """Draws accuracies, or other figures of at most 1, by epoch."""
    lowest = 0.0
    for key, label in names.items():
        points = [(entry["epoch"], entry[key]) for entry in validation if key in entry]
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", markersize=4, label=label)
            lowest = min(lowest, *(value for _, value in points), 0.0)  # a correlation can be negative
    axes.set(title=f"{title} by epoch", xlabel="epoch", ylabel=title.lower(), ylim=(lowest, 1.02))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend()


def plot_pretraining(progress: Any, folder: Path) -> None:
    """Draws the losses of pre-training apart, and the accuracies on the validation documents."""
    pairs = any("nsp_loss" in entry for entry in progress.validation)
    panels = 2 + pairs
    figure, (mlm, *nsp, accuracy) = plt.subplots(1, panels, figsize=(13 * panels / 3, 3.6))
    name = "mlm_loss" if pairs else "loss"  # a model of masked words alone has but one
    curve(mlm, progress.train, progress.validation, name, "Masked words", "mlm_loss")
    for axes in nsp:
        curve(axes, progress.train, progress.validation, "nsp_loss", "Next sentence")
        # The first steps, some way above chance, would flatten the rest; what is held out is shown whole.
        held_out = [entry["nsp_loss"] for entry in progress.validation if np.isfinite(entry["nsp_loss"])]
        axes.set_ylim(top=max(0.8, *(1.05 * loss for loss in held_out)) if held_out else 0.8)
        axes.axhline(np.log(2), color="grey", linestyle=":", linewidth=1)
        axes.annotate("chance", (0, np.log(2)), xytext=(2, 4), textcoords="offset points", color="grey", fontsize=8)
    names = {"mlm_accuracy": "masked words (validation)", "nsp_accuracy": "next sentence (validation)"}
    accuracy_curve(accuracy, progress.validation, names)
    save(figure, folder / "pretraining.png")


def plot_finetuning(progress: Any, folder: Path, metric: str = "accuracy", kept: int = 0) -> None:
    """Draws the loss of fine-tuning and the metric on the training and the validation rows.

    Where the metric is the loss, numbers were learnt, and two correlations take the second place. The epoch that was
    `kept` is marked, unless it is 0.
    """
    figure, (loss, second) = plt.subplots(1, 2, figsize=(9, 3.6))
    if metric == "loss":
        curve(loss, progress.train, progress.validation, "loss", "Loss", unit="mean squared error")
        names = {"pearson": "of the values (Pearson's)", "spearman": "of the ranks (Spearman's)"}
        accuracy_curve(second, progress.validation, names, "Correlation")
    else:
        curve(loss, progress.train, progress.validation, "loss", "Loss")
        names = {f"train_{metric}": "training", metric: "validation"}
        accuracy_curve(second, progress.validation, names, metric.replace("_", " ").capitalize())
    if kept:
        second.axvline(kept, color="grey", linestyle=":", linewidth=1.2, label="kept")
        second.legend()
    save(figure, folder / "finetuning.png")


def plot_confusion(truth: torch.Tensor, predicted: torch.Tensor, names: Sequence[str], path: Path) -> None:
    """Draws how many rows of each class (N,) were taken for which; the colour is the share of the class."""
    classes = len(names)
    counts = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(counts, (truth.numpy(), predicted.numpy()), 1)
    share = counts / counts.sum(1, keepdims=True).clip(min=1)
    side = 2 + 0.5 * classes
    figure, axes = plt.subplots(figsize=(side, side))
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for row, column in np.ndindex(classes, classes):
        colour = "white" if share[row, column] > 0.5 else "black"
        axes.text(column, row, f"{counts[row, column]}", ha="center", va="center", color=colour, fontsize=7)
    short = [name if len(name) <= 24 else f"{name[:23]}\N{HORIZONTAL ELLIPSIS}" for name in names]
    plain: dict[str, Any] = {"fontsize": 8, "parse_math": False}  # a $ in a name is no formula
    axes.set_xticks(range(classes), short, rotation=45, ha="right", rotation_mode="anchor", **plain)
    axes.set_yticks(range(classes), short, **plain)
    axes.set(xlabel="predicted", ylabel="true class", title="Validation rows")
    save(figure, path)


@torch.no_grad()
def plot_attention(model: Any, tokenizer: PreTrainedTokenizerBase, first: str, second: str, path: Path) -> None:
    """Draws who attends to whom in a pair of sentences: a row a layer, a column a head."""
    batch = tokenizer(first, second, return_tensors="pt").to(model.device)
    attentions = model(**batch, output_attentions=True).attentions
    words = tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist())
    layers, heads = len(attentions), attentions[0].shape[1]
    figure, grid = plt.subplots(layers, heads, figsize=(3.4 * heads, 3.4 * layers), squeeze=False)
    for layer, weights in enumerate(attentions):
        for head in range(heads):
            axes = grid[layer][head]
            axes.imshow(weights[0, head].cpu().numpy(), cmap="Blues", vmin=0, vmax=1)
            axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=9)
            axes.set_xticks(range(len(words)), words, rotation=90, fontsize=6)
            axes.set_yticks(range(len(words)), words, fontsize=6)
    figure.supxlabel("attended to")
    figure.supylabel("attending")
    figure.tight_layout()
    save(figure, path)


def nearest_words(
    embedding: torch.Tensor, tokenizer: PreTrainedTokenizerBase, words: list[str], top: int
) -> list[list[tuple]]:
    """Gives the words whose embeddings point most nearly the same way as each word's, with the cosine."""
    unit = torch.nn.functional.normalize(embedding - embedding.mean(0), dim=1)
    ids = tokenizer.convert_tokens_to_ids(words)
    similarity = unit[ids] @ unit[5:].T  # no special tokens
    value, index = similarity.topk(min(top + 1, len(unit) - 5), dim=1)  # the nearest is the word itself
    return [
        list(zip(tokenizer.convert_ids_to_tokens((i[1:] + 5).tolist()), v[1:].tolist(), strict=True))
        for i, v in zip(index, value, strict=True)
    ]


def plot_neighbours(model: Any, tokenizer: PreTrainedTokenizerBase, words: list[str], path: Path, top: int = 6) -> None:
    """Draws the nearest neighbours of some words, or of the commonest if none is known, by their token embeddings."""
    commonest = [str(tokenizer.convert_ids_to_tokens(index)) for index in range(5, min(5 + len(words), len(tokenizer)))]
    words = [word for word in words if word in tokenizer.get_vocab()] or commonest
    embedding = model.get_input_embeddings().weight.detach().float().cpu()
    figure, grid = plt.subplots(2, -(-len(words) // 2), figsize=(12, 4.6), squeeze=False)
    for axes in grid.flat[len(words) :]:
        axes.axis("off")
    for axes, word, neighbours in zip(grid.flat, words, nearest_words(embedding, tokenizer, words, top), strict=False):
        names, values = zip(*reversed(neighbours), strict=True)
        axes.barh(names, values, color="tab:blue")
        axes.set(title=word, xlim=(0, 1))
    figure.supxlabel("cosine of the token embeddings")
    figure.tight_layout()
    save(figure, path)
