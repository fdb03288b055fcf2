"""The finding that matters most: the noise multiplier, read without knowing clipping norm, divisor or learning rate."""

from __future__ import annotations

import math

from scipy.special import chdtr, chdtrc

from .contributions import Contributions
from .exact_tests import shifted_t, two_sided
from .finding import Finding, not_tested


def find_multiplier(c: Contributions, exact: float | None, claimed: float | None, confidence: float) -> Finding:
    """Noise deviation over contribution: free of the clipping norm, the divisor and the learning rate.

    `exact`: the contribution from replays without noise, where there are; else the measured one with its error.
    """
    name = "noise_multiplier"
    deviation = math.sqrt(c.variance)
    measured, _spread = c.reference
    a = measured if exact is None else exact
    if deviation == 0:
        return Finding(
            name,
            "there is no noise: what no record reaches is zero in every step",
            "no privacy at all",
            "the line that draws the noise",
            broken=claimed is not None,
            value=0.0,
            expected=claimed,
        )
    if a <= 0:
        return not_tested(
            name, "records contribute nothing that can be measured, so there is nothing to compare noise to"
        )
    low, high = _multiplier_interval(c, exact, confidence)
    p = None if claimed is None else two_sided(*multiplier_tails(c, exact, claimed))
    value = deviation / a
    weaker = claimed is not None and value < claimed
    return Finding(
        name,
        f"noise deviation over a record's contribution is {value:.4g} [{low:.4g}, {high:.4g}]"
        + ("" if claimed is None else f", {value / claimed:.4g} times the claimed {claimed:.6g}"),
        "less noise than claimed: every statement on privacy is too good"
        if weaker
        else "more noise than claimed costs accuracy, not privacy",
        "where noise is scaled: noise multiplier × clipping norm, on the sum of clipped gradients, once a step",
        p_value=p,
        if_wrong="violated" if weaker else "differs",
        value=value,
        expected=claimed,
        interval=(low, high),
        details={"contribution": a, "noise_deviation": deviation, "exact_contribution": exact is not None},
    )


def multiplier_tails(c: Contributions, exact: float | None, claimed: float) -> tuple[float, float]:
    """P-values against "at least claimed" and "at most claimed"."""
    if exact is not None:
        variance = (claimed * exact) ** 2
        statistic = c.degrees * c.variance / variance
        return float(chdtr(c.degrees, statistic)), float(chdtrc(c.degrees, statistic))
    a, spread = c.reference
    root = math.sqrt(spread)
    at_most, at_least = shifted_t(a / (math.sqrt(c.variance) * root), c.degrees, 1 / (claimed * root))
    return at_least, at_most


def _multiplier_interval(c: Contributions, exact: float | None, confidence: float) -> tuple[float, float]:
    """Exact, by inverting the two tests."""
    tail = (1 - confidence) / 2
    a = c.reference[0] if exact is None else exact
    centre = math.sqrt(c.variance) / a

    def search(side: int, direction: float) -> float:
        inside, step = centre, 1e-3
        while True:
            outside = centre * math.exp(direction * step)
            if multiplier_tails(c, exact, outside)[side] < tail or step > 20:
                break
            inside, step = outside, 2 * step
        for _ in range(40):
            middle = math.sqrt(inside * outside)
            if multiplier_tails(c, exact, middle)[side] < tail:
                outside = middle
            else:
                inside = middle
        return outside

    return search(1, -1.0), search(0, 1.0)
