"""Fixtures that the tests of the model and of its heads share: a small model and a batch for it."""

from __future__ import annotations

import os
import shutil
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported, so that nothing here asks the Hub
os.environ["HF_DATASETS_CACHE"] = tempfile.mkdtemp()  # what a test finds there, a test of the same run has made
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["HF_MODULES_CACHE"] = tempfile.mkdtemp()  # processes that share one get in each other's way
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a core for each

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from toybert.configuration_toybert import ToyBertConfig

torch.set_num_threads(1)  # tensors this small are faster so, and the sums always run in the same order


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["HF_DATASETS_CACHE"], ignore_errors=True)
    if "PYTEST_XDIST_WORKER" in os.environ:
        shutil.rmtree(os.environ["HF_MODULES_CACHE"], ignore_errors=True)


@pytest.fixture
def make() -> Callable[..., PreTrainedModel]:
    """Returns a function that builds a small model in eval mode, every parameter of which matters.

    A fresh model has zero biases and nearly uniform attention, and would hide what is wrong with either.
    """

    def build(cls: type[PreTrainedModel], implementation: str = "sdpa", **changes) -> PreTrainedModel:
        sizes = {"vocab_size": 40, "hidden_size": 32, "intermediate_size": 64} | changes
        config = ToyBertConfig(**sizes, attn_implementation=implementation)
        model = cls(config).eval()
        stir(model)
        return model

    return build


def stir(model: nn.Module) -> None:
    """Sets every parameter to its mean initial value plus the same noise each time."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = 0.2 * torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise + (1 if name.endswith("norm.weight") else 0))


@pytest.fixture
def batch() -> dict[str, Tensor]:
    """Returns three rows of 12, 9 and 5 tokens, padded to 12, each of two segments."""
    lengths, S = torch.tensor([12, 9, 5]), 12
    generator = torch.Generator().manual_seed(0)
    mask = (torch.arange(S) < lengths[:, None]).long()
    ids = torch.randint(5, 40, (3, S), generator=generator) * mask
    ids[:, 0] = 2
    segments = (torch.arange(S) >= lengths[:, None] // 2).long() * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
