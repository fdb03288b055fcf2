"""The command line: one file a command, each loaded only when it is called.

A command file defines `app = typer.Typer()` with one command or a group, imports light things at the top and
heavy things (torch, pandas, matplotlib) inside its functions: `coalmine bound` must not pay for torch.
Exit codes: 0 done (whatever the verdict), 1 claim rejected where --fail-on-rejection is given, 2 bad input.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from ... import __version__
from ...foundation import InputError

COMMANDS: dict[str, str] = {
    # name on the command line: file in this folder, in the order in which a user meets them
    "demo": "demo",
    "canaries": "canaries",
    "coins": "coins",
    "train": "train",
    "score": "score",
    "lira": "lira",
    "repeat": "repeat",
    "claim": "claim",
    "audit": "audit",
    "power": "power",
    "selftest": "selftest",
    "bound": "bound",
    "calibrate": "calibrate",
    "plan": "plan",
    "report": "report",
}


class LazyGroup(TyperGroup):
    """A group whose commands are imported when asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f".{COMMANDS[cmd_name]}", __name__)
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="coalmine",
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Audit what a model leaks: canaries, attacks, lower bounds, and the upper bounds they are judged against.",
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"coalmine {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Audit what a model leaks: canaries, attacks, lower bounds, and the upper bounds they are judged against."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. A user's mistake is one line on standard error and exit code 2, never a traceback."""
    try:
        app(arguments, prog_name="coalmine")
    except InputError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted: what was finished is on disk; the same command resumes", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader (head, less) left early
        sys.stderr.close()
        sys.exit(0)
