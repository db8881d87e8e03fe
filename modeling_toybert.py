"""BERT, whole and small: the network of Devlin et al. 2018 (arXiv:1810.04805), read from top to bottom.

Shapes stand at the right of the lines that make them, in these letters:

    B batch   S sequence   D hidden size   H heads   K = D / H   V vocabulary
"""

import copy
import math
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
from transformers.utils import ModelOutput

from .configuration_toybert import ToyBertConfig


class GELU(nn.Module):
    """Applies the Gaussian error linear unit (section A.2 of the paper; Hendrycks & Gimpel 2016), element by element.

    `approximate="tanh"` is the formula that BERT's code came to use,

        0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))

    and `"none"` the exact x * Phi(x), with which many BERT checkpoints were published.
    """

    def __init__(self, approximate: str = "tanh"):
        super().__init__()
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, approximate=self.approximate)


def activation(config: ToyBertConfig) -> GELU:
    """Gives the activation that the configuration names."""
    return GELU("none" if config.hidden_act == "gelu" else "tanh")


def classifier_dropout(config: ToyBertConfig) -> nn.Dropout:
    """Gives the dropout in front of a classifier: like everywhere else, unless the configuration has one for it."""
    return nn.Dropout(config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout)


def cross_entropy(logits: Tensor, labels: Tensor, num_items: Tensor | int | None = None) -> Tensor:
    """Gives the mean cross-entropy over the labels that are not -100, or their sum over `num_items` if given."""
    try:
        total = F.cross_entropy(logits.float(), labels, ignore_index=-100, reduction="sum")  # a sum overflows in fp16
    except IndexError:  # on a CPU; a GPU only knows an assertion, and asking beforehand would make it wait
        given = labels[labels != -100]
        raise ValueError(
            f"labels run from {given.min()} to {given.max()}, the model has {logits.shape[-1]} classes"
        ) from None
    if num_items is None:
        num_items = (labels != -100).sum()
    return total / torch.as_tensor(num_items).clamp(min=1)  # nothing to learn from: a loss of 0, not NaN


def without_padding(attention_mask: Tensor) -> bool:
    """Tells whether every token is real, where it can be known without waiting: then no mask has to be made."""
    on_cpu = attention_mask.device.type == "cpu"  # a GPU would have to catch up first
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()  # a graph has to hold for other masks too
    return on_cpu and not traced and bool(attention_mask.all())


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
        self,
        input_ids: Tensor | None,  # (B, S)
        token_type_ids: Tensor | None = None,  # (B, S)
        position_ids: Tensor | None = None,  # (B, S) or (1, S)
        inputs_embeds: Tensor | None = None,  # (B, S, D)
    ) -> Tensor:
        """Gives (B, S, D); segments default to 0 and positions to 0 .. S-1."""
        given = inputs_embeds if input_ids is None else input_ids
        S = given.shape[1]
        if position_ids is None:
            position_ids = torch.arange(S, device=given.device)[None]  # (1, S)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(given[..., 0] if input_ids is None else given, dtype=torch.long)
        words = inputs_embeds if input_ids is None else self._look_up(self.token, input_ids, "token id")
        x = words + self._look_up(self.segment, token_type_ids, "token type")
        x = x + self._look_up(self.position, position_ids, "position")
        return self.dropout(self.norm(x))

    @staticmethod
    def _look_up(table: nn.Embedding, ids: Tensor, name: str) -> Tensor:
        try:
            return table(ids)
        except IndexError:  # on a CPU, as above
            low, high = ids.min().item(), ids.max().item()
            worst = low if low < 0 else high
            raise ValueError(
                f"{name} {worst} is outside the model's {table.num_embeddings} ({name}s start at 0)"
            ) from None


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
        """Gives (B, S, D), and the weights (B, H, S, S) where the formula is written out, else None.

        `mask`, bool (B, 1, 1, S), is True where a position may be attended to.
        """
        B, S, D = x.shape
        H = self.num_heads
        K = D // H
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
        self.gelu = activation(config)
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
        self.gelu = activation(config)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(
        self, x: Tensor, labels: Tensor | None = None, num_items: Tensor | int | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Gives the logits (B, S, V) and, with labels (B, S), the mean cross-entropy over those that are not -100.

        `num_items` replaces the number of targets that the sum is divided by. With `sparse_prediction` and labels, the
        logits are (N, V): only the N labelled positions are computed, in their order.
        """
        if labels is not None and self.config.sparse_prediction:
            chosen = labels != -100
            x, labels = x[chosen], labels[chosen]  # (N, D), (N,)
        logits = self.decoder(self.norm(self.gelu(self.dense(x))))
        if labels is None:
            return logits, None
        return logits, cross_entropy(logits.flatten(0, -2), labels.flatten(), num_items)


@dataclass
class ToyBertForPreTrainingOutput(ModelOutput):
    """Carries the sum of the losses, both heads' logits and, last, the losses apart: their sum hides a dead head."""

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
    _supports_sdpa = True
    _no_split_modules = ["BERTEmbedding", "TransformerEncoderLayer"]

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        return True  # the library would guess it from the source, wrongly

    def __init__(self, config: ToyBertConfig):
        config.check()
        super().__init__(config)

    def _init_weights(self, module: nn.Module) -> None:
        """Draws weights from a normal distribution, sets biases to 0 and norms to 1.

        Only through `nn.init`: the library makes these calls skip a tensor that came from a checkpoint.
        """
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=self.config.initializer_range)
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
        if getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.base_model.embeddings.token

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.base_model.embeddings.token = value

    def get_output_embeddings(self) -> nn.Linear | None:
        return self.mlm_head.decoder if hasattr(self, "mlm_head") else None

    def set_output_embeddings(self, value: nn.Linear) -> None:
        self.mlm_head.decoder = value

    def _reply(self, output: ModelOutput, return_dict: bool | None) -> ModelOutput | tuple:
        """Gives the output as it is, or as a tuple of what it holds."""
        if return_dict is None:
            return_dict = self.config.return_dict
        return output if return_dict else output.to_tuple()


class ToyBertModel(ToyBertPreTrainedModel):
    """Encodes sequences: embedding, layers, and the pooler unless `add_pooling_layer` is False (section 3)."""

    _keys_to_ignore_on_load_unexpected = [r"^mlm_head\.", r"^nsp_head\."]

    def __init__(self, config: ToyBertConfig, add_pooling_layer: bool = True):
        super().__init__(config)
        self.embeddings = BERTEmbedding(config)
        self.layers = nn.ModuleList(TransformerEncoderLayer(config) for _ in range(config.num_hidden_layers))
        self.pooler = Pooler(config) if add_pooling_layer else None
        self.post_init()

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None, output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> BaseModelOutputWithPooling | tuple:  # fmt: skip
        """Gives last_hidden_state (B, S, D), pooler_output (B, D) and, on request, hidden_states and attentions.

        Args:
            input_ids: token ids (B, S); or give `inputs_embeds` (B, S, D) in their place.
            attention_mask: (B, S), 1 for a real token and 0 for padding; nothing is masked without it.
            token_type_ids: (B, S), 0 in the first segment and 1 in the second.
            position_ids: (B, S), 0 .. S-1 unless given.
            output_attentions: return each layer's weights (B, H, S, S), which are then computed by the formula.
            output_hidden_states: return the embedding and each layer's output, each (B, S, D).

        Raises:
            ValueError: neither or both kinds of input are given, the input is too long, an id is outside its table,
                or the mask's shape is not the input's.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds, and not both")
        B, S = (input_ids if inputs_embeds is None else inputs_embeds).shape[:2]
        if position_ids is None and self.config.max_position_embeddings < S:
            raise ValueError(f"input is {S} tokens long, the model takes at most {self.config.max_position_embeddings}")
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states

        mask = None
        if attention_mask is not None:
            if attention_mask.shape != (B, S):
                raise ValueError(f"attention_mask has shape {tuple(attention_mask.shape)}, the input has {(B, S)}")
            if not without_padding(attention_mask):
                mask = attention_mask.bool()[:, None, None, :]  # (B, 1, 1, S)
                mask = mask | ~mask.any(-1, keepdim=True)  # a row of nothing but padding attends to all of it: no NaN
        written_out = output_attentions or self.config._attn_implementation != "sdpa"

        x = self.embeddings(input_ids, token_type_ids, position_ids, inputs_embeds)
        hidden_states, attentions = [x], []
        for layer in self.layers:
            x, weights = layer(x, mask, written_out)
            hidden_states.append(x)
            attentions.append(weights)

        return self._reply(
            BaseModelOutputWithPooling(
                last_hidden_state=x,
                pooler_output=None if self.pooler is None else self.pooler(x),
                hidden_states=tuple(hidden_states) if output_hidden_states else None,
                attentions=tuple(attentions) if output_attentions else None,
            ),
            return_dict,
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

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None, next_sentence_label: Tensor | None = None,
        output_attentions: bool | None = None, output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> ToyBertForPreTrainingOutput | tuple:  # fmt: skip
        """Gives both heads' logits; the loss is the sum of those whose labels are given.

        Args:
            labels: (B, S), the token to predict, -100 where there is nothing to predict.
            next_sentence_label: (B,), 1 where B follows A and 0 where it does not.
        """
        encoded = self.bert(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds,
            output_attentions, output_hidden_states, return_dict=True,
        )  # fmt: skip
        prediction_logits, mlm_loss = self.mlm_head(encoded.last_hidden_state, labels)
        seq_relationship_logits = self.nsp_head(encoded.pooler_output)  # (B, 2)
        nsp_loss = None
        if next_sentence_label is not None:
            nsp_loss = cross_entropy(seq_relationship_logits, next_sentence_label.flatten())
        losses = [loss for loss in (mlm_loss, nsp_loss) if loss is not None]
        return self._reply(
            ToyBertForPreTrainingOutput(
                loss=sum(losses) if losses else None,
                prediction_logits=prediction_logits,
                seq_relationship_logits=seq_relationship_logits,
                hidden_states=encoded.hidden_states,
                attentions=encoded.attentions,
                mlm_loss=mlm_loss,
                nsp_loss=nsp_loss,
            ),
            return_dict,
        )


class ToyBertWithHead(ToyBertPreTrainedModel):
    """Encodes a batch and asks one head about it: its subclasses differ in what `ask` does."""

    output_class: type[ModelOutput]

    def ask(
        self, encoded: BaseModelOutputWithPooling, labels: Tensor | None, num_items: Tensor | int | None
    ) -> tuple[Tensor, Tensor | None]:
        """Gives the head's logits and, with labels, the loss."""
        raise NotImplementedError

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None, output_hidden_states: bool | None = None,
        return_dict: bool | None = None, num_items_in_batch: Tensor | int | None = None,
    ) -> ModelOutput | tuple:  # fmt: skip
        """Gives loss, logits, hidden_states and attentions; see `ToyBertModel` for the input, `ask` for the rest.

        `num_items_in_batch` is the number of labels to divide the loss by, where it is not this batch's own.
        """
        encoded = self.bert(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds,
            output_attentions, output_hidden_states, return_dict=True,
        )  # fmt: skip
        logits, loss = self.ask(encoded, labels, num_items_in_batch)
        output = self.output_class(
            loss=loss, logits=logits, hidden_states=encoded.hidden_states, attentions=encoded.attentions
        )
        return self._reply(output, return_dict)


class ToyBertForMaskedLM(ToyBertWithHead):
    """Predicts masked words (section 3.1, task 1)."""

    output_class = MaskedLMOutput
    accepts_loss_kwargs = True  # Trainer then hands over the number of targets of all accumulated batches
    _tied_weights_keys = {"mlm_head.decoder.weight": "bert.embeddings.token.weight"}
    _keys_to_ignore_on_load_unexpected = [r"^nsp_head\.", r"^(bert\.)?pooler\."]

    def __init__(self, config: ToyBertConfig):
        super().__init__(config)
        self.bert = ToyBertModel(config, add_pooling_layer=False)
        self.mlm_head = MLMHead(config)
        self.post_init()

    def ask(self, encoded, labels, num_items):
        """Gives logits (B, S, V); `labels` (B, S) are the tokens to predict, -100 where there is nothing to predict."""
        return self.mlm_head(encoded.last_hidden_state, labels, num_items)


class ToyBertForNextSentencePrediction(ToyBertWithHead):
    """Tells whether B follows A (section 3.1, task 2): **class 1 means that it does**, 0 that it does not."""

    output_class = NextSentencePredictorOutput
    _keys_to_ignore_on_load_unexpected = [r"^mlm_head\."]

    def __init__(self, config: ToyBertConfig):
        config = copy.deepcopy(config)  # the names of these two classes are nobody else's
        config.id2label = dict(config.next_sentence_labels)
        config.label2id = {name: index for index, name in config.id2label.items()}
        super().__init__(config)
        self.bert = ToyBertModel(config)
        self.nsp_head = nn.Linear(config.hidden_size, 2)
        self.post_init()

    def ask(self, encoded, labels, num_items):
        """Gives logits (B, 2); `labels` (B,) are 1 where B follows A."""
        logits = self.nsp_head(encoded.pooler_output)
        return logits, None if labels is None else cross_entropy(logits, labels.flatten(), num_items)


class ToyBertForSequenceClassification(ToyBertWithHead):
    """Classifies a sequence or a pair: the pooled [CLS], dropout, one linear layer (section 4.1)."""

    output_class = SequenceClassifierOutput
    _keys_to_ignore_on_load_unexpected = [r"^mlm_head\.", r"^nsp_head\."]

    def __init__(self, config: ToyBertConfig):
        super().__init__(config)
        self.bert = ToyBertModel(config)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def ask(self, encoded, labels, num_items):
        """Gives logits (B, num_labels).

        `labels` are (B,) class numbers, (B, num_labels) of 0 and 1 where several can hold, or (B,) or (B, num_labels)
        numbers to regress on. `config.problem_type` says which; unset, it is told from the first labels.

        Raises:
            ValueError: a label is not one of the classes, or the labels do not have the shape that they should.
        """
        logits = self.classifier(self.dropout(encoded.pooler_output))
        if labels is None:
            return logits, None
        if self.config.problem_type is None:
            if self.config.num_labels == 1:
                self.config.problem_type = "regression"
            elif labels.dim() == 2 and labels.shape[1] == self.config.num_labels:
                self.config.problem_type = "multi_label_classification"
            else:
                self.config.problem_type = "single_label_classification"
        if self.config.problem_type == "single_label_classification":
            return logits, cross_entropy(logits, labels.flatten(), num_items)
        if labels.numel() != logits.numel():
            raise ValueError(f"labels have shape {tuple(labels.shape)}, the logits {tuple(logits.shape)}")
        labels = labels.view_as(logits).to(logits.dtype)
        if self.config.problem_type == "regression":
            return logits, F.mse_loss(logits, labels)
        return logits, F.binary_cross_entropy_with_logits(logits, labels)


class ToyBertForTokenClassification(ToyBertWithHead):
    """Classifies every token, as in named entity recognition: dropout, one linear layer (section 5.3)."""

    output_class = TokenClassifierOutput
    accepts_loss_kwargs = True
    _keys_to_ignore_on_load_unexpected = [r"^mlm_head\.", r"^nsp_head\.", r"^(bert\.)?pooler\."]

    def __init__(self, config: ToyBertConfig):
        super().__init__(config)
        self.bert = ToyBertModel(config, add_pooling_layer=False)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def ask(self, encoded, labels, num_items):
        """Gives logits (B, S, num_labels); `labels` (B, S) are class numbers, -100 where there is nothing to tell."""
        logits = self.classifier(self.dropout(encoded.last_hidden_state))
        if labels is None:
            return logits, None
        return logits, cross_entropy(logits.flatten(0, 1), labels.flatten(), num_items)


class ToyBertForQuestionAnswering(ToyBertPreTrainedModel):
    """Finds the span of B that answers the question A: a score to start and one to end at each token (section 4.2)."""

    _keys_to_ignore_on_load_unexpected = [r"^mlm_head\.", r"^nsp_head\.", r"^(bert\.)?pooler\."]

    def __init__(self, config: ToyBertConfig):
        super().__init__(config)
        self.bert = ToyBertModel(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,
        start_positions: Tensor | None = None, end_positions: Tensor | None = None,
        output_attentions: bool | None = None, output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> QuestionAnsweringModelOutput | tuple:  # fmt: skip
        """Gives start_logits and end_logits (B, S) and, with both positions, the mean of their losses.

        Args:
            start_positions: (B,), the answer's first token; one outside 0 .. S-1, as of an answer cut off, is left out.
            end_positions: (B,), the answer's last token; the same holds.
        """
        encoded = self.bert(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds,
            output_attentions, output_hidden_states, return_dict=True,
        )  # fmt: skip
        both = self.qa_outputs(encoded.last_hidden_state)  # (B, S, 2)
        start_logits, end_logits = (logits.contiguous() for logits in both.unbind(-1))  # (B, S), to gather from GPUs
        loss = None
        if start_positions is not None and end_positions is not None:
            losses = []
            for logits, positions in ((start_logits, start_positions), (end_logits, end_positions)):
                inside = (positions >= 0) & (positions < logits.shape[1])
                losses.append(cross_entropy(logits, positions.masked_fill(~inside, -100).flatten()))
            loss = sum(losses) / 2
        output = QuestionAnsweringModelOutput(
            loss=loss, start_logits=start_logits, end_logits=end_logits,
            hidden_states=encoded.hidden_states, attentions=encoded.attentions,
        )  # fmt: skip
        return self._reply(output, return_dict)


class ToyBertForMultipleChoice(ToyBertPreTrainedModel):
    """Chooses one of C ways to go on from A: each pair (A, choice) gets a score from its pooled [CLS] (section 4.4)."""

    _keys_to_ignore_on_load_unexpected = [r"^mlm_head\.", r"^nsp_head\."]

    def __init__(self, config: ToyBertConfig):
        super().__init__(config)
        self.bert = ToyBertModel(config)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.post_init()

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, position_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None, output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> MultipleChoiceModelOutput | tuple:  # fmt: skip
        """Gives logits (B, C); every input has one dimension more than elsewhere, (B, C, S).

        Args:
            labels: (B,), the number of the right choice.

        Raises:
            ValueError: an input is not (B, C, S).
        """
        inputs = (input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        given = inputs_embeds if input_ids is None else input_ids
        for each in inputs:
            if each is not None and each.dim() != (4 if each is inputs_embeds else 3):
                raise ValueError(f"every input must be (B, C, S), one has shape {tuple(each.shape)}")
        encoded = self.bert(
            *(None if each is None else each.flatten(0, 1) for each in inputs),  # (B * C, S)
            output_attentions, output_hidden_states, return_dict=True,
        )  # fmt: skip
        logits = self.classifier(self.dropout(encoded.pooler_output)).view(given.shape[:2])  # (B, C)
        output = MultipleChoiceModelOutput(
            loss=None if labels is None else cross_entropy(logits, labels.flatten()), logits=logits,
            hidden_states=encoded.hidden_states, attentions=encoded.attentions,
        )  # fmt: skip
        return self._reply(output, return_dict)
