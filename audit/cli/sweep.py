"""Sweeps: an option that takes 0.5:4:0.1, the plot of what comes of it, and bounds printed on their safe side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from itertools import product
from pathlib import Path
from typing import Any

from ...foundation import InputError

MOST_POINTS = 1000


def numbers(option: str, text: str) -> list[float]:
    """ "0.8", "0.5:4:0.1" (both ends included) or "0.5,1,2". Errors: InputError naming the option."""
    try:
        if ":" in text:
            first, last, step = (float(part) for part in text.split(":"))
            if not (step > 0 and first <= last and math.isfinite(last - first) and math.isfinite(step)):
                raise ValueError
            count = math.floor((last - first) / step + 1e-9) + 1
            if count > MOST_POINTS:
                raise InputError(f"{option} {text}: {count} points; at most {MOST_POINTS}, take a larger step")
            return [round(first + i * step, 12) for i in range(count)]
        return [float(part) for part in text.split(",")]
    except InputError:
        raise
    except ValueError:
        raise InputError(
            f"{option} must be a number, a list 0.5,1,2 or a sweep first:last:step, got {text!r}"
        ) from None


def swept(options: dict[str, list[float]]) -> str | None:
    """The name of the one option with several values. Errors: InputError if there are two."""
    several = [name for name, values in options.items() if len(values) > 1]
    if len(several) > 1:
        raise InputError(f"{' and '.join(several)} are both swept: sweep one, fix the other")
    return several[0] if several else None


def axes(options: dict[str, list[float]]) -> list[str]:
    """The names of the one or two options with several values. Errors: InputError if there are more."""
    several = [name for name, values in options.items() if len(values) > 1]
    if len(several) > 2:
        raise InputError(f"{', '.join(several)} are all swept: sweep at most two, fix the others")
    points = math.prod(len(options[name]) for name in several)
    if points > MOST_POINTS:
        raise InputError(f"{' and '.join(several)}: {points} points; at most {MOST_POINTS}, take larger steps")
    return several


def points_of(options: dict[str, list[float]], names: list[str]) -> list[dict[str, float]]:
    """Every combination of the swept options, the last one fastest."""
    fixed = {key: values[0] for key, values in options.items()}
    return [fixed | dict(zip(names, values, strict=True)) for values in product(*(options[name] for name in names))]


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """A csv file of plain rows; None is an empty cell (infinite)."""
    import csv
    import io

    from ...foundation import write_bytes

    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_bytes(path, text.getvalue().encode())


def plot(
    path: Path, x_label: str, x: Sequence[float], series: dict[str, list[Any]], y_label: str, title: str = ""
) -> None:
    """A line for each series, to a .png, .svg or .pdf. Values that are None leave a gap."""
    import io

    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"--plot must end in .png, .svg or .pdf, got {str(path)!r}")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    from ...foundation import write_bytes

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes: Any = figure.subplots()
    styles = ["-", "--", "-.", ":"]
    for i, (name, y) in enumerate(series.items()):
        values = [math.nan if value is None else value for value in y]
        axes.plot(x, values, styles[i % 4], marker="." if len(x) < 30 else None, label=name)
    axes.set_title(title, fontsize="medium")
    axes.set_xlabel(x_label.replace("_", " "))
    axes.set_ylabel(y_label)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    content = io.BytesIO()
    ending = path.suffix[1:].lower()
    signed = {"Software": "coalmine"} if ending == "png" else {"Creator": "coalmine"}
    figure.savefig(content, format=ending, dpi=160, metadata=signed)
    write_bytes(path, content.getvalue())


def check_plot(path: Path | None, name: str | None) -> None:
    if path is not None and name is None:
        raise InputError(
            "--plot needs a sweep: give one option as first:last:step, such as --noise-multiplier 0.5:4:0.1"
        )
    if path is not None and path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"--plot must end in .png, .svg or .pdf, got {str(path)!r}")


def up(value: float | None, digits: int) -> str:
    """An upper end with `digits` significant digits, rounded up; ∞ for None."""
    return "∞" if value is None else f"{Context(digits, ROUND_CEILING).create_decimal(Decimal(value)):g}"


def down(value: float | None, digits: int) -> str:
    """A lower end, rounded down."""
    return "∞" if value is None else f"{Context(digits, ROUND_FLOOR).create_decimal(Decimal(value)):g}"
