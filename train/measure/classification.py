"""What a classifier says of labelled text, how good that is, and the file where it is written down."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from scipy import stats
from sklearn.metrics import f1_score
from torch import Tensor, nn
from torch.utils.data import Dataset

from toybert.train.data.batches import evaluation_loader
from toybert.train.data.checks import in_slices
from toybert.train.data.datasets import Batch, FinetuneDataset
from toybert.train.data.labels import MULTI, REGRESSION, SINGLE, Labels, read_labels
from toybert.train.data.tables import Table

# The figures of each kind of problem; the first is by which the best epoch is told, unless another is asked for.
METRICS = {
    SINGLE: ("accuracy", "macro_f1", "loss"),
    MULTI: ("micro_f1", "macro_f1", "exact_match", "loss"),
    REGRESSION: ("loss", "pearson", "spearman"),
}
BASELINES = {SINGLE: "the commonest class", MULTI: "the labels of most rows", REGRESSION: "the mean"}
MOST_RECALLS = 20  # that are listed


class Numbered(Dataset):
    """Adds its number, `row`, to each row of a dataset."""

    def __init__(self, dataset: FinetuneDataset):
        self.dataset, self.lengths = dataset, dataset.lengths

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        return {**self.dataset.__getitems__(rows), "row": torch.tensor(rows)}


@torch.no_grad()
def answers(model: nn.Module, loader: Any, accelerator: Accelerator) -> dict[str, Tensor]:
    """Gives the logits (N, L) of all rows of a loader, with their `labels` and `row` where it has them."""
    model.eval()
    parts = []
    for batch in loader:
        kept = {name: batch.pop(name) for name in ("labels", "row") if name in batch}
        kept["logits"] = model(**batch).logits.float()
        parts.append({name: values.cpu() for name, values in accelerator.gather_for_metrics(kept).items()})
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def in_order(answered: dict[str, Tensor]) -> Tensor:
    """Gives the logits of a `Numbered` dataset in the order of its rows."""
    return answered["logits"][answered["row"].argsort()]


def measure(logits: Tensor, labels: Tensor, names: Sequence[str]) -> dict[str, float]:
    """Gives the figures of a problem, whose kind the labels tell (see `METRICS` and `Labels.encode`).

    Args:
        logits: (N, L).
        names: of the L classes; `recall_...` is the share that was found of each that occurs.
    """
    if labels.dim() == 1 and labels.is_floating_point():
        return measure_numbers(logits[:, 0], labels)
    if labels.dim() == 2:
        loss = F.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(1)
        predicted, truth = logits > 0, labels > 0
        figures = {f"{kind}_f1": f1(truth, predicted, kind) for kind in ("micro", "macro")}
        figures["exact_match"] = (predicted == truth).all(1).double().mean().item()
    else:
        loss = F.cross_entropy(logits, labels, reduction="none")
        best = logits.argmax(1)
        predicted, truth = F.one_hot(best, len(names)) > 0, F.one_hot(labels, len(names)) > 0
        figures = {"accuracy": (best == labels).double().mean().item(), "macro_f1": f1(labels, best, "macro")}
    found, number = (truth & predicted).sum(0).tolist(), truth.sum(0).tolist()
    recall = {f"recall_{name}": right / every for name, right, every in zip(names, found, number, strict=True) if every}
    return {"loss": loss.double().mean().item(), **figures, **recall}


def f1(truth: Tensor, predicted: Tensor, average: str) -> float:
    """Gives the mean F1 over the classes that occur; one that is never predicted has 0."""
    return float(f1_score(truth.numpy(), predicted.numpy(), average=average, zero_division=0))


def measure_numbers(predicted: Tensor, truth: Tensor) -> dict[str, float]:
    """Gives the mean squared error, as the loss, and two correlations: 0 where one side is constant."""
    figures = {"loss": (predicted - truth).double().square().mean().item()}
    varies = min(len(predicted.unique()), len(truth.unique())) > 1
    for name, correlation in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr)):
        figures[name] = float(correlation(predicted.numpy(), truth.numpy()).statistic) if varies else 0.0
    return figures


def compare(logits: Tensor, labels: Tensor, training: Tensor, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Gives the figures of a `model` beside those of a `baseline`, which says the same of every row.

    That is what is commonest among the `training` labels, or their mean.
    """
    if training.dim() == 2:
        constant = torch.logit(training.double().mean(0), eps=1e-6)
    elif training.is_floating_point():
        constant = training.double().mean()[None]
    else:
        constant = training.bincount(minlength=len(names)).clamp(min=1).double().log()
    constant = constant.float().expand(len(labels), -1)
    return {"model": measure(logits, labels, names), "baseline": measure(constant, labels, names)}


def beside(compared: dict[str, dict[str, float]], where: str) -> str:
    """Lays out what `compare` gives for a terminal; every class has its recall, or of many classes the lowest.

    Args:
        where: in which rows the baseline found what is commonest.
    """
    figures, baseline = compared["model"], compared["baseline"]
    problem_type = next(kind for kind, names in METRICS.items() if names[0] in figures or kind == REGRESSION)
    lines = [f"{'':34}model  {BASELINES[problem_type]} in {where}"]
    for name in METRICS[problem_type]:
        lines.append(f"  {name.replace('_', ' '):29}{figures[name]:8.3f}{baseline[name]:8.3f}")
    recall = {name: value for name, value in figures.items() if name.startswith("recall_")}
    if (every := len(recall)) > MOST_RECALLS:
        recall = {name: recall[name] for name in sorted(recall, key=recall.__getitem__)[:MOST_RECALLS]}
    for name, value in recall.items():
        lines.append(f"  {' '.join(name.replace('_', ' of ', 1).split()):29}{value:8.3f}")
    if every > MOST_RECALLS:
        lines.append(f"  these {MOST_RECALLS} classes have the lowest recall of {every}")
    return "\n".join(lines)


def write_predictions(
    path: Path, table: Table, texts: Sequence[str], rows: np.ndarray, logits: Tensor, labels: Labels
) -> None:
    """Writes a table's texts, its labels if it has any, what was predicted, and the probability of each class.

    Args:
        texts: the columns of text.
        rows: those of the table that have logits; the others, without a word, have no prediction.
    """
    place = np.full(len(table.rows), -1)
    place[rows] = np.arange(len(rows))
    columns = [in_slices(table.rows[name]) for name in texts]
    given = labels.column in table.rows.column_names
    if given:
        columns.append(labels.spelt(label) for label in read_labels(table, labels.column, labels.separator))
    classes = [] if labels.problem_type == REGRESSION else [f"p({name})" for name in labels.names]
    unfinished = path.with_suffix(".unfinished")
    with open(unfinished, "w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow([*texts, *[labels.column][:given], "predicted", *classes])
        for where, *cells in zip(place, *columns, strict=True):
            lines.writerow([*cells, *(prediction(logits[where], labels) if where >= 0 else [""] * (1 + len(classes)))])
    os.replace(unfinished, path)


def prediction(logits: Tensor, labels: Labels) -> list[str]:
    """Gives what logits (L,) say, and the probability of each class, as text."""
    if labels.problem_type == REGRESSION:
        return [f"{logits[0]:.6g}"]
    single = labels.problem_type == SINGLE
    held = (
        [labels.names[int(logits.argmax())]]
        if single
        else [n for n, x in zip(labels.names, logits, strict=True) if x > 0]
    )
    probability = logits.softmax(0) if single else logits.sigmoid()
    return [labels.spelt(held if not single else held[0]), *(f"{p:.4f}" for p in probability.tolist())]


def evaluate_classification(model: nn.Module, loader: Any, accelerator: Accelerator) -> dict[str, float]:
    """Gives the loss of a classifier and what else is measured of its kind (see `classify.METRICS`)."""
    answered = answers(model, loader, accelerator)
    names = list(accelerator.unwrap_model(model).config.id2label.values())
    return measure(answered["logits"], answered["labels"], names)


def predict(model: nn.Module, dataset: FinetuneDataset, accelerator: Accelerator) -> Tensor:
    """Gives a classifier's logits (N, L) for the rows of a dataset, in their order."""
    return in_order(answers(model, evaluation_loader(Numbered(dataset), accelerator), accelerator))
