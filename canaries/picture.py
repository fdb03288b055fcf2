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
    canaries: CanarySet, path: str | Path, pool: Pool | None = None, gradient_cosines: np.ndarray | None = None
) -> None:
    """Write a PNG: the first canaries (images as pictures, other inputs as curves) above the rows they came from, a
    histogram of the cosines between centred inputs, and, where given, the matrix and histogram of gradient cosines."""
    import io

    from matplotlib.figure import Figure

    number = min(SHOWN, len(canaries))
    columns = 12
    lines = -(-number // columns)
    figure = Figure(figsize=(12, 2.4 * lines + 3.6), layout="constrained")
    top, bottom = figure.subfigures(2, 1, squeeze=False, height_ratios=[2.4 * lines, 3.6])[:, 0]
    top.suptitle(f"{len(canaries)} canaries, {canaries.method}: the first {number}, above their sources")
    axes = np.atleast_2d(top.subplots(2 * lines, columns, squeeze=False))
    for axis in axes.flat:
        axis.axis("off")
    for i in range(number):
        line, column = divmod(i, columns)
        _draw(axes[2 * line, column], canaries.x[i], canaries.value_range)
        axes[2 * line, column].set_title(f"{i}: class {int(canaries.y[i])}", fontsize=7)
        source = int(canaries.source_index[i])
        if pool is not None and source >= 0:
            _draw(axes[2 * line + 1, column], pool.x[source], canaries.value_range)
            axes[2 * line + 1, column].set_title(f"row {source}: {int(pool.y[source])}", fontsize=7)
    panels = bottom.subplots(1, 2 if gradient_cosines is None else 3, squeeze=False)[0]
    flat = canaries.x.reshape(len(canaries), -1) - canaries.x.mean()
    _histogram(panels[0], _off_diagonal(_cosines(flat)), "cosine of inputs (minus their mean value)")
    if gradient_cosines is None:
        panels[1].axis("off")
    else:
        _histogram(panels[1], _off_diagonal(gradient_cosines), "cosine of gradients")
        image = panels[2].imshow(gradient_cosines, vmin=-1, vmax=1, cmap="RdBu_r")
        panels[2].set_title("gradient cosines", fontsize=9)
        bottom.colorbar(image, ax=panels[2])
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
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
    axis.set_yticks([])


def _cosines(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(length > 0, length, 1)
    return unit @ unit.T


def _off_diagonal(matrix: np.ndarray) -> np.ndarray:
    return matrix[~np.eye(len(matrix), dtype=bool)]
