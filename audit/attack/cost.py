"""What the next stronger attack would cost here: a few training steps of the target's own architecture, timed."""

from __future__ import annotations

import time
from copy import deepcopy

import numpy as np
import torch

from ..training.gradients import classification_loss
from .candidates import Candidates
from .target import Target

SHADOWS = 8
BATCH = 64
LONGEST = 0.5  # seconds of timing


def seconds_an_epoch(target: Target, rows: Candidates) -> float | None:
    """Of one shadow, trained on half of the rows, one after another on this device; None where it cannot be timed."""
    if target.model is None:
        return None
    model = deepcopy(target.module)
    where = next((p.device for p in model.parameters()), torch.device("cpu"))
    few = np.arange(min(BATCH, len(rows.y)))
    x, y = torch.as_tensor(rows.x[few]).to(where), torch.as_tensor(rows.y[few]).to(where)
    began, fastest = time.perf_counter(), float("inf")
    try:
        model.train()
        while time.perf_counter() - began < LONGEST:
            step = time.perf_counter()
            answers = model(x)
            loss = classification_loss(getattr(answers, "logits", answers), y).mean()
            torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad])
            fastest = min(fastest, time.perf_counter() - step)
    except (RuntimeError, TypeError, ValueError):  # a program or a model that cannot be trained
        return None
    each = fastest
    return each / len(few) * len(rows.y) / 2


def told_cost(target: Target, rows: Candidates) -> str:
    """In words, with the epochs where a record tells them."""
    each = seconds_an_epoch(target, rows)
    if each is None:
        return f"{SHADOWS} trainings of yours on half of the rows"
    epochs = None if target.run is None or target.run.settings is None else target.run.settings.get("epochs")
    if isinstance(epochs, int):
        return f"{SHADOWS} shadows of this recipe: about {_duration(each * SHADOWS * epochs)} here"
    return f"{SHADOWS} shadows: about {_duration(each * SHADOWS)} an epoch here"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
