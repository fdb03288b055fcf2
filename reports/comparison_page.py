"""The page of a comparison: figures, one table of all that was measured together, a csv of everything drawn."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from markupsafe import Markup

from ..foundation import InputError, check_output_file, check_output_folder, write_bytes, write_text
from . import drawing, rounding, words
from .comparison import MOST_FAMILIES, Family, Line, Point, families, line
from .figure_comparison import AXIS_LABELS, describe_comparison, draw_comparison
from .templating import render_template

TITLES = {"attack_accuracy": "Attack accuracy against its upper bound", "epsilon": "ε proved against ε allowed"}
NOTES = {
    "attack_accuracy": "Shaded: what no attack can reach in expectation; a point above the line is chance until its "
    "p-value says otherwise.",
    "epsilon": "One-sided lower bounds; those of zero lie on the floor of the figure.",
}
MOST_ROWS = 400
DRAWN = ("kind", "family", "quantity", "axis", "at", "value", "lower", "upper", "class", "n", "run", "label")


def write_comparison_page(
    points: Sequence[Point], output: str | Path, figures: str | Path | None = None, title: str = "comparison"
) -> list[Path]:
    """The files written: the page, beside it the csv of all that is drawn, and figures as svg, pdf and png.

    Errors: InputError where there is nothing to draw or a file cannot be written, before anything is drawn.
    """
    found = families(points)
    if not found:
        raise InputError("nothing to compare: no measured number has a mechanism with steps and a noise multiplier")
    output, folder = Path(output), None if figures is None else Path(figures)
    drawn_csv = output.with_suffix(".csv")
    check_output_file(output)
    check_output_file(drawn_csv)
    if drawn_csv.exists() and not drawn_csv.read_bytes().startswith(b",".join(name.encode() for name in DRAWN[:4])):
        raise InputError(f"{str(drawn_csv)!r}, which is written beside the page, exists and is something else: "
                         "name another page")  # fmt: skip
    if folder is not None:
        check_output_folder(folder, "figures")
    drawn = list(_drawn(found))
    write_text(output, _page(points, found, drawn, drawn_csv.name, title))
    write_text(drawn_csv, drawn_table(found, drawn))
    files = [output, drawn_csv]
    for place, (family, quantity, curve) in enumerate(drawn if folder is not None else ()):
        figure = draw_comparison(family, curve, quantity)
        for format in drawing.FORMATS:
            file = Path(folder or "") / f"comparison-{place + 1}-{quantity.replace('_', '-')}.{format}"
            write_bytes(file, drawing.as_bytes(figure, format))
            files.append(file)
    return files


def _drawn(found: Sequence[Family]) -> Iterator[tuple[Family, str, Line | None]]:
    for family in found[:MOST_FAMILIES]:
        for quantity in TITLES:
            if points := family.of(quantity):
                delta = next((p.delta for p in points if p.delta), 1e-5)
                yield family, quantity, line(family, quantity, delta)


def drawn_table(found: Sequence[Family], drawn: Sequence[tuple[Family, str, Line | None]]) -> str:
    """Every curve and every point of the figures as csv, in one table: kind says which."""
    text = io.StringIO()
    to = csv.writer(text, lineterminator="\n")
    to.writerow(DRAWN)
    for family, quantity, curve in drawn:
        if curve is not None:
            for at, closed, low, high in zip(curve.values, curve.closed_form, curve.lower, curve.upper, strict=True):
                told = "" if closed != closed else f"{closed:.10g}"
                to.writerow(["curve", family.name, quantity, family.axis, f"{at:.10g}", told, f"{low:.10g}",
                             f"{high:.10g}", "theory", "", "", ""])  # fmt: skip
    for family in found:
        for p in family.points:
            if p.quantity in TITLES:
                numbers = ["" if v is None else f"{v:.10g}" for v in (p.value, p.lower, p.upper)]
                to.writerow(["point", family.name, p.quantity, family.axis, f"{p.at(family.axis):.10g}", *numbers,
                             p.validity, p.n, p.run, f"{p.series}; {p.label}"])  # fmt: skip
    return text.getvalue()


def _page(
    points: Sequence[Point],
    found: Sequence[Family],
    drawn: Sequence[tuple[Family, str, Line | None]],
    csv_name: str,
    title: str,
) -> str:
    filters = {
        "number": rounding.number,
        "percent": rounding.percent,
        "percent_at_most": lambda value: rounding.percent(value, rounding.UP),
        "percent_interval": rounding.percent_interval,
        "at_least": rounding.at_least,
        "at_most": rounding.at_most,
        "p_value": rounding.p_value,
    }
    rows = _rows(points, found[0].axis)
    return render_template(
        "comparison.html",
        filters,
        title=title,
        figures=[_shown(place, *one) for place, one in enumerate(drawn)],
        rows=rows[:MOST_ROWS],
        more=max(0, len(rows) - MOST_ROWS),
        left_out=[family.name for family in found[MOST_FAMILIES:]],
        uncurved=[family.name for family, quantity, curve in drawn if curve is None and quantity == "attack_accuracy"],
        axis=AXIS_LABELS[found[0].axis],
        csv=csv_name,
        classes={name: words.CLASS_WORDS[name] for name in words.CLASS_WORDS if name in {p.validity for p in points}},
        many_runs=any(p.run is not None for p in points),
    )


def _shown(place: int, family: Family, quantity: str, curve: Line | None) -> dict[str, object]:
    told = describe_comparison(family, quantity)
    inline = {
        name: Markup(
            drawing.as_inline_svg(
                draw_comparison(family, curve, quantity, **size), f"c{place}-{name}", TITLES[quantity], told
            )
        )
        for name, size in (("wide", {}), ("narrow", {"width": 380, "height": 470}))
    }
    return {"title": TITLES[quantity], "family": family.name, "note": NOTES[quantity], **inline}


def _rows(points: Sequence[Point], axis: str) -> list[dict[str, object]]:
    """One row for all runs of a training (or an audit) and an attack, along the axis, most of the bound first."""
    groups: dict[tuple[object, ...], dict[str, Point]] = {}
    for point in points:
        if point.run is None:
            key = (point.training, point.noise_multiplier, point.label, point.series)
            groups.setdefault(key, {})[point.quantity] = point
    rows = []
    for group in groups.values():
        first = next(iter(group.values()))
        accuracy = group.get("attack_accuracy")
        rows.append(
            {
                "first": first,
                "accuracy": accuracy,
                "epsilon": group.get("epsilon"),
                "p_value": group.get("p_value"),
                "order": (first.at(axis), -((accuracy and accuracy.share) or 0.0), first.training, first.label),
            }
        )
    return sorted(rows, key=lambda row: row["order"])  # type: ignore[return-value]
