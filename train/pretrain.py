"""Pre-trains ToyBERT on stories: masked words and next sentences, at once (section 3.1 of the paper)."""

from dataclasses import dataclass, field
from typing import Any

from transformers import AutoConfig, AutoModelForPreTraining

from toybert.train import cli
from toybert.train.data import CORPORA, PretrainDataset, load_corpus
from toybert.train.evaluate import evaluate_pretraining, evaluation_loader
from toybert.train.hub import ROOT, load_tokenizer
from toybert.train.loop import LoopOptions, finish, start, train
from toybert.train.plots import plot_pretraining

RECIPES: dict[str, dict[str, Any]] = {
    "default": {
        "epochs": 8,
        "batch_size": 32,
        "learning_rate": 5e-3,
        "muon_learning_rate": 0.02,
        "weight_decay": 0.01,
        "schedule": "linear",
        "warmup_ratio": 0.06,
        "dropout": 0.0,
        "mlm_probability": 0.3,
    },
    "seed": {
        "epochs": 15,
        "batch_size": 32,
        "learning_rate": 1e-4,
        "muon_learning_rate": 0.0,
        "weight_decay": 0.0,
        "schedule": "constant",
        "warmup_ratio": 0.0,
        "dropout": 0.1,
        "mlm_probability": 0.15,
    },
}


@dataclass
class PretrainOptions(LoopOptions):
    """Holds the options of a pre-training run."""

    corpus: str = field(
        default=str(CORPORA / "stories"), metadata={"help": "A folder of train, validation and test .jsonl of documents."}
    )
    vocab_size: int = field(default=2000, metadata={"help": "The most words that the vocabulary may have."})
    mlm_probability: float | None = field(default=None, metadata={"help": "Share of the words to predict in training."})


def train_pretraining(options: PretrainOptions) -> dict[str, Any]:
    """Learns a vocabulary, pre-trains a new model, and leaves it in `output_dir` as a folder that loads anywhere.

    Returns:
        The figures of the last epoch on the validation documents, and the seconds and steps that it took.
    """
    options.follow(RECIPES)
    corpus = load_corpus(options.corpus, columns=["sentences"])
    accelerator = start(options)

    shipped = load_tokenizer(ROOT)
    with accelerator.main_process_first():
        tokenizer = shipped.train_new_from_iterator(
            iter(corpus["train"]["sentences"]), options.vocab_size, show_progress=False
        )
    training = PretrainDataset(
        corpus["train"]["sentences"], tokenizer, mlm_probability=options.mlm_probability, seed=options.seed
    )
    validation = PretrainDataset(corpus["validation"]["sentences"], tokenizer)
    accelerator.print(
        f"{len(corpus['train'])} documents, {len(training)} pairs of sentences, {len(tokenizer)} words; "
        f"training on {accelerator.num_processes} x {accelerator.device}, precision {accelerator.mixed_precision}"
    )

    config = AutoConfig.from_pretrained(ROOT, trust_remote_code=True, vocab_size=len(tokenizer))
    kept = {name: getattr(config, name) for name in ("hidden_dropout_prob", "attention_probs_dropout_prob")}
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = options.dropout
    config.sparse_prediction = True
    model = AutoModelForPreTraining.from_config(config, trust_remote_code=True)

    loader = evaluation_loader(validation, accelerator)
    progress = train(
        model, training, options, accelerator, lambda m: evaluate_pretraining(m, loader, accelerator), "Pre-training"
    )
    finish(accelerator, model, tokenizer, progress, options, plot_pretraining, {**kept, "sparse_prediction": False})
    return {**progress.validation[-1], "seconds": progress.seconds}


if __name__ == "__main__":
    cli.run(lambda: train_pretraining(cli.parse(PretrainOptions, __doc__)))
