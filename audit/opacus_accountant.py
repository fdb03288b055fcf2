"""Opacus accountants with certified ends: PrivacyEngine(accountant="coalmine"), get_noise_multiplier(accountant=…).

    from coalmine.audit.opacus_accountant import register
    register()
    engine = PrivacyEngine(accountant="coalmine")                   # Poisson batches, as Opacus draws them
    engine.get_epsilon(1e-5)                                        # the upper end
    engine.accountant.epsilon(1e-5)                                 # Interval

    accountant = RandomAllocationAccountant()                       # RandomAllocationBatchSampler, M steps an epoch
    optimizer.attach_step_hook(accountant.get_optimizer_hook_fn(sample_rate=1 / M))

Both take changing noise and rates: a run is the composition of what was done. Needs the extra `coalmine[opacus]`.
"""

from __future__ import annotations

import math
from typing import Any

from opacus.accountants import IAccountant, register_accountant

from ..foundation import InputError
from .bounds import Composition, Interval, Mechanism, PoissonSampling, RandomAllocation


class PoissonAccountant(IAccountant):
    """Every step a Poisson batch. `history`, as in Opacus: (noise_multiplier, sample_rate, steps) in their order."""

    def __init__(self) -> None:
        self.history: list[tuple[float, float, int]] = []

    @classmethod
    def mechanism(cls) -> str:
        return "coalmine"

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        if self.history and self.history[-1][:2] == (noise_multiplier, sample_rate):
            self.history[-1] = (noise_multiplier, sample_rate, self.history[-1][2] + 1)
        else:
            self.history.append((noise_multiplier, sample_rate, 1))

    def claim(self) -> Mechanism:
        """The run so far, for everything that `bounds` answers. Errors: InputError where nothing was done yet."""
        phases = self._phases()
        return phases[0] if len(phases) == 1 else Composition(phases)

    def epsilon(self, delta: float) -> Interval:
        """Both ends; [0, 0] before the first step, infinite without noise."""
        if not self.history:
            return Interval(0.0, 0.0)
        if any(noise == 0 for noise, _, _ in self.history):
            return Interval(math.inf, math.inf)
        return self.claim().epsilon(delta)

    def get_epsilon(self, delta: float, *args: Any, **kwargs: Any) -> float:
        """The upper end: what is guaranteed. Takes and needs none of the other accountants' tolerances."""
        return float(self.epsilon(delta).upper)

    def _phases(self) -> list[Mechanism]:
        return [PoissonSampling(rate, steps, noise) for noise, rate, steps in self.history]

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self.history)


class RandomAllocationAccountant(PoissonAccountant):
    """Every M = 1/sample_rate steps an epoch in which each record is used once, at a step of its own.

    An epoch counts from its first step on, for what is known of it is no more than of the whole; one whose noise
    changes midway counts as with the least. Errors: InputError where 1/sample_rate is no whole number, or changes
    within an epoch.
    """

    @classmethod
    def mechanism(cls) -> str:
        return "coalmine_random_allocation"

    def _phases(self) -> list[Mechanism]:
        found: dict[tuple[int, float], int] = {}
        left, steps_per_epoch, least = 0, 0, math.inf  # of the epoch under way
        for noise, rate, steps in self.history:
            m = _steps_per_epoch(rate)
            if left and m != steps_per_epoch:
                raise InputError(
                    f"the sample rate changes after {steps_per_epoch - left} of an epoch's {steps_per_epoch} steps: "
                    "random allocation is analysed by whole epochs; change it between epochs"
                )
            steps_per_epoch = m
            if left:
                taken = min(left, steps)
                left, steps, least = left - taken, steps - taken, min(least, noise)
                if left == 0:
                    found[m, least] = found.get((m, least), 0) + 1
            whole, rest = divmod(steps, m)
            if whole:
                found[m, noise] = found.get((m, noise), 0) + whole
            if rest:
                left, least = m - rest, noise
        if left:
            found[steps_per_epoch, least] = found.get((steps_per_epoch, least), 0) + 1
        return [RandomAllocation(m, epochs, noise) for (m, noise), epochs in found.items()]


def register() -> None:
    """Make both known to Opacus, under their `mechanism()`. May be called again."""
    for accountant in (PoissonAccountant, RandomAllocationAccountant):
        register_accountant(accountant.mechanism(), accountant, force=True)


def _steps_per_epoch(sample_rate: float) -> int:
    m = round(1 / sample_rate) if sample_rate > 0 else 0
    if m < 1 or not math.isclose(m * sample_rate, 1.0, rel_tol=1e-9):
        raise InputError(
            f"sample_rate must be 1/steps_per_epoch for random allocation, got {sample_rate!r}: with gradients "
            "accumulated over several batches, give the steps, not the batches, of an epoch"
        )
    return m
