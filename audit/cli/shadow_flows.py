"""What `coalmine lira` does with its options: arrays of another tool, models of a recipe, a target, or its canaries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...foundation import InputError, sha256_of_bytes, sha256_of_file
from ..attack.candidates import Candidates
from ..attack.conclude import Conclusion, Known, conclude
from ..attack.fed import accuracy_of_run, own_accuracy_of
from ..attack.output import check_folder, told_accuracy
from ..attack.target import Target, check_run, open_target, settings_of_run
from ..choices import LAYOUTS
from ..lira.lira import Choice, check_attack, lira, lira_of_canaries, lira_of_recipe
from ..lira.shadows import Asked, Plan, on_disk, planned
from ..recipe import Recipe, engine_recipe, user_recipe
from ..rows import Universe, universe, universe_of
from ..training.data import Data, load_data
from ..training.settings import TrainingSettings
from ..verdict.score_record import ScoreRecord
from ..work import Work
from .model_options import feeding_of, rows_of
from .options import remark, stepper, torch_device
from .shadow_options import parse_span

if TYPE_CHECKING:
    from ...canaries import CanarySet, Coins

NEEDED = ("steps_per_epoch", "epochs", "learning_rate")


@dataclass(frozen=True)
class Flow:
    """The options of the command, by their names there; recipe holds those of the training, None where left out."""

    output: Path
    data: str
    canaries: Path | None
    coins: Path | None
    target: str | None
    target_members: Path | None
    model: str | None
    pixel_mean: str | None
    pixel_std: str | None
    classes: str | None
    transform: str | None
    training_accuracy: float | None
    about: Path | None
    trust_code: bool
    train: str | None
    arrays: Path | None
    folder: Path | None
    layout: str | None
    target_index: int | None
    shadows: int | None
    targets: int
    fraction: float
    attack: str
    views: int
    recipe: Mapping[str, Any]
    chunk: int | None
    jobs: int
    scheduler: str | None
    span: tuple[int, int] | None
    seed: int
    device: str
    quiet: bool

    @classmethod
    def of(cls, options: Mapping[str, Any], recipe: Mapping[str, Any]) -> Flow:
        """From the parsed options of the command line. Errors: InputError for a --span that is none."""
        known = {one.name: options[one.name] for one in fields(cls) if one.name not in ("recipe", "span")}
        return cls(**known, recipe=recipe, span=parse_span(options["span"]))


@dataclass(frozen=True, eq=False)
class Found:
    """What was concluded, the record of what was chosen, and what else people should read."""

    conclusion: Conclusion
    record: ScoreRecord
    told: str = ""


def collected(flow: Flow) -> Found:
    """Shadow models that were trained elsewhere: --arrays, or --folder of another tool."""
    if flow.arrays is not None:
        from ...attacks.shadow_arrays import read_arrays

        arrays = read_arrays(flow.arrays)
    else:
        from ...attacks.import_lira_analysis import import_lira_analysis
        from ...attacks.import_lira_pytorch import import_lira_pytorch
        from ...attacks.import_mi_lira import import_mi_lira
        from ...attacks.import_ml_privacy_meter import import_ml_privacy_meter

        assert flow.folder is not None and flow.layout is not None
        importers = (import_mi_lira, import_lira_pytorch, import_lira_analysis, import_ml_privacy_meter)
        arrays = importers[LAYOUTS.index(flow.layout)](flow.folder, flow.target_index)
    arrays = arrays if flow.shadows is None else arrays.first(flow.shadows)
    accuracy = None
    if arrays.targets == 1 and arrays.target_predicted is not None and arrays.labels is not None:
        accuracy = own_accuracy_of(arrays)
    conclusion = conclude(arrays, flow.attack, Known(accuracy=accuracy), flow.seed)
    record = ScoreRecord(
        flow.attack,
        views=arrays.shadow_phi.shape[2],
        shadows=arrays.shadows,
        seed=flow.seed,
        arrays_sha256=None if flow.arrays is None else sha256_of_file(flow.arrays),
    )
    return Found(conclusion, record)


def trained(flow: Flow) -> Found | None:
    """Shadow models of the recipe. None where a span leaves part of them to other jobs."""
    own = None if flow.train is None else user_recipe(flow.train, str(Path.cwd()))  # told before anything is loaded
    feeding = feeding_of(flow.pixel_mean, flow.pixel_std, flow.classes, flow.transform)
    source = feeding.relabelled(load_data(flow.data))
    target = None
    if flow.target is None or own is None:
        _check_given(flow, own)
    if flow.target is not None:
        target = open_target(flow.target, source, feeding, flow.model, trust_code=flow.trust_code)
    record = ScoreRecord(
        flow.attack, views=flow.views, shadows=flow.shadows or 16, seed=flow.seed, pixel_mean=feeding.pixel_mean,
        pixel_std=feeding.pixel_std, classes=feeding.classes, transform=feeding.transform,
    )  # fmt: skip
    if target is not None:
        record = replace(
            record, checkpoint=target.name, checkpoint_sha256=target.sha256, model=flow.model or target.model
        )
    if flow.canaries is not None:
        return _canaries(flow, source, target, own, record)
    if target is not None:
        return _target(flow, rows_of(source, target, flow.target_members, flow.about), target, own, record)
    rows = universe(source)
    check_attack(flow.attack, len(rows.population_y))
    recipe = own or _recipe(flow, rows, flow.model or "mlp", None)
    record = _checked(flow, rows, recipe, record)
    plan, choice = _plan(flow), Choice(flow.attack)
    with _working(flow, rows, recipe, plan) as work:
        conclusion = lira_of_recipe(rows, recipe, work, plan, choice, _where(flow))
    return None if conclusion is None else Found(conclusion, record)


def _target(flow: Flow, rows: Candidates, target: Target, own: Recipe | None, record: ScoreRecord) -> Found | None:
    check_attack(flow.attack, len(rows.population_y))
    every = universe_of(rows)
    recipe = own or _recipe(flow, every, _architecture(flow, target), target)
    record = _checked(flow, every, recipe, record)
    plan, choice = _plan(flow), Choice(flow.attack, flow.training_accuracy)
    with _working(flow, every, recipe, plan) as work:
        conclusion = lira(rows, recipe, work, plan, target, choice, _where(flow))
    if conclusion is None:
        return None
    how = flow.train or _architecture(flow, target)
    how += ", the architecture of the target" if how == target.model else ""
    return Found(conclusion, record, f"shadow models: {how}")


def _canaries(flow: Flow, source: Data, target: Target | None, own: Recipe | None, record: ScoreRecord) -> Found | None:
    from ...canaries import CanarySet, Coins

    assert flow.canaries is not None
    canaries: CanarySet = CanarySet.load(flow.canaries)
    drawn: Coins | None = Coins.load(flow.coins) if flow.coins else None
    if drawn is not None:
        drawn.check(canaries)
    rows = universe(source, canaries)
    record = replace(
        record, canaries=len(canaries), canaries_sha256=canaries.sha256, canary_method=canaries.method,
        coins_opened=drawn is not None,
    )  # fmt: skip
    plan = _plan(flow)
    if target is None:
        recipe = own or _recipe(flow, rows, flow.model or "mlp", None)
        record = _checked(flow, rows, recipe, record)
        with _working(flow, rows, recipe, plan) as work:
            conclusion = lira_of_recipe(rows, recipe, work, plan, Choice(flow.attack), _where(flow))
        return None if conclusion is None else Found(conclusion, record)
    if target.run is not None:
        check_run(target.run, Path(target.name), canaries.sha256)
    recipe = own or _recipe(flow, rows, _architecture(flow, target), target)
    record = _checked(flow, rows, recipe, record)
    accuracy = accuracy_of_run(target, rows, flow.training_accuracy, _where(flow))
    csv = flow.output / "scores.csv"
    step = f"Next: coalmine audit --scores {csv} --coins {flow.coins or 'coins.json'} --claim claim.json"
    choice = Choice(flow.attack, flow.training_accuracy, step)
    asked = Asked(target.module, None if drawn is None else drawn.member)
    with _working(flow, rows, recipe, plan) as work:
        conclusion = lira_of_canaries(rows, recipe, work, plan, asked, choice, accuracy, _where(flow))
    told = "" if accuracy is None or drawn is not None else told_accuracy(accuracy)
    return None if conclusion is None else Found(conclusion, record, told)


def _architecture(flow: Flow, target: Target) -> str:
    """Of the shadow models: the target's own unless another is named."""
    name = flow.model or target.model
    if name is None:
        raise InputError(
            f"--target {target.name} does not say what it is made of: name your own training by --train, or the "
            "architecture of the shadow models by --model"
        )
    return name


def _check_given(flow: Flow, own: Recipe | None) -> None:
    run = flow.target is not None and (Path(flow.target) / "run.json").is_file()
    for name in () if own is not None or run else NEEDED:
        if flow.recipe[name] is None:
            raise InputError(f"--{name.replace('_', '-')} is needed to train shadow models like the target")


def _recipe(flow: Flow, rows: Universe, model: str, target: Target | None) -> Recipe:
    given = settings_of_run(None if target is None else target.run, flow.recipe)
    settings = TrainingSettings(
        public_size=rows.expected_size(flow.fraction), **{k: v for k, v in given.items() if v is not None}
    )
    feeding = feeding_of(flow.pixel_mean, flow.pixel_std, flow.classes, flow.transform)
    return engine_recipe(rows, model, settings, _chunk(flow), _where(flow), feeding)


def _checked(flow: Flow, rows: Universe, recipe: Recipe, record: ScoreRecord) -> ScoreRecord:
    """The record with the hash of the recipe; refused where --output holds scores of another."""
    described = json.dumps([rows.fingerprint, flow.fraction, recipe.identity], sort_keys=True)
    record = replace(record, recipe_sha256=sha256_of_bytes(described.encode()))
    check_folder(flow.output, record)
    return record


def _plan(flow: Flow) -> Plan:
    return Plan(flow.shadows or 16, flow.targets, flow.fraction, flow.views)


def _chunk(flow: Flow) -> int:
    return flow.chunk or (1 if flow.train else 8)


def _where(flow: Flow) -> str:
    return str(torch_device(flow.device))


class _working(AbstractContextManager[Work]):
    """Where and how the models are trained: with the progress bar, on the cluster that was named."""

    def __init__(self, flow: Flow, rows: Universe, recipe: Recipe, plan: Plan) -> None:
        chunk = _chunk(flow)
        self.cluster = _cluster(flow.scheduler)
        total = -(-plan.shadows // chunk) + (0 if flow.target is not None else -(-plan.targets // chunk))
        self.bar = stepper(total, "chunks of shadow models", flow.quiet)
        self.work = Work(
            flow.output / "shadows", flow.seed, chunk, max(flow.jobs, 2) if flow.scheduler else flow.jobs,
            "dask" if flow.scheduler else "loky", flow.span,
        )  # fmt: skip
        there = on_disk(planned(rows, recipe, self.work, plan), self.work)
        if there:
            remark(
                f"{there} of {plan.shadows} shadow models are on disk from before and are not trained again", flow.quiet
            )

    def __enter__(self) -> Work:
        self.cluster.__enter__()
        return replace(self.work, advance=self.bar.__enter__())

    def __exit__(self, *error: Any) -> None:
        self.bar.__exit__(*error)
        self.cluster.__exit__(*error)


def _cluster(address: str | None) -> AbstractContextManager[Any]:
    if address is None:
        return nullcontext()
    try:
        from distributed import Client  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("--scheduler needs dask: install the extra, pip install 'coalmine[dask]'") from None
    try:
        return Client(address, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler {address!r} does not answer: {error}") from None
