"""Image data sets from a local folder: torchvision's own formats and folders of JPEG or PNG. Nothing is downloaded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from ...foundation import InputError
from .data import Data, checked_data
from .data_tables import pixels_to_unit

_HELD_OUT_NAMES = ("test", "val", "valid")


def load_torchvision(which: str, root: str) -> Data:
    """CIFAR10, FashionMNIST or MNIST in torchvision's layout under `root`; pixels in [0, 1]. Errors: InputError.

    CIFAR10's batch files are pickles; torchvision opens them only after their published checksums have matched.
    """
    from torchvision import datasets

    dataset_class = getattr(datasets, which)
    try:
        parts = [dataset_class(root, train=train, download=False) for train in (True, False)]
    except Exception as error:  # torchvision's parsers raise whatever comes
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"data: {which} is not complete under {root!r} ({reason}): put torchvision's files there, for example by "
            f"torchvision.datasets.{which}({root!r}, download=True)"
        ) from None
    rows = [pixels_to_unit(np.asarray(part.data)) for part in parts]
    labels = [np.asarray(part.targets, dtype=np.int64) for part in parts]
    classes = tuple(str(name) for name in parts[0].classes)
    return checked_data(
        f"{which.lower()}:{root}", rows[0], labels[0], rows[1], labels[1], classes=classes, value_range=(0.0, 1.0)
    )


def load_imagefolder(place: str) -> Data:
    """A folder of images, one sub-folder a class; either `train` and `test` (or `val`) above them, or one tree.

    `DIR@32` resizes the shorter side to 32 and crops the centre; without a size all images must be equally large.
    Grey images give one channel; as soon as one is in colour, all give three. Errors: InputError.
    """
    directory, size = _size(place)
    if not directory.is_dir():
        raise InputError(f"data: image folder {str(directory)!r} does not exist: check the path")
    held_out = next((directory / name for name in _HELD_OUT_NAMES if (directory / name).is_dir()), None)
    if (directory / "train").is_dir() and held_out is not None:
        folders = [directory / "train", held_out]
    else:
        folders = [directory]
    classes = tuple(sorted(entry.name for entry in folders[0].iterdir() if entry.is_dir()))
    if len(classes) < 2:
        raise InputError(f"data: {str(folders[0])!r} needs a sub-folder for each of at least two classes")
    listings = [_listing(folder, classes) for folder in folders]
    mode = "L" if all(_is_grey(path) for paths, _ in listings for path in paths) else "RGB"
    shape: tuple[int, ...] | None = None
    parts: list[np.ndarray] = []
    for paths, labels in listings:
        pixels, shape = _decode(paths, mode, size, shape)
        parts += [pixels_to_unit(pixels), labels]
    root = folders[0].parent if len(folders) == 2 else directory
    names = [tuple(path.relative_to(root).as_posix() for path in paths) for paths, _ in listings]
    both = (names[0], names[1] if len(names) > 1 else ())
    return checked_data(f"imagefolder:{place}", *parts, classes=classes, value_range=(0.0, 1.0), names=both)


def _size(place: str) -> tuple[Path, int | None]:
    match = re.fullmatch(r"(.+)@(\d+)", place)
    if match is None or Path(place).exists():
        return Path(place), None
    size = int(match[2])
    if not 1 <= size <= 4096:
        raise InputError(f"data: image size {size} in {place!r} must lie between 1 and 4096")
    return Path(match[1]), size


def _listing(folder: Path, classes: tuple[str, ...]) -> tuple[list[Path], np.ndarray]:
    """Image files in sorted order with their class indices."""
    from torchvision.datasets.folder import IMG_EXTENSIONS

    unknown = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and entry.name not in classes)
    if unknown:
        raise InputError(f"data: {str(folder)!r} has the class {unknown[0]!r}, which the training folder has not")
    paths: list[Path] = []
    labels: list[int] = []
    for index, name in enumerate(classes):
        found = sorted(path for path in (folder / name).rglob("*") if path.suffix.lower() in IMG_EXTENSIONS)
        if not found and (folder / name).is_dir():
            raise InputError(f"data: {str(folder / name)!r} holds no image file: remove the folder or fill it")
        paths += found
        labels += [index] * len(found)
    return paths, np.asarray(labels, dtype=np.int64)


def _open(path: Path) -> Any:
    from PIL import Image

    try:
        return Image.open(path)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"data: image {str(path)!r} cannot be read ({error}): remove or repair it") from None


def _is_grey(path: Path) -> bool:
    with _open(path) as image:  # the header alone is read
        return image.mode in ("1", "L", "LA", "I", "I;16", "F")


def _decode(
    paths: list[Path], mode: str, size: int | None, shape: tuple[int, ...] | None
) -> tuple[np.ndarray, tuple[int, ...] | None]:
    """uint8 (n, h, w) or (n, h, w, 3) of all images, and the common shape of one."""
    pixels: np.ndarray | None = None
    for row, path in enumerate(paths):
        one = _pixels(path, mode, size)
        if shape is not None and one.shape != shape:
            raise InputError(
                f"data: image {str(path)!r} has shape {one.shape}, the ones before it {shape}: give one size for all, "
                "as imagefolder:DIR@32"
            )
        shape = one.shape
        if pixels is None:
            pixels = np.empty((len(paths), *shape), np.uint8)
        pixels[row] = one
    return (np.empty((0, 1, 1), np.uint8) if pixels is None else pixels), shape


def _pixels(path: Path, mode: str, size: int | None) -> np.ndarray:
    from PIL import Image
    from PIL.ImageOps import exif_transpose
    from torchvision.transforms.functional import center_crop, resize

    with _open(path) as image:
        try:
            picture = exif_transpose(image).convert(mode)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise InputError(f"data: image {str(path)!r} cannot be read ({error}): remove or repair it") from None
    if size is not None:
        picture = center_crop(resize(picture, [size]), [size])  # type: ignore[arg-type]
    return np.asarray(picture)
