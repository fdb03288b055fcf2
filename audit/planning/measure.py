"""From a budget to a setting: the utility graph measured by successive halving, the best confirmed on fresh seeds.

Choosing looks at validation rows, one in five of the training rows of each class, drawn once and for all. The chosen
setting is then trained on all training rows with seeds that the search never saw and measured on the test rows, which
nothing was chosen by; so are the same setting under Poisson sampling and a run that the closed form allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ... import __version__
from ...foundation import InputError, fresh_seed, in_use, json_bytes, numpy_stream, read_json, write_bytes
from ..bounds.proactive import Infeasible
from ..training.data import Data
from ..training.models import build_model
from .calculator import Question, answer
from .halving import Schedule, halve
from .noise_table import NoiseTable
from .private_selection import selection_price
from .setting import Setting
from .stacked_runs import Clock, Job, Rows, StackedRuns, split_seeds
from .utility_plan import Arm, Effort, MeanAccuracy, Point, Source, UtilityPlan

PUBLIC_DATA = ("digits",)


@dataclass(frozen=True, eq=False)
class MeasureRequest:
    """What is asked. target: {"epsilon", "delta"} or {"accuracy"}; seed None draws one, kept in the folder until the
    end: noise whose seed is known protects nobody. public: the rows need no protection, or stand for others."""

    data: Data
    model: str
    target: dict[str, float]
    settings: tuple[Setting, ...]
    public: bool
    spends_budget: bool = False
    seed: int | None = None
    search_seeds: int = 3
    fresh_seeds: int = 10
    cpu_minutes: float = 10.0
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        if not (self.public or self.spends_budget):
            raise InputError(
                f"measuring on {self.data.name} spends privacy budget for every run that is looked at: give --public "
                "where its rows need no protection (public data, or a proxy), or --spends-budget to spend it"
            )
        if self.search_seeds < 1 or self.fresh_seeds < 2:
            raise InputError("search_seeds must be at least 1 and fresh_seeds at least 2, for an interval")
        if not self.cpu_minutes > 0:
            raise InputError(f"cpu_minutes must be above 0, got {self.cpu_minutes!r}")
        if not self.settings:
            raise InputError("the grid is empty: give at least one value of each option")
        if len(self.data.y_test) == 0:
            raise InputError(f"data {self.data.name!r} has no test rows: a plan is judged on rows that chose nothing")

    def identity(self) -> dict[str, Any]:
        return {
            "data_fingerprint": self.data.fingerprint,
            "model": self.model,
            "target": self.target,
            "given_seed": self.seed,
            "coalmine_version": __version__,
        }


def measure_plan(
    request: MeasureRequest,
    folder: Path,
    device: Any = "cpu",
    on_steps: Callable[[int, int], None] = lambda done, total: None,
) -> UtilityPlan:
    """Search, confirm, price. `folder` keeps the pieces; the same request goes on where it was killed.

    on_steps hears (done, planned) in optimiser steps times models. Errors: InputError, BudgetSpent.
    """
    with in_use(folder, "--folder"):
        return _measured(request, folder, device, on_steps)


def _measured(request: MeasureRequest, folder: Path, device: Any, on_steps: Callable[[int, int], None]) -> UtilityPlan:
    """`measure_plan` in a folder that nobody else writes to."""
    data = request.data
    seed = _seed(request, folder)
    settings = request.settings
    rounds = request.schedule.rounds(len(settings))
    of = rounds[-1][1]
    table = NoiseTable(folder / "noise.json", request.target)
    planned, done = _planned_steps(request, rounds, table), 0

    def advance(steps: int) -> None:
        nonlocal done
        done += steps
        on_steps(done, max(done, planned))

    def build(model_seed: int) -> Any:
        return build_model(request.model, data.input_shape, len(data.classes), model_seed)

    clock = Clock(folder / "cpu_time.json", 60 * request.cpu_minutes)
    identity = f"{data.fingerprint} {request.model} {__version__}"
    runs = StackedRuns(folder / "pieces", identity, build, clock, device, advance)
    seeds = split_seeds(numpy_stream(seed, "plan/search"), request.search_seeds)
    validation, test = validation_rows(data), Rows("test", data.x, data.y, data.x_test, data.y_test)

    def accuracies(setting: Setting, turns: int) -> tuple[float, ...]:
        noise = table.random_allocation(setting.steps_per_epoch, setting.epochs)["noise_multiplier"]
        return runs.accuracies(
            Job(setting, noise, "random_allocation", seeds), validation, setting.epochs_at(turns, of)
        )

    trials = halve(settings, lambda setting, turns: float(np.mean(accuracies(setting, turns))), request.schedule)
    points = []
    for trial in trials:
        s = trial.setting
        noise = table.random_allocation(s.steps_per_epoch, s.epochs)["noise_multiplier"]
        points.append(Point(s, noise, s.epochs_at(trial.turns, of), MeanAccuracy.of(accuracies(s, trial.turns))))
    fresh = split_seeds(numpy_stream(seed, "plan/fresh"), request.fresh_seeds)
    arms = _arms(request, points[0], table, runs, (validation, seeds), (test, fresh))
    full = request.search_seeds * sum(s.steps for s in settings)
    search = request.search_seeds * sum(p.epochs_done * p.setting.steps_per_epoch for p in points)
    again = request.fresh_seeds * sum(a.setting.steps for a in arms if a.setting is not None)
    plan = UtilityPlan(
        Source(
            data.name, data.fingerprint, len(data.y), len(validation.y_measured), len(data.y_test), request.public,
            request.model,
        ),
        request.target,
        tuple(points),
        tuple(arms),
        Effort(search, again, full, rounds, request.search_seeds, request.fresh_seeds),
        _price(request, table, len(points) * request.search_seeds),
        request.seed,
        __version__,
    )  # fmt: skip
    _forget_seed(request, folder)
    return plan


def _planned_steps(request: MeasureRequest, rounds: tuple[tuple[int, int], ...], table: NoiseTable) -> int:
    """At most so many optimiser steps times models: as if the longest settings went on in every round."""

    def search(settings: Sequence[Setting], rounds: tuple[tuple[int, int], ...]) -> float:
        lengths = sorted((s.steps for s in settings), reverse=True)
        turns = [0, *(turns for _, turns in rounds)]
        return sum(
            sum(lengths[:count]) * (after - before) / turns[-1]
            for (count, after), before in zip(rounds, turns, strict=False)
        )

    longest = max(request.settings, key=lambda s: s.steps)
    try:
        closed = closed_form_settings(request, longest, table)[2]
    except Infeasible:
        closed = ()
    again = search(closed, request.schedule.rounds(len(closed))) if closed else 0.0
    fresh = request.fresh_seeds * (2 * longest.steps + max((s.steps for s in closed), default=0))
    return round(request.search_seeds * (search(request.settings, rounds) + again) + fresh)


def validation_rows(data: Data) -> Rows:
    """One in five of the training rows of each class: the same for every user and every seed."""
    held_out = np.zeros(len(data.y), dtype=bool)
    stream = numpy_stream(0, "plan/validation")
    for label in range(len(data.classes)):
        rows = np.flatnonzero(data.y == label)
        held_out[stream.permutation(rows)[: len(rows) // 5]] = True
    if not held_out.any() or held_out.all():
        raise InputError(f"data {data.name!r} has too few rows of each class for a validation part: at least five")
    return Rows("validation", data.x[~held_out], data.y[~held_out], data.x[held_out], data.y[held_out])


def _arms(
    request: MeasureRequest,
    winner: Point,
    table: NoiseTable,
    runs: StackedRuns,
    search: tuple[Rows, tuple[int, ...]],
    fresh: tuple[Rows, tuple[int, ...]],
) -> list[Arm]:
    """The chosen setting first; then the same shape with Poisson's noise, and what the closed form allows."""
    s = winner.setting
    test, seeds = fresh

    def trained(setting: Setting, noise: float, sampler: str) -> tuple[MeanAccuracy, dict[str, Any]]:
        job = Job(setting, noise, sampler, seeds)
        found = runs.accuracies(job, test, setting.epochs)
        return MeanAccuracy.of(found), job.training(len(test.y)).mechanism()

    best, mechanism = trained(s, winner.noise_multiplier, "random_allocation")
    arms = [Arm("random_allocation", mechanism, s, best, MeanAccuracy.of([0.0] * len(seeds)))]

    def add(name: str, setting: Setting, noise: float, sampler: str) -> None:
        accuracy, ran = trained(setting, noise, sampler)
        lost = [a - b for a, b in zip(best.values, accuracy.values, strict=True)]
        arms.append(Arm(name, ran, setting, accuracy, MeanAccuracy.of(lost)))

    add("poisson", s, table.poisson(1 / s.steps_per_epoch, s.steps)["noise_multiplier"], "poisson")
    try:
        sampler, noise, candidates = closed_form_settings(request, s, table)
    except Infeasible as error:
        return [*arms, Arm("closed_form", reason=str(error))]
    rows, searched = search
    of = request.schedule.rounds(len(candidates))[-1][1]

    def score(setting: Setting, turns: int) -> float:
        job = Job(setting, noise, sampler, searched)
        return float(np.mean(runs.accuracies(job, rows, setting.epochs_at(turns, of))))

    add("closed_form", halve(candidates, score, request.schedule)[0].setting, noise, sampler)
    return arms


def closed_form_settings(
    request: MeasureRequest, winner: Setting, table: NoiseTable
) -> tuple[str, float, tuple[Setting, ...]]:
    """(sampler, noise, settings): what a closed form leaves to choose from, at the winner's clipping norm.

    With its own noise another length and another learning rate suit it, so it may choose among those of the grid. For
    an attack accuracy it is the closed form of random allocation, whose noise belongs to the winner's shape; for
    (epsilon, delta) that of Proactive DP, whose noise is the same for every length. Errors: Infeasible.
    """
    rates = sorted({s.learning_rate for s in request.settings if s.clipping_norm == winner.clipping_norm})
    if "epsilon" not in request.target:
        noise = table.random_allocation(winner.steps_per_epoch, winner.epochs)["closed_form_noise_multiplier"]
        return "random_allocation", noise, tuple(replace(winner, learning_rate=rate) for rate in rates)
    shapes, noise, reason = [], 0.0, None
    for epochs in sorted({s.epochs for s in request.settings}):
        try:
            shape = replace(winner, epochs=epochs)
            steps, noise = closed_form_run(len(request.data.y), shape, request.target)
            shapes.append(replace(shape, steps_per_epoch=steps))
        except Infeasible as error:
            reason = error
    if not shapes:
        raise reason or Infeasible("no length of the grid is feasible")
    return "poisson", noise, tuple(replace(shape, learning_rate=rate) for shape in shapes for rate in rates)


def closed_form_run(records: int, setting: Setting, target: dict[str, float]) -> tuple[int, float]:
    """(steps_per_epoch, noise) that the closed form allows for as many passes: the setting's own steps where the
    theorem allows so large a sample, otherwise the fewest that it does. Errors: Infeasible."""
    least = answer(Question(records, setting.epochs, epsilon=target["epsilon"], delta=target["delta"]), certify=False)
    return max(setting.steps_per_epoch, least.steps_per_epoch), least.plan.noise_multiplier


def _price(request: MeasureRequest, table: NoiseTable, trainings: int) -> Any:
    shapes = sorted({(s.steps_per_epoch, s.epochs) for s in request.settings})
    mechanisms = [table.mechanism(*shape) for shape in shapes]
    delta = request.target.get("delta", 1 / len(request.data.y))
    epsilon = request.target.get("epsilon") or max(float(m.epsilon(delta).upper) for m in mechanisms)
    return selection_price(mechanisms, trainings, len(request.settings), epsilon, delta)


def _seed(request: MeasureRequest, folder: Path) -> int:
    """The seed of all streams: the one given, or a fresh one that a killed run finds again in the folder."""
    path = folder / "request.json"
    if path.exists():
        content = read_json(path, "request of a plan")
        known = content.get("identity") if isinstance(content, dict) else None
        if known != request.identity():
            raise InputError(
                f"--folder {str(folder)!r} holds another plan (its data, model, target, seed or version differ): name "
                "another folder, or delete it"
            )
        if isinstance(content.get("seed"), int):
            return content["seed"]
    seed = fresh_seed() if request.seed is None else request.seed
    _write_request(request, path, seed)
    return seed


def _write_request(request: MeasureRequest, path: Path, seed: int | None) -> None:
    write_bytes(path, json_bytes({"identity": request.identity(), "seed": seed}), secret=True)


def _forget_seed(request: MeasureRequest, folder: Path) -> None:
    """A drawn seed gives the noise away: gone at the end."""
    if request.seed is None:
        _write_request(request, folder / "request.json", None)


def choices(settings: Sequence[Setting], name: str) -> list[float]:
    """The values of one parameter in a grid, ascending."""
    return sorted({getattr(s, name) for s in settings})
