"""--records with --batch-size: the shape of an epoch from what people know of their run, rounded to the safe side."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from ...foundation import InputError

Records = Annotated[
    int | None, typer.Option("--records", min=1, help="Records in the training set, with --batch-size.")
]
BatchSize = Annotated[
    int | None, typer.Option("--batch-size", min=1, help="Records in a batch on average; instead of --steps-per-epoch.")
]


def shape_of_batches(
    mechanism: str, records: int | None, batch_size: int | None, epochs: str
) -> tuple[dict[str, str], list[str]]:
    """What the two mean for a scheme, and what was rounded, in words.

    Random allocation and fixed bins: fewer steps an epoch reveal more (S of M + 1 ratios is smaller in convex order
    than that of M), so records/batch_size is rounded down. Poisson: the rate is exact, and more steps reveal more, so
    the steps of an epoch are rounded up. Errors: InputError.
    """
    if records is None and batch_size is None:
        return {}, []
    if records is None or batch_size is None:
        raise InputError("--records and --batch-size go together: an epoch has records/batch_size steps")
    if batch_size > records:
        raise InputError(f"--batch-size {batch_size} is more than --records {records}")
    exact = records / batch_size
    said = f"{records} records in batches of {batch_size} are {exact:.6g} steps an epoch: taken as"
    if mechanism in ("random_allocation", "fixed_bins"):
        steps = records // batch_size
        words = [] if exact == steps else [f"{said} {steps}, since fewer steps reveal more."]
        return {"steps_per_epoch": str(steps)}, words
    if mechanism == "poisson":
        each = math.ceil(exact)
        try:
            steps = each * int(epochs)
        except ValueError:
            raise InputError("--batch-size with poisson needs --epochs to be one whole number, or --steps") from None
        words = [f"{said} {each}, since more steps reveal more; the sampling rate is exact."]
        return {"sampling_rate": repr(batch_size / records), "steps": str(steps)}, [] if exact == each else words
    raise InputError(f"--batch-size has no meaning for {mechanism}: every record is in every batch")
