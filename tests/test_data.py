"""Claims about the data path: masking, pairs, batches."""

import time

import numpy as np
import pytest
import torch

from toybert.tokenization_toybert import ToyBertTokenizer
from toybert.train.data.batches import LengthBatchSampler
from toybert.train.data.checks import check_labels
from toybert.train.data.datasets import FinetuneDataset, MaskedWordDataset, PretrainDataset
from toybert.train.data.masking import IGNORED, create_mlm_data, uniforms
from toybert.train.data.tables import load_corpus

V = 105  # 5 special tokens and 100 words


def words(count: int, offset: int = 0) -> str:
    return " ".join(f"w{offset + i}" for i in range(count))


@pytest.fixture(scope="module")
def tokenizer() -> ToyBertTokenizer:
    return ToyBertTokenizer().train_new_from_iterator([words(V - 5)], vocab_size=V, show_progress=False)


@pytest.fixture(scope="module")
def corpus() -> list[list[str]]:
    """Makes 200 documents of 5 sentences of 3 to 12 words."""
    random = np.random.default_rng(0)
    return [
        [" ".join(f"w{word}" for word in random.integers(0, V - 5, random.integers(3, 13))) for _ in range(5)]
        for _ in range(200)
    ]


def masked(rows: int, length: int, probability: float = 0.15, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Returns [CLS] words [SEP] [PAD], and what create_mlm_data makes of it."""
    ids = torch.from_numpy(np.random.default_rng(seed).integers(5, V, (rows, length + 3)))
    ids[:, 0], ids[:, -2], ids[:, -1] = 2, 3, 0
    noise = torch.from_numpy(uniforms((seed,), np.arange(rows), 3 * (length + 3))).reshape(rows, -1, 3).permute(2, 0, 1)
    return ids, *create_mlm_data(ids, noise, vocab_size=V, mlm_probability=probability)


def assert_share(hits: int, trials: int, expected: float) -> None:
    """Asserts that a count is within 5 sigma of a binomial's."""
    sigma = (expected * (1 - expected) / trials) ** 0.5
    assert abs(hits / trials - expected) <= 5 * sigma, f"{hits / trials:.4f} of {trials} is not {expected:.4f}"


@pytest.mark.parametrize("probability", [0.15, 0.3])
@pytest.mark.parametrize("length", [1, 3, 20, 60])
def test_the_share_of_targets_is_the_asked_one_and_no_row_is_without(length: int, probability: float) -> None:
    _, _, labels = masked(5000, length, probability)
    chosen = labels != IGNORED
    assert chosen.any(1).all()
    expected = probability + (1 - probability) ** length / length  # the last term: one where chance gave none
    assert_share(int(chosen.sum()), 5000 * length, expected)
    if length >= 20:
        assert abs(expected - probability) < 0.01


def test_of_the_targets_80_percent_are_masked_10_random_10_kept() -> None:
    ids, seen, labels = masked(20_000, 60)
    chosen = labels != IGNORED
    total = int(chosen.sum())
    assert total > 150_000
    assert_share(int((seen[chosen] == 4).sum()), total, 0.8)
    same = int((seen[chosen] == ids[chosen]).sum())
    assert_share(same, total, 0.1 + 0.1 / (V - 5))  # a random word is now and then the word itself
    assert_share(total - same - int((seen[chosen] == 4).sum()), total, 0.1 - 0.1 / (V - 5))


def test_random_words_are_real_words_and_equally_likely() -> None:
    ids, seen, labels = masked(40_000, 60)
    replaced = seen[(labels != IGNORED) & (seen != 4) & (seen != ids)]
    counts = torch.bincount(replaced, minlength=V)
    assert counts[:5].sum() == 0
    expected = len(replaced) / (V - 5)
    assert ((counts[5:] - expected).abs() < 5 * expected**0.5).all()


def test_labels_hold_the_hidden_word_and_nothing_else_changes() -> None:
    ids, seen, labels = masked(1000, 20)
    chosen = labels != IGNORED
    assert torch.equal(labels[chosen], ids[chosen])
    assert torch.equal(seen[~chosen], ids[~chosen])


def test_special_tokens_are_never_targets() -> None:
    ids = torch.tensor([[2, 1, 4, 7, 3, 8, 3, 0, 0]]).repeat(2000, 1)  # [UNK] and a [MASK] of the text among them
    noise = torch.from_numpy(uniforms((1,), np.arange(2000), 27)).reshape(2000, 9, 3).permute(2, 0, 1)
    seen, labels = create_mlm_data(ids, noise, vocab_size=V, mlm_probability=0.9)
    assert (labels[:, [0, 1, 2, 4, 6, 7, 8]] == IGNORED).all()
    assert torch.equal(seen[:, [0, 1, 2, 4, 6, 7, 8]], ids[:, [0, 1, 2, 4, 6, 7, 8]])
    assert ((labels != IGNORED).sum(1) >= 1).all()


def test_a_row_of_special_tokens_has_no_target() -> None:
    ids = torch.tensor([2, 3, 0])
    seen, labels = create_mlm_data(ids, torch.zeros(3, 3), vocab_size=V)
    assert torch.equal(seen, ids)
    assert (labels == IGNORED).all()


def test_other_vocabularies_keep_their_own_special_ids_out() -> None:
    special = (0, 50, 51, 52, 53)
    ids = torch.full((4000, 10), 60)
    noise = torch.from_numpy(uniforms((2,), np.arange(4000), 30)).reshape(4000, 10, 3).permute(2, 0, 1)
    seen, _ = create_mlm_data(ids, noise, vocab_size=V, special_ids=special, mask_token_id=53, mlm_probability=1.0)
    found = set(seen.unique().tolist())
    assert found == (set(range(V)) - set(special)) | {53}


@pytest.mark.parametrize("shape", [(7,), (2, 3, 7)])
def test_ids_of_any_shape_are_masked(shape: tuple[int, ...]) -> None:
    seen, labels = create_mlm_data(torch.full(shape, 9), torch.rand(3, *shape), vocab_size=V)
    assert seen.shape == labels.shape == shape
    assert ((labels != IGNORED).sum(-1) >= 1).all()


def test_masking_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match=r"mlm_probability .* got 0"):
        create_mlm_data(torch.full((7,), 9), torch.rand(3, 7), vocab_size=V, mlm_probability=0)
    with pytest.raises(ValueError, match=r"noise .*\(3, 6\).*\(3, 7\)"):
        create_mlm_data(torch.full((7,), 9), torch.rand(3, 6), vocab_size=V)


def test_uniforms_are_uniform_and_depend_on_key_row_and_column_alone() -> None:
    rows = np.arange(2000)
    draws = uniforms((7, 3), rows, 50)
    assert draws.min() >= 0
    assert draws.max() < 1
    counts = np.bincount((draws.ravel() * 20).astype(int), minlength=20)
    assert (np.abs(counts - 5000) < 5 * 5000**0.5).all()
    for other in (uniforms((7, 4), rows, 50), uniforms((8, 3), rows, 50), uniforms((3, 7), rows, 50)):
        assert abs(np.corrcoef(draws.ravel(), other.ravel())[0, 1]) < 5 / draws.size**0.5
    assert abs(np.corrcoef(draws[:-1].ravel(), draws[1:].ravel())[0, 1]) < 5 / draws.size**0.5
    assert abs(np.corrcoef(draws[:, :-1].ravel(), draws[:, 1:].ravel())[0, 1]) < 5 / draws.size**0.5
    np.testing.assert_array_equal(uniforms((7, 3), rows[[5, 900, 4]], 20), draws[[5, 900, 4], :20])


def test_an_example_is_the_same_alone_and_in_any_batch(tokenizer: ToyBertTokenizer, corpus: list[list[str]]) -> None:
    dataset = PretrainDataset(corpus, tokenizer, seed=3)
    dataset.set_epoch(2)
    batch = dataset.__getitems__([700, 3, 41, 5])
    for place, row in enumerate([700, 3, 41, 5]):
        alone = dataset[row]
        size = len(alone["input_ids"])
        for name in ("input_ids", "token_type_ids", "attention_mask", "labels"):
            assert torch.equal(batch[name][place, :size], alone[name])
        assert (batch["attention_mask"][place, size:] == 0).all()
        assert (batch["labels"][place, size:] == IGNORED).all()


def test_a_batch_hides_most_of_what_is_to_be_predicted(tokenizer: ToyBertTokenizer, corpus: list[list[str]]) -> None:
    batch = PretrainDataset(corpus, tokenizer, mlm_probability=0.3).__getitems__(range(1600))
    chosen = batch["labels"] != IGNORED
    seen, hidden = batch["input_ids"][chosen], batch["labels"][chosen]
    assert_share(int((seen == 4).sum()), len(seen), 0.8)
    assert_share(int((seen == hidden).sum()), len(seen), 0.1 + 0.1 / (V - 5))
    assert (batch["input_ids"][~chosen] != 4).all()


def test_masks_and_partners_change_with_epoch_and_seed(tokenizer: ToyBertTokenizer, corpus: list[list[str]]) -> None:
    dataset, other = PretrainDataset(corpus, tokenizer), PretrainDataset(corpus, tokenizer, seed=2)
    rows = list(range(len(dataset)))
    first = dataset.__getitems__(rows)
    dataset.set_epoch(2)
    second, third = dataset.__getitems__(rows), other.__getitems__(rows)
    for batch in (second, third):
        assert torch.equal(batch["next_sentence_label"], first["next_sentence_label"])  # seeds and epochs of one parity
        same_width = min(batch["labels"].shape[1], first["labels"].shape[1])
        changed = (batch["labels"][:, :same_width] != first["labels"][:, :same_width]).any(1)
        assert changed.float().mean() > 0.9
    dataset.set_epoch(0)
    assert torch.equal(dataset.__getitems__(rows)["labels"], first["labels"])


def unhidden(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.where(batch["labels"] == IGNORED, batch["input_ids"], batch["labels"])


def segments(dataset: PretrainDataset, rows: list[int]) -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
    """Returns A, B and the label of each row, with nothing hidden."""
    batch = dataset.__getitems__(rows)
    found = []
    for ids, types, real, label in zip(
        unhidden(batch), batch["token_type_ids"], batch["attention_mask"], batch["next_sentence_label"], strict=True
    ):
        a, b = ids[(types == 0) & (real == 1)], ids[types == 1]
        assert a[0] == 2
        assert a[-1] == b[-1] == 3
        assert (ids[real == 0] == 0).all()
        found.append((tuple(a[1:-1].tolist()), tuple(b[:-1].tolist()), int(label)))
    return found


def test_each_sentence_comes_once_with_its_next_and_once_with_another(
    tokenizer: ToyBertTokenizer, corpus: list[list[str]]
) -> None:
    dataset = PretrainDataset(corpus, tokenizer)
    assert len(dataset) == 2 * 200 * 4
    found = segments(dataset, list(range(len(dataset))))
    assert [label for _, _, label in found] == [1, 0] * (200 * 4)
    for true, false in zip(found[::2], found[1::2], strict=True):
        assert true[0] == false[0]
        assert true[1] != false[1]
        assert len(true[1]) == len(false[1])  # length tells nothing: here there always is one as long


def test_label_1_means_that_b_follows_a_and_a_false_b_is_from_another_document(
    tokenizer: ToyBertTokenizer, corpus: list[list[str]]
) -> None:
    sentences = [
        [tuple(tokenizer(text, add_special_tokens=False).input_ids) for text in document] for document in corpus
    ]
    where = {ids: (d, s) for d, document in enumerate(sentences) for s, ids in enumerate(document)}
    dataset = PretrainDataset(corpus, tokenizer)
    false = 0
    for epoch in range(4):
        dataset.set_epoch(epoch)
        for a, b, label in segments(dataset, list(range(len(dataset)))):
            (doc_a, place_a), (doc_b, place_b) = where[a], where[b]
            assert ((doc_a, place_a + 1) == (doc_b, place_b)) == bool(label)
            assert (doc_a == doc_b) == bool(label)
            assert place_b > 0  # no first sentences, which would give a false pair away
            false += 1 - label
    assert false == 4 * len(dataset) / 2


def test_two_documents_of_two_lines_give_right_labels(tokenizer: ToyBertTokenizer) -> None:
    dataset = PretrainDataset([["w1 w2", "w3"], ["w4", "w5 w6 w7"]], tokenizer)
    seen = set()
    for epoch in range(50):
        dataset.set_epoch(epoch)
        seen |= {(tokenizer.decode(a), tokenizer.decode(b), label) for a, b, label in segments(dataset, [0, 1, 2, 3])}
    # The false B is longer or shorter here: no other of the same length exists. It is cut to the true one's length.
    assert seen == {("w1 w2", "w3", 1), ("w1 w2", "w5", 0), ("w4", "w5 w6 w7", 1), ("w4", "w3", 0)}


def test_text_equal_to_the_true_next_sentence_is_never_a_false_one(tokenizer: ToyBertTokenizer) -> None:
    documents = [["w1", "w9"], ["w2", "w9"], ["w3", "w9"], ["w4", "w8"]]
    dataset = PretrainDataset(documents, tokenizer)
    w9 = tokenizer.convert_tokens_to_ids("w9")
    for epoch in range(20):
        dataset.set_epoch(epoch)
        for _, b, label in segments(dataset, [0, 1, 2, 3, 4, 5]):
            assert (b == (w9,)) == bool(label)


def test_false_sentences_can_be_asked_to_come_from_related_documents(
    tokenizer: ToyBertTokenizer, corpus: list[list[str]]
) -> None:
    related = np.zeros((200, 200), dtype=bool)
    for i in range(200):
        related[i, (i + 1) % 200] = True
    dataset = PretrainDataset(corpus, tokenizer, related=related)
    pairs = np.arange(len(dataset) // 2)
    partner = dataset.partners(pairs, np.zeros_like(pairs))
    document = pairs // 4  # each has five sentences, so four pairs
    assert (document[partner] == (document[pairs] + 1) % 200).all()


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([], "no two sentences"),
        ([["w1"], ["w2"]], "no two sentences"),
        ([["w1"]], "no two sentences"),
        ([["", "w1"], ["  ", ""]], "no two sentences"),
        ([["w1", "w2", "w3"]], "two documents"),
        ([["w1", "w2"], ["w3", "w2"]], "two documents"),
    ],
)
def test_a_corpus_without_possible_pairs_is_refused_at_once(
    tokenizer: ToyBertTokenizer, documents: list[list[str]], message: str
) -> None:
    began = time.monotonic()
    with pytest.raises(ValueError, match=message):
        PretrainDataset(documents, tokenizer)
    assert time.monotonic() - began < 10


def test_sentences_without_words_are_left_out_and_counted(tokenizer: ToyBertTokenizer) -> None:
    dataset = PretrainDataset([["w1", "", "w2"], ["w3", "w4 w5", " "]], tokenizer)
    assert dataset.dropped == 2
    assert len(dataset) == 2 * 2


@pytest.mark.parametrize(
    ("a", "b", "kept"), [(100, 100, (30, 31)), (100, 1, (60, 1)), (1, 100, (1, 60)), (61, 61, (30, 31))]
)
def test_long_pairs_are_cut_to_64_tokens_and_keep_both_sentences(
    tokenizer: ToyBertTokenizer, a: int, b: int, kept: tuple[int, int]
) -> None:
    dataset = PretrainDataset([[words(a), words(b)], [words(a, 1), words(b, 1)]], tokenizer)
    for epoch in (0, 1):
        dataset.set_epoch(epoch)
        for ids in dataset.__getitems__([0, 1, 2, 3]).values():
            assert ids.ndim == 1 or ids.shape[1] <= 64
        for first, second, _ in segments(dataset, [0, 1, 2, 3]):
            assert (len(first), len(second)) == kept


def test_batches_hold_each_row_once_and_rows_of_similar_length() -> None:
    lengths = np.random.default_rng(0).integers(5, 60, 1003)
    sampler = LengthBatchSampler(lengths, 32)
    batches = list(sampler)
    assert len(batches) == len(sampler) == 32
    assert [len(batch) for batch in batches] == [32] * 31 + [1003 - 31 * 32]
    assert sorted(row for batch in batches for row in batch) == list(range(1003))
    spread = np.mean([np.ptp(lengths[batch]) for batch in batches])
    assert spread < 5 < np.ptp(lengths)


def test_rows_that_go_together_stay_in_one_batch() -> None:
    lengths = np.repeat(np.random.default_rng(0).integers(5, 60, 501), 2)
    for batch in LengthBatchSampler(lengths, 32, group=2):
        assert all(a % 2 == 0 and b == a + 1 for a, b in zip(batch[::2], batch[1::2], strict=True))
    with pytest.raises(ValueError, match=r"batch_size 31 .* 2"):
        LengthBatchSampler(lengths, 31, group=2)


def test_batches_change_order_and_company_each_epoch_but_not_by_themselves() -> None:
    lengths = np.random.default_rng(0).integers(5, 60, 5000)
    sampler = LengthBatchSampler(lengths, 32)
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    second = list(sampler)
    together = {(min(a, b), max(a, b)) for batch in first for a in batch for b in batch if a != b}
    again = sum((min(a, b), max(a, b)) in together for batch in second for a in batch for b in batch if a != b)
    assert again / (2 * len(together)) < 0.15


def test_finetuning_rows_are_framed_padded_and_cut(tokenizer: ToyBertTokenizer) -> None:
    dataset = FinetuneDataset(["w1 w2", "", words(90), " "], [1, 1, 0, 1], tokenizer)
    assert (len(dataset), dataset.dropped) == (2, 2)  # those without a word are left out
    batch = dataset.__getitems__([0, 1])
    assert {name: tuple(values.shape) for name, values in batch.items()} == {
        "input_ids": (2, 64), "token_type_ids": (2, 64), "attention_mask": (2, 64), "labels": (2,)
    }  # fmt: skip
    assert batch["attention_mask"].sum(1).tolist() == [4, 64]
    assert batch["input_ids"][1, -1] == 3
    assert batch["labels"].tolist() == [1, 0]
    assert dataset[0]["input_ids"].tolist()[0::3] == [2, 3]


def test_labelled_texts_without_any_word_are_refused(tokenizer: ToyBertTokenizer) -> None:
    with pytest.raises(ValueError, match="no text has a word"):
        FinetuneDataset(["", " "], [0, 1], tokenizer)


@pytest.mark.parametrize("label", [2, -1, None, "positive", 0.5, True])
def test_a_label_outside_the_set_is_named_with_its_row(label: object) -> None:
    with pytest.raises(ValueError, match=r"row 2 of train\.jsonl .* 0 to 1"):
        check_labels([0, label, 1], 2, "train.jsonl")


def test_a_missing_empty_or_foreign_corpus_is_named(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match=r"train\.jsonl does not exist"):
        load_corpus(tmp_path, ["text"])
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "test.jsonl").write_text("\n")
    with pytest.raises(ValueError, match=r"test\.jsonl is empty"):
        load_corpus(tmp_path, ["text"])
    (tmp_path / "test.jsonl").write_text('{"text": "a"}\n')
    assert load_corpus(tmp_path, ["text"])["test"]["text"][:] == ["a"]
    with pytest.raises(ValueError, match=r"has no column 'label', it has 'text'"):
        load_corpus(tmp_path, ["text", "label"])
    (tmp_path / "train.jsonl").write_text("not json\n")
    with pytest.raises(ValueError, match=r"line 1 of .*train\.jsonl is not JSON in UTF-8"):
        load_corpus(tmp_path, ["text"])
    (tmp_path / "train.jsonl").write_text('{"text": "a"}\n[1, 2]\n')
    with pytest.raises(ValueError, match=r"line 2 of .*train\.jsonl is no JSON object"):
        load_corpus(tmp_path, ["text"])
    (tmp_path / "train.jsonl").write_text('{"sentences": "hello there"}\n')
    with pytest.raises(ValueError, match=r"line 1 of .* 'sentences'"):
        load_corpus(tmp_path, ["sentences"])
    (tmp_path / "train.jsonl").write_bytes(b'{"text": "a"}\n{"text": "caf\xe9"}\n')  # latin-1
    with pytest.raises(ValueError, match=r"line 2 of .*train\.jsonl is not in UTF-8"):
        load_corpus(tmp_path, ["text"])


def test_a_text_that_is_none_is_named_with_its_row(tmp_path) -> None:
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.jsonl").write_text('{"text": "NA"}\n{"text": "null"}\n{"text": ""}\n')
    assert load_corpus(tmp_path, ["text"])["train"]["text"][:] == ["NA", "null", ""]  # text like any other
    (tmp_path / "test.jsonl").write_text('{"text": "a"}\n{"text": null}\n')
    with pytest.raises(ValueError, match=r"row 2 of .*test\.jsonl has None"):
        load_corpus(tmp_path, ["text"])


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path) -> None:
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "a"}\r\n{"text": "b"}\r\n')
    assert load_corpus(tmp_path, ["text"])["train"]["text"][:] == ["a", "b"]


def test_a_row_without_room_for_a_word_is_refused(tokenizer: ToyBertTokenizer, corpus: list[list[str]]) -> None:
    with pytest.raises(ValueError, match=r"max_length .* 5, got 4"):
        PretrainDataset(corpus, tokenizer, max_length=4)
    with pytest.raises(ValueError, match=r"max_length .* 3, got 2"):
        MaskedWordDataset(corpus, tokenizer, max_length=2)
    with pytest.raises(ValueError, match=r"max_length .* 3, got 2"):
        FinetuneDataset(["w1"], [0], tokenizer, max_length=2)
    row = PretrainDataset(corpus, tokenizer, max_length=5)[0]
    assert row["input_ids"].shape == (5,)
