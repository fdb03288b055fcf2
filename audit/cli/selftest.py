"""coalmine selftest: hold an estimator against worlds whose truth is known."""

from __future__ import annotations

from typing import Annotated

import typer

from ...foundation import InputError
from .options import Json, Quiet, print_json, remark

app = typer.Typer(add_completion=False)


@app.command()
def selftest(
    estimator: Annotated[
        str,
        typer.Argument(
            help="grid, calibrated, split, all, grid_gaussian, clopper_pearson, gaussian_mu, exact_tail, or "
            "package.module:function, called as f(scores, members, delta=…, confidence=…)."
        ),
    ] = "grid",
    canaries: Annotated[int, typer.Option("--canaries", min=20)] = 200,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Draws a scenario; 3000 see a few per cent.")] = 200,
    delta: Annotated[float, typer.Option("--delta")] = 1e-5,
    confidence: Annotated[float, typer.Option("--confidence")] = 0.95,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Coverage, power and traps for any estimator of epsilon; exit code 1 when it fails.

    Example: coalmine selftest mypackage.audits:epsilon_lower_bound --canaries 500 --repeats 1000
    """
    if not 0.5 < confidence < 1:
        raise InputError(f"--confidence must lie strictly between 0.5 and 1, got {confidence:g}")
    from ..planning.selftest import Row, find_estimator, record
    from ..planning.selftest import selftest as run

    if not json:
        typer.echo(f"{'scenario':34} {'truth':>7} {'mean':>7} {'above':>7} {'refused':>7}")

    def show(row: Row) -> None:
        if not json:
            mean = "-" if row.mean_bound is None else f"{row.mean_bound:.3f}"
            typer.echo(
                f"{row.scenario:34} {row.truth:7.3f} {mean:>7} {100 * row.share_above:6.1f}% {row.refused:7d} "
                f"{'pass' if row.passed else 'FAIL'}  {row.note}"
            )

    rows = run(find_estimator(estimator), canaries, repeats, delta, confidence, seed, show)
    result = record(
        rows, estimator=estimator, canaries=canaries, repeats=repeats, delta=delta, confidence=confidence, seed=seed
    )
    if json:
        print_json(result)
    else:
        failed = sum(not row.passed for row in rows)
        typer.echo(f"{estimator}: " + ("passed" if not failed else f"failed {failed} of {len(rows)} scenarios"))
        remark(f"above: share of {repeats} draws whose bound exceeds the truth; {1 - confidence:.3g} is allowed", quiet)
    if not result["passed"]:
        raise typer.Exit(1)
