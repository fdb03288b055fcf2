"""coalmine canaries: make canary sets and look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Json, Quiet, Seed, print_json, remark

app = typer.Typer(no_args_is_help=True)

Data = Annotated[
    str, typer.Option("--data", help="The training data: digits, a folder or a file (see `coalmine train`).")
]
CanariesFile = Annotated[Path, typer.Argument(help="A canary set written by `coalmine canaries craft`.")]


@app.callback()
def _group() -> None:
    """Make canary sets, look at them, measure how detectable they are."""


@app.command("craft")
def craft_command(
    data: Data,
    method: Annotated[
        str,
        typer.Option("--method", help="random, mislabelled, noise or blank; see the documentation for what each is."),
    ] = "noise",
    count: Annotated[int, typer.Option("--count", help="How many canaries.")] = 200,
    out: Annotated[Path, typer.Option("--output", "-o", help="Where to write the set.")] = Path("canaries.safetensors"),
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Make a canary set from training data and freeze it in a file.

    Example: coalmine canaries craft --data digits --method noise --count 200 --output canaries.safetensors
    """
    from ...canaries import craft
    from ...foundation import fresh_seed
    from ..training.data import load_data

    source = load_data(data)
    canaries = craft(
        method,
        source.x,
        source.y,
        classes=len(source.classes),
        value_range=source.value_range,
        count=count,
        seed=fresh_seed() if seed is None else seed,
        data_fingerprint=source.fingerprint,
    )
    canaries.save(out)
    record = {"canaries": str(out), "method": method, "count": len(canaries), "sha256": canaries.sha256}
    if json:
        print_json(record)
    else:
        typer.echo(f"{out}: {len(canaries)} canaries by {method}, sha256 {canaries.sha256}")
        remark("Next: coalmine coins draws which of them are members.", quiet)
