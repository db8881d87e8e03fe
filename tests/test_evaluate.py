"""Claims about the evaluation: the figures are what they say, and so are their baselines."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from datasets import Dataset

from toybert.configuration_toybert import ToyBertConfig
from toybert.modeling_toybert import ToyBertForPreTraining, ToyBertForSequenceClassification
from toybert.tokenization_toybert import ToyBertTokenizer
from toybert.train.data.batches import evaluation_loader
from toybert.train.data.datasets import FinetuneDataset, PretrainDataset
from toybert.train.evaluate import format_results
from toybert.train.loop.loop import Progress
from toybert.train.measure import baselines, plots
from toybert.train.measure.baselines import (
    NeighbourCounts,
    masked_word_baselines,
    next_sentence_baselines,
    ordered_pairs,
    segments,
    text_baselines,
    word_pair_features,
)
from toybert.train.measure.classification import evaluate_classification
from toybert.train.measure.pretraining import content_words, evaluate_pretraining, fill_mask, related_documents

DOCUMENTS = [
    [f"the {thing} {i} was {word} ." for word in ("red", "old", "big")] for i in range(30) for thing in ("cat", "dog")
]


@pytest.fixture(scope="module")
def tokenizer() -> ToyBertTokenizer:
    return ToyBertTokenizer().train_new_from_iterator(iter(DOCUMENTS), vocab_size=100, show_progress=False)


@pytest.fixture(scope="module")
def dataset(tokenizer: ToyBertTokenizer) -> PretrainDataset:
    return PretrainDataset(DOCUMENTS, tokenizer)


@pytest.fixture
def model(tokenizer: ToyBertTokenizer) -> ToyBertForPreTraining:
    torch.manual_seed(0)
    return ToyBertForPreTraining(ToyBertConfig(vocab_size=len(tokenizer), initializer_range=0.3))


@pytest.mark.parametrize("sparse", [False, True])
def test_figures_are_those_of_the_whole_set_at_once(
    model: ToyBertForPreTraining, dataset: PretrainDataset, tokenizer: ToyBertTokenizer, sparse: bool
) -> None:
    content = content_words(tokenizer)
    model.eval()
    with torch.no_grad():
        batch = dataset.__getitems__(range(len(dataset)))
        output = model(**batch)
    chosen = batch["labels"] != -100
    right = output.prediction_logits.argmax(-1) == batch["labels"]
    known = torch.from_numpy(content)[batch["labels"].clamp(min=0)] & chosen
    nsp = output.seq_relationship_logits.argmax(-1) == batch["next_sentence_label"]
    expected = {
        "mlm_loss": output.mlm_loss.item(),
        "mlm_accuracy": right[chosen].float().mean().item(),
        "nsp_loss": output.nsp_loss.item(),
        "nsp_accuracy": nsp.float().mean().item(),
        "content_accuracy": right[known].float().mean().item(),
    }
    model.config.sparse_prediction = sparse
    accelerator = Accelerator()
    loader = evaluation_loader(dataset, accelerator, batch_size=7)
    figures = evaluate_pretraining(model, loader, accelerator, content)
    assert figures == pytest.approx(expected, rel=1e-5)
    dataset.set_epoch(5)  # as training would
    assert evaluate_pretraining(model, loader, accelerator, content) == figures


def test_without_hiding_the_model_sees_every_word(model: ToyBertForPreTraining, dataset: PretrainDataset) -> None:
    dataset.set_epoch(0)
    accelerator = Accelerator()
    batch = dataset.__getitems__(range(len(dataset)))
    batch["input_ids"] = torch.where(batch["labels"] == -100, batch["input_ids"], batch["labels"])
    with torch.no_grad():
        output = model.eval()(**batch)
    figures = evaluate_pretraining(model, evaluation_loader(dataset, accelerator), accelerator, hide=False)
    assert figures["nsp_loss"] == pytest.approx(output.nsp_loss.item(), rel=1e-5)
    hidden = evaluate_pretraining(model, evaluation_loader(dataset, accelerator), accelerator)
    assert hidden["nsp_loss"] != pytest.approx(output.nsp_loss.item(), rel=1e-5)


def test_text_without_a_known_word_is_refused(tokenizer: ToyBertTokenizer, model: ToyBertForPreTraining) -> None:
    accelerator = Accelerator()
    unknown = PretrainDataset([["xx", "yy zz"], ["vv", "ww uu tt"]], tokenizer)
    with pytest.raises(ValueError, match=r"no word .* vocabulary"):
        evaluate_pretraining(model, evaluation_loader(unknown, accelerator), accelerator)


def test_some_rows_can_be_evaluated_alone(model: ToyBertForPreTraining, dataset: PretrainDataset) -> None:
    dataset.set_epoch(0)
    accelerator = Accelerator()
    rows = np.array([3, 4, 50])
    with torch.no_grad():
        output = model.eval()(**dataset.__getitems__(rows.tolist()))
    figures = evaluate_pretraining(model, evaluation_loader(dataset, accelerator, rows), accelerator)
    assert figures["mlm_loss"] == pytest.approx(output.mlm_loss.item(), rel=1e-5)


def test_rows_without_known_sentences_have_none(tokenizer: ToyBertTokenizer) -> None:
    training = PretrainDataset(DOCUMENTS[:40], tokenizer)
    held_out = PretrainDataset(DOCUMENTS[38:], tokenizer)  # two documents of training, and others
    rows = held_out.rows_without(training.sentences)
    known = {tuple(tokenizer(text, add_special_tokens=False).input_ids) for doc in DOCUMENTS[:40] for text in doc}
    batch = held_out.__getitems__(range(len(held_out)))
    ids = torch.where(batch["labels"] == -100, batch["input_ids"], batch["labels"])
    expected = []
    for row, (line, types) in enumerate(zip(ids.tolist(), batch["token_type_ids"].tolist(), strict=True)):
        end = line.index(3)
        b = [token for token, kind in zip(line, types, strict=True) if kind == 1][:-1]
        if tuple(line[1:end]) not in known and tuple(b) not in known:
            expected.append(row)
    assert rows.tolist() == expected
    assert 0 < len(rows) < len(held_out)


def test_classification_figures_are_those_of_the_whole_set_at_once(tokenizer: ToyBertTokenizer) -> None:
    torch.manual_seed(0)
    model = ToyBertForSequenceClassification(ToyBertConfig(vocab_size=len(tokenizer), initializer_range=0.3)).eval()
    texts = [text for document in DOCUMENTS for text in document]
    dataset = FinetuneDataset(texts, [i % 2 for i in range(len(texts))], tokenizer)
    with torch.no_grad():
        output = model(**dataset.__getitems__(range(len(dataset))))
    accelerator = Accelerator()
    figures = evaluate_classification(model, evaluation_loader(dataset, accelerator), accelerator)
    assert figures["loss"] == pytest.approx(output.loss.item(), rel=1e-5)
    assert figures["accuracy"] == pytest.approx((output.logits.argmax(-1) == dataset.labels).float().mean().item())


def test_content_words_leave_out_function_words_punctuation_and_special_tokens(tokenizer: ToyBertTokenizer) -> None:
    marked = {word for word, index in tokenizer.get_vocab().items() if content_words(tokenizer)[index]}
    assert {"cat", "dog", "red", "old", "big"} <= marked
    assert marked.isdisjoint({"the", "was", ".", "[MASK]", "[UNK]"})


def test_the_neighbour_baseline_knows_the_likeliest_word_between_two(
    dataset: PretrainDataset, tokenizer: ToyBertTokenizer
) -> None:
    dataset.set_epoch(0)
    counts = NeighbourCounts(dataset)
    the, was, seven, dot = tokenizer.convert_tokens_to_ids(["the", "was", "7", "."])
    assert tokenizer.convert_ids_to_tokens([int(counts.frequency.argmax())])[0] in ("the", "was", ".")
    words = tokenizer.convert_ids_to_tokens(counts.between(np.array([the, was]), np.array([seven, dot])).tolist())
    assert words[0] in ("cat", "dog")
    assert words[1] in ("red", "old", "big")


def test_masked_word_baselines_are_what_counting_gives(dataset: PretrainDataset, tokenizer: ToyBertTokenizer) -> None:
    dataset.set_epoch(0)
    figures = masked_word_baselines(dataset, dataset, content_words(tokenizer))
    labels = dataset.__getitems__(range(len(dataset)))["labels"]
    targets = labels[labels != -100]
    commonest = int(NeighbourCounts(dataset).frequency.argmax())
    assert figures["unigram_accuracy"] == pytest.approx((targets == commonest).float().mean())
    assert figures["unigram_accuracy"] < figures["bigram_accuracy"] <= 1
    assert figures["content_bigram_accuracy"] > figures["content_unigram_accuracy"]


def test_length_says_nothing_and_shared_words_say_what_they_should(
    dataset: PretrainDataset, tokenizer: ToyBertTokenizer
) -> None:
    """In these documents, and in them alone, sentences share a number."""
    dataset.set_epoch(0)
    figures = next_sentence_baselines(dataset, {"": dataset}, content_words(tokenizer))
    assert figures["length_only_accuracy"] == pytest.approx(0.5, abs=0.02)
    assert figures["word_overlap_accuracy"] > 0.9
    assert figures["word_pairs_accuracy"] > 0.9


def test_of_many_pairs_so_many_are_told_apart_by_features_evenly_spaced(
    dataset: PretrainDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset.set_epoch(0)
    every, _ = segments(dataset)
    monkeypatch.setattr(baselines, "MOST_PAIRS", 3)
    some, labels = segments(dataset)
    last = len(dataset) - 1
    assert labels.tolist() == [1, 0] * 3
    for pair, row in zip(some, [0, 1, 118, 119, last - 1, last], strict=True):
        for found, expected in zip(pair, every[row], strict=True):
            np.testing.assert_array_equal(found, expected)


def test_word_pairs_mark_each_word_of_a_beside_each_of_b() -> None:
    marked = word_pair_features([(np.array([1, 3, 3]), np.array([2])), (np.array([0]), np.array([3, 1]))], 4)
    assert sorted(zip(*(axis.tolist() for axis in marked.nonzero()), strict=True)) == [(0, 6), (0, 14), (1, 1), (1, 3)]


def test_related_documents_share_a_person_or_the_topic() -> None:
    rows = Dataset.from_dict({"script": ["rain", "rain", "sea"], "people": [["Anna"], ["Tom"], ["Anna", "Ben"]]})
    assert related_documents(rows).tolist() == [[True, True, True], [True, True, False], [True, False, True]]
    assert related_documents(Dataset.from_dict({"text": ["a"]})) is None


def test_text_baselines_see_words_and_bigrams() -> None:
    texts = [f"{'not ' * turned}{word} {i}" for i in range(40) for word in ("good", "bad") for turned in (0, 1)]
    labels = [int((word == "good") != turned) for i in range(40) for word in ("good", "bad") for turned in (0, 1)]
    figures = text_baselines((texts, labels), (texts, labels), (texts, labels))
    assert figures["majority_accuracy"] == 0.5
    assert figures["bag_of_words_accuracy"] < 0.8
    assert figures["bag_of_bigrams_accuracy"] == 1.0
    assert text_baselines((["a"], [1]), (["a"], [1]), (["a", "b"], [1, 0])) == {"majority_accuracy": 0.5}


def test_ordered_pairs_of_words_are_all_of_them_however_far_apart() -> None:
    assert ordered_pairs("Not good, no.")[:5] == ["not", "good", ",", "no", "."]
    assert {"not good", "not no", "good ."} <= set(ordered_pairs("Not good, no."))
    assert "no not" not in ordered_pairs("Not good, no.")


def test_sample_predictions_are_words_with_falling_probabilities(
    model: ToyBertForPreTraining, tokenizer: ToyBertTokenizer
) -> None:
    (sample,) = fill_mask(model, tokenizer, ["the [MASK] was red ."], top=4)
    words, probabilities = zip(*sample["words"], strict=True)
    assert set(words) <= tokenizer.get_vocab().keys()
    assert list(probabilities) == sorted(probabilities, reverse=True)
    assert "the [MASK] was red ." in format_results({"mlm": {"accuracy": 0.5}, "samples": [sample]})


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collects the figures that are saved from here on."""
    figures: list[Any] = []

    def keep(figure: Any, path: Path, save: Callable[[Any, Path], None] = plots.save) -> None:
        save(figure, path)
        figures.append(figure)

    monkeypatch.setattr(plots, "save", keep)
    return figures


@pytest.mark.parametrize(
    ("train", "pretraining", "finetuning"),  # the points of the curves in each panel
    [
        ([], [[], []], [[], []]),
        (
            [{"step": 1, "epoch": 1, "loss": 2.0, "mlm_loss": 1.0, "nsp_loss": 1.0}],
            [[1, 1], [1, 1], []],
            [[1, 1], []],
        ),
        (
            [{"step": s, "epoch": 1, "loss": 2.0, "mlm_loss": float("nan"), "nsp_loss": 1 / s} for s in (1, 2, 2, 1)],
            [[], [2, 1], []],
            [[2, 1], []],
        ),
    ],
)
def test_curves_are_drawn_of_any_history(
    train: list[dict[str, float]],
    pretraining: list[list[int]],
    finetuning: list[list[int]],
    drawn: list[Any],
    tmp_path: Path,
) -> None:
    progress = Progress(train=train, validation=train[:1])
    plots.plot_pretraining(progress, tmp_path)
    plots.plot_finetuning(progress, tmp_path)
    for figure, expected in zip(drawn, (pretraining, finetuning), strict=True):
        curves = [
            [line for line in axes.lines if line.get_label() in ("training", "validation")] for axes in figure.axes
        ]
        assert [[len(line.get_xdata()) for line in lines] for lines in curves] == expected
    assert {path.name for path in tmp_path.iterdir()} == {"pretraining.png", "finetuning.png"}


def test_held_out_losses_are_shown_whole_and_the_epoch_that_is_kept_is_marked(tmp_path: Path, drawn: list[Any]) -> None:
    figures = {"mlm_loss": 2.0, "mlm_accuracy": 0.1, "nsp_accuracy": 0.5, "loss": 1.0, "accuracy": 0.5}
    history = [{"step": s, "epoch": s, "nsp_loss": loss, **figures} for s, loss in ((1, 1.7), (2, float("nan")))]
    progress = Progress(train=[{**history[0], "nsp_loss": 9.0}], validation=history)
    plots.plot_pretraining(progress, tmp_path)
    plots.plot_finetuning(progress, tmp_path, kept=2)
    plots.plot_finetuning(progress, tmp_path)
    assert 1.7 < drawn[0].axes[1].get_ylim()[1] < 2
    marked = [[line.get_xdata()[0] for line in each.axes[1].lines if line.get_label() == "kept"] for each in drawn[1:]]
    assert marked == [[2], []]


def test_a_curve_has_each_step_once_in_order_and_leaves_out_what_is_no_number() -> None:
    _, axes = plots.plt.subplots()
    entries = [{"step": s, "loss": v} for s, v in ((3, 1.0), (1, 3.0), (2, float("nan")), (3, 0.5))]
    plots.loss_curve(axes, plots.points(entries, "loss"), [], "title")
    assert axes.lines[0].get_xydata().tolist() == [[1, 3.0], [3, 0.5]]
    assert (axes.get_xlabel(), axes.get_title()) == ("optimiser step", "title")
    assert "cross-entropy" in axes.get_ylabel()
    plots.plt.close("all")


def test_the_picture_of_attention_shows_each_heads_weights(
    model: ToyBertForPreTraining, tokenizer: ToyBertTokenizer, drawn: list[Any], tmp_path: Path
) -> None:
    pair = ("the cat was red .", "the dog was old .")
    plots.plot_attention(model.eval(), tokenizer, *pair, tmp_path / "attention.png")
    batch = tokenizer(*pair, return_tensors="pt")
    with torch.no_grad():
        attentions = model(**batch, output_attentions=True).attentions
    heads = [weights for layer in attentions for weights in layer[0]]
    for axes, weights in zip(drawn[0].axes, heads, strict=True):
        np.testing.assert_allclose(axes.images[0].get_array(), weights, rtol=1e-5)
        assert [label.get_text() for label in axes.get_yticklabels()] == batch.tokens()
    assert (tmp_path / "attention.png").is_file()


def test_the_picture_of_neighbours_shows_those_of_the_words_that_are_known(
    model: ToyBertForPreTraining, tokenizer: ToyBertTokenizer, drawn: list[Any], tmp_path: Path
) -> None:
    plots.plot_neighbours(model, tokenizer, ["cat", "absent", "red"], tmp_path / "neighbours.png")
    assert [axes.get_title() for axes in drawn[0].axes] == ["cat", "red"]
    embedding = model.get_input_embeddings().weight.detach()
    nearest = plots.nearest_words(embedding, tokenizer, ["cat", "red"], 6)
    for axes, neighbours in zip(drawn[0].axes, nearest, strict=True):
        labels = [label.get_text() for label in axes.get_yticklabels()]
        bars = [bar.get_width() for bar in axes.patches]
        assert list(zip(labels, bars, strict=True)) == neighbours[::-1]  # the nearest on top
    assert (tmp_path / "neighbours.png").is_file()


def test_the_nearest_words_are_those_of_the_largest_cosine(tokenizer: ToyBertTokenizer) -> None:
    embedding = torch.randn(len(tokenizer), 16, generator=torch.Generator().manual_seed(0))
    cat, dog = tokenizer.convert_tokens_to_ids(["cat", "dog"])
    embedding[dog] = embedding[cat] * 1.1
    ((nearest, *_),) = plots.nearest_words(embedding, tokenizer, ["cat"], 3)
    assert nearest[0] == "dog"
    assert nearest[1] > 0.9


def test_results_can_be_written_as_json(model: ToyBertForPreTraining, dataset: PretrainDataset) -> None:
    accelerator = Accelerator()
    figures = evaluate_pretraining(model, evaluation_loader(dataset, accelerator), accelerator)
    assert json.loads(json.dumps(figures)) == figures
