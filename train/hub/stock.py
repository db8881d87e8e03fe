"""Tokenizers that need no code of ours."""

import json
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.models.bert import BertTokenizerFast  # type: ignore[attr-defined]

from toybert.train.hub.folders import read_json


def save_stock_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Saves a tokenizer as one that needs no code of ours, on any version of the library.

    Where a ToyBertTokenizer splits off punctuation it becomes a BertTokenizer, which gives the same tokens save that it
    drops control and zero-width characters and doesn't compose letters with their accents (NFC). Without that, or with
    parts that a user has set, it becomes a PreTrainedTokenizerFast with the same parts.
    """
    if type(tokenizer).__name__ == "ToyBertTokenizer":
        tokenizer = stock_tokenizer(tokenizer, folder)
    # 5.0 makes a plain tokenizer of a BertTokenizer in a ToyBERT's folder, and that has no segments by itself.
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer.init_kwargs["model_input_names"] = tokenizer.model_input_names
    tokenizer.save_pretrained(folder)
    # Newer versions write facts about one loading, and a class that older ones don't know.
    path = folder / "tokenizer_config.json"
    settings = {name: value for name, value in read_json(path).items() if name not in ("is_local", "local_files_only")}
    if settings.get("tokenizer_class") == "TokenizersBackend":
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def stock_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> PreTrainedTokenizerBase:
    """Makes the library's own tokenizer of a ToyBertTokenizer; BERT's vocab.txt is left in the folder."""
    words = tokenizer.backend_tokenizer.get_vocab(with_added_tokens=False)
    kept = {"model_max_length": tokenizer.model_max_length, "clean_up_tokenization_spaces": False}
    # BERT's cuts words in pieces, "##" before all but the first, and gives up on those of over 100 letters.
    if not is_like_bert(tokenizer) or any(word.startswith("##") or len(word) > 100 for word in words):
        kept |= tokenizer.special_tokens_map
        return PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, **kept)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in sorted(words, key=words.get)), "utf-8")
    kept |= {"do_lower_case": tokenizer.do_lower_case, "strip_accents": False, "tokenize_chinese_chars": False}
    stock = BertTokenizerFast.from_pretrained(folder, **kept)
    stock.add_tokens([token for _, token in sorted(tokenizer.added_tokens_decoder.items())][5:])
    return stock


def is_like_bert(tokenizer: Any) -> bool:
    """Tells whether a ToyBertTokenizer has the parts that it is made with, so that a BertTokenizer has their like."""
    ours, made = tokenizer.backend_tokenizer, type(tokenizer)().backend_tokenizer
    parts = ((getattr(each, name) for each in (ours, made)) for name in ("pre_tokenizer", "post_processor", "decoder"))
    same = all(part and part.__getstate__() == another.__getstate__() for part, another in parts)
    return same and tokenizer.do_lower_case is not None
