"""What claim the observations would support, where the one that was made does not stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .bare_claim import mechanism_seen
from .finding import Finding
from .recognise import Recognised

REPAIRABLE = {
    "noise_multiplier",
    "sampler",
    "epsilon",
    "one_run_audit",
}  # another claim would cover these; the rest are faults
DELTA = 1e-5


def supported_claim(findings: Sequence[Finding], seen: Recognised) -> dict[str, Any]:
    """The mechanism with the sampler that was seen and the lower end of the noise that was measured, and its epsilon;
    or a sentence that says why no claim would do."""
    wrong = [f.name for f in findings if f.status == "violated"]
    faults = [name for name in wrong if name not in REPAIRABLE]
    if faults:
        return {"mechanism": None, "why": f"no claim covers {', '.join(faults)}: mend them first"}
    noise = next((f for f in findings if f.name == "noise_multiplier"), None)
    if noise is None or noise.interval is None or noise.interval[0] <= 0:
        return {"mechanism": None, "why": "there is no noise that a claim could rest on"}
    mechanism = mechanism_seen(seen, noise.interval[0])
    if mechanism is None:
        return {"mechanism": None, "why": f"no bound is known for the sampler that was seen: {seen.words}"}
    return {"mechanism": mechanism.record(), "epsilon": float(mechanism.epsilon(DELTA).upper), "delta": DELTA}
