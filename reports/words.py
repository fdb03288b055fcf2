"""The field's terms in a reader's words: mechanisms, validity classes, facts of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from markupsafe import Markup, escape

from ..audit.verdict.allowed import Allowed
from ..audit.verdict.provenance import CHECKED
from ..audit.verdict.result import AuditResult
from ..foundation.fields import clean
from .rounding import number

VERDICT_WORDS = {
    "rejected": "Claim rejected",
    "not_rejected": "Claim not rejected",
    "no_power": "No power: nothing could have been rejected",
    "not_judged": "Claim not judged",
    "no_claim": "No claim: nothing was tested",
}
CLASS_WORDS = {
    "A": "assumes fair independent coins and nothing else: any mechanism, any dependence between canaries",
    "B": "assumes fair coins, and that the mechanism's trade-off curve is the claimed one",
    "runs": "assumes that the training runs are independent of each other, and nothing of the canaries inside a run",
    "C": "assumes that errors are independent across canaries, which one training run does not guarantee",
    "Bayesian": "a credible statement under a prior, not a confidence bound",
    "none": "a metric or an estimate, not a bound",
    "theory": "a mathematical promise for the claimed mechanism, nothing measured",
}
CLASS_IN_SHORT = {
    "A": "holds for any training, given fair coins",
    "B": "holds for the claimed mechanism, given fair coins",
    "runs": "holds if the runs are independent",
    "C": "holds if canaries err independently, which one run does not guarantee",
    "Bayesian": "holds under a prior",
    "none": "is a metric only",
    "theory": "is promised by mathematics, not measured",
}
_MECHANISMS = {
    "random_allocation": "random allocation",
    "fixed_bins": "fixed bins (one allocation reused every epoch)",
    "poisson": "Poisson sampling",
    "fixed_size": "fixed-size batches",
    "gaussian": "the Gaussian mechanism",
    "full_batch": "full batches",
    "none": "no noise at all",
}
_PARAMETERS = {
    "steps_per_epoch": "M",
    "epochs": "E",
    "noise_multiplier": "σ",
    "sampling_rate": "q",
    "steps": "steps",
    "epsilon": "ε",
    "delta": "δ",
}
_SPELLED = {
    "steps_per_epoch": "{} steps per epoch (M)",
    "epochs": "{} epochs (E)",
    "noise_multiplier": "noise multiplier σ = {}",
    "sampling_rate": "sampling rate q = {}",
    "steps": "{} steps",
}
_QUANTITIES = {
    "attack_accuracy": "attack accuracy",
    "accuracy": "accuracy",
    "epsilon": "ε",
    "epsilon_lower_bound": "ε, lower bound",
    "mu": "Gaussian-DP μ",
    "p_value": "p-value",
    "noise_multiplier": "σ, noise multiplier",
    "auc": "area under the ROC curve",
}


def mechanism(record: Mapping[str, Any]) -> str:
    """'random allocation, 100 steps per epoch (M), 10 epochs (E), noise multiplier σ = 1.43'; a bare claim reads
    '(ε, δ)-DP, ε = 1, δ = 10⁻⁵'.
    """
    parameters = _parameters(record, spelled=True)
    if "name" not in record and "epsilon" in record:
        return tied(", ".join(["(ε, δ)-DP", *parameters]))
    return tied(", ".join([mechanism_name(record), *parameters]))


def mechanism_name(record: Mapping[str, Any]) -> str:
    name = record.get("name")
    if not isinstance(name, str):
        return "(ε, δ)-DP" if "epsilon" in record else "a mechanism without a name"
    return _MECHANISMS.get(name, spaced(name))


def curve_name(claim: Allowed, varied: str) -> str:
    """The mechanism without the parameter that runs along the axis."""
    return ", ".join([mechanism_name(claim.record), *_parameters(claim.record, varied)])


def verdict(audit: AuditResult) -> str:
    """The verdict's key in words and sentences: the file's own, except that an untested claim is not judged."""
    return audit.verdict if audit.verdict != "no_power" or audit.judged else "not_judged"


def commitment(audit: AuditResult) -> str:
    """Whether the coins were held against a commitment; where not, whose word their age rests on."""
    if audit.provenance.commitment == CHECKED:
        return CHECKED
    return "none: that the coins are older than the training rests on the auditor's word"


def provenance(audit: AuditResult) -> dict[str, str]:
    """Which links of the chain from the set to the audit were checked, and the hashes of what was read."""
    chain = audit.provenance
    told = {"commitment": commitment(audit)}
    told |= {link.between: "checked" if link.checked else f"not checked: {link.why}" for link in chain.links}
    hashes = {
        "canary set": chain.canaries_sha256,
        "coins": chain.coins_sha256,
        "checkpoint": chain.checkpoint_sha256,
        "scores": chain.scores_sha256,
        "claim": chain.claim_sha256,
    }
    return told | {f"{name}, SHA-256": digest for name, digest in hashes.items() if digest}


def quantity(name: str) -> str:
    return _QUANTITIES.get(name, spaced(name))


def spaced(name: str) -> str:
    return "add/remove" if name == "add_remove" else clean(name).replace("_", " ")


def tied(text: str) -> str:
    """No line break inside an equation."""
    return re.sub(r" ([=≤≥]) ", "\u00a0\\1\u00a0", text)


def facts(record: Mapping[str, Any], above: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Name and value of every fact in a free-form record, nested names joined; long lists are counted, not shown."""
    for key, value in record.items():
        name = f"{above}{spaced(str(key))}"
        if key == "mechanism" and isinstance(value, Mapping):
            yield name, mechanism(value)
        elif isinstance(value, Mapping) and depth < 3:
            yield from facts(value, f"{name}: ", depth + 1)
        elif isinstance(value, list | tuple | Mapping):
            short = len(value) <= 40 and not any(isinstance(one, list | tuple | Mapping) for one in value)
            shown = ", ".join(_shown(one) for one in value) if short else f"{len(value)} entries"
            yield name, shown or "none"
        else:
            yield name, _shown(value)


def code(text: str) -> Markup:
    """The text escaped, and what stands between backticks set as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _parameters(record: Mapping[str, Any], without: str = "", spelled: bool = False) -> list[str]:
    return [
        _SPELLED[name].format(_shown(value))
        if spelled and name in _SPELLED
        else f"{_PARAMETERS.get(str(name), spaced(str(name)))} = {_shown(value)}"
        for name, value in record.items()
        if name not in ("name", without) and isinstance(value, int | float | str) and not isinstance(value, bool)
    ]


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**53):
        return number(value, 8) if value == value and abs(value) != float("inf") else str(value)
    try:
        text = clean(str(value))
        return (spaced(text) if re.fullmatch(r"[a-z]+(_[a-z]+)+", text) else text) or "–"
    except ValueError:  # an integer of thousands of digits
        return "a very large number"
