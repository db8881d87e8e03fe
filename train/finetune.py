"""Fine-tunes every parameter of a pre-trained ToyBERT on labelled text (section 4 of the paper)."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification

from toybert.train import cli
from toybert.train.cli import option
from toybert.train.data.batches import evaluation_loader
from toybert.train.data.datasets import FinetuneDataset
from toybert.train.data.labelled import announce, encode_labels, hold_some_out, make_datasets, notes, with_names
from toybert.train.data.labels import PROBLEMS, REGRESSION, SINGLE, Labels, learn_labels, shortened
from toybert.train.data.source import CORPORA, Source, by_content, find_tables
from toybert.train.data.tables import Table, load_tables
from toybert.train.hub.card import code, shown, write_card
from toybert.train.hub.folders import (
    ROOT,
    check_vocabulary,
    load_config,
    load_model,
    load_tokenizer,
    longest_input,
    pinned,
)
from toybert.train.loop.best import Best
from toybert.train.loop.loop import Progress, finish, train
from toybert.train.loop.run import LoopOptions, start
from toybert.train.measure.classification import (
    BASELINES,
    METRICS,
    beside,
    compare,
    evaluate_classification,
    predict,
    write_predictions,
)
from toybert.train.measure.plots import MOST_CLASSES, plot_confusion, plot_finetuning

CARD_NAMES = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "exact_match": "all labels right",
    "loss": "mean squared error",  # of numbers; what it is of classes has no place on the card
    "pearson": "correlation (Pearson's)",
    "spearman": "correlation of the ranks (Spearman's)",
}
RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    "seed": {"learning_rate": 1e-4, "weight_decay": 0.0, "schedule": "constant", "max_grad_norm": 0.0},
}


@dataclass(kw_only=True)
class FinetuneOptions(LoopOptions):
    """Holds the options of a fine-tuning run."""

    epochs: int = option("Passes over the training rows.", 5)
    learning_rate: float = option("AdamW's peak learning rate.", 1e-3)
    muon_learning_rate: float = option("Muon's, for the layers' matrices; 0 leaves them to AdamW.", 0.0)
    dropout: float = option("During this run; config.json keeps its own.", 0.1)
    model: str = option("The pre-trained checkpoint: a folder, or an id on the Hub.", str(ROOT))
    revision: str | None = option("The commit, tag or branch of a model on the Hub (default: its main).", None)
    corpus: str = option(
        "A folder that holds train.jsonl, .csv or the like, and validation and test beside it (in .jsonl, labels of 0 "
        "and 1 mean negative and positive), or a data set on the Hub.",
        str(CORPORA / "sentiment"),
    )
    corpus_config: str | None = option("Which of the corpus's data sets, if it has several.", None)
    train_file: str | None = option("Train on this .csv, .tsv, .json, .jsonl or .parquet file instead.", None)
    validation_file: str | None = option("Else a tenth of the training rows is held out.", None)
    test_file: str | None = option("Is predicted into predictions.csv, and measured if it has labels.", None)
    text_column: str = option("Where the text is.", "text")
    text_pair_column: str | None = option("Where the second text of each row is, if there is one.", None)
    label_column: str = option("Where the label is.", "label")
    label_separator: str | None = option("Stands between the labels, where a cell can hold several.", None)
    problem_type: str | None = option(f"{', '.join(PROBLEMS)}; else told from the labels.", None)
    best_metric: str | None = option("By which the best epoch is told: accuracy, macro_f1, loss, ...", None)
    patience: int = option("Stop after so many epochs without a better one, and keep the best; 0: never.", 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.patience < 0:
            raise ValueError(f"patience must not be negative, got {self.patience}")
        if self.problem_type not in (None, *PROBLEMS):
            raise ValueError(f"problem_type must be one of {', '.join(PROBLEMS)}, got {self.problem_type!r}")
        if self.best_metric and not self.patience:
            raise ValueError(f"best_metric={self.best_metric} needs a patience above 0: else the last epoch is kept")
        if self.validation_file and not self.train_file:
            raise ValueError("validation_file needs a train_file beside it")
        if self.train_file and self.corpus != FinetuneOptions.corpus:
            raise ValueError(f"give a train_file or a corpus, not both {self.train_file} and {self.corpus}")

    def files(self) -> dict[str, str | None]:
        """Gives the files that were named for the splits."""
        return {"train": self.train_file, "validation": self.validation_file, "test": self.test_file}

    def texts(self) -> list[str]:
        """Gives the columns that the model reads: one, or two for pairs."""
        return [self.text_column, *([self.text_pair_column] if self.text_pair_column else [])]

    @cached_property
    def source(self) -> Source:
        """Where the labelled rows are."""
        return find_tables(self.corpus, self.corpus_config, self.files())

    @cached_property
    def sources(self) -> dict[str, list[str]]:
        """The hashes of the files that the run learns from, by their names."""
        checkpoint = [Path(self.model) / name for name in ("model.safetensors", "tokenizer.json")]
        # Of a Hub id there are no files here.
        return {**self.source.record(), **by_content(path for path in checkpoint if path.is_file())}


def train_finetuning(options: FinetuneOptions) -> dict[str, Any]:
    """Fine-tunes a checkpoint on labelled text, and leaves it in `output_dir` as a folder that loads anywhere.

    Returns:
        The figures on the validation rows after the epoch that is kept, its step, and the seconds that all took.
    """
    tables, encoded, labels = read_tables(options)
    metric = best_metric(options, labels)
    checkpoint = pinned(options.model, options.revision)
    tokenizer, config = load_tokenizer(checkpoint), load_config(checkpoint)
    check_vocabulary(tokenizer, config, options.model)
    check_head(config, labels, options.model)
    accelerator = start(options)

    with accelerator.main_process_first():  # it tokenises, the others find what it made
        data = make_datasets(tables, encoded, options.texts(), tokenizer, longest_input(tokenizer, config))
    announce(tables, data, labels, accelerator)
    names = tuple(config.id2label[number] for number in range(config.num_labels))
    if is_classifier(config) and (names, config.problem_type or SINGLE) != (labels.names, labels.problem_type):
        accelerator.print(f"{options.model} is a classifier, {shortened(names)}, and its head goes on from there")
    kept = {name: getattr(config, name) for name in ("hidden_dropout_prob", "attention_probs_dropout_prob")}
    model = load_model(
        AutoModelForSequenceClassification,
        checkpoint,
        id2label=dict(enumerate(labels.names)),
        label2id=labels.numbers,
        problem_type=labels.problem_type,
        **dict.fromkeys(kept, options.dropout),
    )
    best = Best(metric, options.patience, Path(options.output_dir) / "checkpoints" / "best.safetensors")
    accelerator.register_for_checkpointing(best)
    evaluate = evaluator(data, labels, best, accelerator)
    progress = train(model, data["train"], options, accelerator, evaluate, "Fine-tuning", best.is_over)
    best.restore(accelerator.unwrap_model(model))

    if options.patience:
        equal = "" if metric == "loss" else " (of equal ones, that of the lowest loss)"
        accelerator.print(f"kept epoch {best.epoch} of {best.epochs}, the best by {metric.replace('_', ' ')}{equal}")
    results = conclude(model, tables, data, labels, options, accelerator)
    if accelerator.is_main_process:
        describe(model, data, labels, results, options, progress)
    draw = partial(plot_finetuning, metric=METRICS[labels.problem_type][0], kept=best.epoch if options.patience else 0)
    finish(accelerator, model, tokenizer, progress, options, draw, kept)
    return {**progress.validation[best.epoch - 1], "seconds": progress.seconds}


def read_tables(options: FinetuneOptions) -> tuple[dict[str, Table], dict[str, Tensor | None], Labels]:
    """Reads all tables of a run and refuses what is wrong with them; gives them, their labels, and what these mean."""
    tables = load_tables(options.source)
    if not options.train_file:
        tables = with_names(tables, options.corpus, options.label_column)
    for table in tables.values():
        for column in options.texts():
            table.check_text(column)
    labels = learn_labels(tables["train"], options.label_column, options.label_separator, options.problem_type)
    encoded = encode_labels(tables, labels)
    if "validation" not in tables:
        tables, encoded = hold_some_out(tables, encoded, labels, options.seed)
    return tables, encoded, labels


def best_metric(options: FinetuneOptions, labels: Labels) -> str:
    """Gives the name of the figure that tells the best epoch."""
    known = METRICS[labels.problem_type]
    if options.best_metric and options.best_metric not in known:
        raise ValueError(
            f"for {labels.problem_type} best_metric must be one of {', '.join(known)}, got {options.best_metric!r}"
        )
    return options.best_metric or known[0]


def check_head(config: Any, labels: Labels, model: str) -> None:
    """Refuses a checkpoint that is a classifier with another number of classes."""
    if is_classifier(config) and config.num_labels != len(labels.names):
        raise ValueError(
            f"{model} is a classifier with {config.num_labels} outputs and the labels need {len(labels.names)}: "
            "fine-tune a pre-trained model"
        )


def is_classifier(config: Any) -> bool:
    return (config.architectures or [""])[0] == "ToyBertForSequenceClassification"


def evaluator(
    data: dict[str, FinetuneDataset], labels: Labels, best: Best, accelerator: Accelerator
) -> Callable[[nn.Module], dict[str, float]]:
    """Gives the function that measures a model after each epoch."""
    fitted, held_out = (evaluation_loader(data[split], accelerator) for split in ("train", "validation"))
    first = METRICS[labels.problem_type][0]

    def evaluate(model: nn.Module) -> dict[str, float]:
        on_training = evaluate_classification(model, fitted, accelerator)[first]
        figures = evaluate_classification(model, held_out, accelerator)
        best.see(accelerator, model, figures)
        many = len(labels.names) > MOST_CLASSES  # a line of the log has no room for all of them
        logged = {name: value for name, value in figures.items() if not (many and name.startswith("recall_"))}
        return {f"train_{first}": on_training, **logged}

    return evaluate


def conclude(
    model: nn.Module,
    tables: dict[str, Table],
    data: dict[str, FinetuneDataset],
    labels: Labels,
    options: FinetuneOptions,
    accelerator: Accelerator,
) -> dict[str, Any]:
    """Measures the model that is kept, and writes results.json, the confusion matrix and predictions.csv."""
    folder, results = Path(options.output_dir), {}
    for split in ("validation", "test") if options.test_file else ("validation",):
        truth = data[split].labels
        logits = predict(model, data[split], accelerator)
        if truth is not None:
            results[split] = compare(logits, truth, data["train"].labels, labels.names)
            accelerator.print(f"{tables[split].name}:\n{beside(results[split], 'training')}")
            if split == "validation" and labels.problem_type == SINGLE:
                draw_confusion(truth, logits, labels, folder / "figures" / "confusion.png", accelerator)
    if accelerator.is_main_process:
        (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        if options.test_file:
            path = folder / "predictions.csv"
            write_predictions(path, tables["test"], options.texts(), data["test"].row, logits, labels)
            accelerator.print(f"predicted {options.test_file} into {path}")
    return results


def draw_confusion(truth: Tensor, logits: Tensor, labels: Labels, path: Path, accelerator: Accelerator) -> None:
    """Draws which classes were taken for which, if there are few enough."""
    if len(labels.names) > MOST_CLASSES:
        accelerator.print(f"no confusion matrix is drawn of {len(labels.names)} classes, at most of {MOST_CLASSES}")
    elif accelerator.is_main_process:
        plot_confusion(truth, logits.argmax(1), labels.names, path)


def describe(
    model: nn.Module,
    data: dict[str, FinetuneDataset],
    labels: Labels,
    results: dict[str, Any],
    options: FinetuneOptions,
    progress: Progress,
) -> None:
    """Writes the card of a run."""
    source = Path(options.train_file or options.corpus).name
    start = "the shipped ToyBERT" if Path(options.model).resolve() == ROOT else code(shown(options.model))
    said = [
        f"{len(data['train']):,} training and {len(data['validation']):,} validation sentences of {code(source)}",
        f"Classes: {shortened([code(name) for name in labels.names])}",
        f"Fine-tuned from {start}" + (f" at {code(options.revision)}" if options.revision else ""),
    ]
    if labels.problem_type == REGRESSION:
        said[1] = f"The label is a number, {code(labels.column)}"
    said += [note for split, dataset in data.items() for note in notes(dataset, f"the {split} split")]
    baseline = f"{BASELINES[labels.problem_type]} in training"
    rows = [
        (split, CARD_NAMES[name], compared["model"][name], baseline, compared["baseline"][name])
        for split, compared in results.items()
        for name in METRICS[labels.problem_type]
        if name != "loss" or labels.problem_type == REGRESSION
    ]
    write_card("finetune", model, options, progress, said, rows)


if __name__ == "__main__":
    cli.run(lambda: train_finetuning(cli.parse(FinetuneOptions, __doc__, RECIPES)))
