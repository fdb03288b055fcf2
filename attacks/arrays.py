"""What every attack does to its inputs first: copy to float64, check shapes, say what is wrong.

No function of this package writes to an array that it was given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..foundation import InputError


def as_numpy(values: Any, name: str) -> np.ndarray:
    """A numpy view or copy of an array, a sequence or a torch tensor (any device, bfloat16 too)."""
    if hasattr(values, "detach"):  # a torch tensor, without importing torch
        values = values.detach().cpu()
        if values.is_floating_point() and values.element_size() < 4:
            values = values.float()  # exact; numpy knows no bfloat16
        return values.numpy()
    array = np.asarray(values)
    if array.dtype == object:
        raise InputError(f"{name} must be a rectangular array of numbers, got objects of type {type(values).__name__}")
    return array


def as_float(values: Any, name: str, dimensions: int | None = None) -> np.ndarray:
    """float32 stays float32 (it may be large; attacks convert block by block), everything else becomes float64."""
    array = as_numpy(values, name)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must hold numbers, got dtype {array.dtype}")
    if dimensions is not None and array.ndim != dimensions:
        raise InputError(f"{name} must have {dimensions} dimension(s), got shape {array.shape}")
    return array if array.dtype == np.float32 else array.astype(np.float64, copy=False)


def as_mask(values: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A boolean array of exactly that shape; 0/1 numbers are accepted, anything else is refused."""
    array = as_numpy(values, name)
    if array.shape != shape:
        raise InputError(f"{name} must have shape {shape}, got {array.shape}")
    if array.dtype != bool:
        if array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all():
            raise InputError(f"{name} must hold true/false or 0/1, got dtype {array.dtype}")
        array = array.astype(bool)
    return array


def as_views(signal: Any, name: str) -> np.ndarray:
    """A signal of one model as float64 (n, views); (n,) is one view."""
    values = as_float(signal, name).astype(np.float64, copy=False)
    return as_float(values[:, None] if values.ndim == 1 else values, name, dimensions=2)
