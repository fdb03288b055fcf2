"""The built-in architectures: small enough for DP-SGD, and no layer that couples the examples of a batch."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from ...foundation import InputError


def mlp(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two hidden layers of 64 ReLU units. Digits: 8,970 parameters."""
    features = math.prod(input_shape)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, classes)
    )


def cnn(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two 3 × 3 convolutions of 16 and 32 channels, each halved by max-pooling. Digits: 6,090 parameters."""
    channels, height, width = _image(input_shape, "cnn", smallest=4)
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (height // 4) * (width // 4), classes),
    )


def cnn_137k(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Three 3 × 3 convolutions of 32, 64, 128 channels and a hidden layer of 84: 137,190 parameters on 3 × 32 × 32."""
    channels, height, width = _image(input_shape, "cnn-137k", smallest=16)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Linear(128 * (height // 16) * (width // 16), 84),
        nn.ReLU(),
        nn.Linear(84, classes),
    )


def wide_resnet_16_4(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """WRN-16-4 (Zagoruyko & Komodakis, arXiv 1605.07146) with GroupNorm of 16 groups in place of BatchNorm.

    The network that De et al. (arXiv 2204.13650) train with DP-SGD, without their weight standardisation.
    """
    channels, _, _ = _image(input_shape, "wrn16-4", smallest=8)
    return _WideResNet(channels, classes, blocks_per_stage=2, widen=4)


class _WideResNet(nn.Module):
    def __init__(self, channels: int, classes: int, blocks_per_stage: int, widen: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        blocks, width = [], 16
        for stage, stage_width in enumerate((16 * widen, 32 * widen, 64 * widen)):
            for block in range(blocks_per_stage):
                stride = 2 if stage > 0 and block == 0 else 1
                blocks.append(_PreActivationBlock(width, stage_width, stride))
                width = stage_width
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.GroupNorm(16, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.blocks(self.stem(x))))
        return self.head(x.mean(dim=(2, 3)))


class _PreActivationBlock(nn.Module):
    """GroupNorm – ReLU – 3 × 3, twice, plus the shortcut: a 1 × 1 convolution where the shape changes."""

    def __init__(self, width_in: int, width_out: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(16, width_in)
        self.conv1 = nn.Conv2d(width_in, width_out, 3, stride, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(16, width_out)
        self.conv2 = nn.Conv2d(width_out, width_out, 3, padding=1, bias=False)
        same = width_in == width_out and stride == 1
        self.shortcut = None if same else nn.Conv2d(width_in, width_out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        activated = F.relu(self.norm1(x))
        shortcut = x if self.shortcut is None else self.shortcut(activated)
        return shortcut + self.conv2(F.relu(self.norm2(self.conv1(activated))))


def _image(input_shape: tuple[int, ...], name: str, smallest: int) -> tuple[int, int, int]:
    if len(input_shape) != 3 or min(input_shape[1:]) < smallest:
        raise InputError(
            f"model {name!r} needs images (channels, height, width) of at least {smallest} × {smallest}, the data has "
            f"rows of shape {input_shape}: use mlp or a model of your own"
        )
    return input_shape[0], input_shape[1], input_shape[2]
