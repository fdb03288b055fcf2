"""Random mirror and shift of images, one draw per example from the model's own generator."""

from __future__ import annotations

import torch
from torch.nn.functional import pad

from ...foundation import InputError

SHIFT = 4  # pixels for 32 x 32, the usual pad-and-crop; smaller images shift in proportion


def flip_shift(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mirror each image with probability 1/2 and shift it by up to SHIFT/32 of its width, zeros moving in.

    x (B, C, H, W) -> the same shape; x itself is not changed.
    """
    if x.dim() != 4:
        raise InputError(
            f"augmentation 'flip_shift' needs images (n, channels, height, width), got shape {tuple(x.shape)}"
        )
    count, _, height, width = x.shape
    reach = max(1, round(SHIFT * width / 32))
    mirrored = torch.rand(count, generator=generator, device=x.device) < 0.5
    down, right = torch.randint(0, 2 * reach + 1, (2, count), generator=generator, device=x.device)
    x = torch.where(mirrored[:, None, None, None], x.flip(-1), x)
    padded = pad(x, (reach, reach, reach, reach))
    rows = down[:, None] + torch.arange(height, device=x.device)
    columns = right[:, None] + torch.arange(width, device=x.device)
    example = torch.arange(count, device=x.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[example, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
