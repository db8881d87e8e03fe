"""Pre-trains ToyBERT on stories: masked words and next sentences, at once (section 3.1 of the paper)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoModelForPreTraining

from toybert.train import cli
from toybert.train.card import write_card
from toybert.train.corpus import CORPORA, in_slices, load_corpus
from toybert.train.data import PretrainDataset
from toybert.train.evaluate import evaluate_pretraining, evaluation_loader
from toybert.train.hub import ROOT, load_config, load_tokenizer
from toybert.train.loop import LoopOptions, finish, option, start, train
from toybert.train.plots import plot_pretraining

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


@dataclass(kw_only=True)
class PretrainOptions(LoopOptions):
    """Holds the options of a pre-training run; the defaults are the recipe that learns most in the time."""

    epochs: int = option("Passes over the training pairs.", 8)
    learning_rate: float = option("AdamW's peak learning rate.", 2e-3)
    muon_learning_rate: float = option("Muon's, for the layers' matrices; 0 leaves them to AdamW.", 0.008)
    dropout: float = option("During this run; config.json keeps its own.", 0.0)
    corpus: str = option("A folder of train, validation and test .jsonl of documents.", str(CORPORA / "stories"))
    vocab_size: int = option("The most words that the vocabulary may have.", 2000)
    mlm_probability: float = option("Share of the words to predict in training.", 0.2)
    initializer_range: float = option("Standard deviation of the first weights.", 0.05)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.mlm_probability <= 1:
            raise ValueError(f"mlm_probability must be above 0 and at most 1, got {self.mlm_probability}")
        if self.vocab_size <= 5:
            raise ValueError(f"vocab_size must be above 5, the number of special tokens, got {self.vocab_size}")
        if not self.initializer_range > 0:
            raise ValueError(f"initializer_range must be above 0, got {self.initializer_range}")
        if self.batch_size % PretrainDataset.group:
            raise ValueError(f"batch_size must be even, since true and false pairs go together, got {self.batch_size}")

    def sources(self) -> list[Path]:
        return [Path(self.corpus) / f"{split}.jsonl" for split in ("train", "validation")]


def train_pretraining(options: PretrainOptions) -> dict[str, Any]:
    """Learns a vocabulary, pre-trains a new model, and leaves it in `output_dir` as a folder that loads anywhere.

    Returns:
        The figures of the last epoch on the validation documents, and the seconds and steps that it took.
    """
    corpus = load_corpus(options.corpus, columns=["sentences"])
    accelerator = start(options)

    documents = {split: rows["sentences"] for split, rows in corpus.items()}
    tokenizer = load_tokenizer(ROOT).train_new_from_iterator(
        in_slices(documents["train"]), options.vocab_size, show_progress=False
    )
    with accelerator.main_process_first():  # it tokenises, the others find what it made
        training = PretrainDataset(
            documents["train"], tokenizer, mlm_probability=options.mlm_probability, seed=options.seed
        )
        validation = PretrainDataset(documents["validation"], tokenizer)
    if training.dropped:
        accelerator.print(f"left out {training.dropped} sentences without a word")
    accelerator.print(
        f"{len(corpus['train'])} documents, {len(training)} pairs of sentences, true or false, {len(tokenizer)} words; "
        f"training on {accelerator.num_processes} x {accelerator.device}, precision {accelerator.mixed_precision}"
    )

    config = load_config(ROOT, vocab_size=len(tokenizer))
    changed = {
        "hidden_dropout_prob": options.dropout,
        "attention_probs_dropout_prob": options.dropout,
        "initializer_range": options.initializer_range,
        "sparse_prediction": True,
    }
    kept = {name: getattr(config, name) for name in changed}
    config.update(changed)
    model = AutoModelForPreTraining.from_config(config, trust_remote_code=True)

    loader = evaluation_loader(validation, accelerator)
    progress = train(
        model, training, options, accelerator, lambda m: evaluate_pretraining(m, loader, accelerator), "Pre-training"
    )
    if accelerator.is_main_process:
        last, counts = progress.validation[-1], validation.word_counts / validation.word_counts.sum()
        data = [
            f"{len(corpus['train']):,} training documents of `{Path(options.corpus).name}`, {len(training):,} pairs of "
            f"sentences, half of them true",
            f"{len(corpus['validation']):,} validation documents; {counts[tokenizer.unk_token_id]:.1%} of their words "
            f"are not in the vocabulary, which was learnt from the others",
        ]
        commonest = float(counts[training.word_counts.argmax()])
        results = [
            ("masked words, 15 %", last["mlm_accuracy"], "the commonest word", commonest),
            ("next sentence", last["nsp_accuracy"], "a coin", 0.5),
        ]
        write_card("pretrain", model, options, progress, data, results)
    finish(accelerator, model, tokenizer, progress, options, plot_pretraining, kept)
    return {**progress.validation[-1], "seconds": progress.seconds}


if __name__ == "__main__":
    cli.run(lambda: train_pretraining(cli.parse(PretrainOptions, __doc__, RECIPES)))
