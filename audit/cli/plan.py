"""coalmine plan: Proactive DP, the parameters before training."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from ...foundation import InputError
from .options import Json, Quiet, print_json, print_table, progress
from .replacing import FIGURE, replacing
from .sweep import check_plot, numbers, plot, swept

app = typer.Typer()


@app.command()
def plan(
    records: Annotated[int, typer.Option(help="Size of the data set.")],
    epochs: Annotated[str, typer.Option(help="Passes over the data. May be swept.")],
    epsilon: Annotated[str | None, typer.Option(help="Budget first: find noise, rounds, sample size.")] = None,
    sample_size: Annotated[str | None, typer.Option(help="Run first: records a round; find epsilon and noise.")] = None,
    noise_multiplier: Annotated[
        str | None, typer.Option(help="Noise first, with --sample-size: find epsilon. Noise / sensitivity.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Default 1/records.")] = None,
    theta: Annotated[float, typer.Option(help="Largest over mean sample size; 1 if constant.")] = 1.0,
    clipping_norm: Annotated[
        float, typer.Option(help="Clipping norm C, to state the noise's standard deviation.")
    ] = 1.0,
    adjacency: Annotated[str, typer.Option(help="add_remove (sensitivity C) or replace_one (2C).")] = "add_remove",
    plot_file: Annotated[
        Path | None, typer.Option("--plot", callback=replacing(FIGURE), help="Draw the sweep to a .png, .svg or .pdf.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Proactive DP: noise, rounds and sample size for a budget, in closed form, next to the certified accountant.

    Example: coalmine plan --records 60000 --epochs 10:60:10 --epsilon 1 --plot plan.png
    """
    texts = {
        "epochs": epochs,
        "epsilon": epsilon,
        "sample_size": sample_size,
        "noise_multiplier": noise_multiplier,
    }
    options = {k: numbers("--" + k.replace("_", "-"), text) for k, text in texts.items() if text is not None}
    _check_mode(options)
    name = swept(options)
    check_plot(plot_file, name)
    fixed = {key: values[0] for key, values in options.items()}
    points = [fixed | {name: value} for value in options[name]] if name else [fixed]
    results = [
        _one(records, point, delta, theta, clipping_norm, adjacency)
        for point in progress(points, len(points), "plans", quiet or len(points) == 1)
    ]
    if plot_file is not None and name is not None:
        y = "rounds" if "epsilon" in options else "epsilon"
        series: dict[str, Any] = {f"closed form, {y}": [r[y] for r in results]}
        if y == "epsilon":
            series["accountant"] = [r["accountant"]["epsilon"]["upper"] for r in results]
        plot(plot_file, name, options[name], series, y)
    if json:
        print_json(results[0] if name is None else {"sweep": name, "results": results})
    else:
        _show(results, name)


def _check_mode(options: dict[str, list[float]]) -> None:
    given = {key for key in options if key != "epochs"}
    if given not in ({"epsilon"}, {"sample_size"}, {"sample_size", "noise_multiplier"}):
        raise InputError(
            "give --epsilon (budget first), or --sample-size (run first), or --sample-size with --noise-multiplier "
            f"(noise first); got {', '.join(sorted(given)) or 'none of them'}"
        )


def _one(
    records: int,
    point: dict[str, float],
    delta: float | None,
    theta: float,
    clipping_norm: float,
    adjacency: str,
) -> dict[str, Any]:
    from ..bounds import PoissonSampling
    from ..bounds.proactive import noise_standard_deviation, plan_from_budget, plan_from_noise, plan_from_run

    k = point["epochs"]
    if "epsilon" in point:
        found = plan_from_budget(records, k, point["epsilon"], delta, theta)
    elif "noise_multiplier" in point:
        found = plan_from_noise(records, k, point["sample_size"], point["noise_multiplier"], delta, theta)
    else:
        found = plan_from_run(records, k, point["sample_size"], delta, theta)
    deviation, sensitivity = noise_standard_deviation(found.noise_multiplier, clipping_norm, adjacency)
    result = found.record() | {
        "adjacency": adjacency,
        "sensitivity": sensitivity,
        "noise_standard_deviation": deviation,
    }
    rounds = math.ceil(found.rounds * (1 - 1e-12))
    rate = min(1.0, found.epochs / rounds)
    accountant = PoissonSampling(rate, rounds, found.noise_multiplier)
    result["accountant"] = {
        "mechanism": accountant.record(),
        "adjacency": "add_remove",
        "epsilon": {"delta": found.delta, **accountant.epsilon(found.delta).record()},
    }
    return result


def _show(results: list[dict[str, Any]], name: str | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title="Proactive DP: sampled batches, noise relative to the sensitivity")
    columns = (
        "epochs",
        "epsilon",
        "noise multiplier",
        "gamma",
        "rounds",
        "sample size",
        "accountant's epsilon",
        "holds",
    )
    for column in columns:
        table.add_column(column, justify="right")
    for r in results:
        table.add_row(
            f"{r['epochs']:g}",
            f"{r['epsilon']:.5g}",
            f"{r['noise_multiplier']:.5f}",
            f"{r['gamma']:.5f}",
            f"{r['rounds']:.1f}",
            f"{r['sample_size']:.1f}",
            f"{r['accountant']['epsilon']['upper']:.4g}",
            "yes" if r["feasible"] else "no",
        )
    print_table(table)
    if name is None:
        (r,) = results
        conditions = Table(title="Conditions of the closed form")
        for column in ("condition", "left", "", "right", "holds", "if not"):
            conditions.add_column(column)
        for c in r["conditions"]:
            right = "∞" if c["right"] is None else f"{c['right']:.6g}"
            conditions.add_row(
                c["name"], f"{c['left']:.6g}", c["relation"], right, "yes" if c["holds"] else "no", c["remedy"] or ""
            )
        print_table(conditions)
        console.print(
            f"Noise on the sum: standard deviation {r['noise_standard_deviation']:.6g} "
            f"= noise multiplier x sensitivity {r['sensitivity']:g} ({r['adjacency']}), delta {r['delta']:.3g}."
        )
    console.print(
        "The guarantee is for Poisson or fixed-size sampling, not for random allocation. Accountant: certified Poisson "
        "sampling under add/remove adjacency.",
        style="dim",
    )
