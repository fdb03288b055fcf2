"""How detectable a canary set is: independent one-run audits of the same frozen set, fresh coins and weights each.

For choosing how to craft, before the audit that counts. A run evaluated here must not be reported as an audit: a set
picked by its results here needs fresh runs. The ε of a run is a class A lower bound with a guess rule fixed by the
number of canaries alone; the mean of several such bounds is a summary, not a bound, and the largest is neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student
from torch import nn

from ..attacks import phi
from ..canaries.base_models import TrainMany
from ..canaries.canary_set import CanarySet
from ..canaries.injection import remaining_rows
from ..foundation import InputError, numpy_stream
from ..foundation.classification import class_logits, classification_loss
from .estimators import Fixed, auc, roc_curve, tally_epsilon
from .training.data import Data

FALSE_POSITIVE_RATE = 0.05


@dataclass(frozen=True)
class EvaluationRun:
    """One one-run audit: rates on its own canaries, class A ε, and the accuracy the model kept."""

    true_positive_rate: float  # at FPR ≤ 0.05, whole blocks of ties only
    auc: float
    epsilon: float
    loss_true_positive_rate: float  # the same canaries and model, scored by −loss in float32 as most audits do
    tied_losses: float  # share of canaries whose float32 loss is shared with another canary
    test_accuracy: float
    members: int


def evaluate_canaries(
    canaries: CanarySet,
    data: Data,
    train_many: TrainMany,
    runs: int = 16,
    seed: int = 0,
    delta: float = 1e-5,
    together: int = 8,
    on_runs: Callable[[int], None] | None = None,
) -> list[EvaluationRun]:
    """`runs` independent trainings on data without the sources plus the members of fresh fair coins.

    together  how many are handed to train_many at once; on_runs hears how many are done
    Errors: InputError when the canaries do not come from this data.
    """
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
        raise InputError(f"runs must be a whole number of at least 1, got {runs!r}")
    if len(canaries) < 16:
        raise InputError(
            f"{len(canaries)} canaries are too few to evaluate: 16 are the least, 100 or more tell something"
        )
    if canaries.data_fingerprint and canaries.data_fingerprint != data.fingerprint:
        raise InputError(f"the canaries were crafted from other data than {data.name}: evaluate them on their own data")
    if len(data.y_test) == 0:
        raise InputError(f"{data.name} has no test rows: evaluation reports what canaries cost in accuracy; give some")
    stay = remaining_rows(canaries, len(data.y))
    x, y = np.concatenate([data.x[stay], canaries.x]), np.concatenate([data.y[stay], canaries.y])
    member = np.stack([_coins(len(canaries), seed, run) for run in range(runs)])
    results: list[EvaluationRun] = []
    for start in range(0, runs, together):
        some = member[start : start + together]
        membership = np.concatenate([np.ones((len(some), int(stay.sum())), bool), some], axis=1)
        seeds = [_model_seed(seed, run) for run in range(start, start + len(some))]
        models = train_many(x, y, membership, seeds)
        results += [
            evaluation_run(model, canaries, flags, data, delta) for model, flags in zip(models, some, strict=True)
        ]
        if on_runs:
            on_runs(len(results))
    return results


def evaluation_run(
    model: nn.Module, canaries: CanarySet, member: np.ndarray, data: Data, delta: float = 1e-5
) -> EvaluationRun:
    """What one trained model tells about which canaries it was trained on."""
    logits = _logits(model, canaries.x)
    score = phi(logits, canaries.y)
    loss = classification_loss(torch.from_numpy(logits), torch.from_numpy(canaries.y.copy())).numpy()
    quarter = len(canaries) // 8
    counts = Fixed(quarter, quarter).tally(score, member)
    _, block, size = np.unique(loss, return_inverse=True, return_counts=True)
    right = _logits(model, data.x_test).argmax(axis=1) == data.y_test
    return EvaluationRun(
        true_positive_rate=_rate(score, member),
        auc=auc(score, member),
        epsilon=tally_epsilon(counts, delta, 0.95).value,
        loss_true_positive_rate=_rate(-loss, member),
        tied_losses=float((size[block] > 1).mean()),
        test_accuracy=float(right.mean()),
        members=int(member.sum()),
    )


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float | None]:
    """(mean, half width of the t-interval); no half width from a single value. Class C: values independent, about
    normal."""
    array = np.asarray(values, dtype=float)
    if len(array) < 2:
        return float(array.mean()), None
    half = float(student.ppf(0.5 + confidence / 2, len(array) - 1)) * array.std(ddof=1) / np.sqrt(len(array))
    return float(array.mean()), float(half)


def summary(results: Sequence[EvaluationRun]) -> dict[str, Any]:
    """Mean and 95 % t-interval over runs of one set (not over sets), and the spread of ε."""
    columns = {name: [asdict(run)[name] for run in results] for name in asdict(results[0])}
    record: dict[str, Any] = {"runs": len(results)}
    for name in ("true_positive_rate", "auc", "loss_true_positive_rate", "tied_losses", "test_accuracy"):
        mean, half = mean_interval(columns[name])
        record[name] = {"mean": mean, "half_width": half}
    epsilons = columns["epsilon"]
    record["epsilon"] = {
        "median": float(np.median(epsilons)),
        "min": min(epsilons),
        "max": max(epsilons),
        "class": "A, each run on its own; their median is a summary, not a bound",
    }
    return record


def _rate(score: np.ndarray, member: np.ndarray) -> float:
    roc = roc_curve(score, member)
    return float(roc.true_positive_rate[roc.false_positive_rate <= FALSE_POSITIVE_RATE].max())


def _coins(count: int, seed: int, run: int) -> np.ndarray:
    """Fair coins; drawn again only where a side is empty, which no rate could be computed from (m ≥ 16: 3e-5)."""
    stream = numpy_stream(seed, f"coins/evaluation/{run}")
    while True:
        member = stream.random(count) < 0.5
        if member.any() and not member.all():
            return member


def _model_seed(seed: int, run: int) -> int:
    return int(numpy_stream(seed, f"evaluation/{run}").integers(2**62))


def _logits(model: nn.Module, x: np.ndarray, batch: int = 1024) -> np.ndarray:
    device = next(model.parameters()).device
    model.eval()
    with torch.no_grad():
        parts = [
            class_logits(model(torch.tensor(x[i : i + batch], device=device))).cpu() for i in range(0, len(x), batch)
        ]
    return torch.cat(parts).numpy()
