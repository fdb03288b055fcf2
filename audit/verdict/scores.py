"""Scores of canaries as any framework can write them: csv, parquet or npz with canary_id, score, view and member.

Contract: one score per canary id (and view); duplicate and missing ids are refused by name; an undefined score
(NaN, empty) is an abstention, counted and kept; infinite scores are refused unless the policy says that they stand
for the extremes; several views are averaged per canary, and a canary with an undefined view is undefined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...foundation import InputError
from ...foundation.csv_table import read_csv

COLUMNS = ("canary_id", "score", "view", "member")
INFINITE_POLICIES = ("refuse", "extreme")


@dataclass(frozen=True)
class CanaryScores:
    """One row a canary, in order of canary id. `member` is None where the file has no such column."""

    canary_id: np.ndarray
    score: np.ndarray
    member: np.ndarray | None
    views: int

    @property
    def undefined(self) -> int:
        return int(np.isnan(self.score).sum())


def load_scores(path: str | Path, infinite: str = "refuse") -> CanaryScores:
    """Read a scores file by its suffix. Errors: InputError that names file, column and row."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"scores file {str(path)!r} does not exist: check the path")
    readers = {".csv": _read_csv, ".parquet": _read_parquet, ".npz": _read_npz}
    if path.suffix.lower() not in readers:
        raise InputError(f"scores file {str(path)!r} must end in .csv, .parquet or .npz")
    what = f"scores file {str(path)!r}"
    try:
        columns = readers[path.suffix.lower()](path)
    except InputError:
        raise
    except MemoryError:
        raise
    except Exception as error:  # a damaged file may fail anywhere inside the readers
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{what} cannot be read as {path.suffix.lower()[1:]}: {reason}") from None
    return arrange_scores(columns, infinite, what)


def arrange_scores(columns: dict[str, Any], infinite: str = "refuse", what: str = "scores") -> CanaryScores:
    """Columns of one length -> one score a canary. Errors: InputError."""
    if infinite not in INFINITE_POLICIES:
        raise InputError(f"infinite {infinite!r} is not known: choose one of {', '.join(INFINITE_POLICIES)}")
    for name in ("canary_id", "score"):
        if name not in columns:
            there = [str(column) for column in columns if str(column) not in COLUMNS]
            remedy = f"; rename {there[0] if len(there) == 1 else 'the right one'} to {name}" if there else ""
            raise InputError(f"{what} has no column {name!r}: it has {', '.join(map(str, columns)) or 'none'}{remedy}")
    ids = _identifiers(np.asarray(columns["canary_id"]), what)
    score = _numbers(np.asarray(columns["score"]), ids, what)
    if score.size == 0:
        raise InputError(f"{what} has no rows")
    if ids.shape != score.shape or score.ndim != 1:
        raise InputError(f"{what}: canary_id has shape {ids.shape}, score {score.shape}; both must be one column")
    infinite_rows = np.isinf(score)
    if infinite_rows.any() and infinite == "refuse":
        raise InputError(
            f"{what} has {int(infinite_rows.sum())} infinite scores (canary_id {_some(ids[infinite_rows])}): "
            "if they stand for the most and least likely members, use --infinite extreme; if undefined, write NaN"
        )
    unique, index, rows = np.unique(ids, return_inverse=True, return_counts=True)
    views = 1
    if columns.get("view") is not None:
        view = np.unique(np.asarray(columns["view"]).astype(str), return_inverse=True)
        if view[1].shape != index.shape:
            raise InputError(f"{what}: view has {view[1].size} rows, canary_id {index.size}")
        views = view[0].size
        pair = index.astype(np.int64) * views + view[1]
        repeated = np.unique(pair, return_counts=True)
        if (repeated[1] > 1).any():
            raise InputError(
                f"{what} repeats a view of canary_id {_some(unique[repeated[0][repeated[1] > 1] // views])}"
            )
        if (rows != views).any():
            raise InputError(
                f"{what} lacks views of canary_id {_some(unique[rows != views])}: every canary needs the same "
                f"{views} views; write NaN where a score is undefined"
            )
    elif (rows > 1).any():
        raise InputError(
            f"{what} repeats canary_id {_some(unique[rows > 1])}: one score a canary, or a column 'view' to average"
        )
    with np.errstate(invalid="ignore"):
        mean = np.bincount(index, weights=score, minlength=unique.size) / views
    member = columns.get("member")
    if member is not None:
        flags = _flags(np.asarray(member), ids, what)
        total = np.bincount(index, weights=flags, minlength=unique.size)
        if not np.isin(total, (0, views)).all():
            raise InputError(
                f"{what}: member differs between the views of canary_id {_some(unique[~np.isin(total, (0, views))])}"
            )
        member = total > 0
    return CanaryScores(unique, mean, member, views)


def _read_csv(path: Path) -> dict[str, Any]:
    return _known(read_csv(path, "scores file", skip_spaces=True))


def _read_parquet(path: Path) -> dict[str, Any]:
    import pandas as pd

    frame = pd.read_parquet(path)
    if "canary_id" in frame.index.names and "canary_id" not in frame.columns:
        frame = frame.reset_index()  # pandas keeps an index in the file
    elif "canary_id" not in frame.columns and not isinstance(frame.index, pd.RangeIndex):
        raise InputError(
            f"scores file {str(path)!r} has no column 'canary_id', and an index without that name: if it holds the "
            "ids, save frame.rename_axis('canary_id').reset_index()"
        )
    return _known(frame)


def _known(frame: Any) -> dict[str, Any]:
    if frame.columns.duplicated().any():
        raise InputError(f"a column is there twice: {', '.join(map(str, frame.columns))}")
    wanted = [name for name in COLUMNS if name in frame.columns]
    if "canary_id" not in wanted or "score" not in wanted:
        wanted = list(frame.columns)
    return {name: frame[name].to_numpy() for name in wanted}


def _read_npz(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as file:
        whole = {"canary_id", "score"} <= set(file.files)  # else all names, so that the error can list them
        return {name: file[name] for name in file.files if name in COLUMNS or not whole}


def _identifiers(ids: np.ndarray, what: str) -> np.ndarray:
    if ids.dtype.kind == "f":
        bad = ~np.isfinite(ids) | (ids != np.floor(ids)) | (np.abs(ids) > 2.0**53)
        if bad.any():
            raise InputError(
                f"{what}: canary_id must be a whole number or a name, got {ids[bad][0]} in row {_row(bad)}"
            )
        return ids.astype(np.int64)
    if ids.dtype.kind in "iu":
        return ids.astype(np.int64)
    if ids.dtype.kind in "OUS":
        missing = np.array([value is None or value != value for value in ids.tolist()])
        if missing.any():
            raise InputError(f"{what}: canary_id is empty in row {_row(missing)}")
        return ids.astype(str)
    raise InputError(f"{what}: canary_id must be whole numbers or names, got {ids.dtype}")


def _numbers(score: np.ndarray, ids: np.ndarray, what: str) -> np.ndarray:
    if score.dtype.kind in "fiu":
        return score.astype(np.float64)
    if score.dtype.kind in "OUS":
        values = np.array([_number(entry) for entry in score.ravel()], dtype=object)
        bad = np.array([value is None for value in values], dtype=bool)
        if bad.any():
            raise InputError(f"{what}: score {str(score.ravel()[bad][0])!r} in row {_row(bad)} is not a number")
        return values.astype(np.float64)
    raise InputError(f"{what}: score must be numbers, got {score.dtype}")


def _number(entry: Any) -> float | None:
    """A number, NaN for an empty entry, None for what is neither."""
    if entry is None or entry != entry:
        return np.nan
    text = str(entry).strip()
    if text.lower() in ("", "nan", "na", "none", "null", "<na>"):
        return np.nan
    try:
        return float(text)
    except ValueError:
        return None


def _flags(member: np.ndarray, ids: np.ndarray, what: str) -> np.ndarray:
    if member.shape != ids.shape:
        raise InputError(f"{what}: member has {member.size} rows, canary_id {ids.size}")
    if member.dtype.kind in "OUS":
        names = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
        member = np.array([names.get(str(value).strip().lower(), np.nan) for value in member])
    member = member.astype(np.float64)
    bad = (member != 0) & (member != 1)
    if bad.any():
        raise InputError(f"{what}: member must be 0 or 1, true or false, in every row; row {_row(bad)} is not")
    return member


def _row(bad: np.ndarray) -> int:
    return int(np.flatnonzero(bad)[0]) + 1


def _some(ids: Sequence[Any] | np.ndarray, most: int = 5) -> str:
    names = [str(name) for name in list(ids[:most])]
    return ", ".join(names) + (f", … ({len(ids)} in all)" if len(ids) > most else "")
