"""Claims about ToyBertTokenizer: the ids it gives, what it makes of odd text, how it is learnt, saved and loaded."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from datasets.fingerprint import Hasher
from helpers import ROOT
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer

from toybert.tokenization_toybert import SPECIAL_TOKENS, ToyBertTokenizer

TEXTS = [
    "The cat sat on the mat.",
    "A dog barks; the dog runs!",
    "Does the cat like Caf\u00e9 \u0130stanbul?",
    "Stra\u00dfe, STRASSE, \u03a3\u038a\u03a3\u03a5\u03a6\u039f\u03a3.",
    "It isn't 3.50, is it?",
]
PAIRS = [("The cat sat.", "On the mat."), ("A dog", ""), ("[MASK] dog runs", "the unseen [MASK].")]
SPECIAL_IDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}


def learn(texts: list[str] = TEXTS, vocab_size: int = 100, split_punctuation: bool = True, **kw) -> ToyBertTokenizer:
    empty = ToyBertTokenizer(split_punctuation=split_punctuation)
    return empty.train_new_from_iterator(texts, vocab_size=vocab_size, **kw)


@pytest.fixture(scope="module")
def learnt() -> ToyBertTokenizer:
    return learn()


@pytest.fixture
def tokenizer(learnt: ToyBertTokenizer) -> ToyBertTokenizer:
    """Returns a tokenizer that the test may change."""
    return copy.deepcopy(learnt)


def words_of(tokenizer: ToyBertTokenizer, text: str) -> list[str]:
    return tokenizer.convert_ids_to_tokens(tokenizer(text, add_special_tokens=False).input_ids)


def all_ids(tokenizer: ToyBertTokenizer) -> list:
    long = tokenizer("the " * 100, "cat " * 100, truncation=True).input_ids
    singles = [tokenizer(text).input_ids for text in [*TEXTS, "", "[MASK].", "an unseen word"]]
    pairs = [dict(tokenizer(a, b)) for a, b in PAIRS]
    return [*singles, *pairs, long, len(tokenizer), tokenizer.get_vocab()]


# Ids


def test_the_five_special_tokens_have_the_ids_0_to_4(tokenizer: ToyBertTokenizer) -> None:
    for each in (ToyBertTokenizer(), tokenizer, tokenizer.train_new_from_iterator(["other words"], vocab_size=50)):
        assert {token: each.get_vocab()[token] for token in SPECIAL_TOKENS} == SPECIAL_IDS
        assert (each.pad_token_id, each.unk_token_id, each.cls_token_id) == (0, 1, 2)
        assert (each.sep_token_id, each.mask_token_id) == (3, 4)
        assert sorted(each.all_special_ids) == [0, 1, 2, 3, 4]


def test_a_new_tokenizer_knows_nothing_but_the_special_tokens() -> None:
    assert len(ToyBertTokenizer()) == 5
    assert ToyBertTokenizer()("the cat").input_ids == [2, 1, 1, 3]


def test_a_given_vocabulary_is_used_as_it_is() -> None:
    tokenizer = ToyBertTokenizer(vocab={**SPECIAL_IDS, "cat": 5, "the": 6})
    assert tokenizer("The cat").input_ids == [2, 6, 5, 3]


def test_a_sequence_is_framed_by_cls_and_sep(tokenizer: ToyBertTokenizer) -> None:
    encoded = tokenizer("The cat sat.")
    assert tokenizer.convert_ids_to_tokens(encoded.input_ids) == ["[CLS]", "the", "cat", "sat", ".", "[SEP]"]
    assert encoded.token_type_ids == [0] * 6
    assert encoded.attention_mask == [1] * 6
    assert words_of(tokenizer, "The cat sat.") == ["the", "cat", "sat", "."]


def test_a_pair_has_two_segments(tokenizer: ToyBertTokenizer) -> None:
    encoded = tokenizer("the cat", "on the mat")
    assert encoded.tokens() == ["[CLS]", "the", "cat", "[SEP]", "on", "the", "mat", "[SEP]"]
    assert encoded.token_type_ids == [0, 0, 0, 0, 1, 1, 1, 1]
    assert encoded.sequence_ids() == [None, 0, 0, None, 1, 1, 1, None]
    assert tokenizer.num_special_tokens_to_add(pair=False) == 2
    assert tokenizer.num_special_tokens_to_add(pair=True) == 3


def test_padding_goes_to_the_right_with_segment_0(tokenizer: ToyBertTokenizer) -> None:
    encoded = tokenizer(["the cat sat", "cat"], ["a dog", "dog"], padding=True)
    assert encoded.input_ids[1][-3:] == [0, 0, 0]
    assert encoded.token_type_ids[1][-3:] == [0, 0, 0]
    assert encoded.attention_mask == [[1] * 8, [1] * 5 + [0] * 3]


@pytest.mark.parametrize(("words", "ids"), [(1, 3), (61, 63), (62, 64), (63, 64), (200, 64)])
def test_truncation_keeps_64_tokens_and_the_last_sep(tokenizer: ToyBertTokenizer, words: int, ids: int) -> None:
    encoded = tokenizer("the " * words, truncation=True).input_ids
    assert len(encoded) == ids
    assert (encoded[0], encoded[-1]) == (2, 3)
    assert encoded.count(tokenizer.vocab["the"]) == min(words, 62)


@pytest.mark.parametrize(("a", "b"), [(100, 100), (100, 1), (1, 100), (31, 30), (31, 31)])
def test_a_truncated_pair_keeps_both_segments(tokenizer: ToyBertTokenizer, a: int, b: int) -> None:
    encoded = tokenizer("the " * a, "cat " * b, truncation=True)
    assert len(encoded.input_ids) == len(encoded.token_type_ids) == len(encoded.attention_mask) == min(64, a + b + 3)
    assert encoded.input_ids.count(3) == 2
    assert encoded.input_ids[-1] == 3
    assert encoded.input_ids.count(tokenizer.vocab["the"]) >= 1
    assert encoded.input_ids.count(tokenizer.vocab["cat"]) >= 1


# Text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The [MASK] sat", ["the", "[MASK]", "sat"]),
        ("[MASK]", ["[MASK]"]),
        ("[MASK].", ["[MASK]", "."]),
        ("sat[MASK]on", ["sat", "[MASK]", "on"]),
        ("[mask]", ["[UNK]"] * 3),  # an ordinary bracketed word, not the mask
        ("[CLS] the [SEP]", ["[CLS]", "the", "[SEP]"]),
        ("zebra", ["[UNK]"]),
    ],
)
def test_special_tokens_are_seen_next_to_anything(tokenizer: ToyBertTokenizer, text: str, expected: list[str]) -> None:
    assert words_of(tokenizer, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("THE Cat", ["the", "cat"]),
        ("\u0130STANBUL \u0130stanbul", ["i\u0307stanbul", "i\u0307stanbul"]),  # longer in lower case: dotted I
        ("Istanbul", ["[UNK]"]),  # without the dot it is another word
        ("STRASSE", ["strasse"]),
        ("Stra\u00dfe", ["stra\u00dfe"]),  # sharp s has no two-letter form in lower case
        # a sigma at the end is a plain one, where Greek that was typed in small letters has the final form
        ("\u03a3\u038a\u03a3\u03a5\u03a6\u039f\u03a3", ["\u03c3\u03af\u03c3\u03c5\u03c6\u03bf\u03c3"]),
    ],
)
def test_case_does_not_matter(tokenizer: ToyBertTokenizer, text: str, expected: list[str]) -> None:
    assert words_of(tokenizer, text) == expected


@pytest.mark.parametrize(
    "space", ["  ", "\t", "\n", "\r\n", "\v", "\f", "\u00a0", "\u3000", "\u2003", "\u0085", "\u2028", " \t\n "]
)
def test_every_white_space_divides(tokenizer: ToyBertTokenizer, space: str) -> None:
    assert words_of(tokenizer, f"{space}the{space}cat{space}") == ["the", "cat"]
    assert words_of(learn([f"green{space}tea"]), "tea green") == ["tea", "green"]


@pytest.mark.parametrize("mark", ["\u200b", "\ufeff", "\u200d", "\u00ad"])
def test_an_invisible_character_is_part_of_its_word(tokenizer: ToyBertTokenizer, mark: str) -> None:
    assert words_of(tokenizer, f"the {mark}cat sat") == ["the", "[UNK]", "sat"]
    assert words_of(tokenizer, f"the cat{mark}sat") == ["the", "[UNK]"]


@pytest.mark.parametrize("text", ["\u4f60\u597d\u4e16\u754c", "\U0001f468\u200d\U0001f469"])
def test_what_has_no_spaces_is_one_word(tokenizer: ToyBertTokenizer, text: str) -> None:
    assert words_of(tokenizer, f"{text} cat") == ["[UNK]", "cat"]
    assert words_of(learn([text]), text) == [text]


def test_composed_and_decomposed_letters_are_the_same(tokenizer: ToyBertTokenizer) -> None:
    assert words_of(tokenizer, "Cafe\u0301") == words_of(tokenizer, "CAF\u00c9") == ["caf\u00e9"]
    assert words_of(learn(["cafe\u0301"]), "caf\u00e9") == ["caf\u00e9"]


@pytest.mark.parametrize("text", ["\ud800 cat", ["a cat", "\ud800"], [("a cat", "\udfff")]])
def test_a_lone_surrogate_is_named(tokenizer: ToyBertTokenizer, text: object) -> None:
    with pytest.raises(ValueError, match="lone surrogate"):
        tokenizer(text)


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_empty_text_is_two_special_tokens(tokenizer: ToyBertTokenizer, text: str) -> None:
    assert tokenizer(text).input_ids == [2, 3]
    assert tokenizer([text], [text]).input_ids == [[2, 3, 3]]
    assert tokenizer([text, "cat"], padding=True).input_ids == [[2, 3, 0], [2, tokenizer.vocab["cat"], 3]]


def test_an_empty_batch_is_empty_or_refused_clearly(tokenizer: ToyBertTokenizer) -> None:
    try:
        encoded = tokenizer([])
    except ValueError as error:
        assert "empty" in str(error)  # noqa: PT017 - either answer is right
    else:
        assert encoded.input_ids == []


@pytest.mark.parametrize("text", [None, 123, float("nan"), ["the cat", None]])
def test_what_is_no_text_is_refused(tokenizer: ToyBertTokenizer, text: object) -> None:
    with pytest.raises((ValueError, TypeError), match=r"text|Text"):
        tokenizer(text)


@pytest.mark.parametrize("text", ["The cat  sat.", "  on\tCaf\u00e9!", "\u0130stanbul, cat", "(the cat)"])
def test_offsets_cut_the_words_out_of_the_text(tokenizer: ToyBertTokenizer, text: str) -> None:
    encoded = tokenizer(text, return_offsets_mapping=True)
    pieces = [text[start:end] for start, end in encoded.offset_mapping]
    assert (pieces[0], pieces[-1]) == ("", "")
    assert "".join(pieces) == "".join(text.split())
    for piece, token in zip(pieces[1:-1], encoded.tokens()[1:-1], strict=True):
        assert words_of(tokenizer, piece) == [token]


def test_a_decomposed_letter_does_not_shift_the_offsets_after_it(tokenizer: ToyBertTokenizer) -> None:
    encoded = tokenizer("Cafe\u0301 cat", return_offsets_mapping=True)
    assert encoded.tokens()[1:-1] == ["caf\u00e9", "cat"]
    assert encoded.offset_mapping[1:-1] == [(0, 4), (6, 9)]  # the library leaves the accent out


def test_word_ids_count_the_words(tokenizer: ToyBertTokenizer) -> None:
    assert tokenizer("The cat sat.").word_ids() == [None, 0, 1, 2, 3, None]


def test_words_that_are_split_already_keep_their_numbers(tokenizer: ToyBertTokenizer) -> None:
    encoded = tokenizer(["The", "cat", "sat."], is_split_into_words=True)
    assert encoded.tokens() == ["[CLS]", "the", "cat", "sat", ".", "[SEP]"]
    assert encoded.word_ids() == [None, 0, 1, 2, 2, None]
    assert tokenizer([["the", "cat"]], is_split_into_words=True).input_ids == tokenizer(["the cat"]).input_ids


def test_no_words_are_two_special_tokens(tokenizer: ToyBertTokenizer) -> None:
    assert tokenizer([], is_split_into_words=True).input_ids == [2, 3]
    assert tokenizer([[]], is_split_into_words=True).input_ids == [[2, 3]]


def test_decoding_gives_text_back(tokenizer: ToyBertTokenizer) -> None:
    ids = tokenizer("The cat  sat on the [MASK].").input_ids
    assert tokenizer.decode(ids) == "[CLS] the cat sat on the [MASK]. [SEP]"
    assert tokenizer.decode(ids, skip_special_tokens=True) == "the cat sat on the."
    assert tokenizer.batch_decode([ids[1:3], ids[3:4]]) == ["the cat", "sat"]
    assert tokenizer.decode(5) == tokenizer.decode([5]) == tokenizer.convert_ids_to_tokens(5)
    text = "does the cat like the dog? a cat sat on the mat!"
    assert tokenizer.decode(tokenizer(text).input_ids, skip_special_tokens=True) == text


# Punctuation


def test_punctuation_is_split_off(tokenizer: ToyBertTokenizer) -> None:
    assert tokenizer.split_punctuation
    assert words_of(tokenizer, "It isn't 3.50!?") == ["it", "isn", "'", "t", "3", ".", "50", "!", "?"]


def test_without_splitting_only_white_space_divides() -> None:
    tokenizer = learn(["dx:I10 rx:metformin"], split_punctuation=False)
    assert tokenizer.split_punctuation is False
    assert words_of(tokenizer, "dx:I10 rx:metformin") == ["dx:i10", "rx:metformin"]
    assert words_of(tokenizer, "DX:I10. dx:I10") == ["[UNK]", "dx:i10"]
    assert words_of(tokenizer, "dx:I10[MASK] rx:metformin") == ["dx:i10", "[MASK]", "rx:metformin"]
    assert tokenizer.decode(tokenizer("dx:I10 rx:metformin").input_ids, skip_special_tokens=True) == (
        "dx:i10 rx:metformin"
    )


@pytest.mark.parametrize("value", [True, False])
def test_the_choice_of_splitting_is_saved(value: bool, tmp_path: Path) -> None:
    learn(split_punctuation=value).save_pretrained(tmp_path)
    again = ToyBertTokenizer.from_pretrained(tmp_path)
    assert again.split_punctuation is value
    assert (words_of(again, "mat.") == ["mat", "."]) is value
    assert json.loads((tmp_path / "tokenizer_config.json").read_text("utf-8"))["split_punctuation"] is value


@pytest.mark.parametrize("value", [True, False])
def test_the_choice_of_splitting_can_be_changed_when_loading(value: bool, tmp_path: Path) -> None:
    learn(split_punctuation=not value).save_pretrained(tmp_path / "one")
    changed = ToyBertTokenizer.from_pretrained(tmp_path / "one", split_punctuation=value)
    assert (len(words_of(changed, "a:b")) == 3) is value
    changed.save_pretrained(tmp_path / "two")
    again = ToyBertTokenizer.from_pretrained(tmp_path / "two")
    assert again.split_punctuation is value
    assert (len(words_of(again, "a:b")) == 3) is value


# Settings

PARTS = {
    "normalizer": normalizers.Replace("k", "c"),
    "pre_tokenizer": pre_tokenizers.Split("-", "removed"),
    "decoder": decoders.Fuse(),
    "post_processor": processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 2)]),
}


def parts_of(tokenizer: ToyBertTokenizer) -> dict[str, bytes]:
    return {name: getattr(tokenizer.backend_tokenizer, name).__getstate__() for name in PARTS}


def load_anew(folder: Path, **settings: object) -> list[ToyBertTokenizer]:
    """Loads a folder in each way there is: by the class, and from its own code by the library."""
    shutil.copyfile(ROOT / "config.json", folder / "config.json")
    shutil.copyfile(ROOT / "tokenization_toybert.py", folder / "tokenization_toybert.py")
    settings_path = folder / "tokenizer_config.json"
    auto_map = json.loads((ROOT / "tokenizer_config.json").read_text("utf-8"))["auto_map"]
    saved = json.loads(settings_path.read_text("utf-8")) | {"auto_map": auto_map}
    settings_path.write_text(json.dumps(saved), "utf-8")
    return [
        ToyBertTokenizer.from_pretrained(folder, **settings),
        AutoTokenizer.from_pretrained(folder, trust_remote_code=True, **settings),
    ]


def save_with(folder: Path, **settings: object) -> Path:
    """Saves a tokenizer whose tokenizer_config.json has more settings."""
    learn(["the cat"]).save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | settings), "utf-8")
    return folder


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("way", ["new", "set", "learnt", "loaded"])
def test_lower_case_can_be_chosen_and_is_saved(value: bool, way: str, tmp_path: Path) -> None:
    vocab = {**SPECIAL_IDS, "cat": 5, "Cat": 6, "caf\u00e9": 7}
    if way == "new":
        tokenizer = ToyBertTokenizer(vocab, do_lower_case=value)
    elif way == "set":
        tokenizer = ToyBertTokenizer(vocab, do_lower_case=not value)
        tokenizer.do_lower_case = value
    elif way == "learnt":
        empty = ToyBertTokenizer(do_lower_case=value)
        tokenizer = empty.train_new_from_iterator(["cat cat cat Cat Cat cafe\u0301"], vocab_size=50)
    else:
        ToyBertTokenizer(vocab, do_lower_case=not value).save_pretrained(tmp_path / "other")
        tokenizer = ToyBertTokenizer.from_pretrained(tmp_path / "other", do_lower_case=value)
    tokenizer.save_pretrained(tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text("utf-8"))["do_lower_case"] is value
    for each in (tokenizer, copy.deepcopy(tokenizer), *load_anew(tmp_path / "saved")):
        assert each.do_lower_case is value
        assert words_of(each, "cat Cat cafe\u0301.") == ["cat", "cat" if value else "Cat", "caf\u00e9", "[UNK]"]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_was_replaced_is_saved_and_kept(part: str, tokenizer: ToyBertTokenizer, tmp_path: Path) -> None:
    setattr(tokenizer.backend_tokenizer, part, PARTS[part])
    expected = parts_of(tokenizer)
    assert expected[part] == PARTS[part].__getstate__()
    tokenizer.save_pretrained(tmp_path / "one")
    for number, each in enumerate(load_anew(tmp_path / "one")):
        assert parts_of(each) == expected
        each.save_pretrained(tmp_path / f"two{number}")
        assert parts_of(ToyBertTokenizer.from_pretrained(tmp_path / f"two{number}")) == expected
        assert parts_of(each.train_new_from_iterator(["a b"], vocab_size=50)) == expected
    assert parts_of(tokenizer.train_new_from_iterator(["a b"], vocab_size=50)) == expected
    assert (tokenizer.do_lower_case is None) is (part == "normalizer")
    assert (tokenizer.split_punctuation is None) is (part == "pre_tokenizer")


@pytest.mark.parametrize("value", [True, False])
def test_an_option_that_is_given_goes_before_a_part_that_was_saved(value: bool, tmp_path: Path) -> None:
    tokenizer = learn()
    tokenizer.backend_tokenizer.normalizer = PARTS["normalizer"]
    tokenizer.backend_tokenizer.pre_tokenizer = PARTS["pre_tokenizer"]
    tokenizer.save_pretrained(tmp_path)
    given = {"do_lower_case": value, "split_punctuation": value}
    expected = parts_of(ToyBertTokenizer(**given)) | {"decoder": parts_of(tokenizer)["decoder"]}
    file = str(tmp_path / "tokenizer.json")
    for each in (*load_anew(tmp_path, **given), ToyBertTokenizer(tokenizer_file=file, **given)):
        assert parts_of(each) | {"decoder": expected["decoder"]} == expected


def test_a_part_that_was_changed_in_the_file_by_hand_is_kept(tmp_path: Path) -> None:
    folder = save_with(tmp_path, split_punctuation=True)  # as it stands in every folder
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text("utf-8"))
    content["pre_tokenizer"] = json.loads(PARTS["pre_tokenizer"].__getstate__())
    path.write_text(json.dumps(content), "utf-8")
    for each in load_anew(folder):
        assert parts_of(each)["pre_tokenizer"] == PARTS["pre_tokenizer"].__getstate__()


@pytest.mark.parametrize("name", ["no_such_thing", "do_lowercase", "never_split", "attn_implementation"])
def test_a_setting_that_nobody_knows_is_not_taken_in_silence(name: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=f"has no setting {name}"):
        ToyBertTokenizer(**{name: 1})
    learn().save_pretrained(tmp_path / "one")
    with pytest.warns(UserWarning, match=f"has no setting {name}"):
        loaded = ToyBertTokenizer.from_pretrained(tmp_path / "one", **{name: 1})
    loaded.save_pretrained(tmp_path / "two")
    assert name not in json.loads((tmp_path / "two" / "tokenizer_config.json").read_text("utf-8"))


@pytest.mark.parametrize("name", ["strip_accents", "tokenize_chinese_chars"])
def test_what_only_berts_tokenizer_does_is_refused_by_name(name: str, tmp_path: Path) -> None:
    learn().save_pretrained(tmp_path / "one")
    for make in (ToyBertTokenizer, partial(ToyBertTokenizer.from_pretrained, tmp_path / "one")):
        with pytest.raises(ValueError, match=f"has no {name}"):
            make(**{name: True})
        for value in (False, None):  # as it is anyway
            make(**{name: value}).save_pretrained(tmp_path / "two")
            assert name not in json.loads((tmp_path / "two" / "tokenizer_config.json").read_text("utf-8"))


KNOWN = {
    "additional_special_tokens": ["[A]"],
    "bos_token": "[B]",
    "chat_template": "{{ messages }}",
    "clean_up_tokenization_spaces": True,
    "cls_token": "[CLS]",
    "extra_special_tokens": {"image_token": "[I]"},
    "model_input_names": ["input_ids"],
    "model_max_length": 9,
    "padding_side": "left",
    "processor_class": "Some",
    "split_special_tokens": False,
    "truncation_side": "left",
}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.filterwarnings("error:ToyBertTokenizer")
def test_settings_of_the_library_are_taken_everywhere(name: str, tmp_path: Path) -> None:
    given = {name: KNOWN[name]}
    ToyBertTokenizer(**given).save_pretrained(tmp_path)
    for each in (*load_anew(tmp_path), *load_anew(tmp_path, **given), ToyBertTokenizer(**given)):
        if name not in ("additional_special_tokens", "extra_special_tokens", "processor_class"):
            assert getattr(each, name) == KNOWN[name]
        each.train_new_from_iterator(["a b"], vocab_size=50)


@pytest.mark.filterwarnings("error:ToyBertTokenizer")
def test_a_folder_with_settings_of_another_version_loads(tmp_path: Path) -> None:
    others = {
        "add_prefix_space": False,
        "added_tokens_decoder": {"0": {"content": "[PAD]", "special": True}},
        "backend": "tokenizers",
        "files_loaded": [],
        "fix_mistral_regex": True,
        "is_local": True,
        "local_files_only": True,
        "max_len": 9,
        "name_or_path": "elsewhere",
        "no_such_thing": 1,
        "processor_class": None,
        "special_tokens_map_file": None,
        "strip_accents": True,  # earlier versions of this class took and saved anything
        "tokenize_chinese_chars": True,
        "use_fast": True,
    }
    for each in load_anew(save_with(tmp_path, **others)):
        assert words_of(each, "The cat") == ["the", "cat"]
        assert words_of(each.train_new_from_iterator(["a dog"], vocab_size=50), "A dog") == ["a", "dog"]


# Whole words


def as_word_level(folder: Path) -> Path:
    """Turns the model of a saved tokenizer into the list of words that earlier versions saved."""
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text("utf-8"))
    content["model"] = {"type": "WordLevel", "vocab": content["model"]["vocab"], "unk_token": "[UNK]"}
    path.write_text(json.dumps(content), "utf-8")
    settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    del settings["do_lower_case"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    return folder


def test_a_folder_that_an_earlier_version_saved_gives_the_same(tokenizer: ToyBertTokenizer, tmp_path: Path) -> None:
    tokenizer.add_tokens(["NewTok"])
    tokenizer.save_pretrained(tmp_path / "new")
    tokenizer.save_pretrained(tmp_path / "old")
    for each in load_anew(as_word_level(tmp_path / "old")):
        assert all_ids(each) == all_ids(tokenizer)
        assert each("newtok the").tokens() == tokenizer("newtok the").tokens()
        each.save_pretrained(tmp_path / "again")
        assert (tmp_path / "again" / "tokenizer.json").read_bytes() == (tmp_path / "new/tokenizer.json").read_bytes()


@pytest.mark.parametrize(
    "words", [["cat", "s", "##s"], ["cat", " s", "  s", "s"], ["cat", "c", "a", "t", "s"], ["x" * 150, "x" * 50]]
)
def test_no_word_is_cut_in_pieces(words: list[str]) -> None:
    tokenizer = ToyBertTokenizer({word: index for index, word in enumerate([*SPECIAL_TOKENS, *words])})
    for text in ("cats", "cat##s", "ss", "x" * 100, "x" * 149, "x" * 151, "x" * 20_000):
        assert words_of(tokenizer.train_new_from_iterator([text], vocab_size=50), text) != ["[UNK]"]
        tokenizer.split_punctuation = False
        assert words_of(tokenizer, text) == ["[UNK]"]
    for word in words:
        assert words_of(tokenizer, word) == [word.strip() if word.strip() in words else "[UNK]"]


def test_special_tokens_can_be_renamed_when_learning(tokenizer: ToyBertTokenizer, tmp_path: Path) -> None:
    names = {"[CLS]": "<s>", "[SEP]": "</s>", "[UNK]": "<unk>"}
    renamed = tokenizer.train_new_from_iterator(["the cat"], vocab_size=50, special_tokens_map=names)
    assert renamed("the zebra", "cat").tokens() == ["<s>", "the", "<unk>", "</s>", "cat", "</s>"]
    renamed.save_pretrained(tmp_path)
    assert ToyBertTokenizer.from_pretrained(tmp_path)("the zebra").input_ids == [2, 6, 1, 3]


# Threads


@pytest.mark.parametrize("shared", [True, False])
def test_threads_get_their_own_lengths_from_a_copy_each_or_all_the_same(
    shared: bool, tokenizer: ToyBertTokenizer
) -> None:
    lengths = [20] * 4 if shared else [8, 16, 24, 32]
    tokenizer("the", padding="max_length", truncation=True, max_length=lengths[0])

    def lengths_of(number: int, own: ToyBertTokenizer) -> set[int]:
        how = {"padding": "max_length", "truncation": True, "max_length": lengths[number]}
        return {len(own("the cat " * count, **how).input_ids) for count in range(200)}

    copies = [tokenizer if shared else copy.deepcopy(tokenizer) for _ in lengths]
    with ThreadPoolExecutor(len(lengths)) as threads:
        assert list(threads.map(lengths_of, range(len(lengths)), copies)) == [{length} for length in lengths]


# Learning


@pytest.mark.parametrize("split_punctuation", [True, False])
def test_a_word_that_was_learnt_is_never_unknown(split_punctuation: bool) -> None:
    tokenizer = learn(split_punctuation=split_punctuation)
    for text in TEXTS:
        assert "[UNK]" not in words_of(tokenizer, text)
        if text.isascii():
            assert words_of(tokenizer, text.upper()) == words_of(tokenizer, text.lower()) == words_of(tokenizer, text)


def test_ids_go_by_frequency_then_by_spelling() -> None:
    tokenizer = learn(["pear fig fig apple", "fig pear kiwi"])
    assert tokenizer.convert_ids_to_tokens(range(5, 9)) == ["fig", "pear", "apple", "kiwi"]
    assert len(tokenizer) == 9


def test_the_order_of_the_texts_does_not_matter() -> None:
    words = [f"word{number}" for number in range(200)]
    vocabularies = []
    for seed in range(3):
        random.Random(seed).shuffle(words)
        vocabularies.append(learn([" ".join(words[:70]), " ".join(words[70:])], vocab_size=150).get_vocab())
    assert vocabularies[0] == vocabularies[1] == vocabularies[2]
    assert len(vocabularies[0]) == 150


def test_learning_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    code = (
        "import sys; from toybert.tokenization_toybert import ToyBertTokenizer;"
        "texts = [' '.join(f'word{number}' for number in range(300)), 'The cat sat.'];"
        "ToyBertTokenizer().train_new_from_iterator(texts, vocab_size=200).save_pretrained(sys.argv[1])"
    )
    folders = [tmp_path / seed for seed in "01"]
    processes = [
        subprocess.Popen([sys.executable, "-c", code, folder], env=os.environ | {"PYTHONHASHSEED": folder.name})
        for folder in folders
    ]
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


@pytest.mark.parametrize("size", [5, 6, 9, 12])
def test_the_vocabulary_has_the_size_asked_for(size: int) -> None:
    tokenizer = learn(vocab_size=size)
    assert len(tokenizer) == tokenizer.vocab_size == size
    assert sorted(tokenizer.get_vocab().values()) == list(range(size))


def test_rare_words_can_be_left_out() -> None:
    tokenizer = learn(["fig fig fig pear pear kiwi"], min_frequency=2)
    assert tokenizer.convert_ids_to_tokens(range(5, len(tokenizer))) == ["fig", "pear"]


def test_learning_from_nothing_leaves_the_special_tokens() -> None:
    assert learn([]).get_vocab() == learn([""]).get_vocab() == SPECIAL_IDS


def test_learning_anew_forgets_the_old_words_and_keeps_the_settings() -> None:
    tokenizer = learn(["dx:I10"], split_punctuation=False)
    again = tokenizer.train_new_from_iterator(["rx:metformin"], vocab_size=50)
    assert isinstance(again, ToyBertTokenizer)
    assert again.get_vocab() == {**SPECIAL_IDS, "rx:metformin": 5}
    assert again.split_punctuation is False
    assert "dx:i10" in tokenizer.get_vocab()


@pytest.mark.parametrize("text", ["newtok", "NEWTOK", "NewTok"])
def test_an_added_token_is_found_in_any_case(tokenizer: ToyBertTokenizer, text: str) -> None:
    size = len(tokenizer)
    assert tokenizer.add_tokens(["NewTok"]) == 1
    assert tokenizer(text, add_special_tokens=False).input_ids == [size]
    assert len(tokenizer) == tokenizer.vocab_size + 1 == size + 1


# Files


def test_saving_and_loading_twice_changes_nothing(tokenizer: ToyBertTokenizer, tmp_path: Path) -> None:
    tokenizer.add_tokens(["NewTok", "other", "third"])
    current, expected = tokenizer, all_ids(tokenizer)
    for folder in ("one", "two", "three"):
        current.save_pretrained(tmp_path / folder)
        current = ToyBertTokenizer.from_pretrained(tmp_path / folder)
        assert all_ids(current) == expected
        assert current("newtok Other third").input_ids == tokenizer("newtok Other third").input_ids
        assert current.model_max_length == 64
    for name in ("tokenizer.json", "tokenizer_config.json"):
        one, two, three = ((tmp_path / folder / name).read_bytes() for folder in ("one", "two", "three"))
        assert one == two == three, name


def test_a_plain_tokenizer_is_saved_byte_for_byte_alike(tokenizer: ToyBertTokenizer, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path / "one")
    tokenizer("the " * 100, truncation=True, padding="max_length")  # leaves no trace
    tokenizer.save_pretrained(tmp_path / "used")
    ToyBertTokenizer.from_pretrained(tmp_path / "one").save_pretrained(tmp_path / "two")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        one, used, two = ((tmp_path / folder / name).read_bytes() for folder in ("one", "used", "two"))
        assert one == used == two, name
    used = ToyBertTokenizer.from_pretrained(tmp_path / "used")
    assert (used.backend_tokenizer.truncation, used.backend_tokenizer.padding) == (None, None)  # neither cut nor padded
    assert used("the cat").input_ids == tokenizer("the cat").input_ids


def test_what_is_saved_is_not_about_one_loading(tokenizer: ToyBertTokenizer, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path / "one")
    ToyBertTokenizer.from_pretrained(tmp_path / "one", local_files_only=True).save_pretrained(tmp_path / "two")
    saved = json.loads((tmp_path / "two" / "tokenizer_config.json").read_text("utf-8"))
    assert saved["tokenizer_class"] == "ToyBertTokenizer"
    assert saved["model_max_length"] == 64
    assert not {"backend", "is_local", "local_files_only", "name_or_path", "vocab"} & saved.keys()


def test_the_library_tokenizer_file_says_the_same(tokenizer: ToyBertTokenizer, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    plain = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in TEXTS:
        assert plain.encode(text).ids == tokenizer(text).input_ids
    assert plain.encode(*PAIRS[0]).ids == tokenizer(*PAIRS[0]).input_ids


def test_copies_give_the_same_ids(tokenizer: ToyBertTokenizer) -> None:
    expected = all_ids(tokenizer)
    for other in (copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(tokenizer))):
        assert all_ids(other) == expected
        assert other.split_punctuation is tokenizer.split_punctuation
        other.add_tokens(["extra"])
        assert len(other) == len(tokenizer) + 1


@pytest.mark.parametrize("length", [16, 128])
def test_another_maximal_length_is_kept(tokenizer: ToyBertTokenizer, tmp_path: Path, length: int) -> None:
    tokenizer.model_max_length = length
    tokenizer.save_pretrained(tmp_path / "one")
    ToyBertTokenizer.from_pretrained(tmp_path / "one").save_pretrained(tmp_path / "two")
    again = ToyBertTokenizer.from_pretrained(tmp_path / "two")
    assert again.model_max_length == length
    assert len(again("the " * 200, truncation=True).input_ids) == length
    assert ToyBertTokenizer.from_pretrained(tmp_path / "two", model_max_length=8).model_max_length == 8


def test_the_callers_tokenizer_object_stays_as_it_was(tokenizer: ToyBertTokenizer) -> None:
    plain = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    plain.enable_padding()
    before = plain.to_str()
    ToyBertTokenizer(tokenizer_object=plain, split_punctuation=False)
    assert plain.to_str() == before


def test_a_plain_call_does_not_change_the_fingerprint(tokenizer: ToyBertTokenizer) -> None:
    before = Hasher.hash(tokenizer)
    tokenizer("The cat sat.")
    tokenizer(TEXTS)
    assert Hasher.hash(tokenizer) == before


# Errors


@pytest.mark.parametrize(
    ("vocab", "ids"),
    [
        ({"cat": 0}, [None] * 5),
        ({**SPECIAL_IDS, "[PAD]": 1, "[UNK]": 0}, [1, 0, 2, 3, 4]),
        ({token: index for token, index in SPECIAL_IDS.items() if token != "[MASK]"}, [0, 1, 2, 3, None]),
        ({token: index + 1 for token, index in SPECIAL_IDS.items()}, [1, 2, 3, 4, 5]),
    ],
)
def test_a_vocabulary_with_other_special_ids_is_refused(vocab: dict[str, int], ids: list[int | None]) -> None:
    with pytest.raises(ValueError, match=r"\[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\] the ids 0 to 4") as error:
        ToyBertTokenizer(vocab=vocab)
    assert str(ids) in str(error.value)


def test_a_file_with_other_special_ids_is_refused(tokenizer: ToyBertTokenizer, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_text(file.read_text("utf-8").replace("[MASK]", "[mask]"), "utf-8")
    with pytest.raises(ValueError, match="the ids 0 to 4"):
        ToyBertTokenizer(tokenizer_file=str(file))


@pytest.mark.parametrize("vocab", ["vocab.txt", ["cat"], Path("vocab.txt"), 5])
def test_a_vocabulary_that_is_no_dict_is_refused(vocab: object) -> None:
    with pytest.raises(ValueError, match=f"vocab .* dict .* {type(vocab).__name__}"):
        ToyBertTokenizer(vocab=vocab)


@pytest.mark.parametrize("name", ["none/tokenizer.json", "."])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"tokenizer_file") as error:
        ToyBertTokenizer(tokenizer_file=tmp_path / name)
    assert str(tmp_path / name) in str(error.value)


def test_a_file_name_of_another_kind_is_not_ignored(tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match="vocab_file"):
        ToyBertTokenizer(vocab_file=str(tmp_path / "vocab.txt"))


def test_a_folder_without_vocabulary_is_refused(tokenizer: ToyBertTokenizer, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises((ValueError, ImportError)) as caught:
        ToyBertTokenizer.from_pretrained(tmp_path)
    # without protobuf, the library's 4.57 and 5.0 fail while they handle the error that says what is missing
    error = caught.value.__context__ if isinstance(caught.value, ImportError) else caught.value
    assert isinstance(error, ValueError)
    assert "tokenizer.json" in str(error)
