"""One self-contained HTML page of a measured plan: `coalmine report plan.json`.

Reads what `coalmine plan --measure` wrote and computes nothing; no script, no font, no image is loaded. The same
plan.json gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from ..audit.planning.utility_plan import UtilityPlan, is_plan
from ..foundation import InputError, check_output_file, check_output_folder, read_json, write_bytes, write_text
from . import drawing, plan_words, rounding
from .figure_plan import describe_arms, describe_graph, draw_arms, draw_graph
from .templating import render_template

SHOWN = 12  # rows of the table of the best


@dataclass(frozen=True)
class PlanDrawing:
    """A figure of the page, drawn wide and for a telephone."""

    name: str
    title: str
    description: str
    draw: Callable[[bool], Figure]

    def inline(self, narrow: bool) -> Markup:
        name = f"{self.name}-narrow" if narrow else self.name
        return Markup(drawing.as_inline_svg(self.draw(narrow), name, self.title, self.description))


def is_plan_file(path: str | Path) -> bool:
    """Whether the file holds a measured plan; False for anything that another reader should complain about."""
    try:
        return is_plan(read_json(path, "report input"))
    except InputError:
        return False


def write_plan_report(
    plan: str | Path | Mapping[str, Any], output: str | Path, figures: str | Path | None = None
) -> list[Path]:
    """Write the page of one plan.json (a path or its content); return the files written, the page first.

    figures: a folder for the figures as svg, pdf and png, if wanted. Errors: InputError before anything is written.
    """
    content = plan if isinstance(plan, Mapping) else read_json(plan, "plan")
    source = "plan" if isinstance(plan, Mapping) else str(plan)
    read = UtilityPlan.from_json(content, source)
    command = content.get("command")
    output, folder = Path(output), None if figures is None else Path(figures)
    check_output_file(output)
    if folder is not None:
        check_output_folder(folder, "figures")
    drawings = plan_drawings(read)
    write_text(output, render_plan(read, command if isinstance(command, str) else read.command()))
    files = [output]
    for one in drawings if folder is not None else ():
        drawn = one.draw(False)
        for format in drawing.FORMATS:
            file = Path(folder or "") / f"{one.name}.{format}"
            write_bytes(file, drawing.as_bytes(drawn, format))
            files.append(file)
    return files


def plan_drawings(plan: UtilityPlan) -> tuple[PlanDrawing, ...]:
    return (
        PlanDrawing("utility-graph", "Utility graph", describe_graph(plan), lambda narrow: draw_graph(plan, narrow)),
        PlanDrawing(
            "same-budget", "What the same budget buys", describe_arms(plan), lambda narrow: draw_arms(plan, narrow)
        ),
    )


def render_plan(plan: UtilityPlan, command: str) -> str:
    """The HTML of the page, the same to the byte for the same plan."""
    filters = {
        "number": rounding.number,
        "at_most": rounding.at_most,
        "accuracy": plan_words.accuracy_words,
        "points": plan_words.points_words,
        "sentence": lambda text: text[:1].upper() + text[1:],
    }
    return render_template(
        "plan.html",
        filters,
        plan=plan,
        command=command,
        claim=json.dumps(plan.claim(), indent=2),
        best=plan.points[:SHOWN],
        drawings=plan_drawings(plan),
        words=plan_words,
    )
