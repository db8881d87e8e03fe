"""Fine-tunes every parameter of a pre-trained ToyBERT to tell good from bad (section 4 of the paper)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoModelForSequenceClassification

from toybert.train import cli
from toybert.train.card import shown, write_card
from toybert.train.corpus import CORPORA, check_labels, load_corpus
from toybert.train.data import FinetuneDataset
from toybert.train.evaluate import evaluate_classification, evaluation_loader
from toybert.train.hub import ROOT, check_vocabulary, load_config, load_model, load_tokenizer, longest_input
from toybert.train.loop import LoopOptions, finish, option, start, train
from toybert.train.plots import plot_finetuning

LABELS = ("negative", "positive")
RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    "seed": {"learning_rate": 1e-4, "weight_decay": 0.0, "schedule": "constant", "max_grad_norm": 0.0},
}


@dataclass(kw_only=True)
class FinetuneOptions(LoopOptions):
    """Holds the options of a fine-tuning run."""

    epochs: int = option("Passes over the training sentences.", 5)
    learning_rate: float = option("AdamW's peak learning rate.", 1e-3)
    muon_learning_rate: float = option("Muon's, for the layers' matrices; 0 leaves them to AdamW.", 0.0)
    dropout: float = option("During this run; config.json keeps its own.", 0.1)
    model: str = option("The pre-trained checkpoint: a folder, or an id on the Hub.", str(ROOT))
    corpus: str = option("A folder of train, validation and test .jsonl of text, label.", str(CORPORA / "sentiment"))

    def sources(self) -> list[Path]:
        files = [Path(self.corpus) / f"{split}.jsonl" for split in ("train", "validation")]
        checkpoint = [Path(self.model) / name for name in ("model.safetensors", "tokenizer.json")]
        return [*files, *(path for path in checkpoint if path.is_file())]  # a Hub id has no files here


def train_finetuning(options: FinetuneOptions) -> dict[str, Any]:
    """Fine-tunes a checkpoint on labelled sentences, and leaves it in `output_dir` as a folder that loads anywhere.

    Returns:
        The figures of the last epoch on the validation sentences, and the seconds and steps that it took.
    """
    corpus = load_corpus(options.corpus, columns=["text", "label"])
    for split, rows in corpus.items():
        check_labels(rows["label"], len(LABELS), f"{split}.jsonl in {options.corpus}")
    tokenizer, config = load_tokenizer(options.model), load_config(options.model)
    check_vocabulary(tokenizer, config, options.model)
    accelerator = start(options)

    with accelerator.main_process_first():  # it tokenises, the others find what it made
        training, validation = (
            FinetuneDataset(corpus[split]["text"], corpus[split]["label"], tokenizer, longest_input(tokenizer, config))
            for split in ("train", "validation")
        )
    if training.dropped:
        accelerator.print(f"left out {training.dropped} sentences without a word")
    accelerator.print(
        f"{len(training)} sentences; training on {accelerator.num_processes} x {accelerator.device}, "
        f"precision {accelerator.mixed_precision}"
    )
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
    if accelerator.is_main_process:
        data = [
            f"{len(training):,} training and {len(validation):,} validation sentences of `{Path(options.corpus).name}`",
            f"Classes: {', '.join(LABELS)}",
            f"Fine-tuned from `{shown(options.model)}`",
        ]
        share = validation.labels.bincount(minlength=len(LABELS))[training.labels.bincount().argmax()] / len(validation)
        results = [("accuracy", progress.validation[-1]["accuracy"], "the commonest class", float(share))]
        write_card("finetune", model, options, progress, data, results)
    finish(accelerator, model, tokenizer, progress, options, plot_finetuning, kept)
    return {**progress.validation[-1], "seconds": progress.seconds}


if __name__ == "__main__":
    cli.run(lambda: train_finetuning(cli.parse(FinetuneOptions, __doc__, RECIPES)))
