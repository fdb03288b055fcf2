"""What all figures share: ink, type, and the way from a matplotlib figure to bytes.

Figures are built with matplotlib's objects alone (no pyplot, no global state that outlives a call) and are the same
to the byte for the same audit: a fixed hash salt, no date. Colours are Okabe and Ito's palette (2008), which stays
distinct for the colour-blind; every colour also has its own marker. In the page the colours become CSS variables,
so that one drawing serves light, dark and paper.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from io import BytesIO
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from .rounding import power_of_ten

INK, MUTED, RULE, PAPER, FORBIDDEN = "#1b2430", "#5a6675", "#dfe3e8", "#fffffe", "#a3473b"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#b0578d", "#8a6d00", "#3a8fc4")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    RULE: "--rule",
    PAPER: "--paper",
    FORBIDDEN: "--forbidden",
    **{colour: f"--series-{place}" for place, colour in enumerate(SERIES)},
}
TIGHT_LEGEND: Any = {"borderaxespad": 0, "handlelength": 1.8, "columnspacing": 1.6}
FORMATS = ("svg", "pdf", "png")
_STYLE: Any = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same layout on every machine
    "font.size": 11,
    "text.color": INK,
    "text.parse_math": False,  # a label may hold a dollar sign
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.labelsize": 11,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "figure.facecolor": "none",
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 10.5,
    "legend.labelcolor": INK,
    "lines.solid_capstyle": "round",
    "svg.hashsalt": "coalmine",
    "svg.fonttype": "none",
}


@contextmanager
def style() -> Iterator[None]:
    """The style for the time of a drawing; a label's glyph that the measuring font lacks is no reason to complain."""
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        yield


def new_figure(width: int, height: int) -> tuple[Figure, Axes]:
    """One pair of axes, sized in the units of the SVG (1/72 inch): text of size 11 is 11 units high."""
    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(True, which="major")
    axes.set_axisbelow(True)
    axes.tick_params(length=0, which="both", pad=5)
    return figure, axes


def colour(place: int) -> str:
    return SERIES[place % len(SERIES)]


def marker(place: int) -> str:
    return MARKERS[place % len(MARKERS)]


def shortened(label: str, most: int = 34) -> str:
    return label if len(label) <= most else label[: most - 1].rstrip() + "…"


def as_bytes(figure: Figure, format: str) -> bytes:
    """The figure as a file for a paper or a slide: on white, and the same bytes every time."""
    signed = {
        "svg": {"Date": None, "Creator": "coalmine"},
        "pdf": {"CreationDate": None, "Creator": "coalmine"},
        "png": {"Software": "coalmine"},
    }[format]
    content = BytesIO()
    with style(), matplotlib.rc_context({"svg.fonttype": "path"}):
        figure.savefig(content, format=format, dpi=200, facecolor="white", metadata=signed)
    return content.getvalue()


def as_inline_svg(figure: Figure, name: str, title: str, description: str) -> str:
    """The figure as an <svg> element for HTML, readable by a screen reader.

    `name` makes its ids unique in the page. Colours turn into CSS variables and the font into the page's own;
    nothing in it names an address.
    """
    content = BytesIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with style():
        figure.savefig(content, format="svg", transparent=True, metadata=nothing)
    svg = content.getvalue().decode("utf-8")
    svg = svg[svg.index("<svg") :]
    head, body = svg.split(">", 1)
    box = re.search(r'viewBox="([^"]+)"', head)
    assert box is not None, "matplotlib writes a viewBox"
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"<[^>]+>", lambda tag: _adapted(tag.group(), name), body)  # tags only: a label stays as it is
    opening = f'<svg viewBox="{box.group(1)}" role="img" aria-labelledby="{name}-title {name}-description">'
    told = f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-description">{escape(description)}</desc>'
    return opening + told + body.strip()


def _adapted(tag: str, name: str) -> str:
    tag = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', tag)
    tag = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", tag)
    tag = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{name}-\1"', tag)
    tag = re.sub(r"(font: (?:[a-z]+ |\d+ )*[\d.]+px) [^;\"]*", r"\1 var(--sans)", tag)
    return re.sub(r"#[0-9a-f]{6}\b", _as_variable, tag)


def _as_variable(found: re.Match[str]) -> str:
    variable = _VARIABLES.get(found.group())
    return found.group() if variable is None else f"var({variable}, {found.group()})"


def log_axis(axis: Any, subs: tuple[float, ...] = (1.0,)) -> None:
    """Plain decimals down to 0.001, powers of ten below."""
    axis.set_major_locator(LogLocator(base=10, subs=subs, numticks=20))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))


def percent_axis(axis: Any) -> None:
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))


def _tick(value: float) -> str:
    if 0.00099 < value < 1e5:
        return f"{value:g}"
    mantissa, exponent = f"{value:e}".split("e")
    power = power_of_ten(int(exponent))
    return power if float(mantissa) == 1 else f"{float(mantissa):g} × {power}"
