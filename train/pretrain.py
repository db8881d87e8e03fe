"""Pre-trains ToyBERT on text: masked words and next sentences, at once (section 3.1 of the paper)."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import Accelerator
from accelerate.utils import gather_object
from transformers import AutoModelForMaskedLM, AutoModelForPreTraining, PreTrainedTokenizerBase

from toybert.train import cli
from toybert.train.cli import option
from toybert.train.data.batches import evaluation_loader
from toybert.train.data.checks import CORPORA
from toybert.train.data.datasets import MaskedWordDataset, PretrainDataset
from toybert.train.data.sentences import document_numbers
from toybert.train.data.stream import StreamedBatches, as_rows, head_of, open_stream
from toybert.train.data.text import Text, TextOptions, load_text
from toybert.train.data.vocabulary import TOKENIZERS, learn_tokenizer, load_learnt, save_learnt
from toybert.train.hub.card import Result, shown, write_card
from toybert.train.hub.folders import (
    ROOT,
    check_vocabulary,
    load_config,
    load_model,
    load_tokenizer,
    longest_input,
    pinned,
)
from toybert.train.loop.loop import Progress, finish, train
from toybert.train.loop.run import LoopOptions, start
from toybert.train.measure.plots import plot_pretraining
from toybert.train.measure.pretraining import evaluate_pretraining

# What `--recipe` changes: the plain way to train that this project began with, for comparison.
RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    "seed": {
        "epochs": 15,
        "learning_rate": 1e-4,
        "muon_learning_rate": 0.0,
        "weight_decay": 0.0,
        "schedule": "constant",
        "max_grad_norm": 0.0,
        "dropout": 0.1,
        "mlm_probability": 0.15,
        "initializer_range": 0.02,
    },
}


VOCABULARY = "run.vocabulary"  # in the run's folder: the tokenizer that it has learnt
# The options that `--init-from` takes out of its checkpoint: they are at their defaults then.
GIVEN = (
    "vocab_size", "min_frequency", "tokenizer", "num_hidden_layers", "hidden_size", "num_attention_heads",
    "intermediate_size", "max_length",
)  # fmt: skip
# What a checkpoint that `--init-from` names has learnt to tell; others bring neither.
HEADS: dict[str, tuple[str, ...]] = {
    "ToyBertForPreTraining": ("masked words", "next sentences"),
    "ToyBertForMaskedLM": ("masked words",),
    "ToyBertForNextSentencePrediction": ("next sentences",),
}


@dataclass(kw_only=True)
class PretrainOptions(LoopOptions, TextOptions):
    """Holds the options of a pre-training run; the defaults are the recipe that learns both tasks soonest."""

    epochs: int = option("Passes over the training pairs.", 8)
    learning_rate: float = option("AdamW's peak learning rate.", 2e-3)
    muon_learning_rate: float = option("Muon's, for the layers' matrices; 0 leaves them to AdamW.", 0.008)
    dropout: float = option("During this run; config.json keeps its own.", 0.0)
    corpus: str = option(
        "Text: a .txt file or a folder of them, a table (csv, tsv, json, jsonl, parquet), a data set's folder or id.",
        str(CORPORA / "stories"),
    )
    init_from: str | None = option("A checkpoint to go on from: its weights, tokenizer and sizes.", None)
    revision: str | None = option("The commit, tag or branch of that checkpoint, if it is on the Hub.", None)
    tokenizer: str = option("word, or wordpiece for text of an open vocabulary.", "word")
    vocab_size: int = option("The most tokens that the vocabulary may have.", 2000)
    min_frequency: int = option("How often a word must stand in the text to be learnt.", 1)
    num_hidden_layers: int = option("Layers.", 2)
    hidden_size: int = option("The width of a layer.", 128)
    num_attention_heads: int = option("Heads of a layer, which share its width.", 4)
    intermediate_size: int | None = option("The width inside a feed-forward (default: 4 x hidden_size).", None)
    max_length: int = option("The most tokens of an input, with [CLS] and [SEP].", 64)
    nsp: bool = option("Learn next sentences too; --no-nsp learns masked words alone.", True)
    pack: bool | None = option(
        "Fill inputs with neighbouring sentences (default: yes, but for a folder of train.jsonl and others).", None
    )
    streaming: bool = option("Read the text as it is needed: for what is larger than the disk.", False)
    max_steps: int = option("The steps of a run with --streaming, measured --epochs times.", 0)
    mlm_probability: float = option("Share of the words to predict in training.", 0.2)
    initializer_range: float = option("Standard deviation of the first weights.", 0.05)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.mlm_probability <= 1:
            raise ValueError(f"mlm_probability must be above 0 and at most 1, got {self.mlm_probability}")
        if self.vocab_size <= 5:
            raise ValueError(f"vocab_size must be above 5, the number of special tokens, got {self.vocab_size}")
        if self.tokenizer not in TOKENIZERS:
            raise ValueError(f"tokenizer must be {' or '.join(TOKENIZERS)}, got {self.tokenizer!r}")
        if self.max_length < 8:
            raise ValueError(f"max_length must be at least 8, room for two short sentences, got {self.max_length}")
        for name in ("min_frequency", "num_hidden_layers", "hidden_size", "num_attention_heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads {self.num_attention_heads}"
            )
        if not self.initializer_range > 0:
            raise ValueError(f"initializer_range must be above 0, got {self.initializer_range}")
        if self.streaming != bool(self.max_steps) or self.max_steps < 0 or self.max_steps % self.epochs:
            raise ValueError(
                f"--max-steps goes with --streaming, a multiple of --epochs ({self.epochs}): got {self.max_steps}"
            )
        if self.nsp and self.batch_size % PretrainDataset.group:
            raise ValueError(f"batch_size must be even, since true and false pairs go together, got {self.batch_size}")
        if self.revision and not self.init_from:
            raise ValueError("revision is of the checkpoint that init_from names, and there is none")
        if self.init_from:
            for each in fields(self):
                if each.name in GIVEN and getattr(self, each.name) != each.default:
                    raise ValueError(f"{each.name} is the checkpoint's, and can't be given together with init_from")

    @property
    def packed(self) -> bool:
        """Whether inputs are filled with neighbouring sentences."""
        return not self.has_splits() if self.pack is None else self.pack

    def sources(self) -> list[Path]:
        started = [Path(self.init_from) / "model.safetensors"] if self.init_from else []
        return ([] if self.streaming else self.files()) + [path for path in started if path.is_file()]


def train_pretraining(options: PretrainOptions) -> dict[str, Any]:
    """Learns a vocabulary, pre-trains a model, and leaves it in `output_dir` as a folder that loads anywhere.

    Returns:
        The figures of the last epoch on the validation documents, and the seconds and steps that it took.
    """
    stream = open_stream(options) if options.streaming else None
    text = head_of(stream, options) if stream else load_text(options, seed=options.seed, pairs=options.nsp)
    accelerator = start(options)

    with accelerator.main_process_first():  # it learns the words and tokenises, the others find what it made
        tokenizer, max_length = make_tokenizer(options, text, accelerator)
        mlm = {"mlm_probability": options.mlm_probability, "seed": options.seed}
        training = make_dataset(options, text.training, tokenizer, max_length, **mlm)
        validation = make_dataset(options, text.validation, tokenizer, max_length)
    data = describe(text, options, tokenizer, training, validation)
    for line in data:
        accelerator.print(line.replace("`", ""))
    accelerator.print(
        f"training on {accelerator.num_processes} x {accelerator.device}, precision {accelerator.mixed_precision}"
    )

    batches: Any = training
    if stream:

        def make(documents: list[dict[str, Any]]) -> PretrainDataset | MaskedWordDataset:
            return make_dataset(options, as_rows(documents, options), tokenizer, max_length, **mlm)

        steps = options.max_steps // options.epochs
        batches = StreamedBatches(stream, make, options, options.batch_size, steps, accelerator, options.seed)
    model, kept = make_model(options, tokenizer)
    loader = evaluation_loader(validation, accelerator)
    progress = train(
        model, batches, options, accelerator, lambda m: evaluate_pretraining(m, loader, accelerator), "Pre-training"
    )
    if stream and (count := sum(gather_object([batches.without_text]))):
        data.append(f"{count:,} rows without text passed over")
        accelerator.print(data[-1])
    if accelerator.is_main_process:
        write_card("pretrain", model, options, progress, data, results(progress, training, validation))
    finish(accelerator, model, tokenizer, progress, options, plot_pretraining, kept)
    return {**progress.validation[-1], "seconds": progress.seconds}


def make_tokenizer(
    options: PretrainOptions, text: Text, accelerator: Accelerator
) -> tuple[PreTrainedTokenizerBase, int]:
    """Learns a tokenizer from the training documents, or takes that of a checkpoint; and the longest input.

    What was learnt is kept for the other processes and for a resume.
    """
    if options.init_from:
        checkpoint = pinned(options.init_from, options.revision)
        tokenizer, config = load_tokenizer(checkpoint), load_config(checkpoint)
        check_vocabulary(tokenizer, config, options.init_from)
        return tokenizer, longest_input(tokenizer, config)
    kind, max_length, folder = options.tokenizer, options.max_length, Path(options.output_dir) / VOCABULARY
    if accelerator.is_main_process and not (options.resume and folder.is_dir()):
        sentences = text.training["sentences"]
        save_learnt(learn_tokenizer(kind, sentences, options.vocab_size, options.min_frequency, max_length), folder)
    return load_learnt(kind, folder), max_length


def make_dataset(
    options: PretrainOptions, rows: Any, tokenizer: PreTrainedTokenizerBase, max_length: int, **more: Any
) -> PretrainDataset | MaskedWordDataset:
    """Makes pairs of sentences, or rows of masked words alone."""
    kind = PretrainDataset if options.nsp else MaskedWordDataset
    numbers = document_numbers(rows)
    return kind(rows["sentences"], tokenizer, numbers=numbers, packed=options.packed, max_length=max_length, **more)


def make_model(options: PretrainOptions, tokenizer: PreTrainedTokenizerBase) -> tuple[Any, dict[str, Any]]:
    """Makes a new model, or loads the checkpoint to go on from; and the fields to put back into its configuration."""
    auto_class = AutoModelForPreTraining if options.nsp else AutoModelForMaskedLM
    changed: dict[str, Any] = {
        "hidden_dropout_prob": options.dropout,
        "attention_probs_dropout_prob": options.dropout,
        "sparse_prediction": True,
    }
    if options.init_from:
        checkpoint = pinned(options.init_from, options.revision)
        config = load_config(checkpoint)
        kept = {name: getattr(config, name) for name in changed}
        if (config.architectures or [""])[0] not in HEADS:  # the classes that it tells apart are not those learnt here
            plain = load_config(ROOT)
            changed |= {name: getattr(plain, name) for name in ("id2label", "label2id", "problem_type")}
        return load_model(auto_class, checkpoint, dtype="float32", **changed), kept
    config = load_config(
        ROOT,
        vocab_size=len(tokenizer),
        num_hidden_layers=options.num_hidden_layers,
        hidden_size=options.hidden_size,
        num_attention_heads=options.num_attention_heads,
        intermediate_size=options.intermediate_size or 4 * options.hidden_size,
        max_position_embeddings=options.max_length,
    )
    changed["initializer_range"] = options.initializer_range
    kept = {name: getattr(config, name) for name in changed}
    config.update(changed)
    return auto_class.from_config(config, trust_remote_code=True), kept


def describe(
    text: Text,
    options: PretrainOptions,
    tokenizer: PreTrainedTokenizerBase,
    training: PretrainDataset | MaskedWordDataset,
    validation: PretrainDataset | MaskedWordDataset,
) -> list[str]:
    """Says in sentences what a run learns from, what is held out, and what of the text it does not use."""
    name = f"{'the beginning of ' * options.streaming}`{Path(options.corpus).name}`"
    rows = f"{len(training):,} pairs of sentences, half of them true" if options.nsp else f"{len(training):,} inputs"
    said = [
        f"{len(np.unique(document_numbers(text.training))):,} training documents of {name}, {rows}",
        f"{len(tokenizer):,} tokens in the vocabulary; unknown to it are {unknown(training):.1%} of the training text "
        f"and {unknown(validation):.1%} of the held-out text",
        f"held out to measure on: {text.held_out}, {len(validation):,} {'pairs' if options.nsp else 'inputs'}",
    ]
    if others := options.unread():
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        said.append(f"not read of this folder: {', '.join(others[:5])}{more}")
    if options.init_from:
        config = load_config(pinned(options.init_from, options.revision))
        known = HEADS.get((config.architectures or [""])[0], ())
        new = [head for head in HEADS["ToyBertForPreTraining"][: 1 + options.nsp] if head not in known]
        heads = f", with a new head for {' and '.join(new)}" if new else ""
        said.append(f"goes on from `{shown(options.init_from)}`{heads}")
    for part, dataset in (("training", training), ("held-out", validation)):
        said += [f"{part} text: {note}" for note in notes(dataset)]
    return said


def notes(dataset: PretrainDataset | MaskedWordDataset) -> list[str]:
    """Says what of a text is split, cut or left out."""
    counts = {
        "sentences without a word left out": dataset.dropped,
        "sentences split, as longer than their room": getattr(dataset.spans, "split", 0),
        "pairs whose longer sentence is cut at its end (--pack true splits it)": getattr(dataset, "cut", 0),
        "sentences left out, as alone in their document (--no-nsp uses them)": getattr(dataset, "alone", 0),
    }
    return [f"{count:,} {what}" for what, count in counts.items() if count]


def unknown(dataset: PretrainDataset | MaskedWordDataset) -> float:
    """Gives the share of the text's tokens that are [UNK]."""
    counts = dataset.word_counts
    return float(counts[dataset.tokenizer.unk_token_id] / counts.sum())


def results(
    progress: Progress, training: PretrainDataset | MaskedWordDataset, validation: PretrainDataset | MaskedWordDataset
) -> list[Result]:
    """Gives the last figures on the validation documents, each beside what can be had without a network."""
    last = progress.validation[-1]
    learnt, counts = training.word_counts, validation.word_counts
    learnt[training.special_ids] = counts[training.special_ids] = 0  # they are never to be predicted
    commonest = float(counts[learnt.argmax()] / counts.sum())
    figures = [("validation", "masked words, 15 %", last["mlm_accuracy"], "the commonest word", commonest)]
    if "nsp_accuracy" in last:
        figures.append(("validation", "next sentence", last["nsp_accuracy"], "a coin", 0.5))
    return figures


if __name__ == "__main__":
    cli.run(lambda: train_pretraining(cli.parse(PretrainOptions, __doc__, RECIPES)))
