"""Claims about the optimisers."""

from copy import deepcopy
from itertools import pairwise

import pytest
import torch
from torch import nn

from toybert.configuration_toybert import ToyBertConfig
from toybert.modeling_toybert import ToyBertForPreTraining
from toybert.train.loop.optim import Muon, make_optimizers, orthogonalised, warmup_then_linear


@pytest.fixture
def model() -> ToyBertForPreTraining:
    torch.manual_seed(0)
    return ToyBertForPreTraining(ToyBertConfig(vocab_size=50))


@pytest.mark.parametrize("muon", [0.0, 0.02])
def test_every_parameter_is_in_one_group_and_only_matrices_decay(model: ToyBertForPreTraining, muon: float) -> None:
    optimizers = make_optimizers(model, learning_rate=1e-3, weight_decay=0.01, muon_learning_rate=muon)
    grouped = [param for optimizer in optimizers for group in optimizer.param_groups for param in group["params"]]
    assert len(grouped) == len({id(param) for param in grouped})
    assert {id(param) for param in grouped} == {id(param) for param in model.parameters()}  # the tied one once
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if group["weight_decay"]:
                assert all(param.ndim == 2 for param in group["params"])
    assert [type(optimizer) for optimizer in optimizers] == [torch.optim.AdamW, *([Muon] if muon else [])]


def test_muon_has_the_matrices_of_the_layers_and_nothing_else(model: ToyBertForPreTraining) -> None:
    _, muon = make_optimizers(model, learning_rate=1e-3, weight_decay=0.0, muon_learning_rate=0.02)
    matrices = {id(p) for name, p in model.named_parameters() if name.startswith("bert.layers.") and p.ndim == 2}
    assert {id(param) for group in muon.param_groups for param in group["params"]} == matrices
    assert len(matrices) == 12


def test_orthogonalised_matrices_have_singular_values_near_1() -> None:
    torch.manual_seed(0)
    singular = torch.linalg.svdvals(orthogonalised(torch.randn(4, 32, 64)))
    assert singular.min() > 0.6
    assert singular.max() < 1.3


@pytest.mark.parametrize("rank", [16, 2])
def test_a_wide_matrix_is_orthogonalised_on_its_gram_matrix_as_it_is_step_by_step(rank: int) -> None:
    torch.manual_seed(0)
    wide = torch.randn(3, 16, rank) @ torch.randn(3, rank, 64) + 1e-3 * torch.randn(3, 16, 64)
    expected = orthogonalised(wide.double())  # in any type but float32, step by step
    found = orthogonalised(wide)
    # Squares of small singular values lose digits: 2e-4 of what is moved, far below the bf16 that torch's Muon takes.
    assert (found - expected).norm() < 2e-4 * expected.norm()


def test_muon_moves_as_torchs_does_within_bf16_rounding() -> None:
    torch.manual_seed(0)
    shapes = [(16, 16), (16, 16), (64, 16), (16, 64)]
    ours = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = [nn.Parameter(param.detach().clone()) for param in ours]
    muon = Muon(ours, lr=0.02)
    reference = torch.optim.Muon(theirs, lr=0.02, weight_decay=0.0, adjust_lr_fn="original")
    for _ in range(5):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        muon.step()
        reference.step()
    start = torch.Generator().manual_seed(0)
    for a, b, shape in zip(ours, theirs, shapes, strict=True):
        moved = (a - b).norm() / (a - torch.randn(shape, generator=start)).norm()
        assert moved < 0.02  # bf16 keeps 8 bits: 0.4 % a product, and fifteen products follow one another


def test_muon_resumes_from_its_state_exactly() -> None:
    torch.manual_seed(0)
    param = nn.Parameter(torch.randn(8, 8))
    gradients = torch.randn(4, 8, 8)
    muon = Muon([param])
    for step, gradient in enumerate(gradients):
        if step == 2:
            copy = nn.Parameter(param.detach().clone())
            resumed = Muon([copy])
            resumed.load_state_dict(deepcopy(muon.state_dict()))
        param.grad = gradient
        muon.step()
        if step >= 2:
            copy.grad = gradient
            resumed.step()
    assert torch.equal(param, copy)


def test_the_schedule_warms_up_to_1_and_ends_near_0() -> None:
    factors = [warmup_then_linear(step, 10, 100) for step in range(101)]
    assert factors[10] == 1.0
    assert factors[100] == 0.0
    assert 0 < factors[99] < 0.02
    assert all(a < b for a, b in pairwise(factors[:11]))
    assert all(a > b for a, b in pairwise(factors[10:]))
