"""Natural rows chosen greedily by self over cross influence: stage 1 of IBIS alone; own labels."""

from __future__ import annotations

import numpy as np

from .base_models import TrainMany, base_models
from .canary_set import CanarySet
from .greedy import select_greedy
from .influence import influence
from .pool import Pool


def greedy_rows(
    pool: Pool,
    count: int,
    seed: int,
    train_many: TrainMany,
    influence_method: str = "gauss_newton",
    tau: float = 0.0,
    balanced: bool = False,
) -> CanarySet:
    """balanced: at most ⌈count / classes⌉ canaries a class."""
    models = base_models(pool, train_many, seed)
    among = influence(models, (pool.x, pool.y), method=influence_method, seed=seed)
    quotas = np.full(pool.classes, -(-count // pool.classes)) if balanced else None
    rows = select_greedy(among, count, tau, pool.allowed, quotas, pool.y)
    parameters = {"seed": seed, "influence_method": influence_method, "tau": tau, "balanced": balanced}
    return pool.canary_set(pool.x[rows], pool.y[rows], rows, "greedy", parameters)
