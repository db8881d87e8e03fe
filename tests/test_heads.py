"""Claims about the heads: what they learn from, how they are saved, loaded, tied and resized."""

from __future__ import annotations

import copy
import inspect
import json
import math
import typing
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import transformers
from helpers import ROOT
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import BertConfig, PreTrainedModel, Trainer, TrainingArguments

from toybert.configuration_toybert import ToyBertConfig
from toybert.modeling_toybert import (
    ToyBertForMaskedLM,
    ToyBertForMultipleChoice,
    ToyBertForNextSentencePrediction,
    ToyBertForPreTraining,
    ToyBertForQuestionAnswering,
    ToyBertForSequenceClassification,
    ToyBertForTokenClassification,
    ToyBertModel,
    cross_entropy,
)

WITH_MLM = [ToyBertForPreTraining, ToyBertForMaskedLM]
WITH_NSP = [ToyBertForPreTraining, ToyBertForNextSentencePrediction]
WITH_CLASSIFIER = [ToyBertForSequenceClassification, ToyBertForTokenClassification, ToyBertForMultipleChoice]
HEADS = [*WITH_MLM, ToyBertForNextSentencePrediction, *WITH_CLASSIFIER, ToyBertForQuestionAnswering]
CLASSES = [ToyBertModel, *HEADS]
OF_TASKS = [ToyBertForTokenClassification, ToyBertForQuestionAnswering, ToyBertForMultipleChoice]
each_class = pytest.mark.parametrize("cls", CLASSES)
each_head = pytest.mark.parametrize("cls", HEADS)
each_of_tasks = pytest.mark.parametrize("cls", OF_TASKS)
with_mlm = pytest.mark.parametrize("cls", WITH_MLM)

LIBRARY_IS_5_0 = transformers.__version__.startswith("5.0.")
MLM_HEAD = {f"mlm_head.{name}" for name in ("dense.weight", "dense.bias", "norm.weight", "norm.bias", "decoder.bias")}
NSP_HEAD = {"nsp_head.weight", "nsp_head.bias"}
CLASSIFIER = {"classifier.weight", "classifier.bias"}
QA_OUTPUTS = {"qa_outputs.weight", "qa_outputs.bias"}
POOLER = {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}


@pytest.fixture
def words(batch: dict[str, Tensor]) -> Tensor:
    """Returns labels for every third position of the batch, where that isn't padding."""
    return batch["input_ids"].where((torch.arange(12) % 3 == 1) & batch["attention_mask"].bool(), -100)


def labels_for(cls: type[PreTrainedModel], words: Tensor) -> dict[str, Tensor]:
    """Returns what each head learns from, under its forward's names."""
    classes = torch.tensor([1, 0, 1])
    if cls is ToyBertForPreTraining:
        return {"labels": words, "next_sentence_label": classes}
    if cls is ToyBertForQuestionAnswering:
        return {"start_positions": torch.tensor([1, 4, 2]), "end_positions": torch.tensor([11, 4, 3])}
    if cls is ToyBertForTokenClassification:
        return {"labels": torch.where(words == -100, -100, words % 2)}
    return {"labels": words if cls is ToyBertForMaskedLM else classes}


def inputs_for(cls: type[PreTrainedModel], batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the batch in the shape that the class takes: for multiple choice, each row beside the next one."""
    if cls is ToyBertForMultipleChoice:
        return {name: torch.stack([tensor, tensor.roll(-1, 0)], 1) for name, tensor in batch.items()}  # (3, 2, 12)
    return batch


def by_hand(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the mean of -log p(label) over all labels that aren't -100, one at a time."""
    rows = zip(logits.flatten(0, -2).double(), labels.flatten().tolist(), strict=True)
    losses = [-row.log_softmax(0)[label] for row, label in rows if label != -100]
    return (sum(losses) / len(losses)).float()


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def mlm_logits(output) -> Tensor:
    return output.prediction_logits if "prediction_logits" in output else output.logits


def load(cls: type[PreTrainedModel], folder: Path) -> tuple[PreTrainedModel, set[str], set[str]]:
    """Returns the model, the names that its file lacks and the names that it has no place for."""
    model, info = cls.from_pretrained(folder, output_loading_info=True)
    assert not info["mismatched_keys"]
    assert not info["error_msgs"]
    return model, set(info["missing_keys"]), set(info["unexpected_keys"])


def is_tied(model: PreTrainedModel) -> bool:
    one, other = model.mlm_head.decoder.weight, model.get_input_embeddings().weight
    return one is other and one.data_ptr() == other.data_ptr()


# Losses


@each_head
def test_every_parameter_gets_a_gradient(make: Callable, batch: dict[str, Tensor], words: Tensor, cls: type) -> None:
    model = make(cls).train()
    model(**inputs_for(cls, batch), **labels_for(cls, words)).loss.backward()
    # a bias on all that one softmax compares, be it keys, places or choices, shifts its scores alike: it is not seen
    unseen = {
        ToyBertForQuestionAnswering: ["bert.layers.1.feed_forward_norm.bias", "qa_outputs.bias"],
        ToyBertForMultipleChoice: ["classifier.bias"],
    }
    for name, gradient in gradients(model).items():
        if not name.endswith("attention.key.bias") and name not in unseen.get(cls, []):
            assert gradient.abs().max() > 1e-6, name


def test_the_initial_loss_is_that_of_a_guess() -> None:
    torch.manual_seed(0)
    config = ToyBertConfig()
    model = ToyBertForPreTraining(config).eval()
    ids = torch.randint(5, config.vocab_size, (32, 40))
    out = model(ids, labels=ids, next_sentence_label=torch.arange(32) % 2)
    torch.testing.assert_close(out.mlm_loss.item(), math.log(config.vocab_size), rtol=0.1, atol=0)  # a guess, not exact
    torch.testing.assert_close(out.nsp_loss.item(), math.log(2), rtol=0.1, atol=0)
    torch.testing.assert_close(out.loss.item(), math.log(config.vocab_size) + math.log(2), rtol=0.1, atol=0)


def test_one_batch_can_be_learnt_by_heart() -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "hidden_size": 64, "intermediate_size": 128}
    model = ToyBertForPreTraining(ToyBertConfig(**sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    ids = torch.randint(5, 60, (32, 12))
    chosen = torch.arange(12) % 6 == torch.arange(32)[:, None] % 6
    labels = {"labels": ids.where(chosen, -100), "next_sentence_label": torch.randint(2, (32,))}
    masked = ids.where(~chosen, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(150):
        optimizer.zero_grad()
        model(masked, **labels).loss.backward()
        optimizer.step()
    out = model(masked, **labels)
    assert out.mlm_loss < 0.1
    assert (out.seq_relationship_logits.argmax(1) == labels["next_sentence_label"]).all()


@with_mlm
def test_the_word_loss_is_the_mean_over_labelled_positions(
    make: Callable, batch: dict[str, Tensor], words: Tensor, cls: type
) -> None:
    out = make(cls)(**batch, labels=words)
    assert (words != -100).sum() < words.numel() / 2
    torch.testing.assert_close(out.loss, by_hand(mlm_logits(out), words))


def test_the_loss_of_half_precision_scores_is_summed_in_float32() -> None:
    scores, labels = torch.randn(20_000, 40, generator=torch.Generator().manual_seed(0)), torch.arange(20_000) % 40
    loss = cross_entropy(scores.half(), labels)  # the sum is some 84,000, and float16 ends at 65,504
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, F.cross_entropy(scores.half().float(), labels))


@with_mlm
def test_only_minus_100_means_no_label(make: Callable, batch: dict[str, Tensor], words: Tensor, cls: type) -> None:
    words[:, 2] = 0  # the id of [PAD] is a class like any other
    out = make(cls)(**batch, labels=words)
    torch.testing.assert_close(out.loss, by_hand(mlm_logits(out), words))


@pytest.mark.parametrize("cls", WITH_NSP)
@pytest.mark.parametrize("label", [0, 1])
def test_each_next_sentence_class_is_learnt_from(
    make: Callable, batch: dict[str, Tensor], cls: type, label: int
) -> None:
    model = make(cls)
    name = "next_sentence_label" if cls is ToyBertForPreTraining else "labels"
    labels = torch.full((3,), label)
    out = model(**batch, **{name: labels})
    logits = out["seq_relationship_logits" if cls is ToyBertForPreTraining else "logits"]
    torch.testing.assert_close(out.loss, by_hand(logits, labels))
    out.loss.backward()
    gradient = model.nsp_head.weight.grad
    assert gradient.abs().max() > 1e-3
    before = logits.softmax(1)[:, label]
    with torch.no_grad():
        model.nsp_head.weight -= 0.1 * gradient
        after = model(**batch)["seq_relationship_logits" if cls is ToyBertForPreTraining else "logits"].softmax(1)
    assert (after[:, label] > before).all()


def test_pretraining_adds_up_the_losses_whose_labels_are_given(
    make: Callable, batch: dict[str, Tensor], words: Tensor
) -> None:
    model = make(ToyBertForPreTraining)
    follows = torch.tensor([1, 0, 1])
    both = model(**batch, labels=words, next_sentence_label=follows)
    mlm = model(**batch, labels=words)
    nsp = model(**batch, next_sentence_label=follows)
    none = model(**batch)
    torch.testing.assert_close(both.loss, mlm.loss + nsp.loss)
    torch.testing.assert_close((both.mlm_loss, both.nsp_loss), (mlm.loss, nsp.loss))
    assert mlm.nsp_loss is None
    assert nsp.mlm_loss is None
    assert (none.loss, none.mlm_loss, none.nsp_loss) == (None, None, None)
    torch.testing.assert_close(nsp.loss, by_hand(nsp.seq_relationship_logits, follows))


def test_the_losses_apart_come_last(make: Callable, batch: dict[str, Tensor], words: Tensor) -> None:
    model = make(ToyBertForPreTraining)
    request = {"output_attentions": True, "output_hidden_states": True}
    out = model(**batch, **labels_for(ToyBertForPreTraining, words), **request)
    assert list(out) == [
        "loss",
        "prediction_logits",
        "seq_relationship_logits",
        "hidden_states",
        "attentions",
        "mlm_loss",
        "nsp_loss",
    ]


@with_mlm
@pytest.mark.parametrize("sparse", [False, True])
def test_a_batch_without_targets_costs_nothing(
    make: Callable, batch: dict[str, Tensor], cls: type, sparse: bool
) -> None:
    model = make(cls, sparse_prediction=sparse)
    loss = model(**batch, labels=torch.full((3, 12), -100)).loss
    assert loss.item() == 0
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert model.mlm_head.decoder.weight.grad.abs().max() == 0


@with_mlm
def test_sparse_prediction_gives_the_same_loss_and_gradients(
    make: Callable, batch: dict[str, Tensor], words: Tensor, cls: type
) -> None:
    models = [make(cls, sparse_prediction=sparse) for sparse in (False, True)]
    dense, sparse = (model(**batch, **labels_for(cls, words)) for model in models)
    chosen = words != -100
    assert mlm_logits(sparse).shape == (chosen.sum(), 40)
    torch.testing.assert_close(mlm_logits(sparse), mlm_logits(dense)[chosen])
    torch.testing.assert_close(sparse.loss, dense.loss)
    dense.loss.backward()
    sparse.loss.backward()
    torch.testing.assert_close(gradients(models[1]), gradients(models[0]))
    assert mlm_logits(models[1](**batch)).shape == (3, 12, 40)  # without labels, all positions


@pytest.mark.parametrize("cls", [ToyBertForMaskedLM, ToyBertForTokenClassification])
def test_num_items_in_batch_divides_the_loss(
    make: Callable, batch: dict[str, Tensor], words: Tensor, cls: type
) -> None:
    model = make(cls)
    batch |= labels_for(cls, words)
    total = (words != -100).sum()
    whole = model(**batch).loss
    parts = [
        model(**{name: tensor[rows] for name, tensor in batch.items()}, num_items_in_batch=total)
        for rows in (slice(0, 1), slice(1, 3))
    ]
    torch.testing.assert_close(parts[0].loss + parts[1].loss, whole)
    torch.testing.assert_close(model(**batch, num_items_in_batch=2 * int(total)).loss, whole / 2)


@pytest.mark.parametrize("cls", [ToyBertForMaskedLM, ToyBertForSequenceClassification])
def test_accumulating_in_trainer_gives_the_same_step(make: Callable, cls: type, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = []
    for row in range(8):
        ids = torch.randint(5, 40, (10,), generator=generator)
        words = ids.where(torch.arange(10) > row, -100)  # rows differ in their number of targets
        rows.append({"input_ids": ids, "labels": words if cls is ToyBertForMaskedLM else torch.tensor(row % 2)})
    logs = []
    for accumulation in (1, 4):
        trainer = Trainer(
            make(cls, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
            TrainingArguments(
                str(tmp_path),
                per_device_train_batch_size=8 // accumulation,
                gradient_accumulation_steps=accumulation,
                max_steps=1,
                logging_steps=1,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                use_cpu=True,
            ),
            train_dataset=rows,
        )
        trainer.train()
        logs.append({name: trainer.state.log_history[0][name] for name in ("loss", "grad_norm")})
    # Trainer rounds what it logs to four digits
    torch.testing.assert_close(logs[0], logs[1], rtol=1e-4, atol=1e-4)


@each_head
@pytest.mark.parametrize("labelled", [False, True])
def test_a_tuple_holds_what_the_output_holds(
    make: Callable, batch: dict[str, Tensor], words: Tensor, cls: type, labelled: bool
) -> None:
    model = make(cls)
    given = inputs_for(cls, batch) | (labels_for(cls, words) if labelled else {})
    out = model(**given, output_hidden_states=True, output_attentions=True)
    as_tuple = model(**given, output_hidden_states=True, output_attentions=True, return_dict=False)
    assert isinstance(as_tuple, tuple)
    torch.testing.assert_close(as_tuple, out.to_tuple())
    if labelled:
        assert as_tuple[0].dim() == 0
    logits = as_tuple[1 if labelled else 0]
    shapes = {ToyBertForTokenClassification: (3, 12, 2), ToyBertForQuestionAnswering: (3, 12)}
    assert logits.shape == ((3, 12, 40) if cls in WITH_MLM else shapes.get(cls, (3, 2)))


@each_head
def test_what_comes_out_is_what_comes_out_of_the_librarys_bert_in_its_order(
    make: Callable, batch: dict[str, Tensor], words: Tensor, cls: type
) -> None:
    request = {"output_hidden_states": True, "output_attentions": True}
    given = inputs_for(cls, batch) | labels_for(cls, words) | request
    sizes = {"vocab_size": 40, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    config = BertConfig(**sizes, num_attention_heads=4, attn_implementation="eager")
    theirs = getattr(transformers, cls.__name__.replace("ToyBert", "Bert"))(config)
    model = make(cls)
    out = model(**given)
    names = list(theirs(**given))
    assert list(out)[: len(names)] == names
    assert set(out) - set(names) == ({"mlm_loss", "nsp_loss"} if cls is ToyBertForPreTraining else set())

    def shapes(answer: tuple) -> list:
        return [shapes(part) if isinstance(part, tuple) else tuple(part.shape) for part in answer]

    ours, berts = (shapes(each(**given, return_dict=False)) for each in (model, theirs))
    assert ours[: len(berts)] == berts


# What forward's signature tells the libraries


@each_class
def test_forward_is_annotated_with_the_output_that_it_returns(
    make: Callable, batch: dict[str, Tensor], cls: type
) -> None:
    hint = typing.get_type_hints(cls.forward)["return"]
    assert typing.get_args(hint) == (type(make(cls)(**inputs_for(cls, batch))), tuple)
    assert inspect.signature(cls.forward).return_annotation == hint


@each_class
def test_forward_names_its_tensors_in_one_order(words: Tensor, cls: type) -> None:
    labels = [] if cls is ToyBertModel else list(labels_for(cls, words))
    names = list(inspect.signature(cls.forward).parameters)[1:]
    tensors = ["input_ids", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds", *labels]
    assert names[: len(tensors)] == tensors


@each_class
def test_an_unknown_argument_is_refused_by_its_name(make: Callable, batch: dict[str, Tensor], cls: type) -> None:
    with pytest.raises(TypeError, match="'no_such_thing'"):
        make(cls)(**inputs_for(cls, batch), no_such_thing=1)


@each_class
def test_only_a_head_that_divides_by_the_number_of_items_says_so(cls: type) -> None:
    assert cls.accepts_loss_kwargs is (cls in (ToyBertForMaskedLM, ToyBertForTokenClassification))
    assert not cls.accepts_loss_kwargs or "num_items_in_batch" in inspect.signature(cls.forward).parameters


@each_class
def test_shapes_can_be_computed_with_fake_tensors(
    make: Callable, batch: dict[str, Tensor], words: Tensor, cls: type
) -> None:
    model = make(cls)
    given = inputs_for(cls, batch) | ({} if cls is ToyBertModel else labels_for(cls, words))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:  # whose values nobody can look at
        out = model(**{name: mode.from_tensor(tensor) for name, tensor in given.items()})
    assert [tensor.shape for tensor in out.to_tuple()] == [tensor.shape for tensor in model(**given).to_tuple()]


# The classification head


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float64])
@pytest.mark.parametrize("stated", [None, "regression"])
@pytest.mark.parametrize("column", [False, True])
def test_one_class_is_regression(
    make: Callable, batch: dict[str, Tensor], dtype: torch.dtype, stated: str | None, column: bool
) -> None:
    model = make(ToyBertForSequenceClassification, num_labels=1, problem_type=stated)
    labels = torch.tensor([3, -1, 0], dtype=dtype)
    out = model(**batch, labels=labels[:, None] if column else labels)
    expected = sum((out.logits[row, 0] - labels[row].item()) ** 2 for row in range(3)) / 3
    torch.testing.assert_close(out.loss, expected)
    assert out.loss.dtype == torch.float32
    assert model.config.problem_type == "regression"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_several_numbers_can_be_regressed_on(make: Callable, batch: dict[str, Tensor], dtype: torch.dtype) -> None:
    model = make(ToyBertForSequenceClassification, num_labels=2, problem_type="regression")
    labels = torch.tensor([[3, -1], [0, 0.5], [2, 2]], dtype=dtype)
    out = model(**batch, labels=labels)
    torch.testing.assert_close(out.loss, ((out.logits - labels.float()) ** 2).sum() / 6)


@pytest.mark.parametrize("stated", [None, "single_label_classification"])
@pytest.mark.parametrize("num_labels", [2, 3])
def test_class_numbers_are_single_label_classification(
    make: Callable, batch: dict[str, Tensor], stated: str | None, num_labels: int
) -> None:
    model = make(ToyBertForSequenceClassification, num_labels=num_labels, problem_type=stated)
    labels = torch.tensor([num_labels - 1, 0, 1])
    out = model(**batch, labels=labels)
    assert out.logits.shape == (3, num_labels)
    torch.testing.assert_close(out.loss, by_hand(out.logits, labels))
    assert model.config.problem_type == "single_label_classification"


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float64])
@pytest.mark.parametrize("stated", [None, "multi_label_classification"])
def test_rows_of_zeros_and_ones_are_multi_label_classification(
    make: Callable, batch: dict[str, Tensor], dtype: torch.dtype, stated: str | None
) -> None:
    model = make(ToyBertForSequenceClassification, num_labels=3, problem_type=stated)
    labels = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1]], dtype=dtype)
    out = model(**batch, labels=labels)
    p = out.logits.sigmoid()
    torch.testing.assert_close(out.loss, -(labels.float() * p.log() + (1 - labels.float()) * (1 - p).log()).mean())
    assert model.config.problem_type == "multi_label_classification"


def test_the_kind_of_problem_is_saved(make: Callable, batch: dict[str, Tensor], tmp_path: Path) -> None:
    model = make(ToyBertForSequenceClassification, num_labels=1)
    assert model.config.problem_type is None
    model(**batch, labels=torch.tensor([1, 2, 3]))
    model.save_pretrained(tmp_path)
    again = ToyBertForSequenceClassification.from_pretrained(tmp_path)
    assert again.config.problem_type == "regression"
    assert again.config.num_labels == 1


@pytest.mark.parametrize("cls", WITH_CLASSIFIER)
def test_the_classifier_has_a_dropout_of_its_own(make: Callable, batch: dict[str, Tensor], cls: type) -> None:
    assert make(cls, hidden_dropout_prob=0.3).dropout.p == 0.3
    assert make(cls, hidden_dropout_prob=0.3, classifier_dropout=0.0).dropout.p == 0.0
    no_other = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    for dropout in (0.0, 0.5):
        model, given = make(cls, classifier_dropout=dropout, **no_other), inputs_for(cls, batch)
        assert torch.allclose(model(**given).logits, model.train()(**given).logits) == (dropout == 0)


def test_classification_reads_the_pooled_first_token(make: Callable, batch: dict[str, Tensor]) -> None:
    model = make(ToyBertForSequenceClassification, num_labels=3)
    pooled = model.bert(**batch).pooler_output
    torch.testing.assert_close(model(**batch).logits, pooled @ model.classifier.weight.T + model.classifier.bias)


def test_next_sentence_prediction_names_its_classes(make: Callable, tmp_path: Path) -> None:
    config = ToyBertConfig(num_labels=5)
    model = ToyBertForNextSentencePrediction(config)
    assert model.config.id2label == {0: "NotNext", 1: "IsNext"}
    assert config.num_labels == 5  # the caller's configuration stays as it was
    model.save_pretrained(tmp_path)
    again = ToyBertForNextSentencePrediction.from_pretrained(tmp_path)
    assert again.config.id2label == {0: "NotNext", 1: "IsNext"}
    assert again.config.label2id == {"NotNext": 0, "IsNext": 1}


# Tokens, answers and choices


def test_every_token_is_classified_by_its_own_state(make: Callable, batch: dict[str, Tensor]) -> None:
    model = make(ToyBertForTokenClassification, num_labels=3)
    states = model.bert(**batch).last_hidden_state
    torch.testing.assert_close(model(**batch).logits, states @ model.classifier.weight.T + model.classifier.bias)


def test_an_answer_has_two_ends_however_many_classes_there_are(make: Callable, batch: dict[str, Tensor]) -> None:
    model = make(ToyBertForQuestionAnswering, num_labels=5)
    states = model.bert(**batch).last_hidden_state
    (start, end), (start_bias, end_bias) = model.qa_outputs.weight, model.qa_outputs.bias
    torch.testing.assert_close(model(**batch).start_logits, states @ start + start_bias)
    torch.testing.assert_close(model(**batch).end_logits, states @ end + end_bias)


def test_a_choice_is_scored_by_its_pooled_first_token_and_by_itself(make: Callable, batch: dict[str, Tensor]) -> None:
    model = make(ToyBertForMultipleChoice)
    pooled = model.bert(**batch).pooler_output
    scores = pooled @ model.classifier.weight[0] + model.classifier.bias  # of the batch's three rows
    logits = model(**inputs_for(ToyBertForMultipleChoice, batch)).logits
    torch.testing.assert_close(logits, torch.stack([scores, scores.roll(-1)], 1))


def test_a_token_head_and_an_answer_head_have_no_pooler(make: Callable) -> None:
    for cls in (ToyBertForTokenClassification, ToyBertForQuestionAnswering):
        assert [name for name, _ in make(cls).named_parameters() if "pooler" in name] == []


@each_of_tasks
def test_embeddings_and_positions_may_be_given(make: Callable, batch: dict[str, Tensor], cls: type) -> None:
    model = make(cls)
    batch = inputs_for(cls, batch)
    expected = model(**batch).to_tuple()
    positions = torch.arange(12).expand_as(batch["input_ids"])
    batch["inputs_embeds"] = model.get_input_embeddings()(batch.pop("input_ids"))
    torch.testing.assert_close(model(**batch).to_tuple(), expected)
    torch.testing.assert_close(model(**batch, position_ids=positions).to_tuple(), expected)
    assert (model(**batch, position_ids=positions + 9)[0] - expected[0]).abs().max() > 1e-3


@each_of_tasks
def test_padding_changes_no_score(make: Callable, batch: dict[str, Tensor], cls: type) -> None:
    model = make(cls)
    for row, length in enumerate(batch["attention_mask"].sum(1)):
        alone = {name: tensor[row : row + 1, :length] for name, tensor in batch.items()}
        if cls is ToyBertForMultipleChoice:
            padded = model(**{name: tensor[None] for name, tensor in batch.items()}).logits[0, row]
            found = model(**{name: tensor[None] for name, tensor in alone.items()}).logits[0, 0]
        else:
            padded = [scores[row, :length] for scores in model(**batch).to_tuple()]
            found = [scores[0] for scores in model(**alone).to_tuple()]
        torch.testing.assert_close(found, padded)


def test_the_token_loss_is_the_mean_over_labelled_tokens(
    make: Callable, batch: dict[str, Tensor], words: Tensor
) -> None:
    labels = torch.where(words == -100, -100, words % 3)
    assert set(labels.flatten().tolist()) == {-100, 0, 1, 2}
    out = make(ToyBertForTokenClassification, num_labels=3)(**batch, labels=labels)
    torch.testing.assert_close(out.loss, by_hand(out.logits, labels))


@pytest.mark.parametrize("column", [False, True])
def test_the_loss_of_an_answer_is_the_mean_of_its_two_ends(
    make: Callable, batch: dict[str, Tensor], column: bool
) -> None:
    start, end = torch.tensor([1, 0, 2]), torch.tensor([11, 8, 3])
    model = make(ToyBertForQuestionAnswering)
    given = (start[:, None], end[:, None]) if column else (start, end)
    out = model(**batch, start_positions=given[0], end_positions=given[1])
    torch.testing.assert_close(out.loss, (by_hand(out.start_logits, start) + by_hand(out.end_logits, end)) / 2)
    assert model(**batch, start_positions=start).loss is None


@pytest.mark.parametrize("outside", [12, 50, -1, -100])
def test_an_end_outside_the_input_is_left_out(make: Callable, batch: dict[str, Tensor], outside: int) -> None:
    start, end = torch.tensor([outside, 0, 2]), torch.tensor([4, outside, outside])
    out = make(ToyBertForQuestionAnswering)(**batch, start_positions=start, end_positions=end)
    expected = (by_hand(out.start_logits[1:], start[1:]) + by_hand(out.end_logits[:1], end[:1])) / 2
    torch.testing.assert_close(out.loss, expected)
    assert (start.tolist(), end.tolist()) == ([outside, 0, 2], [4, outside, outside])  # the caller's stay as they were


def test_the_loss_of_a_choice_is_over_the_choices(make: Callable, batch: dict[str, Tensor]) -> None:
    labels = torch.tensor([2, 0])
    choices = {name: torch.stack([tensor, tensor.roll(1, 0)]) for name, tensor in batch.items()}  # (2, 3, 12)
    out = make(ToyBertForMultipleChoice)(**choices, labels=labels)
    assert out.logits.shape == (2, 3)
    torch.testing.assert_close(out.loss, by_hand(out.logits, labels))


@each_of_tasks
def test_a_batch_with_nothing_to_tell_costs_nothing(
    make: Callable, batch: dict[str, Tensor], words: Tensor, cls: type
) -> None:
    model = make(cls)
    nothing = {name: torch.full_like(labels, -100) for name, labels in labels_for(cls, words).items()}
    loss = model(**inputs_for(cls, batch), **nothing).loss
    assert loss.item() == 0
    loss.backward()
    assert all((gradient == 0).all() for gradient in gradients(model).values())


def tokens_to_learn(generator: torch.Generator) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Asks of each token whether it stood in its row before."""
    ids = torch.randint(5, 12, (16, 10), generator=generator)
    earlier = (ids[:, :, None] == ids[:, None, :]).tril(-1).any(-1)
    return {"input_ids": ids}, {"labels": earlier.long()}


def answers_to_learn(generator: torch.Generator) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Asks where in B the word of A stands; the answer is that word and the next one."""
    b = torch.stack([torch.randperm(100, generator=generator)[:8] + 5 for _ in range(16)])
    place = torch.arange(16) % 7
    a, cls, sep = b.gather(1, place[:, None]), torch.full((16, 1), 2), torch.full((16, 1), 3)
    ids = torch.cat([cls, a, sep, b, sep], 1)
    segments = (torch.arange(12) > 2).long().expand_as(ids)
    given = {"input_ids": ids, "token_type_ids": segments}
    return given, {"start_positions": place + 3, "end_positions": place + 4}


def choices_to_learn(generator: torch.Generator) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Asks which of three choices has the word of A."""
    b = torch.stack([torch.randperm(100, generator=generator)[:9] + 5 for _ in range(16)]).view(16, 3, 3)
    right = torch.arange(16) % 3
    a = b[torch.arange(16), right, right][:, None, None].expand(16, 3, 1)
    cls, sep = torch.full((16, 3, 1), 2), torch.full((16, 3, 1), 3)
    ids = torch.cat([cls, a, sep, b, sep], 2)
    segments = (torch.arange(7) > 2).long().expand_as(ids)
    return {"input_ids": ids, "token_type_ids": segments}, {"labels": right}


@pytest.mark.parametrize(
    ("cls", "task"),
    [
        (ToyBertForTokenClassification, tokens_to_learn),
        (ToyBertForQuestionAnswering, answers_to_learn),
        (ToyBertForMultipleChoice, choices_to_learn),
    ],
)
def test_the_shipped_model_learns_a_small_task_by_heart(cls: type, task: Callable) -> None:
    given, labels = task(torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    model = cls.from_pretrained(ROOT).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(40):
        optimizer.zero_grad()
        model(**given, **labels).loss.backward()
        optimizer.step()
    loss, *logits = model.eval()(**given, **labels).to_tuple()
    assert loss < 0.05
    for scores, expected in zip(logits, labels.values(), strict=True):
        assert torch.equal(scores.argmax(-1), expected)


# Labels of other types, and labels that can't be


@each_head
@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool])
@pytest.mark.parametrize("sparse", [False, True])
def test_labels_may_be_integers_of_any_type(
    make: Callable, batch: dict[str, Tensor], words: Tensor, cls: type, dtype: torch.dtype, sparse: bool
) -> None:
    if dtype in (torch.uint8, torch.bool):  # which have no -100
        words = words.clamp(min=0)
    labels = {name: tensor.to(dtype) for name, tensor in labels_for(cls, words).items()}
    model, batch = make(cls, sparse_prediction=sparse), inputs_for(cls, batch)
    expected = model(**batch, **{name: tensor.long() for name, tensor in labels.items()})
    assert expected.loss > 0
    torch.testing.assert_close(model(**batch, **labels).to_tuple(), expected.to_tuple(), rtol=0, atol=0)


@with_mlm
@pytest.mark.parametrize("sparse", [False, True])
def test_a_byte_of_156_is_a_class_and_not_minus_100(
    make: Callable, batch: dict[str, Tensor], cls: type, sparse: bool
) -> None:
    labels = torch.full((3, 12), 156)
    model = make(cls, vocab_size=200, sparse_prediction=sparse)
    torch.testing.assert_close(model(**batch, labels=labels.byte()).loss, model(**batch, labels=labels).loss)


@each_head
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("sparse", [False, True])
def test_fractions_are_refused_as_class_numbers(
    make: Callable, batch: dict[str, Tensor], words: Tensor, cls: type, dtype: torch.dtype, sparse: bool
) -> None:
    labels = {name: tensor.to(dtype) for name, tensor in labels_for(cls, words).items()}
    with pytest.raises(ValueError, match=f"labels are {dtype}"):
        make(cls, sparse_prediction=sparse)(**inputs_for(cls, batch), **labels)


def test_a_token_label_outside_the_models_classes_is_refused(
    make: Callable, batch: dict[str, Tensor], words: Tensor
) -> None:
    labels = torch.where(words == -100, -100, 1)
    labels[0, 1:3] = torch.tensor([0, 3])
    with pytest.raises(ValueError, match=r"labels .* 0 to 3, .* 0 to 2"):
        make(ToyBertForTokenClassification, num_labels=3)(**batch, labels=labels)


def test_a_choice_that_was_not_given_is_refused(make: Callable, batch: dict[str, Tensor]) -> None:
    choices = inputs_for(ToyBertForMultipleChoice, batch)
    with pytest.raises(ValueError, match=r"labels .* 0 to 2, .* 0 to 1"):
        make(ToyBertForMultipleChoice)(**choices, labels=torch.tensor([0, 2, 1]))


def test_an_input_without_choices_is_refused_with_its_shape(make: Callable, batch: dict[str, Tensor]) -> None:
    model = make(ToyBertForMultipleChoice)
    with pytest.raises(ValueError, match=r"\(B, C, S\), .*\(3, 12\)"):
        model(**batch)
    embeds = model.get_input_embeddings()(batch.pop("input_ids"))
    with pytest.raises(ValueError, match=r"\(B, C, S\), .*\(3, 12, 32\)"):
        model(inputs_embeds=embeds)
    with pytest.raises(ValueError, match="input_ids or inputs_embeds"):
        model(attention_mask=batch["attention_mask"][:, None])


@pytest.mark.parametrize(("bad", "low", "high"), [(3, 0, 3), (-1, -1, 2)])
def test_a_class_outside_the_models_is_refused(
    make: Callable, batch: dict[str, Tensor], bad: int, low: int, high: int
) -> None:
    model = make(ToyBertForSequenceClassification, num_labels=3)
    labels = torch.tensor([bad, 0, 2])
    with pytest.raises(ValueError, match=f"labels .* {low} to {high}, .* 0 to 2"):
        model(**batch, labels=labels)


@pytest.mark.parametrize("problem", ["regression", "multi_label_classification"])
def test_labels_of_another_shape_are_refused(make: Callable, batch: dict[str, Tensor], problem: str) -> None:
    model = make(ToyBertForSequenceClassification, num_labels=3, problem_type=problem)
    with pytest.raises(ValueError, match=r"labels .*\(3,\), .*\(3, 3\)"):
        model(**batch, labels=torch.tensor([0, 1, 1]))


@pytest.mark.parametrize("cls", WITH_NSP)
@pytest.mark.parametrize("bad", [2, -1])
def test_a_next_sentence_label_that_is_neither_0_nor_1_is_refused(
    make: Callable, batch: dict[str, Tensor], cls: type, bad: int
) -> None:
    name = "next_sentence_label" if cls is ToyBertForPreTraining else "labels"
    with pytest.raises(ValueError, match=f"labels .*{bad}.* 0 to 1"):
        make(cls)(**batch, **{name: torch.tensor([0, 1, bad])})


@with_mlm
@pytest.mark.parametrize("bad", [40, -1])
def test_a_word_label_outside_the_vocabulary_is_refused(
    make: Callable, batch: dict[str, Tensor], words: Tensor, cls: type, bad: int
) -> None:
    words[0, 3] = bad
    with pytest.raises(ValueError, match=f"labels .*{bad}.* 0 to 39"):
        make(cls)(**batch, labels=words)


# Saving and loading


@each_class
def test_what_is_loaded_is_what_was_saved_bit_for_bit(
    make: Callable, batch: dict[str, Tensor], cls: type, tmp_path: Path
) -> None:
    model = make(cls)
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):  # a pattern that no initialisation draws
            parameter.copy_(1000 * number + torch.arange(parameter.numel()).view_as(parameter) / 7)
    model.save_pretrained(tmp_path)
    again, missing, unexpected = load(cls, tmp_path)
    assert (missing, unexpected) == (set(), set())
    torch.testing.assert_close(again.state_dict(), model.state_dict(), rtol=0, atol=0)


@each_class
def test_a_loaded_model_computes_the_same(make: Callable, batch: dict[str, Tensor], cls: type, tmp_path: Path) -> None:
    model = make(cls)
    model.save_pretrained(tmp_path)
    again = cls.from_pretrained(tmp_path)
    batch = inputs_for(cls, batch)
    torch.testing.assert_close(again(**batch).to_tuple(), model(**batch).to_tuple(), rtol=0, atol=0)


@each_class
@pytest.mark.parametrize("kind", ["weight", "bias"])
def test_only_what_the_file_lacks_is_drawn_anew(make: Callable, cls: type, kind: str, tmp_path: Path) -> None:
    model = make(cls)
    model.save_pretrained(tmp_path)
    lost = ("" if cls is ToyBertModel else "bert.") + f"layers.0.attention.query.{kind}"
    state = load_file(tmp_path / "model.safetensors")
    del state[lost]
    save_file(state, tmp_path / "model.safetensors", {"format": "pt"})
    torch.manual_seed(1)
    again, missing, unexpected = load(cls, tmp_path)
    assert (missing, unexpected) == ({lost}, set())
    before, after = model.state_dict(), again.state_dict()
    drawn = after.pop(lost)
    std = 0.02 if kind == "weight" else 0
    assert abs(drawn.std() - std) <= 5 * std / math.sqrt(2 * drawn.numel())
    del before[lost]
    torch.testing.assert_close(after, before, rtol=0, atol=0)


@each_class
def test_a_fresh_model_trains_and_a_loaded_one_does_not(cls: type, tmp_path: Path) -> None:
    model = cls(ToyBertConfig(vocab_size=40))
    assert model.training
    model.save_pretrained(tmp_path)
    assert not any(module.training for module in cls.from_pretrained(tmp_path).modules())


@with_mlm
def test_the_decoder_is_the_token_embedding_and_stays_it(
    make: Callable, batch: dict[str, Tensor], words: Tensor, cls: type, tmp_path: Path
) -> None:
    model = make(cls)
    assert is_tied(model)
    assert is_tied(copy.deepcopy(model))
    assert is_tied(copy.deepcopy(model).to(torch.bfloat16))
    model.save_pretrained(tmp_path)
    assert is_tied(cls.from_pretrained(tmp_path))
    assert is_tied(cls.from_pretrained(tmp_path, dtype=torch.bfloat16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.mlm_head.decoder.weight.detach().clone()
    model(**batch, labels=words).loss.backward()
    optimizer.step()
    assert is_tied(model)
    assert (model.mlm_head.decoder.weight - before).abs().max() > 1e-4
    names = [name for name, _ in model.named_parameters()]
    assert "mlm_head.decoder.weight" not in names  # counted once
    assert "mlm_head.decoder.bias" in names


@with_mlm
def test_the_decoder_is_tied_in_code_that_came_from_the_hub(
    make: Callable, cls: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(cls).save_pretrained(tmp_path)
    monkeypatch.setattr(cls, "_auto_class", "AutoModel")  # by which the library tells such code, and loads it apart
    again, missing, unexpected = load(cls, tmp_path)
    assert (missing, unexpected) == (set(), set())
    assert is_tied(again)
    assert again.mlm_head.decoder.weight.device.type == "cpu"


@with_mlm
def test_an_untied_decoder_is_one_of_its_own_and_saved(make: Callable, cls: type, tmp_path: Path) -> None:
    model = make(cls, tie_word_embeddings=False)
    assert not is_tied(model)
    assert not torch.equal(model.mlm_head.decoder.weight, model.get_input_embeddings().weight)
    model.save_pretrained(tmp_path)
    again, missing, unexpected = load(cls, tmp_path)
    assert (missing, unexpected) == (set(), set())
    assert not is_tied(again)
    torch.testing.assert_close(again.state_dict(), model.state_dict(), rtol=0, atol=0)


@each_class
def test_the_file_holds_each_parameter_once(make: Callable, cls: type, tmp_path: Path) -> None:
    model = make(cls)
    model.save_pretrained(tmp_path)
    names = set(load_file(tmp_path / "model.safetensors"))
    assert names == {name for name, _ in model.named_parameters()}
    header = 10_000  # names and shapes of 40 tensors
    size = (tmp_path / "model.safetensors").stat().st_size
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert 4 * parameters < size < 4 * parameters + header


@pytest.mark.skipif(LIBRARY_IS_5_0, reason="transformers 5.0 writes both copies, and does not tie what it finds twice")
@with_mlm
def test_a_state_dict_of_clones_is_saved_and_loaded_tied(make: Callable, cls: type, tmp_path: Path) -> None:
    model = make(cls)
    model.save_pretrained(tmp_path, state_dict={name: tensor.clone() for name, tensor in model.state_dict().items()})
    again = cls.from_pretrained(tmp_path)
    assert is_tied(again)
    torch.testing.assert_close(again.state_dict(), model.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("source", "target", "lacks"),
    [
        (ToyBertModel, ToyBertForMaskedLM, MLM_HEAD),
        (ToyBertModel, ToyBertForPreTraining, MLM_HEAD | NSP_HEAD),
        (ToyBertModel, ToyBertForNextSentencePrediction, NSP_HEAD),
        (ToyBertModel, ToyBertForSequenceClassification, CLASSIFIER),
        (ToyBertModel, ToyBertForTokenClassification, CLASSIFIER),
        (ToyBertModel, ToyBertForQuestionAnswering, QA_OUTPUTS),
        (ToyBertModel, ToyBertForMultipleChoice, CLASSIFIER),
        (ToyBertForPreTraining, ToyBertModel, set()),
        (ToyBertForPreTraining, ToyBertForMaskedLM, set()),
        (ToyBertForPreTraining, ToyBertForNextSentencePrediction, set()),
        (ToyBertForPreTraining, ToyBertForSequenceClassification, CLASSIFIER),
        (ToyBertForPreTraining, ToyBertForTokenClassification, CLASSIFIER),
        (ToyBertForPreTraining, ToyBertForQuestionAnswering, QA_OUTPUTS),
        (ToyBertForPreTraining, ToyBertForMultipleChoice, CLASSIFIER),
        (ToyBertForMaskedLM, ToyBertModel, {"pooler.dense.weight", "pooler.dense.bias"}),
        (ToyBertForMaskedLM, ToyBertForPreTraining, POOLER | NSP_HEAD),
        (ToyBertForMaskedLM, ToyBertForNextSentencePrediction, POOLER | NSP_HEAD),
        (ToyBertForMaskedLM, ToyBertForSequenceClassification, POOLER | CLASSIFIER),
        (ToyBertForMaskedLM, ToyBertForTokenClassification, CLASSIFIER),
        (ToyBertForMaskedLM, ToyBertForQuestionAnswering, QA_OUTPUTS),
        (ToyBertForMaskedLM, ToyBertForMultipleChoice, POOLER | CLASSIFIER),
    ],
)
def test_any_head_finds_the_encoder_of_any_other(
    make: Callable,
    batch: dict[str, Tensor],
    tmp_path: Path,
    source: type[PreTrainedModel],
    target: type[PreTrainedModel],
    lacks: set[str],
) -> None:
    model = make(source)
    model.save_pretrained(tmp_path)
    again, missing, unexpected = load(target, tmp_path)
    assert missing == lacks
    assert unexpected == set()  # the heads that are left behind are known
    states = [encoder(**batch).last_hidden_state for encoder in (model.base_model, again.base_model)]
    torch.testing.assert_close(states[1], states[0], rtol=0, atol=0)
    if hasattr(again, "mlm_head"):
        assert is_tied(again)


@each_of_tasks
def test_only_the_head_is_new_in_the_shipped_model(cls: type) -> None:
    head = QA_OUTPUTS if cls is ToyBertForQuestionAnswering else CLASSIFIER
    torch.manual_seed(0)
    model, missing, unexpected = load(cls, ROOT)
    assert (missing, unexpected) == (head, set())
    shipped = load_file(ROOT / "model.safetensors")
    for name, tensor in model.state_dict().items():
        if name in head and name.endswith("bias"):
            assert (tensor == 0).all()
        elif name in head:
            assert abs(tensor.std() - 0.02) <= 5 * 0.02 / math.sqrt(2 * tensor.numel())
        else:
            torch.testing.assert_close(tensor, shipped[name], rtol=0, atol=0)


@each_class
def test_a_loaded_padding_row_is_left_alone(make: Callable, cls: type, tmp_path: Path) -> None:
    model = make(cls)
    expected = model.get_input_embeddings().weight[0].detach().clone()
    assert expected.abs().max() > 0.1
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(
        cls.from_pretrained(tmp_path).get_input_embeddings().weight[0].detach(), expected, rtol=0, atol=0
    )


@each_class
def test_weight_decay_spares_biases_and_norms(make: Callable, cls: type) -> None:
    model = make(cls)
    decayed = set(Trainer.get_decay_parameter_names(None, model))
    for name, parameter in model.named_parameters():
        assert (name in decayed) == (parameter.dim() > 1), name


# The vocabulary's size


@with_mlm
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("size", [50, 30])
def test_the_vocabulary_can_grow_and_shrink(
    make: Callable, batch: dict[str, Tensor], words: Tensor, tmp_path: Path, cls: type, tied: bool, size: int
) -> None:
    model = make(cls, tie_word_embeddings=tied)
    kept = min(size, 40)
    ids = batch["input_ids"] = batch["input_ids"].clamp(max=29)
    words = ids.where(words != -100, -100)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    logits = mlm_logits(model(**batch)).detach()

    model.resize_token_embeddings(size)
    decoder = model.mlm_head.decoder
    assert model.config.vocab_size == model.bert.config.vocab_size == size
    assert model.get_input_embeddings().num_embeddings == size
    assert decoder.weight.shape == model.get_input_embeddings().weight.shape == (size, 32)
    assert len(decoder.bias) == size
    if not LIBRARY_IS_5_0:  # it leaves the old number standing in a tied layer
        assert decoder.out_features == size
    assert is_tied(model) is tied
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor[:kept], before[name][:kept], rtol=0, atol=0)
    out = model(**batch, labels=words)
    torch.testing.assert_close(mlm_logits(out)[..., :kept], logits[..., :kept])
    assert mlm_logits(out).shape == (3, 12, size)
    out.loss.backward()
    assert decoder.bias.grad.shape == (size,)

    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text("utf-8"))["vocab_size"] == size
    again, missing, unexpected = load(cls, tmp_path)
    assert (missing, unexpected) == (set(), set())
    assert is_tied(again) is tied
    torch.testing.assert_close(again.state_dict(), model.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls not in WITH_MLM])
def test_the_vocabulary_of_a_model_without_word_head_can_grow(
    make: Callable, batch: dict[str, Tensor], cls: type
) -> None:
    model = make(cls)
    batch = inputs_for(cls, batch)
    before = model(**batch)[0].detach()
    model.resize_token_embeddings(50)
    assert model.config.vocab_size == model.get_input_embeddings().num_embeddings == 50
    torch.testing.assert_close(model(**batch)[0], before)


def test_errors_name_the_vocabularys_new_size(make: Callable, batch: dict[str, Tensor]) -> None:
    model = make(ToyBertForMaskedLM)
    model.resize_token_embeddings(50)
    batch["input_ids"][0, 1] = 50
    with pytest.raises(ValueError, match=r"token ids .* 0 to 50, .* 0 to 49"):
        model(**batch)


@pytest.mark.parametrize("cls", [ToyBertForMaskedLM, ToyBertForTokenClassification])
@pytest.mark.parametrize("count", [0, torch.tensor(0)])
def test_accumulated_batches_with_nothing_to_tell_cost_nothing(
    make: Callable, batch: dict[str, Tensor], words: Tensor, cls: type, count: int | Tensor
) -> None:
    assert make(cls)(**batch, labels=torch.full_like(words, -100), num_items_in_batch=count).loss.item() == 0
