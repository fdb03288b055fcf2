"""What a classifier's output means: one logit a class, or for two classes one logit alone. Written once, so that
training, crafting and influence differentiate the same loss."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy


def classification_loss(logits: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy per example (B,): logits (B, classes), or (B, 1) and (B,) for one output and labels 0/1."""
    if logits.dim() == 1 or logits.shape[-1] == 1:
        return binary_cross_entropy_with_logits(logits.reshape(y.shape), y.to(logits.dtype), reduction="none")
    return cross_entropy(logits, y, reduction="none")


def class_logits(logits: Tensor) -> Tensor:
    """(B, classes) as they are; of one output, (B, 1) or (B,), the pair (0, z): same loss, softmax and margin."""
    if logits.dim() > 1 and logits.shape[-1] > 1:
        return logits
    z = logits.reshape(-1, 1)
    return torch.cat([torch.zeros_like(z), z], dim=-1)
