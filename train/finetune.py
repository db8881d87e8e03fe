"""Fine-tunes every parameter of a pre-trained ToyBERT on labelled text (section 4 of the paper)."""

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from torch import Tensor, nn

from toybert.train import cli
from toybert.train.cli import option
from toybert.train.data.batches import DatasetBatches, evaluation_loader
from toybert.train.data.labels import (
    PROBLEMS,
    Labels,
    data_summary,
    learn_labels,
    make_datasets,
    name_sentiment,
    split_validation,
)
from toybert.train.data.source import CORPORA, Source, by_name, digest, find_tables
from toybert.train.data.tables import Table, load_tables
from toybert.train.hub import folders
from toybert.train.hub.folders import ROOT
from toybert.train.loop.best import Best
from toybert.train.loop.lock import alone
from toybert.train.loop.loop import finish, train
from toybert.train.loop.network import check_head, make_classifier
from toybert.train.loop.run import LoopOptions, Ranges, check_ranges, start
from toybert.train.measure.classification import METRICS, best_metric, evaluate_classification
from toybert.train.measure.plots import MOST_CLASSES, plot_finetuning
from toybert.train.measure.results import write_finetuning_card, write_results

RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    "seed": {"learning_rate": 1e-4, "weight_decay": 0.0, "schedule": "constant", "max_grad_norm": 0.0},
}

RANGES: Ranges = (
    ("at least 0", lambda x: x >= 0, ("patience",)),
    (f"one of {', '.join(PROBLEMS)}", lambda x: x in (None, *PROBLEMS), ("problem_type",)),
)


@dataclass(kw_only=True)
class FinetuneOptions(LoopOptions):
    """Holds the options of a fine-tuning run."""

    epochs: int = option("Passes over the training rows.", 5)
    learning_rate: float = option("AdamW's peak learning rate.", 1e-3)
    muon_learning_rate: float = option("Muon's peak rate, for the matrices in the layers; 0 uses AdamW alone.", 0.0)
    dropout: float = option("Dropout in this run; the saved config.json keeps its own.", 0.1)
    model: str = option("The pre-trained checkpoint: a folder, or an id on the Hub.", str(ROOT))
    revision: str | None = option("Commit, tag or branch of a model on the Hub (default: its main branch).", None)
    corpus: str = option(
        "Labelled text: a data set on the Hub, or a folder of train.jsonl, .csv or the like, with validation and test "
        "beside it. In .jsonl files, the labels 0 and 1 mean negative and positive.",
        str(CORPORA / "sentiment"),
    )
    corpus_config: str | None = option("Configuration of the corpus, if it has several.", None)
    train_file: str | None = option("Rows to train on, instead of a corpus: .csv, .tsv, .json, .jsonl, .parquet.", None)
    validation_file: str | None = option("Rows to validate on (default: a tenth of the training rows).", None)
    test_file: str | None = option("Rows to predict into predictions.csv; measured too if they have labels.", None)
    text_column: str = option("Column of the text.", "text")
    text_pair_column: str | None = option("Column of the second text, for pairs (default: no pairs).", None)
    label_column: str = option("Column of the label.", "label")
    label_separator: str | None = option("Separates several labels in one cell (default: a cell is one label).", None)
    problem_type: str | None = option(f"{', '.join(PROBLEMS)} (default: guessed from the labels).", None)
    best_metric: str | None = option("Chooses the best epoch (default: accuracy, micro_f1 or loss, by problem).", None)
    freeze_embeddings: bool = option("Leave words where pre-training put them, those without labels too.", False)
    quote_formulas: bool = option("Begin text in predictions.csv with ' if a spreadsheet would run it as code.", False)
    patience: int = option("Stop after this many epochs without improvement, and keep the best; 0 never stops.", 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, RANGES)
        if self.best_metric and not self.patience:
            raise ValueError(f"best_metric={self.best_metric} needs a patience above 0: with 0 the last epoch is kept")
        if self.validation_file and not self.train_file:
            raise ValueError("validation_file needs a train_file as well")
        if self.train_file and self.corpus != FinetuneOptions.corpus:
            raise ValueError(f"give a train_file or a corpus, not both {self.train_file} and {self.corpus}")

    @property
    def texts(self) -> list[str]:
        """The columns that the model reads: one, or two for pairs."""
        return [column for column in (self.text_column, self.text_pair_column) if column]

    @cached_property
    def source(self) -> Source:
        """Where the labelled rows are."""
        files = {"train": self.train_file, "validation": self.validation_file, "test": self.test_file}
        return find_tables(self.corpus, self.corpus_config, files)

    @cached_property
    def sources(self) -> dict[str, list[str]]:
        """The hashes of the files that the run learns from; a model on the Hub has none here."""
        checkpoint = [Path(self.model) / name for name in ("model.safetensors", "tokenizer.json")]
        return by_name(self.source.digests | {path: digest(path) for path in checkpoint if path.is_file()})


@alone
def train_finetuning(options: FinetuneOptions) -> dict[str, Any]:
    """Fine-tunes a checkpoint on labelled text, and saves it in `output_dir` as a folder that loads anywhere.

    Returns:
        The validation figures and the step of the kept epoch, and the seconds of the whole run.
    """
    tables, encoded, labels = read_tables(options)
    metric = best_metric(labels.problem_type, options.best_metric)
    checkpoint = folders.pinned(options.model, options.revision)
    tokenizer, config = folders.load_tokenizer(checkpoint), folders.load_config(checkpoint)
    folders.check_vocabulary(tokenizer, config, options.model)
    notes = [*check_head(config, labels, options.model), *folders.saved_type(checkpoint)]
    accelerator, folder = start(options), Path(options.output_dir)

    with accelerator.main_process_first():  # the others read its tokens from the cache
        longest = folders.longest_input(tokenizer, config)
        data = make_datasets(tables, encoded, options.texts, tokenizer, longest)
    accelerator.print("\n".join([*data_summary(tables, data, labels, accelerator), *notes]))

    model, kept = make_classifier(checkpoint, labels, options.dropout)
    model.get_input_embeddings().requires_grad_(not options.freeze_embeddings)
    batches = DatasetBatches(data["train"], options.batch_size, accelerator, options.seed)
    loaders = {split: evaluation_loader(data[split], accelerator) for split in ("train", "validation")}
    evaluate = partial(epoch_figures, loaders=loaders, labels=labels, accelerator=accelerator)
    best = Best(metric, options.patience, folder / "checkpoints" / "best.safetensors")
    progress = train(model, batches, options, accelerator, evaluate, best)
    best.restore(accelerator.unwrap_model(model))
    epoch = best.epoch(progress.validation)
    if options.patience:
        by = f"{metric.replace('_', ' ')} (on a tie, by the loss)"
        accelerator.print(f"kept epoch {epoch} of {len(progress.validation)}, the best by {by}")

    measured = {split: tables[split] for split in ("validation", "test") if split == "validation" or options.test_file}
    results = write_results(model, measured, data, labels, options, accelerator)
    if accelerator.is_main_process:
        write_finetuning_card(model, data, labels, results, options, progress)
    draw = partial(plot_finetuning, metric=METRICS[labels.problem_type][0], kept=epoch if options.patience else 0)
    finish(accelerator, model, tokenizer, progress, options, draw, kept)
    return {**progress.validation[epoch - 1], "seconds": progress.seconds}


def read_tables(options: FinetuneOptions) -> tuple[dict[str, Table], dict[str, Tensor | None], Labels]:
    """Reads the tables of a run and checks them; returns them, their encoded labels, and what the labels stand for."""
    tables = load_tables(options.source)
    if not options.train_file:
        tables = name_sentiment(tables, options.corpus, options.label_column)
    for table in tables.values():
        for column in options.texts:
            table.check_text(column)
    labels = learn_labels(tables["train"], options.label_column, options.label_separator, options.problem_type)
    if "validation" not in tables:
        tables = split_validation(tables, labels, options.seed)
    encoded = {
        split: labels.encode_if_given(table) if split == "test" else labels.encode(table)
        for split, table in tables.items()
    }
    return tables, encoded, labels


def epoch_figures(
    model: nn.Module, loaders: dict[str, Any], labels: Labels, accelerator: Accelerator
) -> dict[str, float]:
    """Measures a model after an epoch: on the validation rows, and by the first metric on the training rows."""
    training, figures = (
        evaluate_classification(model, loaders[split], accelerator) for split in ("train", "validation")
    )
    many = len(labels.names) > MOST_CLASSES  # a line of the log has no room for all recalls
    logged = {name: value for name, value in figures.items() if not (many and name.startswith("recall_"))}
    first = METRICS[labels.problem_type][0]
    return {f"train_{first}": training[first], **logged}


if __name__ == "__main__":
    cli.run(lambda: train_finetuning(cli.parse(FinetuneOptions, __doc__, RECIPES)))
