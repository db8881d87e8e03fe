"""The sizes and switches of a ToyBERT model, under the names that BERT's configuration made standard."""

from transformers import PretrainedConfig

ACTIVATIONS = ("gelu_new", "gelu_pytorch_tanh", "gelu")
PROBLEM_TYPES = ("single_label_classification", "multi_label_classification", "regression")


class ToyBertConfig(PretrainedConfig):
    """Holds the architecture of a ToyBERT; the defaults are the shipped model's.

    Every field has the name and the meaning that it has in BERT's configuration. Two are not BERT's:
    `sparse_prediction` (compute word logits at labelled positions only, while there are labels) and
    `next_sentence_labels`, the names of the two classes of next-sentence prediction: **1 means that B follows A**.
    (In Google's and transformers' BERT, 0 means that.)

    Raises:
        ValueError: a size is not a positive integer, a probability is outside [0, 1), `hidden_size` is not a
            multiple of `num_attention_heads`, the activation is unknown, or `pad_token_id` is no token.
    """

    model_type = "toybert"
    keys_to_ignore_at_inference = ["mlm_loss", "nsp_loss"]  # Trainer.predict would return them as predictions
    next_sentence_labels = {0: "NotNext", 1: "IsNext"}

    def __init__(
        self,
        vocab_size=473,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        hidden_act="gelu_new",
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        max_position_embeddings=64,
        type_vocab_size=2,
        initializer_range=0.02,
        layer_norm_eps=1e-12,
        pad_token_id=0,
        classifier_dropout=None,
        sparse_prediction=False,
        tie_word_embeddings=True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = intermediate_size
        self.hidden_act = hidden_act
        self.hidden_dropout_prob = hidden_dropout_prob
        self.attention_probs_dropout_prob = attention_probs_dropout_prob
        self.max_position_embeddings = max_position_embeddings
        self.type_vocab_size = type_vocab_size
        self.initializer_range = initializer_range
        self.layer_norm_eps = layer_norm_eps
        self.classifier_dropout = classifier_dropout
        self.sparse_prediction = sparse_prediction
        # The library's newer versions give these two no default; without the second the decoder is silently untied.
        self.pad_token_id = pad_token_id
        self.tie_word_embeddings = tie_word_embeddings
        self.check()

    def check(self):
        """Refuses values that no model can be built from; a model checks again, as fields can be set later."""
        for name in (
            "vocab_size",
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "intermediate_size",
            "max_position_embeddings",
            "type_vocab_size",
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads {self.num_attention_heads}"
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            value = getattr(self, name)
            if value is None and name == "classifier_dropout":  # then it is hidden_dropout_prob
                continue
            if not isinstance(value, (int, float)) or not 0 <= value < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, got {value!r}")
        for name in ("initializer_range", "layer_norm_eps"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 < value < float("inf"):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if not isinstance(self.tie_word_embeddings, bool):
            raise ValueError(f"tie_word_embeddings must be True or False, got {self.tie_word_embeddings!r}")
        if self.num_labels < 1:
            raise ValueError(f"num_labels must be at least 1, got {self.num_labels}")
        if self.problem_type not in (None, *PROBLEM_TYPES):
            raise ValueError(f"problem_type must be one of {', '.join(PROBLEM_TYPES)}, got {self.problem_type!r}")
        if self.hidden_act not in ACTIVATIONS:
            raise ValueError(f"hidden_act must be one of {', '.join(ACTIVATIONS)}, got {self.hidden_act!r}")
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(f"pad_token_id {self.pad_token_id} is outside the vocabulary of {self.vocab_size} tokens")
