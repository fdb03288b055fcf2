"""What a row of a table may look like: columns that stay, columns with few values, groups of one-hot columns.

A canary that no encoder could have written is found by a look at the table. So crafted rows of tables are made legal:
fixed columns keep the value of the row or draw they came with, a column of few distinct values takes one of them, a
one-hot group has one 1. Images and rows with a stated value range are left as they are, but for fixed columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..foundation import InputError

FEW = 16  # distinct values of a column that count as all it can have


@dataclass(frozen=True, eq=False)
class Columns:
    """fixed (features…) bool; levels: sorted values by column; groups: columns of which one is 1 and the others 0."""

    fixed: np.ndarray
    levels: dict[int, np.ndarray]
    groups: tuple[np.ndarray, ...]

    def free(self) -> np.ndarray:
        """(features…) float32, 0 where a column is fixed: what a step is multiplied by."""
        return (~self.fixed).astype(np.float32)

    def legal(self, x: np.ndarray, preference: np.ndarray | None = None) -> np.ndarray:
        """x (m, …) with every value a legal one; of a group the column with the largest `preference` (m, …), by default
        the largest value. Fixed columns are left as they are."""
        if not self.levels and not self.groups:
            return x
        out, wish = x.copy(), x if preference is None else preference
        for column, values in self.levels.items():
            nearest = np.abs(x[:, column, None] - values).argmin(axis=1)
            out[:, column] = values[nearest]
        for group in self.groups:
            out[:, group] = np.eye(len(group), dtype=x.dtype)[wish[:, group].argmax(axis=1)]
        return out


def columns_of(x: np.ndarray, table: bool, fixed: Sequence[int] = ()) -> Columns:
    """Of data rows x (n, features…); `table`: whether to look for discrete and one-hot columns. fixed: numbers of
    columns, of images those of the flattened row. Errors: InputError for a number that no column has."""
    shape = x.shape[1:]
    width = int(np.prod(shape))
    bad = [c for c in fixed if isinstance(c, bool) or not isinstance(c, int | np.integer) or not 0 <= c < width]
    if bad:
        raise InputError(f"fixed column {bad[0]!r} does not exist: columns are 0 to {width - 1}")
    if len(set(fixed)) == width:
        raise InputError(f"all {width} columns are fixed: nothing is left that a canary could differ in")
    mask = np.zeros(width, bool)
    mask[list(fixed)] = True
    if not table or x.ndim != 2:
        return Columns(mask.reshape(shape), {}, ())
    groups = _one_hot_groups(x, mask)
    grouped = {int(c) for group in groups for c in group}
    levels = {}
    for column in range(width):
        values = np.unique(x[:, column])
        if not mask[column] and column not in grouped and len(values) <= FEW:
            levels[column] = values
    return Columns(mask, levels, groups)


def _one_hot_groups(x: np.ndarray, fixed: np.ndarray) -> tuple[np.ndarray, ...]:
    """Runs of neighbouring 0/1 columns of which exactly one is 1 in every row, the shortest from the left."""
    binary = np.isin(x, (0.0, 1.0)).all(axis=0) & ~fixed
    groups, first = [], 0
    while first < x.shape[1]:
        total, last = np.zeros(len(x)), first
        while last < x.shape[1] and binary[last] and (total + x[:, last]).max() <= 1:
            total = total + x[:, last]
            last += 1
            if total.min() == 1:
                break
        if last - first >= 2 and total.min() == 1:
            groups.append(np.arange(first, last))
            first = last
        else:
            first += 1
    return tuple(groups)
