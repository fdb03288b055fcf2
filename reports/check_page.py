"""The page of a check: one HTML file, self-contained, what is wrong first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from ..audit.white_box.finding import STATUSES, WORDS
from ..audit.white_box.result import CheckResult
from ..audit.white_box.text import VERDICTS
from ..foundation import check_output_file, check_output_folder, read_json, write_bytes, write_text
from . import drawing, rounding
from .figure_check import draw_accuracy, draw_batches, draw_curve, draw_noise
from .templating import render_template
from .words import mechanism

FIGURES: tuple[tuple[str, str, Callable[[CheckResult], Figure | None], str], ...] = (
    (
        "noise",
        "Noise by parameter",
        draw_noise,
        "Read where no record's gradient reaches; intervals at 99 %, exact. A parameter to the left has less noise.",
    ),
    (
        "batches",
        "Batches over steps",
        draw_batches,
        "Records that each step used, and the deviation of its noise: the line is flat, also where a batch is empty.",
    ),
    (
        "contribution",
        "Contribution against length of gradient",
        draw_curve,
        "Every record used alone in a step, read without noise from two runs with one seed: linear up to the clipping "
        "norm, then flat. Dashed: an ordinary record.",
    ),
    (
        "accuracy",
        "One-run accuracy on the exact curve",
        draw_accuracy,
        "The best attack's expected accuracy under the claim at each noise multiplier; above is forbidden. "
        "The interval takes the canaries' errors as independent (class C); the verdict rests on the p-value (class B).",
    ),
)


@dataclass(frozen=True)
class Shown:
    name: str
    title: str
    note: str
    svg: Markup


def is_check(content: Any) -> bool:
    """Whether the content of a JSON file is a check's."""
    return isinstance(content, dict) and content.get("kind") == "check"


def read_check(path: str | Path) -> CheckResult:
    """Errors: InputError."""
    return CheckResult.from_json(read_json(path, "check file"), f"check file {str(path)!r}")


def write_check_page(result: CheckResult, output: str | Path, figures: str | Path | None = None) -> list[Path]:
    """The files written, the page first. Errors: InputError where they cannot be."""
    output = Path(output)
    check_output_file(output)
    drawn = [(name, title, figure, note) for name, title, draw, note in FIGURES if (figure := draw(result)) is not None]
    write_text(output, render(result, drawn))
    files = [output]
    if figures is not None:
        check_output_folder(figures, "figures")
        for name, _, figure, _ in drawn:
            for format in drawing.FORMATS:
                file = Path(figures) / f"check-{name}.{format}"
                write_bytes(file, drawing.as_bytes(figure, format))
                files.append(file)
    return files


def render(result: CheckResult, drawn: list[tuple[str, str, Figure, str]]) -> str:
    shown = [
        Shown(name, title, note, Markup(drawing.as_inline_svg(figure, f"check-{name}", title, note)))
        for name, title, figure, note in drawn
    ]
    filters = {"p_value": rounding.p_value, "number": rounding.number}
    return render_template(
        "check.html",
        filters,
        result=result,
        verdict=VERDICTS[result.verdict],
        findings=sorted(result.findings, key=lambda f: -STATUSES.index(f.status) if f.status != "not_tested" else 1),
        words=WORDS,
        figures=shown,
        mechanism=mechanism(result.claim["mechanism"]),
        supported=None
        if not result.supported or not result.supported.get("mechanism")
        else mechanism(result.supported["mechanism"]),
    )
