"""Claims about pipelines: a folder and a task's name are enough, and what goes wrong is said clearly."""

import pytest
import torch
from helpers import SMALL, make_checkpoint
from transformers import (
    AutoModel,
    AutoModelForNextSentencePrediction,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    pipeline,
)
from transformers.pipelines import PipelineException

from toybert.configuration_toybert import ToyBertConfig
from toybert.modeling_toybert import ToyBertForNextSentencePrediction, ToyBertForSequenceClassification

LONG = "the cat sat . " * 50  # 200 words and 2 special tokens, where the model takes 64
TOO_LONG = "input is 202 tokens long, the model takes at most 64"


def open_pipeline(task, model, **options):
    return pipeline(task, model=str(model), trust_remote_code=True, device="cpu", **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_checkpoint(tmp_path_factory.mktemp("pipelines") / "toybert")


@pytest.fixture(scope="module")
def tokenizer(folder):
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=True)


@pytest.fixture(scope="module")
def fill(folder):
    return open_pipeline("fill-mask", folder)


@pytest.fixture(scope="module")
def classifier_folder(folder, tokenizer, tmp_path_factory):
    """A saved classifier with three named classes."""
    names = ["bad", "so-so", "good"]
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder,
        trust_remote_code=True,
        id2label=dict(enumerate(names)),
        label2id={name: index for index, name in enumerate(names)},
    )
    saved = tmp_path_factory.mktemp("classifier")
    model.save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    return saved


@pytest.fixture(scope="module")
def classify(classifier_folder):
    return open_pipeline("text-classification", classifier_folder)


@pytest.fixture(scope="module")
def extract(folder):
    return open_pipeline("feature-extraction", folder)


def test_a_pipeline_finds_the_tokenizer_by_itself(fill, classify, extract):
    for pipe in (fill, classify, extract):
        assert type(pipe.tokenizer).__name__ == "ToyBertTokenizer"


def test_fill_mask_gives_five_words_in_order_of_their_probability(fill, tokenizer):
    answers = fill("The [MASK] sat.")
    scores = [answer["score"] for answer in answers]
    assert len(answers) == 5
    assert scores == sorted(scores, reverse=True)
    for answer in answers:
        assert answer["token_str"] == tokenizer.convert_ids_to_tokens(answer["token"])


def test_fill_mask_gives_the_models_own_probabilities(fill, tokenizer):
    inputs = tokenizer("The [MASK] sat.", return_tensors="pt")
    with torch.no_grad():
        expected = fill.model(**inputs).logits[0, 2].softmax(-1)
    answers = fill("The [MASK] sat.", top_k=len(tokenizer))
    found = torch.zeros(len(tokenizer))
    found[[answer["token"] for answer in answers]] = torch.tensor([answer["score"] for answer in answers])
    assert len(answers) == len(tokenizer)
    torch.testing.assert_close(found, expected)


def test_fill_mask_takes_a_mask_that_a_full_stop_follows(fill, tokenizer):
    assert fill("the cat [MASK].")[0]["sequence"].startswith("the cat ")
    assert fill("the cat [MASK].", top_k=1) == fill("the cat [MASK] .", top_k=1)


def test_fill_mask_answers_each_of_two_masks(fill):
    answers = fill("The [MASK] sat on the [MASK].", top_k=2)
    assert [len(answer) for answer in answers] == [2, 2]


@pytest.mark.parametrize("text", ["The cat sat.", "The <mask> sat.", "The [mask] sat."])
def test_fill_mask_refuses_text_without_a_mask(fill, text):
    with pytest.raises(PipelineException, match=r"No mask_token \(\[MASK\]\) found"):
        fill(text)


def test_fill_mask_in_batches_gives_what_it_gives_one_by_one(fill):
    texts = ["The [MASK] sat.", "The old dog ran to the [MASK] and sat.", "[MASK]"]
    for batched, text in zip(fill(texts, batch_size=2), texts, strict=True):
        alone = fill(text)
        assert [answer["token"] for answer in batched] == [answer["token"] for answer in alone]
        torch.testing.assert_close(
            torch.tensor([answer["score"] for answer in batched]), torch.tensor([answer["score"] for answer in alone])
        )


def test_fill_mask_chooses_among_targets(fill, tokenizer):
    words = tokenizer.convert_ids_to_tokens([10, 20])
    answers = fill("The [MASK] sat.", targets=[words[0].upper(), words[1]])
    assert {answer["token_str"] for answer in answers} == set(words)


def test_fill_mask_says_how_long_a_text_may_be(fill):
    with pytest.raises(ValueError, match=TOO_LONG):
        fill("[MASK] " + LONG.removeprefix("the "))


def test_fill_mask_truncates_on_request(fill):
    assert len(fill("[MASK] " + LONG, tokenizer_kwargs={"truncation": True})) == 5


def test_text_classification_answers_with_the_names_of_the_classes(classify):
    answers = classify("the cat sat.", top_k=None)
    assert {answer["label"] for answer in answers} == {"bad", "so-so", "good"}
    assert sum(answer["score"] for answer in answers) == pytest.approx(1)
    assert classify("the cat sat.") == [answers[0]]


def test_text_classification_takes_a_pair(classify, tokenizer):
    answers = classify({"text": "the cat sat.", "text_pair": "it ran."}, top_k=None)
    with torch.no_grad():
        logits = classify.model(**tokenizer("the cat sat.", "it ran.", return_tensors="pt")).logits
    expected = {classify.model.config.id2label[i]: score for i, score in enumerate(logits.softmax(-1)[0].tolist())}
    assert {answer["label"]: answer["score"] for answer in answers} == pytest.approx(expected)


def test_text_classification_says_how_long_a_text_may_be_and_truncates_on_request(classify):
    with pytest.raises(ValueError, match=TOO_LONG):
        classify(LONG)
    assert classify(LONG, truncation=True)[0]["label"] in ("bad", "so-so", "good")


def test_text_classification_takes_an_empty_text(classify):
    assert 0 < classify("")[0]["score"] < 1


def test_text_classification_treats_an_empty_list_as_it_does_with_the_librarys_bert(classify, tokenizer):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    bert = BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), **sizes))
    librarys = pipeline("text-classification", model=bert, tokenizer=tokenizer, device="cpu")

    def outcome(pipe):
        try:
            return pipe([])
        except Exception as error:
            return type(error)

    assert outcome(classify) == outcome(librarys)


def test_feature_extraction_gives_the_last_hidden_states(extract, folder, tokenizer):
    model = AutoModel.from_pretrained(folder, trust_remote_code=True)
    with torch.no_grad():
        expected = model(**tokenizer("the cat sat.", return_tensors="pt")).last_hidden_state
    torch.testing.assert_close(torch.tensor(extract("the cat sat.")), expected)


def test_a_mean_embedding_is_the_same_alone_and_in_a_padded_batch(folder, tokenizer):
    model = AutoModel.from_pretrained(folder, trust_remote_code=True)

    def embed(texts):
        batch = tokenizer(texts, padding=True, return_tensors="pt")
        with torch.no_grad():
            states = model(**batch).last_hidden_state
        mask = batch["attention_mask"][..., None]
        return (states * mask).sum(1) / mask.sum(1)

    texts = ["the cat sat.", "the old dog ran to the tree and sat in the leaves.", "it"]
    torch.testing.assert_close(embed(texts), torch.cat([embed([text]) for text in texts]), rtol=0, atol=1e-5)


def test_next_sentence_classes_have_names_and_1_is_the_next(folder):
    model = AutoModelForNextSentencePrediction.from_pretrained(folder, trust_remote_code=True)
    assert model.config.id2label == {0: "NotNext", 1: "IsNext"}
    assert model.config.label2id == {"NotNext": 0, "IsNext": 1}


def test_next_sentence_names_survive_saving(folder, tmp_path):
    AutoModelForNextSentencePrediction.from_pretrained(folder, trust_remote_code=True).save_pretrained(tmp_path)
    model = AutoModelForNextSentencePrediction.from_pretrained(tmp_path, trust_remote_code=True)
    assert model.config.id2label == {0: "NotNext", 1: "IsNext"}


def test_the_next_sentence_names_are_no_other_heads():
    config = ToyBertConfig(**SMALL)
    assert ToyBertForNextSentencePrediction(config).config.id2label == {0: "NotNext", 1: "IsNext"}
    assert config.id2label == {0: "LABEL_0", 1: "LABEL_1"}
    assert ToyBertForSequenceClassification(config).config.id2label == {0: "LABEL_0", 1: "LABEL_1"}


def test_a_next_sentence_model_answers_in_a_pipeline_with_its_names(folder, tokenizer):
    model = AutoModelForNextSentencePrediction.from_pretrained(folder, trust_remote_code=True)
    pipe = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    answers = pipe({"text": "the cat sat.", "text_pair": "it ran."}, top_k=None)
    assert {answer["label"] for answer in answers} == {"IsNext", "NotNext"}
