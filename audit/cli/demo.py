"""`coalmine demo`: all of it on real handwritten digits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Json, Quiet, print_json, print_table, remark
from .replacing import DEMO_FOLDER, replacing

app = typer.Typer(add_completion=False)


@app.command(epilog="Example: coalmine demo --output runs/demo")
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", callback=replacing(DEMO_FOLDER), help="Folder for everything it makes.")
    ] = Path("runs/demo"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Same seed, same result.")] = 0,
    json_output: Json = False,
    quiet: Quiet = False,
) -> None:
    """Audit two training runs on handwritten digits: one with DP-SGD's noise, one that forgot it.

    Canaries, coins, training, attack, lower bound, upper bound, report: about a minute on two cores.
    """
    from ..demo import run_demo

    result = run_demo(output, seed, lambda line: remark(line, quiet or json_output))
    if json_output:
        audits = {name: audit.to_json() for name, audit in result.audits.items()}
        print_json({"report": str(result.report), "audits": audits})
        return
    from rich.table import Table

    from ...reports.rounding import UP, p_value, percent, plain

    table = Table(title="Both runs claim the same noise; allowed: attack accuracy under that claim")
    for heading in ("run", "test acc.", "attack acc.", "allowed", "p-value", "verdict"):
        table.add_column(heading, justify="left" if heading in ("run", "verdict") else "right")
    for name, audit in result.audits.items():
        attack, allowed = audit.estimate("attack_accuracy"), audit.claim and audit.claim.accuracy
        table.add_row(
            audit.label,
            plain(percent(result.records[name].test_accuracy)),
            plain(percent(attack and attack.value)),
            plain(percent(allowed and allowed.upper, UP)),
            plain(p_value(audit.p_value)),
            audit.verdict.replace("_", " "),
        )
    print_table(table)
    typer.echo(f"Open {result.report} in a browser: what was claimed, what was measured, what it means.")
