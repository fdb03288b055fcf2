"""Checked access to the fields of a JSON object that someone else wrote.

Every refusal is an InputError that names the file, the field's path and the value. Text comes back cleaned: no
control characters and no unpaired surrogates, which neither HTML nor UTF-8 can hold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from . import InputError

LONGEST_TEXT = 4000
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Fields:
    """An object of the file, where it came from, and checked access to its fields."""

    content: Mapping[str, Any]
    source: str
    path: str = ""
    remedy: str = "write it with coalmine audit"

    def error(self, name: str, needed: str, value: Any, remedy: str = "") -> InputError:
        remedy = remedy or self.remedy
        return InputError(f"{self.source}: {self.path}{name} must be {needed}, got {shown(value)}: {remedy}")

    def fields(self, name: str, optional: bool = False) -> Fields | None:
        value = self.content.get(name)
        if value is None and optional:
            return None
        if not isinstance(value, Mapping):
            raise self.error(name, "an object", value)
        return Fields(value, self.source, f"{self.path}{name}.", self.remedy)

    def mapping(self, name: str) -> Mapping[str, Any]:
        found = self.fields(name, optional=True)
        return {} if found is None else found.content

    def list_of_fields(self, name: str, optional: bool = False) -> list[Fields]:
        value = self.content.get(name)
        if value is None and optional:
            return []
        if not isinstance(value, list | tuple):
            raise self.error(name, "a list of objects", value)
        for place, one in enumerate(value):
            if not isinstance(one, Mapping):
                raise self.error(f"{name}[{place}]", "an object", one)
        return [
            Fields(one, self.source, f"{self.path}{name}[{place}].", self.remedy) for place, one in enumerate(value)
        ]

    def text(self, name: str, default: str | None = None) -> str:
        value = self.content.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.error(name, "text", value)
        return clean(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, empty where absent."""
        value = self.content.get(name) or []
        if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
            raise self.error(name, "a list of texts", value)
        return tuple(clean(one) for one in value)

    def optional_text(self, name: str) -> str | None:
        return None if self.content.get(name) is None else self.text(name)

    def sha256(self, name: str) -> str | None:
        """64 lower-case hex digits, or None where absent or null."""
        value = self.content.get(name)
        if value is not None and not (isinstance(value, str) and _SHA256.fullmatch(value)):
            raise self.error(name, "64 lower-case hex digits or null", value)
        return value

    def boolean(self, name: str) -> bool | None:
        value = self.content.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.error(name, "true or false", value)
        return value

    def optional_whole(self, name: str) -> int | None:
        return None if self.content.get(name) is None else self.whole(name)

    def one_of(self, name: str, choices: Sequence[str]) -> str:
        value = self.content.get(name)
        if not isinstance(value, str) or value not in choices:
            raise self.error(name, f"one of {', '.join(choices)}", value)
        return value

    def whole(self, name: str) -> int:
        value = self.content.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
            raise self.error(name, "a whole number of at least 0", value)
        return value

    def number(
        self, name: str, least: float = -math.inf, most: float = math.inf, optional: bool = False
    ) -> float | None:
        value = self.content.get(name)
        if value is None and optional:
            return None
        return self._checked(name, value, least, most)

    def interval(self, name: str) -> tuple[float | None, float | None] | None:
        """Two ends, either of which may be null: a one-sided bound."""
        value = self.content.get(name)
        if value is None:
            return None
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise self.error(name, "a pair [low, high]", value)
        low, high = (None if end is None else self._checked(name, end) for end in value)
        if low is not None and high is not None and low > high:
            raise self.error(name, "a pair with low at most high", value)
        return None if low is None and high is None else (low, high)

    def numbers(
        self,
        name: str,
        least: float = -math.inf,
        most: float = math.inf,
        length: int | None = None,
        rising: bool = False,
    ) -> tuple[float, ...]:
        value = self.content.get(name)
        if not isinstance(value, list | tuple):
            raise self.error(name, "a list of numbers", value)
        if length is not None and len(value) != length:
            raise self.error(name, f"a list of {length} numbers", f"{len(value)} of them")
        checked = tuple(self._checked(name, one, least, most) for one in value)
        if rising and any(after < before for before, after in pairwise(checked)):
            raise self.error(name, "a list in rising order", value)
        return checked

    def _checked(self, name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> float:
        try:
            number = math.nan if isinstance(value, bool | str) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not (math.isfinite(number) and least <= number <= most):
            within = "" if (least, most) == (-math.inf, math.inf) else f" from {least:g} to {most:g}"
            raise self.error(name, f"a finite number{within}", value)
        return number


def clean(text: str) -> str:
    """Text that HTML, SVG and UTF-8 can all hold: one line, no control characters, at most LONGEST_TEXT long."""
    kept = "".join(c if c.isprintable() else " " for c in text[: 2 * LONGEST_TEXT])
    kept = " ".join(kept.split())
    return kept if len(kept) <= LONGEST_TEXT else kept[: LONGEST_TEXT - 1] + "…"


def shown(value: Any) -> str:
    """The value in an error message, short whatever it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits; a nest of thousands of lists
        text = f"a {type(value).__name__}"
    text = clean(text)
    return text if len(text) <= 60 else text[:57] + "…"
