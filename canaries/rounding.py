"""Canaries that an 8-bit image file can hold: 256 equally spaced values over the valid range."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..foundation import InputError
from .canary_set import CanarySet


def round_to_8_bits(canaries: CanarySet) -> CanarySet:
    """The set with each value moved to the nearest of 256 levels. Errors: InputError where no range is stated."""
    if canaries.value_range is None:
        raise InputError("rounding to 8 bits needs a value range, this data states none: leave the values as they are")
    low, high = canaries.value_range
    level = np.round((canaries.x.astype(np.float64) - low) * (255 / (high - low)))
    x = np.clip((low + level * ((high - low) / 255)).astype(np.float32), np.float32(low), np.float32(high))
    return dataclasses.replace(canaries, x=x, parameters=canaries.parameters | {"rounded_to_8_bits": True})
