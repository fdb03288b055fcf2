"""`craft`: one door to every method of making canaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..foundation import InputError
from .base_models import TrainMany
from .binary_noise import binary_noise
from .blank import blank
from .canary_set import CanarySet, sources_sha256
from .mislabelled import mislabelled
from .noise import noise
from .pool import Pool
from .random_rows import random_rows
from .refinement import Refinement

PLAIN: dict[str, Callable[[Pool, int, int], CanarySet]] = {
    "random": random_rows,
    "mislabelled": mislabelled,
    "noise": noise,
    "binary_noise": binary_noise,
    "blank": blank,
}
WITH_MODELS = (
    "highest_loss",
    "highest_self_influence",
    "greedy",
    "clipbkd",
    "canife",
    "metagradient",
    "clipped_influence",
    "ibis",
)
METHODS = (*PLAIN, *WITH_MODELS)
MOVED = ("ibis", "clipped_influence", "metagradient")  # methods that move the inputs of a start
DEFAULT_START = {"ibis": "greedy", "clipped_influence": "binary_noise", "metagradient": "binary_noise"}
MADE_WHOLE = ("blank", "clipbkd", "canife")  # methods whose inputs no row or draw stands behind
FROM_ROWS = ("random", "mislabelled", "highest_loss", "highest_self_influence", "greedy")


def craft(
    method: str,
    x: np.ndarray,
    y: np.ndarray,
    classes: int,
    value_range: tuple[float, float] | None = None,
    count: int = 200,
    seed: int = 0,
    *,
    data_fingerprint: str = "",
    allowed: np.ndarray | None = None,
    fixed_columns: tuple[int, ...] = (),
    train_many: TrainMany | None = None,
    start: str | None = None,
    refinement: Refinement | None = None,
    **options: Any,
) -> CanarySet:
    """`count` canaries made from the training data (x, y) by a method of METHODS.

    x (n, …) float, y (n,) labels 0 … classes − 1; value_range as in CanarySet; allowed (n,) bool restricts the rows
    that may become canaries; fixed_columns: columns that no canary changes (columns.py). train_many trains base models
    and replicas by the recipe that will be audited; methods of WITH_MODELS need it. start, the method whose set is
    moved, belongs to the methods of MOVED; left out it is DEFAULT_START's. refinement belongs to "ibis"; options go to
    the method, as clipping_norm to "clipped_influence".

    The same arguments give the same set. Crafting draws from its own random streams and never sees coins, audited
    models or their noise. Errors: InputError for an unknown method, count below 1, fewer allowed rows than canaries,
    data out of range, a missing train_many, BatchNorm.
    """
    if method not in METHODS:
        raise InputError(f"method {method!r} is unknown: use one of {', '.join(METHODS)}")
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise InputError(f"count must be a whole number of at least 1, got {count!r}")
    if start is not None and method not in MOVED:
        raise InputError(f"method {method!r} moves no other set: leave start out, it belongs to {', '.join(MOVED)}")
    start = DEFAULT_START.get(method, "") if start is None else start
    pool = Pool(x, y, classes, value_range, data_fingerprint, allowed, tuple(fixed_columns))
    if fixed_columns and {method, start} & set(MADE_WHOLE):
        raise InputError(
            f"method {method!r} makes inputs of its own, whole: fixed columns go with noise, binary_noise, and what "
            "begins with rows or moves such a set"
        )
    if method in PLAIN:
        return _sourced(PLAIN[method](pool, int(count), seed), pool)
    if train_many is None:
        raise InputError(f"method {method!r} looks through trained models: give train_many, the recipe to be audited")
    rows = len(pool.candidates())
    if count > rows and (start if method in MOVED else method) in FROM_ROWS:  # told before any model is trained
        raise InputError(f"count is {count}, the pool has {rows} rows to choose from: ask for fewer")
    if method in MOVED and start in FROM_ROWS and count == len(pool):
        raise InputError(
            f"count {count} takes every row of the data as a canary's source: ask for fewer, some must stay"
        )
    return _sourced(_with_models(method, pool, int(count), seed, train_many, start, refinement, options), pool)


def _sourced(canaries: CanarySet, pool: Pool) -> CanarySet:
    """The set with what tells the data that it came from: nothing else may be injected into."""
    sources = canaries.sources()
    told = sources_sha256(pool.x[sources]) if len(sources) else ""
    return replace(canaries, source_rows=len(pool), source_sha256=told)


def _with_models(
    method: str,
    pool: Pool,
    count: int,
    seed: int,
    train_many: TrainMany,
    start: str,
    refinement: Refinement | None,
    options: dict[str, Any],
) -> CanarySet:
    if method in MOVED:
        if start not in METHODS or start in (*MOVED, "canife"):
            raise InputError(f"start {start!r} is no set that {method} can begin with: use binary_noise or greedy")
        if method == "clipped_influence" and options.get("clipping_norm") is None:
            raise InputError(
                "method 'clipped_influence' moves clipped gradients: give clipping_norm, that of the audited recipe"
            )
        if method == "metagradient" and "build" not in options:
            raise InputError("method 'metagradient' trains models of its own: give build, a function of a seed")
        if start in PLAIN:
            begin = PLAIN[start](pool, count, seed)
        else:
            begin = _with_models(start, pool, count, seed, train_many, "", None, {})
        if method == "ibis":
            from .ibis import ibis

            return ibis(pool, seed, train_many, begin, refinement, **options)[0]
        from . import clipped_influence, metagradient

        if method == "metagradient":
            return metagradient.metagradient(pool, begin, seed, **options)
        return clipped_influence.clipped_influence(pool, begin, seed, train_many, **options)
    from . import canife, clipbkd, greedy_rows, highest

    makers: dict[str, Callable[..., CanarySet]] = {
        "highest_loss": highest.highest_loss,
        "highest_self_influence": highest.highest_self_influence,
        "greedy": greedy_rows.greedy_rows,
        "clipbkd": clipbkd.clipbkd,
        "canife": canife.canife,
    }
    return makers[method](pool, count, seed, train_many, **options)
