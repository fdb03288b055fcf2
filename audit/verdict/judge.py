"""From scores, membership and a claim to a verdict: the audit itself.

The verdict is one test at level alpha: the claim is rejected when its p-value is below alpha. Estimates (epsilon,
noise multiplier, accuracy) are reported at their own confidence and decide nothing. `looks` counts scores, signs and
thresholds that were tried with the coins open; it multiplies the p-value and divides the error of every estimate.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import ArrayLike

from ... import __version__
from ...foundation import InputError
from ..estimators.attack_accuracy import accuracy_p_value
from ..estimators.f_dp import epsilon_delta_of
from ..estimators.guesses import count_ties
from ..estimators.mann_whitney import mann_whitney_p_value
from ..estimators.roc import auc, check_scores
from ..estimators.tallies import Tally, tally_epsilon, tally_p_value
from ..training.run_record import RunRecord
from .allowed import allowed_by
from .claim import Claim, check_claim_against_run
from .curves import measured_histogram, measured_roc
from .estimates import (
    accuracy_estimate,
    epsilon_estimate,
    metric_estimates,
    no_leakage_estimate,
    noise_estimate,
    p_value_estimate,
    rates_estimate,
)
from .facts import Counts, Guessing, Reach, ThreatModel
from .membership import MEMBERSHIPS, member_count_remark
from .provenance import Provenance
from .result import AuditResult
from .settings import AuditSettings
from .text import verdict_text

LITTLE = 0.1  # of what is left to learn
INSERTIONS = {"add_remove": "a record is in or out", "replace_one": "which of two records is in"}
WRONG_SIGN_P_VALUE = 1e-3


@dataclass(frozen=True)
class Evidence:
    """What is judged: (m,) float scores in order of canary id, (m,) bool members, and where both come from."""

    scores: np.ndarray
    members: np.ndarray
    membership: str = "coins"
    run: RunRecord | None = None
    threat_model: ThreatModel = field(default_factory=ThreatModel)
    provenance: Provenance = field(default_factory=Provenance)
    label: str = ""
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.membership not in MEMBERSHIPS:
            raise InputError(f"membership {self.membership!r} is not known: choose one of {', '.join(MEMBERSHIPS)}")
        scores, members = check_scores(self.scores, self.members)
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "members", members)


def audit(
    scores: ArrayLike,
    members: ArrayLike,
    claim: Claim | None = None,
    settings: AuditSettings | None = None,
    *,
    membership: str = "coins",
    label: str = "",
) -> AuditResult:
    """(m,) scores in order of canary id and (m,) bool members, decided as `membership` says -> what they show.

    Errors: InputError for unusable scores or scores that look upside down. `judge` takes what else is known.
    """
    evidence = Evidence(np.asarray(scores), np.asarray(members), membership, label=label)
    return judge(evidence, claim, settings or AuditSettings())


def judge(evidence: Evidence, claim: Claim | None, settings: AuditSettings) -> AuditResult:
    """Errors: InputError for a claim that the run contradicts, or scores that look upside down."""
    scores, members, membership = evidence.scores, evidence.members, evidence.membership
    _check_rule(settings, scores.size)
    if claim is not None:
        _check_insertion(claim, evidence)
    remarks = list(evidence.remarks)
    remarks += [] if claim is None or evidence.run is None else check_claim_against_run(claim, evidence.run)
    scores = -scores if settings.sign == "flip" else scores
    if settings.sign == "check":
        check_sign(scores, members)
    if membership == "coins" and (remark := member_count_remark(members)):
        remarks.append(remark)
    remarks += [] if evidence.run is None else _nothing_learned(evidence.run)
    allowed = None if claim is None else allowed_by(claim, membership, settings.delta)
    remarks += [] if allowed is None else allowed.remarks

    counts = settings.guess_rule.tally(scores, members, settings.alpha)
    accuracy = settings.guess_rule.all_guessed(scores, members)
    bounds_allowed = membership == "coins"
    independent = settings.independence != "one_run" and membership != "unknown"
    estimates = [accuracy_estimate(accuracy, membership, settings)]
    decisive, proved, reach = None, 0.0, Reach()
    if bounds_allowed:
        epsilon = tally_epsilon(counts, settings.delta, settings.confidence_each)
        decisive, proved = epsilon.best, epsilon.value
        estimates.append(epsilon_estimate(epsilon.value, evidence.provenance.commitment, settings))
        best = tally_epsilon(counts.perfect(), settings.delta, settings.confidence_each)
        reach = replace(reach, largest_reportable_epsilon=best.value)
    if independent:
        estimates.append(rates_estimate(scores, members, settings))
    test = None
    if claim is not None and (bounds_allowed or independent):
        test = _test(claim, counts, accuracy, independent, settings)
        if test.best is not None and (test.p_value < 1 or proved == 0):  # else the guesses told are those that prove ε
            decisive = test.best
        reach = replace(reach, smallest_reportable_p_value=test.smallest)
        estimates.append(p_value_estimate(test.p_value, test.validity, settings))
        if bounds_allowed and (bound := noise_estimate(claim, counts, settings)):
            estimates.append(bound)
    if membership == "random_split":
        estimates.append(no_leakage_estimate(scores, members, settings))
    estimates += metric_estimates(scores, members, membership, settings)

    verdict = _verdict(claim, test, settings)
    guessed = counts.guesses.size - 1 if decisive is None else decisive
    rule = settings.guess_rule
    result = AuditResult(
        verdict=verdict,
        counts=Counts(
            canaries=int(scores.size),
            members=int(members.sum()),
            non_members=int(members.size - members.sum()),
            guesses=int(counts.guesses[guessed]),
            correct=int(counts.correct[guessed]),
            ties=count_ties(scores),
            undefined=int(np.isnan(scores).sum()),
            all_guesses=int(accuracy[1]),
            all_correct=int(accuracy[0]),
        ),
        estimates=tuple(estimates),
        alpha=settings.alpha,
        label=evidence.label,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        claim=allowed,
        run=evidence.run,
        provenance=evidence.provenance,
        threat_model=evidence.threat_model,
        guess_rule=Guessing(
            name=rule.name,
            highest=rule.numbers[0],
            lowest=rule.numbers[1],
            guess_counts=tuple(counts.guesses.tolist()),
            correct_counts=tuple(counts.correct.tolist()),
            tested_canaries=counts.canaries,
            looks=settings.total_looks,
            sign=settings.sign,
        ),
        membership=membership,
        independence=settings.independence,
        p_value=None if test is None else test.p_value,
        remarks=tuple(remarks),
        power=reach,
        roc=measured_roc(scores, members, settings.confidence, "none" if membership == "unknown" else "C"),
        histogram=measured_histogram(scores, members),
        versions={"coalmine": __version__, "python": platform.python_version(), "numpy": np.__version__},
    )
    return replace(result, verdict_text=verdict_text(result))


def _check_insertion(claim: Claim, evidence: Evidence) -> None:
    """A coin that decides in or out tests an add/remove promise; one that decides which of two, a replace-one promise.

    Under replace-one a mechanism may publish how many records there are, which gives every in-or-out coin away.
    """
    insertion = evidence.threat_model.insertion
    if claim.adjacency != insertion:
        raise InputError(
            f"the claim is under adjacency {claim.adjacency}, the coins decided by {insertion} "
            f"({INSERTIONS[insertion]}): "
            + (
                "claim add_remove, or toss which of two records is trained on and say --insertion replace_one"
                if insertion == "add_remove"
                else "claim replace_one, or toss whether a record is in and say --insertion add_remove"
            )
        )


def _nothing_learned(run: RunRecord) -> list[str]:
    """A remark where the trained model is hardly better than naming one class: such a model has nothing to tell."""
    known = [rate for rate in (run.majority_share, run.initial_accuracy) if rate is not None]
    if run.train_accuracy is None or not known:
        return []
    idle = max(known)
    if run.train_accuracy >= idle + LITTLE * (1 - idle):
        return []
    return [
        f"hardly anything was learned: the model is right on {run.train_accuracy:.3f} of its own training rows; an "
        f"untrained one, or naming one class, is on {idle:.3f}. Such a run says nothing of what training leaks"
    ]


def _check_rule(settings: AuditSettings, canaries: int) -> None:
    """The calibrated boundary pays canaries * delta out of its error: refuse it where nothing would be left."""
    error = (1 - settings.confidence) / settings.total_looks
    if settings.guess_rule.name == "calibrated" and canaries * settings.delta >= error:
        raise InputError(
            f"guess_rule calibrated proves nothing where canaries * delta = {canaries * settings.delta:.3g} reaches "
            f"the error {error:.3g}: use guess_rule grid, or a smaller delta"
        )


def check_sign(scores: np.ndarray, members: np.ndarray) -> None:
    if mann_whitney_p_value(scores, members, "less") < WRONG_SIGN_P_VALUE:
        raise InputError(
            f"members score lower than non-members (AUC {auc(scores, members):.3f}): wrong sign? A higher score must "
            "mean member. Negate the scores with --sign flip, which counts as a second look, or say --sign keep if "
            "the direction was fixed beforehand"
        )


@dataclass(frozen=True)
class _Test:
    """`best`: the index of the guess count behind the p-value; `smallest`: the p-value of a perfect attack."""

    p_value: float
    best: int | None
    smallest: float
    validity: str


def _test(claim: Claim, counts: Tally, accuracy: tuple[int, int], independent: bool, settings: AuditSettings) -> _Test:
    looks = settings.total_looks
    if independent:
        bound = float(claim.mechanism.accuracy().upper)
        p_value = accuracy_p_value(*accuracy, bound)
        smallest = accuracy_p_value(accuracy[1], accuracy[1], bound)
        return _Test(min(1.0, looks * p_value), None, min(1.0, looks * smallest), "C")
    bare = epsilon_delta_of(claim.mechanism) is not None
    target = claim.mechanism if bare else claim.mechanism.trade_off_curve()
    found = tally_p_value(counts, target, settings.alpha)
    smallest = tally_p_value(counts.perfect(), target, settings.alpha)
    return _Test(min(1.0, looks * found.value), found.best, min(1.0, looks * smallest.value), "A" if bare else "B")


def _verdict(claim: Claim | None, test: _Test | None, settings: AuditSettings) -> str:
    if claim is None:
        return "no_claim"
    if test is None or test.smallest >= settings.alpha:
        return "no_power"
    return "rejected" if test.p_value < settings.alpha else "not_rejected"
