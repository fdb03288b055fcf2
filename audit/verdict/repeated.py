"""A verdict from repeated training runs.

With one canary a run the R scores are one class C audit: errors of independent trainings are independent. With all
canaries in every run each run is a class B audit of its own (any dependence between its canaries), and their p-values
are combined by Fisher's method. The over-dispersion test says whether canaries of one run err independently: where it
rejects, class C statements about single runs of this configuration are not to be trusted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from scipy.stats import t as student_t

from ...foundation import InputError
from ..estimators.guesses import order_guesses
from ..estimators.independent_runs import combine_p_values, over_dispersion
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
    correct = np.array([int(order_guesses(scores, members).correct(canaries)) for scores, members in each_run])
    spread = over_dispersion(correct, np.full(len(correct), canaries))
    epsilons = tuple(_value(each, "epsilon") for each in single)
    estimates = [_accuracy_over_runs(correct / canaries, settings.confidence)]
    p_value, reach, verdict = None, Reach(), "no_claim"
    if claim is not None:
        p_value = combine_p_values([_known(each.p_value) for each in single])
        best = combine_p_values([_known(each.power.smallest_reportable_p_value) for each in single])
        reach = Reach(smallest_reportable_p_value=best)
        verdict = "no_power" if best >= settings.alpha else "rejected" if p_value < settings.alpha else "not_rejected"
        estimates.append(_p_value_estimate(p_value, single[0], len(single)))
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
        p_value=p_value,
        verdict=verdict,
        remarks=tuple(sorted({remark for each in single for remark in each.remarks})),
        power=reach,
        roc=measured_roc(scores, members, settings.confidence, "none"),
        histogram=measured_histogram(scores, members),
        repeated=Repeated(
            runs=len(single),
            design="all_canaries",
            p_values=() if claim is None else tuple(_known(each.p_value) for each in single),
            epsilon_lower_bounds=epsilons,
            correct_of_all=tuple(correct.tolist()),
            over_dispersion=spread.ratio,
            over_dispersion_p_value=spread.p_value,
        ),
    )
    return replace(result, verdict_text=_text(result))


def _known(value: float | None) -> float:
    assert value is not None  # every run is judged against the same claim
    return value


def _value(result: AuditResult, quantity: str) -> float:
    found = result.estimate(quantity)
    assert found is not None and found.value is not None
    return found.value


def _accuracy_over_runs(accuracy: np.ndarray, confidence: float) -> Estimate:
    """Mean over runs with a t interval: runs are independent, canaries of a run need not be."""
    half = student_t.ppf((1 + confidence) / 2, len(accuracy) - 1) * accuracy.std(ddof=1) / np.sqrt(len(accuracy))
    mean = float(accuracy.mean())
    return Estimate(
        name="attack_accuracy_over_runs",
        quantity="attack_accuracy",
        value=mean,
        interval=(max(0.0, mean - float(half)), min(1.0, mean + float(half))),
        validity="C",
        confidence=confidence,
        note=f"mean of {len(accuracy)} runs, every canary guessed; t interval over independent runs, approximate",
    )


def _p_value_estimate(p_value: float, first: AuditResult, runs: int) -> Estimate:
    one = first.named("claim_p_value")
    assert one is not None
    note = f"Fisher's combination of {runs} independent runs; each: {one.note}"
    return replace(one, name="combined_claim_p_value", value=p_value, note=note)


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
            f"Rejected: over {runs} independent runs the combined p-value of the claim ({claimed}) is "
            f"{rounded_up(p_value)}, below alpha = {alpha:g}. Shown: training leaks more than the claim allows. "
            f"Not shown: why. {bounds}"
        )
    if result.verdict == "no_power":
        return f"No power: {runs} runs with every guess right would not reject the claim ({claimed}). {bounds}"
    return (
        f"Not rejected: over {runs} independent runs the combined p-value of the claim ({claimed}) is "
        f"{rounded_up(p_value)}, not below alpha = {alpha:g}. Not shown: that the claim holds. {bounds}{CAVEAT}"
    )
