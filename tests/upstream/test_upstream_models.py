"""The library's own tests of a configuration and of models, over every class of ours."""

from __future__ import annotations

import inspect
import unittest
from typing import Any
from unittest import mock

import pytest
import torch
from library import load
from transformers import PreTrainedModel

from toybert import modeling_toybert as toybert
from toybert.configuration_toybert import ToyBertConfig

common = load("test_modeling_common")
configuration = load("test_configuration_common")

pytestmark = [pytest.mark.pypi, pytest.mark.usefixtures("registered")]


class ToyBertModelTester:
    """Makes the small configuration and the batch that the library's tests ask for."""

    is_training = True
    base_model_class = toybert.ToyBertModel
    batch_size, seq_length, num_choices = 3, 7, 4
    vocab_size, hidden_size, num_hidden_layers, num_attention_heads = 99, 32, 2, 4

    def get_config(self) -> ToyBertConfig:
        return ToyBertConfig(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            intermediate_size=37,
            max_position_embeddings=512,
            type_vocab_size=16,
        )

    def prepare_config_and_inputs_for_common(self) -> tuple[ToyBertConfig, dict[str, torch.Tensor]]:
        shape = (self.batch_size, self.seq_length)
        return self.get_config(), {
            "input_ids": common.ids_tensor(shape, self.vocab_size),
            "attention_mask": common.random_attention_mask(shape),
            "token_type_ids": common.ids_tensor(shape, 16),
        }


class ToyBertToCompile(toybert.ToyBertForMaskedLM):
    """Takes the `use_cache` that the library's test of compiling hands over."""

    def __init__(self, config: ToyBertConfig):
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0  # compiled, the noise is another
        super().__init__(config)

    def forward(self, input_ids: torch.Tensor, use_cache: bool, **inputs: torch.Tensor):
        return super().forward(input_ids, **inputs)


class ToyBertModelTest(common.ModelTesterMixin, unittest.TestCase):
    all_model_classes = (
        toybert.ToyBertModel,
        toybert.ToyBertForPreTraining,
        toybert.ToyBertForMaskedLM,
        toybert.ToyBertForNextSentencePrediction,
        toybert.ToyBertForSequenceClassification,
        toybert.ToyBertForTokenClassification,
        toybert.ToyBertForQuestionAnswering,
        toybert.ToyBertForMultipleChoice,
    )
    additional_model_inputs = ("token_type_ids",)
    test_can_init_all_missing_weights_before_2023 = True  # else it skips a file that names no year

    _torch_compile_train_cls = ToyBertToCompile

    def setUp(self) -> None:
        self.model_tester = ToyBertModelTester()

    def _prepare_for_class(
        self, inputs_dict: dict[str, Any], model_class: type[PreTrainedModel], return_labels: bool = False
    ) -> dict[str, Any]:
        """Adds the labels of pre-training, which the library leaves to each model's tests."""
        inputs = super()._prepare_for_class(inputs_dict, model_class, return_labels=return_labels)
        if return_labels and model_class is toybert.ToyBertForPreTraining:
            inputs["labels"] = torch.zeros_like(inputs["input_ids"])
            inputs["next_sentence_label"] = inputs["input_ids"].new_zeros(self.model_tester.batch_size)
        return inputs

    def test_torch_compile_for_training(self) -> None:
        """Runs the library's test past its gate, which asks for a GPU.

        The graph is captured and differentiated, and then run as it is: to generate code for it is not up to the
        model, takes a minute and wants a C++ compiler.
        """
        compile_with = torch.compile
        with mock.patch(
            "torch.compile",
            lambda model, fullgraph, mode: compile_with(model, fullgraph=fullgraph, backend="aot_eager"),
        ):
            inspect.unwrap(common.ModelTesterMixin.test_torch_compile_for_training)(self)


class ToyBertConfigTest(unittest.TestCase):
    def test_config(self) -> None:
        configuration.ConfigTester(self, config_class=ToyBertConfig, hidden_size=32).run_common_tests()
