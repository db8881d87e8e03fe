"""Claims about the network: its parts against torch, the whole against transformers' BERT, and what must hold."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from accelerate import infer_auto_device_map
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import BertConfig, BertForPreTraining

from toybert.configuration_toybert import ToyBertConfig
from toybert.modeling_toybert import (
    GELU,
    BERTEmbedding,
    MLMHead,
    MultiHeadAttention,
    ToyBertForMaskedLM,
    ToyBertForNextSentencePrediction,
    ToyBertForPreTraining,
    ToyBertForQuestionAnswering,
    ToyBertForSequenceClassification,
    ToyBertForTokenClassification,
    ToyBertModel,
    TransformerEncoderLayer,
)

CLASSES = [
    ToyBertModel,
    ToyBertForPreTraining,
    ToyBertForMaskedLM,
    ToyBertForNextSentencePrediction,
    ToyBertForSequenceClassification,
    ToyBertForTokenClassification,
    ToyBertForQuestionAnswering,
]
IMPLEMENTATIONS = ["eager", "sdpa"]
each_class = pytest.mark.parametrize("cls", CLASSES)
each_implementation = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)


def small(**changes) -> ToyBertConfig:
    return ToyBertConfig(**({"vocab_size": 40, "hidden_size": 32, "intermediate_size": 64} | changes))


def noisy(module: nn.Module, seed: int = 0) -> nn.Module:
    """Returns the module in eval mode with every parameter drawn at random."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return module.eval()


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def score(output) -> Tensor:
    """Returns one number that depends on everything that the output holds."""
    return sum((tensor.float() * random(*tensor.shape)).sum() for tensor in output.to_tuple() if tensor is not None)


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def count_sdpa_calls(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Returns a list that grows with each call of torch's attention."""
    calls, original = [], F.scaled_dot_product_attention

    def counted(*args, **kwargs):
        calls.append(None)
        return original(*args, **kwargs)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    return calls


class Watch(TorchDispatchMode):
    """Notes the types and devices of all tensors that are made while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()
        self.devices: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if torch.is_tensor(tensor):
                self.dtypes.add(tensor.dtype)
                self.devices.add(tensor.device.type)
        return out


# Parts


def test_gelu_is_berts_formula() -> None:
    x = torch.linspace(-6, 6, 1001)
    torch.testing.assert_close(GELU()(x), 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def test_exact_gelu_is_x_times_the_normal_distribution() -> None:
    x = torch.linspace(-6, 6, 1001, dtype=torch.float64)
    torch.testing.assert_close(GELU("gelu")(x), x * torch.distributions.Normal(0.0, 1.0).cdf(x))


def test_the_two_forms_of_gelu_differ() -> None:
    assert (GELU()(torch.tensor(2.0)) - GELU("gelu")(torch.tensor(2.0))).abs() > 1e-5


@pytest.mark.parametrize(("name", "form"), [("gelu_new", "tanh"), ("gelu_pytorch_tanh", "tanh"), ("gelu", "none")])
def test_hidden_act_names_the_form_of_every_gelu(name: str, form: str) -> None:
    assert GELU(name).approximate == form
    model = ToyBertForPreTraining(small(hidden_act=name))
    gelus = [module for module in model.modules() if isinstance(module, GELU)]
    assert [gelu.approximate for gelu in gelus] == [form] * 3  # two layers and the MLM head


def test_the_embedding_is_the_normalised_sum_of_three() -> None:
    embedding = noisy(BERTEmbedding(small()))
    ids, segments = torch.tensor([[2, 7, 3, 9, 0]]), torch.tensor([[0, 0, 0, 1, 1]])
    total = embedding.token.weight[ids] + embedding.segment.weight[segments] + embedding.position.weight[:5]
    expected = F.layer_norm(total, (32,), embedding.norm.weight, embedding.norm.bias, eps=1e-12)
    torch.testing.assert_close(embedding(ids, segments), expected)


def test_segments_default_to_zero_and_positions_to_their_order() -> None:
    embedding = noisy(BERTEmbedding(small()))
    ids = torch.tensor([[2, 7, 3], [2, 8, 3]])
    torch.testing.assert_close(embedding(ids), embedding(ids, torch.zeros_like(ids), torch.tensor([[0, 1, 2]])))


@each_implementation
@pytest.mark.parametrize("padded", [False, True])
def test_attention_is_the_papers_formula_head_by_head(implementation: str, padded: bool) -> None:
    D, K = 32, 8
    attention = noisy(MultiHeadAttention(small(attn_implementation=implementation)))
    x = random(2, 5, D)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool() if padded else torch.ones(2, 5).bool()
    expected = torch.zeros(2, 5, D)
    for row in range(2):
        visible = x[row][mask[row]]
        for head in range(D // K):
            part = slice(head * K, (head + 1) * K)
            q = x[row] @ attention.query.weight[part].T + attention.query.bias[part]
            k = visible @ attention.key.weight[part].T + attention.key.bias[part]
            v = visible @ attention.value.weight[part].T + attention.value.bias[part]
            weights = (q @ k.T / math.sqrt(K)).exp()
            expected[row, :, part] = weights / weights.sum(1, keepdim=True) @ v
    expected = expected @ attention.output.weight.T + attention.output.bias
    out, _ = attention(x, mask[:, None, None] if padded else None)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("padded", [False, True])
def test_written_out_attention_is_torchs(padded: bool) -> None:
    attention = noisy(MultiHeadAttention(small(attn_implementation="eager")))
    x = random(2, 5, 32)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()[:, None, None] if padded else None
    q, k, v = (
        linear(x).unflatten(-1, (4, 8)).transpose(1, 2) for linear in (attention.query, attention.key, attention.value)
    )
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    out, weights = attention(x, mask)
    torch.testing.assert_close(out, attention.output(heads.transpose(1, 2).flatten(2)))
    torch.testing.assert_close(weights @ v, heads)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("hidden_act", ["gelu_new", "gelu"])
def test_a_layer_is_torchs_post_norm_encoder_layer(padded: bool, hidden_act: str) -> None:
    ours = noisy(TransformerEncoderLayer(small(hidden_act=hidden_act, layer_norm_eps=1e-5)))
    gelu = nn.GELU(approximate="none" if hidden_act == "gelu" else "tanh")
    theirs = nn.TransformerEncoderLayer(32, 4, 64, activation=gelu, batch_first=True, norm_first=False).eval()
    qkv = [ours.attention.query, ours.attention.key, ours.attention.value]
    pairs = {
        "self_attn.out_proj": ours.attention.output,
        "linear1": ours.feed_forward.inner,
        "linear2": ours.feed_forward.outer,
        "norm1": ours.attention_norm,
        "norm2": ours.feed_forward_norm,
    }
    state = {f"{name}.{kind}": getattr(module, kind) for name, module in pairs.items() for kind in ("weight", "bias")}
    state["self_attn.in_proj_weight"] = torch.cat([linear.weight for linear in qkv])
    state["self_attn.in_proj_bias"] = torch.cat([linear.bias for linear in qkv])
    theirs.load_state_dict(state)
    x = random(2, 5, 32)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool() if padded else torch.ones(2, 5).bool()
    out, _ = ours(x, mask[:, None, None])
    torch.testing.assert_close(out[mask], theirs(x, src_key_padding_mask=~mask)[mask])


def test_the_mlm_head_is_dense_gelu_norm_and_projection() -> None:
    head = noisy(MLMHead(small()))
    x = random(2, 3, 32)
    h = GELU()(x @ head.dense.weight.T + head.dense.bias)
    h = F.layer_norm(h, (32,), head.norm.weight, head.norm.bias, eps=1e-12)
    logits, loss = head(x)
    torch.testing.assert_close(logits, h @ head.decoder.weight.T + head.decoder.bias)
    assert loss is None


def test_the_pooler_sees_the_first_token_through_tanh(make: Callable, batch: dict[str, Tensor]) -> None:
    model = make(ToyBertModel)
    out = model(**batch)
    dense = model.pooler.dense
    torch.testing.assert_close(out.pooler_output, torch.tanh(dense(out.last_hidden_state[:, 0])))


def test_a_model_without_pooler_has_none(batch: dict[str, Tensor]) -> None:
    model = ToyBertModel(small(), add_pooling_layer=False)
    assert not [name for name, _ in model.named_parameters() if "pooler" in name]
    assert model(**batch).pooler_output is None
    assert ToyBertForMaskedLM(small()).bert.pooler is None


# The whole


BERT_NAMES = [  # transformers' name, ours
    ("bert.embeddings.word_embeddings", "bert.embeddings.token"),
    ("bert.embeddings.position_embeddings", "bert.embeddings.position"),
    ("bert.embeddings.token_type_embeddings", "bert.embeddings.segment"),
    ("bert.embeddings.LayerNorm", "bert.embeddings.norm"),
    ("bert.encoder.layer", "bert.layers"),
    ("attention.self.", "attention."),
    ("attention.output.dense", "attention.output"),
    ("attention.output.LayerNorm", "attention_norm"),
    ("intermediate.dense", "feed_forward.inner"),
    (".output.LayerNorm", ".feed_forward_norm"),
    (".output.dense", ".feed_forward.outer"),
    ("cls.predictions.transform.LayerNorm", "mlm_head.norm"),
    ("cls.predictions.transform.dense", "mlm_head.dense"),
    ("cls.predictions.bias", "mlm_head.decoder.bias"),
    ("cls.predictions.decoder", "mlm_head.decoder"),
    ("cls.seq_relationship", "nsp_head"),
]


@pytest.mark.parametrize("hidden_act", ["gelu_new", "gelu"])
@each_implementation
def test_it_is_the_librarys_bert(
    make: Callable, batch: dict[str, Tensor], hidden_act: str, implementation: str
) -> None:
    ours = make(ToyBertForPreTraining, implementation, hidden_act=hidden_act)
    theirs = BertForPreTraining(
        BertConfig(
            vocab_size=40,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=64,
            hidden_act=hidden_act,
        )
    ).eval()
    state = {}
    for their_name in theirs.state_dict():
        our_name = their_name
        for old, new in BERT_NAMES:
            our_name = our_name.replace(old, new)
        tensor = ours.state_dict()[our_name]
        state[their_name] = tensor.flip(0) if our_name.startswith("nsp_head") else tensor  # they: 0 = B follows A
    theirs.load_state_dict(state)

    labels = batch["input_ids"].where(torch.arange(12) % 3 == 1, -100).where(batch["attention_mask"].bool(), -100)
    follows = torch.tensor([1, 0, 1])
    mine = ours(**batch, labels=labels, next_sentence_label=follows)
    bert = theirs(**batch, labels=labels, next_sentence_label=1 - follows)
    torch.testing.assert_close(mine.prediction_logits, bert.prediction_logits)
    torch.testing.assert_close(mine.seq_relationship_logits, bert.seq_relationship_logits.flip(1))
    torch.testing.assert_close(mine.loss, bert.loss)


@each_class
@pytest.mark.parametrize("padded", [False, True])
def test_both_attention_implementations_agree_in_outputs_and_gradients(
    make: Callable, batch: dict[str, Tensor], cls: type, padded: bool
) -> None:
    if not padded:
        del batch["attention_mask"]
    models = [make(cls, implementation) for implementation in IMPLEMENTATIONS]
    outputs = [model(**batch) for model in models]
    for output in outputs:
        score(output).backward()
    torch.testing.assert_close(outputs[0].to_tuple(), outputs[1].to_tuple())
    # sums over 200 terms of both signs, in another order: float32 rounding reaches 1e-4 of the largest ones
    torch.testing.assert_close(gradients(models[0]), gradients(models[1]), atol=1e-4, rtol=1e-4)


@each_implementation
def test_padding_does_not_change_real_positions(make: Callable, batch: dict[str, Tensor], implementation: str) -> None:
    model = make(ToyBertForPreTraining, implementation)
    together = model(**batch)
    for row, length in enumerate(batch["attention_mask"].sum(1).tolist()):
        alone = model(**{name: tensor[row : row + 1, :length] for name, tensor in batch.items()})
        torch.testing.assert_close(together.prediction_logits[row : row + 1, :length], alone.prediction_logits)
        torch.testing.assert_close(together.seq_relationship_logits[row : row + 1], alone.seq_relationship_logits)
    wide = {name: F.pad(tensor, (0, 52)) for name, tensor in batch.items()}  # to the model's 64
    torch.testing.assert_close(model(**wide).seq_relationship_logits, together.seq_relationship_logits)


@each_implementation
def test_ids_under_the_padding_mask_do_not_matter(
    make: Callable, batch: dict[str, Tensor], implementation: str
) -> None:
    model = make(ToyBertForPreTraining, implementation)
    before = model(**batch)
    real = batch["attention_mask"].bool()
    for name, junk in (("input_ids", 23), ("token_type_ids", 1)):
        batch[name] = batch[name].where(real, junk)
    after = model(**batch)
    torch.testing.assert_close(after.prediction_logits[real], before.prediction_logits[real])
    torch.testing.assert_close(after.seq_relationship_logits, before.seq_relationship_logits)


@each_implementation
def test_only_the_mask_says_what_is_padding(make: Callable, batch: dict[str, Tensor], implementation: str) -> None:
    model = make(ToyBertModel, implementation)
    del batch["attention_mask"]  # ids of 0 remain, and count as tokens
    assert (batch["input_ids"] == 0).any()
    everything = torch.ones_like(batch["input_ids"])
    torch.testing.assert_close(
        model(**batch).last_hidden_state, model(**batch, attention_mask=everything).last_hidden_state
    )
    batch["input_ids"][2, -1] = 9
    changed = model(**batch).last_hidden_state[2, 0]
    batch["input_ids"][2, -1] = 0
    assert (changed - model(**batch).last_hidden_state[2, 0]).abs().max() > 1e-3


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.float32])
def test_the_mask_may_have_any_type(make: Callable, batch: dict[str, Tensor], dtype: torch.dtype) -> None:
    model = make(ToyBertModel)
    expected = model(**batch).last_hidden_state
    batch["attention_mask"] = batch["attention_mask"].to(dtype)
    torch.testing.assert_close(model(**batch).last_hidden_state, expected)


@each_implementation
def test_left_padding_with_its_own_positions_changes_nothing(
    make: Callable, batch: dict[str, Tensor], implementation: str
) -> None:
    model = make(ToyBertModel, implementation)
    row = {name: tensor[2:, :5] for name, tensor in batch.items()}
    alone = model(**row).last_hidden_state
    left = {name: F.pad(tensor, (4, 0)) for name, tensor in row.items()}
    positions = torch.tensor([[0, 0, 0, 0, 0, 1, 2, 3, 4]])
    torch.testing.assert_close(model(**left, position_ids=positions).last_hidden_state[:, 4:], alone)
    assert (model(**left).last_hidden_state[:, 4:] - alone).abs().max() > 1e-2  # without them, they shift


@each_implementation
def test_the_last_token_changes_the_first_output(make: Callable, batch: dict[str, Tensor], implementation: str) -> None:
    model = make(ToyBertModel, implementation)
    row = {name: tensor[:1] for name, tensor in batch.items()}
    before = model(**row).last_hidden_state[0, 0]
    row["input_ids"][0, -1] = 6 if row["input_ids"][0, -1] != 6 else 7
    assert (model(**row).last_hidden_state[0, 0] - before).abs().max() > 1e-3


@each_implementation
def test_a_row_of_nothing_but_padding_stays_finite_and_by_itself(
    make: Callable, batch: dict[str, Tensor], implementation: str
) -> None:
    model = make(ToyBertForPreTraining, implementation)
    before = model(**batch)
    batch["attention_mask"][1] = 0
    after = model(**batch)
    score(after).backward()
    assert after.prediction_logits.isfinite().all()
    assert after.seq_relationship_logits.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(model).values())
    torch.testing.assert_close(after.prediction_logits[[0, 2]], before.prediction_logits[[0, 2]])


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_a_mask_of_nothing_but_real_tokens_is_as_good_as_none(
    make: Callable, batch: dict[str, Tensor], implementation: str
) -> None:
    model = make(ToyBertForPreTraining, implementation)
    batch["attention_mask"] = torch.ones_like(batch["attention_mask"])
    masked = model(**batch).to_tuple()
    del batch["attention_mask"]
    assert all(torch.equal(a, b) for a, b in zip(masked, model(**batch).to_tuple(), strict=True))


@pytest.mark.parametrize("how", ["exported", "traced"])
def test_a_graph_made_without_padding_holds_with_padding(make: Callable, batch: dict[str, Tensor], how: str) -> None:
    model = make(ToyBertModel)
    padded = (batch["input_ids"], batch["attention_mask"])
    real = (padded[0], torch.ones_like(padded[1]))
    if how == "exported":
        graph = torch.export.export(model, real).module()
    else:
        graph = torch.jit.trace(model, real, strict=False)
    found = graph(*padded)
    torch.testing.assert_close(found["last_hidden_state"], model(*padded).last_hidden_state)


@each_class
def test_inputs_embeds_replace_input_ids(make: Callable, batch: dict[str, Tensor], cls: type) -> None:
    model = make(cls)
    expected = model(**batch).to_tuple()
    embeds = model.get_input_embeddings()(batch.pop("input_ids"))
    torch.testing.assert_close(model(**batch, inputs_embeds=embeds).to_tuple(), expected)
    del batch["token_type_ids"]
    model(**batch, inputs_embeds=embeds)  # segments then default to 0 here too


@each_class
def test_positions_are_counted_from_zero_unless_given(make: Callable, batch: dict[str, Tensor], cls: type) -> None:
    model = make(cls)
    expected = model(**batch).to_tuple()
    torch.testing.assert_close(model(**batch, position_ids=torch.arange(12)[None]).to_tuple(), expected)
    torch.testing.assert_close(model(**batch, position_ids=torch.arange(12).expand(3, -1)).to_tuple(), expected)
    moved = model(**batch, position_ids=torch.arange(12)[None] + 9).to_tuple()
    assert (moved[0] - expected[0]).abs().max() > 1e-3


@pytest.mark.parametrize("cls", [ToyBertForPreTraining, ToyBertForNextSentencePrediction])
def test_segments_change_the_next_sentence_logits(make: Callable, batch: dict[str, Tensor], cls: type) -> None:
    model = make(cls)
    before = model(**batch)[-1]
    batch["token_type_ids"] = 1 - batch["token_type_ids"]
    assert (model(**batch)[-1] - before).abs().max() > 1e-2


@each_class
@pytest.mark.parametrize(("implementation", "by_config"), [("eager", False), ("sdpa", False), ("eager", True)])
def test_attentions_and_hidden_states_come_on_request(
    make: Callable, batch: dict[str, Tensor], cls: type, implementation: str, by_config: bool
) -> None:
    plain = make(cls, implementation)
    expected = plain(**batch)
    assert expected.attentions is None
    assert expected.hidden_states is None
    request = {"output_attentions": True, "output_hidden_states": True}
    # the library allows attentions in the configuration with eager only
    out = make(cls, implementation, **request)(**batch) if by_config else plain(**batch, **request)
    torch.testing.assert_close(out[0], expected[0])
    assert [tuple(state.shape) for state in out.hidden_states] == [(3, 12, 32)] * 3  # embedding and two layers
    assert [tuple(weights.shape) for weights in out.attentions] == [(3, 4, 12, 12)] * 2
    for weights in out.attentions:
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 12))
        hidden = ~batch["attention_mask"].bool()[:, None, None].expand_as(weights)
        assert (weights[hidden] == 0).all()
        assert (weights[~hidden] > 0).all()
    no = dict.fromkeys(request, False)
    assert plain(**batch, **no).attentions is None


def test_the_first_hidden_state_is_the_embedding_and_the_last_the_output(
    make: Callable, batch: dict[str, Tensor]
) -> None:
    model = make(ToyBertModel)
    out = model(**batch, output_hidden_states=True)
    torch.testing.assert_close(out.hidden_states[0], model.embeddings(batch["input_ids"], batch["token_type_ids"]))
    torch.testing.assert_close(out.hidden_states[-1], out.last_hidden_state)


@each_class
def test_setting_the_attention_implementation_switches_it(
    make: Callable, batch: dict[str, Tensor], cls: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make(cls, "sdpa")
    calls = count_sdpa_calls(monkeypatch)
    before = model(**batch)[0]
    assert len(calls) == 2
    model.set_attn_implementation("eager")
    torch.testing.assert_close(model(**batch)[0], before)
    assert len(calls) == 2
    model.set_attn_implementation("sdpa")
    model(**batch)
    assert len(calls) == 4


def test_torchs_attention_is_the_default(batch: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_sdpa_calls(monkeypatch)
    ToyBertModel(small())(**batch)
    assert len(calls) == 2


@each_class
def test_a_tuple_holds_what_the_output_holds(make: Callable, batch: dict[str, Tensor], cls: type) -> None:
    model = make(cls)
    request = {"output_attentions": True, "output_hidden_states": True}
    for extra in ({}, request):
        as_tuple = model(**batch, **extra, return_dict=False)
        assert isinstance(as_tuple, tuple)
        torch.testing.assert_close(as_tuple, model(**batch, **extra).to_tuple())
    assert len(model(**batch, return_dict=False)) == (
        2 if cls in (ToyBertModel, ToyBertForPreTraining, ToyBertForQuestionAnswering) else 1
    )
    attentions = model(**batch, **request, return_dict=False)[-1]  # where visualisers look for them
    assert [tuple(weights.shape) for weights in attentions] == [(3, 4, 12, 12)] * 2


@each_class
def test_a_tuple_can_be_asked_for_in_the_configuration(make: Callable, batch: dict[str, Tensor], cls: type) -> None:
    out = make(cls, return_dict=False)(**batch)
    assert isinstance(out, tuple)
    torch.testing.assert_close(out, make(cls)(**batch).to_tuple())


@each_class
def test_dropout_works_in_training_only(make: Callable, batch: dict[str, Tensor], cls: type) -> None:
    model = make(cls)
    torch.testing.assert_close(model(**batch)[0], model(**batch)[0], rtol=0, atol=0)
    model.train()
    torch.manual_seed(0)
    assert (model(**batch)[0] - model(**batch)[0]).abs().max() > 1e-3


@each_implementation
def test_attention_dropout_alone_works(make: Callable, batch: dict[str, Tensor], implementation: str) -> None:
    model = make(ToyBertModel, implementation, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.5).train()
    torch.manual_seed(0)
    assert (model(**batch)[0] - model(**batch)[0]).abs().max() > 1e-3
    model = make(ToyBertModel, implementation, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).train()
    torch.testing.assert_close(model(**batch)[0], model(**batch)[0], rtol=0, atol=0)


def test_fresh_weights_are_drawn_as_the_configuration_says() -> None:
    torch.manual_seed(0)
    model = ToyBertForPreTraining(ToyBertConfig(initializer_range=0.03))
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            n, std = module.weight.numel(), module.weight.std()
            assert abs(std - 0.03) < 5 * 0.03 / math.sqrt(2 * n), name
            assert abs(module.weight.mean()) < 5 * 0.03 / math.sqrt(n), name
        elif isinstance(module, nn.LayerNorm):
            assert (module.weight == 1).all(), name
        if getattr(module, "bias", None) is not None:
            assert (module.bias == 0).all(), name


# Numbers and devices


@each_class
def test_no_model_has_a_buffer(make: Callable, cls: type) -> None:
    assert list(make(cls).buffers()) == []


@each_class
@each_implementation
def test_nothing_is_computed_in_float64(
    make: Callable, batch: dict[str, Tensor], cls: type, implementation: str
) -> None:
    model = make(cls, implementation)
    with Watch() as seen:
        sum(tensor.sum() for tensor in model(**batch).to_tuple()).backward()
    assert torch.float32 in seen.dtypes
    assert torch.float64 not in seen.dtypes


@each_class
@each_implementation
def test_shapes_can_be_computed_on_the_meta_device(batch: dict[str, Tensor], cls: type, implementation: str) -> None:
    with torch.device("meta"):
        model = cls(small(attn_implementation=implementation))
    inputs = {name: tensor.to("meta") for name, tensor in batch.items()}
    with Watch() as seen:
        out = model(**inputs)
        del inputs["token_type_ids"]
        model(**inputs)
    assert seen.devices == {"meta"}  # nothing is made elsewhere than where the input is
    expected = cls(small())(**batch)
    assert [tensor.shape for tensor in out.to_tuple()] == [tensor.shape for tensor in expected.to_tuple()]


def test_no_layer_is_split_between_devices() -> None:
    model = ToyBertModel(ToyBertConfig())
    layer = sum(parameter.nbytes for parameter in model.layers[0].parameters())
    embeddings = sum(parameter.nbytes for parameter in model.embeddings.parameters())
    classes = list(model._no_split_modules)  # what from_pretrained gives with a device_map
    for room in (embeddings // 2, embeddings + layer // 2, embeddings + layer + layer // 2):
        places = infer_auto_device_map(model, {"cpu": room, "disk": 10**9}, no_split_module_classes=classes)
        assert {"cpu", "disk"} >= set(places.values())
        assert not any(name.startswith(("embeddings.", "layers.0.", "layers.1.")) for name in places)


@each_class
@each_implementation
def test_bfloat16_agrees_with_float32(cls: type, implementation: str) -> None:
    torch.manual_seed(0)
    model = cls(ToyBertConfig(attn_implementation=implementation)).eval()
    ids = torch.randint(5, ToyBertConfig().vocab_size, (4, 20))
    mask = (torch.arange(20) < torch.tensor([20, 15, 10, 5])[:, None]).long()
    exact = model(ids, mask).to_tuple()
    half = copy.deepcopy(model).to(torch.bfloat16)
    out = half(ids, mask).to_tuple()
    for tensor, other in zip(out, exact, strict=True):
        assert tensor.dtype == torch.bfloat16
        # bfloat16 has 8 bits: hidden states of size 3 are rounded to 0.016, logits of this model are below 1
        torch.testing.assert_close(tensor.float(), other, atol=0.05, rtol=0.02)
    sum(tensor.float().square().mean() for tensor in out).backward()
    assert all(parameter.grad.isfinite().all() for parameter in half.parameters() if parameter.grad is not None)
    alone = half(ids[3:, :5], mask[3:, :5]).to_tuple()
    for tensor, other in zip(out, alone, strict=True):
        other_part = tensor[3:, :5] if other.shape[1] == 5 else tensor[3:]
        # the same rounding, in sums of another length
        torch.testing.assert_close(other_part.float(), other.float(), atol=0.02, rtol=0.02)


@each_implementation
def test_autocast_trains_float32_weights(implementation: str) -> None:
    torch.manual_seed(0)
    model = ToyBertForPreTraining(ToyBertConfig(attn_implementation=implementation)).eval()
    ids = torch.randint(5, ToyBertConfig().vocab_size, (4, 20))
    mask = (torch.arange(20) < torch.tensor([20, 15, 10, 5])[:, None]).long()
    labels = {"labels": ids.where(ids % 4 == 0, -100), "next_sentence_label": torch.tensor([0, 1, 1, 0])}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(ids, mask, **labels)
    out.loss.backward()
    assert out.prediction_logits.dtype == torch.bfloat16
    torch.testing.assert_close(out.loss, model(ids, mask, **labels).loss, atol=0.05, rtol=0)  # 8 bits a number
    for parameter in model.parameters():
        assert parameter.grad.dtype == torch.float32
        assert parameter.grad.isfinite().all()


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing_enable:FutureWarning")
def test_gradient_checkpointing_recomputes_and_gives_the_same_gradients(
    make: Callable, batch: dict[str, Tensor]
) -> None:
    results, calls = [], []
    for checkpointing in (False, True):
        model = make(ToyBertForPreTraining, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        count = []
        for layer in model.bert.layers:
            layer.feed_forward.register_forward_hook(lambda *_, count=count: count.append(None))
        score(model(**batch)).backward()
        results.append(gradients(model))
        calls.append(len(count))
    torch.testing.assert_close(results[0], results[1])
    assert calls == [2, 4]


# Errors


def test_an_input_that_is_too_long_is_refused_with_both_numbers(make: Callable) -> None:
    model = make(ToyBertModel)
    model(torch.full((1, 64), 5))
    with pytest.raises(ValueError, match=r"65 tokens .* 64"):
        model(torch.full((1, 65), 5))
    with pytest.raises(ValueError, match=r"65 tokens .* 64"):
        model(inputs_embeds=torch.zeros(1, 65, 32))


@pytest.mark.parametrize(
    ("argument", "bad", "message"),
    [
        ("input_ids", 40, "token ids .* 0 to 40, .* 0 to 39"),
        ("input_ids", -1, "token ids .* -1 to .*, .* 0 to 39"),
        ("token_type_ids", 2, "token types .* 0 to 2, .* 0 to 1"),
        ("position_ids", 64, "positions .* 0 to 64, .* 0 to 63"),
        ("position_ids", -1, "positions .* -1 to 11, .* 0 to 63"),
    ],
)
@each_class
def test_an_id_outside_its_table_is_refused_with_both_numbers(
    make: Callable, batch: dict[str, Tensor], cls: type, argument: str, bad: int, message: str
) -> None:
    batch["position_ids"] = torch.arange(12).expand(3, -1).clone()
    batch[argument][1, 4] = bad
    with pytest.raises(ValueError, match=message):
        make(cls)(**batch)


@each_class
def test_both_or_neither_kind_of_input_is_refused(make: Callable, batch: dict[str, Tensor], cls: type) -> None:
    model = make(cls)
    with pytest.raises(ValueError, match="input_ids or inputs_embeds"):
        model(**batch, inputs_embeds=torch.zeros(3, 12, 32))
    with pytest.raises(ValueError, match="input_ids or inputs_embeds"):
        model(attention_mask=batch["attention_mask"])


@pytest.mark.parametrize("shape", [(3, 11), (2, 12), (12,), (3, 1, 12)])
def test_a_mask_of_another_shape_is_refused_with_both_shapes(
    make: Callable, batch: dict[str, Tensor], shape: tuple[int, ...]
) -> None:
    batch["attention_mask"] = torch.ones(shape)
    with pytest.raises(ValueError, match="attention_mask") as error:
        make(ToyBertModel)(**batch)
    assert str(shape) in str(error.value)
    assert "(3, 12)" in str(error.value)


@each_class
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("hidden_size", 130, "hidden_size 130 .* num_attention_heads 4"),
        ("vocab_size", 0, "vocab_size .* got 0"),
        ("hidden_act", "relu", "got 'relu'"),
    ],
)
def test_a_configuration_spoilt_after_construction_is_refused(
    cls: type, field: str, value: object, message: str
) -> None:
    config = ToyBertConfig()
    setattr(config, field, value)
    with pytest.raises(ValueError, match=message):
        cls(config)


def everything(model: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    return model(ids, mask).prediction_logits


@each_implementation
@pytest.mark.parametrize("padded", [False, True])
def test_graph_tools_work_that_forbid_a_look_at_the_values(make: Callable, implementation: str, padded: bool) -> None:
    model = make(ToyBertForPreTraining, implementation)
    ids, mask = torch.randint(5, 40, (4, 9)), torch.ones(4, 9, dtype=torch.long)
    mask[1, 6:] = 0 if padded else 1
    parameters = {name: weight.detach() for name, weight in model.named_parameters()}

    def loss(weights: dict[str, Tensor], ids: Tensor, mask: Tensor) -> Tensor:
        how = {"labels": ids[None], "next_sentence_label": ids[None, 0] % 2}
        return functional_call(model, weights, (ids[None], mask[None]), how).loss

    expected = torch.stack([loss(parameters, *row) for row in zip(ids, mask, strict=True)])
    torch.testing.assert_close(vmap(loss, in_dims=(None, 0, 0))(parameters, ids, mask), expected)
    slopes = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, ids, mask)
    of_two = grad(loss)(parameters, ids[2], mask[2])
    torch.testing.assert_close({name: slope[2] for name, slope in slopes.items()}, of_two)
    recorded = make_fx(lambda *inputs: everything(model, *inputs))(ids, mask)
    torch.testing.assert_close(recorded(ids, mask), everything(model, ids, mask))
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert everything(model, ids, mask).shape == (4, 9, 40)


WRONG = {
    "no tokens": ({"input_ids": torch.ones(2, 0, dtype=torch.long)}, "0 tokens long, the model takes 1 to 64"),
    "one row alone": ({"input_ids": torch.ones(4, dtype=torch.long)}, "0 tokens long"),
    "a batch of batches": (
        {"input_ids": torch.ones(2, 3, 4, dtype=torch.long)},
        r"input_ids .*\(2, 3, 4\), not \(2, 3\)",
    ),
    "a narrow vector": ({"inputs_embeds": torch.ones(2, 3, 31)}, r"inputs_embeds .*\(2, 3, 31\), not \(2, 3, 32\)"),
    "no integers": ({"input_ids": torch.ones(2, 3)}, r"token ids are torch\.float32, not integers"),
    "short segments": (
        {"token_type_ids": torch.ones(2, 4).long()},
        r"token_type_ids .*\(2, 4\), not \(2, 3\)",
    ),
    "long positions": ({"position_ids": torch.arange(4)}, r"position_ids .*\(4,\), not \(2, 3\) or \(1, 3\) or \(3,\)"),
    "a mask of another row": ({"attention_mask": torch.ones(1, 3)}, r"attention_mask .*\(1, 3\), not \(2, 3\)"),
    "a mask to add": ({"attention_mask": torch.tensor([[0.0, 0, -1e4], [0, 0, 0]])}, r"0 for padding, got -10000\.0"),
}


@each_class
@pytest.mark.parametrize("what", WRONG)
def test_inputs_that_do_not_fit_are_refused_with_what_would(make: Callable, cls: type, what: str) -> None:
    inputs, message = WRONG[what]
    if not {"input_ids", "inputs_embeds"} & inputs.keys():
        inputs = {"input_ids": torch.ones(2, 3, dtype=torch.long), **inputs}
    with pytest.raises(ValueError, match=message):
        make(cls)(**inputs)


def test_padding_without_a_mask_is_told(make: Callable) -> None:
    model, ids = make(ToyBertModel), torch.tensor([[2, 6, 3, 0], [2, 7, 8, 3]])
    with pytest.warns(UserWarning, match="there is padding, and no attention_mask"):
        model(ids)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(ids, attention_mask=(ids != 0).long())
        model(ids[1:])


def test_the_row_of_padding_is_zero_in_a_new_model_and_a_checkpoint_keeps_its_own(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = ToyBertModel(small())
    weight = model.embeddings.token.weight
    assert not weight[0].any()
    assert weight[1:].any(1).all()
    with torch.no_grad():
        weight[0] = 1
    model.save_pretrained(tmp_path)
    assert ToyBertModel.from_pretrained(tmp_path).embeddings.token.weight[0].eq(1).all()


@pytest.mark.parametrize("kind", ["regression", "multi_label_classification", "single_label_classification"])
def test_of_no_rows_the_loss_is_nothing(make: Callable, kind: str) -> None:
    outputs = 1 if kind == "regression" else 3
    model = make(ToyBertForSequenceClassification, num_labels=outputs, problem_type=kind)
    labels = torch.zeros(0, dtype=torch.long) if kind.startswith("single") else torch.zeros(0, outputs)
    loss = model(torch.ones(0, 5, dtype=torch.long), labels=labels).loss
    loss.backward()
    assert loss == 0
    assert all(weight.grad is None or not weight.grad.any() for weight in model.parameters())
