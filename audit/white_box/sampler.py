"""Which records each step used, against what the claim says of it. No noise is involved: the tests are exact.

What a mechanism forbids outright (a record twice in an epoch, a step too many) is a fact. What it makes unlikely is
tested against draws of the mechanism itself, given what the facts leave open. Two runs with different numbers of
records are judged together: a sampler that is right for one of them only is caught by the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln
from scipy.stats import rankdata

from ...canaries.probe import Probe
from ...foundation import numpy_stream
from ..bounds import FixedBins, Gaussian, Mechanism, PoissonSampling, RandomAllocation
from ..estimators import clopper_pearson
from .exact_tests import binomial_two_sided, monte_carlo_of_largest, two_sided
from .finding import Finding
from .recognise import recognise

PAIRED_ROWS = 48
MEANING = "the bound is that of another sampler; amplification by sampling that does not happen is the usual loss"
LOOK = "the data loader: batch sampler, replacement, drop_last, its seed in each epoch, how the rate is computed"

Statistics = dict[str, float]


@dataclass(frozen=True, eq=False)
class Batches:
    """use (T, n) counts of the rows in place order; length (rank) and label of the rows, for dependence on the data."""

    use: np.ndarray
    length: np.ndarray
    label: np.ndarray

    @classmethod
    def of(cls, probe: Probe, use: np.ndarray, rows: np.ndarray) -> Batches:
        return cls(use[:, rows], rankdata(probe.lengths[rows]), probe.y[rows].astype(float))

    @property
    def records(self) -> int:
        return self.use.shape[1]

    def along(self, values: np.ndarray) -> Statistics:
        """How a number per row goes with what is known of the rows."""
        centred = values - values.mean()
        return {
            "place in the data set": float(centred @ np.arange(self.records)),
            "length of the gradient": float(centred @ self.length),
            "label": float(centred @ self.label),
        }


@dataclass(frozen=True, eq=False)
class Test:
    """Statistics of what was seen, and a draw of them under the mechanism."""

    observed: Statistics
    draw: Callable[[], Statistics]


def find_sampler(runs: Sequence[Batches], mechanism: Mechanism, seed: int, confidence: float) -> Finding:
    """A bare (epsilon, delta) names no sampler: what is recognised is told."""
    seen = [recognise(batches.use) for batches in runs]
    words = "; ".join(f"with {b.records} records {s.words}" for b, s in zip(runs, seen, strict=True))
    details: dict[str, Any] = {str(b.records): s.to_json() for b, s in zip(runs, seen, strict=True)}
    if facts := [f"with {b.records} records {fact}" for b in runs if (fact := forbidden(b.use, mechanism))]:
        said = f"{'; '.join(facts)}. Claimed {mechanism.name}, seen {words}"
        return Finding("sampler", said, MEANING, LOOK, broken=True, details=details)
    generator = numpy_stream(seed, "check/sampler")
    match mechanism:
        case RandomAllocation(steps_per_epoch=m, epochs=e):
            found = _judged([_allocation(b, m, e, generator) for b in runs], words, mechanism, details)
            return _against_even_batches(found, [b.use.reshape(e, m, -1) for b in runs])
        case FixedBins(steps_per_epoch=m):
            return _judged([_allocation(b, m, 1, generator) for b in runs], words, mechanism, details)
        case PoissonSampling():
            tests = [t for t in (_poisson(b, generator) for b in runs) if t is not None]
            return _rate(runs, mechanism, _judged(tests, words, mechanism, details), confidence)
        case Gaussian():
            return Finding("sampler", f"seen {words}", details=details)
        case _:
            return Finding("sampler", f"seen {words}; the claim names no sampler", details=details)


def forbidden(use: np.ndarray, mechanism: Mechanism) -> str:
    """What the mechanism never does, or ""."""
    match mechanism:
        case RandomAllocation(steps_per_epoch=m, epochs=e) | FixedBins(steps_per_epoch=m, epochs=e):
            return _steps(use, m * e) or _once_an_epoch(use.reshape(e, m, -1), isinstance(mechanism, FixedBins))
        case PoissonSampling(steps=steps):
            twice = int(np.sum(use > 1))
            return _steps(use, steps) or (f"a record stands more than once in a step ({twice} times)" if twice else "")
        case Gaussian(steps=steps):
            missing = int(np.sum(use != 1))
            return _steps(use, steps) or (
                f"records are missed, or used twice, in a step ({missing} times)" if missing else ""
            )
        case _:
            return ""


def _steps(use: np.ndarray, claimed: int) -> str:
    return "" if len(use) == claimed else f"{len(use)} steps were taken, {claimed} are claimed"


def _once_an_epoch(use: np.ndarray, fixed: bool) -> str:
    """use (E, M, n)."""
    uses = use.sum(axis=1)
    missed, again = int(np.sum(uses == 0)), int(np.sum(uses > 1))
    said = [f"a record is missed in an epoch ({missed} times)"] if missed else []
    said += [f"a record is used more than once in an epoch ({again} times)"] if again else []
    if fixed and not said and np.any(use != use[0]):
        said = ["records change their step from epoch to epoch"]
    return ", ".join(said)


def _judged(tests: Sequence[Test], words: str, mechanism: Mechanism, details: dict[str, Any]) -> Finding:
    if not tests:
        return Finding("sampler", f"seen {words}", details=details)
    names = [name for test in tests for name in test.observed]
    p, deviations = monte_carlo_of_largest(
        [value for test in tests for value in test.observed.values()],
        lambda: [value for test in tests for value in test.draw().values()],
    )
    worst = int(np.argmax(deviations))
    said = (
        f"claimed {mechanism.name}, seen {words}; furthest from it: {names[worst]} ({deviations[worst]:.1f} deviations)"
    )
    return Finding("sampler", said, MEANING, LOOK, p_value=p, details=details)


def _against_even_batches(found: Finding, epochs: Sequence[np.ndarray]) -> Finding:
    """Batches of one size in every epoch, as a data loader shuffles them: exact, where draws alone see too little.

    One of two tests that were chosen beforehand: the smaller p-value counts twice.
    """
    logs = [epochs_used.shape[0] * log_even(epochs_used.shape[2], epochs_used.shape[1]) for epochs_used in epochs]
    sizes = [epochs_used.sum(axis=2) for epochs_used in epochs]
    even = all(np.all(of.max(axis=1) - of.min(axis=1) <= 1) for of in sizes)
    p_even = math.exp(max(-700.0, sum(logs))) if even else 1.0
    p_value = 1.0 if found.p_value is None else found.p_value
    told = "; every batch of an epoch has the same size, which independent draws do not give" if even else ""
    return replace(found, seen=found.seen + told, p_value=min(1.0, 2 * min(p_value, p_even)))


def log_even(records: int, steps: int) -> float:
    """The logarithm of the probability that records at independent uniform steps make batches that differ by at most
    one record."""
    size, more = divmod(records, steps)
    ways = gammaln(steps + 1) - gammaln(more + 1) - gammaln(steps - more + 1)
    each = (steps - more) * gammaln(size + 1) + more * gammaln(size + 2)
    return float(ways + gammaln(records + 1) - each - records * math.log(steps))


def _allocation(batches: Batches, steps: int, epochs: int, generator: np.random.Generator) -> Test:
    """Each record's step is uniform, drawn by itself, and afresh in each of the epochs."""
    n = batches.records
    chosen = batches.use[: steps * epochs].reshape(epochs, steps, n).argmax(axis=1)  # (E, n)
    paired = generator.permutation(n)[:PAIRED_ROWS]

    def statistics(step: np.ndarray) -> Statistics:
        index = step + steps * np.arange(epochs)[:, None]
        sizes = np.bincount(index.ravel(), minlength=steps * epochs).reshape(epochs, steps)
        together = (step[:, paired, None] == step[:, None, paired]).sum(axis=0)
        total = step.sum(axis=0)
        return {
            "sizes of batches": float(np.sum(sizes**2)),
            "use of the steps of an epoch": float(np.sum(sizes.sum(axis=0) ** 2)),
            "records in the same step again": float(np.sum(step[1:] == step[:-1])),
            "records that travel together": float(np.sum(together**2)),
            "records early or late in every epoch": float(np.sum(total**2)),
        } | batches.along(total)

    return Test(statistics(chosen), lambda: statistics(generator.integers(0, steps, (epochs, n))))


def _poisson(batches: Batches, generator: np.random.Generator) -> Test | None:
    """Given the number of inclusions, every arrangement of them is as likely."""
    use = batches.use.astype(bool)
    total, cells = int(use.sum()), use.size
    if not 0 < total < cells:
        return None
    paired = generator.permutation(batches.records)[:PAIRED_ROWS]

    def statistics(drawn: np.ndarray) -> Statistics:
        each = drawn.sum(axis=0, dtype=float)
        some = drawn[:, paired].astype(np.float32)
        return {
            "sizes of batches": float(np.sum(drawn.sum(axis=1, dtype=float) ** 2)),
            "uses of each record": float(np.sum(each**2)),
            "records in neighbouring steps": float(np.sum(drawn[1:] & drawn[:-1])),
            "records that travel together": float(np.sum((some.T @ some) ** 2)),
        } | batches.along(each)

    def draw() -> Statistics:
        arrangement = np.zeros(cells, bool)
        arrangement[generator.choice(cells, total, replace=False, shuffle=False)] = True
        return statistics(arrangement.reshape(use.shape))

    return Test(statistics(use), draw)


def _rate(runs: Sequence[Batches], mechanism: PoissonSampling, rest: Finding, confidence: float) -> Finding:
    """The rate of each run by an exact binomial test, beside the test of the arrangement."""
    q = mechanism.sampling_rate
    p, said, rates, intervals = [], [], [], []
    for batches in runs:
        total, cells = int((batches.use > 0).sum()), batches.use.size
        p.append(two_sided(*binomial_two_sided(total, cells, q)) if q < 1 else float(total == cells))
        low, high = clopper_pearson(total, cells, confidence)
        rates.append(total / cells)
        intervals.append((float(low), float(high)))
        said.append(f"{total / cells:.4g} [{low:.4g}, {high:.4g}] with {batches.records} records")
    worst = int(np.argmin(p))
    arranged = 1.0 if rest.p_value is None else rest.p_value
    lower = min(p) < arranged and all(rate < q or one > 1e-3 for rate, one in zip(rates, p, strict=True))
    return Finding(
        "sampler",
        f"sampling rate {', '.join(said)}, claimed {q:.4g}; {rest.seen}",
        MEANING,
        LOOK,
        p_value=min(1.0, 2 * min(arranged, len(p) * min(p))),
        if_wrong="differs" if lower else "violated",
        value=rates[worst],
        expected=q,
        interval=intervals[worst],
        details=dict(rest.details),
    )
