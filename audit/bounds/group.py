"""Other neighbours than one record added or removed: groups of records (a user's), and records that are replaced.

Under full batches and Poisson sampling the pair is known (`mixture`), and everything is as certain as for one record.
Under random allocation, fixed bins and compositions with them, and for a bare (ε, δ), it is not. From above stand the
chained powers of certified tests (`chain`), from below a concrete pair (`group_statistic`) where there is one. What
holds for k = 1 under add/remove is the mechanism itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ...foundation import InputError
from .chain import PowerBound, power_bound
from .composed import ComposedMechanism
from .composition import Composition
from .epsilon_delta import EpsilonDelta
from .fixed_bins import FixedBins
from .gaussian import Gaussian, gaussian_delta
from .group_statistic import group_statistic_law
from .interval import Interval
from .lattice import MemoryLimit
from .mechanism import RELATIVE_WIDTH, Mechanism
from .mixture import GaussianMixture
from .parameters import check_delta, check_direction, check_epsilon, check_rates, whole_number
from .poisson import PoissonSampling
from .privacy_lines import where_below
from .profile import Profile, bisect_epsilon
from .random_allocation import RandomAllocation
from .ratio_law import RatioLaw
from .refine import COARSEST, profile_of
from .step_law import trimmed
from .trade_off import TradeOffCurve, polygon_curve

ADJACENCIES = ("add_remove", "replace_one")
RESOLUTION = COARSEST / 4
LINES = 160  # of ε on each side of 0, from which a power bound is made


@dataclass(frozen=True)
class GroupPrivacy(Mechanism):
    """`mechanism` for data sets that differ in `records` records: added or removed ("add_remove"), or exchanged for as
    many others ("replace_one"). `direction`: "remove" tests the group's absence against its presence, "add" the
    reverse; under replace_one the two are the same.
    """

    mechanism: Mechanism
    records: int = 1
    adjacency: str = "add_remove"
    name: ClassVar[str] = "group"

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", whole_number("records", self.records))
        if self.adjacency not in ADJACENCIES:
            raise InputError(f"adjacency must be one of {', '.join(ADJACENCIES)}, got {self.adjacency!r}")
        if isinstance(self.mechanism, GroupPrivacy | GaussianMixture):
            raise InputError("a group of groups is a group: give the mechanism of one record and the number of records")

    @property
    def replaced(self) -> bool:
        return self.adjacency == "replace_one"

    @property
    def exact(self) -> Mechanism | None:
        """The mechanism with the same pair under add/remove of one record, where the pair is known."""
        return _exact(self.mechanism, self.records, self.replaced)

    @property
    def certainty(self) -> str:
        """What stands behind the two ends, in words."""
        if self.exact is not None:
            return "exact pair, certified from both sides"
        if isinstance(self.mechanism, EpsilonDelta):
            return "upper end certified (chained); nothing is known from below"
        return "upper end certified (chained from single records), lower end certified (a concrete pair)"

    # -------------------------------------------------------------------------------------------------------- questions

    def accuracy_bound(self) -> float:
        """The upper end of `accuracy()`."""
        return float(self.accuracy().upper)

    def accuracy(self, width: float = 1e-6) -> Interval:
        """The width can be chosen only where the pair is known."""
        if self.exact is not None:
            return self.exact.accuracy(width)
        found = self.delta(0.0, "remove")
        return Interval(0.5 + found.lower / 2, min(1.0, 0.5 + found.upper / 2))

    def delta(self, epsilon: float, direction: str = "both", relative_width: float = RELATIVE_WIDTH) -> Interval:
        """relative_width: as for `accuracy`, chosen only where the pair is known."""
        check_direction(direction)
        epsilon = check_epsilon(epsilon)
        if self.exact is not None:
            return self.exact.delta(epsilon, self._side(direction), relative_width)
        if epsilon == math.inf:
            return Interval(0.0, self.mechanism.delta(math.inf, direction).upper)
        upper = max(self._bound(side).delta(epsilon) for side in self._sides(direction))
        lower = max(self._lower_delta(epsilon, side) for side in self._sides(direction))
        return Interval(min(lower, upper), upper)

    def epsilon(self, delta: float, direction: str = "both", relative_width: float = RELATIVE_WIDTH) -> Interval:
        check_direction(direction)
        delta = check_delta(delta)
        if self.exact is not None:
            return self.exact.epsilon(delta, self._side(direction), relative_width)
        if delta == 0:
            return self._without_delta()
        upper = max(bisect_epsilon(self._bound(side).delta, delta, 690.0)[1] for side in self._sides(direction))
        sides = self._sides(direction)
        lower = max(bisect_epsilon(lambda e, s=s: self._lower_delta(e, s), delta, 690.0)[0] for s in sides)
        return Interval(min(lower, upper), upper)

    def true_positive_rate(
        self, false_positive_rate: ArrayLike, direction: str = "both", relative_width: float = RELATIVE_WIDTH
    ) -> Interval:
        check_direction(direction)
        rates = check_rates(false_positive_rate)
        if self.exact is not None:
            return self.exact.true_positive_rate(rates, self._side(direction), relative_width)
        flat = np.atleast_1d(rates).ravel()
        upper, lower = flat.copy(), flat.copy()
        for side in self._sides(direction):
            upper = np.maximum(upper, self._bound(side).power(flat))
            lower = np.maximum(lower, self._lower_power(flat, side))
        lower = np.minimum(lower, upper).reshape(rates.shape)
        return Interval(lower[()], upper.reshape(rates.shape)[()])

    def trade_off_curve(self) -> TradeOffCurve:
        """From the upper ends of δ(ε), both directions."""
        if self.exact is not None:
            return self.exact.trade_off_curve()
        bounds = [self._bound(side) for side in self._sides("both")]
        slopes = np.unique(np.concatenate([b.slopes[b.slopes >= 1] for b in bounds] + [np.ones(1)]))
        epsilons = np.log(slopes)
        deltas = np.array([max(b.delta(e) for b in bounds) for e in epsilons.tolist()])
        return polygon_curve(epsilons, deltas, f"{self.name}, chained lattice curve, certified")

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "records": self.records,
            "adjacency": self.adjacency,
            "mechanism": self.mechanism.record(),
        }

    # -------------------------------------------------------------------------------------------------------- two sides

    def _side(self, direction: str) -> str:
        return "remove" if self.replaced else direction  # the pair is its own mirror image

    def _sides(self, direction: str) -> list[str]:
        if self.replaced:
            return ["remove"]
        return ["remove", "add"] if direction == "both" else [direction]

    def _bound(self, side: str) -> PowerBound:
        return _chained(self.mechanism, self.records, self.replaced, side)

    def _below(self, side: str) -> list[Any]:
        """Sides of profiles that hold from below: the concrete pair, and one record of the group alone, the others
        (and what replaces it) having no gradient."""
        if isinstance(self.mechanism, EpsilonDelta):
            return []
        group, one = _lower_profile(self.mechanism, self.records, self.replaced), _profile(self.mechanism)
        found = [] if group is None else [getattr(group, side)]
        return found + (
            [] if one is None else [getattr(one, s) for s in (("remove", "add") if self.replaced else (side,))]
        )

    def _lower_delta(self, epsilon: float, side: str) -> float:
        return max((law.delta_lower(epsilon) for law in self._below(side)), default=0.0)

    def _lower_power(self, alpha: Any, side: str) -> Any:
        return np.max([alpha, *(np.interp(alpha, *law.attack()) for law in self._below(side))], axis=0)

    def _without_delta(self) -> Interval:
        if isinstance(self.mechanism, EpsilonDelta) and self.mechanism.delta_value == 0:
            links = self.records * (2 if self.replaced else 1)
            return Interval(0.0, links * self.mechanism.epsilon_value)
        return Interval(0.0 if isinstance(self.mechanism, EpsilonDelta) else math.inf, math.inf)


def _exact(mechanism: Mechanism, records: int, replaced: bool) -> Mechanism | None:
    if records == 1 and not replaced:
        return mechanism
    distance = records * (2 if replaced else 1)
    if isinstance(mechanism, ComposedMechanism) and mechanism.is_gaussian:
        mechanism = mechanism.gaussian
    if isinstance(mechanism, Gaussian):
        return Gaussian(mechanism.noise_multiplier / distance, mechanism.steps)
    if isinstance(mechanism, PoissonSampling):
        absent = records if replaced else 0
        return GaussianMixture.of_poisson(
            mechanism.sampling_rate, mechanism.steps, mechanism.noise_multiplier, records, absent
        )
    if isinstance(mechanism, Composition):
        parts = [_exact(phase, records, replaced) for phase in mechanism.phases]
        known = [part for part in parts if part is not None]
        return Composition(known) if len(known) == len(parts) else None
    return None


def _base(mechanism: Mechanism) -> Mechanism:
    return mechanism.one_epoch if isinstance(mechanism, FixedBins) else mechanism


def _profile(mechanism: Mechanism) -> Profile | None:
    """One record's profile in doubles; None where the lattice is out of reach, or there is none."""
    base = _base(mechanism)
    if not isinstance(base, ComposedMechanism):
        return None
    try:
        profile = profile_of(base, RESOLUTION)
        profile.remove.delta_upper(0.0)  # composes now, so that a memory limit shows here
        profile.add.delta_upper(0.0)
    except MemoryLimit:
        return None
    return profile


def _grid(reach: float) -> np.ndarray:
    """ε from −reach to reach, denser near 0."""
    half = np.concatenate((reach * np.linspace(0, 1, LINES) ** 1.5,))
    return np.unique(np.concatenate((-half, half)))


@lru_cache(maxsize=16)
def _chained(mechanism: Mechanism, records: int, replaced: bool, side: str) -> PowerBound:
    """The power of tests from one data set to the other, by single records; and by the Gaussian that dominates."""
    base = _base(mechanism)
    if isinstance(base, ComposedMechanism):
        single = {name: _single(base, name) for name in ("remove", "add")}
        limit = _gaussian_bound(base.gaussian, records * (2 if replaced else 1))
    else:
        single = {name: _bare(base, name) for name in ("remove", "add")}
        limit = None
    other = "add" if side == "remove" else "remove"
    orders = [[other] * records + [side] * records, [side] * records + [other] * records]
    bounds = [_follow([single[name] for name in names]) for names in (orders if replaced else [[side] * records])]
    found = bounds[0] if len(bounds) == 1 else bounds[0].meet(bounds[1])
    return found if limit is None else found.meet(limit)


def _follow(links: list[PowerBound]) -> PowerBound:
    found = links[0]
    for link in links[1:]:
        found = found.then(link)
    return found


def _single(base: ComposedMechanism, side: str) -> PowerBound:
    gaussian = _gaussian_bound(base.gaussian, 1)
    profile = _profile(base)
    if profile is None:
        return gaussian
    law = getattr(profile, side)
    reach = max(abs(law.upper.measure.start), abs(law.upper.measure.end)) * law.step
    # most lines where the law is, a few as far as it reaches; rounding may keep δ above any level there
    near = where_below(lambda e: law.delta_upper(e) if e < reach else 0.0, 1e-10)
    far = np.geomspace(near, max(min(reach, 300.0), 1.01 * near), LINES // 4)
    return power_bound(law.delta_upper, np.unique(np.concatenate((-far, _grid(near), far)))).meet(gaussian)


def _gaussian_bound(gaussian: Gaussian, distance: int) -> PowerBound:
    mu = gaussian.mu * distance

    def delta(epsilon: float) -> float:
        found = float(gaussian_delta(mu, abs(epsilon)).upper)
        return found if epsilon >= 0 else -math.expm1(epsilon) + math.exp(epsilon) * found

    return power_bound(delta, _grid(min(mu * mu / 2 + 38 * mu, 600.0)))


def _bare(mechanism: Mechanism, side: str) -> PowerBound:
    """A bare (ε, δ): its profile at its own ε, and mirrored."""
    epsilon = mechanism.epsilon_value if isinstance(mechanism, EpsilonDelta) else 1.0

    def delta(at: float) -> float:
        found = float(mechanism.delta(abs(at), side).upper)
        return found if at >= 0 else -math.expm1(at) + math.exp(at) * found

    return power_bound(delta, np.array([-epsilon, 0.0, epsilon]) if epsilon > 0 else np.zeros(1))


# --------------------------------------------------------------------------------------------------------- from below


@dataclass(frozen=True)
class GroupStatistic:
    """The parts of a run as a group's concrete pair shows them: its `parts` are good for lower ends only."""

    run: Composition
    records: int
    replaced: bool

    def parts(self, resolution: float, tail: float, longest: int, extended: bool = False) -> list[tuple[RatioLaw, int]]:
        terms = self.run.terms
        number = sum(terms.values())
        distance = self.records * (2 if self.replaced else 1)
        squares = sum(copies * term.log_step(resolution) ** 2 for term, copies in terms.items())
        step = trimmed(distance * math.sqrt(squares / number))
        found = []
        for term, copies in terms.items():
            if isinstance(term, RandomAllocation):
                law = group_statistic_law(
                    term.steps_per_epoch,
                    term.noise_multiplier,
                    self.records,
                    self.replaced,
                    resolution,
                    longest,
                    step,
                )
            else:
                exact = _exact(term, self.records, self.replaced)
                if isinstance(exact, Gaussian):
                    exact = PoissonSampling(1.0, 1, exact.noise_multiplier / math.sqrt(exact.steps))
                law = exact.ratio_law(resolution, tail / number, longest, False, step)  # type: ignore[union-attr]
            found.append((law, copies))
        return found


def _lower_profile(mechanism: Mechanism, records: int, replaced: bool) -> Profile | None:
    try:
        profile = profile_of(GroupStatistic(Composition([mechanism]), records, replaced), RESOLUTION)
        profile.remove.delta_lower(0.0)
        profile.add.delta_lower(0.0)
    except MemoryLimit:
        return None
    return profile
