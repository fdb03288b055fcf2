"""Attack a finished model without training anything: ask it, check that it was fed rightly, measure, name the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...attacks.measurement import Measurement
from ...attacks.query import view_list
from ...attacks.shadow_arrays import ShadowArrays
from ...foundation import InputError
from ..choices import TARGET_ONLY, VIEWS
from .candidates import Candidates
from .conclude import Conclusion, Known, conclude
from .examples import Shown
from .fed import check_fed, fed_warnings
from .target import Target


@dataclass(frozen=True)
class Question:
    """How the target is attacked: which score is chosen beforehand, with how many views, on which device.

    training_accuracy: what the user's own log says of the target on its own training rows; differing is an error.
    """

    attack: str = "loss"
    views: int = 1
    batch_size: int = 512
    device: str | None = None
    training_accuracy: float | None = None

    def __post_init__(self) -> None:
        if self.views not in VIEWS:
            raise InputError(f"views must be one of {', '.join(map(str, VIEWS))}, got {self.views}")


def attack(target: Target, rows: Candidates, question: Question = Question()) -> Conclusion:
    """Scores of the target alone (loss, phi, hinge, Attack-P) on the rows, in one pass over them and no training.

    Errors: InputError for a target that was fed otherwise than it was trained, and for an attack that needs shadows.
    """
    if question.attack not in TARGET_ONLY:
        raise InputError(
            f"attack must be one of {', '.join(TARGET_ONLY)}, got {question.attack!r}: others need shadow models, "
            "coalmine lira"
        )
    measure = Measurement(
        rows.x, rows.y, rows.population_x, rows.population_y, view_list(VIEWS[question.views]), question.batch_size,
        question.device,
    )  # fmt: skip
    asked = measure.ask(target.module, rows.x, rows.y, measure.views)
    accuracy = check_fed(target, rows, asked["predicted"], question.training_accuracy, question.device)
    outside = len(rows.population_y) > 0
    population = (
        measure.ask(target.module, rows.population_x, rows.population_y)["phi"][:, 0]
        if outside
        else asked["phi"][~rows.member, 0]
    )
    arrays = ShadowArrays(
        shadow_phi=np.empty((0, *asked["phi"].shape), np.float32),
        keep=np.empty((0, len(rows.y)), bool),
        target_phi=asked["phi"][None],
        target_member=rows.member[None],
        population_target=population[None],
        target_hinge=asked["hinge"][None],
        target_predicted=asked["predicted"][None],
        labels=rows.y,
        origin=origin(target, rows)
        | {"attack_p_population": "rows outside that nobody asks about" if outside else "the non-members themselves"},
    )
    known = Known(
        inputs=(rows.x, rows.y),
        shown=shown(rows),
        accuracy=accuracy,
        warnings=(
            *row_warnings(rows),
            *fed_warnings(target, asked["predicted"][rows.member], rows.y[rows.member], accuracy),
        ),
        next_attack=stronger(target, rows),
    )
    return conclude(arrays, question.attack, known)


def origin(target: Target, rows: Candidates) -> dict[str, object]:
    """Where the numbers come from, for the record."""
    facts: dict[str, object] = {
        "data": rows.data,
        "data_fingerprint": rows.fingerprint,
        "rows": len(rows.y),
        "members": int(rows.member.sum()),
        "classes": len(rows.classes),
        "target": target.name,
    }
    if target.sha256 is not None:
        facts["target_sha256"] = target.sha256
    if target.model is not None:
        facts["model"] = target.model
    return facts | ({"feeding": target.feeding.to_json()} if target.feeding.to_json() else {})


def shown(rows: Candidates) -> Shown:
    """What people see of the rows: names, class names, columns, and pictures where rows are images."""
    labels = tuple(rows.classes[label] for label in rows.y)
    images = rows.x if rows.x.ndim == 4 and not rows.whole_numbers and rows.value_range == (0.0, 1.0) else None
    return Shown(rows.names, labels, rows.columns, images)


def row_warnings(rows: Candidates) -> list[str]:
    """What is wrong with the rows themselves."""
    twice = rows.on_both_sides()
    if not twice:
        return []
    return [
        f"{twice} of {len(rows.y)} rows stand on both sides, the same input among members and among non-members: the "
        "model was trained on what is counted as unseen, and every attack looks weaker than it is; drop them from the "
        "data"
    ]


def stronger(target: Target, rows: Candidates) -> str:
    """The next stronger attack as a command. No time stands in it: the same attack writes the same bytes."""
    words = ["coalmine lira --shadows 8", f"--target {target.name}"]
    if target.run is None:
        words.append(f"--model {target.model}" if target.model else "--train package.module:function")
        words += ["--steps-per-epoch M --epochs E --learning-rate L"] if target.model else []
    feeding = target.feeding
    for name, value in feeding.to_json().items():
        words.append(f"--{name.replace('_', '-')} {','.join(map(str, value)) if isinstance(value, list) else value}")
    words.append(f"--data {rows.data}")
    words += [f"--target-members {rows.members_file}"] if rows.members_file else []
    return " ".join([*words, "--output runs/lira"])
