"""The command line: one file a command, each loaded only when it is called.

A command file defines `app = typer.Typer()` with one command or a group, imports light things at the top and
heavy things (torch, pandas, matplotlib) inside its functions: `coalmine bound` must not pay for torch.
Exit codes: 0 done (whatever the verdict), 1 claim rejected where --fail-on-rejection is given, 2 bad input.
"""

from __future__ import annotations

import errno
import importlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from ... import __version__
from ...foundation import InputError
from .config import defaults_of, moved_to_front, read_config

COMMANDS: dict[str, str] = {
    # name on the command line: file in this folder, in the order in which a user meets them
    "demo": "demo",
    "canaries": "canaries",
    "coins": "coins",
    "train": "train",
    "score": "score",
    "attack": "attack",
    "lira": "lira",
    "repeat": "repeat",
    "compare": "compare",
    "check": "check",
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
        _check_paths_first(command)
        return command


def _check_paths_first(command: Any) -> None:
    """Every command, whoever wrote it, begins with the checks that all commands share."""
    if hasattr(command, "commands"):
        for one in command.commands.values():
            _check_paths_first(one)
        return
    invoke = command.invoke

    def checked(ctx: Any) -> Any:
        from .replacing import check_paths

        check_paths(ctx)
        return invoke(ctx)

    command.invoke = checked


app = typer.Typer(
    name="coalmine",
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="Audit what a model leaks: canaries, attacks, lower bounds, and the upper bounds they are judged against.",
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"coalmine {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    config: Path | None = typer.Option(
        None, "--config", help="A TOML file with a table of options for each command: long commands written once."
    ),
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Audit what a model leaks: canaries, attacks, lower bounds, and the upper bounds they are judged against."""
    if config is None or ctx.resilient_parsing:
        return
    content = read_config(config)
    unknown = [name for name in content if name not in COMMANDS]
    if unknown:
        raise InputError(f"--config {str(config)!r}: coalmine has no command {', '.join(unknown[:3])}: see --help")
    asked = ctx.invoked_subcommand
    if asked in content:
        assert isinstance(ctx.command, LazyGroup)
        command = ctx.command.get_command(ctx, asked)
        ctx.default_map = {asked: defaults_of(command, content[asked], config)}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. A user's mistake is one line on standard error and exit code 2, never a traceback.

    With --json it is an object with the key `error` on standard output as well.
    """
    given = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows no Greek gets question marks, not a traceback
            stream.reconfigure(errors="replace")
    try:
        code = app(moved_to_front(given), prog_name="coalmine", standalone_mode=False)
    except InputError as error:
        _fail(str(error), given)
    except MemoryError as error:
        _fail(f"not enough memory ({error or 'an allocation failed'}): lower the sizes asked for", given)
    except OSError as error:
        if error.errno == errno.EPIPE:
            _reader_left()
        _fail(
            f"{error.filename or 'the output'!s} cannot be used ({error.strerror}): check the path and the disk", given
        )
    except SystemExit as error:
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":  # typer's answer to a closed pipe, with exit code 1
            _reader_left()
        raise error
    except Exception as error:
        if not hasattr(error, "format_message"):  # not one of the parser's own
            raise
        _usage_error(error, given)
    else:
        if code == INTERRUPTED:
            print(f"interrupted: {_after_interruption(given)}", file=sys.stderr)
        sys.exit(code if isinstance(code, int) else 0)


INTERRUPTED = 130
LONGEST_ERROR = 1000  # characters of one line


def _after_interruption(arguments: list[str]) -> str:
    resumes = arguments[:1] in (["train"], ["lira"], ["repeat"], ["compare"]) or {"craft", "ibis", "--seed"} <= set(
        arguments
    )
    resumes = resumes or {"plan", "--measure"} <= set(arguments)
    if resumes:
        return "what was finished is on disk; the same command resumes"
    return "no file is left half written; the same command begins again"


def _fail(message: str, arguments: list[str]) -> NoReturn:
    """One line without control characters; of a long one the beginning and the end, where the remedy stands."""
    message = " ".join("".join(c if c.isprintable() else " " for c in message).split())
    if len(message) > LONGEST_ERROR:
        message = f"{message[: LONGEST_ERROR - 303]} … {message[-300:]}"
    if "--json" in arguments:
        print(json.dumps({"error": message}, ensure_ascii=False))
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def _reader_left() -> NoReturn:
    """The reader of a pipe (head, less) left early: nothing is wrong, and nothing more can be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(0)


def _usage_error(error: Any, arguments: list[str]) -> NoReturn:
    """The parser's complaint in one line, with the value that it complains about."""
    if "NoArgs" in type(error).__name__:
        error.show()
        sys.exit(2)
    command = error.ctx.command_path if getattr(error, "ctx", None) else "coalmine"
    given = [
        arguments[i + 1]
        for option in getattr(getattr(error, "param", None), "opts", [])
        for i, word in enumerate(arguments[:-1])
        if word == option
    ]
    value = f" (got {given[-1]!r})" if given else ""
    _fail(f"{error.format_message().rstrip('.')}{value}: see `{command} --help`", arguments)
