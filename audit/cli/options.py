"""Options and output that mean the same in every command."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ...foundation import InputError

if TYPE_CHECKING:
    from rich.table import Table

T = TypeVar("T")
FOUND_ON_DISK = 0.05  # seconds: a step that took less was no work

Json = Annotated[bool, typer.Option("--json", help="Print machine-readable JSON on standard output, nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no remarks; errors still show.")]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        help="Reproduce a run to the byte. With a seed the run is for reproduction, not for privacy; "
        "without one, coins and noise take fresh entropy from the operating system.",
    ),
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, mps …")]


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))


def print_table(table: Table) -> None:
    """The table, or where the terminal is too narrow for its numbers a list: no number is ever cut."""
    from rich.console import Console

    console = Console()
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    for column, cells in zip(table.columns, columns, strict=True):
        column.overflow = "fold"  # headings may be folded, numbers may not
        column.min_width = max((len(word) for cell in cells for word in cell.split()), default=1)
    with console.capture() as drawn:
        console.print(table)
    lines = drawn.get()
    if all(word in lines for cells in columns for cell in cells for word in cell.split()):
        typer.echo(lines, nl=False)
        return
    typer.echo(str(table.title or ""))
    for row in zip(*columns, strict=True):
        typer.echo("")
        for column, cell in zip(table.columns, row, strict=True):
            if cell:
                typer.echo(f"  {column.header or 'is'}: {cell}")


def remark(text: str, quiet: bool = False) -> None:
    """One line on standard error, where it disturbs neither --json nor a pipe."""
    if not quiet:
        typer.echo(text, err=True)


def torch_device(name: str) -> Any:
    """The torch device of that name, checked to be usable on this machine. Errors: InputError."""
    import torch

    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"--device {name!r} cannot be used here ({reason}): try --device cpu") from None
    return device


@contextmanager
def stepper(total: int, what: str, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """Hands out advance(): a progress bar on a terminal, one line a minute elsewhere, nothing when quiet."""
    if quiet:
        yield lambda: None
        return
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda: bar.advance(task)
        return
    done, spent, worked = 0, 0.0, 0
    step = last = time.monotonic()

    def advance() -> None:
        nonlocal done, spent, worked, step, last
        now = time.monotonic()
        if now - step > FOUND_ON_DISK:  # what was read from disk says nothing of what is left
            spent, worked = spent + now - step, worked + 1
        done, step = done + 1, now
        if now - last >= 60:
            last = now
            left = f", about {(total - done) * spent / worked / 60:.0f} min left" if worked and done < total else ""
            remark(f"{what}: {done} of {total}{left}")

    yield advance


def progress(items: Iterable[T], total: int, what: str, quiet: bool = False) -> Iterator[T]:
    """`stepper` around a loop: yields the items, one advance after each."""
    with stepper(total, what, quiet) as advance:
        for item in items:
            yield item
            advance()
