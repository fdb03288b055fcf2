"""A run in phases on the command line: --phase random_allocation:steps_per_epoch=100,epochs=5,noise_multiplier=1.2"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ...foundation import InputError

Phases = Annotated[
    list[str] | None,
    typer.Option(
        "--phase",
        help="One phase of a run, NAME:key=value,… or a JSON object; repeat it in order. Instead of --mechanism.",
    ),
]


def phase_record(text: str) -> dict[str, Any]:
    """The mechanism record that one --phase names. Errors: InputError with the text and the remedy."""
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except ValueError as error:
            raise InputError(f"--phase {text!r} is no JSON object: {error}") from None
        return found
    name, _, rest = text.partition(":")
    record: dict[str, Any] = {"name": name.strip()}
    for part in filter(None, rest.split(",")):
        key, sign, value = part.partition("=")
        try:
            record[key.strip()] = json.loads(value) if sign else None
        except ValueError:
            record[key.strip()] = value
        if not sign:
            raise InputError(
                f"--phase {text!r}: {part!r} is no key=value; an example: "
                "random_allocation:steps_per_epoch=100,epochs=5,noise_multiplier=1.2"
            )
    return record


def mechanism_of_phases(phases: list[str]) -> Any:
    """One mechanism, or the composition of several. Errors: InputError."""
    from ..bounds import Composition, mechanism_from_record

    built = []
    for number, text in enumerate(phases):
        try:
            built.append(mechanism_from_record(phase_record(text)))
        except InputError as error:
            raise InputError(f"--phase number {number + 1}: {error}") from None
    return built[0] if len(built) == 1 else Composition(built)
