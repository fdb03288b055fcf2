"""coalmine coins: draw and commit membership."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Json, Quiet, Seed, print_json, remark
from .replacing import COINS, COMMITMENT, replacing

app = typer.Typer(no_args_is_help=True)


@app.command()
def coins(
    canaries: Annotated[Path, typer.Option("--canaries", help="canaries.safetensors: the frozen set.")],
    out: Annotated[
        Path, typer.Option("--output", "-o", callback=replacing(COINS), help="Secret until scores exist.")
    ] = Path("coins.json"),
    commitment: Annotated[
        Path, typer.Option("--commitment", callback=replacing(COMMITMENT), help="Public: the hash of the coins file.")
    ] = Path("commitment.json"),
    force: Annotated[bool, typer.Option("--force", help="Replace existing coins and their commitment.")] = False,
    seed: Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Draw one fair coin a canary, before training, and commit to the result.

    Publish or time-stamp the commitment before you train; keep the coins to yourself until the scores exist.

    Example: coalmine coins --canaries canaries.safetensors --output coins.json --commitment commitment.json
    """
    from ...canaries import CanarySet, draw_coins
    from ...canaries.coins import save_commitment
    from ...foundation import remove_leftovers

    frozen = CanarySet.load(canaries)
    drawn = draw_coins(frozen, seed)
    remove_leftovers(out)
    drawn.save(out)
    save_commitment(drawn, commitment)
    if seed is not None:
        remark("A seed was given: these coins are for reproduction, not for privacy.", quiet)
    members = int(drawn.member.sum())
    if members in (0, len(drawn)):
        remark(f"All {len(drawn)} coins fell on one side: this run can show nothing. Use more canaries.", quiet)
    record = {
        "coins": str(out),
        "commitment": str(commitment),
        "canaries": len(drawn),
        "canaries_sha256": drawn.canaries_sha256,
        "seeded": seed is not None,
    }
    if json:
        print_json(record)
    else:
        typer.echo(f"{out}: {len(drawn)} coins for set {frozen.sha256[:12]}…; commitment in {commitment}")
        remark("Publish the commitment before training; keep the coins secret until the scores exist.", quiet)
