"""Folders of ml_privacy_meter: DIR/**/memberships.npy and softmax probabilities of the true class by np.save.

memberships.npy is [models, N]; where that tool audited fewer rows than it holds (audit.data_size), its report folder
holds one of [rows, models], which is taken. The signals are the one .npy of [rows, models] whose name does not end in
_pop; the one that does holds a population, points outside every training set (…_signals_pop.npy), for RMIA. A
probability of exactly 1 has lost its phi and is clipped; the count of those is part of the origin.

That tool trains its models in complementary pairs: one half of each pair, and the rest. The other half of the target's
pair tells the target's membership by itself, as no shadow model of an attacker could, and is left out.
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
    if not found:
        raise InputError(f"folder {str(folder)!r} holds no memberships.npy: name the log_dir of ml_privacy_meter")
    memberships = [_membership(path) for path in found]
    others = {p: load_npy(p) for p in sorted(folder.rglob("*.npy")) if p not in found}
    population = [p for p in others if p.stem.endswith("_pop")]
    signals = [p for p, a in others.items() if p not in population and a.ndim == 2 and a.dtype.kind == "f"]
    fitting = [(p, keep) for p in signals for keep in _fitting(others[p].shape, memberships)]
    if len(fitting) != 1:
        raise InputError(_no_fit(folder, {p: others[p].shape for p in signals}, memberships))
    path, keep = fitting[0]
    models = len(keep)
    if target is None:
        raise InputError(f"ml_privacy_meter does not say which of its {models} models is the target: give its number")
    if not (0 <= target < models) or models < 2:
        raise InputError(f"target must be the number of one of at least two models, got {target} of {models}")
    values, clipped = phi_from_probability(others[path])
    every = values.T[:, :, None]
    outside = _population(population, {p: others[p] for p in population}, models)
    pair = (keep == ~keep[target]).all(axis=1)
    rest = (np.arange(models) != target) & ~pair
    if not rest.any():
        raise InputError(
            f"folder {str(folder)!r}: beside the target and the other half of its pair there is no model: that tool "
            "trains complementary pairs, of which the target's own cannot be a shadow; train more models"
        )
    origin = {
        "layout": "ml_privacy_meter",
        "folder": str(folder),
        "models": models,
        "target_model": target,
        "left_out_as_the_targets_pair": int(pair.sum()),
        "clipped_probabilities": clipped,
    }
    return ShadowArrays(
        every[rest],
        keep[rest],
        every[[target]],
        keep[[target]],
        population_shadow=None if outside is None else outside[rest],
        population_target=None if outside is None else outside[[target]],
        origin=origin,
    )


def _membership(path: Path) -> np.ndarray:
    membership = np.asarray(load_npy(path))
    if membership.ndim != 2 or not np.isin(membership, (0, 1)).all():
        raise InputError(f"memberships.npy must be true/false [models, N], got {membership.dtype} {membership.shape}")
    return membership.astype(bool)


def _fitting(shape: tuple[int, ...], memberships: list[np.ndarray]) -> list[np.ndarray]:
    """keep [models, rows] for signals of [rows, models]: as stored, or the transposed one of a report folder."""
    stored = [m for m in memberships if m.shape == shape[::-1]]
    return stored[:1] or [m.T for m in memberships if m.shape == shape][:1]


def _no_fit(folder: Path, signals: dict[Path, tuple[int, ...]], memberships: list[np.ndarray]) -> str:
    held = ", ".join(f"{p.name} {shape}" for p, shape in signals.items()) or "none"
    sizes = " and ".join(str(m.shape) for m in memberships)
    return (
        f"folder {str(folder)!r}: one signal file [rows, models] that fits memberships {sizes} is "
        f"needed, found {held}. Where "
        "audit.data_size is below the data's size that tool does not keep which rows it drew: run its audit with "
        "all of them, or for every target, which writes their memberships"
    )


def _population(paths: list[Path], arrays: dict[Path, np.ndarray], models: int) -> np.ndarray | None:
    """phi of the population points, (models, points); None where there is none."""
    if not paths:
        return None
    if len(paths) > 1 or arrays[paths[0]].ndim != 2 or arrays[paths[0]].shape[1] != models:
        shapes = ", ".join(f"{p.name} {arrays[p].shape}" for p in paths)
        raise InputError(f"one population file [points, {models} models] is expected, found {shapes}")
    return phi_from_probability(arrays[paths[0]])[0].T
