"""coalmine calibrate: the noise for a target, or the epochs for given noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...foundation import InputError
from .bound_description import SCHEMA_VERSION
from .options import Json, Quiet, print_json, print_table, progress
from .replacing import FIGURE, SWEEP_TABLE, replacing
from .sweep import check_plot, down, numbers, plot, swept, up, write_table

app = typer.Typer()


@app.command()
def calibrate(
    steps_per_epoch: Annotated[str | None, typer.Option(help="Optimiser steps in one epoch. May be swept.")] = None,
    epochs: Annotated[str | None, typer.Option(help="Epochs. May be swept.")] = None,
    noise_multiplier: Annotated[
        float | None, typer.Option(help="Instead of --epochs: find the largest number of epochs for this noise.")
    ] = None,
    accuracy: Annotated[str | None, typer.Option(help="Target: attack accuracy in (0.5, 1). May be swept.")] = None,
    advantage: Annotated[
        str | None, typer.Option(help="Target: TPR - FPR of the best attack, 2 accuracy - 1. May be swept.")
    ] = None,
    true_positive_rate: Annotated[str | None, typer.Option(help="Target: TPR at --false-positive-rate.")] = None,
    false_positive_rate: Annotated[float | None, typer.Option(help="For --true-positive-rate.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Target: epsilon at --delta. May be swept.")] = None,
    delta: Annotated[float | None, typer.Option(help="For --epsilon.")] = None,
    mechanism: Annotated[
        str, typer.Option(help="random_allocation, fixed_bins, poisson, full_batch.")
    ] = "random_allocation",
    sampling_rate: Annotated[str | None, typer.Option(help="poisson: probability of a record in a step.")] = None,
    steps: Annotated[str | None, typer.Option(help="poisson, full_batch: steps in all.")] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Relative; default 1e-4 for accuracy, 1e-3 otherwise.")
    ] = None,
    plot_file: Annotated[
        Path | None, typer.Option("--plot", callback=replacing(FIGURE), help="Draw the sweep to a .png, .svg or .pdf.")
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", callback=replacing(SWEEP_TABLE), help="Write a row a setting.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """The smallest noise multiplier that meets a target, certified: a little less provably misses it.

    Example: coalmine calibrate --steps-per-epoch 500 --epochs 10 --accuracy 0.55
    """
    from ..bounds import MECHANISM_NAMES, canonical_name, mechanism_fields

    mechanism = canonical_name(mechanism)
    if mechanism not in MECHANISM_NAMES:
        raise InputError(f"--mechanism must be one of {', '.join(MECHANISM_NAMES)}, got {mechanism!r}")
    given = {"steps_per_epoch": steps_per_epoch, "epochs": epochs, "sampling_rate": sampling_rate, "steps": steps}
    shape = [key for key in mechanism_fields(mechanism) if key != "noise_multiplier"]
    stray = [key for key, text in given.items() if text is not None and key not in shape]
    if stray:
        raise InputError(
            f"--{stray[0].replace('_', '-')} has no meaning for {mechanism}, which needs {', '.join(shape)}: "
            "schemes are not interchangeable"
        )
    options: dict[str, list[float]] = {}
    for key, text in {
        **given,
        "accuracy": accuracy,
        "advantage": advantage,
        "true_positive_rate": true_positive_rate,
        "epsilon": epsilon,
    }.items():
        if text is not None:
            options[key] = numbers("--" + key.replace("_", "-"), text)
    targets = {"false_positive_rate": false_positive_rate, "delta": delta}
    if noise_multiplier is not None:
        _epochs_for_noise(mechanism, options, noise_multiplier, targets, json)
        return
    missing = [key for key in shape if key not in options]
    if missing:
        raise InputError(f"--{missing[0].replace('_', '-')} is missing: mechanism {mechanism} needs {', '.join(shape)}")
    name = swept(options)
    check_plot(plot_file, name)
    fixed = {key: values[0] for key, values in options.items()}
    points = [fixed | {name: value} for value in options[name]] if name else [fixed]
    results = [
        _one(mechanism, shape, point, targets, tolerance)
        for point in progress(points, len(points), "calibration", quiet or len(points) == 1)
    ]
    if plot_file is not None and name is not None:
        series = {
            "exact": [r["noise_multiplier"] for r in results],
            "closed form": [r["closed_form_noise_multiplier"] for r in results],
        }
        plot(plot_file, name, options[name], series, "noise multiplier", _title(mechanism, fixed, name))
    if csv_file is not None:
        write_table(csv_file, [_flat(r) for r in results])
    if json:
        print_json(
            results[0] if name is None else {"schema_version": SCHEMA_VERSION, "sweep": name, "results": results}
        )
    else:
        _show(results, name, mechanism)


def _one(
    mechanism: str, shape: list[str], point: dict[str, float], targets: dict[str, float | None], tolerance: float | None
) -> dict[str, Any]:
    from ..bounds import mechanism_kind

    kind: Any = mechanism_kind(mechanism)
    target = _as_accuracy({key: value for key, value in point.items() if key not in shape})
    found = kind.calibrate(*(point[key] for key in shape), **target, **targets, tolerance=tolerance)
    named = {key: value for key, value in point.items() if key in shape or key == "advantage"}
    return {"schema_version": SCHEMA_VERSION, "mechanism": mechanism, **named, **found.record()}


def _title(mechanism: str, fixed: dict[str, float], name: str) -> str:
    """Everything that is fixed."""
    return ", ".join([mechanism, *(f"{key} {value:g}" for key, value in fixed.items() if key != name)])


def _flat(result: dict[str, Any]) -> dict[str, Any]:
    """One row of a csv file."""
    row = {"name": result["mechanism"], "adjacency": "add_remove"}
    row |= {key: value for key, value in result.items() if isinstance(value, int | float) and key != "schema_version"}
    row |= {f"target_{key}": value for key, value in result["target"].items()}
    return row | {
        "certified_at_most": result["certificate"]["upper"],
        "a_little_less_at_least": result["misses"]["lower"],
    }


def _as_accuracy(target: dict[str, float]) -> dict[str, float]:
    """An advantage is 2·accuracy − 1."""
    if "advantage" not in target:
        return target
    if "accuracy" in target:
        raise InputError("--advantage and --accuracy are the same target: give one of them")
    gain = target["advantage"]
    if not 0 < gain < 1:
        raise InputError(f"advantage must lie in (0, 1), got {gain!r}: 0 asks for infinite noise, 1 for none")
    return {key: value for key, value in target.items() if key != "advantage"} | {"accuracy": 0.5 + gain / 2}


def _epochs_for_noise(
    mechanism: str,
    options: dict[str, list[float]],
    noise_multiplier: float,
    targets: dict[str, float | None],
    json: bool,
) -> None:
    from ..bounds.calibration import largest_epochs, make_target

    if mechanism != "random_allocation" or "epochs" in options or "steps_per_epoch" not in options:
        raise InputError(
            "--noise-multiplier finds the largest number of epochs of random allocation: give --steps-per-epoch and a "
            "target, and leave --epochs out"
        )
    if swept(options):
        raise InputError("--noise-multiplier takes one setting at a time: no sweep")
    fixed = {key: values[0] for key, values in options.items()}
    steps = fixed.pop("steps_per_epoch")
    target = make_target(**_as_accuracy(fixed), **targets)  # pyright: ignore[reportArgumentType]
    most, meets, misses = largest_epochs(int(steps) if steps == int(steps) else steps, noise_multiplier, target)  # pyright: ignore[reportArgumentType]
    result = {
        "schema_version": SCHEMA_VERSION,
        "mechanism": mechanism,
        "steps_per_epoch": steps,
        "noise_multiplier": noise_multiplier,
        "target": target.description,
        "epochs": most,
        "certificate": meets.record(),
        "misses": {"epochs": most + 1, **misses.record()},
        "two_sided": bool(misses.lower > target.limit),
    }
    if json:
        print_json(result)
        return
    if not result["two_sided"]:
        why = misses.remark or "its interval is too wide to tell"
        typer.echo(f"Not certified that {most + 1} epochs miss the target: {why}.")
    typer.echo(
        f"{most} epochs meet the target (at most {up(float(meets.upper), 8)}); {most + 1} reach at least "
        f"{down(float(misses.lower), 8)}."
    )


def _show(results: list[dict[str, Any]], name: str | None, mechanism: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Smallest noise multiplier, {mechanism} (add/remove adjacency)")
    head = name or "target"
    for column in (
        head.replace("_", " "),
        "noise multiplier",
        "certified ≤",
        "a little less: ≥",
        "closed form",
        "saved",
    ):
        table.add_column(column, justify="right")
    for r in results:
        label = (
            r["target"].get(name, r.get(name)) if name else " at ".join(f"{k} {v:g}" for k, v in r["target"].items())
        )
        formula, saved = r["closed_form_noise_multiplier"], r["noise_saved"]
        table.add_row(
            label if isinstance(label, str) else f"{label:g}",
            up(r["noise_multiplier"], 7),
            up(r["certificate"]["upper"], 7),
            down(r["misses"]["lower"], 7) if r["two_sided"] else "not certified",
            "–" if formula is None else up(formula, 7),
            "–" if saved is None else f"{100 * saved:.2f} %",
        )
    console = Console()
    print_table(table)
    for reason in {r["reason"] for r in results if r["reason"]}:
        console.print(reason, style="dim")
