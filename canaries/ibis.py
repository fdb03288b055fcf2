"""IBIS: canaries that are remembered and do not disturb each other (Dagréou & Bellet, arXiv 2605.27292).

A start (their greedy natural rows, or any other method's set), then bilevel refinement of its inputs. Written from the
abstract and public summaries, since the authors' code is not public; refine.py says what is theirs and what is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .base_models import TrainMany, base_models
from .canary_set import CanarySet
from .pool import Pool
from .refine import refine
from .refinement import Refinement
from .rounding import round_to_8_bits


def ibis(
    pool: Pool,
    seed: int,
    train_many: TrainMany,
    start: CanarySet,
    refinement: Refinement | None = None,
    round_8_bits: bool = False,
    checkpoint: str | Path | None = None,
    on_restart: Callable[[dict[str, Any]], None] | None = None,
    device: str | torch.device = "cpu",
    together: int | None = None,
    recipe: str = "",
) -> tuple[CanarySet, list[dict[str, Any]]]:
    """(refined set, log). round_8_bits stores values an 8-bit image file can hold; measure the set after rounding.
    together, recipe: as `refine` takes them."""
    refinement = refinement or Refinement()
    models = base_models(pool, train_many, seed) if refinement.regulariser > 0 else []
    refined, log = refine(
        start, pool, train_many, refinement, seed, models, checkpoint, on_restart, device, together, recipe
    )
    return (round_to_8_bits(refined) if round_8_bits else refined), log
