"""Arrays and tables from files: .npz, a pair of .npy, .csv, .parquet. No file is ever unpickled.

.npz       arrays x, y and, where there is a test part, x_test, y_test (also x_train, y_train, or the train_images,
           train_labels, test_images, test_labels of MedMNIST); optional `classes` (names; y are then their indices)
           and `value_range` (two numbers). Empty x_test and y_test: no test part, nothing is held out
.npy       X.npy,Y.npy or X.npy,Y.npy,X_TEST.npy,Y_TEST.npy
.csv, .parquet   a column `label` or `y`, numeric feature columns, optional column `split` of train and test

uint8 arrays are images: divided by 255, channels moved first, a missing channel axis added. Everything else is
taken as it is; token ids pass as float32, exact up to 2^24, for a module that begins with `.long()`.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...foundation import InputError
from ...foundation.csv_table import read_csv
from .data import Data, checked_data

if TYPE_CHECKING:
    import pandas as pd

_NAMES = {
    "x": ("x", "x_train", "train_images"),
    "y": ("y", "y_train", "train_labels"),
    "x_test": ("x_test", "test_images"),
    "y_test": ("y_test", "test_labels"),
}


def load_table(source: str) -> Data:
    """Data from the file or files of `source`, chosen by the ending. Errors: InputError."""
    suffix = Path(source).suffix.lower()
    if suffix == ".npz":
        return _from_npz(source)
    if suffix == ".npy":
        return _from_npy(source)
    return _from_frame(source, _read_frame(source, suffix))


def _from_npz(path: str) -> Data:
    arrays = _load_arrays(path)
    if not isinstance(arrays, Mapping):
        raise InputError(f"data {path!r} is a single .npy array under the name .npz: save x and y with numpy.savez")
    found = {name: next((alias for alias in aliases if alias in arrays), None) for name, aliases in _NAMES.items()}
    for name in ("x", "y"):
        if found[name] is None:
            raise InputError(
                f"data {path!r} has no array {' or '.join(_NAMES[name])}; it holds {', '.join(arrays) or 'nothing'}"
            )
    try:
        part = {name: None if alias is None else arrays[alias] for name, alias in found.items()}
        names = arrays.get("classes")
        limits = arrays.get("value_range")
    except (ValueError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise _unreadable(path, error) from None
    classes = None if names is None else tuple(str(name) for name in np.asarray(names).reshape(-1))
    return _from_arrays(path, part, classes, None if limits is None else _limits(path, limits))


def _from_npy(source: str) -> Data:
    paths = source.split(",")
    if len(paths) not in (2, 4):
        raise InputError(
            f"data {source!r}: write X.npy,Y.npy or X.npy,Y.npy,X_TEST.npy,Y_TEST.npy (got {len(paths)} file)"
        )
    arrays = [_load_arrays(path) for path in paths] + [None] * (4 - len(paths))
    return _from_arrays(source, dict(zip(_NAMES, arrays, strict=True)), None, None)


def _load_arrays(path: str) -> Any:
    if not Path(path).is_file():
        raise InputError(f"data file {path!r} does not exist: check the path")
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: Exception) -> InputError:
    if "pickle" in str(error).lower():
        return InputError(
            f"data file {path!r} holds Python objects (a pickle), which may run code and is never opened: save plain "
            "number arrays and fixed-width strings"
        )
    return InputError(f"data file {path!r} cannot be read ({error}): it may be truncated; save it again")


def _limits(path: str, value: np.ndarray) -> tuple[float, float]:
    numbers = np.asarray(value).reshape(-1)
    if numbers.shape != (2,) or numbers.dtype.kind not in "fiu" or not numbers[0] < numbers[1]:
        raise InputError(f"data {path!r}: value_range must be two numbers, low < high, got {numbers.tolist()}")
    return float(numbers[0]), float(numbers[1])


def _from_arrays(
    name: str,
    part: dict[str, np.ndarray | None],
    classes: tuple[str, ...] | None,
    value_range: tuple[float, float] | None,
) -> Data:
    x, y = part["x"], part["y"]
    assert x is not None and y is not None
    if x.dtype == np.uint8:
        value_range = (0.0, 1.0)
    return checked_data(
        name,
        _as_images(x),
        _as_labels(y),
        None if part["x_test"] is None else _as_images(part["x_test"]),
        None if part["y_test"] is None else _as_labels(part["y_test"]),
        classes=classes,
        value_range=value_range,
    )


def _as_images(x: np.ndarray) -> np.ndarray:
    if x.dtype != np.uint8:
        return x
    if x.ndim == 4 and (x.shape[1] in (1, 3, 4) or x.shape[3] not in (1, 3, 4)):
        x = x.transpose(0, 2, 3, 1)  # channels came first already
    return pixels_to_unit(x) if x.ndim in (3, 4) else x / np.float32(255)


def _as_labels(y: np.ndarray) -> np.ndarray:
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def pixels_to_unit(pixels: np.ndarray) -> np.ndarray:
    """uint8 (n, h, w) or (n, h, w, channels) -> float32 (n, channels, h, w) in [0, 1]."""
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    unit = np.empty(pixels.shape, np.float32)
    return np.divide(pixels, np.float32(255), out=unit)  # straight into its place: no copy in another type


def _read_frame(path: str, suffix: str) -> pd.DataFrame:
    import pandas as pd

    if not Path(path).is_file():
        raise InputError(f"data file {path!r} does not exist: check the path")
    try:
        return read_csv(path, "data file") if suffix == ".csv" else pd.read_parquet(path)
    except InputError:
        raise
    except Exception as error:  # each engine has its own exceptions; all of them mean an unreadable file
        first = str(error).strip().splitlines()[:1]
        raise InputError(
            f"data file {path!r} cannot be read as {suffix[1:]} ({''.join(first)}): save it again"
        ) from None


def _from_frame(path: str, frame: pd.DataFrame) -> Data:
    label = next((name for name in ("label", "y") if name in frame.columns), None)
    if label is None:
        raise InputError(
            f"data {path!r} has no column 'label' or 'y' (columns: {_some_columns(frame)}): rename the column that "
            "holds the labels to label, for example with pandas' rename(columns={'OLD': 'label'})"
        )
    missing = np.flatnonzero(frame[label].isna())
    if len(missing):
        raise InputError(f"data {path!r}: column {label!r} lacks a value in row {missing[0]}")
    features = frame.drop(columns=[label, *(["split"] if "split" in frame.columns else [])])
    for name in features.columns:
        if features[name].dtype.kind not in "fiub":
            raise InputError(f"data {path!r}: column {str(name)!r} is not numeric: encode it (one-hot) or drop it")
    x = features.to_numpy(np.float64)
    x, y = x.astype(np.float32), _plain(frame[label])
    if "split" not in frame.columns:
        return checked_data(path, x, y)
    split = frame["split"].astype(str).to_numpy()
    if set(split) != {"train", "test"}:
        raise InputError(
            f"data {path!r}: column 'split' must hold train and test, it holds {', '.join(sorted(set(split))[:5])}"
        )
    return checked_data(path, x[split == "train"], y[split == "train"], x[split == "test"], y[split == "test"])


def _some_columns(frame: pd.DataFrame, most: int = 8) -> str:
    """Names of the columns; of many the first and the last, where labels often stand."""
    names = [str(name) for name in frame.columns]
    if len(names) <= most:
        return ", ".join(names)
    return ", ".join([*names[: most // 2], "…", *names[-most // 2 :]]) + f"; {len(names)} in all"


def _plain(column: Any) -> np.ndarray:
    """Labels as whole numbers, floats or fixed-width strings: no object array leaves this module."""
    values = column.to_numpy()
    return values if values.dtype.kind in "iubf" else column.astype(str).to_numpy(dtype=np.str_)
