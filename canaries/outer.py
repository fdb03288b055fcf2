"""What a refinement moves: the canaries' inputs with Adam's moments (Kingma & Ba, arXiv 1412.6980), and its checkpoint.

A step may move some of the canaries only. Each canary then has moments and a count of moves of its own, and rests
untouched between its moves: without the count, the bias correction of rarely drawn canaries would be wrong.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..foundation import InputError, write_bytes
from ..foundation.tensor_file import content_sha256, pack, unpack

TENSORS = ("canaries", "first", "second", "counts")
KEPT = "kept_"  # and the number of the restart


@dataclass
class Outer:
    """C and Adam's moments, (m, …) each; counts (m,) int64, how often each canary has moved; how many steps have moved
    any; and iterates kept by the number of the restart that measured them."""

    canaries: Tensor
    first: Tensor
    second: Tensor
    counts: Tensor
    moves: int = 0
    kept: dict[int, Tensor] = field(default_factory=dict)

    @classmethod
    def starting(cls, canaries: Tensor) -> Outer:
        counts = torch.zeros(len(canaries), dtype=torch.int64, device=canaries.device)
        return cls(canaries, torch.zeros_like(canaries), torch.zeros_like(canaries), counts)

    def move(self, direction: Tensor, size: Tensor, low: Tensor, high: Tensor, chosen: Tensor | None = None) -> None:
        """An Adam step of length `size` against direction (m, …), clipped to [low, high]; `chosen` (k,): only those."""
        rows = slice(None) if chosen is None else chosen
        self.moves += 1
        self.counts[rows] += 1
        direction = direction[rows]
        first = self.first[rows].mul_(0.9).add_(direction, alpha=0.1)
        second = self.second[rows].mul_(0.99).addcmul_(direction, direction, value=0.01)
        mean = first / self._unbiased(0.9, rows)
        spread = (second / self._unbiased(0.99, rows)).sqrt()
        self.canaries[rows] = self.canaries[rows].sub(size * mean / (spread + 1e-12)).clamp(low, high)
        self.first[rows], self.second[rows] = first, second

    def _unbiased(self, decay: float, rows: Tensor | slice) -> Tensor:
        """1 − decay^count of each row, shaped to divide its moments."""
        share = 1 - decay ** self.counts[rows].double()
        return share.to(self.first.dtype).view(-1, *[1] * (self.first.dim() - 1))


def save(path: str | Path, outer: Outer, log: list[dict[str, Any]], identity: str) -> None:
    """Write the state after a restart, with the log so far. `identity` tells which refinement it belongs to."""
    tensors = {name: getattr(outer, name).cpu().numpy() for name in TENSORS}
    tensors |= {f"{KEPT}{restart}": iterate.cpu().numpy() for restart, iterate in outer.kept.items()}
    metadata = {
        "kind": "refinement",
        "identity": identity,
        "log": json.dumps(log),
        "moves": str(outer.moves),
        "content_sha256": content_sha256(tensors),
    }
    write_bytes(path, pack(tensors, metadata))


def resume(
    path: str | Path | None, start: np.ndarray, identity: str, device: torch.device
) -> tuple[Outer, list[dict[str, Any]]]:
    """(state, log) of the file, or of the start where there is none. Errors: InputError for a file that is damaged or
    belongs to another refinement."""
    if path is None or not Path(path).exists():
        return Outer.starting(torch.from_numpy(start.copy()).to(device)), []
    tensors, metadata = unpack(path, "refinement checkpoint")
    damaged = f"refinement checkpoint {str(path)!r} is damaged or something else: delete it to start again"
    if metadata.get("kind") != "refinement" or metadata.get("content_sha256") != content_sha256(tensors):
        raise InputError(damaged)
    kept = {name: tensors.pop(name) for name in list(tensors) if name.startswith(KEPT) and name[len(KEPT) :].isdigit()}
    if metadata.get("identity") != identity or set(tensors) != set(TENSORS):
        raise InputError(
            f"refinement checkpoint {str(path)!r} belongs to another start, recipe, seed or settings, or to an older "
            "version: delete it, or name another output"
        )
    expected = dict.fromkeys(TENSORS, (start.shape, np.float32)) | {"counts": (start.shape[:1], np.int64)}
    sound = all((t.shape, t.dtype) == expected[name] and np.isfinite(t).all() for name, t in tensors.items())
    sound &= all((t.shape, t.dtype) == (start.shape, np.float32) and np.isfinite(t).all() for t in kept.values())
    try:
        moves, log = int(metadata["moves"]), json.loads(metadata["log"])
    except (KeyError, ValueError):
        raise InputError(damaged) from None
    if not sound or moves < 0 or not isinstance(log, list) or not all(isinstance(record, dict) for record in log):
        raise InputError(damaged)
    state = {name: torch.from_numpy(tensors[name].copy()).to(device) for name in TENSORS}
    iterates = {int(name[len(KEPT) :]): torch.from_numpy(t.copy()).to(device) for name, t in kept.items()}
    return Outer(**state, moves=moves, kept=iterates), log
