"""coalmine bound: what theory promises of given training parameters."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from ...foundation import InputError
from .options import Json, Quiet, print_json, print_table, progress
from .replacing import FIGURE, replacing
from .sweep import check_plot, down, numbers, plot, swept, up

app = typer.Typer()


@app.command()
def bound(
    noise_multiplier: Annotated[
        str,
        typer.Option(help="Noise on the sum of clipped gradients / clipping norm. Number, list or first:last:step."),
    ],
    steps_per_epoch: Annotated[str | None, typer.Option(help="Optimiser steps in one epoch. May be swept.")] = None,
    epochs: Annotated[str, typer.Option(help="Epochs. May be swept.")] = "1",
    mechanism: Annotated[
        str, typer.Option(help="How batches are formed: random_allocation, fixed_bins, poisson, full_batch.")
    ] = "random_allocation",
    sampling_rate: Annotated[str | None, typer.Option(help="poisson: probability of a record in a step.")] = None,
    steps: Annotated[str | None, typer.Option(help="poisson, full_batch: steps in all.")] = None,
    delta: Annotated[float, typer.Option(help="For epsilon.")] = 1e-5,
    false_positive_rate: Annotated[
        list[float] | None, typer.Option(help="For the true-positive rate; may be repeated. Default 0.001, 0.01, 0.1.")
    ] = None,
    width: Annotated[float, typer.Option(help="Width asked of the accuracy interval.")] = 1e-6,
    plot_file: Annotated[
        Path | None, typer.Option("--plot", callback=replacing(FIGURE), help="Draw the sweep to a .png, .svg or .pdf.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attack accuracy, epsilon and TPR at FPR that no attack exceeds: closed form and certified interval.

    Example: coalmine bound --steps-per-epoch 100 --epochs 10 --noise-multiplier 0.5:4:0.1 --plot bound.png
    """
    from ..bounds import canonical_name

    mechanism = canonical_name(mechanism)
    options = _options(mechanism, noise_multiplier, steps_per_epoch, epochs, sampling_rate, steps)
    name = swept(options)
    check_plot(plot_file, name)
    rates = false_positive_rate if false_positive_rate else [0.001, 0.01, 0.1]
    points = (
        [{key: values[0] for key, values in options.items()} | {name: v} for v in options[name]]
        if name
        else [{key: values[0] for key, values in options.items()}]
    )
    mechanisms = [_mechanism(mechanism, point) for point in points]  # bad input shows before long work
    results = [
        describe(mechanism, delta, rates, width)
        for mechanism in progress(mechanisms, len(mechanisms), "bounds", quiet or len(mechanisms) == 1)
    ]
    if plot_file is not None and name is not None:
        series = {
            "closed form": [r["accuracy"]["closed_form"] for r in results],
            "exact, upper end": [r["accuracy"]["upper"] for r in results],
            "exact, lower end": [r["accuracy"]["lower"] for r in results],
        }
        plot(plot_file, name, options[name], series, "attack accuracy")
    if json:
        print_json(results[0] if name is None else {"sweep": name, "results": results})
    else:
        _show(results, name)


def describe(mechanism: Any, delta: float, rates: list[float], width: float) -> dict[str, Any]:
    """Everything that `bound` says of one mechanism, as plain numbers."""
    from ..bounds import Interval, closed_form

    accuracy = mechanism.accuracy(width)
    epsilon = mechanism.epsilon(delta)
    found = mechanism.true_positive_rate(rates)
    c = getattr(mechanism, "chi_square", None)
    result: dict[str, Any] = {
        "mechanism": mechanism.record(),
        "adjacency": "add_remove",
        "accuracy": {"closed_form": float(mechanism.accuracy_bound()), **accuracy.record()},
        "epsilon": {"delta": delta, **_finite(epsilon.record())},
        "true_positive_rate": [
            {
                "false_positive_rate": rate,
                "closed_form": None if c is None else closed_form.true_positive_rate_bound(c, rate),
                **Interval(found.lower[i], found.upper[i], found.remark).record(),
            }
            for i, rate in enumerate(rates)
        ],
    }
    if mechanism.name == "random_allocation":
        m, e, sigma = mechanism.steps_per_epoch, mechanism.epochs, mechanism.noise_multiplier
        result["for_comparison"] = {
            "one_line_bound": float(closed_form.one_line_bound(m, e, sigma)),
            "sum_statistic_lower_bound": 0.5 + float(closed_form.sum_statistic_lower_bound(m, e, sigma)) / 2,
            "gaussian_limit_not_a_bound": 0.5 + float(closed_form.gaussian_limit(m, e, sigma)) / 2,
        }
    return result


def _finite(ends: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: null, and why."""
    plain = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in ends.items()
    }
    if None in plain.values():
        plain["reason"] = "infinite: no finite epsilon holds at this delta"
    return plain


def _options(
    name: str,
    noise_multiplier: str,
    steps_per_epoch: str | None,
    epochs: str,
    sampling_rate: str | None,
    steps: str | None,
) -> dict[str, list[float]]:
    from ..bounds import MECHANISM_NAMES, mechanism_fields

    if name not in MECHANISM_NAMES:
        raise InputError(f"--mechanism must be one of {', '.join(MECHANISM_NAMES)}, got {name!r}")
    given = {
        "steps_per_epoch": steps_per_epoch,
        "epochs": epochs,
        "sampling_rate": sampling_rate,
        "steps": steps,
        "noise_multiplier": noise_multiplier,
    }
    wanted = mechanism_fields(name)
    chosen: dict[str, list[float]] = {}
    for key in wanted:
        text = given[key]
        option = "--" + key.replace("_", "-")
        if text is None:
            raise InputError(f"{option} is missing: {name} needs {', '.join(wanted)}")
        chosen[key] = numbers(option, text)
    stray = [key for key, text in given.items() if text is not None and key not in wanted and key != "epochs"]
    if stray:
        raise InputError(
            f"--{stray[0].replace('_', '-')} has no meaning for {name}, which needs {', '.join(wanted)}: "
            "schemes are not interchangeable"
        )
    return chosen


def _mechanism(name: str, point: dict[str, float]) -> Any:
    from ..bounds import mechanism_from_record

    return mechanism_from_record({"name": name, **point})


def _show(results: list[dict[str, Any]], name: str | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if name is not None:
        table = Table(title="No attack does better (add/remove adjacency)")
        for column in (name.replace("_", " "), "accuracy: closed form", "exact, lower", "exact, upper", "epsilon ≤"):
            table.add_column(column, justify="right")
        for r in results:
            accuracy, epsilon = r["accuracy"], r["epsilon"]["upper"]
            table.add_row(
                f"{r['mechanism'][name]:g}",
                up(accuracy["closed_form"], 6),
                down(accuracy["lower"], 7),
                up(accuracy["upper"], 7),
                up(epsilon, 5),
            )
        print_table(table)
        _remarks(console, results)
        return
    (r,) = results
    record = ", ".join(f"{key} {value}" for key, value in r["mechanism"].items() if key != "name")
    table = Table(title=f"{r['mechanism']['name']}: {record}")
    for column in ("no attack exceeds", "closed form", "exact, lower end", "exact, upper end"):
        table.add_column(column, justify="right")
    accuracy, epsilon = r["accuracy"], r["epsilon"]
    table.add_row("accuracy", up(accuracy["closed_form"], 7), down(accuracy["lower"], 9), up(accuracy["upper"], 9))
    table.add_row(f"epsilon at delta {epsilon['delta']:g}", "–", down(epsilon["lower"], 6), up(epsilon["upper"], 6))
    for rate in r["true_positive_rate"]:
        formula = "–" if rate["closed_form"] is None else up(rate["closed_form"], 6)
        table.add_row(
            f"TPR at FPR {rate['false_positive_rate']:g}", formula, down(rate["lower"], 6), up(rate["upper"], 6)
        )
    print_table(table)
    _remarks(console, results)
    if "for_comparison" in r:
        other = r["for_comparison"]
        console.print(
            f"For comparison: one-line bound {other['one_line_bound']:.7f}; the attack on the sum reaches "
            f"{other['sum_statistic_lower_bound']:.7f}; Gaussian limit {other['gaussian_limit_not_a_bound']:.7f} "
            "(not a bound)."
        )
    console.print("Add/remove adjacency. The exact value lies between its two ends, whatever the attack.", style="dim")


def _remarks(console: Any, results: list[dict[str, Any]]) -> None:
    """Which intervals are wider than was asked for, and why: each once."""
    said = dict.fromkeys(
        f"{what}: {part['remark']}"
        for r in results
        for what, parts in (
            ("accuracy", [r["accuracy"]]),
            (f"epsilon at delta {r['epsilon']['delta']:g}", [r["epsilon"]]),
            ("TPR at FPR", r["true_positive_rate"]),
        )
        for part in parts
        if "remark" in part
    )
    for line in said:
        console.print(f"Width not met. {line}.", style="yellow")
