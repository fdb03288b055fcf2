"""The pictures' numbers: the ROC with its operating points and its band, and the histogram of scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...foundation.fields import Fields
from ..estimators.roc import TprAtFpr, auc_interval, positive_predictive_value, roc_curve, tpr_at_fpr
from ..estimators.roc_band import roc_band
from .estimate import CLASSES, Ends

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)
PRIORS = (0.5, 0.1, 0.01)
MOST_POINTS = 2000
BINS = 40
BAND_NOTE = "simultaneous: the true curve lies in the band everywhere at once, if scores are independent"


@dataclass(frozen=True)
class OperatingPoint:
    """The true-positive rate at one fixed false-positive rate, or the reason why it is refused.

    counts are (tp, fp, fn, tn); predictive_values are (prior, how sure a "member" is if that share are members).
    """

    false_positive_rate: float
    true_positive_rate: float | None
    interval: Ends | None
    threshold: float | None
    counts: tuple[int, int, int, int] | None
    refused: str | None
    predictive_values: tuple[tuple[float, float | None], ...] = ()

    def to_json(self) -> dict[str, Any]:
        counts = self.counts or (None, None, None, None)
        return {
            "false_positive_rate": self.false_positive_rate,
            "threshold": self.threshold,
            "true_positive_rate": self.true_positive_rate,
            "interval": None if self.interval is None else list(self.interval),
            **dict(zip(("tp", "fp", "fn", "tn"), counts, strict=True)),
            "refused": self.refused,
            "positive_predictive_value": [{"prior": p, "value": v} for p, v in self.predictive_values] or None,
        }

    @classmethod
    def from_json(cls, fields: Fields) -> OperatingPoint:
        names = ("tp", "fp", "fn", "tn")
        counted = all(fields.content.get(name) is not None for name in names)
        rate = fields.number("false_positive_rate", 0, 1)
        assert rate is not None
        values = fields.list_of_fields("positive_predictive_value", optional=True)
        return cls(
            false_positive_rate=rate,
            true_positive_rate=fields.number("true_positive_rate", 0, 1, optional=True),
            interval=fields.interval("interval"),
            threshold=fields.number("threshold", optional=True),
            counts=tuple(fields.whole(name) for name in names) if counted else None,  # type: ignore[arg-type]
            refused=fields.text("refused", default="") or None,
            predictive_values=tuple(
                (one.number("prior", 0, 1) or 0.0, one.number("value", 0, 1, optional=True)) for one in values
            ),
        )


@dataclass(frozen=True)
class Band:
    false_positive_rate: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    confidence: float | None
    validity: str

    def to_json(self) -> dict[str, Any]:
        return {
            "false_positive_rate": list(self.false_positive_rate),
            "lower": list(self.lower),
            "upper": list(self.upper),
            "confidence": self.confidence,
            "class": self.validity,
            "note": BAND_NOTE,
        }

    @classmethod
    def from_json(cls, fields: Fields, false_positive_rate: tuple[float, ...]) -> Band:
        """`false_positive_rate`: of the curve, where the band of an older file has none of its own."""
        own = fields.numbers("false_positive_rate", 0, 1) if "false_positive_rate" in fields.content else ()
        rates = own or false_positive_rate
        return cls(
            false_positive_rate=rates,
            lower=fields.numbers("lower", 0, 1, length=len(rates)),
            upper=fields.numbers("upper", 0, 1, length=len(rates)),
            confidence=fields.number("confidence", 0, 1, optional=True),
            validity=_validity(fields),
        )


@dataclass(frozen=True)
class Roc:
    """At most 2,000 corners of the curve, with what is read off it."""

    false_positive_rate: tuple[float, ...]
    true_positive_rate: tuple[float, ...]
    auc: float | None
    auc_interval: Ends | None
    validity: str
    confidence: float | None
    operating_points: tuple[OperatingPoint, ...]
    band: Band | None

    def to_json(self) -> dict[str, Any]:
        return {
            "false_positive_rate": list(self.false_positive_rate),
            "true_positive_rate": list(self.true_positive_rate),
            "auc": self.auc,
            "auc_interval": None if self.auc_interval is None else list(self.auc_interval),
            "class": self.validity,
            "confidence": self.confidence,
            "tpr_at_fpr": [point.to_json() for point in self.operating_points],
            "band": None if self.band is None else self.band.to_json(),
        }

    @classmethod
    def from_json(cls, fields: Fields) -> Roc:
        false_positive_rate = fields.numbers("false_positive_rate", 0, 1, rising=True)
        rates = fields.numbers("true_positive_rate", 0, 1, length=len(false_positive_rate), rising=True)
        band = fields.fields("band", optional=True)
        points = fields.list_of_fields("tpr_at_fpr", optional=True)
        return cls(
            false_positive_rate=false_positive_rate,
            true_positive_rate=rates,
            auc=fields.number("auc", 0, 1, optional=True),
            auc_interval=fields.interval("auc_interval"),
            validity=_validity(fields),
            confidence=fields.number("confidence", 0, 1, optional=True),
            operating_points=tuple(OperatingPoint.from_json(one) for one in points),
            band=None if band is None else Band.from_json(band, false_positive_rate),
        )


@dataclass(frozen=True)
class Histogram:
    """Counts of finite scores in equal bins, members and non-members apart."""

    edges: tuple[float, ...]
    members: tuple[float, ...]
    non_members: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        return {"edges": list(self.edges), "members": list(self.members), "non_members": list(self.non_members)}

    @classmethod
    def from_json(cls, fields: Fields) -> Histogram | None:
        edges = fields.numbers("edges", rising=True)
        if len(edges) < 2:
            return None  # no defined score, so nothing to count
        bins = len(edges) - 1
        return cls(edges, fields.numbers("members", 0, length=bins), fields.numbers("non_members", 0, length=bins))


def measured_roc(scores: np.ndarray, members: np.ndarray, confidence: float, validity: str) -> Roc:
    """Corners kept, steps between them thinned."""
    curve = roc_curve(scores, members)
    keep = _thinned(curve.false_positive_rate.size)
    band = roc_band(scores, members, confidence)
    return Roc(
        false_positive_rate=tuple(curve.false_positive_rate[keep].tolist()),
        true_positive_rate=tuple(curve.true_positive_rate[keep].tolist()),
        auc=curve.auc,
        auc_interval=auc_interval(curve.auc, curve.members, curve.non_members, confidence),
        validity=validity,
        confidence=confidence,
        operating_points=tuple(
            _operating_point(tpr_at_fpr(scores, members, rate, confidence)) for rate in FALSE_POSITIVE_RATES
        ),
        band=Band(
            tuple(band.false_positive_rate.tolist()),
            tuple(band.lower.tolist()),
            tuple(band.upper.tolist()),
            confidence,
            validity,
        ),
    )


def _operating_point(point: TprAtFpr) -> OperatingPoint:
    predictive: tuple[tuple[float, float | None], ...] = ()
    if point.true_positive_rate is not None:
        realised = point.fp / (point.fp + point.tn)
        predictive = tuple(
            (prior, positive_predictive_value(point.true_positive_rate, realised, prior)) for prior in PRIORS
        )
    return OperatingPoint(
        point.false_positive_rate,
        point.true_positive_rate,
        point.interval,
        point.threshold,
        (point.tp, point.fp, point.fn, point.tn),
        point.refused,
        predictive,
    )


def measured_histogram(scores: np.ndarray, members: np.ndarray) -> Histogram | None:
    """40 bins over the finite scores; None where there is none."""
    finite = np.isfinite(scores)
    values = scores[finite]
    if values.size == 0:
        return None
    low, high = float(values.min()), float(values.max())
    if not np.isfinite(high - low):  # wider than a double can tell
        low, high = float(np.clip(low, -1e300, 1e300)), float(np.clip(high, -1e300, 1e300))
    if (high - low) <= 1e-12 * max(1.0, abs(low), abs(high)):
        pad = 0.5 * max(1.0, abs(low))
        low, high = low - pad, high + pad
    edges = np.linspace(low, high, BINS + 1)
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, BINS - 1)
    return Histogram(
        tuple(edges.tolist()),
        tuple(np.bincount(bins[members[finite]], minlength=BINS).tolist()),
        tuple(np.bincount(bins[~members[finite]], minlength=BINS).tolist()),
    )


def _validity(fields: Fields) -> str:
    return fields.one_of("class", CLASSES) if "class" in fields.content else "C"


def _thinned(size: int) -> np.ndarray:
    """All points of a short curve; of a long one the ends and points even in the logarithm from both ends."""
    if size <= MOST_POINTS:
        return np.arange(size)
    near = np.unique(np.round(np.geomspace(1, size - 1, MOST_POINTS // 2)).astype(int))
    even = np.round(np.linspace(0, size - 1, MOST_POINTS // 2)).astype(int)
    return np.union1d(near, even)
