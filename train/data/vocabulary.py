"""Vocabularies: the words or the word pieces of a text, learnt from it, in a tokenizer that loads anywhere."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tokenizers import BertWordPieceTokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.models.bert import BertTokenizerFast  # type: ignore[attr-defined]

from toybert.train.data.checks import in_slices
from toybert.train.hub.folders import ROOT, load_tokenizer
from toybert.train.hub.stock import save_stock_tokenizer

TOKENIZERS = ("word", "wordpiece")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # in BERT's order


def learn_tokenizer(
    kind: str, texts: Sequence[list[str]], vocab_size: int, min_frequency: int, max_length: int
) -> PreTrainedTokenizerBase:
    """Learns the vocabulary of a text.

    Args:
        kind: word, for a ToyBertTokenizer, which knows whole words, or wordpiece, for a stock BertTokenizer.
        texts: lists of sentences, such as a column of `datasets`, which is never read as a whole.
        vocab_size: the most tokens that it may have, the five special ones among them.
        min_frequency: how often a word, or a pair of pieces, must stand in the text to be learnt.
        max_length: the most tokens of an input.
    """
    learn = {"word": learn_words, "wordpiece": learn_word_pieces}[kind]
    tokenizer = learn(texts, vocab_size, min_frequency)
    tokenizer.model_max_length = max_length
    return tokenizer


def learn_words(texts: Sequence[list[str]], vocab_size: int, min_frequency: int) -> PreTrainedTokenizerBase:
    """Learns the commonest words of a text."""
    blank = load_tokenizer(ROOT)
    return blank.train_new_from_iterator(  # type: ignore[attr-defined]
        in_slices(texts), vocab_size, min_frequency=min_frequency, show_progress=False
    )


def learn_word_pieces(texts: Sequence[list[str]], vocab_size: int, min_frequency: int) -> PreTrainedTokenizerBase:
    """Learns word pieces as BERT has them: lower-case, without accents, the 1,000 commonest letters among them.

    The same text gives the same pieces, unless it has more letters. By itself the library numbers the letters inside
    words ("##a") in an order that changes from run to run, and of two pairs of pieces that are equally common it joins
    the one with the lower numbers. So the letters are found first, by learning nothing else, and then numbered in their
    order.
    """

    def learn(size: int, *numbered: str) -> dict[str, int]:
        learner = BertWordPieceTokenizer()
        sentences = (sentence for some in in_slices(texts) for sentence in some)
        learner.train_from_iterator(
            sentences,
            vocab_size=size,
            min_frequency=min_frequency,
            show_progress=False,
            special_tokens=[*SPECIAL, *numbered],
        )
        return learner.get_vocab()

    inside = sorted(letter for letter in learn(0) if letter.startswith("##") and letter != "##")
    vocabulary = learn(vocab_size, *inside)
    if len(vocabulary) > vocab_size:
        raise ValueError(f"vocab_size {vocab_size} is too small: the letters of the text alone need {len(vocabulary)}")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.txt"
        path.write_text("".join(f"{piece}\n" for piece in sorted(vocabulary, key=vocabulary.__getitem__)), "utf-8")
        save_stock_tokenizer(BertTokenizerFast.from_pretrained(folder, do_lower_case=True), Path(folder))
        return load_learnt("wordpiece", Path(folder))


def save_learnt(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Keeps a learnt tokenizer for `load_learnt`, whole or not at all."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    for path in (unfinished, folder):
        shutil.rmtree(path, ignore_errors=True)
    unfinished.mkdir(parents=True)
    tokenizer.save_pretrained(unfinished)
    os.replace(unfinished, folder)


def load_learnt(kind: str, folder: Path) -> PreTrainedTokenizerBase:
    """Loads the tokenizer of a kind that was learnt before."""
    if kind == "word":
        return type(load_tokenizer(ROOT)).from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for name in ("backend", "is_local", "local_files_only"):  # facts about this loading, that would be saved
        tokenizer.init_kwargs.pop(name, None)
    return tokenizer
