"""A Hugging Face data set that was saved to disk with `save_to_disk`. Needs the extra `hf`; nothing is fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...foundation import InputError
from .data import Data, checked_data
from .data_tables import pixels_to_unit

_LABELS = ("label", "labels", "fine_label", "y")
_INPUTS = ("image", "img", "pixel_values", "x", "features", "input_ids")
_HELD_OUT = ("test", "validation")


def load_hugging_face(directory: str) -> Data:
    """Splits `train` and `test` (or `validation`), or one split from which a test part is held out.

    Images of equal size become (channels, height, width) in [0, 1]; numeric lists of equal length become rows.
    Errors: InputError.
    """
    try:
        import datasets  # pyright: ignore[reportMissingImports]  # an extra
    except ImportError:
        raise InputError("data hf:… needs the extra: pip install 'coalmine[hf]'") from None
    if not Path(directory).is_dir():
        raise InputError(f"data: Hugging Face directory {directory!r} does not exist: write it with save_to_disk")
    try:
        loaded: Any = datasets.load_from_disk(directory)
    except Exception as error:
        raise InputError(f"data: {directory!r} is no data set written by save_to_disk ({error})") from None
    if isinstance(loaded, datasets.DatasetDict):
        held_out = next((name for name in _HELD_OUT if name in loaded), None)
        if "train" not in loaded:
            raise InputError(f"data: {directory!r} has no split 'train'; it has {', '.join(map(str, loaded))}")
        splits = [loaded["train"], *([loaded[held_out]] if held_out else [])]
    else:
        splits = [loaded]
    label = _column(directory, splits[0], _LABELS, "label")
    inputs = _column(directory, splits[0], _INPUTS, "input")
    feature = splits[0].features[label]
    classes = tuple(feature.names) if isinstance(feature, datasets.ClassLabel) else None
    images = isinstance(splits[0].features[inputs], datasets.Image)
    parts: list[np.ndarray] = []
    for split in splits:
        parts += [_rows(directory, split, inputs, images), np.asarray(split[label][:])]
    return checked_data(f"hf:{directory}", *parts, classes=classes, value_range=(0.0, 1.0) if images else None)


def _column(directory: str, split: Any, candidates: tuple[str, ...], what: str) -> str:
    for name in candidates:
        if name in split.column_names:
            return name
    raise InputError(
        f"data: {directory!r} has no {what} column {' or '.join(candidates)}; rename one of "
        f"{', '.join(split.column_names)} with rename_column"
    )


def _rows(directory: str, split: Any, column: str, images: bool) -> np.ndarray:
    if images:
        pictures = [row[column] for row in split]
        mode = "L" if all(picture.mode in ("1", "L") for picture in pictures) else "RGB"
        rows = [np.asarray(picture.convert(mode)) for picture in pictures]
    else:
        rows = [np.asarray(value) for value in split[column][:]]
    shapes = {row.shape for row in rows}
    if len(shapes) > 1:
        raise InputError(
            f"data: {directory!r}: column {column!r} has rows of unequal shape {sorted(shapes)[:3]}: pad or resize"
        )
    stacked = np.stack(rows)
    return pixels_to_unit(stacked) if images else stacked
