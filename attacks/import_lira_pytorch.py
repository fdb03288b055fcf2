"""Folders of lira-pytorch: DIR/<id>/{keep.npy [N] bool, logits.npy [N, views, classes]}.

That tool takes the target from the order of a directory listing, which differs between machines: here it has to be
named. Models are taken in the order of their numbers, or of their names where those are not numbers.
Labels: DIR/labels.npy or DIR/y_train.npy, [N], in the order of the training set.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..foundation import InputError
from .phi import phi
from .shadow_arrays import ShadowArrays, load_npy


def import_lira_pytorch(folder: str | Path, target: int | None = None) -> ShadowArrays:
    """target: the number of the attacked model in the sorted order, 0 first. Errors: InputError if left out."""
    folder = Path(folder)
    models = [p for p in folder.iterdir() if (p / "keep.npy").exists()] if folder.is_dir() else []
    if not models:
        raise InputError(f"folder {str(folder)!r} holds no <id>/keep.npy: is this the layout of lira-pytorch?")
    models.sort(key=lambda p: (0, int(p.name), "") if p.name.isdigit() else (1, 0, p.name))
    if target is None:
        raise InputError(f"lira-pytorch does not say which of its {len(models)} models is the target: give its number")
    labels = read_labels(folder, ("labels.npy", "y_train.npy"))
    logits = [load_npy(p / "logits.npy") for p in models]
    keep = [np.asarray(load_npy(p / "keep.npy")) for p in models]
    return assemble(logits, keep, labels, target, "lira-pytorch", folder)


def read_labels(folder: Path, names: Sequence[str]) -> np.ndarray:
    """Labels beside the models or one folder up."""
    for place in (folder, folder.parent):
        for name in names:
            if (place / name).exists():
                return np.asarray(load_npy(place / name)).reshape(-1)
    raise InputError(f"no labels beside {str(folder)!r}: save the training labels as {names[0]} there")


def assemble(
    logits: Sequence[np.ndarray],
    keep: Sequence[np.ndarray],
    labels: np.ndarray,
    target: int,
    layout: str,
    folder: Path,
) -> ShadowArrays:
    """One model becomes the target, the others the shadows. logits: per model (N, views, classes) or (N, classes)."""
    if not (0 <= target < len(logits)):
        raise InputError(f"target must be the number of a model, 0 … {len(logits) - 1}, got {target}")
    if len(logits) < 2:
        raise InputError(f"folder {str(folder)!r} holds a single model: one target and shadows are needed")
    values = []
    for number, (z, k) in enumerate(zip(logits, keep, strict=True)):
        z = z[:, None] if z.ndim == 2 else z
        if z.ndim != 3 or len(z) != len(labels) or k.shape != (len(labels),):
            raise InputError(
                f"model {number} of {str(folder)!r} has logits {z.shape} and keep {k.shape} for {len(labels)} labels"
            )
        values.append(phi(z, labels[:, None]))
    if len({v.shape for v in values}) > 1:
        raise InputError(f"the models of {str(folder)!r} have different numbers of views: {[v.shape for v in values]}")
    mask = np.stack(keep)
    if mask.dtype != bool:
        if not np.isin(mask, (0, 1)).all():
            raise InputError(f"keep in {str(folder)!r} must be true/false, got {mask.dtype}")
        mask = mask.astype(bool)
    every = np.stack(values)
    others = np.arange(len(values)) != target
    origin = {"layout": layout, "folder": str(folder), "models": len(values), "target_model": target}
    return ShadowArrays(every[others], mask[others], every[[target]], mask[[target]], origin=origin)
