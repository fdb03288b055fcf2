"""How many guesses: a rule by name, or a number fixed in advance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ...foundation import InputError

if TYPE_CHECKING:
    from ..estimators.guess_rules import GuessRule as Rule

GuessRule = Annotated[
    str | None,
    typer.Option("--guess-rule", help="grid (default), fixed, all, sign, split, calibrated; before coins open."),
]
Guesses = Annotated[
    str | None,
    typer.Option("--guesses", help='A number fixed in advance: "100" (half each way) or "60,40" (member, non-member).'),
]


def guess_rule_from_options(name: str | None, guesses: str | None) -> Rule:
    """The grid, unless a rule is named; `--guesses 100` or `60,40` alone is the rule fixed. Errors: InputError."""
    from ..estimators.guess_rules import guess_rule

    if name == "fixed" and guesses is None:
        raise InputError("--guess-rule fixed needs the number of guesses: add --guesses 100, or --guesses 60,40")
    if guesses is None:
        return guess_rule(name or "grid")
    parts = guesses.split(",")
    if not 1 <= len(parts) <= 2 or not all(part.strip().isdecimal() for part in parts):
        raise InputError(f'--guesses {guesses!r} must be one whole number, or two as in "60,40"')
    numbers = [int(part) for part in parts]
    highest, lowest = numbers if len(numbers) == 2 else ((numbers[0] + 1) // 2, numbers[0] // 2)
    return guess_rule(name or "fixed", highest, lowest)
