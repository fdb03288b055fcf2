"""The page: one HTML file that holds all it shows, reads without a network, prints, and follows light or dark.

The template escapes every text from the audits; figures are inline SVG; no script, no font, no image is loaded,
and the page's own policy forbids the browser to load any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from matplotlib.figure import Figure

from ..audit.verdict.curves import Roc
from ..audit.verdict.result import AuditResult
from ..foundation import check_output_file, check_output_folder, write_bytes, write_text
from . import drawing, rounding, words
from .figure_headline import Headline, describe_headline, draw_headline, headlines, shares_a_claimed_value
from .figure_roc import describe_roc, draw_roc
from .figure_scores import describe_scores, draw_scores
from .figure_trade_off import describe_trade_off, draw_trade_off
from .markdown import model_card
from .read import Source, read_audits
from .summary import Summary, canaries_in_words, epsilon_bound, informative, p_value_class, several, summarise
from .templating import render_template


@dataclass(frozen=True)
class Drawing:
    """A figure of the page: its name in files and ids, how to draw it, and its words."""

    name: str
    title: str
    description: str
    draw: Callable[[], Figure]
    note: str = ""  # below it
    draw_narrow: Callable[[], Figure] | None = None  # for a telephone, where the wide one cannot be read

    def inline(self) -> Markup:
        return Markup(drawing.as_inline_svg(self.draw(), self.name, self.title, self.description))

    def inline_narrow(self) -> Markup:
        assert self.draw_narrow is not None
        return Markup(drawing.as_inline_svg(self.draw_narrow(), f"{self.name}-narrow", self.title, self.description))


@dataclass(frozen=True)
class Section:
    """One audit as the page shows it."""

    place: int
    audit: AuditResult
    summary: Summary
    drawings: tuple[Drawing, ...]
    card: str


def write_report(audits: Sequence[Source], output: str | Path, figures: str | Path | None = None) -> list[Path]:
    """Write the page of one audit or many; return the files written, the page first.

    audits   paths of audit.json files, or their content
    output   the HTML file, replaced whole or not at all
    figures  a folder for the figures as svg, pdf and png, if wanted
    Errors: InputError for an audit that cannot be read, before anything is drawn or written.
    """
    read = read_audits(audits)
    output, folder = Path(output), None if figures is None else Path(figures)
    check_output_file(output)
    if folder is not None:
        check_output_folder(folder, "figures")
    page, drawings = _page(read)
    write_text(output, page)
    files = [output]
    for figure in drawings if folder is not None else ():
        drawn = figure.draw()
        for format in drawing.FORMATS:
            file = Path(folder or "") / f"{figure.name}.{format}"
            write_bytes(file, drawing.as_bytes(drawn, format))
            files.append(file)
    return files


def render(audits: Sequence[AuditResult]) -> str:
    """The HTML of the page, the same to the byte for the same audits."""
    return _page(audits)[0]


def _page(audits: Sequence[AuditResult]) -> tuple[str, list[Drawing]]:
    sections = tuple(
        Section(place, audit, summarise(audit), tuple(_audit_drawings(audit, place)), model_card(audit))
        for place, audit in enumerate(audits)
    )
    top = tuple(_headline_drawings(audits))
    filters = {
        "number": rounding.number,
        "at_least": rounding.at_least,
        "at_most": rounding.at_most,
        "confidence": rounding.confidence,
        "interval": rounding.interval,
        "percent": rounding.percent,
        "percent_at_most": lambda value: rounding.percent(value, rounding.UP),
        "percent_interval": rounding.percent_interval,
        "p_value": rounding.p_value,
        "quantity": words.quantity,
        "spaced": words.spaced,
        "code": words.code,
    }
    page = render_template(
        "report.html",
        filters,
        sections=sections,
        headlines=top,
        classes=words.CLASS_WORDS,
        classes_in_short=words.CLASS_IN_SHORT,
        used=_classes_used(audits),
        mechanism=words.mechanism,
        facts=words.facts,
        provenance=words.provenance,
        p_value_class=p_value_class,
        informative=informative,
        canaries=canaries_in_words,
        epsilon_bound=epsilon_bound,
        accuracy=lambda audit: audit.estimate("attack_accuracy"),
        title=_title(audits),
        heading=_heading(audits),
        dates=list(dict.fromkeys(audit.created[:10] for audit in audits if audit.created)),
    )
    return page, [*top, *(one for section in sections for one in section.drawings)]


def _note(headline: Headline) -> str:
    said = []
    if any(several(audit) for _, audit, _ in headline.audits):
        said.append("Where several runs were judged together, the point is their mean.")
    if shares_a_claimed_value(headline):
        said.append(
            "Points with the same claim stand beside its dotted line, or their intervals would hide each other."
        )
    return " ".join(said)


def _headline_drawings(audits: Sequence[AuditResult]) -> Iterator[Drawing]:
    for headline in headlines(audits):
        yield Drawing(
            name=f"headline-{headline.parameter.replace('_', '-')}",
            title="Attack accuracy against its upper bound",
            description=describe_headline(headline),
            draw=lambda headline=headline: draw_headline(headline),
            note=_note(headline),
            draw_narrow=lambda headline=headline: draw_headline(headline, width=380, height=420),
        )


def _audit_drawings(audit: AuditResult, place: int) -> Iterator[Drawing]:
    if _has_curve(audit.roc):
        yield Drawing(
            *(f"roc-{place + 1}", "ROC curve", describe_roc(audit)),
            draw=lambda: draw_roc(audit, place),
        )
        yield Drawing(
            *(f"trade-off-{place + 1}", "Trade-off curve", describe_trade_off(audit)),
            draw=lambda: draw_trade_off(audit, place),
        )
    if audit.histogram is not None:
        yield Drawing(
            *(f"scores-{place + 1}", "Scores of members and non-members", describe_scores(audit)),
            draw=lambda: draw_scores(audit, place),
        )


def _has_curve(roc: Roc | None) -> bool:
    return roc is not None and len(roc.false_positive_rate) >= 2


def _classes_used(audits: Sequence[AuditResult]) -> list[str]:
    used = {estimate.validity for audit in audits for estimate in audit.estimates}
    used |= {p_value_class(audit) for audit in audits if audit.p_value is not None}
    used |= {audit.roc.validity for audit in audits if audit.roc is not None}
    used |= {"theory"} if any(audit.claim is not None for audit in audits) else set()
    return [one for one in words.CLASS_WORDS if one in used]


def _title(audits: Sequence[AuditResult]) -> str:
    if len(audits) == 1:
        return f"Privacy audit: {audits[0].label}"
    return f"Privacy audits: {_many(audits)} compared"


def _heading(audits: Sequence[AuditResult]) -> str:
    if len(audits) > 1:
        return _many(audits) if any(several(audit) for audit in audits) else f"{_many(audits)}, audited"
    repeated = audits[0].repeated
    return audits[0].label if repeated is None else f"{audits[0].label}: {repeated.runs} training runs"


def _many(audits: Sequence[AuditResult]) -> str:
    """An audit of repeated training is several runs, so a page with one counts audits."""
    return f"{len(audits)} {'audits' if any(several(audit) for audit in audits) else 'training runs'}"
