"""Folders of lira_analysis (arXiv:2603.07567).

    DIR/model_<i>/logits/logits.npy   float32 [N, 1, views, classes]
    DIR/keep_indices.npy              bool [models, N]
    DIR/labels.npy or y_train.npy     labels [N]
That tool attacks every model with all others; here one of them is the target. Its keep is exactly balanced, and with a
left-out model as target a balanced design leaks membership by counting: see the null test of the report.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ..foundation import InputError
from .import_lira_pytorch import assemble, read_labels
from .shadow_arrays import ShadowArrays, load_npy


def import_lira_analysis(folder: str | Path, target: int | None = None) -> ShadowArrays:
    """target: the number <i> of the attacked model, which the layout does not say. Errors: InputError if left out."""
    folder = Path(folder)
    numbered = sorted((int(m[1]), p) for p in folder.glob("model_*") if (m := re.fullmatch(r"model_(\d+)", p.name)))
    if not numbered:
        raise InputError(f"folder {str(folder)!r} holds no model_<i>: is this the layout of lira_analysis?")
    if target is None:
        raise InputError(
            f"lira_analysis does not say which of its {len(numbered)} models is the target: give its number"
        )
    numbers = [i for i, _ in numbered]
    if target not in numbers:
        raise InputError(f"target must be the number of a model_<i>, got {target}; there are {numbers[:8]}")
    keep = np.asarray(load_npy(folder / "keep_indices.npy"))
    if keep.ndim != 2 or len(keep) <= numbers[-1]:
        raise InputError(
            f"keep_indices.npy has shape {keep.shape}: one row a model is needed, up to model_{numbers[-1]}"
        )
    logits = [load_npy(p / "logits" / "logits.npy") for _, p in numbered]
    logits = [z[:, 0] if z.ndim == 4 and z.shape[1] == 1 else z for z in logits]
    labels = read_labels(folder, ("labels.npy", "y_train.npy"))
    return assemble(logits, [keep[i] for i in numbers], labels, numbers.index(target), "lira_analysis", folder)
