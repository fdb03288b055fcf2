"""coalmine plan: Proactive DP, the parameters before training; with --measure the setting of the best accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import typer

from ...foundation import InputError, write_json
from . import plan_options as given
from .options import Device, Json, Quiet, Seed, print_json, progress, remark, torch_device
from .sweep import check_plot, numbers, swept

app = typer.Typer()


@app.command()
def plan(
    records: given.Records = None,
    epochs: given.Epochs = None,
    epsilon: given.Epsilon = None,
    sample_size: given.SampleSize = None,
    noise_multiplier: given.NoiseMultiplier = None,
    delta: given.Delta = None,
    theta: given.Theta = 1.0,
    clipping_norm: given.ClippingNorm = "1.0",
    adjacency: given.Adjacency = "add_remove",
    mechanism: given.Mechanism = "poisson",
    output: given.Output = None,
    fail_if_infeasible: given.FailIfInfeasible = False,
    plot_file: given.PlotFile = None,
    measure: given.Measure = False,
    data: given.Data = None,
    model: given.Model = None,
    accuracy: given.Accuracy = None,
    steps_per_epoch: given.StepsPerEpoch = None,
    learning_rate: given.LearningRate = None,
    public: given.Public = False,
    spends_budget: given.SpendsBudget = False,
    folder: given.Folder = Path("runs/plan"),
    cpu_minutes: given.CpuMinutes = 10.0,
    search_seeds: given.SearchSeeds = 3,
    fresh_seeds: given.FreshSeeds = 10,
    seed: Seed = None,
    device: Device = "cpu",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Proactive DP: noise, rounds and sample size for a budget, in closed form, next to certified accounting.

    Example: coalmine plan --records 60000 --epochs 20 --epsilon 3 --output claim.json

    With --measure, small DP-SGD runs on public data choose sample size, epochs, clipping norm and learning rate.
    Example: coalmine plan --measure --data digits --model mlp --epsilon 2
    """
    options: dict[str, Any] = dict(locals()) | {"plot": plot_file}
    given.refuse_strays(measure, options)
    texts = ("epochs", "epsilon", "sample_size", "noise_multiplier", "steps_per_epoch", "learning_rate")
    lists = {k: numbers("--" + k.replace("_", "-"), options[k]) for k in texts if options[k] is not None}
    if measure:
        _measure(options, lists)
        return
    if records is None or epochs is None:
        raise InputError("give --records and --epochs, or --measure with --data: nothing says what to plan")
    _calculate(options, lists)


def _calculate(options: dict[str, Any], lists: dict[str, list[float]]) -> None:
    from ..bounds.proactive import Infeasible
    from ..planning.calculator import Answer, answer
    from ..planning.nearest import nearest_feasible
    from .plan_show import check_mechanism, claim_of, draw_sweep, infeasible_record, show, show_infeasible

    name = swept(lists)
    check_plot(options["plot_file"], name)
    check_mechanism(options["mechanism"])
    if options["output"] is not None and name is not None:
        raise InputError("--output writes one claim: fix every option")
    fixed = {key: values[0] for key, values in lists.items()}
    points = [fixed | {name: value} for value in lists[name]] if name else [fixed]
    questions = [_question(options, point) for point in points]
    results: list[Answer | dict[str, Any]] = []
    for question in progress(questions, len(questions), "plans", options["quiet"] or len(points) == 1):
        try:
            results.append(answer(question))
        except Infeasible as error:
            results.append(infeasible_record(question, error, nearest_feasible(question)))
    if options["plot_file"] is not None and name is not None:
        draw_sweep(options["plot_file"], name, lists[name], results)
    records = [one.to_json() if isinstance(one, Answer) else one for one in results]
    if options["json"]:
        print_json(records[0] if name is None else {"sweep": name, "results": records})
    elif name is None and not isinstance(results[0], Answer):
        show_infeasible(results[0])
    else:
        show(results, name)
    if options["output"] is not None:
        if isinstance(results[0], Answer):
            write_json(options["output"], claim_of(results[0], options["mechanism"]))
        said = f"written: {options['output']}" if isinstance(results[0], Answer) else "no claim was written: infeasible"
        remark(said, options["quiet"])
    if options["fail_if_infeasible"] and not all(isinstance(one, Answer) for one in results):
        raise typer.Exit(2)


def _question(options: dict[str, Any], point: dict[str, float]) -> Any:
    from ..planning.calculator import Question

    (norm, *more) = numbers("--clipping-norm", options["clipping_norm"])
    if more:
        raise InputError("--clipping-norm is a list with --measure only: give one value")
    told: dict[str, Any] = {key: options[key] for key in ("records", "delta", "theta", "adjacency")}
    return Question(**told, clipping_norm=norm, **cast(dict[str, Any], point))


def _measure(options: dict[str, Any], lists: dict[str, list[float]]) -> None:
    from .plan_measure import run_measure

    if options["data"] is None or options["model"] is None:
        raise InputError("--measure needs --data and --model: what is trained, and on what")
    if options["adjacency"] != "add_remove" or options["theta"] != 1 or options["mechanism"] != "poisson":
        raise InputError("--adjacency, --theta and --mechanism are of the calculator: leave them out with --measure")
    if options["clipping_norm"] != "1.0":
        lists = lists | {"clipping_norm": numbers("--clipping-norm", options["clipping_norm"])}
    run_measure(options | {"device": torch_device(options["device"])}, lists)
