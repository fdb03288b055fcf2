"""Folders of the LiRA code of 2021 (tensorflow/privacy, research/mi_lira_2021).

    DIR/experiment-<i>_<n>/keep.npy               bool [N]
    DIR/experiment-<i>_<n>/logits/<epoch>.npy     float32 [N, 1, views, classes]; the last epoch is taken
    DIR/y_train.npy (or DIR/../y_train.npy)       labels [N]
phi is computed anew from the logits: the stored scores saturate. That code's default target is the last model.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ..foundation import InputError
from .import_lira_pytorch import assemble, read_labels
from .shadow_arrays import ShadowArrays, load_npy


def import_mi_lira(folder: str | Path, target: int | None = None) -> ShadowArrays:
    """Every experiment in the order of its number; target: which of them is attacked, default the last."""
    folder = Path(folder)
    numbered = []
    for path in folder.glob("experiment-*"):
        match = re.fullmatch(r"experiment-(\d+)_(\d+)", path.name)
        if match and path.is_dir():
            numbered.append((int(match[1]), path))
    if not numbered:
        raise InputError(f"folder {str(folder)!r} holds no experiment-<i>_<n>: is this the layout of mi_lira_2021?")
    experiments = [path for _, path in sorted(numbered)]
    labels = read_labels(folder, ("y_train.npy",))
    logits, keep = [], []
    for path in experiments:
        epochs = sorted((path / "logits").glob("*.npy"))
        if not epochs:
            raise InputError(f"{str(path)!r} holds no logits/<epoch>.npy: run the tool's inference step first")
        values = load_npy(epochs[-1])
        if values.ndim == 4 and values.shape[1] == 1:
            values = values[:, 0]
        logits.append(values)
        keep.append(np.asarray(load_npy(path / "keep.npy")))
    return assemble(logits, keep, labels, len(experiments) - 1 if target is None else target, "mi_lira_2021", folder)
