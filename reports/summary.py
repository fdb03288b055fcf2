"""The audit in plain language: what was claimed, what was measured, what that shows and what it does not, what to do.

Sentences only; every number in them is in audit.json. "Not rejected" never turns into "private".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..audit.verdict.estimate import Estimate
from ..audit.verdict.result import AuditResult
from . import words
from .rounding import UP, at_least, at_most, confidence, number, p_value, percent, percent_interval


@dataclass(frozen=True)
class Summary:
    verdict: str
    sentence: str
    claimed: str
    measured: str
    shown: str
    not_shown: str
    next_steps: tuple[str, ...]


def summarise(audit: AuditResult) -> Summary:
    return Summary(
        verdict=words.VERDICT_WORDS[words.verdict(audit)],
        sentence=_sentence(audit),
        claimed=words.tied(_claimed(audit)),
        measured=words.tied(_measured(audit)),
        shown=words.tied(_shown(audit)),
        not_shown=_NOT_SHOWN[words.verdict(audit)],
        next_steps=tuple(words.tied(step) for step in _next_steps(audit)),
    )


def p_value_class(audit: AuditResult) -> str:
    """The class of the estimate that is this p-value; else A against a bare (ε, δ), B against a mechanism's curve."""
    if audit.p_value_class is not None:
        return audit.p_value_class
    for estimate in audit.estimates:
        if estimate.quantity == "p_value" and estimate.value == audit.p_value:
            return estimate.validity
    if not audit.fair_coins or audit.claim is None:
        return "none"
    return "A" if "epsilon" in audit.claim.record and "name" not in audit.claim.record else "B"


def epsilon_bound(audit: AuditResult) -> Estimate | None:
    """The lower bound on ε that the audit lists first; a metric that is not a bound does not count."""
    return next(
        (
            e
            for e in audit.estimates
            if e.quantity.startswith("epsilon") and e.value is not None and e.validity != "none"
        ),
        None,
    )


def _sentence(audit: AuditResult) -> str:
    if audit.verdict == "rejected":
        return f"The training {'runs leak' if several(audit) else 'run leaks'} more than the privacy claim allows."
    if audit.verdict == "not_rejected":
        return "This attack found no contradiction to the claim. That is not evidence of privacy."
    if words.verdict(audit) == "not_judged":
        return "The claim was not tested: membership was not drawn by fair coins."
    if audit.verdict == "no_power":
        return "This audit is too small to contradict the claim, however much the model leaks."
    if several(audit):
        return "The runs were measured, but there is no claim to judge them against."
    return "The run was measured, but there is no claim to judge it against."


def several(audit: AuditResult) -> bool:
    """Whether the audit is of several training runs together."""
    return audit.repeated is not None and audit.repeated.runs > 1


def _claimed(audit: AuditResult) -> str:
    claim = audit.claim
    if claim is None:
        return "Nothing was claimed."
    trained = "Each model was trained" if several(audit) else "The model was trained"
    said = f"{trained} with {words.mechanism(claim.record)}."
    if claim.accuracy is not None and claim.accuracy.promised is not None:
        said += (
            f" If so, no attack, whatever it knows, tells members from non-members with an expected accuracy above "
            f"{percent(claim.accuracy.promised, UP)} (a coin flip has 50\u00a0%)."
        )
    if claim.epsilon is not None and claim.epsilon.upper is not None:
        said += f" In the usual currency: ε ≤ {at_most(claim.epsilon.upper)} at δ = {number(claim.epsilon.delta)}."
    return said


def _measured(audit: AuditResult) -> str:
    said = _canaries(audit)
    if guesses := "; ".join(guessed(audit)):
        said += f" {guesses[0].upper() if guesses[0].isascii() else guesses[0]}{guesses[1:]}."
    accuracy = audit.estimate("attack_accuracy")
    if accuracy is not None:
        ends = "" if accuracy.interval is None else f", interval {percent_interval(accuracy.interval)}"
        said += f" Attack accuracy {percent(accuracy.value)} (class {accuracy.validity}{ends})."
    if audit.p_value is not None:
        said += (
            f" If the claim were true, a result as strong as this would have a probability of at most "
            f"p = {p_value(audit.p_value)} (class {p_value_class(audit)})."
        )
    epsilon = epsilon_bound(audit)
    if epsilon is not None:
        certain = "" if epsilon.confidence is None else f" with {confidence(epsilon.confidence)} confidence"
        delta = "" if epsilon.delta is None else f" at δ = {number(epsilon.delta)}"
        said += f" The attack proves ε ≥ {at_least(epsilon.value)}{delta}{certain} (class {epsilon.validity})."
    noise = audit.estimate("noise_multiplier")
    if noise is not None and informative(audit, noise) and audit.verdict == "rejected":
        said += f" It leaked as if the noise multiplier had been σ ≤ {at_most(noise.value)} (class {noise.validity})."
    return said + _run_by_run(audit)


def _canaries(audit: AuditResult) -> str:
    counts = audit.counts
    drawn = "by fair coins" if audit.fair_coins else f"not by coins ({words.spaced(audit.membership)})"
    many = canaries_in_words(audit)
    return f"{many}: {counts.members} trained on, {counts.non_members} left out, decided {drawn}."


def canaries_in_words(audit: AuditResult) -> str:
    """'300 canaries', '4 independent runs × 300 canaries' or '40 independent runs with one canary each'."""
    canaries, repeated = audit.counts.canaries, audit.repeated
    if repeated is not None and repeated.design == "one_canary":
        return f"{repeated.runs} independent runs with one canary each"
    if repeated is not None and repeated.runs and canaries % repeated.runs == 0:
        return f"{repeated.runs} independent runs × {canaries // repeated.runs} canaries"
    return f"{canaries} canaries"


def guessed(audit: AuditResult) -> list[str]:
    """How many of all canaries were guessed right; then the guesses that decided, where some did.

    Where neither the p-value is below 1 nor an ε was proved, no number of guesses decided anything.
    """
    counts, said = audit.counts, []
    if counts.all_guesses and counts.all_correct is not None:
        share = percent(counts.all_correct / counts.all_guesses)
        lost = f" ({counts.undefined} without a score count as wrong)" if counts.undefined else ""
        said.append(f"{counts.all_correct} of {counts.all_guesses} canaries guessed right: {share}{lost}")
    elif not counts.guesses:
        said.append("the attack made no guess")
    if audit.repeated is not None or not counts.guesses:
        return said
    most = "" if audit.guess_rule.name in ("all", "sign", "split") else "most confident "
    decided = f"the {counts.guesses} {most}guesses, {counts.correct} right"
    epsilon = epsilon_bound(audit)
    if audit.p_value is not None and audit.p_value < 1 and p_value_class(audit) in ("A", "B"):
        said.append(f"the claim was judged on {decided}")
    elif epsilon is not None and epsilon.validity == "A" and epsilon.value:
        said.append(f"ε was bounded by {decided}")
    return said


def informative(audit: AuditResult, estimate: Estimate) -> bool:
    """An upper bound on the noise multiplier tells something only where it lies below the claimed one."""
    if estimate.quantity != "noise_multiplier" or audit.claim is None:
        return True
    claimed = audit.claim.record.get("noise_multiplier")
    if claimed is None or not _is_number(claimed):
        return True
    return estimate.value is not None and estimate.value <= claimed


def _run_by_run(audit: AuditResult) -> str:
    repeated = audit.repeated
    if repeated is None:
        return ""
    said = ""
    if repeated.p_values:
        low, high = min(repeated.p_values), max(repeated.p_values)
        said += f" Run by run, p lies between {at_least(low, 2)} and {p_value(high)} (class {p_value_class(audit)})."
    if repeated.epsilon_lower_bounds:
        low, high = min(repeated.epsilon_lower_bounds), max(repeated.epsilon_lower_bounds)
        said += (
            f" The runs' own lower bounds on ε go from {at_least(low)} to {at_least(high)} (class A, each at its own "
            "confidence; neither the largest nor the mean is a bound of the whole)."
        )
    if repeated.over_dispersion is not None:
        said += (
            f" The number of right guesses varies {number(repeated.over_dispersion, 3)} times as much between runs as "
            "it would if canaries erred independently"
        )
        if repeated.over_dispersion_p_value is not None:
            said += f" (p = {p_value(repeated.over_dispersion_p_value)}, class none)"
        said += "."
    return said


def _shown(audit: AuditResult) -> str:
    if audit.verdict == "rejected":
        kept = "these runs: runs that keep" if several(audit) else "this run: a run that keeps"
        return (
            f"The claim is false for {kept} it would be rejected with probability at most {number(audit.alpha)}, under "
            f"class {p_value_class(audit)}, which {words.CLASS_WORDS[p_value_class(audit)]}."
        )
    if audit.verdict == "not_rejected":
        tested = "" if audit.p_value is None else _p_against_alpha(audit)
        return f"Only that this attack, on these canaries, did not contradict the claim{tested}."
    if words.verdict(audit) == "not_judged":
        return "Nothing about the claim: without fair coins no test of it is valid. All numbers are metrics."
    if audit.verdict == "no_power":
        smallest = audit.power.smallest_reportable_p_value
        reach = " is not below" if smallest is None else f" is {at_least(smallest, 2)}, not below"
        reach += f" α = {number(audit.alpha)}"
        return f"Nothing. The smallest p-value that even a perfect attack could have reached{reach}."
    return "How far this attack tells members from non-members. Nothing about any promise."


def _p_against_alpha(audit: AuditResult) -> str:
    return f" (p = {p_value(audit.p_value)}, class {p_value_class(audit)}, against α = {number(audit.alpha)})"


_NOT_SHOWN = {
    "rejected": "How much more leaks than is proved here, and which part of the training is at fault.",
    "not_rejected": "That the model is private. A stronger attack, better canaries or more of them may still "
    "contradict the claim; so may a flaw in the code that these canaries do not touch.",
    "no_power": "Whether the claim holds. The result would read the same for a model that reveals everything.",
    "not_judged": "Whether the claim holds. How many canaries there were, and how the attack did, changes nothing.",
    "no_claim": "Whether the run keeps what it promises: no promise was given.",
}


def _next_steps(audit: AuditResult) -> tuple[str, ...]:
    if audit.verdict == "rejected":
        return (
            "Noise: is Gaussian noise added at every step, empty steps too, with standard deviation "
            "`noise_multiplier × clipping_norm` on the sum of the clipped gradients, before the division?",
            "Sampling: does each record enter the steps as claimed? Shuffled batches of fixed size are neither random "
            "allocation nor Poisson sampling.",
            "Divisor: is the noisy sum divided by a public constant? The realised batch size or data-set size leaks.",
            "Clipping: is each example's gradient clipped by itself, over all parameters together? Batch "
            "normalisation mixes examples and voids every claim.",
            "After the repair, train and audit again with fresh coins. Do not deploy or publish this model as private.",
        )
    if audit.verdict == "not_rejected":
        return (
            "Report it as it is: “not rejected”, with p, the number of canaries and the attack; never as “private”.",
            *_power_steps(audit),
            "Try to break it: mislabelled or crafted canaries, a white-box score, several views, several independent "
            "trainings. Name the score before the coins are opened.",
        )
    if words.verdict(audit) == "not_judged":
        return (
            "Draw fair coins for canaries before the next training (`coalmine coins`); flags of another kind test no "
            "claim.",
            "Or train repeatedly with one canary each (`coalmine repeat --one-canary`).",
        )
    if audit.verdict == "no_power":
        return (
            *_power_steps(audit),
            "A claim that allows much may need too many: `coalmine power` also says how many independent trainings "
            "with one canary each would do, `coalmine repeat --one-canary` makes them.",
            "Then train and audit again: coins cannot be drawn after training.",
        )
    return (
        "State what the training promises (mechanism and parameters, or ε and δ) and judge the same scores again. "
        "A claim made to fit the result proves nothing.",
    )


def _power_steps(audit: AuditResult) -> tuple[str, ...]:
    steps = []
    largest, smallest = audit.power.largest_reportable_epsilon, audit.power.smallest_reportable_p_value
    if largest is not None:
        reach = f"With {audit.counts.canaries} canaries even a perfect attack could report no more than "
        reach += f"ε = {at_most(largest)}"
        if smallest is not None:
            reach += f", and no p-value below {at_least(smallest, 2)}"
        steps.append(reach + ": more canaries see further.")
    steps.append("How many canaries would be enough: `coalmine power --claim claim.json --violation 2`.")
    return tuple(steps)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value and abs(value) < 1e308
