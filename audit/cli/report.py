"""coalmine report: one HTML page of one audit or many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...foundation import InputError, read_json
from .options import Json, Quiet, print_json, remark
from .replacing import FIGURES_FOLDER, replacing, replacing_page

if TYPE_CHECKING:
    from ..verdict.result import AuditResult

MOST_IN_FULL = 12  # audits on one page with figures of their own; more are compared in one figure and one table
app = typer.Typer(add_completion=False)


@app.command(
    epilog="Example: coalmine report runs/private/audit.json runs/noise-forgotten/audit.json --output runs/report.html"
)
def report(
    audits: Annotated[
        list[Path],
        typer.Argument(
            help="One audit.json, or several to compare; the table of `coalmine compare`; or one attack.json, "
            "lira.json, check.json or plan.json."
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
    if _page_of_a_comparison(audits, output, figures, json):
        return
    if attacks_among(audits):
        _attack_pages(audits, output, figures, json)
        return
    if _page_of_a_check(audits, output, figures, json, quiet):
        return
    from ...reports.page import write_report
    from ...reports.plan_page import is_plan_file, write_plan_report
    from ...reports.read import read_audits
    from ...reports.rounding import p_value
    from ...reports.summary import p_value_class
    from ...reports.words import verdict
    from ..verdict.result import AuditResult

    if len(audits) == 1 and is_plan_file(audits[0]):
        files = write_plan_report(audits[0], output, figures)
        told = {"report": str(files[0]), "figures": [str(file) for file in files[1:]]}
        print_json(told) if json else typer.echo(str(files[0]))
        return
    read = read_audits(audits)
    if len(read) > MOST_IN_FULL:
        _write_comparison(read, output, figures, json)
        return
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


def attacks_among(files: list[Path]) -> bool:
    """Whether these are results of `coalmine attack` or `lira`, by their content. Errors: InputError for a mixture."""
    from ..attack.result import is_attack_result

    found = [is_attack_result(read_json(file, "audit file")) for file in files]
    if any(found) and len(files) > 1:
        raise InputError("a page shows one attack.json or lira.json alone, or several audit.json: give one of them")
    return any(found)


def _attack_pages(files: list[Path], output: Path, figures: Path | None, json: bool) -> None:
    from ...reports.attack_page import read_attack, write_attack_report
    from ...reports.attack_words import told

    result = read_attack(files[0])
    written = write_attack_report(result, output, figures)
    if json:
        auc = None if result.metrics is None else result.metrics.auc
        print_json({"report": str(written[0]), "figures": [str(f) for f in written[1:]], "auc": auc})
        return
    remark(told(result).sentence)
    typer.echo(str(written[0]))


def _page_of_a_check(files: list[Path], output: Path, figures: Path | None, json: bool, quiet: bool) -> bool:
    """Whether the file is a check.json; if so, its page is written."""
    from ...reports.check_page import is_check, read_check, write_check_page

    checks = [file for file in files if file.is_file() and is_check(read_json(file, "file"))]
    if not checks:
        return False
    if len(files) > 1:
        raise InputError(f"{str(checks[0])!r} is a check.json: a page shows one check alone; give one file")
    result = read_check(checks[0])
    written = [str(file) for file in write_check_page(result, output, figures)]
    if json:
        print_json({"report": written[0], "figures": written[1:], "verdict": result.verdict})
        return True
    remark(f"{result.trainer}: {result.verdict}", quiet)
    typer.echo(written[0])
    return True


def _page_of_a_comparison(files: list[Path], output: Path, figures: Path | None, json: bool) -> bool:
    """Whether the file is a table of `coalmine compare`; if so, its page is written."""
    from ..compare.table import is_table, read_table

    tables = [file for file in files if is_table(file)]
    if not tables:
        return False
    if len(tables) < len(files):
        raise InputError(f"{str(tables[0])!r} is a comparison: give comparisons alone, or audits alone")
    from ...reports.comparison import points_of_table
    from ...reports.comparison_page import write_comparison_page

    if output.with_suffix(".csv").resolve() in {file.resolve() for file in files}:
        raise InputError(f"--output {str(output)!r}: its csv would replace {str(tables[0])!r}: name another page")
    points = points_of_table(row for file in files for row in read_table(file))
    _tell(write_comparison_page(points, output, figures, "Bound against empirical"), json)
    return True


def _write_comparison(audits: tuple[AuditResult, ...], output: Path, figures: Path | None, json: bool) -> None:
    """Many audits: those with a claim on one figure and in one table."""
    from ...reports.comparison import points_of_audits
    from ...reports.comparison_page import write_comparison_page

    _tell(write_comparison_page(points_of_audits(audits), output, figures, f"{len(audits)} audits"), json)


def _tell(files: list[Path], json: bool) -> None:
    if json:
        print_json({"report": str(files[0]), "table": str(files[1]), "figures": [str(file) for file in files[2:]]})
    else:
        typer.echo(str(files[0]))
