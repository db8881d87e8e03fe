"""Fine-tunes every parameter of a pre-trained ToyBERT to tell good from bad (section 4 of the paper)."""

from dataclasses import dataclass, field
from typing import Any

from transformers import AutoConfig, AutoModelForSequenceClassification

from toybert.train import cli
from toybert.train.data import CORPORA, FinetuneDataset, check_labels, load_corpus
from toybert.train.evaluate import evaluate_classification, evaluation_loader
from toybert.train.hub import ROOT, load_model, load_tokenizer
from toybert.train.loop import LoopOptions, finish, start, train
from toybert.train.plots import plot_finetuning

LABELS = ("negative", "positive")
RECIPES: dict[str, dict[str, Any]] = {
    "default": {
        "epochs": 5,
        "batch_size": 32,
        "learning_rate": 1e-3,
        "muon_learning_rate": 0.0,
        "weight_decay": 0.01,
        "schedule": "linear",
        "warmup_ratio": 0.06,
        "dropout": 0.1,
    },
    "seed": {
        "epochs": 5,
        "batch_size": 32,
        "learning_rate": 1e-4,
        "muon_learning_rate": 0.0,
        "weight_decay": 0.0,
        "schedule": "constant",
        "warmup_ratio": 0.0,
        "dropout": 0.1,
    },
}


@dataclass
class FinetuneOptions(LoopOptions):
    """Holds the options of a fine-tuning run."""

    model: str = field(default=str(ROOT), metadata={"help": "The pre-trained checkpoint: a folder, or an id on the Hub."})
    corpus: str = field(
        default=str(CORPORA / "sentiment"), metadata={"help": "A folder of train, validation and test .jsonl of text, label."}
    )


def train_finetuning(options: FinetuneOptions) -> dict[str, Any]:
    """Fine-tunes a checkpoint on labelled sentences, and leaves it in `output_dir` as a folder that loads anywhere.

    Returns:
        The figures of the last epoch on the validation sentences, and the seconds and steps that it took.
    """
    options.follow(RECIPES)
    corpus = load_corpus(options.corpus, columns=["text", "label"])
    for split, rows in corpus.items():
        check_labels(rows["label"], len(LABELS), f"{split}.jsonl in {options.corpus}")
    accelerator = start(options)

    tokenizer = load_tokenizer(options.model)
    training, validation = (
        FinetuneDataset(corpus[split]["text"], corpus[split]["label"], tokenizer) for split in ("train", "validation")
    )
    accelerator.print(
        f"{len(training)} sentences; training on {accelerator.num_processes} x {accelerator.device}, "
        f"precision {accelerator.mixed_precision}"
    )
    config = AutoConfig.from_pretrained(options.model, trust_remote_code=True)
    kept = {name: getattr(config, name) for name in ("hidden_dropout_prob", "attention_probs_dropout_prob")}
    model = load_model(
        AutoModelForSequenceClassification,
        options.model,
        id2label=dict(enumerate(LABELS)),
        label2id={name: index for index, name in enumerate(LABELS)},
        problem_type="single_label_classification",
        **dict.fromkeys(kept, options.dropout),
    )

    fitted, held_out = evaluation_loader(training, accelerator), evaluation_loader(validation, accelerator)

    def evaluate(model: Any) -> dict[str, float]:
        train_accuracy = evaluate_classification(model, fitted, accelerator)["accuracy"]
        return {"train_accuracy": train_accuracy, **evaluate_classification(model, held_out, accelerator)}

    progress = train(model, training, options, accelerator, evaluate, "Fine-tuning")
    finish(accelerator, model, tokenizer, progress, options, plot_finetuning, kept)
    return {**progress.validation[-1], "seconds": progress.seconds}


if __name__ == "__main__":
    cli.run(lambda: train_finetuning(cli.parse(FinetuneOptions, __doc__)))
