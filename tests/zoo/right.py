"""Trainers that do what they claim, of every make: none of them may be reported, beyond the stated alpha."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from coalmine.audit.bounds import FixedBins, Gaussian, Mechanism, PoissonSampling, RandomAllocation
from coalmine.audit.training.opacus_sampler import EmptyBatchCollate, RandomAllocationBatchSampler
from coalmine.audit.training.settings import TrainingSettings
from coalmine.audit.white_box.adapters import arrays, engine

from .plain import DIVISOR, SIGMA, C, E, M, Plain, full_batch, poisson, random_allocation

ALLOCATION, POISSON, FULL = RandomAllocation(M, E, SIGMA), PoissonSampling(1 / M, M * E, SIGMA), Gaussian(SIGMA, M * E)
FULL_BATCH = Gaussian(10 * SIGMA, M * E)


def by_hand(model: nn.Module, dataset: Any) -> None:
    """A loop over examples, as a textbook writes it, with Adam."""
    x, y = dataset.tensors
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    for batch in poisson(len(x)):
        total = [torch.zeros_like(p) for p in parameters]
        for i in batch.tolist():
            optimizer.zero_grad()
            cross_entropy(model(x[i : i + 1]), y[i : i + 1]).backward()
            norm = torch.sqrt(sum(p.grad.square().sum() for p in parameters))
            for t, p in zip(total, parameters, strict=True):
                t += p.grad * (C / (norm + 1e-12)).clamp(max=1)
        for t, p in zip(total, parameters, strict=True):
            p.grad = (t + SIGMA * C * torch.randn_like(t)) / DIVISOR
        optimizer.step()


def functional(model: nn.Module, dataset: Any) -> dict[str, torch.Tensor]:
    """torch.func without any optimiser: the weights are a dictionary that is replaced."""
    x, y = dataset.tensors
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss(weights: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return cross_entropy(functional_call(model, weights, (x[None],)), y[None])

    for batch in random_allocation(len(x)):
        g = vmap(grad(loss), (None, 0, 0))(weights, x[batch], y[batch])
        norm = torch.sqrt(sum(v.flatten(1).square().sum(1) for v in g.values()))
        scale = (C / norm).clamp(max=1)
        for name in weights:
            noisy = torch.tensordot(scale, g[name], 1) + SIGMA * C * torch.randn_like(weights[name])
            weights = weights | {name: weights[name] - 0.1 * noisy / DIVISOR}
    return weights


class Accumulated(Plain):
    """Micro-batches of 7, noise once a step."""

    def noisy_sum(self, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
        for a, b in zip(x.split(7), y.split(7), strict=True):
            part = self.clipped_sum(self.gradients(model, a, b))
            total = {name: total[name] + part[name] for name in total}
        return self.noise(total)


def opacus(sampler: str, micro_batch: int | None = None, **options: Any) -> Callable[[nn.Module, Any], None]:
    """GradSampleModule and DPOptimizer with public constants."""

    def train(model: nn.Module, dataset: Any) -> None:
        from opacus import GradSampleModule
        from opacus.data_loader import DPDataLoader
        from opacus.optimizers import DPOptimizer

        module = GradSampleModule(model)
        optimizer = DPOptimizer(
            torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9),
            noise_multiplier=SIGMA,
            max_grad_norm=C,
            expected_batch_size=DIVISOR,  # type: ignore[arg-type]
        )
        if sampler == "poisson":
            loader = DPDataLoader(dataset, sample_rate=1 / M, **options)
        else:
            batches = RandomAllocationBatchSampler(len(dataset), M, seed=int(torch.randint(2**31, ())))
            loader = DataLoader(dataset, batch_sampler=batches, collate_fn=EmptyBatchCollate(dataset))
        for _ in range(E):
            for x, y in loader:
                if len(x) == 0 and sampler == "poisson":
                    x, y = dataset.tensors[0][:0], dataset.tensors[1][:0]
                pieces = (
                    [(x, y)]
                    if micro_batch is None or len(x) == 0
                    else list(zip(x.split(micro_batch), y.split(micro_batch), strict=True))
                )
                for k, (a, b) in enumerate(pieces):
                    optimizer.signal_skip_step(k < len(pieces) - 1)
                    cross_entropy(module(a), b).backward()
                    optimizer.step()
                    optimizer.zero_grad()

    return train


def settings(sampler: str, noise_multiplier: float = SIGMA) -> TrainingSettings:
    return TrainingSettings(
        steps_per_epoch=M,
        epochs=E,
        learning_rate=0.1,
        public_size=DIVISOR * M,
        noise_multiplier=noise_multiplier,
        clipping_norm=C,
        sampler=sampler,
        momentum=0.5,
    )


def _arrays(x: Any, y: Any, parameters: dict[str, Any]) -> Any:
    """numpy alone: the gradient of the probe model by hand, as another framework would have it."""
    import numpy as np

    generator = np.random.default_rng(np.random.randint(2**31))  # noqa: NPY002  # as the check seeds it
    features = parameters["first.weight"].shape[1]
    layers = ("first", "second", "third")
    steps, batches = [], []
    for _ in range(E):
        step = generator.integers(0, M, len(x))
        for t in range(M):
            batch = np.flatnonzero(step == t)
            total = np.zeros(sum(p.size for p in parameters.values()))
            for i in batch:
                error = np.full(2, 0.5)
                error[y[i]] -= 1
                parts = []
                for j, layer in enumerate(layers):
                    outputs = np.zeros(parameters[f"{layer}.bias"].shape)
                    outputs[:2] = error * x[i, features + j]
                    parts += [np.outer(outputs, x[i, :features]).ravel(), outputs]
                g = np.concatenate(parts)
                total += g * min(1.0, C / np.linalg.norm(g))
            steps.append((total + SIGMA * C * generator.standard_normal(len(total))) / DIVISOR)
            batches.append(batch)
    return np.array(steps), batches


RIGHT: dict[str, tuple[Callable[..., Any], Mechanism]] = {
    "plain torch, hooks, SGD, random allocation": (Plain(), ALLOCATION),
    "plain torch, hooks, Adam, Poisson": (Plain(poisson, adam=True), POISSON),
    "plain torch, loop over examples, Adam, Poisson": (by_hand, POISSON),
    "plain torch, full batch": (Plain(full_batch), FULL),
    "torch.func, no optimiser, random allocation": (functional, ALLOCATION),
    "gradient accumulation, random allocation": (Accumulated(), ALLOCATION),
    "Opacus, random allocation": (opacus("random_allocation"), ALLOCATION),
    "Opacus, Poisson": (opacus("poisson"), POISSON),
    "Opacus, accumulation, Poisson": (opacus("poisson", 8), POISSON),
    "engine, random allocation": (engine(settings("random_allocation")), ALLOCATION),
    "engine, Poisson": (engine(settings("poisson")), POISSON),
    "engine, fixed bins": (engine(settings("fixed_bins")), FixedBins(M, E, SIGMA)),
    "engine, full batch": (engine(settings("full_batch", 10.0)), FULL_BATCH),
    "numpy, steps as arrays": (arrays(_arrays), ALLOCATION),
}
