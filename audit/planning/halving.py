"""Successive halving over settings: many for a short stretch of their runs, ever fewer for longer ones.

The scheme and the code are scikit-learn's HalvingGridSearchCV (Jamieson and Talwalkar, AISTATS 2016; Li et al., JMLR
2018): the resource is the part of a setting's own run, in equal turns, since every setting has the noise of its whole
length and a run of half the epochs would be another mechanism. A later round goes on where the earlier one stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.experimental import enable_halving_search_cv  # noqa: F401  (scikit-learn asks for it)
from sklearn.model_selection import HalvingGridSearchCV

from .setting import Setting

Measure = Callable[[Setting, int], float]


@dataclass(frozen=True)
class Schedule:
    """In each round the best 1/factor of the settings goes on; a whole run is `turns` turns, the first round one."""

    factor: int = 3
    turns: int = 27

    def rounds(self, settings: int) -> tuple[tuple[int, int], ...]:
        """(settings, turns) of each round, as scikit-learn counts them."""
        possible = 1 + math.floor(math.log(self.turns) / math.log(self.factor) + 1e-9)
        needed = 1 + math.floor(math.log(settings) / math.log(self.factor) + 1e-9)
        found, left = [], settings
        for turn in range(min(possible, needed)):
            found.append((left, self.factor**turn))
            left = math.ceil(left / self.factor)
        return tuple(found)


@dataclass(frozen=True)
class Trial:
    """A setting and how far it was run: the furthest round that it reached."""

    setting: Setting
    turns: int
    score: float


def halve(settings: Sequence[Setting], measure: Measure, schedule: Schedule) -> tuple[Trial, ...]:
    """Every setting's furthest trial, best first: by turns, then by score, then by place in `settings`."""
    resources: Any = {"min_resources": 1, "max_resources": _last(schedule, len(settings)), "error_score": "raise"}
    search = HalvingGridSearchCV(
        _Runs(measure),
        [{name: [value] for name, value in setting.to_json().items()} for setting in settings],
        factor=schedule.factor,
        resource="turns",
        cv=[([0], [1])],  # type: ignore[arg-type]  # the measure has its own rows
        refit=False,
        **resources,
    )
    search.fit(np.zeros((2, 1)), np.zeros(2))
    results = search.cv_results_
    furthest: dict[Setting, Trial] = {}
    for params, turns, score in zip(results["params"], results["n_resources"], results["mean_test_score"], strict=True):
        setting = Setting.from_json(params)
        furthest[setting] = Trial(setting, int(turns), float(score))
    place = {setting: i for i, setting in enumerate(settings)}
    return tuple(sorted(furthest.values(), key=lambda t: (-t.turns, -t.score, place[t.setting])))


def _last(schedule: Schedule, settings: int) -> int:
    return schedule.rounds(settings)[-1][1]


class _Runs(BaseEstimator):
    """A setting as scikit-learn's search sees it: fitting is training up to `turns`, the score its accuracy."""

    def __init__(
        self,
        measure: Any = None,
        steps_per_epoch: int = 1,
        epochs: int = 1,
        clipping_norm: float = 1.0,
        learning_rate: float = 1.0,
        turns: int = 1,
    ) -> None:
        self.measure = measure
        self.steps_per_epoch = steps_per_epoch
        self.epochs = epochs
        self.clipping_norm = clipping_norm
        self.learning_rate = learning_rate
        self.turns = turns

    def fit(self, x: Any, y: Any = None) -> _Runs:
        setting = Setting(int(self.steps_per_epoch), int(self.epochs), self.clipping_norm, self.learning_rate)
        self.score_ = self.measure(setting, int(self.turns))
        return self

    def score(self, x: Any, y: Any = None) -> float:
        return self.score_
