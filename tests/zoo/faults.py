"""The 24 faults of real implementations, in the order in which they were collected from public reports, and further
ones: each a small deviation of the plain trainer, of our engine, or of Opacus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, WeightedRandomSampler

from coalmine.audit.bounds import Mechanism
from coalmine.audit.white_box.adapters import engine

from .plain import (
    DIVISOR,
    SIGMA,
    C,
    E,
    Gradients,
    M,
    Plain,
    clip_each,
    gaussian,
    norms,
    poisson,
    shuffled,
    weighted,
)
from .right import ALLOCATION, POISSON, settings

Train = Callable[[nn.Module, Any], Any]


@dataclass(frozen=True)
class Fault:
    number: int  # of the list of public reports; 0 for further ones
    words: str
    train: Train
    claim: Mechanism
    report: str = ""


# ------------------------------------------------------------------------------------------------- reported, 1 to 24


class BackpropagationClipping(Plain):
    """Backward signals and activations are clipped in each layer; the noise is that of a mean over the batch."""

    def noise(self, total: Gradients) -> Gradients:
        return gaussian(total, SIGMA * C / DIVISOR)

    def clipped_sum(self, gradients: Gradients) -> Gradients:
        done = {}
        for layer in ("first", "second", "third"):
            part = {name: g for name, g in gradients.items() if name.startswith(layer)}
            done |= clip_each(part)
        return done


def make_private(model: nn.Module, dataset: Any) -> None:
    """Opacus as its tutorial has it."""
    from opacus import PrivacyEngine

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    module, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=DataLoader(dataset, batch_size=int(DIVISOR)),
        noise_multiplier=SIGMA,
        max_grad_norm=C,
    )
    for _ in range(E):
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(module(x), y).backward()
            optimizer.step()


class NoiseOnTheMean(Plain):
    def noise(self, total: Gradients) -> Gradients:
        return gaussian(total, SIGMA * C * DIVISOR)


class OneKeyForAllParameters(Plain):
    def noise(self, total: Gradients) -> Gradients:
        key = int(torch.randint(2**31, ()))
        return {
            name: g + SIGMA * C * torch.randn(g.shape, generator=torch.Generator().manual_seed(key))
            for name, g in total.items()
        }


class FastPathWithoutNorm(Plain):
    def clipped_sum(self, gradients: Gradients) -> Gradients:
        batch = len(next(iter(gradients.values())))
        return weighted(gradients, torch.ones(batch)) if batch > 16 else clip_each(gradients)


class GhostNormsOfTheMean(Plain):
    """Norms come from the backward pass of the mean loss, the sum from that of the sum."""

    def clipped_sum(self, gradients: Gradients) -> Gradients:
        batch = len(next(iter(gradients.values())))
        return weighted(gradients, (C / (norms(gradients) / max(1, batch))).clamp(max=1))


def weighted_sampler(model: nn.Module, dataset: Any) -> None:
    """Classes are balanced by weights; the rate is taken from the length of the loader."""
    _x, y = dataset.tensors
    weights = torch.where(y == 1, 3.0, 1.0)

    def batches(n: int) -> Iterator[Tensor]:
        for _ in range(E):
            order = torch.tensor(list(WeightedRandomSampler(weights.tolist(), n, replacement=True)))
            yield from order.tensor_split(M)

    Plain(batches)(model, dataset)


class MeanOfMicroBatchesClipped(Plain):
    """`size` examples a micro-batch; means of micro-batches are clipped to C and summed; one record then changes a mean
    by up to 2C. size None: the whole batch is one micro-batch."""

    size: int | None = 4

    def clipped_sum(self, gradients: Gradients) -> Gradients:
        batch = len(next(iter(gradients.values())))
        size = self.size or max(1, batch)
        pieces = [
            {name: g[start : start + size].mean(0, keepdim=True) for name, g in gradients.items()}
            for start in range(0, batch, size)
        ]
        if not pieces:
            return {name: g.sum(0) for name, g in gradients.items()}
        return clip_each({name: torch.cat([piece[name] for piece in pieces]) for name in gradients})


class OneMicroBatch(MeanOfMicroBatchesClipped):
    size = None


class NoiseAtEveryMicroStep(Plain):
    def noisy_sum(self, model: nn.Module, x: Tensor, y: Tensor) -> Gradients:
        parts = [
            super(NoiseAtEveryMicroStep, self).noisy_sum(model, a, b)
            for a, b in zip(x.split(8), y.split(8), strict=True)
        ]
        return {name: sum(part[name] for part in parts) for name in parts[0]}  # type: ignore[misc]


class ClippedByParameter(Plain):
    def clipped_sum(self, gradients: Gradients) -> Gradients:
        done: Gradients = {}
        for name, g in gradients.items():
            done |= clip_each({name: g})
        return done


def replacement(n: int) -> Iterator[Tensor]:
    for _ in range(M * E):
        yield torch.randint(n, (n // M,))


class ClippedByTheBatchNorm(Plain):
    """As in an early example: the norm of the whole tensor of per-example gradients, parameter by parameter."""

    def clipped_sum(self, gradients: Gradients) -> Gradients:
        return {name: (g / (g.norm() / C).clamp(min=1)).sum(0) for name, g in gradients.items()}

    def noise(self, total: Gradients) -> Gradients:
        return gaussian(total, SIGMA * C / DIVISOR)


class ClippedAfterAggregation(Plain):
    def clipped_sum(self, gradients: Gradients) -> Gradients:
        total = {name: g.sum(0, keepdim=True) for name, g in gradients.items()}
        return clip_each(total, C)


class WeightsClamped(Plain):
    def clipped_sum(self, gradients: Gradients) -> Gradients:
        return {name: g.sum(0) for name, g in gradients.items()}

    def after(self, model: nn.Module) -> None:
        with torch.no_grad():
            for p in model.parameters():
                p.clamp_(-C, C)


class SettingWithoutEffect(Plain):
    def clipped_sum(self, gradients: Gradients) -> Gradients:
        return {name: g.sum(0) for name, g in gradients.items()}


class SensitivityStatedAsOne(Plain):
    """The clipping norm is 4, the noise is scaled for 1."""

    def clipped_sum(self, gradients: Gradients) -> Gradients:
        return clip_each(gradients, 4 * C)


class PaddingCounts(Plain):
    """Batches are filled up to a multiple of eight with their first row, which then counts again."""

    def gradients(self, model: nn.Module, x: Tensor, y: Tensor) -> Gradients:
        missing = -len(x) % 8
        if len(x) and missing:
            x, y = torch.cat([x, x[:1].expand(missing, *x.shape[1:])]), torch.cat([y, y[:1].expand(missing)])
        return super().gradients(model, x, y)


class EmptyBatchesSkipped(Plain):
    def batches(self, n: int) -> Iterator[Tensor]:
        yield from (batch for batch in super().batches(n) if len(batch))


class BatchNormLeftIn(Plain):
    """Takes any model: what is no linear layer is left as it is, also where it normalises over the batch."""


class NormsOfUses(Plain):
    """The norm of a parameter that is used k times is taken as that of its uses, not of their sum."""

    def clipped_sum(self, gradients: Gradients) -> Gradients:
        uses = self.repeats
        square = sum(
            g.flatten(1).square().sum(1) / (uses if name.startswith("third") else 1) for name, g in gradients.items()
        )
        return weighted(gradients, (C / torch.sqrt(square)).clamp(max=1))  # type: ignore[arg-type]

    def begin(self, model: nn.Module) -> None:
        calls = []
        handle = model.third.register_forward_hook(lambda *_: calls.append(1))  # type: ignore[union-attr]
        with torch.no_grad():
            model(torch.zeros(1, model.size))  # type: ignore[arg-type]
        handle.remove()
        self.repeats = len(calls)


class AdaptersNeverTrained(Plain):
    """One layer is left out of the optimiser: everything else looks normal."""

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD([p for name, p in model.named_parameters() if not name.startswith("third")], lr=0.1)


class QuantileNotPaidFor(Plain):
    """The clipping norm follows the median norm of each batch, exactly."""

    def begin(self, model: nn.Module) -> None:
        self.norm = C

    def clipped_sum(self, gradients: Gradients) -> Gradients:
        n = norms(gradients)
        if len(n):
            self.norm *= float(torch.exp(-0.2 * ((n <= self.norm).float().mean() - 0.5)))
        return clip_each(gradients, self.norm)

    def noise(self, total: Gradients) -> Gradients:
        return gaussian(total, SIGMA * self.norm)


# --------------------------------------------------------------------------------------------------------- further ones


class Noise(Plain):
    """Noise of deviation factor × what is claimed, on the parameters that `where` names."""

    def __init__(self, factor: float = 1.0, where: Callable[[str], bool] = lambda name: True) -> None:
        super().__init__()
        self.factor, self.where = factor, where

    def noise(self, total: Gradients) -> Gradients:
        return {
            name: g + self.factor * SIGMA * C * torch.randn_like(g) if self.where(name) else g
            for name, g in total.items()
        }


class LastNoiseAgain(Plain):
    """Every tenth step takes the noise of the step before."""

    def noise(self, total: Gradients) -> Gradients:
        if self.step % 10 != 9:
            self.drawn = {name: SIGMA * C * torch.randn_like(g) for name, g in total.items()}
        return {name: g + self.drawn[name] for name, g in total.items()}


class SeededEveryEpoch(Plain):
    def noise(self, total: Gradients) -> Gradients:
        if self.step % M == 0:
            self.generator = torch.Generator().manual_seed(7)
        return {name: g + SIGMA * C * torch.randn(g.shape, generator=self.generator) for name, g in total.items()}


class SeedFixed(Plain):
    def begin(self, model: nn.Module) -> None:
        self.generator = torch.Generator().manual_seed(0)

    def noise(self, total: Gradients) -> Gradients:
        return {name: g + SIGMA * C * torch.randn(g.shape, generator=self.generator) for name, g in total.items()}


class HalfPrecisionNoise(Plain):
    def noise(self, total: Gradients) -> Gradients:
        return {name: g + (SIGMA * C * torch.randn_like(g)).half().float() for name, g in total.items()}


class LaplaceNoise(Plain):
    def noise(self, total: Gradients) -> Gradients:
        laplace = torch.distributions.Laplace(0.0, SIGMA * C / 2**0.5)
        return {name: g + laplace.sample(g.shape) for name, g in total.items()}


class AccumulatedClippedAsOne(Plain):
    """Per-example gradients of a micro-batch are added up before they are clipped."""

    def clipped_sum(self, gradients: Gradients) -> Gradients:
        pieces = {name: torch.stack([p.sum(0) for p in g.split(4)]) if len(g) else g for name, g in gradients.items()}
        return clip_each(pieces)


def fixed_allocation(n: int) -> Iterator[Tensor]:
    step = torch.randint(M, (n,))
    for _ in range(E):
        yield from (torch.nonzero(step == t)[:, 0] for t in range(M))


def twice_in_an_epoch(n: int) -> Iterator[Tensor]:
    """A batch boundary that overlaps: the first record of a batch stood in the one before."""
    for _ in range(E):
        step = torch.randint(M, (n,))
        before = torch.empty(0, dtype=torch.long)
        for t in range(M):
            batch = torch.nonzero(step == t)[:, 0]
            yield torch.cat([before, batch])
            before = batch[-1:]


def last_dropped(n: int) -> Iterator[Tensor]:
    """drop_last: each epoch leaves out what does not fill a batch."""
    size = max(1, (n - 1) // M)
    for _ in range(E):
        order = torch.randperm(n)
        yield from (order[t * size : (t + 1) * size] for t in range(M))


class WarmUpWithoutNoise(Plain):
    def noise(self, total: Gradients) -> Gradients:
        return total if self.step < 2 else super().noise(total)


class NoiseWhereTouched(Plain):
    def noise(self, total: Gradients) -> Gradients:
        noisy = super().noise(total)
        return {name: torch.where(total[name] != 0, noisy[name], total[name]) for name in total}


class NoNoiseOnEmptySteps(Plain):
    def noisy_sum(self, model: nn.Module, x: Tensor, y: Tensor) -> Gradients:
        total = self.clipped_sum(self.gradients(model, x, y))
        return self.noise(total) if len(x) else total


class RealisedBatch(Plain):
    def divisor(self, batch: Tensor) -> float:
        return max(1, len(batch))


class NoiseByRow(Plain):
    """Noise of shape (outputs, 1), which broadcasts along the inputs."""

    def noise(self, total: Gradients) -> Gradients:
        return {
            name: g + SIGMA * C * torch.randn(*g.shape[:-1], 1) if g.dim() > 1 else g + SIGMA * C * torch.randn_like(g)
            for name, g in total.items()
        }


class NormWithoutBiases(Plain):
    def clipped_sum(self, gradients: Gradients) -> Gradients:
        n = norms({name: g for name, g in gradients.items() if name.endswith("weight")})
        return weighted(gradients, (C / n).clamp(max=1))


class NoiseCarriedOver(Plain):
    """Half of the noise of a step is taken out again in the next, as correlated noise does, without its accounting."""

    def begin(self, model: nn.Module) -> None:
        self.last: Gradients = {}

    def noise(self, total: Gradients) -> Gradients:
        fresh = {name: SIGMA * C * torch.randn_like(g) for name, g in total.items()}
        done = {name: g + fresh[name] - 0.5 * self.last.get(name, torch.zeros_like(g)) for name, g in total.items()}
        self.last = fresh
        return done


class GradientsNotCleared(Plain):
    """What the step before summed is still there."""

    def begin(self, model: nn.Module) -> None:
        self.kept: Gradients = {}

    def clipped_sum(self, gradients: Gradients) -> Gradients:
        now = super().clipped_sum(gradients)
        total = {name: g + self.kept.get(name, torch.zeros_like(g)) for name, g in now.items()}
        self.kept = now
        return total


class NoiseByBatch(Plain):
    """The noise is scaled by the realised over the expected batch size."""

    def noisy_sum(self, model: nn.Module, x: Tensor, y: Tensor) -> Gradients:
        return gaussian(self.clipped_sum(self.gradients(model, x, y)), SIGMA * C * len(x) / DIVISOR)


class OneMoreEpoch(Plain):
    def batches(self, n: int) -> Iterator[Tensor]:
        yield from super().batches(n)
        step = torch.randint(M, (n,))
        yield from (torch.nonzero(step == t)[:, 0] for t in range(M))


class AveragedClip(Plain):
    """The clipping factor is the batch's mean one: long gradients are clipped too little."""

    def clipped_sum(self, gradients: Gradients) -> Gradients:
        factor = (C / norms(gradients)).clamp(max=1)
        return weighted(gradients, factor.mean().expand(len(factor)) if len(factor) else factor)


FAULTS: tuple[Fault, ...] = (
    Fault(1, "backpropagation clipping, noise of a mean", BackpropagationClipping(), ALLOCATION, "arXiv 2202.12219"),
    Fault(2, "divisor from the realised number of rows (make_private)", make_private, POISSON, "opacus #571, #819"),
    Fault(3, "noise meant for the sum added to the mean", NoiseOnTheMean(), ALLOCATION, "jax_privacy #383"),
    Fault(4, "one random key for all parameters", OneKeyForAllParameters(), ALLOCATION, "jax #3646"),
    Fault(5, "fast clipping path ignores the norm", FastPathWithoutNorm(), ALLOCATION, "opacus #664"),
    Fault(6, "ghost norms of the mean loss", GhostNormsOfTheMean(), ALLOCATION, "opacus #692, #707"),
    Fault(7, "weighted sampler, rate from its length", weighted_sampler, POISSON, "opacus #813, #600"),
    Fault(8, "shuffled batches accounted as Poisson", Plain(shuffled), POISSON, "opacus #80, arXiv 2411.10614"),
    Fault(9, "the whole batch as one micro-batch", OneMicroBatch(), ALLOCATION, "tensorflow/privacy #153"),
    Fault(
        10, "means of micro-batches clipped", MeanOfMicroBatchesClipped(), ALLOCATION, "tensorflow/privacy #81, #620"
    ),
    Fault(11, "noise at every micro-step", NoiseAtEveryMicroStep(), ALLOCATION, "optax #527"),
    Fault(12, "each parameter clipped by itself", ClippedByParameter(), ALLOCATION, "fedbiomed #1443"),
    Fault(13, "the framework's sampler in place of Poisson", Plain(replacement), POISSON, "plato #194"),
    Fault(14, "norm of the whole batch, noise of a mean", ClippedByTheBatchNorm(), ALLOCATION, "functorch #467"),
    Fault(15, "clipping after aggregation", ClippedAfterAggregation(), ALLOCATION, "AiDotNet #1318"),
    Fault(16, "weights clamped in place of gradients", WeightsClamped(), ALLOCATION, "Truxify #3844"),
    Fault(17, "the clipping setting does nothing", SettingWithoutEffect(), ALLOCATION, "APPFL #151"),
    Fault(18, "sensitivity stated as 1, clipping norm 4", SensitivityStatedAsOne(), ALLOCATION, "jax_privacy #385"),
    Fault(19, "padding rows count", PaddingCounts(), ALLOCATION, "jax_privacy #223"),
    Fault(20, "empty Poisson batches skipped", EmptyBatchesSkipped(poisson), POISSON, "opacus #161, #522"),
    Fault(21, "BatchNorm left in", BatchNormLeftIn(), ALLOCATION, "opacus #308, #567"),
    Fault(22, "norms of a parameter used twice", NormsOfUses(), ALLOCATION, "opacus #413, #841, #845"),
    Fault(23, "a layer is never trained", AdaptersNeverTrained(), ALLOCATION, "opacus #820"),
    Fault(
        24, "quantile of adaptive clipping not paid for", QuantileNotPaidFor(), ALLOCATION, "tensorflow federated #1080"
    ),
    Fault(0, "noise multiplier halved", Noise(0.5), ALLOCATION),
    Fault(0, "noise multiplier a quarter", Noise(0.25), ALLOCATION),
    Fault(0, "three per cent too little noise", Noise(0.97), ALLOCATION),
    Fault(0, "no noise at all", Noise(0.0), ALLOCATION),
    Fault(0, "noise forgotten on biases", Noise(where=lambda name: "bias" not in name), ALLOCATION),
    Fault(0, "noise forgotten on one layer", Noise(where=lambda name: "second" not in name), ALLOCATION),
    Fault(0, "noise of the last step again", LastNoiseAgain(), ALLOCATION),
    Fault(0, "generator seeded anew every epoch", SeededEveryEpoch(), ALLOCATION),
    Fault(0, "generator with a fixed seed", SeedFixed(), ALLOCATION),
    Fault(0, "noise of float16", HalfPrecisionNoise(), ALLOCATION),
    Fault(0, "Laplace noise of the same deviation", LaplaceNoise(), ALLOCATION),
    Fault(0, "noise of one column for a whole matrix", NoiseByRow(), ALLOCATION),
    Fault(0, "noise only where gradients are", NoiseWhereTouched(), ALLOCATION),
    Fault(0, "no noise on empty steps", NoNoiseOnEmptySteps(), ALLOCATION),
    Fault(0, "warm-up without noise", WarmUpWithoutNoise(), ALLOCATION),
    Fault(0, "noise carried over to the next step", NoiseCarriedOver(), ALLOCATION),
    Fault(0, "noise scaled by the realised batch", NoiseByBatch(), ALLOCATION),
    Fault(0, "accumulated gradients clipped as one", AccumulatedClippedAsOne(), ALLOCATION),
    Fault(0, "norm without biases", NormWithoutBiases(), ALLOCATION),
    Fault(0, "mean clipping factor of the batch", AveragedClip(), ALLOCATION),
    Fault(0, "gradients of the step before not cleared", GradientsNotCleared(), ALLOCATION),
    Fault(0, "divided by the realised batch", RealisedBatch(), ALLOCATION),
    Fault(0, "one allocation reused", Plain(fixed_allocation), ALLOCATION),
    Fault(0, "a record twice in an epoch", Plain(twice_in_an_epoch), ALLOCATION),
    Fault(0, "last partial batch dropped", Plain(last_dropped), ALLOCATION),
    Fault(0, "with replacement", Plain(replacement), ALLOCATION),
    Fault(0, "an epoch too many", OneMoreEpoch(), ALLOCATION),
    Fault(0, "engine with shuffled batches", engine(settings("fixed_size")), ALLOCATION),
    Fault(0, "engine with fixed bins", engine(settings("fixed_bins")), ALLOCATION),
    Fault(0, "engine with half the noise", engine(settings("random_allocation", 0.5)), ALLOCATION),
)
