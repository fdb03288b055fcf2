"""To and from dp-accounting: its events as mechanisms, mechanisms as its events and privacy-loss distributions.

    mechanism = mechanism_from_event(event)         # Gaussian, Poisson-sampled Gaussian, composed, self-composed
    event = event_of(mechanism)                     # full batch, Poisson sampling and their compositions
    pld = privacy_loss_distribution(mechanism)      # any mechanism on the lattice; pessimistic=False: from below

dp-accounting is no dependency (its pins disturb other packages): install it in the environment that uses it. Everything
is for add/remove neighbours, its ADD_OR_REMOVE_ONE and REPLACE_SPECIAL.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..foundation import InputError
from .bounds import Composition, FixedBins, Gaussian, Mechanism, PoissonSampling
from .bounds.chain import power_bound
from .bounds.composed import ComposedMechanism
from .bounds.privacy_lines import where_below
from .bounds.refine import COARSEST, profile_of
from .bounds.side import Side

LARGEST_LOSS = 60.0
LINES = 400  # certified δ(ε) on each side of 0, from which a pessimistic distribution is interpolated


def _dp_accounting() -> Any:
    try:
        import dp_accounting  # pyright: ignore[reportMissingImports]
        from dp_accounting.pld import (  # noqa: F401  # pyright: ignore[reportMissingImports]
            pld_pmf,
            privacy_loss_distribution,
        )
    except ImportError:
        raise InputError(
            "this needs dp-accounting: pip install dp-accounting, in an environment that suits it"
        ) from None
    return dp_accounting


def mechanism_from_event(event: Any) -> Mechanism:
    """Errors: InputError that names the event that has no exact pair here, and why."""
    phases = _phases(event, 1)
    if not phases:
        raise InputError("the event composes nothing that touches the data: there is nothing to bound")
    return phases[0] if len(phases) == 1 else Composition(phases)


def _phases(event: Any, count: int) -> list[Mechanism]:
    kind = type(event).__name__
    if kind == "NoOpDpEvent":
        return []
    if kind == "GaussianDpEvent":
        return [Gaussian(event.noise_multiplier, count)]
    if kind == "SelfComposedDpEvent":
        return _phases(event.event, count * event.count)
    if kind == "ComposedDpEvent":
        return [phase for one in event.events for phase in _phases(one, count)]
    if kind == "PoissonSampledDpEvent":
        inner = event.event
        if type(inner).__name__ != "GaussianDpEvent":
            raise InputError(f"PoissonSampledDpEvent of a {type(inner).__name__}: only of a GaussianDpEvent")
        return [PoissonSampling(event.sampling_probability, count, inner.noise_multiplier)]
    reasons = {
        "NonPrivateDpEvent": "it promises nothing",
        "SampledWithoutReplacementDpEvent": "fixed-size samples have no known pair that composes",
        "SampledWithReplacementDpEvent": "no pair that composes is known",
    }
    raise InputError(f"{kind}: {reasons.get(kind, 'not a Gaussian mechanism, sampled or composed')}")


def event_of(mechanism: Mechanism) -> Any:
    """The event with the same pair. Errors: InputError for schemes that dp-accounting has no event for."""
    events = _dp_accounting()
    if isinstance(mechanism, Composition):
        return events.ComposedDpEvent([event_of(phase) for phase in mechanism.phases])
    if isinstance(mechanism, Gaussian):
        return events.SelfComposedDpEvent(events.GaussianDpEvent(mechanism.noise_multiplier), mechanism.steps)
    if isinstance(mechanism, PoissonSampling):
        step = events.PoissonSampledDpEvent(mechanism.sampling_rate, events.GaussianDpEvent(mechanism.noise_multiplier))
        return events.SelfComposedDpEvent(step, mechanism.steps)
    raise InputError(
        f"dp-accounting has no event for {mechanism.name}: privacy_loss_distribution(mechanism) carries it over"
    )


def privacy_loss_distribution(
    mechanism: Mechanism, value_discretization_interval: float = 1e-4, pessimistic: bool = True
) -> Any:
    """A dp_accounting PrivacyLossDistribution: every δ(ε) no less (`pessimistic`) or no more than the exact one.

    Pessimistic: certified δ at many ε, connected by chords in e^ε. Optimistic: the Neyman–Pearson regions of the
    lattice's own statistic, losses rounded down. Each composes with dp-accounting's of the same kind.
    Errors: InputError for a bare (ε, δ); MemoryLimit where noise is below the lattice's reach.
    """
    package = _dp_accounting()
    base = mechanism.one_epoch if isinstance(mechanism, FixedBins) else mechanism
    if isinstance(base, Gaussian):
        base = Composition([base])
    if not isinstance(base, ComposedMechanism):
        raise InputError(f"{mechanism.name} has no privacy-loss distribution of its own")
    profile = profile_of(base, COARSEST / 4)
    make = _pessimistic if pessimistic else _optimistic
    return package.pld.privacy_loss_distribution.PrivacyLossDistribution(
        *(make(package.pld.pld_pmf, side, value_discretization_interval) for side in (profile.remove, profile.add))
    )


def _pessimistic(pmfs: Any, side: Side, interval: float) -> Any:
    reach = min(LARGEST_LOSS, side.step * max(abs(side.upper.measure.start), abs(side.upper.measure.end)))
    near = min(reach, where_below(lambda e: side.delta_upper(e) if e < reach else 0.0, 1e-10))
    half = np.concatenate((near * np.linspace(0, 1, LINES) ** 1.5, np.geomspace(near, 1.01 * reach, LINES // 4)))
    bound = power_bound(side.delta_upper, np.unique(np.concatenate((-half, half))))
    last = math.ceil(reach / interval)
    grid = np.arange(-last, last + 1)
    return pmfs.create_pmf_pessimistic_connect_dots(interval, grid, bound.deltas(grid * interval))


def _optimistic(pmfs: Any, side: Side, interval: float) -> Any:
    false_rates, true_rates = _concave_hull(*side.attack())
    null, alternative = np.diff(false_rates), np.diff(true_rates)
    chosen = (alternative > 0) & (null > 0)
    losses = np.floor(np.log(alternative[chosen] / null[chosen]) / interval - 1e-6).astype(int)
    low = int(losses.min())
    masses = np.bincount(losses - low, alternative[chosen])
    return pmfs.DensePLDPmf(interval, low, masses, 0.0, False)


def _concave_hull(x: Any, y: Any) -> tuple[Any, Any]:
    hull: list[tuple[float, float]] = []
    for point in zip(x.tolist(), y.tolist(), strict=True):
        while len(hull) >= 2:
            (x0, y0), (x1, y1) = hull[-2], hull[-1]
            if (y1 - y0) * (point[0] - x1) > (point[1] - y1) * (x1 - x0):
                break
            hull.pop()
        hull.append(point)
    found = np.array(hull)
    return found[:, 0], found[:, 1]
