"""What claim the observations would support, where the one that was made does not stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..bounds import FixedBins, Gaussian, Mechanism, PoissonSampling, RandomAllocation
from .finding import Finding
from .recognise import Recognised

REPAIRABLE = {"noise_multiplier", "sampler", "one_run_audit"}  # another claim would cover these; the rest are faults
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
    mechanism = _mechanism(seen, noise.interval[0])
    if mechanism is None:
        return {"mechanism": None, "why": f"no bound is known for the sampler that was seen: {seen.words}"}
    return {"mechanism": mechanism.record(), "epsilon": float(mechanism.epsilon(DELTA).upper), "delta": DELTA}


def _mechanism(seen: Recognised, noise_multiplier: float) -> Mechanism | None:
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
