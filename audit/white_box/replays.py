"""The layer without statistics: the same run on neighbours, noise frozen.

Main and silent run differ by nothing but the contributions of records, so their difference shows each of them to
float precision. Main and neighbour differ by the contributions of a few records, and by nothing else if the trainer
is right: not the batches, not the noise, not the others' contributions, and by no more than one contribution each.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ...canaries.probe import LADDER
from .contributions import family, moving, noise_of
from .finding import Finding, not_tested
from .runs import Run, Runs

TOLERANCE = 1e-3
LOOK = "layers or code that mix records: BatchNorm, clipping of sums, statistics over a batch, adaptive clipping norms"


@dataclass(frozen=True, eq=False)
class ExactContributions:
    """reference: a of solo rows; by_kind: mean norm of a contribution over a; divisor: from rows too short to clip;
    clipping_norm = reference · divisor; curve: (length of gradient, contribution) of each row used alone."""

    reference: float
    by_kind: dict[str, float]
    divisor: float | None
    curve: tuple[tuple[float, float], ...]
    unseen: int  # (step, row) pairs that passed the forward pass and contributed nothing
    unannounced: int  # pairs that contributed without a forward pass

    @property
    def clipping_norm(self) -> float | None:
        return None if self.divisor is None else self.reference * self.divisor


def exact_contributions(runs: Runs) -> ExactContributions | str:
    """From the runs main and silent; or why not."""
    if isinstance(runs.silent, str):
        return runs.silent
    probe, seen = runs.probe, runs.main.seen
    other = runs.silent.seen
    if other.gradients.shape != seen.gradients.shape or not np.array_equal(other.use, seen.use):
        return "batches change when gradients do"
    difference = seen.gradients - other.gradients
    own = probe.own * moving(probe, seen)
    share = np.sum(own**2, axis=1)
    alone = ~np.char.startswith(probe.kind, "choir") & (share > 0)
    projected = difference @ own[alone].T / share[alone]  # (T, rows): a n_ti, up to the float error of a difference
    use = seen.use[:, alone]
    rows = np.flatnonzero(alone)
    solo = np.isin(rows, probe.solo)
    once = use == 1
    if not (once & solo).any():
        return "no record was used once in a step"
    reference = float(np.median(projected[:, solo][once[:, solo]]))
    noise = float(np.sqrt(np.mean(noise_of(probe, seen) ** 2)))
    if reference <= 1e-4 * noise or reference <= 0:
        return "records contribute nothing that could be measured"
    mean = np.array([projected[once[:, k], k].mean() if once[:, k].any() else np.nan for k in range(len(rows))])
    kinds = np.array([family(str(kind)) for kind in probe.kind[rows]])
    by_kind = {
        kind: float(np.nanmean(mean[kinds == kind])) / reference
        for kind in sorted(set(kinds.tolist()) - {"null"})
        if not np.all(np.isnan(mean[kinds == kind]))
    }
    curve = tuple(
        (float(probe.lengths[r]), float(m))
        for r, m in zip(rows, mean, strict=True)
        if np.isfinite(m) and probe.kind[r] != "null"
    )
    contributes = np.abs(projected[:, solo]) > 0.3 * reference
    used = use[:, solo] > 0
    return ExactContributions(
        reference,
        by_kind,
        _divisor(by_kind, reference, noise),
        curve,
        int(np.sum(used & ~contributes)),
        int(np.sum(~used & contributes)),
    )


def _divisor(by_kind: dict[str, float], reference: float, noise: float) -> float | None:
    """Rows too short to be clipped contribute length / divisor: two rungs of the ladder must agree on it."""
    rungs = [(length, by_kind.get(f"ladder/{length:g}")) for length in LADDER]
    for (short, low), (long, high) in itertools.pairwise(rungs):
        if low is None or high is None or low * reference < 1e-4 * noise:
            continue
        first, second = short / (low * reference), long / (high * reference)
        if abs(first / second - 1) < 0.02:
            return first
    return None


def find_use(exact: ExactContributions | str) -> Finding:
    """Rows that are fed to the model are those that contribute."""
    if isinstance(exact, str):
        return not_tested("use", exact)
    return Finding(
        "use",
        f"{exact.unseen} times a record passed the model in a step and contributed nothing, {exact.unannounced} times "
        "it contributed without passing",
        "the batches that contribute are not those that were drawn",
        "gradients kept from the step before (zero_grad), batches dropped after the forward pass, padding",
        broken=exact.unseen + exact.unannounced > 0,
        value=float(exact.unseen + exact.unannounced),
        expected=0.0,
    )


def find_neighbours(runs: Runs, exact: ExactContributions | str) -> Finding:
    name = "neighbours"
    if isinstance(runs.neighbour, str):
        return not_tested(name, runs.neighbour)
    probe, seen, other = runs.probe, runs.main.seen, runs.neighbour.seen
    meaning = "the noise is scaled for one record's contribution; what else a record moves is not covered by it"
    if other.gradients.shape != seen.gradients.shape or not np.array_equal(other.use, seen.use):
        return Finding(
            name,
            "other batches are drawn when some gradients change",
            meaning,
            "a sampler that looks at the data",
            broken=True,
        )
    if isinstance(exact, str):
        return not_tested(name, exact)
    difference = seen.gradients - other.gradients
    touched = np.any(probe.gradients[runs.silenced] != 0, axis=0)
    changed = seen.use[:, runs.silenced].sum(axis=1)
    noise = float(np.sqrt(np.mean(noise_of(probe, seen) ** 2)))
    tolerance = TOLERANCE * exact.reference + 1e-5 * noise * np.sqrt(difference.shape[1])
    leak = np.linalg.norm(difference[:, ~touched], axis=1)
    single = changed == 1
    most = float(np.linalg.norm(difference[single], axis=1).max()) if single.any() else 0.0
    idle = float(np.linalg.norm(difference[changed == 0], axis=1).max()) if (changed == 0).any() else 0.0
    worst = float(leak.max())
    too_far = most > exact.reference * (1 + 10 * TOLERANCE) + tolerance
    said = [
        f"replacing one record moves a step by at most {most / exact.reference:.4g} contributions",
        f"what other records add by {worst / exact.reference:.3g}",
        f"steps without a replaced record by {idle / exact.reference:.3g}",
    ]
    return Finding(
        name,
        ", ".join(said),
        meaning,
        LOOK,
        broken=too_far or worst > tolerance or idle > tolerance,
        value=most / exact.reference,
        expected=1.0,
        details={"others": worst / exact.reference, "idle_steps": idle / exact.reference},
    )


def find_not_finite(runs: Runs) -> Finding:
    """A row of NaN must be refused or contribute nothing."""
    name = "not_finite"
    if isinstance(runs.not_finite, str):
        refused = "raised" in runs.not_finite or "finite" in runs.not_finite
        return (
            Finding(name, f"a row with NaN is refused: {runs.not_finite[:160]}")
            if refused
            else not_tested(name, runs.not_finite)
        )
    run: Run = runs.not_finite
    spoiled = ~np.isfinite(run.seen.gradients).all(axis=1)
    return Finding(
        name,
        f"one row with NaN makes {int(spoiled.sum())} of {run.seen.steps} steps NaN",
        "NaN passes clipping and no noise hides it: the model tells that the row was there, and is lost",
        "clipping: a factor of NaN; replace gradients that are not finite by zero before the norm is taken, or raise",
        broken=bool(spoiled.any()),
        if_wrong="warning",
        value=float(spoiled.sum()),
        expected=0.0,
    )
