"""Ask a torch model for its logits, the same way every time.

Always in eval mode (BatchNorm in train mode would make a score depend on its batch, and would change the model even
under no_grad), fixed views, fixed order, no global generator. The module's own mode, submodule by submodule, is
restored. Two queries give equal bits; a short last batch is filled up, so that every batch runs the same kernels.
Other batch sizes agree to the rounding of the model's own number type: matrix kernels differ with the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ..foundation import InputError


@dataclass(frozen=True)
class View:
    """An image, mirrored or not, moved by (down, right) pixels; what leaves is lost, what enters is the edge value."""

    mirror: bool = False
    down: int = 0
    right: int = 0

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        if self == IDENTITY:
            return images
        if images.ndim < 3:
            raise InputError(
                f"views other than the identity need images (n, …, height, width), got shape {tuple(images.shape)}"
            )
        moved = images.flip(-1) if self.mirror else images
        for axis, by in ((-2, self.down), (-1, self.right)):
            if by:
                size = moved.shape[axis]
                index = (torch.arange(size, device=moved.device) - by).clamp(0, size - 1)
                moved = moved.index_select(axis, index)
        return moved


IDENTITY = View()


def view_list(names: str | Sequence[str] = "identity") -> tuple[View, ...]:
    """The views of a list such as "identity", "mirror", "shift1": two for the mirror, (2k+1)² for shifts up to k.

    "mirror" with "shift1" gives the 18 views of the LiRA paper's code (every shift, plain and mirrored).
    The identity is always view 0: attacks that use one view use that one.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    reach, mirrored = 0, False
    for name in wanted:
        if name == "mirror":
            mirrored = True
        elif name.startswith("shift") and name[5:].isdigit() and int(name[5:]) > 0:
            reach = max(reach, int(name[5:]))
        elif name != "identity":
            raise InputError(f"view {name!r} is unknown: use identity, mirror, shift1, shift2, …")
    shifts = [(d, r) for d in range(-reach, reach + 1) for r in range(-reach, reach + 1)]
    shifts.sort(key=lambda s: (abs(s[0]) + abs(s[1]), s))
    return tuple(View(mirror, d, r) for d, r in shifts for mirror in ((False, True) if mirrored else (False,)))


def query_logits(
    model: nn.Module,
    x: Any,
    *,
    views: Sequence[View] = (IDENTITY,),
    batch_size: int = 256,
    device: str | torch.device | None = None,
) -> np.ndarray:
    """Logits (n, views, classes), in the model's float type (float32 for half types).

    x: (n, …) numpy or torch. A model that answers (n,) is one sigmoid output: classes = 1.
    device: where to run; default the model's own. The model is moved there and stays there.
    """
    return np.concatenate([batch for _, batch in query_batches(model, x, views, batch_size, device)])


def query_batches(
    model: nn.Module,
    x: Any,
    views: Sequence[View] = (IDENTITY,),
    batch_size: int = 256,
    device: str | torch.device | None = None,
) -> Iterator[tuple[slice, np.ndarray]]:
    """The same batch by batch, for whoever keeps less than the logits: (rows, their logits (rows, views, classes))."""
    if batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size}")
    if not views:
        raise InputError("views must not be empty: use (IDENTITY,)")
    inputs = torch.as_tensor(x)
    if len(inputs) == 0:
        raise InputError("x must hold at least one example, got none")
    where = torch.device(device) if device is not None else _device_of(model)
    if device is not None:
        model.to(where)
    size = min(batch_size, len(inputs))
    with _eval_mode(model), torch.no_grad():
        for start in range(0, len(inputs), size):
            batch = inputs[start : start + size]
            answers = [_answer(model, view, batch, where, size) for view in views]
            yield slice(start, start + len(batch)), np.stack(answers, axis=1)


def _answer(model: nn.Module, view: View, batch: torch.Tensor, where: torch.device, size: int) -> np.ndarray:
    rows = len(batch)
    batch = view(batch.to(where))
    if rows < size:  # the short last batch, filled up with its first row
        batch = torch.cat([batch, batch[:1].expand(size - rows, *batch.shape[1:])])
    logits = model(batch)
    if not isinstance(logits, torch.Tensor):
        logits = getattr(logits, "logits", logits)  # Hugging Face models answer with an object
    if not isinstance(logits, torch.Tensor) or logits.ndim not in (1, 2) or len(logits) != len(batch):
        shape = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise InputError(f"the model must answer a batch of {len(batch)} with (batch, classes) logits, got {shape}")
    if logits.ndim == 1:
        logits = logits[:, None]
    if logits.element_size() < 4:
        logits = logits.float()
    return logits[:rows].cpu().numpy()


@contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _device_of(model: nn.Module) -> torch.device:
    for tensor in (*model.parameters(), *model.buffers()):
        return tensor.device
    return torch.device("cpu")
