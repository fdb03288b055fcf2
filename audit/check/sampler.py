"""Which records each step used, against what the claim says of it. No noise is involved: the tests are exact.

What a mechanism forbids outright (a record twice in an epoch, a step too many) is a fact. What it makes unlikely is
tested against draws of the mechanism itself, given what the facts leave open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import rankdata

from ...canaries.probe import Probe
from ...foundation import numpy_stream
from ..bounds import FixedBins, Gaussian, Mechanism, PoissonSampling, RandomAllocation
from ..estimators import clopper_pearson
from .exact_tests import binomial_two_sided, monte_carlo, two_sided
from .finding import Finding
from .recognise import Recognised, recognise

PAIRED_ROWS = 48
LOOK = (
    "the data loader: its batch sampler, replacement, drop_last, its seed in each epoch, and how the rate is computed"
)


@dataclass(frozen=True, eq=False)
class Batches:
    """use (T, n) counts of the rows in place order; length and label of the rows, for dependence on the data."""

    use: np.ndarray
    length: np.ndarray
    label: np.ndarray

    @classmethod
    def of(cls, probe: Probe, use: np.ndarray, rows: np.ndarray) -> Batches:
        return cls(use[:, rows], rankdata(probe.lengths[rows]), probe.y[rows].astype(float))


def find_sampler(main: Batches, other: Batches, mechanism: Mechanism, seed: int, confidence: float) -> Finding:
    """In two runs with different numbers of records: a sampler that is right for one of them only is caught by the
    other. A bare (epsilon, delta) names no sampler, and what is recognised is told."""
    generator = numpy_stream(seed, "check/sampler")
    first, second = (_one_run(batches, mechanism, generator, confidence) for batches in (main, other))
    if first.p_value is None and second.p_value is None and not (first.broken or second.broken):
        return first
    worst = min((first, second), key=lambda f: (not f.broken, 1.0 if f.p_value is None else f.p_value))
    rows = {id(first): main.use.shape[1], id(second): other.use.shape[1]}
    rest = second if worst is first else first
    return replace(
        worst,
        seen=f"with {rows[id(worst)]} records: {worst.seen}; with {rows[id(rest)]}: {rest.seen}",
        p_value=None if worst.p_value is None else min(1.0, 2 * worst.p_value),
        details={str(rows[id(f)]): dict(f.details) for f in (first, second)} | dict(worst.details),
    )


def _one_run(batches: Batches, mechanism: Mechanism, generator: np.random.Generator, confidence: float) -> Finding:
    seen = recognise(batches.use)
    if isinstance(mechanism, RandomAllocation | FixedBins):
        facts = _once_an_epoch(batches.use, mechanism.steps_per_epoch, mechanism.epochs)
        if facts:
            return _fact(seen, mechanism, facts)
        p = _allocation(
            batches, mechanism.steps_per_epoch, mechanism.epochs, isinstance(mechanism, FixedBins), generator
        )
        return _tested(seen, mechanism, p)
    if isinstance(mechanism, PoissonSampling):
        facts = _at_most_once(batches.use, mechanism.steps)
        if facts:
            return _fact(seen, mechanism, facts)
        return _poisson(batches, mechanism, seen, generator, confidence)
    if isinstance(mechanism, Gaussian):
        facts = _steps(batches.use, mechanism.steps)
        if not facts and np.any(batches.use != 1):
            facts = "not every record is used once in every step"
        return _fact(seen, mechanism, facts) if facts else _tested(seen, mechanism, {})
    return Finding("sampler", f"looks like {seen.words}; the claim names no sampler", details=seen.to_json())


def _fact(seen: Recognised, mechanism: Mechanism, fact: str) -> Finding:
    return Finding(
        "sampler",
        f"{fact}; looks like {seen.words}, claimed {mechanism.name}",
        "the bound is that of another sampler; amplification by sampling that does not happen is the usual loss",
        LOOK,
        broken=True,
        details=seen.to_json(),
    )


def _tested(seen: Recognised, mechanism: Mechanism, p: dict[str, float]) -> Finding:
    worst = min(p, key=lambda k: p[k]) if p else ""
    return Finding(
        "sampler",
        f"looks like {seen.words}, claimed {mechanism.name}"
        + (f"; least likely: {worst} (p = {p[worst]:.2g})" if p else ""),
        "the bound is that of another sampler; amplification by sampling that does not happen is the usual loss",
        LOOK,
        p_value=min(1.0, len(p) * p[worst]) if p else None,
        details={**seen.to_json(), "p_values": p},
    )


def _steps(use: np.ndarray, claimed: int) -> str:
    return "" if len(use) == claimed else f"{len(use)} steps were taken, {claimed} are claimed"


def _at_most_once(use: np.ndarray, steps: int) -> str:
    if fact := _steps(use, steps):
        return fact
    twice = int(np.sum(use > 1))
    return f"{twice} times a record stands more than once in one step" if twice else ""


def _once_an_epoch(use: np.ndarray, steps_per_epoch: int, epochs: int) -> str:
    if fact := _steps(use, steps_per_epoch * epochs):
        return fact
    uses = use.reshape(epochs, steps_per_epoch, -1).sum(axis=1)
    missed, again = int(np.sum(uses == 0)), int(np.sum(uses > 1))
    said = [f"{missed} times a record is missed in an epoch"] if missed else []
    said += [f"{again} times a record is used more than once in an epoch"] if again else []
    return ", ".join(said)


def _allocation(
    batches: Batches, steps_per_epoch: int, epochs: int, fixed: bool, generator: np.random.Generator
) -> dict[str, float]:
    """Each record's step is uniform, drawn alone, and (fixed bins) kept or (random allocation) drawn afresh."""
    step = batches.use.reshape(epochs, steps_per_epoch, -1).argmax(axis=1)  # (E, n)
    n = step.shape[1]
    kept = fixed and bool(np.all(step == step[0]))
    drawn_epochs = 1 if fixed else epochs
    paired = generator.permutation(n)[:PAIRED_ROWS]
    place = np.arange(n) - (n - 1) / 2
    length, label = batches.length - batches.length.mean(), batches.label - batches.label.mean()

    def statistics(a: np.ndarray) -> list[float]:
        index = a + steps_per_epoch * np.arange(len(a))[:, None]
        sizes = np.bincount(index.ravel(), minlength=steps_per_epoch * len(a)).reshape(len(a), steps_per_epoch)
        together = (a[:, paired, None] == a[:, None, paired]).sum(axis=0)
        total = a.sum(axis=0)
        return [
            float(np.sum(sizes**2)),
            float(np.sum(sizes.sum(axis=0) ** 2)),
            float(np.sum(a[1:] == a[:-1])),
            float(np.sum(together**2)),
            float(np.sum(total**2)),
            float(total @ place),
            float(total @ length),
            float(total @ label),
        ]

    names = (
        "sizes of batches",
        "use of the steps of an epoch",
        "records in the same step again",
        "records that travel together",
        "records early or late in every epoch",
        "place in the data set and step",
        "length of gradient and step",
        "label and step",
    )
    p = monte_carlo(
        statistics(step[:drawn_epochs]),
        lambda: statistics(generator.integers(0, steps_per_epoch, (drawn_epochs, n))),
    )
    found: dict[str, float] = dict(zip(map(str, names), p, strict=True))
    if fixed and not kept:
        found["steps that stay the same in every epoch"] = 0.0
    return found


def _poisson(
    batches: Batches, mechanism: PoissonSampling, seen: Recognised, generator: np.random.Generator, confidence: float
) -> Finding:
    """The rate by an exact binomial test; given the number of inclusions, every arrangement of them is as likely."""
    use = batches.use.astype(bool)
    total, cells, q = int(use.sum()), use.size, mechanism.sampling_rate
    rate_p = two_sided(*binomial_two_sided(total, cells, q)) if q < 1 else float(total == cells)
    low, high = clopper_pearson(total, cells, confidence)
    n = use.shape[1]
    paired = generator.permutation(n)[:PAIRED_ROWS]
    place = np.arange(n) - (n - 1) / 2
    length, label = batches.length - batches.length.mean(), batches.label - batches.label.mean()

    def statistics(drawn: np.ndarray) -> list[float]:
        each = drawn.sum(axis=0, dtype=float)
        some = drawn[:, paired].astype(np.float32)
        return [
            float(np.sum(drawn.sum(axis=1, dtype=float) ** 2)),
            float(np.sum(each**2)),
            float(np.sum(drawn[1:] & drawn[:-1])),
            float(np.sum((some.T @ some) ** 2)),
            float(each @ place),
            float(each @ length),
            float(each @ label),
        ]

    def draw() -> list[float]:
        cells_drawn = np.zeros(cells, bool)
        cells_drawn[generator.choice(cells, total, replace=False, shuffle=False)] = True
        return statistics(cells_drawn.reshape(use.shape))

    names = (
        "sizes of batches",
        "uses of each record",
        "records in neighbouring steps",
        "records that travel together",
        "place in the data set and use",
        "length of gradient and use",
        "label and use",
    )
    p = monte_carlo(statistics(use), draw) if 0 < total < cells else []
    found: dict[str, float] = dict(zip(map(str, names), p, strict=False))
    found["sampling rate"] = rate_p
    done = _tested(seen, mechanism, found)
    rate = total / cells
    only_rate = min(found, key=lambda k: found[k]) == "sampling rate"
    return Finding(
        done.name,
        f"rate {rate:.4g} [{low:.4g}, {high:.4g}], claimed {q:.4g}; {done.seen}",
        done.meaning,
        done.look,
        p_value=done.p_value,
        if_wrong="differs" if only_rate and rate < q else "violated",
        value=rate,
        expected=q,
        interval=(low, high),
        details=done.details,
    )
