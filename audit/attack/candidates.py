"""Whose membership is attacked, and the truth about it, which the user gives: it is never made up here.

A list of members over the rows of the data, or a source with a test part of its own: its training rows are members
then and its test rows are not. Our own hold-out of a source without one says nothing about a model that was trained
elsewhere, unless that model is a run of `coalmine train` on this very source.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...foundation import InputError
from ..training.data import Data


@dataclass(frozen=True, eq=False)
class Candidates:
    """x (n, …), y (n,) labels that count the model's outputs, member (n,) bool; both kinds are there.

    names (n,): file names or ids, empty where there are none. columns: further facts of each row, to group by.
    population_x, population_y: rows outside the training set that nobody asks about; may be empty.
    """

    x: np.ndarray
    y: np.ndarray
    member: np.ndarray
    classes: tuple[str, ...]
    data: str
    fingerprint: str
    population_x: np.ndarray
    population_y: np.ndarray
    names: tuple[str, ...] = ()
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    whole_numbers: bool = False
    value_range: tuple[float, float] | None = None
    members_file: str = ""  # where the truth was read from, for commands that are shown

    def __post_init__(self) -> None:
        n = len(self.y)
        if len(self.x) != n or self.member.shape != (n,) or self.member.dtype != bool:
            raise InputError(
                f"members must be bool ({n},), one for each row, got {self.member.dtype} {self.member.shape}"
            )
        if self.member.all() or not self.member.any():
            raise InputError(
                f"{int(self.member.sum())} of {n} rows are members of the target: members and non-members are needed"
            )
        for name, column in self.columns.items():
            if len(column) != n:
                raise InputError(f"column {name!r} has {len(column)} values for {n} rows: give one a row")

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.x.shape[1:]

    def on_both_sides(self) -> int:
        """How many rows have an exact copy of their input on the other side, among members and non-members."""
        digests = [hashlib.blake2b(np.ascontiguousarray(row).data, digest_size=16).digest() for row in self.x]
        inside = {digest for digest, m in zip(digests, self.member, strict=True) if m}
        outside = {digest for digest, m in zip(digests, self.member, strict=True) if not m}
        shared = inside & outside
        return sum(digest in shared for digest in digests)


def candidates(
    data: Data, members: np.ndarray | None = None, about: About | None = None, *, own_hold_out: bool = False
) -> Candidates:
    """members (training rows,) bool: the training rows are asked about, the test rows are the population. Left out:
    training and test rows are asked about, the training rows are members.

    own_hold_out: the target was trained on exactly these training rows, so that our hold-out is no guess.
    Errors: InputError where the truth is not given.
    """
    if members is None and not (data.test_given or own_hold_out):
        raise InputError(
            f"nothing says which rows of --data {data.name} the target was trained on: give --target-members (true or "
            "false for each row, or row numbers), or data with a test part of its own (x_test and y_test in an .npz, a "
            "column split in a table, train and test folders) whose training rows are the target's"
        )
    if members is None:
        x, y = np.concatenate([data.x, data.x_test]), np.concatenate([data.y, data.y_test])
        member = np.arange(len(y)) < len(data.y)
        outside = data.x[:0], data.y[:0]
        names = (*data.names, *data.names_test)
        fingerprint = f"{data.fingerprint}+test"
    else:
        x, y, member, names, fingerprint = data.x, data.y, members, data.names, data.fingerprint
        outside = data.x_test, data.y_test
    return Candidates(
        x,
        y,
        member,
        data.classes,
        data.name,
        fingerprint,
        *outside,
        names=names if about is None or not about.names else about.names,
        columns={} if about is None else about.columns,
        whole_numbers=data.whole_numbers,
        value_range=data.value_range,
    )


@dataclass(frozen=True, eq=False)
class About:
    """What is known of the rows beside inputs and labels, in the order of the rows."""

    names: tuple[str, ...] = ()
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)

    @staticmethod
    def load(path: Path, rows: int) -> About:
        """A csv with one line a row: a column id, name or file names them, every other column groups them."""
        import pandas as pd

        try:
            frame = pd.read_csv(path, dtype=str, keep_default_na=False)
        except Exception as error:  # each fault of a csv has an exception of its own
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(f"--about {str(path)!r} cannot be read as csv: {reason}") from None
        if len(frame) != rows:
            raise InputError(f"--about {str(path)!r} has {len(frame)} lines for {rows} rows that are asked about")
        by = next((name for name in ("id", "name", "file", "row_id") if name in frame.columns), None)
        columns = {str(name): frame[name].to_numpy(dtype=str) for name in frame.columns if name != by}
        return About(() if by is None else tuple(frame[by]), columns)


def members_of(path: Path, data: Data) -> np.ndarray:
    """The list of members in a .npy or .csv file, (training rows,) bool. Errors: InputError for any other length."""
    given = _listed(path)
    rows, test_rows = len(data.y), len(data.y_test)
    flags = given.dtype == bool or (given.dtype.kind in "iu" and given.size > 2 and np.isin(given, (0, 1)).all())
    if flags and len(given) == rows:
        return given.astype(bool)
    numbers = not flags and given.dtype.kind in "iu" and given.size and given.min() >= 0
    if numbers and given.max() < rows:
        return np.isin(np.arange(rows), given)
    if test_rows and (len(given) == rows + test_rows or (numbers and given.max() < rows + test_rows)):
        raise InputError(
            f"--target-members {str(path)!r} counts {rows + test_rows} rows, but --data {data.name} has {rows} "
            f"training rows and {test_rows} of its rows "
            "are a test part (a source without one of its own holds out one row in "
            "five of each class), so that the row numbers are not yours: save your rows in your order with "
            "numpy.savez('rows.npz', x=x, y=y, x_test=x[:0], y_test=y[:0]), whose empty test part holds nothing out, "
            "and give --data rows.npz"
        )
    raise InputError(
        f"--target-members {str(path)!r} must hold true/false for each of the {rows} training rows of --data "
        f"{data.name}, or row numbers, got {given.dtype} {given.shape}"
    )


def _listed(path: Path) -> np.ndarray:
    if path.suffix.lower() == ".csv":
        import pandas as pd

        try:
            frame = pd.read_csv(path)
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(f"--target-members {str(path)!r} cannot be read as csv: {reason}") from None
        if "member" not in frame.columns and len(frame.columns) != 1:
            raise InputError(f"--target-members {str(path)!r} has no column 'member': {', '.join(map(str, frame))}")
        return frame["member" if "member" in frame.columns else frame.columns[0]].to_numpy()
    from ...attacks.shadow_arrays import load_npy  # here: it imports scipy

    return np.asarray(load_npy(path)).reshape(-1)
