"""Attack-P (Ye et al. 2022, arXiv:2111.09679): the share of population points that the target finds no more likely.

A calibrated global threshold: without shadow models, its score is one minus a p-value over the population.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import __version__
from ..foundation import InputError
from .arrays import as_float
from .result import NON_FINITE_TARGET, AttackScores, mark, status_array


def attack_p(target_signal: Any, population_signal: Any) -> AttackScores:
    """Share of z with signal(z) <= signal(x). target (n,), population (Z,): log p or phi, one view.

    Population values that are not finite are left out and counted; NaN <= x must not count as False.
    """
    target = as_float(target_signal, "target_signal", 1).astype(np.float64)
    population = as_float(population_signal, "population_signal", 1).astype(np.float64)
    usable = np.isfinite(population)
    if not usable.any():
        raise InputError("population_signal holds no finite value: give non-members that the model can score")
    status = status_array(len(target))
    bad = ~np.isfinite(target)
    mark(status, bad, NON_FINITE_TARGET)
    ranks = np.searchsorted(np.sort(population[usable]), target, side="right") / usable.sum()
    details = {
        "attack": "attack_p",
        "views": 1,
        "population": int(usable.sum()),
        "population_left_out": int((~usable).sum()),
        "coalmine": __version__,
    }
    return AttackScores(np.where(bad, np.nan, ranks), status, details)
