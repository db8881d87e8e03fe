"""The pictures of a run, drawn without a screen."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.ticker import MaxNLocator
from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix
from transformers import PreTrainedTokenizerBase

Entries = list[dict[str, float]]
Points = list[tuple[float, float]]
MOST_CLASSES = 20  # that a picture or a line of a log has room for
MOST_MARKED = 50  # points of a line: more would hide it


def save(figure: Any, path: Path) -> None:
    """Writes a figure as a PNG, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)


def points(entries: Entries, name: str, by: str = "step") -> Points:
    """Returns the steps (or epochs) and values of one figure of a history, where the value is finite."""
    return sorted({entry[by]: entry[name] for entry in entries if np.isfinite(entry.get(name, np.nan))}.items())


def draw_lines(axes: Any, lines: dict[str, Points], **labels: str) -> None:
    """Draws lines, each with its name and its own colour, even if another is empty; few points are marked."""
    for number, (name, found) in enumerate(lines.items()):
        if found:
            marker = "o" if len(found) <= MOST_MARKED else ""
            axes.plot(*zip(*found, strict=True), color=f"C{number}", marker=marker, markersize=4, label=name)
    axes.set(**labels)
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend()


def loss_curve(axes: Any, train: Points, validation: Points, title: str, unit: str = "cross-entropy (nats)") -> None:
    """Draws one loss by step, on the training and on the validation text."""
    lines = {"training": train, "validation": validation}
    draw_lines(axes, lines, title=title, xlabel="optimiser step", ylabel=unit)
    axes.set_ylim(bottom=0)


def accuracy_curve(axes: Any, validation: Entries, names: dict[str, str], title: str = "Accuracy") -> None:
    """Draws accuracies, or other figures that are at most 1, by epoch."""
    lines = {label: points(validation, name, "epoch") for name, label in names.items()}
    draw_lines(axes, lines, title=f"{title} by epoch", xlabel="epoch", ylabel=title.lower())
    lowest = min((value for found in lines.values() for _, value in found), default=0.0)
    axes.set_ylim(min(lowest, 0.0), 1.02)  # a correlation can be negative
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def plot_pretraining(progress: Any, folder: Path) -> None:
    """Draws the loss of each task of pre-training, and the accuracies on the validation documents."""
    pairs = any("nsp_loss" in entry for entry in progress.validation)
    panels = 2 + pairs
    figure, (mlm, *nsp, accuracy) = plt.subplots(1, panels, figsize=(13 * panels / 3, 3.6))
    name = "mlm_loss" if pairs else "loss"  # training without next sentences logs one loss only
    loss_curve(mlm, points(progress.train, name), points(progress.validation, "mlm_loss"), "Masked words")
    for axes in nsp:
        held_out = points(progress.validation, "nsp_loss")
        loss_curve(axes, points(progress.train, "nsp_loss"), held_out, "Next sentence")
        # The first training steps, well above chance, would flatten the rest; the validation losses are all shown.
        axes.set_ylim(top=max([0.8, *(1.05 * loss for _, loss in held_out)]))
        axes.axhline(np.log(2), color="grey", linestyle=":", linewidth=1)
        axes.annotate("chance", (0, np.log(2)), xytext=(2, 4), textcoords="offset points", color="grey", fontsize=8)
    names = {"mlm_accuracy": "masked words (validation)", "nsp_accuracy": "next sentence (validation)"}
    accuracy_curve(accuracy, progress.validation, names)
    save(figure, folder / "pretraining.png")


def plot_finetuning(progress: Any, folder: Path, metric: str = "accuracy", kept: int = 0) -> None:
    """Draws the loss of fine-tuning and the metric by epoch, and marks the epoch that is kept, unless that is 0.

    For a regression, whose metric is the loss, it draws two correlations instead of the metric.
    """
    figure, (loss, second) = plt.subplots(1, 2, figsize=(9, 3.6))
    losses = points(progress.train, "loss"), points(progress.validation, "loss")
    if metric == "loss":
        loss_curve(loss, *losses, "Loss", "mean squared error")
        names = {"pearson": "of the values (Pearson's)", "spearman": "of the ranks (Spearman's)"}
        accuracy_curve(second, progress.validation, names, "Correlation")
    else:
        loss_curve(loss, *losses, "Loss")
        names = {f"train_{metric}": "training", metric: "validation"}
        accuracy_curve(second, progress.validation, names, metric.replace("_", " ").capitalize())
    if kept:
        second.axvline(kept, color="grey", linestyle=":", linewidth=1.2, label="kept")
        second.legend()
    save(figure, folder / "finetuning.png")


def plot_confusion(truth: torch.Tensor, predicted: torch.Tensor, names: Sequence[str], path: Path) -> None:
    """Draws how many rows of each class (N,) were predicted as each; the colour shows the share of the true class."""
    count = partial(confusion_matrix, truth, predicted, labels=range(len(names)))
    side = 2 + 0.5 * len(names)
    figure, axes = plt.subplots(figsize=(1.2 * side, side))
    short = [name if len(name) <= 24 else f"{name[:23]}\N{HORIZONTAL ELLIPSIS}" for name in names]
    display = ConfusionMatrixDisplay(count(normalize="true"), display_labels=short)
    display.plot(ax=axes, cmap="Blues", im_kw={"vmin": 0, "vmax": 1}, text_kw={"fontsize": 7})
    for text, number in zip(display.text_.flat, count().flat, strict=True):
        text.set_text(number)
    for label in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        label.set(fontsize=8, parse_math=False)  # a $ in a name is no formula
    plt.setp(axes.get_xticklabels(), rotation=45, ha="right", rotation_mode="anchor")
    axes.set(xlabel="predicted", ylabel="true class", title="Validation rows")
    display.im_.colorbar.set_label("share of the true class")
    save(figure, path)


@torch.no_grad()
def plot_attention(model: Any, tokenizer: PreTrainedTokenizerBase, first: str, second: str, path: Path) -> None:
    """Draws which word attends to which in a pair of sentences: a row for each layer, a column for each head."""
    batch = tokenizer(first, second, return_tensors="pt").to(model.device)
    attentions = model(**batch, output_attentions=True).attentions
    words = tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist())
    layers, heads = len(attentions), attentions[0].shape[1]
    figure, grid = plt.subplots(layers, heads, figsize=(3.4 * heads, 3.4 * layers), squeeze=False)
    for (layer, head), axes in np.ndenumerate(grid):
        axes.imshow(attentions[layer][0, head].cpu().numpy(), cmap="Blues", vmin=0, vmax=1)
        axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=9)
        axes.set_xticks(range(len(words)), words, rotation=90, fontsize=6)
        axes.set_yticks(range(len(words)), words, fontsize=6)
    figure.supxlabel("attended to")
    figure.supylabel("attending")
    save(figure, path)


def nearest_words(
    embedding: torch.Tensor, tokenizer: PreTrainedTokenizerBase, words: list[str], top: int
) -> list[list[tuple]]:
    """Returns the words nearest to each word by the cosine of their embeddings, with the cosines."""
    unit = torch.nn.functional.normalize(embedding - embedding.mean(0), dim=1)
    ids = tokenizer.convert_tokens_to_ids(words)
    similarity = unit[ids] @ unit[5:].T  # no special tokens
    value, index = similarity.topk(min(top + 1, len(unit) - 5), dim=1)  # the nearest is the word itself
    return [
        list(zip(tokenizer.convert_ids_to_tokens((i[1:] + 5).tolist()), v[1:].tolist(), strict=True))
        for i, v in zip(index, value, strict=True)
    ]


def plot_neighbours(model: Any, tokenizer: PreTrainedTokenizerBase, words: list[str], path: Path, top: int = 6) -> None:
    """Draws the nearest neighbours of words by their token embeddings: of the commonest words if none is known."""
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
    save(figure, path)
