"""`coalmine --config coalmine.toml COMMAND …`: long commands written once.

One table a command, its options by their long names:

    [lira]
    target = "model.pt"
    steps-per-epoch = 12

What is given on the command line wins. An option that the command has not is an error, not silence.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ...foundation import InputError

LARGEST = 2**20  # bytes


def moved_to_front(arguments: list[str]) -> list[str]:
    """`--config FILE` wherever it stands, before the command: both places mean the same."""
    for place, word in enumerate(arguments):
        if word == "--":
            break
        if word == "--config" and place + 1 < len(arguments):
            return ["--config", arguments[place + 1], *arguments[:place], *arguments[place + 2 :]]
        if word.startswith("--config="):
            return [word, *arguments[:place], *arguments[place + 1 :]]
    return arguments


def read_config(path: Path) -> dict[str, dict[str, Any]]:
    """{command: {option: value}} of a TOML file. Errors: InputError for anything else."""
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(f"--config {str(path)!r} is larger than {LARGEST} bytes: name a file of options")
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"--config {str(path)!r} cannot be read ({error.strerror}): check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"--config {str(path)!r} is not valid TOML: {error}") from None
    for name, table in content.items():
        if not isinstance(table, dict):
            raise InputError(f"--config {str(path)!r}: {name} stands outside a table: write it below [COMMAND]")
    return content


def defaults_of(command: Any, table: dict[str, Any], path: Path) -> dict[str, Any]:
    """Values for the parameters of a command, sub-commands included. Errors: InputError for unknown options."""
    if hasattr(command, "commands"):
        return {name: defaults_of(one, table[name], path) for name, one in command.commands.items() if name in table}
    known = {opt.lstrip("-"): p for p in command.params for opt in (*p.opts, *p.secondary_opts) if opt.startswith("--")}
    found: dict[str, Any] = {}
    for name, value in table.items():
        option = known.get(name.replace("_", "-"))
        if option is None:
            raise InputError(
                f"--config {str(path)!r}: [{command.name}] has no option {name!r}: see `coalmine {command.name} --help`"
            )
        if isinstance(value, dict):
            raise InputError(f"--config {str(path)!r}: {name} must be one value, not a table")
        found[option.name] = [str(v) for v in value] if isinstance(value, list) else value
    return found
