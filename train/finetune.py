"""Fine-tunes every parameter of a pre-trained ToyBERT on labelled text (section 4 of the paper)."""

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
from toybert.train.data.labels import (
    PROBLEMS,
    SINGLE,
    Labels,
    data_summary,
    learn_labels,
    make_datasets,
    name_sentiment,
    shortened,
    split_validation,
)
from toybert.train.data.source import CORPORA, Source, by_name, digest, find_tables
from toybert.train.data.tables import Table, load_tables
from toybert.train.hub import folders
from toybert.train.hub.folders import ROOT
from toybert.train.loop.best import Best
from toybert.train.loop.loop import finish, train
from toybert.train.loop.run import LoopOptions, start
from toybert.train.measure.classification import METRICS, best_metric, evaluate_classification
from toybert.train.measure.plots import MOST_CLASSES, plot_finetuning
from toybert.train.measure.results import write_finetuning_card, write_results

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
    dropout: float = option("Dropout of this run; config.json keeps its own.", 0.1)
    model: str = option("The pre-trained checkpoint: a folder, or an id on the Hub.", str(ROOT))
    revision: str | None = option("Commit, tag or branch of a model on the Hub (default: its main branch).", None)
    corpus: str = option(
        "A folder of train.jsonl, .csv or the like, with validation and test beside it, or a data set on the Hub. In "
        ".jsonl files, the labels 0 and 1 mean negative and positive.",
        str(CORPORA / "sentiment"),
    )
    corpus_config: str | None = option("Which data set of the corpus to take, if it has several.", None)
    train_file: str | None = option("Rows to train on instead: a .csv, .tsv, .json, .jsonl or .parquet file.", None)
    validation_file: str | None = option("Rows to validate on (default: a tenth of the training rows).", None)
    test_file: str | None = option("Rows to predict into predictions.csv, and to measure if they have labels.", None)
    text_column: str = option("The column of the text.", "text")
    text_pair_column: str | None = option("The column of each row's second text (default: rows have one text).", None)
    label_column: str = option("The column of the label.", "label")
    label_separator: str | None = option("What separates labels in a cell (default: a cell is one label).", None)
    problem_type: str | None = option(f"{', '.join(PROBLEMS)} (default: guessed from the labels).", None)
    best_metric: str | None = option("Chooses the best epoch (default: accuracy, micro_f1 or loss, by problem).", None)
    patience: int = option("Stop after this many epochs without a better one, and keep the best; 0: never.", 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.patience < 0:
            raise ValueError(f"patience must not be negative, got {self.patience}")
        if self.problem_type not in (None, *PROBLEMS):
            raise ValueError(f"problem_type must be one of {', '.join(PROBLEMS)}, got {self.problem_type!r}")
        if self.best_metric and not self.patience:
            raise ValueError(f"best_metric={self.best_metric} needs a patience above 0: with 0 the last epoch is kept")
        if self.validation_file and not self.train_file:
            raise ValueError("validation_file needs a train_file beside it")
        if self.train_file and self.corpus != FinetuneOptions.corpus:
            raise ValueError(f"give a train_file or a corpus, not both {self.train_file} and {self.corpus}")

    def files(self) -> dict[str, str | None]:
        """Returns the file that was given for each split."""
        return {"train": self.train_file, "validation": self.validation_file, "test": self.test_file}

    def texts(self) -> list[str]:
        """Returns the columns that the model reads: one, or two for pairs."""
        return [self.text_column, *([self.text_pair_column] if self.text_pair_column else [])]

    @cached_property
    def source(self) -> Source:
        """Where the labelled rows are."""
        return find_tables(self.corpus, self.corpus_config, self.files())

    @cached_property
    def sources(self) -> dict[str, list[str]]:
        """The hashes of the files that the run learns from, by their names."""
        checkpoint = [Path(self.model) / name for name in ("model.safetensors", "tokenizer.json")]
        # A model on the Hub has no files here.
        return by_name(self.source.digests | {path: digest(path) for path in checkpoint if path.is_file()})


def train_finetuning(options: FinetuneOptions) -> dict[str, Any]:
    """Fine-tunes a checkpoint on labelled text, and leaves it in `output_dir` as a folder that loads anywhere.

    Returns:
        The figures on the validation rows after the epoch that is kept, its step, and the seconds of the whole run.
    """
    tables, encoded, labels = read_tables(options)
    metric = best_metric(labels.problem_type, options.best_metric)
    checkpoint = folders.pinned(options.model, options.revision)
    tokenizer, config = folders.load_tokenizer(checkpoint), folders.load_config(checkpoint)
    folders.check_vocabulary(tokenizer, config, options.model)
    head_note = check_head(config, labels, options.model)
    accelerator, folder = start(options), Path(options.output_dir)

    with accelerator.main_process_first():  # the others find in the cache what it tokenised
        longest = folders.longest_input(tokenizer, config)
        data = make_datasets(tables, encoded, options.texts(), tokenizer, longest)
    accelerator.print("\n".join([*data_summary(tables, data, labels, accelerator), *head_note]))

    kept = {name: getattr(config, name) for name in ("hidden_dropout_prob", "attention_probs_dropout_prob")}
    model = folders.load_model(
        AutoModelForSequenceClassification,
        checkpoint,
        id2label=dict(enumerate(labels.names)),
        label2id=labels.numbers,
        problem_type=labels.problem_type,
        **dict.fromkeys(kept, options.dropout),
    )
    best = Best(metric, options.patience, folder / "checkpoints" / "best.safetensors")
    accelerator.register_for_checkpointing(best)
    loaders = {split: evaluation_loader(data[split], accelerator) for split in ("train", "validation")}
    evaluate = partial(epoch_figures, loaders=loaders, labels=labels, best=best, accelerator=accelerator)
    progress = train(model, data["train"], options, accelerator, evaluate, "Fine-tuning", best.is_over)
    best.restore(accelerator.unwrap_model(model))
    if options.patience:
        ties = "" if metric == "loss" else " (and on a tie by the loss)"
        accelerator.print(f"kept epoch {best.epoch} of {best.epochs}, the best by {metric.replace('_', ' ')}{ties}")

    measured = {split: tables[split] for split in (("validation", "test") if options.test_file else ("validation",))}
    results = write_results(model, measured, data, labels, options.texts(), folder, accelerator)
    if accelerator.is_main_process:
        write_finetuning_card(model, data, labels, results, options, progress)
    draw = partial(plot_finetuning, metric=METRICS[labels.problem_type][0], kept=best.epoch if options.patience else 0)
    finish(accelerator, model, tokenizer, progress, options, draw, kept)
    return {**progress.validation[best.epoch - 1], "seconds": progress.seconds}


def read_tables(options: FinetuneOptions) -> tuple[dict[str, Table], dict[str, Tensor | None], Labels]:
    """Reads the tables of a run and checks them; returns them, their encoded labels, and what the labels stand for."""
    tables = load_tables(options.source)
    if not options.train_file:
        tables = name_sentiment(tables, options.corpus, options.label_column)
    for table in tables.values():
        for column in options.texts():
            table.check_text(column)
    labels = learn_labels(tables["train"], options.label_column, options.label_separator, options.problem_type)
    if "validation" not in tables:
        tables = split_validation(tables, labels, options.seed)
    encoded = {
        split: labels.encode_if_given(table) if split == "test" else labels.encode(table)
        for split, table in tables.items()
    }
    return tables, encoded, labels


def check_head(config: Any, labels: Labels, model: str) -> list[str]:
    """Refuses a classifier with another number of outputs; returns a note where its classes have other names."""
    if (config.architectures or [""])[0] != "ToyBertForSequenceClassification":
        return []
    if config.num_labels != len(labels.names):
        raise ValueError(
            f"{model} is a classifier with {config.num_labels} outputs and the labels need {len(labels.names)}: "
            "fine-tune a pre-trained model"
        )
    names = tuple(config.id2label[number] for number in range(config.num_labels))
    if (names, config.problem_type or SINGLE) == (labels.names, labels.problem_type):
        return []
    return [f"{model} is a classifier of {shortened(names)}: the training goes on with its head"]


def epoch_figures(
    model: nn.Module, loaders: dict[str, Any], labels: Labels, best: Best, accelerator: Accelerator
) -> dict[str, float]:
    """Measures a model after an epoch: on the validation rows, and by the first metric on the training rows."""
    training, figures = (
        evaluate_classification(model, loaders[split], accelerator) for split in ("train", "validation")
    )
    best.see(accelerator, model, figures)
    many = len(labels.names) > MOST_CLASSES  # a line of the log has no room for all recalls
    logged = {name: value for name, value in figures.items() if not (many and name.startswith("recall_"))}
    first = METRICS[labels.problem_type][0]
    return {f"train_{first}": training[first], **logged}


if __name__ == "__main__":
    cli.run(lambda: train_finetuning(cli.parse(FinetuneOptions, __doc__, RECIPES)))
