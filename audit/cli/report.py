"""coalmine report: one HTML page of one audit or many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Json, Quiet, print_json, remark
from .replacing import FIGURES_FOLDER, replacing, replacing_page

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Example: coalmine report runs/private/audit.json runs/noise-forgotten/audit.json --output runs/report.html"
)
def report(
    audits: Annotated[list[Path], typer.Argument(help="One audit.json, or several to compare on one page.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", callback=replacing_page, help="The HTML page to write.")
    ] = Path("runs/report.html"),
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures", callback=replacing(FIGURES_FOLDER), help="A folder for the figures as svg, pdf and png."
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a self-contained HTML page: what was claimed, what was measured, what that shows and what to do next."""
    from ...reports.page import write_report
    from ...reports.read import read_audits
    from ...reports.rounding import p_value
    from ...reports.summary import p_value_class
    from ...reports.words import verdict
    from ..verdict.result import AuditResult

    read = read_audits(audits)
    files = write_report(read, output, figures)
    if json:
        print_json(
            {
                "report": str(files[0]),
                "figures": [str(file) for file in files[1:]],
                "audits": [{"label": a.label, "verdict": a.verdict, "p_value": a.p_value} for a in read],
            }
        )
        return
    for path, audit in zip(audits, read, strict=True):
        p = "" if audit.p_value is None else f", p = {p_value(audit.p_value)} (class {p_value_class(audit)})"
        remark(f"{audit.label}: {verdict(audit).replace('_', ' ')}{p}", quiet)
        if not AuditResult.load(path).label:
            remark(f"  {str(path)!r} has no label: its place names it (coalmine audit --label NAME gives one)", quiet)
    typer.echo(str(files[0]))
