"""The optimisers, AdamW and Muon, and the schedules of their learning rates."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR


def orthogonalised(matrices: Tensor, steps: int = 5) -> Tensor:
    """Moves all singular values of a stack of matrices (N, rows, columns) near to 1, rows <= columns.

    Newton-Schulz iteration with the quintic polynomial of Jordan et al. 2024 (Muon), which needs only matrix products:
    with the Gram matrix G = X X^T, a step is X <- (a + b G + c G^2) X.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices / (matrices.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    rows, columns = x.shape[-2:]
    if columns < 2 * rows or x.dtype != torch.float32:
        for _ in range(steps):
            gram = x @ x.mT
            x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
        return x
    # For a wide matrix, all steps can be done on its small Gram matrix, and X multiplied once at the end: with
    # P = a + b G + c G^2, the next Gram matrix is P G P. In half precision that would not be accurate enough.
    gram = x @ x.mT
    product = None
    for step in range(steps):
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        polynomial.diagonal(dim1=-2, dim2=-1).add_(a)
        product = polynomial if product is None else polynomial @ product
        if step < steps - 1:
            gram = polynomial @ gram @ polynomial
    return product @ x


class Muon(torch.optim.Optimizer):
    """Steps each matrix along the orthogonal matrix nearest to its momentum (Jordan et al. 2024).

    `torch.optim.Muon` iterates in bf16 on every device, which most CPUs do slowly, and on one matrix at a time. This
    class iterates in float32 on a CPU, and on all matrices of one shape (or its transpose) together.
    """

    def __init__(self, params: Iterable[Tensor], lr: float = 0.02, momentum: float = 0.95, weight_decay: float = 0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # no closures here
        """Takes one step with Nesterov momentum."""
        for group in self.param_groups:
            stacks: dict[tuple[int, int], list[tuple[nn.Parameter, Tensor]]] = {}
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param]
                if not state:
                    state["momentum"] = torch.zeros_like(param.grad)
                state["momentum"].lerp_(param.grad, 1 - group["momentum"])
                update = param.grad.lerp(state["momentum"], group["momentum"])
                update = update if update.shape[0] <= update.shape[1] else update.mT
                stacks.setdefault(tuple(update.shape), []).append((param, update))
            for entries in stacks.values():
                stack = torch.stack([update for _, update in entries])
                updates = orthogonalised(stack.bfloat16() if stack.is_cuda else stack.float())
                for (param, _), update in zip(entries, updates, strict=True):
                    rows, columns = param.shape
                    update = update if rows <= columns else update.mT
                    param.mul_(1 - group["lr"] * group["weight_decay"])
                    param.add_(update.to(param.dtype), alpha=-group["lr"] * max(1, rows / columns) ** 0.5)


def make_optimizers(
    model: nn.Module, learning_rate: float, weight_decay: float, muon_learning_rate: float = 0.0
) -> list[torch.optim.Optimizer]:
    """Makes AdamW for all parameters; or, with a rate for it, Muon for the matrices in layers and AdamW for the rest.

    Biases and norms do not decay (section A.2 has 0.01 for the matrices). Without decay, AdamW is Adam.
    """
    vectors = [param for param in model.parameters() if param.ndim < 2]
    matrices = {name: param for name, param in model.named_parameters() if param.ndim > 1}
    for_muon = [matrices.pop(name) for name in list(matrices) if muon_learning_rate and ".layers." in name]
    groups = [
        {"params": list(matrices.values()), "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(groups, lr=learning_rate, fused=True)
    return [adamw, Muon(for_muon, lr=muon_learning_rate)] if for_muon else [adamw]


def warmup_then_linear(step: int, warmup_steps: int, total_steps: int) -> float:
    """Returns the factor on the learning rate: up over the warm-up, then down to 0 at the last step (section A.2)."""
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    return max(0.0, (total_steps - step) / max(1, total_steps - warmup_steps))


def make_schedulers(optimizers: Iterable[Any], schedule: str, warmup_steps: int, total_steps: int) -> list[LambdaLR]:
    """Makes a schedule, linear or constant, for the learning rates of each optimiser that accelerate has prepared.

    The schedules themselves are not prepared, since accelerate would step them once for every process.
    """

    def factor(step: int) -> float:
        return warmup_then_linear(step, warmup_steps, total_steps) if schedule == "linear" else 1.0

    return [LambdaLR(optimizer.optimizer, factor) for optimizer in optimizers]
