"""For the author of a DP library: is the claimed noise there? Train many small models with it, judge all together.
In a folder of your own:

    coalmine canaries craft --data digits --method binary_noise --count 60
    coalmine claim --mechanism full_batch --steps 60 --noise-multiplier 40
    coalmine repeat --train repeat_my_library:train --canaries canaries.safetensors --claim claim.json --runs 16 --output right
    coalmine repeat --train repeat_my_library:train_with_a_bug --canaries canaries.safetensors --claim claim.json --runs 16 --output wrong

The first is not rejected, the second is. `my_library_step` stands for the library under test: DP gradient descent for
multinomial regression. The bug is a usual one: the noise is divided by the number of records twice.
"""  # noqa: E501

import numpy as np
import torch
from torch import nn

from coalmine.audit.rows import universe
from coalmine.audit.training.data import load_data
from coalmine.canaries import CanarySet
from coalmine.foundation import torch_stream

STEPS, NOISE_MULTIPLIER, CLIPPING_NORM, LEARNING_RATE, PUBLIC_SIZE = 60, 40.0, 1.0, 60.0, 1400.0

# A large step, so that a record shows in the model: what is tested is the noise, not how well the model does.

# The rows that the indices count: natural rows, without those that canaries were made from, then the canaries.
ROWS = universe(load_data("digits"), CanarySet.load("canaries.safetensors"))
X, Y = torch.from_numpy(ROWS.x).flatten(1), torch.from_numpy(ROWS.y)


def my_library_step(weight, x, y, noise_multiplier, generator):
    """One noisy step: per-example gradients of the cross-entropy, clipped, summed, noised, divided by a constant."""
    error = torch.softmax(x @ weight.T, dim=1) - nn.functional.one_hot(y, 10)
    norm = error.norm(dim=1) * x.norm(dim=1)  # of error ⊗ x
    error = error * (CLIPPING_NORM / norm.clamp(min=CLIPPING_NORM))[:, None]
    noise = noise_multiplier * CLIPPING_NORM * torch.randn(weight.shape, generator=generator)
    return weight - LEARNING_RATE * (error.T @ x + noise) / PUBLIC_SIZE


def train(indices: np.ndarray, seed: int, noise_multiplier: float = NOISE_MULTIPLIER) -> nn.Module:
    """What `coalmine repeat` calls once a run: rows `indices`, all randomness from `seed`, a module back."""
    x, y, generator = X[indices], Y[indices], torch_stream(seed, "noise")
    weight = torch.zeros(10, 64)
    for _ in range(STEPS):
        weight = my_library_step(weight, x, y, noise_multiplier, generator)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False))
    with torch.no_grad():
        model[1].weight.copy_(weight)
    return model


def train_with_a_bug(indices: np.ndarray, seed: int) -> nn.Module:
    return train(indices, seed, NOISE_MULTIPLIER / PUBLIC_SIZE)  # my_library_step divides again
