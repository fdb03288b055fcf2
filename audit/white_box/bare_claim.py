"""A claim of a bare (epsilon, delta) names no mechanism: it is judged by the one that was seen."""

from __future__ import annotations

import math

from ...foundation import InputError
from ..bounds import EpsilonDelta, FixedBins, Gaussian, Mechanism, PoissonSampling, RandomAllocation
from .contributions import Contributions
from .finding import Finding, not_tested
from .noise_multiplier import multiplier_tails
from .recognise import Recognised

NAME = "epsilon"


def mechanism_seen(seen: Recognised, noise_multiplier: float) -> Mechanism | None:
    """None where no bound is known for the sampler that was seen."""
    match seen.name:
        case "random_allocation" if seen.steps_per_epoch:
            return RandomAllocation(seen.steps_per_epoch, seen.steps // seen.steps_per_epoch, noise_multiplier)
        case "fixed_bins" if seen.steps_per_epoch:
            return FixedBins(seen.steps_per_epoch, seen.steps // seen.steps_per_epoch, noise_multiplier)
        case "poisson" if seen.rate:
            return PoissonSampling(seen.rate, seen.steps, noise_multiplier)
        case "full_batch":
            return Gaussian(noise_multiplier, seen.steps)
        case _:
            return None


def find_epsilon(c: Contributions, exact: float | None, claim: EpsilonDelta, seen: Recognised) -> Finding:
    """The noise multiplier that the claim needs under the sampler that was seen, against the one that was measured."""
    a = c.reference[0] if exact is None else exact
    if a <= 0 or c.variance <= 0:
        return not_tested(NAME, "noise or contribution cannot be measured")
    value = math.sqrt(c.variance) / a
    mechanism = mechanism_seen(seen, value)
    if mechanism is None:
        return not_tested(NAME, f"no bound is known for the sampler that was seen: {seen.words}")
    if claim.delta_value == 0:
        return Finding(
            NAME, "normal noise keeps no claim with delta 0", "name a delta above 0", "the claim", broken=True
        )
    epsilon = float(mechanism.epsilon(claim.delta_value).lower)
    try:
        needed = _needed(mechanism, claim)
    except InputError as error:
        return not_tested(NAME, str(error))
    low, _ = multiplier_tails(c, exact, needed)
    return Finding(
        NAME,
        f"{seen.words}, noise multiplier {value:.4g}: epsilon {epsilon:.4g} at delta {claim.delta_value:g}, claimed "
        f"{claim.epsilon_value:.4g}, for which {needed:.4g} is needed",
        "the mechanism that was seen does not keep the claim",
        "the accountant: which sampler, how many steps and what noise it was told",
        p_value=low,
        value=epsilon,
        expected=claim.epsilon_value,
    )


def _needed(mechanism: Mechanism, claim: EpsilonDelta) -> float:
    """Slightly less than is needed: a trainer at the very edge of its claim is not accused."""
    target = {"epsilon": claim.epsilon_value, "delta": claim.delta_value}
    match mechanism:
        case RandomAllocation(steps_per_epoch=m, epochs=e):
            return RandomAllocation.calibrate(m, e, **target).noise_multiplier * 0.998
        case FixedBins(steps_per_epoch=m, epochs=e):
            return FixedBins.calibrate(m, e, **target).noise_multiplier * 0.998
        case PoissonSampling(sampling_rate=q, steps=steps):
            return PoissonSampling.calibrate(q, steps, **target).noise_multiplier * 0.998
    low, high = 1e-3, 1e6  # the Gaussian, in closed form
    for _ in range(80):
        middle = math.sqrt(low * high)
        steps = mechanism.steps if isinstance(mechanism, Gaussian) else 1
        if float(Gaussian(middle, steps).epsilon(claim.delta_value).lower) > claim.epsilon_value:
            low = middle
        else:
            high = middle
    return low
