"""What a model is trained on: one frozen value for every source, checked before any long work.

    digits                         scikit-learn's handwritten digits, 1,797 real images, (n, 1, 8, 8) in [0, 1]
    cifar10:ROOT  mnist:ROOT  fashionmnist:ROOT      torchvision's data sets, from files that are already there
    imagefolder:DIR  imagefolder:DIR@32              a folder of images, one sub-folder a class
    PATH.npz   X.npy,Y.npy   PATH.csv   PATH.parquet   arrays and tables
    hf:DIR                         a Hugging Face data set saved to disk (extra `hf`)

Guaranteed: rows, their order, the split and the fingerprint depend on the contents alone, never on a seed, a
clock or a directory's order. A source without a test split of its own holds out one row in five of each class;
a test split that is given and empty holds out nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...foundation import InputError, numpy_stream


@dataclass(frozen=True)
class Data:
    """Training and test rows. `value_range` is the legal range of an input value, None where the source has none."""

    x: np.ndarray  # (n, …) float32
    y: np.ndarray  # (n,) int64, 0 … len(classes) − 1
    x_test: np.ndarray  # (n_test, …) float32
    y_test: np.ndarray  # (n_test,) int64
    classes: tuple[str, ...]
    value_range: tuple[float, float] | None
    name: str
    fingerprint: str  # SHA-256 of the contents: rows, labels, split, class names
    test_given: bool = True  # the source has a test part of its own; otherwise its test rows are our hold-out
    whole_numbers: bool = False  # the source holds whole numbers, as token ids are
    names: tuple[str, ...] = ()  # of the training rows, such as file names; empty where the source has none
    names_test: tuple[str, ...] = ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one row, without the batch."""
        return self.x.shape[1:]


def load_data(source: str) -> Data:
    """Load and check the data that `source` names (the list stands at the top of this module). Errors: InputError."""
    if source == "digits":
        return _digits()
    scheme, separator, place = source.partition(":")
    if separator and scheme in _SCHEMES:
        if not place:
            raise InputError(f"data {source!r} names no directory: write {scheme}:PATH")
        return _SCHEMES[scheme](place)
    if source.lower().endswith((".npz", ".npy", ".csv", ".parquet")):
        from .data_tables import load_table

        return load_table(source)
    raise InputError(
        f"data {source!r} is not a known source: use digits, {', '.join(f'{name}:PATH' for name in _SCHEMES)}, "
        "or a file that ends in .npz, .npy (X.npy,Y.npy), .csv or .parquet"
    )


def checked_data(
    name: str,
    x: np.ndarray,
    labels: np.ndarray,
    x_test: np.ndarray | None = None,
    labels_test: np.ndarray | None = None,
    *,
    classes: tuple[str, ...] | None = None,
    value_range: tuple[float, float] | None = None,
    names: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
) -> Data:
    """The one door through which every source passes: checks, label encoding, test split, fingerprint.

    `labels` are class indices where `classes` is given, otherwise any whole numbers, strings or booleans: their
    sorted distinct values, over training and test rows together, become the classes. `names`: of training and test
    rows, where they have any. Errors: InputError.
    """
    if (x_test is None) != (labels_test is None):
        raise InputError(f"data {name!r} has a test part with rows or labels only: give both or neither")
    _check_part(name, "training", x, labels, x.shape[1:])
    if x_test is not None and labels_test is not None:
        if len(x_test) == len(labels_test) == 0:
            x_test, labels_test = x[:0], labels[:0]  # whatever the type and shape of nothing
        else:
            _check_part(name, "test", x_test, labels_test, x.shape[1:])
    together = labels if labels_test is None else np.concatenate([labels, labels_test])
    y_all, classes = _encode(name, together, classes)
    y, whole, given = y_all[: len(labels)], x.dtype.kind == "i", x_test is not None
    if x_test is None:
        held_out = _held_out(y, len(classes))
        x, y, x_test, y_test = x[~held_out], y[~held_out], x[held_out], y[held_out]
        if names[0]:
            named = np.array(names[0], dtype=object)
            names = (tuple(named[~held_out]), tuple(named[held_out]))
    else:
        y_test = y_all[len(labels) :]
    x, x_test = np.ascontiguousarray(x, np.float32), np.ascontiguousarray(x_test, np.float32)
    if value_range is not None:
        for part, rows in (("training", x), ("test", x_test)):
            if rows.size and (rows.min() < value_range[0] or rows.max() > value_range[1]):
                raise InputError(
                    f"data {name!r}: {part} values run from {rows.min():g} to {rows.max():g}, outside the stated "
                    f"value_range {value_range}: rescale the values or correct the range"
                )
    fingerprint = _fingerprint(x, y, x_test, y_test, classes)
    return Data(x, y, x_test, y_test, classes, value_range, name, fingerprint, given, whole, *names)


def _check_part(name: str, part: str, x: np.ndarray, labels: np.ndarray, row_shape: tuple[int, ...]) -> None:
    if x.dtype.kind not in "fiub":
        raise InputError(
            f"data {name!r}: {part} rows have dtype {x.dtype}, not numbers: save them as a plain float32 or uint8 array"
        )
    if x.ndim < 2 or 0 in x.shape[1:]:
        raise InputError(f"data {name!r}: {part} rows have shape {x.shape}; expected (rows, features, …)")
    if len(x) == 0:
        raise InputError(f"data {name!r} has no {part} rows: give at least one")
    if x.shape[1:] != row_shape:
        raise InputError(
            f"data {name!r}: test rows have shape {x.shape[1:]}, training rows {row_shape}: make them equal"
        )
    if labels.ndim != 1 or len(labels) != len(x):
        raise InputError(
            f"data {name!r}: {part} labels have shape {labels.shape} for {len(x)} rows: give one label a row"
        )
    for start in range(0, len(x), 4096):  # in blocks: no boolean array as large as the data
        finite = np.isfinite(x[start : start + 4096])
        if not finite.all():
            row = start + int(np.argmin(finite.reshape(len(finite), -1).all(axis=1)))
            raise InputError(f"data {name!r}: {part} row {row} holds NaN or infinity: remove or repair it")
    if x.dtype.kind == "i" and np.abs(x).max() > 2**24:
        raise InputError(
            f"data {name!r}: {part} rows hold whole numbers beyond 2^24, which float32 cannot hold exactly"
        )


def _encode(name: str, labels: np.ndarray, classes: tuple[str, ...] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels -> (class indices int64, class names)."""
    if labels.dtype.kind == "f":
        if not (np.isfinite(labels).all() and (labels == np.round(labels)).all()):
            raise InputError(f"data {name!r}: labels hold fractions or NaN; a class label is a whole number or a name")
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "iubUS":
        raise InputError(
            f"data {name!r}: labels have dtype {labels.dtype}: save them as whole numbers or fixed-width strings "
            "(an object array is a pickle, which is never opened)"
        )
    if classes is None:
        values, y = np.unique(labels, return_inverse=True)
        classes = tuple(str(value) for value in values)
    else:
        if labels.dtype.kind not in "iub":
            raise InputError(f"data {name!r}: with class names given, labels must be their indices, got {labels.dtype}")
        y = labels.astype(np.int64)
        wrong = (y < 0) | (y >= len(classes))
        if wrong.any():
            raise InputError(
                f"data {name!r}: label {labels[np.argmax(wrong)]} is out of range for {len(classes)} classes: "
                f"labels must be 0 … {len(classes) - 1}"
            )
    if len(classes) < 2:
        raise InputError(f"data {name!r} holds one class only ({', '.join(classes)}): at least two are needed")
    return y.reshape(-1).astype(np.int64), classes


def _held_out(y: np.ndarray, classes: int) -> np.ndarray:
    """One row in five of each class, drawn once and for all: the same rows for every user and every seed."""
    held_out = np.zeros(len(y), dtype=bool)
    generator = numpy_stream(0, "split")
    for label in range(classes):
        rows = np.flatnonzero(y == label)
        held_out[generator.permutation(rows)[: len(rows) // 5]] = True
    return held_out


def _fingerprint(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray, classes: tuple[str, ...]) -> str:
    digest = hashlib.sha256(repr((x.shape, x_test.shape, classes)).encode("utf-8"))
    for array in (x, y, x_test, y_test):
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).data)
    return digest.hexdigest()


def _digits() -> Data:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x = (bunch.images / 16.0).astype(np.float32)[:, None]  # type: ignore[union-attr]
    classes = tuple(str(digit) for digit in range(10))
    return checked_data("digits", x, bunch.target, classes=classes, value_range=(0.0, 1.0))  # type: ignore[union-attr]


def _torchvision(which: str) -> Callable[[str], Data]:
    def load(place: str) -> Data:
        from .data_images import load_torchvision

        return load_torchvision(which, place)

    return load


def _imagefolder(place: str) -> Data:
    from .data_images import load_imagefolder

    return load_imagefolder(place)


def _hugging_face(place: str) -> Data:
    from .data_hugging_face import load_hugging_face

    return load_hugging_face(place)


_SCHEMES: dict[str, Callable[[str], Data]] = {
    "cifar10": _torchvision("CIFAR10"),
    "fashionmnist": _torchvision("FashionMNIST"),
    "mnist": _torchvision("MNIST"),
    "imagefolder": _imagefolder,
    "hf": _hugging_face,
}
