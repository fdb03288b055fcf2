"""A verdict from repeated training runs.

With one canary a run the R scores are one class C audit: errors of independent trainings are independent. With all
canaries in every run the test is of the runs' accuracies: each run's expected accuracy is at most the claim's, and runs
are independent, so that a bet fixed beforehand (estimators/run_bets.py) gives a p-value that holds in finite samples
whatever the canaries inside a run do to each other: class "runs". The over-dispersion test says whether canaries of one
run err independently: where it rejects, class C statements about single runs of this configuration are not to be
trusted. Where the runs are too few for that test, the claimed curve is used as well (`planned_bet`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from ...foundation import InputError
from ..estimators.f_dp import epsilon_delta_of
from ..estimators.independent_runs import combine_p_values, over_dispersion
from ..estimators.run_bets import RunBet, RunsFinding, accuracy_bet, curve_bet, runs_p_value
from ..estimators.runs_accuracy import runs_accuracy
from ..training.run_record import RunRecord
from .claim import Claim
from .curves import measured_histogram, measured_roc
from .estimate import Estimate
from .facts import Counts, Guessing, Reach, Repeated, ThreatModel
from .judge import Evidence, check_sign, judge
from .provenance import Provenance
from .result import AuditResult
from .settings import AuditSettings
from .text import CAVEAT, described, rounded_down, rounded_up


class RepeatedRuns(Protocol):
    """scores (R, m) float64 and members (R, m) bool of R runs; canary (R,) the one that run r tossed, or None."""

    @property
    def scores(self) -> np.ndarray: ...
    @property
    def members(self) -> np.ndarray: ...
    @property
    def canary(self) -> np.ndarray | None: ...
    def one_per_run(self) -> tuple[np.ndarray, np.ndarray]: ...


def judge_repeated(
    runs: RepeatedRuns,
    claim: Claim | None = None,
    settings: AuditSettings | None = None,
    evidence: Circumstances | None = None,
) -> AuditResult:
    """All runs together; `repeated` in the result says what each run gave.

    Errors: InputError for runs whose coins all fell on one side (with one canary a run: train more runs).
    """
    settings, about = settings or AuditSettings(), evidence or Circumstances()
    if runs.canary is None:
        return _combined(runs, claim, settings, about)
    scores, members = runs.one_per_run()
    if members.all() or not members.any():
        raise InputError(f"the coins of all {len(members)} runs fell on one side: train more runs")
    together = replace(settings, independence="runs")
    result = judge(about.of(scores, members), claim, together)
    return replace(result, repeated=Repeated(len(scores), "one_canary"))


@dataclass(frozen=True)
class Circumstances:
    """What is the same for all runs."""

    run: RunRecord | None = None
    threat_model: ThreatModel = field(default_factory=ThreatModel)
    provenance: Provenance = field(default_factory=Provenance)
    label: str = ""

    def of(self, scores: np.ndarray, members: np.ndarray) -> Evidence:
        return Evidence(scores, members, "coins", self.run, self.threat_model, self.provenance, self.label)


def _combined(runs: RepeatedRuns, claim: Claim | None, settings: AuditSettings, about: Circumstances) -> AuditResult:
    if settings.sign == "check":  # over all runs: with many runs a single one looks upside down by chance
        check_sign(runs.scores.ravel(), runs.members.ravel())
        settings = replace(settings, sign="keep")
    each_run = list(zip(runs.scores, runs.members, strict=True))
    single = [judge(about.of(scores, members), claim, settings) for scores, members in each_run]
    canaries = runs.scores.shape[1]
    correct = np.array([settings.guess_rule.all_guessed(scores, members)[0] for scores, members in each_run])
    spread = over_dispersion(correct, np.full(len(correct), canaries))
    estimates, reach, test = [_accuracy_over_runs(correct, canaries, settings)], Reach(), None
    if claim is not None:
        test = _test_over_runs(claim, correct, canaries, settings)
        reach = Reach(smallest_reportable_p_value=test.smallest_p_value)
        estimates += [_runs_estimate(test, len(single)), _fisher_estimate(single)]
    scores, members = runs.scores.ravel(), runs.members.ravel()
    rule = settings.guess_rule
    result = replace(
        single[0],
        counts=Counts(
            **{name: sum(getattr(each.counts, name) for each in single) for name in Counts.__dataclass_fields__}
        ),
        guess_rule=Guessing(rule.name, *rule.numbers, looks=settings.total_looks, sign=settings.sign),
        independence="one_run",
        estimates=tuple(estimates),
        p_value=None if test is None else test.p_value,
        p_value_class=None if test is None else test.validity,
        verdict=_verdict(test, settings.alpha),
        remarks=tuple(sorted({remark for each in single for remark in each.remarks})),
        power=reach,
        roc=measured_roc(scores, members, settings.confidence, "none"),
        histogram=measured_histogram(scores, members),
        repeated=Repeated(
            runs=len(single),
            design="all_canaries",
            p_values=() if claim is None else tuple(_known(each.p_value) for each in single),
            epsilon_lower_bounds=tuple(_value(each, "epsilon") for each in single),
            correct_of_all=tuple(correct.tolist()),
            over_dispersion=spread.ratio,
            over_dispersion_p_value=spread.p_value,
        ),
    )
    return replace(result, verdict_text=_text(result))


def planned_bet(claim: Claim, canaries: int, runs: int, alpha: float) -> RunBet:
    """The verdict's test, fixed by the claim and by the numbers of runs and canaries, before any coin is opened.

    Each run's expected accuracy is at most the claim's, whatever its canaries do to each other: class "runs". That
    alone cannot reject with few runs, however many canaries each has; there the claim's trade-off curve is used too
    (class B; A for a bare epsilon).
    """
    bound = float(claim.mechanism.accuracy().upper)
    bet = accuracy_bet(canaries, bound, runs, alpha)
    if bet.smallest_p_value(runs) <= alpha**2:
        return bet
    bare = epsilon_delta_of(claim.mechanism) is not None
    curve = claim.mechanism if bare else claim.mechanism.trade_off_curve()
    return curve_bet(curve, canaries, bound, runs, alpha)


def _test_over_runs(claim: Claim, correct: np.ndarray, canaries: int, settings: AuditSettings) -> RunsFinding:
    looks = settings.total_looks
    found = runs_p_value(planned_bet(claim, canaries, len(correct), settings.alpha / looks), correct)
    return replace(
        found,
        p_value=min(1.0, looks * found.p_value),
        smallest_p_value=min(1.0, looks * found.smallest_p_value),
    )


def _verdict(test: RunsFinding | None, alpha: float) -> str:
    if test is None:
        return "no_claim"
    if test.smallest_p_value >= alpha:
        return "no_power"
    return "rejected" if test.p_value < alpha else "not_rejected"


def _known(value: float | None) -> float:
    assert value is not None  # every run is judged against the same claim
    return value


def _value(result: AuditResult, quantity: str) -> float:
    found = result.estimate(quantity)
    assert found is not None and found.value is not None
    return found.value


def _accuracy_over_runs(correct: np.ndarray, canaries: int, settings: AuditSettings) -> Estimate:
    found = runs_accuracy(correct, canaries, settings.confidence)
    return Estimate(
        name="attack_accuracy_over_runs",
        quantity="attack_accuracy",
        value=found.accuracy,
        interval=(found.lower, found.upper),
        validity=found.validity,
        confidence=settings.confidence,
        note=f"mean of {found.runs} runs, every canary guessed; holds in finite samples whatever the canaries of one "
        "run do to each other, if the runs are independent",
    )


def _runs_estimate(test: RunsFinding, runs: int) -> Estimate:
    by_accuracy = test.validity == "runs"
    against = "bound on expected accuracy" if by_accuracy else "trade-off curve, the runs being too few for less"
    together = "nothing of the canaries inside a run" if by_accuracy else "the claimed curve for what they do in it"
    note = (
        f"{runs} independent runs against the claim's {against}, by a bet fixed beforehand; needs independent runs "
        f"and {together}"
    )
    return Estimate("claim_p_value_over_runs", "p_value", test.p_value, validity=test.validity, note=note)


def _fisher_estimate(single: list[AuditResult]) -> Estimate:
    """Beside the verdict's test, for comparison: what Fisher's method makes of each run's own p-value."""
    one = single[0].named("claim_p_value")
    assert one is not None
    combined = combine_p_values([_known(each.p_value) for each in single])
    note = f"Fisher's combination of {len(single)} runs, for comparison, decides nothing; each: {one.note}"
    return replace(one, name="fisher_combination", value=combined, note=note)


def _text(result: AuditResult) -> str:
    repeated, p_value, alpha, claimed = result.repeated, result.p_value, result.alpha, described(result)
    assert repeated is not None
    runs, epsilons = repeated.runs, repeated.epsilon_lower_bounds
    bounds = (
        f"Their lower bounds on epsilon run from {rounded_down(min(epsilons), 3)} to {rounded_down(max(epsilons), 3)}, "
        "each at its own confidence: neither the largest nor the mean is a bound of the whole. "
    )
    if p_value is None:
        return f"{runs} runs, and no claim was given. {bounds}{CAVEAT}"
    if result.verdict == "rejected":
        return (
            f"Rejected: over {runs} independent runs the p-value of the claim ({claimed}) is "
            f"{rounded_up(p_value)}, below alpha = {alpha:g}. Shown: training leaks more than the claim allows. "
            f"Not shown: why. {bounds}"
        )
    if result.verdict == "no_power":
        return f"No power: {runs} runs with every guess right would not reject the claim ({claimed}). {bounds}"
    return (
        f"Not rejected: over {runs} independent runs the p-value of the claim ({claimed}) is "
        f"{rounded_up(p_value)}, not below alpha = {alpha:g}. Not shown: that the claim holds. {bounds}{CAVEAT}"
    )
