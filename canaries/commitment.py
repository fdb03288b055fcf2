"""commitment.json: public, tells nothing of the coins, binds to every bit of their file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..foundation import InputError, read_json
from ..foundation.fields import Fields

NOTE = "Proves that membership preceded training only if this file was published or time-stamped before training."


@dataclass(frozen=True)
class Commitment:
    """coins_sha256: of the bytes of coins.json. It proves that membership preceded training only if it was published or
    time-stamped before."""

    coins_sha256: str
    canaries_sha256: str | None = None
    canaries: int | None = None
    created: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "note": NOTE}

    @classmethod
    def from_json(cls, content: Any, source: str = "commitment file") -> Commitment:
        """Errors: InputError that names the source and the field."""
        if not isinstance(content, Mapping) or content.get("coins_sha256") is None:
            raise InputError(f"{source} holds no coins_sha256 of 64 hex digits: give what `coalmine coins` wrote")
        top = Fields(content, source, remedy="give what `coalmine coins` wrote")
        digest = top.sha256("coins_sha256")
        assert digest is not None
        return cls(
            digest,
            top.sha256("canaries_sha256"),
            top.optional_whole("canaries"),
            top.optional_text("created"),
        )

    @classmethod
    def load(cls, path: str | Path) -> Commitment:
        return cls.from_json(read_json(path, "commitment file"), f"commitment file {str(path)!r}")
