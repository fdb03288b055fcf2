"""Random mirror and shift of images, drawn for each example from the model's own generator."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from ...foundation import InputError

SHIFT = 4  # pixels for 32 x 32, the usual pad-and-crop; smaller images shift in proportion


@dataclass(frozen=True)
class Moves:
    """What happens to each of B images: mirrored (B,) bool; down and right (B,) in 0 … 2 reach, where reach is stay."""

    mirrored: Tensor
    down: Tensor
    right: Tensor


def reach_of(input_shape: tuple[int, ...]) -> int:
    """How far an image of shape (channels, height, width) is shifted at most. Errors: InputError for other shapes."""
    if len(input_shape) != 3:
        raise InputError(
            f"augmentation 'flip_shift' needs images (channels, height, width), the records have shape {input_shape}"
        )
    return max(1, round(SHIFT * input_shape[-1] / 32))


def draw_moves(count: int, reach: int, generator: torch.Generator) -> Moves:
    """`count` independent draws: mirrored with probability 1/2, shifted uniformly both ways."""
    device = generator.device
    mirrored = torch.rand(count, generator=generator, device=device) < 0.5
    down, right = torch.randint(0, 2 * reach + 1, (2, count), generator=generator, device=device)
    return Moves(mirrored, down, right)


def flip_shift(x: Tensor, moves: Moves, reach: int) -> Tensor:
    """x (B, C, H, W) -> the same shape, zeros moving in at the edges; x itself is not changed."""
    count, _, height, width = x.shape
    x = torch.where(moves.mirrored[:, None, None, None], x.flip(-1), x)
    padded = pad(x, (reach, reach, reach, reach)).permute(0, 2, 3, 1)
    rows = moves.down[:, None] + torch.arange(height, device=x.device)
    columns = moves.right[:, None] + torch.arange(width, device=x.device)
    example = torch.arange(count, device=x.device)[:, None, None]
    return padded[example, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
