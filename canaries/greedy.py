"""Greedy choice of candidates that are remembered and do not disturb each other (IBIS, stage 1).

z₁ maximises I(z, z); each next z maximises I(z, z)/(τ + max_{z′ chosen} |I(z, z′)|). In the metric of (H + δI)⁻¹ the
ratio is (‖g_z‖/‖g_z′‖)/|cos(g_z, g_z′)|: size and angle.
"""

from __future__ import annotations

import numpy as np

from ..foundation import InputError
from .influence import Influence


def select_greedy(
    influence: Influence,
    count: int,
    tau: float = 0.0,
    allowed: np.ndarray | None = None,
    quotas: np.ndarray | None = None,
    labels: np.ndarray | None = None,
) -> np.ndarray:
    """(count,) candidates in the order of choice; ties go to the lowest number.

    tau      in units of the median self influence; above 0 it keeps early picks from being whatever happens to be
             orthogonal to the first
    allowed  (n,) bool: candidates that may be chosen
    quotas   (classes,) most canaries a class, by `labels` (n,)

    O(count · n) after a dense matrix, O(count · n · k) with factors; never n × n from factors.
    Errors: InputError when fewer candidates are allowed than asked for, with both numbers.
    """
    n = len(influence)
    free = np.ones(n, bool) if allowed is None else np.array(allowed, dtype=bool)
    if free.shape != (n,):
        raise InputError(f"allowed has shape {free.shape}, there are {n} candidates: give one boolean a candidate")
    if not tau >= 0:
        raise InputError(f"tau must be at least 0, got {tau!r}")
    if quotas is not None and (labels is None or len(labels) != n):
        raise InputError("quotas need the label of every candidate")
    # without quotas: one class that may take everything
    group = np.zeros(n, int) if quotas is None or labels is None else np.asarray(labels)
    left = np.array([n]) if quotas is None else np.array(quotas, dtype=int)
    if group.max() >= len(left):
        raise InputError(f"quotas name {len(left)} classes, the labels go up to {group.max()}: give one quota a class")
    available = int(np.minimum(np.bincount(group[free], minlength=len(left)), left).sum())
    if count > available:
        raise InputError(f"count is {count}, {available} candidates may be chosen: ask for fewer or allow more")
    own = influence.self_influence()
    floor = tau * float(np.median(own)) + np.finfo(float).tiny
    largest_cross = np.zeros(n)
    chosen: list[int] = []
    for _ in range(count):
        ratio = own if not chosen else own / (floor + largest_cross)
        free &= left[group] > 0
        best = int(np.argmax(np.where(free, ratio, -np.inf)))
        chosen.append(best)
        free[best] = False
        left[group[best]] -= 1
        largest_cross = np.maximum(largest_cross, np.abs(influence.row(best)))
    return np.array(chosen)
