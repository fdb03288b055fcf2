"""A canary set: m examples, frozen before any coin is drawn, identified by the hash of its tensors."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..foundation import InputError, write_bytes
from ..foundation.tensor_file import content_sha256, metadata_json, pack, unpack

TENSORS = ("x", "y", "source_index")


@dataclass(frozen=True, eq=False)
class CanarySet:
    """m canaries of kind "example": inputs that stand in the training data like any other record.

    x             (m, …) float32, finite, inside value_range where one is stated
    y             (m,) int64, at least 0, below `classes` where that is stated
    source_index  (m,) int64: the training row a canary was made from, −1 where there is none. Source rows leave the
                  training data of every audited run, whether the canary is a member or not
    method, parameters      how the set was made; parameters is JSON
    data_fingerprint        of the data set that source_index points into, "" where none
    source_rows             how many rows that data set has; None in files that do not say
    source_sha256           of the inputs of the source rows as they stand there (`sources_sha256`), "" where unknown
    value_range             (lowest, highest) valid input value, or None

    Row i of the set is the canary with canary_id i, everywhere. The arrays are read-only.
    Errors: InputError for shapes that do not fit, NaN or infinite inputs, labels or inputs out of range, m = 0.
    """

    x: np.ndarray
    y: np.ndarray
    source_index: np.ndarray
    method: str
    parameters: dict[str, Any] = field(default_factory=dict)
    data_fingerprint: str = ""
    value_range: tuple[float, float] | None = None
    classes: int | None = None
    source_rows: int | None = None
    source_sha256: str = ""

    def __post_init__(self) -> None:
        x, y, source_index = np.asarray(self.x), np.asarray(self.y), np.asarray(self.source_index)
        if x.ndim < 2 or len(x) == 0:
            raise InputError(f"canaries x has shape {x.shape}: it must be (m, features…) with m of at least 1")
        if 0 in x.shape:
            raise InputError(f"canaries x has shape {x.shape}: a canary without values cannot be trained on")
        if x.dtype.kind not in "fiu":
            raise InputError(f"canaries x has type {x.dtype}: numbers are needed")
        for name, array in (("y", y), ("source_index", source_index)):
            if array.shape != (len(x),):
                raise InputError(f"canaries {name} has shape {array.shape}, x has {len(x)} rows: give one per row")
            if array.dtype.kind not in "iu":
                raise InputError(f"canaries {name} has type {array.dtype}: whole numbers are needed")
        x, y, source_index = x.astype(np.float32), y.astype(np.int64), source_index.astype(np.int64)
        _check_values(x, y, source_index, self.classes)
        _check_sources(source_index, self.source_rows, self.source_sha256)
        object.__setattr__(self, "value_range", _checked_range(self.value_range, x))
        for name, array in (("x", x), ("y", y), ("source_index", source_index)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        try:
            json.dumps(self.parameters, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError(f"canaries parameters must be JSON without NaN: {error}") from None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def sha256(self) -> str:
        """Hash of the tensors: what coins and run records refer to."""
        return content_sha256(self._tensors())

    def sources(self) -> np.ndarray:
        """Sorted distinct training rows that the canaries came from."""
        return np.unique(self.source_index[self.source_index >= 0])

    def save(self, path: str | Path) -> None:
        """Write a safetensors file; the same set gives the same bytes."""
        write_bytes(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        from .. import __version__

        metadata = {
            "kind": "example",
            "method": self.method,
            "parameters": json.dumps(self.parameters, allow_nan=False),
            "data_fingerprint": self.data_fingerprint,
            "value_range": json.dumps(self.value_range),
            "classes": json.dumps(self.classes),
            "source_rows": json.dumps(self.source_rows),
            "source_sha256": self.source_sha256,
            "coalmine_version": __version__,
            "content_sha256": self.sha256,
        }
        return pack(self._tensors(), metadata)

    @classmethod
    def load(cls, path: str | Path) -> CanarySet:
        """Read a set and check all of it. Errors: InputError that names the file and what is wrong."""
        tensors, metadata = unpack(path, "canary file")
        what = f"canary file {str(path)!r}"
        kind = metadata.get("kind")
        if kind != "example":
            raise InputError(f"{what} has kind {kind!r}: a set of kind 'example' is needed here")
        if set(tensors) != set(TENSORS):
            raise InputError(f"{what} holds the tensors {sorted(tensors)}: {sorted(TENSORS)} are needed")
        for name, dtype in (("x", np.float32), ("y", np.int64), ("source_index", np.int64)):
            if tensors[name].dtype != dtype:
                raise InputError(f"{what}: {name} has type {tensors[name].dtype}, {np.dtype(dtype)} is needed")
        parameters = metadata_json(metadata, "parameters", what)
        if not isinstance(parameters, dict):
            raise InputError(f"{what}: parameters must be a JSON object, got {type(parameters).__name__}")
        classes = metadata_json(metadata, "classes", what) if "classes" in metadata else None
        try:
            canaries = cls(
                **{name: tensors[name] for name in TENSORS},
                method=metadata.get("method", ""),
                parameters=parameters,
                data_fingerprint=metadata.get("data_fingerprint", ""),
                value_range=metadata_json(metadata, "value_range", what),
                classes=classes,
                source_rows=metadata_json(metadata, "source_rows", what) if "source_rows" in metadata else None,
                source_sha256=metadata.get("source_sha256", ""),
            )
        except InputError as error:
            raise InputError(f"{what}: {error}") from None
        if metadata.get("content_sha256") != canaries.sha256:
            raise InputError(f"{what}: the tensors do not match the stored hash: the file was changed or damaged")
        return canaries

    def _tensors(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in TENSORS}


def _check_values(x: np.ndarray, y: np.ndarray, source_index: np.ndarray, classes: Any) -> None:
    if not np.isfinite(x).all():
        row = int(np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(axis=1))[0])
        raise InputError(f"canaries x holds NaN or infinite values, first in row {row}: canaries must be finite")
    if classes is not None and (isinstance(classes, bool) or not isinstance(classes, int) or classes < 1):
        raise InputError(f"canaries classes must be a whole number of at least 1, got {classes!r}")
    if y.min() < 0 or (classes is not None and y.max() >= classes):
        bad = int(y.min() if y.min() < 0 else y.max())
        allowed = f"0…{classes - 1}" if classes is not None else "at least 0"
        raise InputError(f"canaries y holds the label {bad}: labels must be {allowed}")
    if source_index.min() < -1:
        raise InputError(f"canaries source_index holds {int(source_index.min())}: use a row number, or −1 for none")


def _check_sources(source_index: np.ndarray, source_rows: Any, source_sha256: Any) -> None:
    if source_rows is not None and (isinstance(source_rows, bool) or not isinstance(source_rows, int)):
        raise InputError(f"canaries source_rows must be a whole number, got {source_rows!r}")
    if source_rows is not None and source_index.max() >= source_rows:
        raise InputError(
            f"canaries come from row {int(source_index.max())} of data with {source_rows} rows: wrong data"
        )
    if not isinstance(source_sha256, str) or not re.fullmatch(r"[0-9a-f]{64}|", source_sha256):
        raise InputError(f"canaries source_sha256 must be 64 lower-case hex digits, got {source_sha256!r}")


def sources_sha256(rows: Iterable[Any]) -> str:
    """Hash of the inputs of the source rows as float32, in order of their row numbers: what tells two data sets apart
    that have equally many rows."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(np.ascontiguousarray(row, dtype="<f4").tobytes())
    return digest.hexdigest()


def _checked_range(value_range: Any, x: np.ndarray) -> tuple[float, float] | None:
    if value_range is None:
        return None
    try:
        low, high = (float(value) for value in value_range)
    except (TypeError, ValueError):
        raise InputError(f"value_range must be (lowest, highest), got {value_range!r}") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError(f"value_range must be finite with lowest below highest, got ({low}, {high})")
    if x.min() < np.float32(low) or x.max() > np.float32(high):
        raise InputError(
            f"canaries x spans [{x.min():g}, {x.max():g}], outside the stated value range [{low:g}, {high:g}]: "
            "clip the inputs or state the right range"
        )
    return low, high
