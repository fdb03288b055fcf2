"""Folders of ml_privacy_meter: DIR/**/memberships.npy [models, N] and one signal file [N, models].

The signals are softmax probabilities of the true class, saved by np.save under a name that differs between versions:
the one .npy file of shape [N, models] with values in [0, 1] is taken. A probability of exactly 1 has lost its phi and
is clipped; the count of those is part of the origin and of the report's remarks.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..foundation import InputError
from .phi import phi_from_probability
from .shadow_arrays import ShadowArrays, load_npy


def import_ml_privacy_meter(folder: str | Path, target: int | None = None) -> ShadowArrays:
    """target: the column of the attacked model; that tool's own first target is 0. Errors: InputError if left out."""
    folder = Path(folder)
    found = sorted(folder.rglob("memberships.npy"))
    if len(found) != 1:
        raise InputError(f"folder {str(folder)!r} holds {len(found)} memberships.npy: exactly one is needed")
    membership = np.asarray(load_npy(found[0]))
    if membership.ndim != 2 or not np.isin(membership, (0, 1)).all():
        raise InputError(f"memberships.npy must be true/false [models, N], got {membership.dtype} {membership.shape}")
    keep = membership.astype(bool)
    models, n = keep.shape
    if target is None:
        raise InputError(f"ml_privacy_meter does not say which of its {models} models is the target: give its number")
    if not (0 <= target < models) or models < 2:
        raise InputError(f"target must be the number of one of at least two models, got {target} of {models}")
    others = [p for p in sorted(folder.rglob("*.npy")) if p != found[0]]
    fitting = [p for p in others if load_npy(p).shape == (n, models)]
    if len(fitting) != 1:
        names = ", ".join(p.name for p in fitting) or "none"
        raise InputError(f"folder {str(folder)!r}: one signal file of shape {(n, models)} is needed, found {names}")
    values, clipped = phi_from_probability(load_npy(fitting[0]))
    every = values.T[:, :, None]
    rest = np.arange(models) != target
    origin = {
        "layout": "ml_privacy_meter",
        "folder": str(folder),
        "models": models,
        "target_model": target,
        "clipped_probabilities": clipped,
    }
    return ShadowArrays(every[rest], keep[rest], every[[target]], keep[[target]], origin=origin)
