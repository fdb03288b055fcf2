"""scores.json beside a scores file: what was fixed before the coins were opened, and of what the scores are.

One writer for all that makes scores (`coalmine score`, `lira`, and users through `save_scores`), one reader for all
that judges them. The record holds the hash of its scores file: scores that were replaced are not those it speaks of.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ... import __version__
from ...foundation import InputError, read_json, sha256_of_bytes, write_bytes, write_json
from ...foundation.fields import Fields
from ..choices import SUFFIXES

_SIGNIFICANT_DIGITS = 10  # of float64 scores: what remains is the same for every batch size and device


@dataclass(frozen=True)
class ScoreRecord:
    """score            the attack's name, chosen before the coins were opened
    canaries_sha256, checkpoint_sha256, reference_sha256, arrays_sha256   of what was scored, by what
    pixel_mean, pixel_std, classes, transform   how the model was fed
    recipe_sha256    of the data, the fraction and the recipe that shadow models were trained by
    coins_opened     whether the scores were written beside their members: no further choice is free then
    scores_sha256    of the scores file
    others           what this version does not know
    """

    score: str
    views: int | None = None
    canaries: int | None = None
    canaries_sha256: str | None = None
    canary_method: str | None = None
    checkpoint: str | None = None
    checkpoint_sha256: str | None = None
    reference_checkpoint: str | None = None
    reference_sha256: str | None = None
    arrays_sha256: str | None = None
    recipe_sha256: str | None = None
    model: str | None = None
    pixel_mean: tuple[float, ...] | None = None
    pixel_std: tuple[float, ...] | None = None
    classes: tuple[str, ...] | None = None
    transform: str | None = None
    shadows: int | None = None
    seed: int | None = None
    coins_opened: bool | None = None
    details: Mapping[str, Any] | None = None
    counts: Mapping[str, Any] | None = None
    versions: Mapping[str, Any] | None = None
    created: str | None = None
    scores_sha256: str | None = None
    others: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """What is known; absent means unknown."""
        record: dict[str, Any] = {"schema_version": 2}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name == "others" or value is None:
                continue
            is_tuple, is_mapping = isinstance(value, tuple), isinstance(value, Mapping)
            record[one.name] = list(value) if is_tuple else dict(value) if is_mapping else value
        return record | dict(self.others)

    @classmethod
    def from_json(cls, content: Any, source: str = "score record") -> ScoreRecord:
        """Errors: InputError that names the source, the field and the value."""
        if not isinstance(content, Mapping) or not isinstance(content.get("score"), str):
            raise InputError(f"{source} is no score record: move it, or score again")
        top = Fields(content, source, remedy="score again")
        checked: dict[str, Any] = {name: top.optional_whole(name) for name in _WHOLE}
        checked |= {name: top.sha256(name) for name in _HASHES}
        checked |= {name: top.optional_text(name) for name in _TEXTS}
        checked |= {name: top.mapping(name) or None for name in _MAPPINGS}
        checked |= {name: None if content.get(name) is None else top.numbers(name) for name in _NUMBERS}
        checked["classes"] = None if content.get("classes") is None else top.texts("classes")
        return cls(
            score=top.text("score"),
            coins_opened=top.boolean("coins_opened"),
            **checked,
            others={name: value for name, value in content.items() if name not in _KNOWN},
        )

    def differences(self, other: ScoreRecord, names: tuple[str, ...]) -> list[str]:
        """The names among `names` in which the two differ."""
        return [name for name in names if getattr(self, name) != getattr(other, name)]


_WHOLE = ("views", "canaries", "shadows", "seed")
_NUMBERS = ("pixel_mean", "pixel_std")
_MAPPINGS = ("details", "counts", "versions")
_HASHES = (
    "canaries_sha256",
    "checkpoint_sha256",
    "reference_sha256",
    "arrays_sha256",
    "recipe_sha256",
    "scores_sha256",
)
_TEXTS = ("canary_method", "checkpoint", "reference_checkpoint", "model", "transform", "created")
_KNOWN = {"schema_version", *(f.name for f in fields(ScoreRecord) if f.name != "others")}


def side_file(scores: str | Path) -> Path:
    """scores.csv -> scores.json"""
    return Path(scores).with_suffix(".json")


def load_score_record(scores: str | Path) -> ScoreRecord | None:
    """The record beside a scores file; None where there is none. Errors: InputError for a file that is no record."""
    beside = side_file(scores)
    if not beside.is_file():
        return None
    return ScoreRecord.from_json(read_json(beside, "score record"), f"{str(beside)!r} beside the scores")


def save_scores(path: str | Path, scores: np.ndarray, record: ScoreRecord, member: np.ndarray | None = None) -> None:
    """Write canary_id 0 … m-1, score and, where known, member as .csv, .parquet or .npz, and the record beside it.

    scores (m,): NaN is an abstention and stays; member (m,) bool.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"output {str(path)!r} must end in {', '.join(SUFFIXES)}")
    columns = {
        "canary_id": np.arange(len(scores)),
        "score": np.array([float(f"{value:.{_SIGNIFICANT_DIGITS}g}") for value in scores]),
    }
    if member is not None:
        columns["member"] = member.astype(np.int64)
    content = _packed(columns, path.suffix.lower())
    written = replace(
        record,
        versions={"coalmine": __version__} | dict(record.versions or {}),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        scores_sha256=sha256_of_bytes(content),
    )
    write_json(side_file(path), written.to_json())
    write_bytes(path, content)


def _packed(columns: dict[str, np.ndarray], suffix: str) -> bytes:
    buffer = io.BytesIO()
    if suffix == ".npz":
        np.savez(buffer, allow_pickle=False, **columns)
        return buffer.getvalue()
    import pandas as pd

    frame = pd.DataFrame(columns)
    if suffix == ".csv":
        frame.to_csv(buffer, index=False, na_rep="nan")
    else:
        frame.to_parquet(buffer, index=False)
    return buffer.getvalue()
