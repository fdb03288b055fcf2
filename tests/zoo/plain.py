"""DP-SGD in plain torch, in parts that a fault replaces one at a time. Settings of all of them: 10 steps an epoch, 5
epochs, noise multiplier 1, clipping norm 1, divisor 20 = 200 records / 10 steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

M, E, SIGMA, C, DIVISOR = 10, 5, 1.0, 1.0, 20.0
Gradients = dict[str, Tensor]
Batches = Callable[[int], Iterator[Tensor]]


def random_allocation(n: int) -> Iterator[Tensor]:
    for _ in range(E):
        step = torch.randint(M, (n,))
        yield from (torch.nonzero(step == t)[:, 0] for t in range(M))


def poisson(n: int) -> Iterator[Tensor]:
    for _ in range(M * E):
        yield torch.nonzero(torch.rand(n) < 1 / M)[:, 0]


def full_batch(n: int) -> Iterator[Tensor]:
    for _ in range(M * E):
        yield torch.arange(n)


def shuffled(n: int) -> Iterator[Tensor]:
    for _ in range(E):
        yield from torch.randperm(n).tensor_split(M)


def per_example(model: nn.Module, x: Tensor, y: Tensor) -> Gradients:
    """name -> (B, *shape), by hooks on the linear layers: outer products of inputs and backward signals."""
    inputs: dict[str, list[Tensor]] = {}
    signals: dict[str, list[Tensor]] = {}
    handles = []
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            handles.append(
                layer.register_forward_hook(lambda _, a, out, name=name: _keep(name, a[0], out, inputs, signals))
            )
    try:
        cross_entropy(model(x), y, reduction="sum").backward()
    finally:
        for handle in handles:
            handle.remove()
    done: Gradients = {}
    for name in inputs:
        # backward signals arrive in the reverse order of the calls
        pairs = list(zip(inputs[name], reversed(signals[name]), strict=True))
        done[f"{name}.weight"] = sum(torch.einsum("bo,bi->boi", g, a) for a, g in pairs)  # type: ignore[assignment]
        done[f"{name}.bias"] = sum(g for _, g in pairs)  # type: ignore[assignment]
    return done


def _keep(name: str, a: Tensor, out: Tensor, inputs: dict[str, list[Tensor]], signals: dict[str, list[Tensor]]) -> None:
    inputs.setdefault(name, []).append(a.detach())
    out.register_hook(lambda g: signals.setdefault(name, []).append(g.detach()))


def norms(gradients: Gradients) -> Tensor:
    """(B,) over all parameters."""
    return torch.sqrt(sum(g.flatten(1).square().sum(1) for g in gradients.values()))


def weighted(gradients: Gradients, weight: Tensor) -> Gradients:
    return {name: torch.tensordot(weight, g, 1) for name, g in gradients.items()}


def clip_each(gradients: Gradients, norm: float = C) -> Gradients:
    """The sum over examples of gradients clipped to `norm`."""
    return weighted(gradients, (norm / norms(gradients)).clamp(max=1))


def gaussian(total: Gradients, deviation: float = SIGMA * C) -> Gradients:
    return {name: g + deviation * torch.randn_like(g) for name, g in total.items()}


class Plain:
    """The parts are methods; a fault overrides one."""

    def __init__(self, batches: Batches = random_allocation, adam: bool = False) -> None:
        self.draw, self.adam = batches, adam

    def __call__(self, model: nn.Module, dataset: torch.utils.data.TensorDataset) -> None:
        x, y = dataset.tensors
        self.step = 0
        self.begin(model)
        optimizer = self.optimizer(model)
        for batch in self.batches(len(x)):
            total = self.noisy_sum(model, x[batch], y[batch])
            for name, p in model.named_parameters():
                p.grad = total[name] / self.divisor(batch) if name in total else None
            optimizer.step()
            self.after(model)
            self.step += 1

    def begin(self, model: nn.Module) -> None: ...

    def after(self, model: nn.Module) -> None: ...

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return (torch.optim.Adam if self.adam else torch.optim.SGD)(model.parameters(), lr=0.1)

    def batches(self, n: int) -> Iterator[Tensor]:
        return self.draw(n)

    def noisy_sum(self, model: nn.Module, x: Tensor, y: Tensor) -> Gradients:
        return self.noise(self.clipped_sum(self.gradients(model, x, y)))

    def gradients(self, model: nn.Module, x: Tensor, y: Tensor) -> Gradients:
        if len(x) == 0:
            return {name: torch.zeros(0, *p.shape) for name, p in model.named_parameters()}
        return per_example(model, x, y)

    def clipped_sum(self, gradients: Gradients) -> Gradients:
        return clip_each(gradients)

    def noise(self, total: Gradients) -> Gradients:
        return gaussian(total)

    def divisor(self, batch: Tensor) -> float:
        return DIVISOR
