"""What a classifier predicts for labelled text, and how good that is beside a baseline."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from datasets import DatasetDict
from scipy import stats
from sklearn.metrics import accuracy_score, classification_report
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification

from toybert.train.data.batches import LengthBatchSampler, evaluation_loader
from toybert.train.data.checks import check_labels
from toybert.train.data.datasets import FinetuneDataset
from toybert.train.data.labels import MULTI, REGRESSION, SENTIMENT, SINGLE, Labels, make_datasets, shortened
from toybert.train.data.tables import Table
from toybert.train.hub.folders import check_vocabulary, load_config, load_model, load_tokenizer, longest_input
from toybert.train.measure.baselines import text_baselines

# The metrics of each problem type; the first chooses the best epoch, unless another is asked for.
METRICS = {
    SINGLE: ("accuracy", "macro_f1", "loss"),
    MULTI: ("micro_f1", "macro_f1", "exact_match", "loss"),
    REGRESSION: ("loss", "pearson", "spearman"),
}
BASELINES = {SINGLE: "the commonest class", MULTI: "the labels of most rows", REGRESSION: "the mean"}
MOST_RECALLS = 20  # in a listing for a terminal

Comparison = dict[str, dict[str, float]]  # the metrics of the "model" and of the "baseline"


@torch.no_grad()
def run_model(model: nn.Module, loader: Any, accelerator: Accelerator) -> dict[str, Tensor]:
    """Returns the `logits` (N, L) of all rows of a loader, and their `labels` if they have any."""
    model.eval()
    parts = []
    for batch in loader:
        kept = {"labels": batch.pop("labels")} if "labels" in batch else {}
        kept["logits"] = model(**batch).logits.float()
        parts.append({name: values.cpu() for name, values in accelerator.gather_for_metrics(kept).items()})
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def predict(model: nn.Module, dataset: FinetuneDataset, accelerator: Accelerator) -> Tensor:
    """Returns a classifier's logits (N, L) for the rows of a dataset, in their order."""
    size = 128
    logits = run_model(model, evaluation_loader(dataset, accelerator, batch_size=size), accelerator)["logits"]
    order = np.concatenate(list(LengthBatchSampler(dataset.lengths, size)))  # the loader's
    return logits[order.argsort()]


def evaluate_classification(model: nn.Module, loader: Any, accelerator: Accelerator) -> dict[str, float]:
    """Returns the metrics of a classifier on the rows of a loader (see `compute_metrics`)."""
    found = run_model(model, loader, accelerator)
    names = list(accelerator.unwrap_model(model).config.id2label.values())
    return compute_metrics(found["logits"], found["labels"], names)


def best_metric(problem_type: str, asked: str | None) -> str:
    """Returns the metric that chooses the best epoch: the one asked for, or the default of the problem type."""
    known = METRICS[problem_type]
    if asked and asked not in known:
        raise ValueError(f"for {problem_type} best_metric must be one of {', '.join(known)}, got {asked!r}")
    return asked or known[0]


def compute_metrics(logits: Tensor, labels: Tensor, names: Sequence[str]) -> dict[str, float]:
    """Computes the metrics of logits (N, L) for a problem whose type the labels tell (see `Labels.encode`).

    These are its `METRICS` and, of each class that occurs, `recall_...`: the share of its rows that was found.
    """
    if labels.dim() == 1 and labels.is_floating_point():
        return regression_metrics(logits[:, 0], labels)
    several = labels.dim() == 2
    if several:
        loss = F.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(1)
        predicted, truth = (logits > 0).numpy(), (labels > 0).numpy()
    else:
        loss = F.cross_entropy(logits, labels, reduction="none")
        predicted, truth = logits.argmax(1).numpy(), labels.numpy()
    report = classification_report(truth, predicted, output_dict=True, zero_division=0)
    classes = {name: report.get(str(number), {"support": 0}) for number, name in enumerate(names)}
    return {
        "loss": loss.double().mean().item(),
        **({"micro_f1": report["micro avg"]["f1-score"]} if several else {"accuracy": report["accuracy"]}),
        "macro_f1": report["macro avg"]["f1-score"],
        **({"exact_match": float(accuracy_score(truth, predicted))} if several else {}),
        **{f"recall_{name}": each["recall"] for name, each in classes.items() if each["support"]},
    }


def regression_metrics(predicted: Tensor, truth: Tensor) -> dict[str, float]:
    """Computes the mean squared error, as the loss, and two correlations: 0 where one side is constant."""
    metrics = {"loss": (predicted - truth).double().square().mean().item()}
    varies = min(len(predicted.unique()), len(truth.unique())) > 1
    for name, correlation in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr)):
        metrics[name] = float(correlation(predicted.numpy(), truth.numpy()).statistic) if varies else 0.0
    return metrics


def with_baseline(logits: Tensor, labels: Tensor, training: Tensor, names: Sequence[str]) -> Comparison:
    """Computes the metrics of a model and of a baseline that predicts the same for every row.

    The baseline predicts the commonest of the `training` labels, or their mean.
    """
    if training.dim() == 2:
        constant = torch.logit(training.double().mean(0), eps=1e-6)
    elif training.is_floating_point():
        constant = training.double().mean()[None]
    else:
        constant = training.bincount(minlength=len(names)).clamp(min=1).double().log()
    constant = constant.float().expand(len(labels), -1)
    return {"model": compute_metrics(logits, labels, names), "baseline": compute_metrics(constant, labels, names)}


def format_comparison(comparison: Comparison, where: str) -> str:
    """Formats a comparison for a terminal, with the recall of each class, or the lowest recalls of many classes.

    `where` names the rows that the baseline is computed from.
    """
    metrics, baseline = comparison["model"], comparison["baseline"]
    problem_type = next(kind for kind, names in METRICS.items() if names[0] in metrics or kind == REGRESSION)
    lines = [f"{'':34}model  {BASELINES[problem_type]} in {where}"]
    for name in METRICS[problem_type]:
        lines.append(f"  {name.replace('_', ' '):29}{metrics[name]:8.3f}{baseline[name]:8.3f}")
    recalls = [name for name in metrics if name.startswith("recall_")]
    shown = recalls if len(recalls) <= MOST_RECALLS else sorted(recalls, key=metrics.__getitem__)[:MOST_RECALLS]
    lines += [f"  {' '.join(name.replace('_', ' of ', 1).split()):29}{metrics[name]:8.3f}" for name in shown]
    if len(shown) < len(recalls):
        lines.append(f"  these {MOST_RECALLS} classes have the lowest recall of {len(recalls)}")
    return "\n".join(lines)


def sentiment_report(folder: str | Path, corpus: DatasetDict, accelerator: Accelerator) -> dict[str, Any]:
    """Measures a classifier of sentiment, and the baselines, on the test sentences of a corpus."""
    config, tokenizer = load_config(folder), load_tokenizer(folder)
    names = tuple(config.id2label.values())
    if names != SENTIMENT:
        raise ValueError(f"{folder} is a classifier of {shortened(names)}, not of sentiment: give a --test-file")
    check_vocabulary(tokenizer, config, folder)
    model = accelerator.prepare(load_model(AutoModelForSequenceClassification, folder))
    for name, rows in corpus.items():
        check_labels(rows["label"], len(SENTIMENT), f"{name}.jsonl")
    splits = ("train", "validation", "test")
    train, validation, test = ((corpus[split]["text"][:], corpus[split]["label"][:]) for split in splits)
    with accelerator.main_process_first():  # the others read its tokens from the cache
        dataset = FinetuneDataset(*test, tokenizer, longest_input(tokenizer, config))
    metrics = evaluate_classification(model, evaluation_loader(dataset, accelerator), accelerator)
    baselines = text_baselines(train, validation, test)
    return {"sentiment": {"loss": metrics["loss"], "accuracy": metrics["accuracy"], **baselines}}


def file_report(
    folder: str | Path, table: Table, labels: Labels, texts: Sequence[str], accelerator: Accelerator
) -> Comparison:
    """Measures a classifier on labelled rows, beside a baseline that always predicts their commonest label."""
    config, tokenizer = load_config(folder), load_tokenizer(folder)
    check_vocabulary(tokenizer, config, folder)
    model = accelerator.prepare(load_model(AutoModelForSequenceClassification, folder))
    encoded, longest = labels.encode(table), longest_input(tokenizer, config)
    with accelerator.main_process_first():
        test = make_datasets({"test": table}, {"test": encoded}, texts, tokenizer, longest)["test"]
    assert test.labels is not None
    return with_baseline(predict(model, test, accelerator), test.labels, test.labels, labels.names)
