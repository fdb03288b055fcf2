"""coalmine report: one HTML page of one audit or many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Json, Quiet, print_json, remark

app = typer.Typer()


@app.command(
    epilog="Example: coalmine report runs/private/audit.json runs/noise-forgotten/audit.json --output runs/report.html"
)
def report(
    audits: Annotated[list[Path], typer.Argument(help="One audit.json, or several to compare on one page.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML page to write.")] = Path("runs/report.html"),
    figures: Annotated[
        Path | None, typer.Option("--figures", help="A folder for the figures as svg, pdf and png.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a self-contained HTML page: what was claimed, what was measured, what that shows and what to do next."""
    from ...reports.audit_file import read_audits
    from ...reports.page import write_report

    read = read_audits(audits)
    files = write_report(audits, output, figures)
    if json:
        print_json(
            {
                "report": str(files[0]),
                "figures": [str(file) for file in files[1:]],
                "audits": [{"label": a.label, "verdict": a.verdict, "p_value": a.p_value} for a in read],
            }
        )
        return
    for audit in read:
        p = "" if audit.p_value is None else f", p = {audit.p_value:.2g}"
        remark(f"{audit.label}: {audit.verdict.replace('_', ' ')}{p}", quiet)
    typer.echo(str(files[0]))
