"""The one environment in which pages are rendered: everything escaped, nothing undefined passes in silence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from . import drawing


def render_template(template: str, filters: Mapping[str, Callable[..., str]], /, **shown: Any) -> str:
    """The template of that name with its filters and values; `style` is the pages' style sheet."""
    environment = Environment(
        loader=PackageLoader(__package__ or "coalmine.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    style = Markup(environment.get_template("report.css").render(series=drawing.SERIES))
    return environment.get_template(template).render(style=style, **shown)
