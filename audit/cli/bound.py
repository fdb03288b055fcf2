"""coalmine bound: what theory promises of given training parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...foundation import InputError
from .batch_size import BatchSize, Records, shape_of_batches
from .bound_description import SCHEMA_VERSION, describe, flat, neighbours
from .bound_table import show
from .options import Json, Quiet, print_json, progress, remark
from .phases import Phases, mechanism_of_phases
from .replacing import CERTIFICATE, FIGURE, SWEEP_TABLE, replacing
from .sweep import axes, check_plot, numbers, plot, points_of, write_table

app = typer.Typer()


@app.command()
def bound(
    noise_multiplier: Annotated[
        str | None,
        typer.Option(help="Noise on the sum of clipped gradients / clipping norm. Number, list or first:last:step."),
    ] = None,
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
    phase: Phases = None,
    records: Records = None,
    batch_size: BatchSize = None,
    group_size: Annotated[
        int, typer.Option(min=1, help="Also for groups: users with up to this many records each.")
    ] = 1,
    width: Annotated[float, typer.Option(help="Width asked of the accuracy interval.")] = 1e-6,
    plot_file: Annotated[
        Path | None, typer.Option("--plot", callback=replacing(FIGURE), help="Draw the sweep to a .png, .svg or .pdf.")
    ] = None,
    quantity: Annotated[str, typer.Option(help="What --plot draws: accuracy, epsilon or tpr.")] = "accuracy",
    csv_file: Annotated[
        Path | None, typer.Option("--csv", callback=replacing(SWEEP_TABLE), help="Write a row a setting.")
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            callback=replacing(CERTIFICATE),
            help="Write what a reader needs to prove both ends without coalmine (verifier.py, 200 lines).",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attack accuracy, epsilon and TPR at FPR that no attack exceeds: closed form and certified interval.

    Example: coalmine bound --steps-per-epoch 100 --epochs 10 --noise-multiplier 0.5:4:0.1 --plot bound.png
    """
    from ..bounds import canonical_name

    rates = false_positive_rate if false_positive_rate else [0.001, 0.01, 0.1]
    names: list[str] = []
    if phase:
        if noise_multiplier is not None or steps_per_epoch is not None or steps is not None:
            raise InputError("--phase names a whole mechanism: give its parameters in it, and no others")
        mechanisms = [mechanism_of_phases(phase)]
    else:
        if noise_multiplier is None:
            raise InputError("--noise-multiplier is missing: give it, or --phase; see coalmine bound --help")
        mechanism = canonical_name(mechanism)
        shape, words = shape_of_batches(mechanism, records, batch_size, epochs)
        for line in words:
            remark(line, quiet)
        given = {
            "steps_per_epoch": steps_per_epoch or shape.get("steps_per_epoch"),
            "epochs": epochs,
            "sampling_rate": sampling_rate or shape.get("sampling_rate"),
            "steps": steps or shape.get("steps"),
            "noise_multiplier": noise_multiplier,
        }
        options = _options(mechanism, given)
        names = axes(options)
        mechanisms = [_mechanism(mechanism, point) for point in points_of(options, names)]  # bad input shows now
    check_plot(plot_file, names[0] if names else None)
    if quantity not in _QUANTITIES:
        raise InputError(f"--quantity must be one of {', '.join(_QUANTITIES)}, got {quantity!r}")
    if certificate is not None and len(mechanisms) > 1:
        raise InputError("--certificate is for one setting: no sweep")
    results = [
        describe(one, delta, rates, width)
        for one in progress(mechanisms, len(mechanisms), "bounds", quiet or len(mechanisms) == 1)
    ]
    if len(mechanisms) == 1 and results[0]["adjacency"] == "add_remove" and "certainty" not in results[0]:
        results[0]["neighbours"] = neighbours(mechanisms[0], delta, group_size)
    elif group_size > 1:
        raise InputError("--group-size is for one setting of a scheme under add/remove: no sweep")
    if plot_file is not None:
        _plot(plot_file, results, names, quantity, rates[0])
    if csv_file is not None:
        write_table(csv_file, [flat(r) for r in results])
    if certificate is not None:
        from ..bounds.certificate import write_certificate

        write_certificate(certificate, mechanisms[0], delta)
    if json:
        print_json(
            results[0] if not names else {"schema_version": SCHEMA_VERSION, "sweep": _sweep(names), "results": results}
        )
    else:
        show(results, names)


def _sweep(names: list[str]) -> str | list[str]:
    return names[0] if len(names) == 1 else names


_QUANTITIES = {"accuracy": "attack accuracy", "epsilon": "epsilon", "tpr": "TPR"}


def _plot(path: Path, results: list[dict[str, Any]], names: list[str], quantity: str, rate: float) -> None:
    """The first swept option along x; of a second one, a line each."""
    x = sorted({r["mechanism"][names[0]] for r in results})
    key = "true_positive_rate" if quantity == "tpr" else quantity
    series: dict[str, list[Any]] = {}
    for r in results:
        label = "" if len(names) == 1 else f"{names[1].replace('_', ' ')} {r['mechanism'][names[1]]:g}, "
        value = r[key][0] if quantity == "tpr" else r[key]
        if "closed_form" in value and value["closed_form"] is not None and len(names) == 1:
            series.setdefault("closed form", []).append(value["closed_form"])
        series.setdefault(f"{label}exact, upper end", []).append(value["upper"])
        if len(names) == 1:
            series.setdefault("exact, lower end", []).append(value["lower"])
    fixed = ", ".join(f"{k} {v}" for k, v in results[0]["mechanism"].items() if k not in ("name", *names))
    at = {"epsilon": f" at delta {results[0]['epsilon']['delta']:g}", "tpr": f" at FPR {rate:g}"}.get(quantity, "")
    title = f"{results[0]['mechanism']['name']}, {fixed}" if fixed else results[0]["mechanism"]["name"]
    plot(path, names[0], x, series, _QUANTITIES[quantity] + at, title)


def _options(name: str, given: dict[str, str | None]) -> dict[str, list[float]]:
    from ..bounds import MECHANISM_NAMES, mechanism_fields

    if name not in MECHANISM_NAMES:
        raise InputError(f"--mechanism must be one of {', '.join(MECHANISM_NAMES)}, got {name!r}")
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
