"""Pre-trains ToyBERT on text: masked words and next sentences, at once (section 3.1 of the paper)."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import Accelerator

from toybert.train import cli
from toybert.train.cli import option
from toybert.train.data.batches import Batches, DatasetBatches, evaluation_loader
from toybert.train.data.datasets import MaskedWordDataset, PretrainDataset
from toybert.train.data.source import CORPORA, TextOptions, by_name, digest, find_source
from toybert.train.data.stream import StreamedBatches, in_windows, load_head
from toybert.train.data.text import load_text
from toybert.train.data.tokens import TokenisedText, tokenise_text
from toybert.train.data.vectors import word_vectors
from toybert.train.data.vocabulary import TOKENIZERS, accents_taken, learn_tokenizer, save_learnt
from toybert.train.hub.card import write_card
from toybert.train.loop.lock import alone, hold
from toybert.train.loop.loop import finish, train
from toybert.train.loop.network import VOCABULARY, goes_on_from, load_its_tokenizer, make_model, start_from
from toybert.train.loop.run import LoopOptions, Ranges, check_ranges, claim_folder, make_accelerator, on_main_process
from toybert.train.measure.plots import plot_pretraining
from toybert.train.measure.pretraining import evaluate_pretraining
from toybert.train.measure.results import describe, pretraining_rows

# What a recipe changes: `sooner` learns a little more in as many steps, but did not make the shipped weights; `seed` is
# the plain one that this project began with, for comparison.
RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    "sooner": {"embeddings": "counts", "mlm_probability": 0.4, "mlm_probability_end": 0.15},
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
EMBEDDINGS = ("random", "counts")
# `--init-from` takes these from its checkpoint, so the options must be at their defaults.
GIVEN = (
    "vocab_size", "min_frequency", "tokenizer", "num_hidden_layers", "hidden_size", "num_attention_heads",
    "intermediate_size", "max_length", "embeddings", "lower_case", "strip_accents",
)  # fmt: skip
RANGES: Ranges = (
    ("at least 1", lambda x: x >= 1, ("min_frequency", "num_attention_heads")),
    ("from 1 to 1,000", lambda x: 1 <= x <= 1000, ("num_hidden_layers",)),
    ("from 1 to 1,000,000", lambda x: x is None or 1 <= x <= 10**6, ("hidden_size", "intermediate_size")),
    ("from 8 (room for two short sentences) to 1,000,000", lambda x: 8 <= x <= 10**6, ("max_length",)),
    ("above 5 (the number of special tokens) and at most 10,000,000", lambda x: 5 < x <= 10**7, ("vocab_size",)),
    ("above 0 and at most 1", lambda x: x is None or 0 < x <= 1, ("mlm_probability", "mlm_probability_end")),
    ("above 0", lambda x: x > 0, ("initializer_range",)),
    (" or ".join(TOKENIZERS), lambda x: x in TOKENIZERS, ("tokenizer",)),
    (" or ".join(EMBEDDINGS), lambda x: x in EMBEDDINGS, ("embeddings",)),
)


@dataclass(kw_only=True)
class PretrainOptions(LoopOptions, TextOptions):
    """Holds the options of a pre-training run; the defaults are the recipe that learns both tasks fastest."""

    epochs: int = option("Passes over the training text.", 8)
    learning_rate: float = option("AdamW's peak learning rate.", 2e-3)
    muon_learning_rate: float = option("Muon's peak rate, for the matrices in the layers; 0 uses AdamW alone.", 0.008)
    dropout: float = option("Dropout in this run; the saved config.json keeps its own.", 0.0)
    corpus: str = option(
        "Text: a .txt file or a folder of them, a table (csv, tsv, json, jsonl, parquet), a data set's folder or id.",
        str(CORPORA / "stories"),
    )
    init_from: str | None = option("Checkpoint to continue from, with its tokenizer and its sizes.", None)
    revision: str | None = option("Commit, tag or branch of a checkpoint on the Hub (default: its main branch).", None)
    tokenizer: str = option("word (whole words), or wordpiece (for text with many different words).", "word")
    lower_case: bool = option("Take capitals for small letters.", True)
    strip_accents: bool | None = option("Take accents off (default: where wordpiece is lower-case, as in BERT).", None)
    vocab_size: int = option("Largest number of tokens in the vocabulary.", 2000)
    min_frequency: int = option("How often a word must occur to enter the vocabulary.", 1)
    num_hidden_layers: int = option("Number of layers.", 2)
    hidden_size: int = option("Width of a layer.", 128)
    num_attention_heads: int = option("Heads in a layer, which share its width.", 4)
    intermediate_size: int | None = option("Width inside a feed-forward (default: 4 x hidden_size).", None)
    max_length: int = option("Largest number of tokens in an input, [CLS] and [SEP] included.", 64)
    nsp: bool = option("Learn next sentences too; --no-nsp learns masked words alone.", True)
    pack: bool | None = option(
        "Fill inputs with neighbouring sentences (default: yes, except for a folder with a train.jsonl).", None
    )
    streaming: bool = option("Read the text during the run, for text larger than the disk.", False)
    max_steps: int = option("Steps of a --streaming run; it is evaluated --epochs times.", 0)
    mlm_probability: float = option("Share of the words to predict in training.", 0.2)
    mlm_probability_end: float | None = option("That share in the last epoch (default: as in the first).", None)
    embeddings: str = option("How word embeddings start: random, or counts (of which words stand together).", "random")
    initializer_range: float = option("Standard deviation of new weights.", 0.05)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, RANGES)
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads {self.num_attention_heads}"
            )
        if self.streaming != bool(self.max_steps) or self.max_steps < 0 or self.max_steps % self.epochs:
            raise ValueError(
                f"--max-steps goes with --streaming, as a multiple of --epochs ({self.epochs}): got {self.max_steps}"
            )
        if self.streaming and self.mlm_probability_end:
            raise ValueError("mlm_probability_end, which the recipe sooner sets, does not go with streaming")
        if self.nsp and self.batch_size % PretrainDataset.group:
            raise ValueError(f"batch_size must be even, since true and false pairs go together, got {self.batch_size}")
        if self.strip_accents and self.tokenizer == "word":
            raise ValueError("strip_accents goes with the tokenizer wordpiece: words keep theirs")
        if self.revision and not self.init_from:
            raise ValueError("revision needs init_from, which names a checkpoint on the Hub")
        for name in GIVEN:
            if self.init_from and getattr(self, name) != getattr(PretrainOptions, name):
                raise ValueError(f"{name} comes from the checkpoint: leave it out when you give init_from")


@alone
def train_pretraining(options: PretrainOptions) -> dict[str, Any]:
    """Learns a vocabulary, pre-trains a model, and saves it in `output_dir` as a folder that loads anywhere.

    Returns:
        The figures of the last epoch on the validation documents, and the seconds and steps that it took.
    """
    accelerator = make_accelerator(options)
    text = on_main_process(accelerator, lambda: prepare(options, accelerator))
    tokenizer, max_length = load_its_tokenizer(options)

    packed = not text.source.has_splits if options.pack is None else options.pack
    kind = PretrainDataset if options.nsp else MaskedWordDataset
    plain = partial(kind, tokenizer=tokenizer, packed=packed, max_length=max_length)
    first, last = options.mlm_probability, options.mlm_probability_end or options.mlm_probability
    make = partial(plain, mlm_probability=np.linspace(first, last, options.epochs), seed=options.seed)
    training, validation = make(text.training), plain(text.validation)
    said = [*describe(text, training, validation, options), *goes_on_from(options)]
    accelerator.print("\n".join(said).replace("`", ""))
    where = f"{accelerator.num_processes} x {accelerator.device}, precision {accelerator.mixed_precision}"
    accelerator.print(f"training on {where}")
    batches: Batches
    if options.streaming:
        steps, windows = options.max_steps // options.epochs, in_windows(make, text.source, tokenizer)
        batches = StreamedBatches(text.source, windows, options.batch_size, steps, accelerator, options.seed)
    else:
        batches = DatasetBatches(training, options.batch_size, accelerator, options.seed)
    loader = evaluation_loader(validation, accelerator)

    model, kept = make_model(options, len(tokenizer))
    if options.embeddings == "counts":
        size = len(tokenizer), options.hidden_size, options.seed
        start_from(model, on_main_process(accelerator, lambda: word_vectors(text.training, *size)))
    evaluate = partial(evaluate_pretraining, loader=loader, accelerator=accelerator)
    progress = train(model, batches, options, accelerator, evaluate)
    for line in (passed_over := batches.notes()):
        accelerator.print(line)
    if accelerator.is_main_process:
        last = progress.validation[-1]
        rows = pretraining_rows(last, training, validation)
        write_card("pretrain", model, options, progress, said + passed_over, rows)
    finish(accelerator, model, tokenizer, progress, options, plot_pretraining, kept)
    return {**progress.validation[-1], "seconds": progress.seconds}


def prepare(options: PretrainOptions, accelerator: Accelerator) -> TokenisedText:
    """Reads the text, learns a tokenizer from it unless there is one, and tokenises it, for all processes."""
    source = find_source(options)
    hold(Path(options.output_dir))  # before the work
    text = load_head(source) if options.streaming else load_text(source, seed=options.seed, pairs=options.nsp)
    weights = [Path(options.init_from) / "model.safetensors"] if options.init_from else []
    options.sources = text.record | by_name({path: digest(path) for path in weights if path.is_file()})
    claim_folder(options, accelerator)
    folder = Path(options.output_dir) / VOCABULARY
    if not options.init_from and not (options.resume and folder.is_dir()):
        sentences, case = text.training["sentences"], (options.lower_case, options.strip_accents)
        how = options.vocab_size, options.min_frequency, options.max_length, *case
        learnt = learn_tokenizer(options.tokenizer, sentences, *how)
        if options.tokenizer == "wordpiece" and (count := accents_taken(sentences, *case)):
            print(f"{count:,} words lose accents or other marks: --no-strip-accents keeps them")
        save_learnt(learnt, folder)
    return tokenise_text(text, load_its_tokenizer(options)[0])


if __name__ == "__main__":
    cli.run(lambda: train_pretraining(cli.parse(PretrainOptions, __doc__, RECIPES)))
