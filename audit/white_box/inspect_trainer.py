"""The whole check: run the trainer on the probe, ask every question, correct for their number, conclude."""

from __future__ import annotations

import datetime
import math
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from ... import __version__
from ...attacks.observation import Observation, Train
from ...canaries.probe import Probe, make_probe
from ..bounds import EpsilonDelta, FixedBins, Gaussian, Mechanism, PoissonSampling, RandomAllocation
from . import noise, repetition
from .architectures import find_batch_normalisation, find_shared_layers
from .bare_claim import find_epsilon, mechanism_seen
from .contributions import Contributions, measure, noise_of
from .divisor import find_divisor
from .empty_steps import find_empty_steps
from .finding import Finding, judged
from .noise_multiplier import find_multiplier
from .recognise import recognise
from .records import find_contributions, find_learning
from .replays import ExactContributions, exact_contributions, find_neighbours, find_not_finite, find_use
from .result import CheckResult, Verdict
from .runs import CheckSettings, Run, Runs, make_runs, watched
from .sampler import Batches, find_sampler
from .supported import supported_claim
from .whole import find_one_run

CONFIDENCE = 0.99  # of the intervals that are shown; the tests have the familywise level


def check(
    train: Train, claim: Any, settings: CheckSettings | None = None, advance: Callable[[], None] = lambda: None
) -> CheckResult:
    """Run train(model, dataset) on a probe a few times, look inside, and say what contradicts the claim.

    claim    a mechanism of coalmine.audit.bounds, or a Claim that holds one
    advance  called after every run
    A trainer that is as claimed is reported otherwise with probability at most settings.alpha over all findings.
    Errors: InputError where the trainer raises or cannot be observed.
    """
    settings = settings or CheckSettings()
    mechanism: Mechanism = getattr(claim, "mechanism", claim)
    record = claim.to_json() if hasattr(claim, "to_json") else {"mechanism": mechanism.record()}
    start = time.perf_counter()
    runs = make_runs(train, mechanism, settings, advance)
    c = measure(runs.probe, runs.main.seen)
    exact = exact_contributions(runs)
    found = _findings(runs, c, exact, mechanism, settings)
    if isinstance(exact, ExactContributions):  # special models are judged by replays, which this trainer allows
        found += _special(train, runs, settings, advance)
    findings = judged(found, settings.alpha)
    verdict: Verdict = "consistent"
    for status in ("differs", "violated"):
        if any(f.status == status for f in findings):
            verdict = status
    return CheckResult(
        trainer=getattr(train, "__qualname__", type(train).__name__),
        claim=record,
        verdict=verdict,
        findings=findings,
        alpha=settings.alpha,
        seed=settings.seed,
        records=len(runs.probe.x),
        seconds=round(time.perf_counter() - start, 3),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        supported=supported_claim(findings, recognise(runs.main.seen.use)) if verdict == "violated" else None,
        figures=_figures(runs, exact),
        versions={"coalmine": __version__, "torch": torch.__version__, "python": platform.python_version()},
    )


def _findings(
    runs: Runs, c: Contributions, exact: ExactContributions | str, mechanism: Mechanism, settings: CheckSettings
) -> list[Finding]:
    probe, main = runs.probe, runs.main
    known = exact if isinstance(exact, ExactContributions) else None
    contribution = c.reference[0] if known is None else known.reference
    others = [run for run in (runs.coins, runs.few) if isinstance(run, Run)]
    seen = recognise(main.seen.use)
    measured = math.sqrt(c.variance) / contribution if contribution > 0 and c.variance > 0 else 1.0
    batches = [Batches.of(probe, run.seen.use, run.rows) for run in (main, runs.coins)]
    return [
        find_multiplier(c, None if known is None else known.reference, noise_claimed(mechanism), CONFIDENCE),
        noise.by_parameter(probe, main.seen),
        noise.by_step(probe, main.seen),
        noise.by_coordinate(probe, main.seen),
        repetition.repeated(probe, [main.seen, *(run.seen for run in others)]),
        repetition.shared(probe, main.seen, settings.seed),
        repetition.correlated(probe, main.seen, settings.seed),
        repetition.shape(probe, main.seen, settings.seed),
        find_contributions(c, exact),
        noise.around_records(c),
        find_divisor(probe, main, others, c, None if known is None else known.divisor, settings.seed),
        find_sampler(batches, mechanism, settings.seed, CONFIDENCE),
        find_empty_steps(probe, runs.few, mechanism),
        find_neighbours(runs, exact),
        find_use(exact),
        find_not_finite(runs),
        find_learning(probe, main.seen, c),
        find_one_run(
            runs,
            mechanism,
            mechanism_seen(seen, measured) if isinstance(mechanism, EpsilonDelta) else mechanism,
            contribution,
            CONFIDENCE,
        ),
        *(
            [find_epsilon(c, None if known is None else known.reference, mechanism, seen)]
            if isinstance(mechanism, EpsilonDelta)
            else []
        ),
    ]


def _special(train: Train, runs: Runs, settings: CheckSettings, advance: Callable[[], None]) -> list[Finding]:
    shared = make_probe(
        settings.records, settings.seed, shape=settings.shape, classes=settings.classes, loss=settings.loss, repeats=2
    )

    def run(model: nn.Module, probe: Probe, x: np.ndarray) -> Observation:
        seen = watched(train, model, probe, runs.main.rows, settings.seed, x)
        advance()
        return seen

    return [
        find_shared_layers(run, shared, "shared_layers" in settings.supports),
        find_batch_normalisation(run, runs.probe, "batch_normalisation" in settings.supports),
    ]


def noise_claimed(mechanism: Mechanism) -> float | None:
    match mechanism:
        case RandomAllocation() | FixedBins() | PoissonSampling() | Gaussian():
            return mechanism.noise_multiplier
        case EpsilonDelta():
            return None
        case _:
            return None


def _figures(runs: Runs, exact: ExactContributions | str) -> dict[str, Any]:
    """What the page draws, rounded: batches over steps, contribution against length, noise by step."""
    probe, main = runs.probe, runs.main.seen
    known = isinstance(exact, ExactContributions)
    deviation = np.sqrt(np.mean(noise_of(probe, main) ** 2, axis=1))
    return {
        "steps": main.steps,
        "batch_sizes": main.batch_sizes.tolist(),
        "noise_by_step": [_round(v) for v in deviation.tolist()],
        "curve": [[_round(a), _round(b)] for a, b in exact.curve] if known else [],
        "reference": _round(exact.reference) if known else None,
        "divisor": _round(exact.divisor) if known and exact.divisor is not None else None,
        "clipping_norm": _round(exact.clipping_norm) if known and exact.clipping_norm is not None else None,
    }


def _round(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
