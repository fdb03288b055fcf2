"""`coalmine plan --measure`: the request from the options, progress with time left, files and words."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from ...foundation import InputError, write_json
from .options import print_json, remark

if TYPE_CHECKING:
    from ..planning.utility_plan import UtilityPlan


def run_measure(options: dict[str, Any], lists: dict[str, list[float]]) -> None:
    """Writes plan.json into --folder and the claim beside it or to --output. Errors: InputError, before long work."""
    from ..bounds.calibration import make_target
    from ..planning.measure import PUBLIC_DATA, MeasureRequest, measure_plan
    from ..planning.setting import grid
    from ..training.data import load_data

    data = load_data(options["data"])
    request = MeasureRequest(
        data=data,
        model=options["model"],
        target=_target(options, lists, 1 / len(data.y)),
        settings=grid(
            lists.get("steps_per_epoch"), lists.get("epochs"), lists.get("clipping_norm"), lists.get("learning_rate")
        ),
        public=options["public"] or options["data"] in PUBLIC_DATA,
        spends_budget=options["spends_budget"],
        seed=options["seed"],
        search_seeds=options["search_seeds"],
        fresh_seeds=options["fresh_seeds"],
        cpu_minutes=options["cpu_minutes"],
    )
    make_target(**request.target)  # checks it
    remark(f"{len(request.settings)} settings, at most {request.cpu_minutes:g} CPU minutes", options["quiet"])
    with steps_left("plan", options["quiet"]) as told:
        plan = measure_plan(request, options["folder"], options["device"], told)
    file, claim = options["folder"] / "plan.json", options["output"] or options["folder"] / "claim.json"
    content = plan.to_json() | {"command": plan.command().replace("claim.json", str(claim), 1)}
    write_json(file, content)
    write_json(claim, plan.claim())
    if options["json"]:
        print_json(content)
        return
    for line in lines(plan):
        typer.echo(line)
    typer.echo(f"train it: {content['command']}")
    typer.echo(f"see it:   coalmine report {file}")


def _target(options: dict[str, Any], lists: dict[str, list[float]], delta: float) -> dict[str, float]:
    epsilons = lists.get("epsilon", [])
    if (len(epsilons) == 1) == (options["accuracy"] is not None):
        raise InputError("--measure needs one budget: one --epsilon, or --accuracy, the attack accuracy to allow")
    if options["accuracy"] is not None:
        if options["delta"] is not None:
            raise InputError("--delta goes with --epsilon: an attack accuracy has none")
        return {"accuracy": options["accuracy"]}
    return {"epsilon": epsilons[0], "delta": options["delta"] or delta}


def lines(plan: UtilityPlan) -> list[str]:
    """What was chosen, what it is worth, what the alternatives lose, what choosing cost."""
    from ...reports.plan_words import arm_words, effort_words, price_words, setting_words, target_words

    found = [f"for {target_words(plan)}: {setting_words(plan)}"]
    found += [arm_words(plan, arm) for arm in plan.arms]
    return [*found, effort_words(plan), price_words(plan)]


@contextmanager
def steps_left(what: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Hands out told(done, planned): a bar with the time left on a terminal, a line a minute with it elsewhere."""
    if quiet:
        yield lambda done, planned: None
        return
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, planned: bar.update(task, completed=done, total=planned)
        return
    started, at_the_start, last = 0.0, 0, time.monotonic()

    def told(done: int, planned: int) -> None:
        nonlocal started, at_the_start, last
        now = time.monotonic()
        if not started:  # the noise is found before the first step, and what was resumed cost nothing
            started, at_the_start = now, done
        if now - last >= 60 and done > at_the_start:
            last = now
            left = (now - started) * (planned - done) / (done - at_the_start) / 60
            remark(f"{what}: {done} of about {planned} optimiser steps, about {left:.0f} minutes left")

    yield told
