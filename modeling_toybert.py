"""BERT, whole and small: the network of Devlin et al. 2018 (arXiv:1810.04805), read from top to bottom.

Shapes stand at the right of the lines that make them, in these letters:

    B batch   S sequence   D hidden size   H heads   K = D / H   V vocabulary   C choices   N labelled positions
"""

import copy
import math
import warnings
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutputWithPooling,
    MaskedLMOutput,
    MultipleChoiceModelOutput,
    NextSentencePredictorOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import ModelOutput, can_return_tuple

from .configuration_toybert import ToyBertConfig


class GELU(nn.GELU):
    """Applies the Gaussian error linear unit (section A.2 of the paper; Hendrycks & Gimpel 2016), element by element.

    It is the formula that BERT's code came to use,

        0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))

    or, as `"gelu"`, the exact x * Phi(x), with which many BERT checkpoints were published.
    """

    def __init__(self, hidden_act: str = "gelu_new"):
        super().__init__(approximate="none" if hidden_act == "gelu" else "tanh")


def classifier_dropout(config: ToyBertConfig) -> nn.Dropout:
    """Makes the dropout before a classifier: `classifier_dropout` if it is set, else `hidden_dropout_prob`."""
    return nn.Dropout(config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout)


def may_look(tensor: Tensor) -> bool:
    """Tells whether Python may read the values: a GPU would make it wait, and a graph must hold for others too."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or type(tensor) is not Tensor:  # such as a FakeTensor
        return False
    modes = torch._C._len_torch_dispatch_stack() or torch._C._functorch.peek_interpreter_stack()  # make_fx, vmap
    return tensor.is_cpu and not modes


def check_shape(name: str, tensor: Tensor | None, *shapes: tuple[int, ...]) -> None:
    """Refuses a tensor that has none of the shapes."""
    if tensor is not None and tensor.shape not in shapes:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, not {' or '.join(map(str, shapes))}")


def check_range(names: str, ids: Tensor | None, size: int) -> None:
    """Refuses numbers that are no integers or, where Python may read them, lie outside 0 .. size - 1."""
    if ids is not None and ids.is_floating_point():
        raise ValueError(f"{names} are {ids.dtype}, not integers")
    if ids is not None and may_look(ids) and not torch.equal(ids.clamp(0, size - 1), ids):
        raise ValueError(f"{names} run from {ids.min()} to {ids.max()}, the model's from 0 to {size - 1}")


def class_numbers(labels: Tensor) -> Tensor:
    """Returns labels of any integer type, or booleans, as int64; the loss takes no other, and uint8 has no -100."""
    if labels.is_floating_point():
        raise ValueError(f"labels are {labels.dtype}, but classes are numbered by integers")
    return labels.long()


def cross_entropy(logits: Tensor, labels: Tensor | None, num_items: Tensor | int | None = None) -> Tensor | None:
    """Averages the cross-entropy over the labels that are not -100, or divides its sum by `num_items`.

    Logits (..., V) and labels (...) may have any shape; there is no loss without labels.

    Raises:
        ValueError: the labels are not integers, or run past the V classes.
    """
    if labels is None:
        return None
    logits, labels = logits.flatten(0, -2).float(), class_numbers(labels).flatten()  # a sum overflows in fp16
    given = labels != -100
    check_range("labels", labels[given] if may_look(labels) else None, logits.shape[-1])
    total = F.cross_entropy(logits, labels, ignore_index=-100, reduction="sum")
    count = given.sum() if num_items is None else torch.as_tensor(num_items)
    return total / count.clamp(min=1)  # nothing to learn from: a loss of 0, not NaN


class BERTEmbedding(nn.Module):
    """Sums what a token is, which segment it stands in and where: all three are learned (section 3, figure 2)."""

    def __init__(self, config: ToyBertConfig):
        super().__init__()
        D = config.hidden_size
        self.token = nn.Embedding(config.vocab_size, D, padding_idx=config.pad_token_id)
        self.segment = nn.Embedding(config.type_vocab_size, D)
        self.position = nn.Embedding(config.max_position_embeddings, D)
        self.norm = nn.LayerNorm(D, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self, input_ids: Tensor | None, token_type_ids: Tensor | None = None,  # (B, S) each
        position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,  # (B, S) or (S,); (B, S, D)
    ) -> Tensor:  # fmt: skip
        """Returns (B, S, D); segments default to 0 and positions to 0 .. S-1. A ValueError names ids without a row."""
        check_range("token ids", input_ids, self.token.num_embeddings)
        check_range("token types", token_type_ids, self.segment.num_embeddings)
        check_range("positions", position_ids, self.position.num_embeddings)
        words = self.token(input_ids) if inputs_embeds is None else inputs_embeds  # (B, S, D)
        if token_type_ids is None:
            token_type_ids = torch.zeros(words.shape[:2], dtype=torch.long, device=words.device)
        if position_ids is None:
            position_ids = torch.arange(words.shape[1], device=words.device)  # (S,)
        x = words + self.segment(token_type_ids) + self.position(position_ids)
        return self.dropout(self.norm(x))


class MultiHeadAttention(nn.Module):
    """Attends from every position to every position, in H subspaces at once (Vaswani et al. 2017, section 3.2).

    There is no causal mask: that is what makes BERT bidirectional.
    """

    def __init__(self, config: ToyBertConfig):
        super().__init__()
        D = config.hidden_size
        self.num_heads = config.num_attention_heads
        self.dropout_probability = config.attention_probs_dropout_prob
        self.query = nn.Linear(D, D)
        self.key = nn.Linear(D, D)
        self.value = nn.Linear(D, D)
        self.output = nn.Linear(D, D)

    def forward(self, x: Tensor, mask: Tensor | None = None, written_out: bool = True) -> tuple[Tensor, Tensor | None]:
        """Returns (B, S, D), and the weights (B, H, S, S) where the formula is written out, else None.

        `mask`, bool (B, 1, 1, S), is True where a position may be attended to.
        """
        B, S, D = x.shape
        H, K = self.num_heads, D // self.num_heads
        # (B, H, S, K) each
        q, k, v = (linear(x).view(B, S, H, K).transpose(1, 2) for linear in (self.query, self.key, self.value))
        dropout = self.dropout_probability if self.training else 0.0

        if not written_out:
            weights = None
            heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
        else:
            scores = q @ k.transpose(-1, -2) / math.sqrt(K)  # (B, H, S, S)
            if mask is not None:
                scores = scores.masked_fill(~mask, -math.inf)
            weights = F.dropout(scores.softmax(dim=-1), dropout)
            heads = weights @ v  # (B, H, S, K)
        return self.output(heads.transpose(1, 2).reshape(B, S, D)), weights


class FeedForward(nn.Module):
    """Computes GELU(x W1 + b1) W2 + b2 at each position by itself (Vaswani et al. 2017, section 3.3)."""

    def __init__(self, config: ToyBertConfig):
        super().__init__()
        self.inner = nn.Linear(config.hidden_size, config.intermediate_size)
        self.gelu = GELU(config.hidden_act)
        self.outer = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.gelu(self.inner(x)))


class TransformerEncoderLayer(GradientCheckpointingLayer):  # a module that the backward pass can compute again
    """Adds attention, then the feed-forward, each followed by LayerNorm: post-LN, as in the original BERT."""

    def __init__(self, config: ToyBertConfig):
        super().__init__()
        self.attention = MultiHeadAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, mask: Tensor | None = None, written_out: bool = True) -> tuple[Tensor, Tensor | None]:
        attended, weights = self.attention(x, mask, written_out)
        x = self.attention_norm(x + self.dropout(attended))
        x = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return x, weights


class Pooler(nn.Module):
    """Makes one vector of a sequence: dense and tanh, as in Google's code, on its first token [CLS] (section 3.1)."""

    def __init__(self, config: ToyBertConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.dense(x[:, 0]))  # (B, D)


class MLMHead(nn.Module):
    """Scores every word of the vocabulary at a position (section 3.1, task 1).

    `decoder.weight` is the token embedding itself: the model ties the two.
    """

    def __init__(self, config: ToyBertConfig):
        super().__init__()
        self.config = config
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.gelu = GELU(config.hidden_act)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(
        self, x: Tensor, labels: Tensor | None = None, num_items: Tensor | int | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the logits (B, S, V) and, with labels (B, S), their `cross_entropy`.

        With `sparse_prediction` and labels, the logits are (N, V): only the labelled positions are computed, in order.
        """
        if labels is not None and self.config.sparse_prediction:
            labels = class_numbers(labels)
            chosen = labels != -100
            x, labels = x[chosen], labels[chosen]  # (N, D), (N,)
        logits = self.decoder(self.norm(self.gelu(self.dense(x))))
        return logits, cross_entropy(logits, labels, num_items)


@dataclass
class ToyBertForPreTrainingOutput(ModelOutput):
    """Holds the sum of the losses, both heads' logits and, last, each loss by itself: the sum hides a dead head."""

    loss: Tensor | None = None
    prediction_logits: Tensor | None = None  # (B, S, V)
    seq_relationship_logits: Tensor | None = None  # (B, 2): B does not follow A, B follows A
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    mlm_loss: Tensor | None = None
    nsp_loss: Tensor | None = None


class ToyBertPreTrainedModel(PreTrainedModel):
    """Tells the library how to initialise, load, train and shard every model of this file."""

    config_class = ToyBertConfig
    base_model_prefix = "bert"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # else Trainer takes `**options` for a promise to divide by num_items_in_batch
    _supports_sdpa = True
    _no_split_modules = ["BERTEmbedding", "TransformerEncoderLayer"]
    _keys_to_ignore_on_load_unexpected = [r"^mlm_head\.", r"^nsp_head\.", r"^(bert\.)?pooler\."]  # of other models

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        return True  # the library would guess it from the source, wrongly

    def __init__(self, config: ToyBertConfig):
        config.check()
        super().__init__(config)

    def _init_weights(self, module: nn.Module) -> None:
        """Draws weights from a normal distribution, sets biases to 0 and norms to 1."""
        # only through nn.init: the library makes these calls skip a tensor that came from a checkpoint
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=self.config.initializer_range)
            if getattr(module, "padding_idx", None) is not None and not hasattr(module.weight, "_is_hf_initialized"):
                nn.init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
        if getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)

    def mark_tied_weights_as_initialized(self, *_) -> None:
        """Keeps the library from drawing a weight that it ties afterwards."""
        # transformers 5.3.0 itself then takes the weight for loaded, if the code is from the Hub, and never ties it
        for name in self.all_tied_weights_keys:
            self.get_parameter(name)._is_hf_initialized = True

    def get_input_embeddings(self) -> nn.Embedding:
        return self.base_model.embeddings.token

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.base_model.embeddings.token = value

    def get_output_embeddings(self) -> nn.Linear | None:
        return self.mlm_head.decoder if hasattr(self, "mlm_head") else None

    def set_output_embeddings(self, value: nn.Linear) -> None:
        self.mlm_head.decoder = value

    def encode(self, *inputs: Tensor | None, **options) -> BaseModelOutputWithPooling:
        """Encodes a head's inputs; `ToyBertModel.forward` lists them and the options, and refuses any other."""
        return self.bert(*inputs, **options, return_dict=True)


class ToyBertModel(ToyBertPreTrainedModel):
    """Encodes sequences: embedding, layers, and the pooler unless `add_pooling_layer` is False (section 3)."""

    def __init__(self, config: ToyBertConfig, add_pooling_layer: bool = True):
        super().__init__(config)
        self.embeddings = BERTEmbedding(config)
        self.layers = nn.ModuleList(TransformerEncoderLayer(config) for _ in range(config.num_hidden_layers))
        self.pooler = Pooler(config) if add_pooling_layer else None
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None, output_hidden_states: bool | None = None,
    ) -> BaseModelOutputWithPooling | tuple:  # fmt: skip
        """Returns last_hidden_state (B, S, D), pooler_output (B, D) and, on request, hidden_states and attentions.

        Args:
            input_ids: token ids (B, S); or give `inputs_embeds` (B, S, D) in their place.
            attention_mask: (B, S), 1 for a real token and 0 for padding; nothing is masked without it.
            token_type_ids: (B, S), 0 in the first segment and 1 in the second.
            position_ids: (B, S), 0 .. S-1 unless given.
            output_attentions: return each layer's weights (B, H, S, S), which are then computed by the formula.
            output_hidden_states: return the embedding and each layer's output, each (B, S, D).
            return_dict: False returns a tuple of what there is; here and in every head, by `can_return_tuple`.

        Raises:
            ValueError: neither or both kinds of input are given, the input is too long, an id is outside its table, or
                a shape or the mask's values do not fit.
        """
        config = self.config
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds, and not both")
        given = input_ids if inputs_embeds is None else inputs_embeds
        B, S = (*given.shape, 0, 0)[:2]
        if not S or (position_ids is None and config.max_position_embeddings < S):
            raise ValueError(f"input is {S} tokens long, the model takes 1 to {config.max_position_embeddings}")
        check_shape("input_ids", input_ids, (B, S))
        check_shape("inputs_embeds", inputs_embeds, (B, S, config.hidden_size))
        check_shape("attention_mask", attention_mask, (B, S))
        check_shape("token_type_ids", token_type_ids, (B, S))
        check_shape("position_ids", position_ids, (B, S), (1, S), (S,))
        output_attentions = config.output_attentions if output_attentions is None else output_attentions
        output_hidden_states = config.output_hidden_states if output_hidden_states is None else output_hidden_states
        written_out = output_attentions or config._attn_implementation != "sdpa"

        mask = None
        if attention_mask is not None:
            looked = may_look(attention_mask)
            if not (looked and attention_mask.all()):  # with real tokens only, no mask is needed
                if looked and attention_mask.min() < 0:
                    raise ValueError(f"attention_mask is 1 for a token and 0 for padding, got {attention_mask.min()}")
                mask = attention_mask.bool()[:, None, None, :]  # (B, 1, 1, S)
                mask = mask | ~mask.any(-1, keepdim=True)  # a row of nothing but padding attends to all of it: no NaN
        elif input_ids is not None and may_look(input_ids) and (input_ids[:, -1] == config.pad_token_id).any():
            warnings.warn("there is padding, and no attention_mask: it is read as text", stacklevel=2)
        x = self.embeddings(input_ids, token_type_ids, position_ids, inputs_embeds)
        hidden_states, attentions = [x], []
        for layer in self.layers:
            x, weights = layer(x, mask, written_out)
            hidden_states.append(x)
            attentions.append(weights)
        return BaseModelOutputWithPooling(
            last_hidden_state=x,
            pooler_output=None if self.pooler is None else self.pooler(x),
            hidden_states=tuple(hidden_states) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None,
        )


class ToyBertForPreTraining(ToyBertPreTrainedModel):
    """Predicts masked words and whether B follows A: BERT as it is pre-trained (section 3.1)."""

    _tied_weights_keys = {"mlm_head.decoder.weight": "bert.embeddings.token.weight"}

    def __init__(self, config: ToyBertConfig):
        super().__init__(config)
        self.bert = ToyBertModel(config)
        self.mlm_head = MLMHead(config)
        self.nsp_head = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None, next_sentence_label: Tensor | None = None, **options,
    ) -> ToyBertForPreTrainingOutput | tuple:  # fmt: skip
        """Returns both heads' logits, (B, S, V) and (B, 2); the loss is the sum of those whose labels are given.

        `labels` (B, S) are as in `ToyBertForMaskedLM`, `next_sentence_label` (B,) is 1 where B follows A, and 0 else.
        """
        encoded = self.encode(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **options)
        words, mlm_loss = self.mlm_head(encoded.last_hidden_state, labels)
        follows = self.nsp_head(encoded.pooler_output)
        nsp_loss = cross_entropy(follows, next_sentence_label)
        losses = [each for each in (mlm_loss, nsp_loss) if each is not None]
        loss, states, weights = sum(losses) if losses else None, encoded.hidden_states, encoded.attentions
        return ToyBertForPreTrainingOutput(loss, words, follows, states, weights, mlm_loss, nsp_loss)


class ToyBertForMaskedLM(ToyBertPreTrainedModel):
    """Predicts masked words (section 3.1, task 1)."""

    accepts_loss_kwargs = True  # Trainer then hands over the number of targets of all accumulated batches
    _tied_weights_keys = {"mlm_head.decoder.weight": "bert.embeddings.token.weight"}

    def __init__(self, config: ToyBertConfig):
        super().__init__(config)
        self.bert = ToyBertModel(config, add_pooling_layer=False)
        self.mlm_head = MLMHead(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None, num_items_in_batch: Tensor | int | None = None, **options,
    ) -> MaskedLMOutput | tuple:  # fmt: skip
        """Returns logits (B, S, V); `labels` (B, S) are the tokens to predict, -100 where there is nothing to predict.

        `num_items_in_batch`, here and below, is the number of labels to divide the loss by, if not this batch's own.
        """
        encoded = self.encode(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **options)
        logits, loss = self.mlm_head(encoded.last_hidden_state, labels, num_items_in_batch)
        return MaskedLMOutput(loss, logits, encoded.hidden_states, encoded.attentions)


class ToyBertForNextSentencePrediction(ToyBertPreTrainedModel):
    """Tells whether B follows A (section 3.1, task 2): **class 1 means that it does**, 0 that it does not."""

    def __init__(self, config: ToyBertConfig):
        config = copy.deepcopy(config)  # these two class names must not reach other models
        config.id2label = dict(config.next_sentence_labels)
        config.label2id = {name: index for index, name in config.id2label.items()}
        super().__init__(config)
        self.bert = ToyBertModel(config)
        self.nsp_head = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None, num_items_in_batch: Tensor | int | None = None, **options,
    ) -> NextSentencePredictorOutput | tuple:  # fmt: skip
        """Returns logits (B, 2); `labels` (B,) are 1 where B follows A."""
        encoded = self.encode(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **options)
        logits = self.nsp_head(encoded.pooler_output)
        loss = cross_entropy(logits, labels, num_items_in_batch)
        return NextSentencePredictorOutput(loss, logits, encoded.hidden_states, encoded.attentions)


class ToyBertForSequenceClassification(ToyBertPreTrainedModel):
    """Classifies a sequence or a pair: the pooled [CLS], dropout, one linear layer (section 4.1)."""

    def __init__(self, config: ToyBertConfig):
        super().__init__(config)
        self.bert = ToyBertModel(config)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None, num_items_in_batch: Tensor | int | None = None, **options,
    ) -> SequenceClassifierOutput | tuple:  # fmt: skip
        """Returns logits (B, num_labels).

        `labels` are (B,) class numbers, (B, num_labels) of 0 and 1 where several can hold, or (B,) or (B, num_labels)
        numbers to regress on. `config.problem_type` says which; if unset, the first labels decide.

        Raises:
            ValueError: a label is not one of the classes, or the labels have the wrong shape.
        """
        encoded = self.encode(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **options)
        logits, config = self.classifier(self.dropout(encoded.pooler_output)), self.config
        if labels is not None and config.problem_type is None:
            kind = "multi" if labels.dim() == 2 and labels.shape[1] == config.num_labels else "single"
            config.problem_type = "regression" if config.num_labels == 1 else f"{kind}_label_classification"
        if labels is None or config.problem_type == "single_label_classification":
            loss = cross_entropy(logits, labels, num_items_in_batch)
        elif labels.numel() != logits.numel():
            raise ValueError(f"labels have shape {tuple(labels.shape)}, the logits {tuple(logits.shape)}")
        else:
            distance = F.mse_loss if config.problem_type == "regression" else F.binary_cross_entropy_with_logits
            # of no rows, the loss is 0, not NaN
            loss = distance(logits, labels.view_as(logits).to(logits.dtype)) if logits.numel() else logits.sum()
        return SequenceClassifierOutput(loss, logits, encoded.hidden_states, encoded.attentions)


class ToyBertForTokenClassification(ToyBertPreTrainedModel):
    """Classifies every token, as in named entity recognition: dropout, one linear layer (section 5.3)."""

    accepts_loss_kwargs = True

    def __init__(self, config: ToyBertConfig):
        super().__init__(config)
        self.bert = ToyBertModel(config, add_pooling_layer=False)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None, num_items_in_batch: Tensor | int | None = None, **options,
    ) -> TokenClassifierOutput | tuple:  # fmt: skip
        """Returns logits (B, S, num_labels); `labels` (B, S) are class numbers, -100 where there is none."""
        encoded = self.encode(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **options)
        logits = self.classifier(self.dropout(encoded.last_hidden_state))
        loss = cross_entropy(logits, labels, num_items_in_batch)
        return TokenClassifierOutput(loss, logits, encoded.hidden_states, encoded.attentions)


class ToyBertForQuestionAnswering(ToyBertPreTrainedModel):
    """Finds the span of B that answers the question A: a score to start and one to end at each token (section 4.2)."""

    def __init__(self, config: ToyBertConfig):
        super().__init__(config)
        self.bert = ToyBertModel(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,
        start_positions: Tensor | None = None, end_positions: Tensor | None = None, **options,
    ) -> QuestionAnsweringModelOutput | tuple:  # fmt: skip
        """Returns start_logits and end_logits (B, S) and, with both positions, the mean of their losses.

        Positions (B,) are the answer's first and last token. One outside 0 .. S-1, of an answer cut off, is left out.
        """
        encoded = self.encode(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **options)
        both = self.qa_outputs(encoded.last_hidden_state)  # (B, S, 2)
        start_logits, end_logits = (logits.contiguous() for logits in both.unbind(-1))  # (B, S), to gather from GPUs
        loss = None
        if start_positions is not None and end_positions is not None:
            S = both.shape[1]
            start, end = (class_numbers(each) for each in (start_positions, end_positions))
            start, end = (each.where((each >= 0) & (each < S), -100) for each in (start, end))
            loss = (cross_entropy(start_logits, start) + cross_entropy(end_logits, end)) / 2
        return QuestionAnsweringModelOutput(loss, start_logits, end_logits, encoded.hidden_states, encoded.attentions)


class ToyBertForMultipleChoice(ToyBertPreTrainedModel):
    """Chooses one of C ways to go on from A: each pair (A, choice) gets a score from its pooled [CLS] (section 4.4)."""

    def __init__(self, config: ToyBertConfig):
        super().__init__(config)
        self.bert = ToyBertModel(config)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.post_init()

    def encode(self, *inputs: Tensor | None, **options) -> BaseModelOutputWithPooling:
        """Encodes all choices of all rows as one batch; returns `pooler_output` as (B, C, D)."""
        for each in inputs:
            if each is not None and each.dim() != (4 if each is inputs[-1] else 3):  # embeddings have D behind S
                raise ValueError(f"every input must be (B, C, S), one has shape {tuple(each.shape)}")
        encoded = super().encode(*(None if each is None else each.flatten(0, 1) for each in inputs), **options)
        given = inputs[0] if inputs[-1] is None else inputs[-1]
        encoded.pooler_output = encoded.pooler_output.unflatten(0, given.shape[:2])
        return encoded

    @can_return_tuple
    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None, **options,
    ) -> MultipleChoiceModelOutput | tuple:  # fmt: skip
        """Returns logits (B, C) of inputs (B, C, S); `labels` (B,) are the numbers of the right choices."""
        encoded = self.encode(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **options)
        logits = self.classifier(self.dropout(encoded.pooler_output)).squeeze(-1)  # (B, C)
        loss = cross_entropy(logits, labels)
        return MultipleChoiceModelOutput(loss, logits, encoded.hidden_states, encoded.attentions)
