"""Everything at once: a one-run audit with the optimal score, against the exact bound of the claim.

The score is the log-likelihood ratio of the mechanism along the canary's own direction, where no other record lies, and
the guess its sign. On a trainer that is as claimed no attack on the same numbers does better, so its accuracy is the
exact bound up to chance; it moves with every fault that makes the run reveal more.
"""

from __future__ import annotations

import math

import numpy as np

from ...attacks.white_box import every_step_ratio, fixed_bins_ratio, poisson_ratio, random_allocation_ratio
from ...canaries.probe import Probe
from ..bounds import EpsilonDelta, FixedBins, Gaussian, Mechanism, PoissonSampling, RandomAllocation
from ..estimators import clopper_pearson, f_dp_p_value, grid_epsilon
from .contributions import noise_of
from .empty_steps import claimed_steps
from .finding import Finding, not_tested
from .runs import Run, Runs

DELTA = 1e-5


def find_one_run(
    runs: Runs, claim: Mechanism, seen: Mechanism | None, contribution: float, confidence: float
) -> Finding:
    """claim: what is judged; seen: the mechanism whose likelihood ratio is the score, the claim's own where it names
    one; contribution: a in the run main, scaled to this run by the noise, which a moving divisor moves as well."""
    name = "one_run_audit"
    scores = (
        "the sampler that was seen has no likelihood ratio"
        if seen is None
        else one_run_scores(runs, seen, contribution)
    )
    if isinstance(scores, str):
        return not_tested(name, scores)
    guesses = scores > 0
    m, correct = len(scores), int(np.sum(guesses == runs.members))
    exact = claim.accuracy(1e-4)
    p = f_dp_p_value(claim, correct, m, m)
    epsilon = grid_epsilon(scores, runs.members.astype(int), DELTA, 0.95)
    low, high = clopper_pearson(correct, m, confidence)
    return Finding(
        name,
        f"{correct} of {m} canaries guessed right ({correct / m:.1%}); the claim allows {float(exact.upper):.1%} on "
        f"average; epsilon is at least {epsilon:.3g} at delta {DELTA:g} (class A, 95 %)",
        "the run reveals more than the claim allows, whatever the reason",
        "the other findings",
        p_value=p,
        value=correct / m,
        expected=float(exact.upper),
        interval=(low, high),
        details={
            "class": "A" if isinstance(claim, EpsilonDelta) else "B",
            "correct": correct,
            "canaries": m,
            "accuracy_lower": float(exact.lower),
            "accuracy_upper": float(exact.upper),
            "epsilon_lower": epsilon,
            "delta": DELTA,
        },
    )


def one_run_scores(runs: Runs, mechanism: Mechanism, contribution: float) -> np.ndarray | str:
    """(m,) log-likelihood ratios of the solo rows in the run with coins; or why there are none."""
    run, probe = runs.coins, runs.probe
    if contribution <= 0:
        return "records contribute nothing that can be measured"
    claimed = claimed_steps(mechanism)
    if claimed is None:
        return "the claim names no mechanism"
    if run.seen.steps != claimed:
        return f"{run.seen.steps} steps were taken, {claimed} are claimed"
    mine, theirs = (_deviation(probe, r) for r in (runs.main, run))
    if mine == 0 or theirs == 0:
        return "there is no noise"
    x = projections(probe, run, contribution * theirs / mine)
    match mechanism:
        case RandomAllocation(steps_per_epoch=m, epochs=e, noise_multiplier=sigma):
            return random_allocation_ratio(x.reshape(e, m, -1), sigma).scores
        case FixedBins(steps_per_epoch=m, epochs=e, noise_multiplier=sigma):
            return fixed_bins_ratio(x.reshape(e, m, -1), sigma).scores
        case PoissonSampling(sampling_rate=q, noise_multiplier=sigma):
            return poisson_ratio(x, sigma, q).scores
        case Gaussian(noise_multiplier=sigma):
            return every_step_ratio(x, sigma).scores
        case _:
            return "the claim names no mechanism"


def projections(probe: Probe, run: Run, contribution: float) -> np.ndarray:
    """(T, m): each step along each solo row's own feature, one where the row is in it, up to noise."""
    own = probe.own[probe.solo]
    return run.seen.gradients @ own.T / (np.sum(own**2, axis=1) * contribution)


def _deviation(probe: Probe, run: Run) -> float:
    return math.sqrt(float(np.mean(noise_of(probe, run.seen) ** 2)))
