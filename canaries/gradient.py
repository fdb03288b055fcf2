"""Gradient canaries: m directions in parameter space, for white-box audits of DP-SGD.

A member canary adds C·direction to the clipped sum of its step. "dirac" directions are single coordinates (Nasr et
al., arXiv 2302.07956; Steinke, Nasr, Jagielski, arXiv 2305.08846): exactly orthogonal, m numbers to store. "random"
directions are uniform on the sphere, made again from their seed (Andrew et al., arXiv 2302.03098): nearly orthogonal
in high dimension. Both have unit norm. The log-likelihood-ratio attack is optimal only where nothing else lies along a
direction: choose coordinates that no data gradient reaches, or subtract what is known.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..foundation import InputError, numpy_stream, write_bytes
from ..foundation.tensor_file import content_sha256, metadata_json, pack, unpack

DESIGNS = ("dirac", "random")


@dataclass(frozen=True, eq=False)
class GradientCanaries:
    """m directions of unit norm in R^dimension. coordinates (m,) int64: the position of each Dirac direction, or the
    stream number of each random one; seed: of the random directions."""

    coordinates: np.ndarray
    dimension: int
    design: str
    seed: int

    def __post_init__(self) -> None:
        coordinates = np.asarray(self.coordinates)
        if self.design not in DESIGNS:
            raise InputError(f"design {self.design!r} is unknown: use one of {', '.join(DESIGNS)}")
        if isinstance(self.dimension, bool) or not isinstance(self.dimension, int) or self.dimension < 1:
            raise InputError(f"dimension must be a whole number of at least 1, got {self.dimension!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise InputError(f"seed must be a whole number of at least 0, got {self.seed!r}")
        if coordinates.ndim != 1 or len(coordinates) == 0 or coordinates.dtype.kind not in "iu":
            raise InputError(f"coordinates must be m ≥ 1 whole numbers in a row, got shape {coordinates.shape}")
        if len(np.unique(coordinates)) != len(coordinates) or coordinates.min() < 0:
            raise InputError("coordinates must be distinct and at least 0: two canaries in one direction interfere")
        if self.design == "dirac" and coordinates.max() >= self.dimension:
            raise InputError(f"coordinate {coordinates.max()} lies outside the {self.dimension} parameters")
        coordinates = coordinates.astype(np.int64)
        coordinates.setflags(write=False)
        object.__setattr__(self, "coordinates", coordinates)

    def __len__(self) -> int:
        return len(self.coordinates)

    @property
    def sha256(self) -> str:
        return content_sha256(self._tensors())

    def direction(self, canary: int) -> np.ndarray:
        """(dimension,) float32 of unit norm."""
        if self.design == "dirac":
            direction = np.zeros(self.dimension, np.float32)
            direction[self.coordinates[canary]] = 1.0
            return direction
        stream = numpy_stream(self.seed, f"craft/gradient/{self.coordinates[canary]}")
        direction = stream.standard_normal(self.dimension, dtype=np.float32)
        return direction / np.linalg.norm(direction)

    def save(self, path: str | Path) -> None:
        from .. import __version__

        metadata = {
            "kind": "gradient",
            "method": self.design,
            "parameters": json.dumps({"seed": self.seed, "dimension": self.dimension}),
            "coalmine_version": __version__,
            "content_sha256": self.sha256,
        }
        write_bytes(path, pack(self._tensors(), metadata))

    @classmethod
    def load(cls, path: str | Path) -> GradientCanaries:
        """Errors: InputError that names the file and what is wrong."""
        tensors, metadata = unpack(path, "canary file")
        what = f"canary file {str(path)!r}"
        if metadata.get("kind") != "gradient":
            raise InputError(f"{what} has kind {metadata.get('kind')!r}: a set of kind 'gradient' is needed here")
        parameters = metadata_json(metadata, "parameters", what)
        if set(tensors) != {"coordinates", "header"} or not isinstance(parameters, dict):
            raise InputError(f"{what} does not hold gradient canaries as coalmine writes them")
        try:
            canaries = cls(
                tensors["coordinates"],
                parameters.get("dimension"),  # type: ignore[arg-type]
                metadata.get("method", ""),
                parameters.get("seed"),  # type: ignore[arg-type]
            )
        except InputError as error:
            raise InputError(f"{what}: {error}") from None
        if metadata.get("content_sha256") != canaries.sha256 or not np.array_equal(
            tensors["header"], canaries._tensors()["header"]
        ):
            raise InputError(f"{what}: the tensors do not match the stored hash: the file was changed or damaged")
        return canaries

    def _tensors(self) -> dict[str, np.ndarray]:
        # dimension, design and seed decide the directions as much as the coordinates: they belong under the hash
        header = json.dumps([self.dimension, self.design, self.seed]).encode("utf-8")
        return {"coordinates": self.coordinates, "header": np.frombuffer(header, dtype=np.uint8)}


def gradient_canaries(
    dimension: int, count: int, seed: int, design: str = "dirac", reachable: np.ndarray | None = None
) -> GradientCanaries:
    """`count` directions. reachable (dimension,) bool marks coordinates that data gradients reach; Dirac directions
    avoid them. Errors: InputError, with both numbers, when too few coordinates are left."""
    if design == "random":
        return GradientCanaries(np.arange(count), dimension, design, seed)
    free = np.arange(dimension) if reachable is None else np.flatnonzero(~np.asarray(reachable, dtype=bool))
    if count > len(free):
        raise InputError(f"count is {count}, {len(free)} coordinates are free: ask for fewer, or a larger model")
    chosen = numpy_stream(seed, "craft/gradient").choice(free, size=count, replace=False)
    return GradientCanaries(chosen, dimension, design, seed)
