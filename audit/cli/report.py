"""coalmine report: one HTML page of one result or many."""

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
    audits: Annotated[
        list[Path],
        typer.Argument(
            help="One audit.json, or several to compare; or one attack.json, lira.json, check.json, plan.json or table "
            "of `coalmine compare`."
        ),
    ],
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
    from ...reports.pages import write_page

    written = write_page(audits, output, figures)
    page, *beside = (str(file) for file in written.files)
    if json:
        print_json({"report": page, "figures": beside, **written.told})
        return
    for line in written.lines:
        remark(line, quiet)
    typer.echo(page)
