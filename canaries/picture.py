"""A page that shows a canary set: the canaries beside what they were made from, and how alike they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..foundation import write_bytes
from .canary_set import CanarySet
from .pool import Pool

SHOWN = 24  # canaries on the contact sheet


def picture(
    canaries: CanarySet,
    path: str | Path,
    pool: Pool | None = None,
    gradient_cosines: np.ndarray | None = None,
    influence: np.ndarray | None = None,
) -> None:
    """Write a PNG: the first canaries (images as pictures, other inputs as curves) above the rows they came from, a
    histogram of the cosines between centred inputs, and, where given, a histogram of gradient cosines (m, m) and the
    influence matrix (m, m), scaled to 1 on its diagonal."""
    import io

    from matplotlib.figure import Figure

    number = min(SHOWN, len(canaries))
    columns = 12
    lines = -(-number // columns)
    paired = pool is not None and bool((canaries.source_index[:number] >= 0).any())
    height = 1.2 * lines * (2 if paired else 1) + 0.3
    figure = Figure(figsize=(12, height + 3.6), layout="constrained")
    top, bottom = figure.subfigures(2, 1, squeeze=False, height_ratios=[height, 3.6])[:, 0]
    beside = ", above their sources" if paired else ""
    top.suptitle(f"{len(canaries)} canaries, {canaries.method}: the first {number}{beside}")
    axes = np.atleast_2d(top.subplots(lines * (2 if paired else 1), columns, squeeze=False))
    for axis in axes.flat:
        axis.axis("off")
    for i in range(number):
        line, column = divmod(i, columns)
        line *= 2 if paired else 1
        _draw(axes[line, column], canaries.x[i], canaries.value_range)
        axes[line, column].set_title(f"{i}: class {int(canaries.y[i])}", fontsize=7)
        source = int(canaries.source_index[i])
        if pool is not None and source >= 0:
            _draw(axes[line + 1, column], pool.x[source], canaries.value_range)
            axes[line + 1, column].set_title(f"row {source}: {int(pool.y[source])}", fontsize=7)
    panels = bottom.subplots(1, 1 + (gradient_cosines is not None) + (influence is not None), squeeze=False)[0]
    flat = canaries.x.reshape(len(canaries), -1) - canaries.x.mean()
    _histogram(panels[0], _off_diagonal(_cosines(flat)), "cosine of centred inputs")
    if gradient_cosines is not None:
        _histogram(panels[1], _off_diagonal(gradient_cosines), "cosine of gradients")
    if influence is not None:
        own = np.sqrt(np.maximum(np.diagonal(influence), np.finfo(float).tiny))
        image = panels[-1].imshow(influence / own[:, None] / own[None, :], vmin=-1, vmax=1, cmap="RdBu_r")
        panels[-1].set_title("influence, each over √(self · self)", fontsize=9)
        bottom.colorbar(image, ax=panels[-1])
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": "coalmine"})
    write_bytes(path, buffer.getvalue())


def _draw(axis: Any, x: np.ndarray, value_range: tuple[float, float] | None) -> None:
    low, high = value_range or (float(x.min()), float(x.max()) + 1e-12)
    if x.ndim == 3 and x.shape[0] in (1, 3):
        image = np.clip((x.transpose(1, 2, 0) - low) / (high - low), 0, 1)
        axis.imshow(image[..., 0] if image.shape[2] == 1 else image, cmap="gray", vmin=0, vmax=1)
    else:
        axis.plot(x.reshape(-1), linewidth=0.7)


def _histogram(axis: Any, values: np.ndarray, title: str) -> None:
    axis.hist(values, bins=np.linspace(-1, 1, 81))
    axis.set_title(f"{title}: mean square {np.square(values).mean() if len(values) else 0:.3f}", fontsize=9)
    axis.set_xticks([-1, -0.5, 0, 0.5, 1])
    axis.set_yticks([])


def _cosines(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(length > 0, length, 1)
    return unit @ unit.T


def _off_diagonal(matrix: np.ndarray) -> np.ndarray:
    return matrix[~np.eye(len(matrix), dtype=bool)]
