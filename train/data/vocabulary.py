"""Vocabularies: the words or the word pieces of a text, learnt from it, in a tokenizer that loads anywhere."""

import shutil
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tokenizers import BertWordPieceTokenizer, normalizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.models.bert import BertTokenizerFast  # type: ignore[attr-defined]

from toybert.train.data.checks import in_slices
from toybert.train.hub.folders import ROOT, load_tokenizer
from toybert.train.hub.stock import save_stock_tokenizer

TOKENIZERS = ("word", "wordpiece")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # in BERT's order


def learn_tokenizer(
    kind: str,
    texts: Sequence[list[str]],
    vocab_size: int,
    min_frequency: int,
    max_length: int,
    lower_case: bool = True,
    strip_accents: bool | None = None,
) -> PreTrainedTokenizerBase:
    """Learns the vocabulary of a text: at most `vocab_size` tokens that occur `min_frequency` times or more.

    A tokenizer of the kind `word` is a ToyBertTokenizer, which knows whole words, and `wordpiece` a stock
    BertTokenizer. The texts are lists of sentences; a column of `datasets` is never in memory as a whole.
    """
    if kind == "wordpiece":
        tokenizer = learn_word_pieces(texts, vocab_size, min_frequency, lower_case, strip_accents)
    else:
        new = type(load_tokenizer(ROOT))(do_lower_case=lower_case)
        tokenizer = new.train_new_from_iterator(
            in_slices(texts), vocab_size, min_frequency=min_frequency, show_progress=False
        )
    if len(tokenizer) <= len(SPECIAL):
        raise ValueError(f"no word of the text occurs {min_frequency:,} times: give a smaller min_frequency")
    tokenizer.model_max_length = max_length
    return tokenizer


def learn_word_pieces(
    texts: Sequence[list[str]], vocab_size: int, min_frequency: int, lower_case: bool, strip_accents: bool | None
) -> PreTrainedTokenizerBase:
    """Learns word pieces as BERT has them, with the commonest letters among them, by default without accents.

    The same text gives the same pieces, unless it has more letters. By itself the library numbers the letters inside
    words ("##a") in an order that changes from run to run, and of two equally common pairs of pieces it joins the one
    with the lower numbers. So the letters are found first, by learning nothing else, and then numbered in their order.
    """

    def learn(size: int, *numbered: str) -> BertWordPieceTokenizer:
        learner = BertWordPieceTokenizer(lowercase=lower_case, strip_accents=strip_accents)
        most = max(1000, vocab_size // 2)  # letters: a Chinese text has thousands
        how: dict[str, Any] = {"special_tokens": [*SPECIAL, *numbered], "limit_alphabet": most, "show_progress": False}
        learner.train_from_iterator(chain.from_iterable(in_slices(texts)), size, min_frequency, **how)
        return learner

    inside = sorted(letter for letter in learn(0).get_vocab() if letter.startswith("##") and letter != "##")
    learner = learn(vocab_size, *inside)
    if (size := learner.get_vocab_size()) > vocab_size:
        raise ValueError(f"vocab_size {vocab_size} is too small: the letters of the text alone need {size}")
    case = {"do_lower_case": lower_case, "strip_accents": strip_accents}
    with TemporaryDirectory() as folder:
        learner.save_model(folder)
        save_stock_tokenizer(BertTokenizerFast.from_pretrained(folder, **case), Path(folder))
        return load_learnt("wordpiece", Path(folder))


def accents_taken(texts: Sequence[list[str]], lower_case: bool, strip_accents: bool | None) -> int:
    """Counts the different words of a text that lose accents or other marks in word pieces as BERT has them."""
    if not (lower_case if strip_accents is None else strip_accents):
        return 0
    whole, bare = normalizers.NFD(), normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])
    sentences = (sentence for sentence in chain.from_iterable(in_slices(texts)) if not sentence.isascii())
    words = {word for sentence in sentences for word in sentence.split()}
    return sum(bare.normalize_str(word) != whole.normalize_str(word) for word in words)


def save_learnt(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Saves a learnt tokenizer for `load_learnt`, whole or not at all."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    for path in (unfinished, folder):
        shutil.rmtree(path, ignore_errors=True)
    unfinished.mkdir(parents=True)
    tokenizer.save_pretrained(unfinished)
    unfinished.replace(folder)


def load_learnt(kind: str, folder: Path) -> PreTrainedTokenizerBase:
    """Loads the tokenizer of a kind that was learnt before."""
    if kind == "word":
        return type(load_tokenizer(ROOT)).from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for name in ("backend", "is_local", "local_files_only"):  # facts about this loading, which would be saved
        tokenizer.init_kwargs.pop(name, None)
    return tokenizer
