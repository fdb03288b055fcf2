"""Was the model asked what it was trained on? Its accuracy on its own training rows says so, before any attack.

Stopped, with the usual reasons and the option that mends each:
- no better on its own rows than naming the most frequent class, and no agreement with the labels beyond chance;
- clearly better with its outputs in another order (found on one half of its rows, judged on the other half);
- clearly better with images or features normalised in one of the usual ways;
- another accuracy on its own rows than the user says that it had there.
Every comparison is an exact test at level ALARM on the target's own rows: a rightly fed model is stopped by chance less
than once in a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import binom, binomtest, norm

from ...attacks.measurement import Measurement
from ...attacks.shadow_arrays import ShadowArrays
from ...foundation import InputError, numpy_stream
from ..feeding import Feeding
from ..rows import Universe
from .candidates import Candidates
from .result import OwnAccuracy
from .target import Target

ALARM = 1e-4
CLEARLY = 0.001  # one-sided, for "clearly better than the majority class"
MOST_ASKED = 512  # rows that are asked again in other ways
MOST_NATURAL = 2000
NORMALISATIONS = {
    "ImageNet's": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "CIFAR-10's": ((0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)),
    "MNIST's": ((0.1307,), (0.3081,)),
    "[-1, 1]": ((0.5,), (0.5,)),
    "0 … 255": ((0.0,), (1 / 255,)),
}


def own_accuracy(predicted: np.ndarray, labels: np.ndarray, member: np.ndarray) -> OwnAccuracy:
    """predicted, labels (n,) class numbers, member (n,) bool."""
    right = predicted == labels
    own = labels[member]
    return OwnAccuracy(
        members=int(member.sum()),
        members_right=int(right[member].sum()),
        non_members=int((~member).sum()),
        non_members_right=int(right[~member].sum()),
        majority=float(np.bincount(own).max() / len(own)),
    )


@dataclass(frozen=True, eq=False)
class OwnRows:
    """Rows that the target was trained on, x (n, …) and y (n,), and the class that it names for each."""

    x: np.ndarray
    y: np.ndarray
    predicted: np.ndarray


def check_fed(
    target: Target, rows: Candidates, predicted: np.ndarray, stated: float | None = None, device: str | None = None
) -> OwnAccuracy:
    """The accuracy of the target on its own and on other rows. stated: what the user says it had on its own rows.

    Errors: InputError for a target that was fed otherwise than it was trained.
    """
    accuracy = own_accuracy(predicted, rows.y, rows.member)
    own = OwnRows(rows.x[rows.member], rows.y[rows.member], predicted[rows.member])
    check_own_rows(target, own, accuracy, stated, device)
    return accuracy


def check_own_rows(
    target: Target, own: OwnRows, accuracy: OwnAccuracy, stated: float | None = None, device: str | None = None
) -> None:
    """Errors: InputError, see above. A run of `coalmine train` was trained by us on these very rows, and is fed rightly
    unless the user says how: one that learned nothing is warned of."""
    if target.run is not None and not target.feeding.to_json():
        return
    _check_order(own, target.classes, accuracy)
    _check_normalisation(target, own, device)
    if stated is not None:
        _check_stated(accuracy, stated)  # a model that is known to have learned nothing may be attacked too
    else:
        check_better_than_chance(own.predicted, own.y, accuracy)


def check_better_than_chance(predicted: np.ndarray, labels: np.ndarray, accuracy: OwnAccuracy) -> None:
    """Errors: InputError where the labels of the target's own rows are not told clearly better than by the majority
    class, nor, where that class is nearly all of them, in agreement with the labels beyond chance."""
    if better_than_chance(predicted, labels, accuracy):
        return
    raise InputError(
        f"the target labels {_share(accuracy.members_right, accuracy.members)} of the rows it is said to be trained on "
        f"right, not clearly more than the {accuracy.majority:.1%} of naming their most frequent class always: it was "
        "not asked what it was trained on. The usual reasons: its inputs were normalised or transformed (--pixel-mean "
        "and --pixel-std, --transform), its outputs are in another order (--classes), or it was trained on other rows "
        "(--data, --target-members)"
    )


def better_than_chance(predicted: np.ndarray, labels: np.ndarray, accuracy: OwnAccuracy) -> bool:
    """Over the target's own rows (members,), see `check_better_than_chance`."""
    better = binom.sf(accuracy.members_right - 1, accuracy.members, accuracy.majority) < CLEARLY
    return bool(better or (accuracy.majority > 0.5 and _agreement(predicted, labels) > norm.isf(CLEARLY)))


def fed_warnings(target: Target, predicted: np.ndarray, labels: np.ndarray, accuracy: OwnAccuracy) -> list[str]:
    """predicted, labels of the target's own rows: what is no reason to stop and still decides what can be said."""
    if target.run is None or better_than_chance(predicted, labels, accuracy):
        return []
    return [
        f"the target labels {accuracy.on_members:.1%} of its own training rows right, not clearly more than naming the "
        f"most frequent class would ({accuracy.majority:.1%}): it has learned nothing that an attack could find"
    ]


def _agreement(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Standard score of the number of agreements under random pairing of these predictions with these labels."""
    n = len(labels)
    classes = int(max(predicted.max(), labels.max())) + 1
    a, b = (np.bincount(v, minlength=classes).astype(float) for v in (predicted, labels))
    mean = (a * b).sum() / n
    cross = (a * b).sum() ** 2 - (a * a * b * b).sum()
    variance = ((a * (n - a) * b * (n - b)).sum() + cross) / (n * n * max(n - 1, 1))
    return 0.0 if variance <= 0 else float(((predicted == labels).sum() - mean) / np.sqrt(variance))


def _check_order(own: OwnRows, classes: tuple[str, ...], accuracy: OwnAccuracy) -> None:
    """Outputs in another order: the assignment that fits one half of the rows best, judged on the other half."""
    predicted, labels = own.predicted, own.y
    if len(labels) < 2:
        return
    order = numpy_stream(0, "fed/halves").permutation(len(labels))
    fit, judge = order[::2], order[1::2]
    table = np.zeros((len(classes), len(classes)))
    np.add.at(table, (predicted[fit], labels[fit]), 1)
    np.fill_diagonal(table, table.diagonal() + 1e-6)  # as it is, where nothing speaks against it
    stands_for = linear_sum_assignment(table, maximize=True)[1]  # output -> class
    reordered = stands_for[predicted[judge]]
    if _clearly_better(reordered == labels[judge], predicted[judge] == labels[judge]):
        names = ",".join(classes[c] for c in stands_for)
        gained = (reordered == labels[judge]).mean()
        raise InputError(
            f"the target labels {_share(accuracy.members_right, accuracy.members)} of its own training rows right, and "
            f"{gained:.1%} if its outputs stand for the classes in another order: give --classes in the order of its "
            f"outputs; its answers suggest --classes {names}"
        )


def _check_normalisation(target: Target, own: OwnRows, device: str | None) -> None:
    if target.feeding.changes_rows or target.whole_numbers:
        return
    few = np.sort(numpy_stream(0, "fed/rows").permutation(len(own.y))[:MOST_ASKED])
    x, y = own.x[few], own.y[few]
    right = own.predicted[few] == y
    if right.all():
        return
    for name, feeding in _other_feedings(x):
        moved = feeding.wrap(target.module, x.shape[1:]) if isinstance(feeding, Feeding) else target.module
        given = x if isinstance(feeding, Feeding) else feeding
        try:
            again = Measurement(x[:0], y[:0], x[:0], y[:0], device=device).ask(moved, given, y)["correct"]
        except (InputError, RuntimeError):
            continue
        if _clearly_better(again, right, ALARM / 6):
            option = (
                f"--pixel-mean {_numbers(feeding.pixel_mean)} --pixel-std {_numbers(feeding.pixel_std)}"
                if isinstance(feeding, Feeding)
                else "your scaling as --transform package.module:function"
            )
            raise InputError(
                f"the target labels {_share(int(right.sum()), len(right))} of its own training rows right as they are, "
                f"and {again.mean():.1%} with {name} normalisation: say how it was fed, for instance by {option}"
            )


def _other_feedings(x: np.ndarray) -> list[tuple[str, Feeding | np.ndarray]]:
    if x.ndim == 4 and x.min() >= 0 and x.max() <= 1:
        channels = x.shape[1]
        own = (
            tuple(round(float(v), 4) for v in x.mean(axis=(0, 2, 3))),
            tuple(max(round(float(v), 4), 1e-3) for v in x.std(axis=(0, 2, 3))),
        )
        usual = {"the data's own": own, **NORMALISATIONS}
        return [(n, Feeding(m, s)) for n, (m, s) in usual.items() if len(m) in (1, channels)]
    if x.ndim == 2 and len(x) > 2:
        spread = x.std(axis=0)
        scaled = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)
        if np.abs(scaled - x).max() > 0.1:
            return [("standard (mean 0, deviation 1)", scaled.astype(np.float32))]
    return []


def _check_stated(accuracy: OwnAccuracy, stated: float) -> None:
    if not 0 <= stated <= 1:
        raise InputError(f"--training-accuracy {stated} must lie between 0 and 1")
    # half a percent is left for rounding and for rows that were augmented when it was measured
    low, high = max(0.0, stated - 0.005), min(1.0, stated + 0.005)
    k, n = accuracy.members_right, accuracy.members
    if binom.cdf(k, n, low) < CLEARLY or binom.sf(k - 1, n, high) < CLEARLY:
        raise InputError(
            f"the target labels {_share(k, n)} of the rows it is said to be trained on right, and --training-accuracy "
            f"says {stated:.1%}: these are other rows, or in another order than --target-members counts them, or the "
            "model is not fed as it was trained (--pixel-mean, --transform, --classes)"
        )


def check_gap(accuracy: OwnAccuracy, shadow_gaps: np.ndarray) -> None:
    """shadow_gaps (S,): accuracy on own rows minus accuracy on others, of models trained by the target's recipe.

    Errors: InputError where every shadow knows its own rows by far better and the target does not know those that are
    said to be its own: the list of members belongs to other rows.
    """
    if len(shadow_gaps) < 2:
        return
    own = accuracy.on_members - accuracy.on_non_members
    error = np.sqrt(
        accuracy.on_members * (1 - accuracy.on_members) / accuracy.members
        + accuracy.on_non_members * (1 - accuracy.on_non_members) / accuracy.non_members
    )
    mean, spread = float(shadow_gaps.mean()), float(shadow_gaps.std(ddof=1))
    if shadow_gaps.min() > 0 and mean - own > 6 * np.hypot(error, spread) and own < norm.isf(CLEARLY) * error:
        raise InputError(
            f"shadow models of this recipe label {mean:.1%} more of their own training rows right than of others "
            f"(at least {shadow_gaps.min():.1%}), the target {own:.1%}: the rows of --target-members are not those it "
            "was trained on. Check their order, and that they count the rows of --data"
        )


def _clearly_better(one: np.ndarray, other: np.ndarray, level: float = ALARM) -> bool:
    """McNemar's exact test, one-sided: rows that only one gets right against rows that only the other does."""
    gained, lost = int((one & ~other).sum()), int((other & ~one).sum())
    return gained > lost and float(binomtest(gained, gained + lost, 0.5, alternative="greater").pvalue) < level


def _share(k: int, n: int) -> str:
    return f"{k / n:.1%} ({k} of {n})"


def _numbers(values: tuple[float, ...] | None) -> str:
    return ",".join(f"{v:g}" for v in values or ())


def own_accuracy_of(arrays: ShadowArrays) -> OwnAccuracy | None:
    """Of a target whose answers another tool stored. Errors: InputError as in `check_better_than_chance`."""
    if arrays.target_predicted is None or arrays.labels is None or arrays.target_member is None:
        return None
    predicted, member = arrays.target_predicted[0], arrays.target_member[0]
    if not member.any() or member.all():
        return None  # told by `conclude`
    accuracy = own_accuracy(predicted, arrays.labels, member)
    check_better_than_chance(predicted[member], arrays.labels[member], accuracy)
    return accuracy


def accuracy_of_run(
    target: Target, rows: Universe, stated: float | None = None, device: str | None = None
) -> OwnAccuracy | None:
    """On the natural rows that are always in, at most MOST_NATURAL of them; None where there is none.

    A run of `coalmine train` is fed by construction: one that learned nothing is a matter of the verdict, not stopped.
    """
    always = np.flatnonzero(rows.always)
    if not len(always):
        return None
    few = np.sort(numpy_stream(0, "fed/natural").permutation(always)[:MOST_NATURAL])
    outside = rows.population_x[:MOST_NATURAL], rows.population_y[:MOST_NATURAL]
    x, y = np.concatenate([rows.x[few], outside[0]]), np.concatenate([rows.y[few], outside[1]])
    member = np.arange(len(y)) < len(few)
    predicted = Measurement(x[:0], y[:0], x[:0], y[:0], device=device).ask(target.module, x, y)["predicted"]
    accuracy = own_accuracy(predicted, y, member)
    check_own_rows(target, OwnRows(x[member], y[member], predicted[member]), accuracy, stated, device)
    return accuracy
