"""Named random streams: one per purpose, so that no two uses of randomness ever share a draw.

A stream is SeedSequence(seed, spawn_key = SHA-256 of the purpose). Purposes in use: pool, craft, coins,
allocation, noise, init, order, shadow/<i>, and any more specific name below them ("noise/3"). Nothing in
coalmine reads or sets a global generator. These generators are not cryptographic: with a seed, a run is for
reproduction; without one, coins and noise start from the operating system's entropy.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

import numpy as np

from .errors import InputError

if TYPE_CHECKING:
    import torch


def fresh_seed() -> int:
    """128 bits from the operating system."""
    return secrets.randbits(128)


def numpy_stream(seed: int, purpose: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(_sequence(seed, purpose)))


def torch_stream(seed: int, purpose: str, device: str | torch.device = "cpu") -> torch.Generator:
    import torch

    generator = torch.Generator(device=device)
    # torch takes one 64-bit seed; the hash behind the sequence keeps different purposes apart.
    generator.manual_seed(int(_sequence(seed, purpose).generate_state(1, np.uint64)[0]))
    return generator


def _sequence(seed: int, purpose: str) -> np.random.SeedSequence:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, got {seed!r}")
    digest = hashlib.sha256(purpose.encode("utf-8")).digest()
    key = tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))
    return np.random.SeedSequence(entropy=int(seed), spawn_key=key)
