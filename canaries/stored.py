"""Read a canary file of whichever kind it is."""

from __future__ import annotations

from pathlib import Path

from ..foundation import InputError
from ..foundation.tensor_file import unpack
from .canary_set import CanarySet
from .gradient import GradientCanaries


def load_canaries(path: str | Path) -> CanarySet | GradientCanaries:
    """Errors: InputError when the file is none of ours or damaged."""
    kind = unpack(path, "canary file")[1].get("kind")
    if kind == "example":
        return CanarySet.load(path)
    if kind == "gradient":
        return GradientCanaries.load(path)
    raise InputError(f"canary file {str(path)!r} has kind {kind!r}: 'example' or 'gradient' is needed")
