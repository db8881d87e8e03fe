"""Both sides of a training benchmark: corpora, models of one size, our run, and the peers' runs."""

import itertools
import json
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, default_collate
from transformers import (
    AutoConfig,
    AutoModelForPreTraining,
    AutoTokenizer,
    BertConfig,
    BertForPreTraining,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
    set_seed,
)

from benchmarks.common import ROOT
from toybert.tokenization_toybert import SPECIAL_TOKENS, ToyBertTokenizer
from toybert.train.data.batches import DatasetBatches
from toybert.train.data.datasets import PretrainDataset
from toybert.train.hub.stock import save_stock_tokenizer
from toybert.train.loop import loop
from toybert.train.loop.run import LoopOptions, start
from toybert.train.pretrain import PretrainOptions

NEVER = 10**9  # steps between checkpoints
Pair = tuple[str, str, int]  # A, B and BERT's label: 0 where B follows A
Hook = Callable[[nn.Module, Any], None] | None  # called before each forward pass
Trained = tuple[nn.Module, dict[str, float]]  # the model, and the mean of its training loss


@dataclass
class Corpus:
    """Holds documents as text, and one vocabulary as our tokenizer and as the library's own."""

    documents: Any
    tokenizer: Any
    stock: Any
    max_length: int

    def rows(self, **more: Any) -> PretrainDataset:
        return PretrainDataset(self.documents, self.tokenizer, max_length=self.max_length, **more)


def with_stock(documents: Any, tokenizer: Any, max_length: int) -> Corpus:
    """Makes a corpus, with the library's own tokenizer of the same vocabulary."""
    with tempfile.TemporaryDirectory() as folder:
        save_stock_tokenizer(tokenizer, Path(folder))
        return Corpus(documents, tokenizer, AutoTokenizer.from_pretrained(folder), max_length)


def learn_words(texts: Iterable[Any], vocab_size: int) -> Any:
    """Makes our tokenizer of the commonest words of some texts."""
    blank = AutoTokenizer.from_pretrained(ROOT, trust_remote_code=True)
    return blank.train_new_from_iterator(iter(texts), vocab_size, show_progress=False)


def story_documents(split: str) -> list[list[str]]:
    """Reads the sentences of each document of the stories."""
    lines = (ROOT / "train" / "corpora" / "stories" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["sentences"] for line in lines]


def stories(count: int | None = None, split: str = "train") -> Corpus:
    """Reads the first documents of the stories, with the vocabulary of all training documents."""
    tokenizer = learn_words(story_documents("train"), PretrainOptions.vocab_size)
    return with_stock(story_documents(split)[:count], tokenizer, max_length=64)


def synthetic_documents(
    count: int, vocab_size: int, sentences: int = 5, shortest: int = 1, longest: int = 60, seed: int = 0
) -> list[list[str]]:
    """Makes documents of random words, whose frequencies fall as 1 / rank; all lengths of sentences are equally likely.

    The default lengths give pairs of 64 tokens on average and at most 123.
    """
    draw = np.random.default_rng(seed)
    bounds = np.cumsum(1 / np.arange(1, vocab_size - len(SPECIAL_TOKENS) + 1))
    lengths = draw.integers(shortest, longest + 1, count * sentences)
    ranks = np.searchsorted(bounds, draw.random(lengths.sum()) * bounds[-1])
    texts = [" ".join(f"w{rank}" for rank in part) for part in np.split(ranks, np.cumsum(lengths)[:-1])]
    return [texts[i : i + sentences] for i in range(0, len(texts), sentences)]


def synthetic_tokenizer(vocab_size: int, max_length: int) -> Any:
    """Makes the tokenizer of the synthetic words, whichever of them a corpus has."""
    words = [*SPECIAL_TOKENS, *(f"w{rank}" for rank in range(vocab_size - len(SPECIAL_TOKENS)))]
    return ToyBertTokenizer(vocab={word: index for index, word in enumerate(words)}, model_max_length=max_length)


def pretrain_options(folder: str = "", **changes: Any) -> PretrainOptions:
    """Returns the options of a run: our default recipe, with changes. Only a run needs the folder."""
    return PretrainOptions(output_dir=folder, checkpoint_every=NEVER, **changes)


def same_maths(dropout: float) -> dict[str, Any]:
    """Returns a recipe that the peers know too: AdamW for all parameters, BERT's masks and first weights."""
    masks_and_weights = {"dropout": dropout, "mlm_probability": 0.15, "initializer_range": 0.02}
    return {"epochs": 1, "learning_rate": 1e-3, "muon_learning_rate": 0.0, **masks_and_weights}


# The defaults of TrainingArguments, DataCollatorForLanguageModeling and BertConfig.
LIBRARY_DEFAULTS = {**same_maths(0.1), "learning_rate": 5e-5, "weight_decay": 0.0, "warmup_ratio": 0.0}


def bert_config(config: Any, **changes: Any) -> BertConfig:
    """Makes the library's configuration of the same model; `gelu_pytorch_tanh` is its fast spelling of our GELU."""
    names = config.to_dict().keys() & BertConfig().to_dict().keys() - {"model_type", "architectures", "auto_map"}
    same = {name: getattr(config, name) for name in names}
    return BertConfig(**{**same, "hidden_act": "gelu_pytorch_tanh", **changes})


def new_model(side: str, corpus: Corpus, options: PretrainOptions, hook: Hook = None, **size: Any) -> nn.Module:
    """Makes our model, as train/pretrain.py does, or the library's of the same size."""
    fields = {
        "vocab_size": len(corpus.tokenizer),
        "max_position_embeddings": corpus.max_length,
        "hidden_dropout_prob": options.dropout,
        "attention_probs_dropout_prob": options.dropout,
        "initializer_range": options.initializer_range,
        "sparse_prediction": True,
    }
    config = AutoConfig.from_pretrained(ROOT, trust_remote_code=True, **{**fields, **size})
    if side == "ours":
        model = AutoModelForPreTraining.from_config(config, trust_remote_code=True)
    else:
        model = BertForPreTraining(bert_config(config))
    if hook:
        model.register_forward_pre_hook(hook)
    return model


def our_loop(model: nn.Module, dataset: PretrainDataset, options: PretrainOptions, accelerator: Any = None) -> Any:
    """Trains with our loop, without its checkpoint after the last step: neither side saves during a benchmark."""
    with mock.patch.object(loop, "save_checkpoint"):
        accelerator = accelerator or start(options)
        batches = DatasetBatches(dataset, options.batch_size, accelerator, options.seed)
        return loop.train(model, batches, options, accelerator, lambda model: {})


def train_ours(corpus: Corpus, options: PretrainOptions, hook: Hook = None, **size: Any) -> Trained:
    """Does what `python -m toybert.train.pretrain` does between reading the text and saving, without validation."""
    accelerator = start(options)
    training = corpus.rows(mlm_probability=options.mlm_probability, seed=options.seed)
    model = new_model("ours", corpus, options, hook, **size)
    progress = our_loop(model, training, options, accelerator)
    return model, {"training_loss": float(np.mean([entry["loss"] for entry in progress.train]))}


def our_rows(corpus: Corpus) -> Iterator[tuple[list[int], int, int]]:
    """Yields the tokens of each of our rows of epoch 0 before masking, where B begins, and our label."""
    dataset = corpus.rows()
    for first in range(0, len(dataset), 512):
        batch = dataset.__getitems__(range(first, min(first + 512, len(dataset))))
        original = torch.where(batch["labels"] != -100, batch["labels"], batch["input_ids"]).tolist()
        sizes, in_b = (batch[name].sum(1).tolist() for name in ("attention_mask", "token_type_ids"))
        for ids, size, b, label in zip(original, sizes, in_b, batch["next_sentence_label"].tolist(), strict=True):
            yield ids[:size], size - b, label


def text_pairs(corpus: Corpus) -> list[Pair]:
    """Returns our rows of epoch 0 as text, token for token: so the peers train on the same pairs."""
    words = np.array(corpus.tokenizer.convert_ids_to_tokens(range(len(corpus.tokenizer))), dtype=object)
    return [
        (" ".join(words[ids[1 : b - 1]]), " ".join(words[ids[b:-1]]), 1 - label) for ids, b, label in our_rows(corpus)
    ]


def plain_pairs(documents: Sequence[Sequence[str]], seed: int = 0) -> list[Pair]:
    """Makes the rows of the two tasks as one does without us: each A with what follows it and with some other B."""
    draw, pairs = random.Random(seed), []
    for number, document in enumerate(documents):
        for a, b in itertools.pairwise(document):
            other = draw.randrange(len(documents) - 1)
            false = draw.choice(documents[other + (other >= number)])
            pairs += [(a, b, 0), (a, false, 1)]
    return pairs


def encode(pairs: Sequence[Pair], corpus: Corpus, padding: bool = False) -> list[dict[str, Any]]:
    """Tokenises pairs with the library's tokenizer, into a plain list: no row has to be read from Arrow again."""
    first, second, labels = map(list, zip(*pairs, strict=True))
    how: dict[str, Any] = {"truncation": True, "padding": "max_length" if padding else False}
    # without the special tokens' mask, the collator works it out in Python for each row
    encoded = corpus.stock(first, second, max_length=corpus.max_length, return_special_tokens_mask=True, **how)
    columns = {**encoded, "next_sentence_label": labels}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def training_arguments(options: LoopOptions, rows: Any, grouped: bool = False, **more: Any) -> TrainingArguments:
    """Makes Trainer's arguments of a recipe of ours, without what costs time beside the training."""
    # newer versions of the library renamed the choice
    renamed = "train_sampling_strategy" in TrainingArguments.__dataclass_fields__
    by_length = {"train_sampling_strategy": "group_by_length"} if renamed else {"group_by_length": True}
    return TrainingArguments(
        output_dir=options.output_dir,
        num_train_epochs=options.epochs,
        per_device_train_batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        weight_decay=options.weight_decay,
        lr_scheduler_type=options.schedule,
        warmup_steps=round(options.warmup_ratio * options.epochs * -(-len(rows) // options.batch_size)),
        max_grad_norm=options.max_grad_norm,
        optim="adamw_torch_fused",
        seed=options.seed,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
        dataloader_pin_memory=False,
        remove_unused_columns=False,  # or the special tokens' mask is lost before the collator
        logging_nan_inf_filter=False,
        **(by_length if grouped else {}),
        **more,
    )


def train_with_trainer(
    rows: Any, corpus: Corpus, options: PretrainOptions, how: dict[str, Any], hook: Hook = None, **size: Any
) -> Trained:
    """Pre-trains the library's BERT with the library's Trainer and collator on encoded rows, by a recipe of ours."""
    set_seed(options.seed)
    arguments = training_arguments(options, rows, **how)
    model = new_model("BERT", corpus, options, hook, **size)
    collator = DataCollatorForLanguageModeling(corpus.stock, mlm_probability=options.mlm_probability)
    trainer = Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collator)
    return model, {"training_loss": trainer.train().training_loss}


def mask_one_by_one(row: dict[str, Any], tokenizer: Any, mlm_probability: float) -> dict[str, Tensor]:
    """Masks a row token by token in Python, as notebooks do."""
    ids, labels = list(row["input_ids"]), [-100] * len(row["input_ids"])
    for place, (token, special) in enumerate(zip(ids, row["special_tokens_mask"], strict=True)):
        if not special and random.random() < mlm_probability:
            labels[place], dice = token, random.random()
            if dice < 0.8:
                ids[place] = tokenizer.mask_token_id
            elif dice < 0.9:
                ids[place] = random.randrange(len(SPECIAL_TOKENS), len(tokenizer))
    masked = {**row, "input_ids": ids, "labels": labels}
    return {name: torch.tensor(values) for name, values in masked.items() if name != "special_tokens_mask"}


def train_in_a_notebook(rows: list[dict[str, Any]], corpus: Corpus, options: PretrainOptions, **size: Any) -> Trained:
    """Pre-trains the library's BERT with a plain loop: padded rows, Adam, `loss.item()` at each step."""
    set_seed(options.seed)
    model = new_model("BERT", corpus, options, **size).train()
    loader = DataLoader(
        rows,  # type: ignore[arg-type]
        batch_size=options.batch_size,
        shuffle=True,
        collate_fn=lambda some: default_collate(
            [mask_one_by_one(row, corpus.stock, options.mlm_probability) for row in some]
        ),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=options.learning_rate)
    losses = []
    for _ in range(options.epochs):
        for batch in loader:
            optimizer.zero_grad()
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return model, {"training_loss": float(np.mean(losses))}


def fixed_batches(corpus: Corpus, rows: int | None = None) -> list[dict[str, Tensor]]:
    """Makes the batches that `measure` takes: a corpus with the masks and the pairs of epoch 0, 15 % masked."""
    dataset = corpus.rows()
    order = np.argsort(dataset.lengths[:rows], kind="stable")
    return [dataset.__getitems__(order[i : i + 128]) for i in range(0, len(order), 128)]


@torch.no_grad()
def measure(model: Any, batches: Sequence[dict[str, Tensor]]) -> dict[str, float]:
    """Returns the MLM loss and the NSP accuracy of either side's model; BERT's NSP classes are swapped."""
    was_training = model.training
    model.eval()
    loss = right = targets = rows = 0.0
    for batch in batches:
        follows, chosen = batch["next_sentence_label"], batch["labels"] != -100
        given = 1 - follows if model.config.model_type == "bert" else follows
        output = model(**{**batch, "next_sentence_label": given})
        logits = output.prediction_logits[chosen] if output.prediction_logits.dim() == 3 else output.prediction_logits
        loss += float(F.cross_entropy(logits, batch["labels"][chosen], reduction="sum"))
        right += int((output.seq_relationship_logits.argmax(-1) == given).sum())
        targets, rows = targets + int(chosen.sum()), rows + len(chosen)
    model.train(was_training)
    return {"mlm_loss": loss / targets, "nsp_accuracy": right / rows}


def check_alike(pairs: Sequence[Pair], corpus: Corpus, **size: Any) -> dict[str, int]:
    """Returns how many parameters, rows and real tokens there are; the sides must have the same."""
    ours, theirs = (new_model(side, corpus, pretrain_options(), **size).num_parameters() for side in ("ours", "BERT"))
    assert ours == theirs, f"our model has {ours} parameters, the library's {theirs}"
    rows = [ids for ids, *_ in our_rows(corpus)]
    for number, (ids, row) in enumerate(zip(rows, encode(pairs, corpus), strict=True)):
        assert ids == row["input_ids"], f"row {number} differs"
    return {"parameters": ours, "rows": len(rows), "tokens": sum(map(len, rows))}
