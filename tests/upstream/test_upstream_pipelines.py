"""The library's own test of pipelines, over our classes in checkpoints that are built here.

What each task's pipeline must give is a part that the sdist lacks: the classes below stand in for it.
"""

from __future__ import annotations

import unittest
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from library import load
from transformers import Pipeline, PreTrainedModel, PreTrainedTokenizerBase, pipeline

from toybert import modeling_toybert as toybert
from toybert.configuration_toybert import ToyBertConfig
from toybert.tokenization_toybert import SPECIAL_TOKENS, ToyBertTokenizer

mixin = load("test_pipeline_mixin")

pytestmark = [pytest.mark.pypi, pytest.mark.usefixtures("registered", "tiny_checkpoints")]

WORDS = "the cat sat on mat . dog this example is about food weather"


class TaskTests:
    """Opens a task's pipeline on a model as the library's own task tests do, in the precision that is asked for."""

    task: str
    options: ClassVar[dict[str, Any]] = {}
    examples: ClassVar[list[str]] = ["the cat sat on the mat .", "the dog sat"]

    def get_test_pipeline(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, dtype: str
    ) -> tuple[Pipeline, list[str]]:
        model = model.to(getattr(torch, dtype))
        opened = pipeline(self.task, model=model, tokenizer=tokenizer, **self.options)
        return opened, self.examples

    def run_pipeline_test(self, opened: Pipeline, examples: list[str]) -> None:
        answers = opened(examples)
        assert len(answers) == len(examples)
        for example, answer in zip(examples, answers, strict=True):
            self.check(opened, example, answer)

    def check(self, opened: Pipeline, example: str, answer: Any) -> None:
        raise NotImplementedError


class FeatureExtractionPipelineTests(TaskTests):
    task = "feature-extraction"

    def check(self, opened: Pipeline, example: str, answer: Any) -> None:
        shape = (1, len(opened.tokenizer(example)["input_ids"]), opened.model.config.hidden_size)
        assert np.array(answer).shape == shape


class FillMaskPipelineTests(TaskTests):
    task = "fill-mask"
    examples: ClassVar = ["the [MASK] sat on the mat .", "the dog [MASK]"]

    def check(self, opened: Pipeline, example: str, answer: Any) -> None:
        scores = [guess["score"] for guess in answer]
        assert len(answer) == 5
        assert scores == sorted(scores, reverse=True)
        assert 0 < sum(scores) < 1
        for guess in answer:
            assert guess["token_str"] == opened.tokenizer.decode(guess["token"])
            assert example.split()[0] in guess["sequence"]


class TextClassificationPipelineTests(TaskTests):
    task = "text-classification"
    options: ClassVar = {"top_k": None}

    def check(self, opened: Pipeline, example: str, answer: Any) -> None:
        assert {choice["label"] for choice in answer} == set(opened.model.config.label2id)
        assert sum(choice["score"] for choice in answer) == pytest.approx(1, abs=1e-2)


class TokenClassificationPipelineTests(TaskTests):
    task = "token-classification"

    def check(self, opened: Pipeline, example: str, answer: Any) -> None:
        assert [example[token["start"] : token["end"]] for token in answer] == example.split()
        assert {token["entity"] for token in answer} <= set(opened.model.config.label2id)


class ZeroShotClassificationPipelineTests(TaskTests):
    task = "zero-shot-classification"
    options: ClassVar = {"candidate_labels": ["food", "weather"]}

    def check(self, opened: Pipeline, example: str, answer: Any) -> None:
        assert answer["sequence"] == example
        assert set(answer["labels"]) == {"food", "weather"}
        assert sum(answer["scores"]) == pytest.approx(1, abs=1e-2)


@pytest.fixture(scope="module")
def tiny_checkpoints(tmp_path_factory: pytest.TempPathFactory):
    """Saves a checkpoint for each class where the library's test will look for it, in place of those on the Hub."""
    folder = tmp_path_factory.mktemp("tiny")
    classes = set(ToyBertPipelineTest.pipeline_model_mapping.values())
    tokenizer = ToyBertTokenizer(vocab={word: index for index, word in enumerate([*SPECIAL_TOKENS, *WORDS.split()])})
    torch.manual_seed(0)
    for cls in classes:
        config = ToyBertConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            id2label={0: "contradiction", 1: "neutral", 2: "entailment"},  # zero-shot asks for the last
            label2id={"contradiction": 0, "neutral": 1, "entailment": 2},
        )
        path = folder / "toybert" / cls.__name__
        cls(config).save_pretrained(path)
        tokenizer.save_pretrained(path)
    summary = {cls.__name__: {"tokenizer_classes": ["AutoTokenizer"], "processor_classes": []} for cls in classes}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixin, "TRANSFORMERS_TINY_MODEL_PATH", str(folder))
        patch.setattr(mixin, "tiny_model_summary", summary)
        for tests in TaskTests.__subclasses__():
            task = tests.task.removesuffix("-classification") if tests.task.startswith("zero") else tests.task
            patch.setitem(mixin.pipeline_test_mapping, task, {"test": f"{__name__}.{tests.__name__}"})
        yield


class ToyBertPipelineTest(mixin.PipelineTesterMixin, unittest.TestCase):
    pipeline_model_mapping: ClassVar = {
        "feature-extraction": toybert.ToyBertModel,
        "fill-mask": toybert.ToyBertForMaskedLM,
        "text-classification": toybert.ToyBertForSequenceClassification,
        "token-classification": toybert.ToyBertForTokenClassification,
        "zero-shot": toybert.ToyBertForSequenceClassification,
    }
