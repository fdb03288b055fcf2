"""The closed-form paper's linear-model attack, run on the stacked engine: bound, pair, optimal attack, measured.

    python reports/experiments/linear_model_attack.py [folder] [trials]

Ertan and van Dijk, arXiv:2610.09651, Table 2: w in R^16, loss -<w, x>, M = 128, E = 125, N0 = 16, C = 1, learning rate
B0, 12 records of zero and the target 2C x̂ in or out by a fair coin. The released w gives <w, x̂>/(σ C sqrt(E M)), which
is N(0, 1) or N(mu, 1), mu = sqrt(E/M)/σ; guessed "member" above mu/2. Every trial trains a model by `train_epochs`.
Writes linear_model_attack.csv: three σ, each with n and a Clopper-Pearson interval at 95 % (independent trainings).
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from coalmine.audit.bounds import RandomAllocation
from coalmine.audit.estimators import clopper_pearson
from coalmine.audit.training.engine import initial_stack, train_epochs
from coalmine.audit.training.settings import TrainingSettings
from coalmine.foundation import numpy_stream, write_text

STEPS, EPOCHS, SIZE, ZEROS, N0 = 128, 125, 16, 12, 16
PUBLISHED = {
    5.039: (0.55, 0.5394, 0.5391, 0.533),
    3.994: (0.564, 0.55, 0.5492, 0.552),
    1.561: (0.7, 0.6374, 0.6242, 0.613),
}


class Linear(nn.Module):
    """Loss -<w, x> up to a constant, for label 1: the output is always 0, and its derivative by w is 2x."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(SIZE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        u = x @ self.w
        return 2 * (u - u.detach())[:, None]  # the loss of an output of 0 has slope -1/2


def trials(sigma: float, count: int, seed: int, together: int = 300) -> tuple[int, int]:
    """(right guesses, trials): count independent trainings, each with its own coin."""
    direction = np.zeros(SIZE, np.float32)
    direction[0] = 1.0
    x = torch.from_numpy(np.concatenate([np.zeros((ZEROS, SIZE), np.float32), 2 * direction[None]]))
    y = torch.ones(ZEROS + 1, dtype=torch.int64)
    settings = TrainingSettings(STEPS, EPOCHS, N0 / STEPS, float(N0), sigma, 1.0)
    coins = numpy_stream(seed, f"coins/{sigma}").random(count) < 0.5
    seeds = numpy_stream(seed, f"trials/{sigma}").integers(2**62, size=count)
    right = 0
    for start in range(0, count, together):
        members = coins[start : start + together]
        stack = initial_stack(lambda _: Linear(), [int(s) for s in seeds[start : start + together]])
        keep = np.ones((len(members), ZEROS + 1), bool)
        keep[:, -1] = members
        for _ in train_epochs(stack, x, y, keep, settings):
            pass
        statistic = stack.theta.numpy() @ direction / (sigma * math.sqrt(EPOCHS * STEPS))
        right += int(((statistic > math.sqrt(EPOCHS / STEPS) / sigma / 2) == members).sum())
    return right, count


def main(folder: Path, count: int) -> None:
    lines = ["noise_multiplier,closed_form,pair_lower,pair_upper,optimal_attack,measured,lower,upper,trials,published"]
    for sigma, published in PUBLISHED.items():
        claim = RandomAllocation(STEPS, EPOCHS, sigma)
        pair = claim.accuracy(width=1e-6)
        optimal = 0.5 * (1 + math.erf(math.sqrt(EPOCHS / STEPS) / sigma / 2 / math.sqrt(2)))
        right, n = trials(sigma, count, 0)
        low, high = clopper_pearson(right, n, 0.95)
        lines.append(
            f"{sigma},{claim.accuracy_bound():.4f},{pair.lower:.5f},{pair.upper:.5f},{optimal:.4f},{right / n:.4f},"
            f"{low:.4f},{high:.4f},{n},{published[3]}"
        )
        print(
            f"{lines[-1]}   (published: bound {published[0]}, pair {published[1]}, attack {published[2]})", flush=True
        )
    write_text(folder / "linear_model_attack.csv", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(
        Path(sys.argv[1] if len(sys.argv) > 1 else "runs/linear_model_attack"),
        int(sys.argv[2]) if len(sys.argv) > 2 else 600,
    )
