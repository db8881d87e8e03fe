"""Claims about being BERT: with the same weights as transformers' own BERT, all that can be compared is equal.

`torch.testing.assert_close` at its defaults throughout. NSP labels and scores are swapped, as their meaning is.
"""

import copy

import pytest
import torch
import transformers
from torch import Tensor, nn

from toybert import modeling_toybert
from toybert.train.hub.names import convert_config, translate

SIZES = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
SHAPES = {"toy": (40, 32, 2, 4, 64), "deep": (61, 48, 4, 3, 80), "wide": (99, 128, 1, 2, 512)}
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh")
IMPLEMENTATIONS = ("eager", "sdpa")
close = torch.testing.assert_close


def make_pair(
    kind: str = "ForPreTraining", shape: str = "toy", act: str = "gelu_new", implementation: str = "eager", **changes
) -> tuple[nn.Module, nn.Module]:
    """Returns the library's model and ours, in eval mode, with the same weights: biases and norms are disturbed too."""
    config = transformers.BertConfig(
        **dict(zip(SIZES, SHAPES[shape], strict=True)), hidden_act=act, max_position_embeddings=24,
        architectures=[f"Bert{kind}"], attn_implementation=implementation, **changes,
    )  # fmt: skip
    torch.manual_seed(0)
    bert = getattr(transformers, f"Bert{kind}")(config).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in bert.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    ours = convert_config(config)
    ours._attn_implementation = implementation
    toybert = getattr(modeling_toybert, f"ToyBert{kind}")(ours).eval()
    prefix = "bert." if kind == "Model" else ""  # which a model without a head lacks
    tensors = translate({prefix + name: tensor for name, tensor in bert.state_dict().items()}, ours, to_bert=False)
    report = toybert.load_state_dict({name.removeprefix(prefix): each for name, each in tensors.items()}, strict=False)
    assert set(report.missing_keys) <= {"mlm_head.decoder.weight"}  # the embedding
    assert not report.unexpected_keys
    return bert, toybert


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def labelled(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns labels for both heads: of words, at some real positions, and of next sentences, as ToyBERT has them."""
    generator = torch.Generator().manual_seed(1)
    chosen = (torch.rand(batch["input_ids"].shape, generator=generator) < 0.4) & batch["attention_mask"].bool()
    return {
        "labels": torch.where(chosen, batch["input_ids"], -100),
        "next_sentence_label": torch.tensor([1, 0, 1]),
    }


def as_bert(labels: dict[str, Tensor]) -> dict[str, Tensor]:
    return labels | {"next_sentence_label": 1 - labels["next_sentence_label"]}


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("act", ACTIVATIONS)
@pytest.mark.parametrize("shape", SHAPES)
@torch.no_grad()
def test_logits_and_hidden_states_equal_berts(shape, act, implementation, batch):
    bert, toybert = make_pair(shape=shape, act=act, implementation=implementation)
    expected = bert(**batch, output_hidden_states=True)
    found = toybert(**batch, output_hidden_states=True)
    real = batch["attention_mask"].bool()
    close(found.prediction_logits, expected.prediction_logits)
    close(found.seq_relationship_logits, expected.seq_relationship_logits.flip(-1))
    assert len(found.hidden_states) == len(expected.hidden_states) == SHAPES[shape][2] + 1
    for ours, theirs in zip(found.hidden_states, expected.hidden_states, strict=True):
        close(ours, theirs)
    assert (found.prediction_logits[real].std(0) > 0.01).all()  # there is something to compare


@pytest.mark.parametrize("shape", SHAPES)
@torch.no_grad()
def test_attentions_equal_berts(shape, batch):
    bert, toybert = make_pair(shape=shape)
    expected = bert(**batch, output_attentions=True).attentions
    found = toybert(**batch, output_attentions=True).attentions
    assert len(found) == len(expected) == SHAPES[shape][2]
    for ours, theirs in zip(found, expected, strict=True):
        close(ours, theirs)
    assert found[0].std() > 0.01  # and not uniform


@torch.no_grad()
def test_other_inputs_give_what_they_give_in_bert(batch):
    bert, toybert = make_pair()
    positions = torch.arange(12).flip(0)[None]
    embedded = torch.randn(3, 12, 32, generator=torch.Generator().manual_seed(2))
    for given in (
        {"input_ids": batch["input_ids"]},
        {"input_ids": batch["input_ids"], "position_ids": positions},
        {"inputs_embeds": embedded, "attention_mask": batch["attention_mask"]},
    ):
        close(toybert(**given).prediction_logits, bert(**given).prediction_logits)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("act", ["gelu", "gelu_new"])
@pytest.mark.parametrize("shape", SHAPES)
def test_loss_and_every_gradient_equal_berts(shape, act, implementation, batch):
    bert, toybert = make_pair(shape=shape, act=act, implementation=implementation)
    labels = labelled(batch)
    expected, found = bert(**batch, **as_bert(labels)).loss, toybert(**batch, **labels).loss
    close(found, expected)
    expected.backward()
    found.backward()
    theirs = translate(gradients(bert), toybert.config, to_bert=False)
    ours = gradients(toybert)
    assert ours.keys() == theirs.keys() == dict(toybert.named_parameters()).keys()
    for name, gradient in ours.items():
        close(gradient, theirs[name], msg=lambda message, name=name: f"{name}: {message}")
        assert gradient.abs().max() > 0, name


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_one_step_of_the_optimiser_equals_berts(implementation, batch):
    bert, toybert = make_pair(implementation=implementation)
    before = copy.deepcopy(toybert.state_dict())
    labels = labelled(batch)
    for model, given in ((bert, as_bert(labels)), (toybert, labels)):
        # A large epsilon: where a gradient is all rounding, AdamW would make a full step of its sign.
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-4)
        model(**batch, **given).loss.backward()
        optimizer.step()
    theirs = translate(bert.state_dict(), toybert.config, to_bert=False)
    ours = toybert.state_dict()
    for name in theirs:
        close(ours[name], theirs[name])
        assert not torch.equal(ours[name], before[name]), name


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_with_dropout_and_the_same_seed_the_loss_equals_berts(implementation, batch):
    bert, toybert = make_pair(implementation=implementation)  # dropout 0.1 everywhere
    labels, losses = labelled(batch), []
    for seed in range(3):
        torch.manual_seed(seed)
        expected = bert.train()(**batch, **as_bert(labels)).loss.detach()
        torch.manual_seed(seed)
        losses.append(toybert.train()(**batch, **labels).loss.detach())
        close(losses[-1], expected)
    assert len(set(map(float, losses))) == 3  # dropout was on


HEADS = {
    "Model": {},
    "ForMaskedLM": {"labels": torch.tensor([[-100, 7, 9, *[-100] * 9]] * 3)},
    "ForNextSentencePrediction": {"labels": torch.tensor([1, 0, 1])},
    "ForSequenceClassification": {"labels": torch.tensor([2, 0, 1])},
    "ForTokenClassification": {"labels": torch.tensor([[-100, 2, 1, 0, *[-100] * 8]] * 3)},
    "ForQuestionAnswering": {"start_positions": torch.tensor([3, 0, 12]), "end_positions": torch.tensor([5, 2, 12])},
    "ForMultipleChoice": {"labels": torch.tensor([2])},
}


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("kind", HEADS)
def test_each_model_scores_and_learns_as_berts_does(kind, implementation, batch):
    classes = {"num_labels": 3} if kind in ("ForSequenceClassification", "ForTokenClassification") else {}
    bert, toybert = make_pair(kind, implementation=implementation, classifier_dropout=0.0, **classes)
    labels = HEADS[kind]
    if kind == "ForMultipleChoice":
        batch = {name: tensor[None] for name, tensor in batch.items()}
    swap = kind == "ForNextSentencePrediction"
    expected, found = (
        bert(**batch, **({"labels": 1 - labels["labels"]} if swap else labels)),
        toybert(**batch, **labels),
    )
    for name in expected.keys() & found.keys():
        close(found[name], expected[name].flip(-1) if swap and name == "logits" else expected[name])
    assert expected.keys() == found.keys()
    if labels:
        expected.loss.backward()
        found.loss.backward()
        theirs = translate(gradients(bert), toybert.config, to_bert=False)
        assert gradients(toybert).keys() == theirs.keys()
        for name, gradient in gradients(toybert).items():
            close(gradient, theirs[name])


def test_an_untied_decoder_equals_berts(batch):
    bert, toybert = make_pair(tie_word_embeddings=False)
    close(toybert(**batch).prediction_logits, bert(**batch).prediction_logits)
    assert not torch.equal(toybert.mlm_head.decoder.weight, toybert.bert.embeddings.token.weight)
