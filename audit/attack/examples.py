"""Who is at risk: every row with its score and the false-positive rate at that score, highest first; and by groups.

What the order means depends on the attack. With shadow models each row is compared with what models give it that were
and were not trained on it: a high rank says that this model gives the row away. Without them a score is the model's
confidence alone, and easy rows stand first whether they were trained on or not.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...attacks import AttackScores
from ..estimators.roc import auc, auc_interval
from .result import Example, Group, Stability

TOP = 50  # kept in the result; all rows are in examples.csv
PICTURES = 20
MOST_VALUES = 50  # of a column that groups


@dataclass(frozen=True, eq=False)
class Table:
    """Columns over all rows (n,), in the order of the data. fpr: share of non-members that score as high or higher."""

    names: tuple[str, ...]
    labels: tuple[str, ...]
    member: np.ndarray
    score: np.ndarray
    false_positive_rate: np.ndarray
    status: np.ndarray
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def order(self) -> np.ndarray:
        """Row numbers, highest score first, rows without a score last; ties in the order of the data."""
        return np.argsort(-np.where(np.isnan(self.score), -np.inf, self.score), kind="stable")

    def csv(self) -> bytes:
        import pandas as pd

        frame = pd.DataFrame(
            {
                "row": np.arange(len(self.score)),
                "name": self.names or "",
                "label": self.labels,
                "member": self.member.astype(int),
                "score": self.score,
                "false_positive_rate": self.false_positive_rate,
                "status": self.status,
                **{name: column for name, column in self.columns.items() if name not in _OURS},
            }
        )
        text = frame.iloc[self.order].to_csv(index=False, float_format="%.10g", na_rep="nan")
        return text.encode("utf-8")


_OURS = ("row", "name", "label", "member", "score", "false_positive_rate", "status")


@dataclass(frozen=True, eq=False)
class Shown:
    """What is shown of rows beside their scores; images: (n, channels, height, width) in [0, 1], for pictures."""

    names: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    images: np.ndarray | None = None


def example_table(scores: AttackScores, member: np.ndarray, shown: Shown) -> Table:
    outside = np.sort(scores.scores[~member])  # NaN stand last
    defined = outside[~np.isnan(outside)]
    at_least = len(defined) - np.searchsorted(defined, scores.scores, side="left")
    rate = np.where(scores.defined, at_least / len(outside), np.nan)
    n = len(scores)
    return Table(
        shown.names, shown.labels or ("",) * n, member, scores.scores, rate, scores.status, dict(shown.columns)
    )


def most_at_risk(table: Table, shown: Shown, top: int = TOP) -> tuple[Example, ...]:
    """The members with the highest scores."""
    rows = [int(row) for row in table.order if table.member[row]][:top]
    return tuple(
        Example(
            row=row,
            name=table.names[row] if table.names else "",
            label=table.labels[row],
            member=True,
            score=_number(table.score[row]),
            false_positive_rate=_number(table.false_positive_rate[row]),
            status=str(table.status[row]),
            picture=None if shown.images is None or place >= PICTURES else picture(shown.images[row]),
        )
        for place, row in enumerate(rows)
    )


def stability(
    first: np.ndarray, second: np.ndarray, member: np.ndarray, shadows: tuple[int, int], top: int = 20
) -> Stability | None:
    """Of the scores (n,) by one half of the shadows and by the other; None where fewer than three members have both."""
    from scipy.stats import spearmanr

    both = member & ~np.isnan(first) & ~np.isnan(second)
    if both.sum() < 3 or len(np.unique(first[both])) < 2 or len(np.unique(second[both])) < 2:
        return None
    a, b = first[both], second[both]
    top = min(top, int(both.sum()))
    highest = [set(np.argsort(-v, kind="stable")[:top].tolist()) for v in (a, b)]
    return Stability(shadows, float(np.asarray(spearmanr(a, b))[0]), top, len(highest[0] & highest[1]))


def groups(table: Table, threshold: float | None, confidence: float = 0.95) -> tuple[Group, ...]:
    """By class and by every column of at most MOST_VALUES values; threshold: of 1 % FPR over all rows."""
    found = []
    for column, values in {"class": np.array(table.labels), **table.columns}.items():
        distinct = np.unique(values)
        if not 1 < len(distinct) <= MOST_VALUES:
            continue
        for value in distinct:
            found.append(_group(column, str(value), values == value, table, threshold, confidence))
    return tuple(found)


def _group(
    column: str, value: str, inside: np.ndarray, table: Table, threshold: float | None, confidence: float
) -> Group:
    score, member = table.score[inside], table.member[inside]
    n1, n0 = int(member.sum()), int((~member).sum())
    area = auc(score, member) if n1 and n0 else None
    called = None if threshold is None else score >= threshold
    return Group(
        column,
        value,
        n1,
        n0,
        area,
        None if area is None else auc_interval(area, n1, n0, confidence),
        None if called is None else int((called & member).sum()),
        None if called is None else int((called & ~member).sum()),
    )


def picture(image: np.ndarray, largest: int = 64) -> str:
    """(channels, height, width) in [0, 1] -> a PNG as a data URI, at most `largest` pixels wide and high."""
    from PIL import Image

    pixels = (np.clip(image, 0, 1) * 255).round().astype(np.uint8)
    pixels = pixels[0] if len(pixels) < 3 else np.moveaxis(pixels[:3], 0, -1)
    drawn = Image.fromarray(pixels)
    drawn.thumbnail((largest, largest))
    buffer = io.BytesIO()
    drawn.save(buffer, format="png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
