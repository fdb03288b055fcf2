"""What shadow attacks need of models, as arrays: phi of every shadow and target, and who was trained on what.

phi determines log p = log_expit(phi), so that one array serves every attack. The arrays come from `shadows` (train
them), from a file of arrays, or from another tool's folder (import_*). Files are read without unpickling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..foundation import InputError
from .arrays import as_float, as_mask, as_numpy
from .phi import phi


@dataclass(frozen=True, eq=False)
class ShadowArrays:
    """shadow_phi (S, n, views), keep (S, n) bool, target_phi (T, n, views); target_member (T, n) bool where known.

    population_shadow (S, Z) and population_target (T, Z): phi of points OUT of every model (view 0), for RMIA.
    target_hinge (T, n, views) and target_predicted (T, n), labels (n,), both class numbers: where measured.
    shadow_accuracy (S,), target_accuracy (T,): on rows outside all training sets, where measured.
    S may be 0: attacks that look at the target alone need no shadow.
    origin: where all this came from, in words and numbers, for the report.
    """

    shadow_phi: np.ndarray
    keep: np.ndarray
    target_phi: np.ndarray
    target_member: np.ndarray | None = None
    population_shadow: np.ndarray | None = None
    population_target: np.ndarray | None = None
    shadow_accuracy: np.ndarray | None = None
    target_accuracy: np.ndarray | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    target_hinge: np.ndarray | None = None
    target_predicted: np.ndarray | None = None
    shadow_correct: np.ndarray | None = None
    labels: np.ndarray | None = None

    def __post_init__(self) -> None:
        shape = self.shadow_phi.shape
        if len(shape) != 3 or 0 in shape[1:]:
            raise InputError(f"shadow_phi must have shape (shadows, n, views), n and views not 0, got {shape}")
        if self.target_phi.ndim != 3 or self.target_phi.shape[1:] != shape[1:] or len(self.target_phi) == 0:
            raise InputError(
                f"target_phi must have shape (targets, {shape[1]}, {shape[2]}), got {self.target_phi.shape}"
            )
        for name, array, expected in (
            ("keep", self.keep, shape[:2]),
            ("target_member", self.target_member, self.target_phi.shape[:2]),
            ("shadow_correct", self.shadow_correct, shape[:2]),
        ):
            if array is not None and (array.shape != expected or array.dtype != bool):
                raise InputError(f"{name} must be bool of shape {expected}, got {array.dtype} {array.shape}")

    @property
    def shadows(self) -> int:
        return len(self.shadow_phi)

    @property
    def targets(self) -> int:
        return len(self.target_phi)

    def first(self, shadows: int) -> ShadowArrays:
        """The first `shadows` models as shadows, or all where fewer are there; the origin remembers what was asked."""
        if shadows < 1:
            raise InputError(f"shadows must be at least 1, got {shadows}")
        return replace(
            self,
            shadow_phi=self.shadow_phi[:shadows],
            keep=self.keep[:shadows],
            population_shadow=None if self.population_shadow is None else self.population_shadow[:shadows],
            shadow_accuracy=None if self.shadow_accuracy is None else self.shadow_accuracy[:shadows],
            shadow_correct=None if self.shadow_correct is None else self.shadow_correct[:shadows],
            origin={**self.origin, "shadows_asked": shadows},
        )

    def half(self, which: int) -> ShadowArrays:
        """Every other shadow, the even ones (0) or the odd ones (1)."""
        every = slice(which, None, 2)
        return replace(
            self,
            shadow_phi=self.shadow_phi[every],
            keep=self.keep[every],
            population_shadow=None if self.population_shadow is None else self.population_shadow[every],
            shadow_accuracy=None if self.shadow_accuracy is None else self.shadow_accuracy[every],
            shadow_correct=None if self.shadow_correct is None else self.shadow_correct[every],
        )


def read_arrays(path: str | Path) -> ShadowArrays:
    """The arrays of a .npz file, by name and number of axes. Errors: InputError that names what does not fit.

    keep            (S, n) true/false: shadow s was trained on example i
    shadow_phi      (S, n) or (S, n, views); or in its place
    shadow_logits   (S, n, classes) or (S, n, views, classes), with labels (n,)
    target_phi      (n,), (n, views) or (targets, n, views); or in its place
    target_logits   (n, classes), (n, views, classes) or (targets, n, views, classes)
    target_member   (n,) or (targets, n) true/false; without it there are scores and no metrics

    For RMIA, points outside every training set, shadows' and targets' alike; both or neither:
    population_shadow_phi   (S, Z) or (S, Z, views), of which view 0 is used; or in its place
    population_shadow_logits (S, Z, classes) or (S, Z, views, classes), with population_labels (Z,)
    population_target_phi, population_target_logits: shapes as of target_phi and target_logits, Z in place of n
    """
    stored = load_npz(path)
    if "keep" not in stored:
        raise InputError(f"arrays {str(path)!r} hold no 'keep': a (shadows, n) mask of who was trained on what")
    shadow, target = _pair(stored, "", path)
    member = stored.get("target_member")
    if member is not None:
        member = as_mask(member if member.ndim == 2 else member[None], "target_member", target.shape[:2])
    keep = as_mask(stored["keep"], "keep", shadow.shape[:2])
    population_shadow = population_target = None
    if any(name.startswith("population_") for name in stored):
        outside = _pair(stored, "population_", path)
        population_shadow, population_target = outside[0][..., 0], outside[1][..., 0]
        if (len(population_shadow), len(population_target)) != (len(shadow), len(target)):
            raise InputError(
                f"arrays {str(path)!r}: population values are of {len(population_shadow)} shadows and "
                f"{len(population_target)} targets, the others of {len(shadow)} and {len(target)}"
            )
    if len(shadow) == 0:
        raise InputError(f"arrays {str(path)!r} hold no shadow model: at least two are needed")
    labels = stored.get("labels")
    return ShadowArrays(
        shadow,
        keep,
        target,
        member,
        population_shadow,
        population_target,
        origin={"arrays": str(path)},
        target_predicted=None if labels is None else _predicted(stored, "target_logits", target.shape[:2]),
        labels=None if labels is None or labels.shape != keep.shape[1:] else labels.astype(np.int64),
    )


def _predicted(stored: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """The class that the logits of view 0 name, (targets, n); None where no logits are stored."""
    if name not in stored:
        return None
    logits = stored[name]
    view = logits[None] if logits.ndim == 2 else logits[None, :, 0] if logits.ndim == 3 else logits[:, :, 0]
    predicted = (view[..., 0] > 0).astype(np.int64) if view.shape[-1] == 1 else view.argmax(axis=-1)
    return predicted if predicted.shape == shape else None


def _pair(stored: Mapping[str, np.ndarray], which: str, path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """phi of the shadows (S, n, views) and of the targets (T, n, views); which: "" or "population_"."""
    shadow = _signal(stored, f"{which}shadow", f"{which}labels", path)
    if shadow.ndim == 2:
        shadow = shadow[:, :, None]
    target = _signal(stored, f"{which}target", f"{which}labels", path)
    if target.ndim == 1:
        target = target[:, None]
    if target.ndim == 2:
        target = target[None]
    if shadow.ndim != 3 or target.ndim != 3 or shadow.shape[1:] != target.shape[1:]:
        raise InputError(
            f"arrays {str(path)!r}: {which}shadow values {shadow.shape} and {which}target values {target.shape} "
            "do not fit"
        )
    return shadow, target


def _signal(stored: Mapping[str, np.ndarray], who: str, label_name: str, path: str | Path) -> np.ndarray:
    """phi as stored, or from logits and labels; the examples are axis 1 of the shadows and axis -3 of target logits."""
    if f"{who}_phi" in stored:
        return as_float(stored[f"{who}_phi"], f"{who}_phi")
    if f"{who}_logits" not in stored or label_name not in stored:
        raise InputError(f"arrays {str(path)!r} need {who}_phi, or {who}_logits and {label_name}, one a point")
    logits, labels = stored[f"{who}_logits"], as_float(stored[label_name], label_name, 1)
    fewest = 3 if who.endswith("shadow") else 2
    if logits.ndim == fewest:
        logits = logits[..., None, :]  # one view
    if logits.ndim not in (fewest + 1, 4) or logits.shape[-3] != len(labels):
        raise InputError(f"arrays {str(path)!r}: {who}_logits {logits.shape} do not fit {len(labels)} {label_name}")
    return phi(logits, labels.reshape((1,) * (logits.ndim - 3) + (-1, 1)))


def load_npz(path: str | Path) -> dict[str, np.ndarray]:
    """Every array of a .npz file, never unpickled. Errors: InputError for anything that is no such file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: as_numpy(archive[name], name) for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"arrays {str(path)!r} do not exist: check the path") from None
    except InputError:
        raise
    except Exception as error:  # a damaged archive fails anywhere inside zipfile, zlib or numpy
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"arrays {str(path)!r} cannot be read as .npz: {reason}") from None


def load_npy(path: str | Path) -> np.ndarray:
    """One array of a .npy file, memory-mapped, never unpickled. Errors: InputError."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"array file {str(path)!r} does not exist: check the path") from None
    except Exception as error:  # damaged headers fail in many ways
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"array file {str(path)!r} is no .npy file of numbers: {reason}") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"array file {str(path)!r} is an archive: a .npy file is needed")
    return array
