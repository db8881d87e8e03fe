"""Claims about what serves BERT elsewhere: it serves ToyBERT, as it is or converted to a stock folder."""

import onnxruntime
import pytest
import torch
from helpers import ROOT
from sentence_transformers import CrossEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.sparse_encoder.modules import MLMTransformer, SpladePooling
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from toybert.train.convert import convert

SENTENCES = ["The soup was not good.", "Nobody thought that the pie was bad.", "No."]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Returns the shipped checkpoints as stock folders: the pre-trained one, and the sentiment classifier."""
    top = tmp_path_factory.mktemp("stock")
    convert(ROOT, top / "root")
    convert(ROOT / "sentiment", top / "sentiment")
    return top


@torch.no_grad()
def mean_of_tokens(model, tokenizer):
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    mask = batch["attention_mask"][..., None]
    return (model.eval()(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)


def test_sentence_transformers_takes_the_mean_of_the_tokens(folders):
    how = {"trust_remote_code": True}
    expected = mean_of_tokens(AutoModel.from_pretrained(ROOT, **how), AutoTokenizer.from_pretrained(ROOT, **how))
    for folder, trust in ((ROOT, True), (folders / "root", False)):
        encoder = SentenceTransformer(str(folder), trust_remote_code=trust, device="cpu")
        vectors = encoder.encode(SENTENCES, convert_to_tensor=True)
        torch.testing.assert_close(vectors, expected)
        assert encoder.max_seq_length == 64  # longer text is cut, not refused
        assert encoder.encode("the cat " * 100).shape == (128,)


def test_sentence_transformers_scores_pairs_and_ranks_them(tmp_path):
    pairs = [(SENTENCES[0], other) for other in SENTENCES]
    torch.manual_seed(0)
    scorer = CrossEncoder(str(ROOT), trust_remote_code=True, device="cpu", num_labels=1)  # its classifier is new
    scores = scorer.predict(pairs, convert_to_tensor=True)
    batch = scorer.tokenizer(pairs, padding=True, return_tensors="pt")
    with torch.no_grad():
        torch.testing.assert_close(scores, scorer.model(**batch).logits.squeeze(1).sigmoid())
    ranks = scorer.rank(SENTENCES[0], SENTENCES)
    assert [each["corpus_id"] for each in ranks] == scores.argsort(descending=True).tolist()
    scorer.save_pretrained(str(tmp_path / "saved"))
    again = CrossEncoder(str(tmp_path / "saved"), trust_remote_code=True, device="cpu")
    torch.testing.assert_close(again.predict(pairs, convert_to_tensor=True), scores)


def test_sentence_transformers_makes_sparse_vectors_of_the_word_scores():
    trust = {key: {"trust_remote_code": True} for key in ("model_kwargs", "config_kwargs", "processor_kwargs")}
    words = MLMTransformer(str(ROOT), **trust)
    encoder = SparseEncoder(modules=[words, SpladePooling()], device="cpu")
    vectors = encoder.encode(SENTENCES, convert_to_sparse_tensor=False)
    batch = encoder.tokenizer(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = words.model(**batch).logits  # (B, S, V)
    expected = (logits.relu().log1p() * batch["attention_mask"][..., None]).amax(1)
    torch.testing.assert_close(vectors, expected)


@pytest.mark.parametrize("stock", [True, False], ids=["stock", "toybert"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_onnxruntime_gives_the_same_answers(stock, folders, tmp_path):
    folder = folders / "sentiment" if stock else ROOT
    how = {} if stock else {"subfolder": "sentiment", "trust_remote_code": True}
    model = AutoModelForSequenceClassification.from_pretrained(folder, **how).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, **how)
    batch = dict(tokenizer(SENTENCES[:2], padding=True, return_tensors="pt"))
    B, S = torch.export.Dim("B"), torch.export.Dim("S", max=64)
    torch.onnx.export(
        model, kwargs=batch, f=tmp_path / "model.onnx", dynamo=True, verbose=False,
        input_names=list(batch), output_names=["logits"], dynamic_shapes={name: {0: B, 1: S} for name in batch},
    )  # fmt: skip
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for texts in (
        SENTENCES,
        SENTENCES[:1],
        ["the cat sat on the bed and slept . " * 6],
    ):  # other sizes than the export's
        given = tokenizer(texts, padding=True, return_tensors="pt")
        found = session.run(["logits"], {name: tensor.numpy() for name, tensor in given.items()})[0]
        with torch.no_grad():
            torch.testing.assert_close(torch.from_numpy(found), model(**given).logits)
