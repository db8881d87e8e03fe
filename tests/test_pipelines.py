"""Claims about pipelines: a folder and a task's name are enough, and what goes wrong is said clearly."""

import pytest
import torch
from helpers import SMALL, make_checkpoint
from transformers import (
    AutoModel,
    AutoModelForNextSentencePrediction,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    pipeline,
)
from transformers.models.bert import BertTokenizerFast
from transformers.pipelines import PIPELINE_REGISTRY, PipelineException

from toybert.configuration_toybert import ToyBertConfig
from toybert.modeling_toybert import ToyBertForNextSentencePrediction, ToyBertForSequenceClassification
from toybert.tokenization_toybert import SPECIAL_TOKENS, ToyBertTokenizer
from toybert.train.hub.stock import save_stock_tokenizer

LONG = "the cat sat . " * 50  # 200 words and 2 special tokens, where the model takes 64
TOO_LONG = "202 tokens .* 64"


STORY = "The old dog sat on the bed, and Anna ran."
TAGS = ("O", "B-WHO", "I-WHO")
STORYS_TAGS = [0, 1, 2, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]  # [CLS] the old dog sat on the bed , and anna ran . [SEP]
QUESTION = "Who sat?"
ANSWERS_ENDS = {"start_positions": [5], "end_positions": [7]}  # [CLS] who sat [UNK] [SEP] the old dog ...
needs_question_answering = pytest.mark.skipif(
    "question-answering" not in PIPELINE_REGISTRY.get_supported_tasks(),
    reason="this version of transformers has no such pipeline",
)


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
    """Saves a classifier with three named classes."""
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


def teach(model, inputs, **labels):
    """Trains the model until it has one example by heart."""
    labels = {name: torch.tensor(label) for name, label in labels.items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(40):
        optimizer.zero_grad()
        model(**inputs, **labels).loss.backward()
        optimizer.step()


@pytest.fixture(scope="module")
def tag(folder, tokenizer, tmp_path_factory):
    """Returns a pipeline that finds who does something in the story."""
    torch.manual_seed(0)
    names = {"id2label": dict(enumerate(TAGS)), "label2id": {name: index for index, name in enumerate(TAGS)}}
    model = AutoModelForTokenClassification.from_pretrained(folder, trust_remote_code=True, **names)
    teach(model, tokenizer(STORY, return_tensors="pt"), labels=[STORYS_TAGS])
    saved = tmp_path_factory.mktemp("tagger")
    model.save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    return open_pipeline("token-classification", saved)


@pytest.fixture(scope="module")
def answerer(folder, tokenizer, tmp_path_factory):
    """Saves a model that knows who sat in the story."""
    torch.manual_seed(0)
    model = AutoModelForQuestionAnswering.from_pretrained(folder, trust_remote_code=True)
    teach(model, tokenizer(QUESTION, STORY, return_tensors="pt"), **ANSWERS_ENDS)
    saved = tmp_path_factory.mktemp("answerer")
    model.save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    return saved


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


def test_fill_mask_answers_each_of_two_masks(fill, tokenizer):
    text = "The [MASK] sat on the [MASK]."
    with torch.no_grad():
        logits = fill.model(**tokenizer(text, return_tensors="pt")).logits
    expected = logits[0, [2, 6]].topk(2).indices.tolist()
    assert [[answer["token"] for answer in answers] for answers in fill(text, top_k=2)] == expected


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
    text = "[MASK] " + LONG
    assert fill(text, tokenizer_kwargs={"truncation": True}) == fill(" ".join(text.split()[:62]))


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
    assert classify(LONG, truncation=True) == classify(" ".join(LONG.split()[:62]))


def test_text_classification_takes_an_empty_text(classify, tokenizer):
    with torch.no_grad():
        scores = classify.model(**tokenizer("", return_tensors="pt")).logits.softmax(-1)[0]
    assert classify("")[0]["score"] == pytest.approx(scores.max().item())


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


def test_token_classification_gives_names_as_they_stand_in_the_text(tag):
    answers = tag(STORY, aggregation_strategy="simple")
    found = [(answer["entity_group"], answer["word"], STORY[answer["start"] : answer["end"]]) for answer in answers]
    assert found == [("WHO", "the old dog", "The old dog"), ("WHO", "anna", "Anna")]
    assert min(answer["score"] for answer in answers) > 0.9


@pytest.mark.parametrize("strategy", ["none", "simple", "first", "average", "max"])
def test_words_beside_punctuation_are_found_as_with_berts_tokenizer(strategy, tmp_path):
    text = "Anna, Tom and Ben's dog (the old one) ran."
    words = dict.fromkeys(text.lower().translate({ord(mark): f" {mark} " for mark in ",'()."}).split())
    ours = ToyBertTokenizer({word: index for index, word in enumerate([*SPECIAL_TOKENS, *words])})
    save_stock_tokenizer(ours, tmp_path)
    names = {"id2label": {0: "O", 1: "B-WHO"}, "label2id": {"O": 0, "B-WHO": 1}}
    config = BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, **names)
    torch.manual_seed(0)
    model = BertForTokenClassification(config).eval()
    inputs = ours(text, return_tensors="pt")
    teach(model, inputs, labels=[[int(word in ("anna", "tom", "ben")) for word in inputs.tokens()]])
    found = []
    for tokenizer in (ours, BertTokenizerFast.from_pretrained(tmp_path)):
        answers = pipeline("token-classification", model, tokenizer=tokenizer, aggregation_strategy=strategy)(text)
        found.append([(answer["word"], answer["start"], answer["end"], float(answer["score"])) for answer in answers])
    assert found[0] == found[1]
    assert [word for word, *_ in found[0]] == ["anna", "tom", "ben"]


def test_token_classification_gives_each_token_the_models_own_class(tag, tokenizer):
    answers = tag(STORY, ignore_labels=[])
    with torch.no_grad():
        scores, classes = tag.model(**tokenizer(STORY, return_tensors="pt")).logits[0, 1:-1].softmax(-1).max(-1)
    assert [answer["entity"] for answer in answers] == [TAGS[index] for index in classes]
    torch.testing.assert_close(torch.tensor([answer["score"] for answer in answers]), scores)
    assert [STORY[answer["start"] : answer["end"]].lower() for answer in answers] == tokenizer.tokenize(STORY)


def test_token_classification_in_batches_gives_what_it_gives_one_by_one(tag):
    texts = ["Anna ran.", STORY, "the bed"]
    places = [[(answer["entity"], answer["start"]) for answer in tag(text, ignore_labels=[])] for text in texts]
    batched = tag(texts, batch_size=3, ignore_labels=[])
    assert [[(answer["entity"], answer["start"]) for answer in answers] for answers in batched] == places


def test_an_answer_is_the_text_from_its_start_to_its_end(answerer, tokenizer):
    model = AutoModelForQuestionAnswering.from_pretrained(answerer, trust_remote_code=True)
    inputs = tokenizer(QUESTION, STORY, return_tensors="pt", return_offsets_mapping=True)
    offsets = inputs.pop("offset_mapping")[0]
    with torch.no_grad():
        output = model(**inputs)
    start, end = output.start_logits.argmax(), output.end_logits.argmax()
    assert STORY[offsets[start][0] : offsets[end][1]] == "The old dog"


@needs_question_answering
def test_question_answering_finds_the_answer_and_its_place(answerer):
    answer = open_pipeline("question-answering", answerer)(question=QUESTION, context=STORY)
    assert answer["answer"] == STORY[answer["start"] : answer["end"]] == "The old dog"
    assert answer["score"] > 0.9


@needs_question_answering
def test_question_answering_reads_a_long_text_in_parts(answerer):
    pipe, parts = open_pipeline("question-answering", answerer), []
    pipe.model.register_forward_pre_hook(lambda *given: parts.extend(given[2]["input_ids"]), with_kwargs=True)
    answer = pipe(question=QUESTION, context=LONG)
    assert answer["answer"] == LONG[answer["start"] : answer["end"]] != ""
    assert max(map(len, parts)) <= 64
    assert sum(map(len, parts)) > 200  # the words of the text


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
    with torch.no_grad():
        scores = model(**tokenizer("the cat sat.", "it ran.", return_tensors="pt")).logits.softmax(-1)[0].tolist()
    expected = dict(zip(("NotNext", "IsNext"), scores, strict=True))
    assert {answer["label"]: answer["score"] for answer in answers} == pytest.approx(expected)
