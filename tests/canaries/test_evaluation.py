"""Evaluating a set: coins and weights are fresh, sources stay out, and known truths come out."""

import numpy as np
import pytest
import torch
from torch import nn

from coalmine.audit.craft import craft_for, recipe
from coalmine.audit.evaluate import evaluate_canaries, evaluation_run, mean_interval, summary
from coalmine.audit.training.data import Data
from coalmine.canaries import craft
from coalmine.foundation import InputError

STREAM = np.random.default_rng(0)
Y = np.arange(60) % 3
X = np.clip(STREAM.random((60, 6)) * 0.5 + 0.2 * Y[:, None], 0, 1).astype(np.float32)
DATA = Data(X[:50], Y[:50], X[50:], Y[50:], ("a", "b", "c"), (0.0, 1.0), "made", "f")


class Memory(nn.Module):
    """Knows the label of every row it was given, and says nothing of others."""

    def __init__(self, x, y, certain=20.0):
        super().__init__()
        self.known = {row.tobytes(): int(label) for row, label in zip(x, y, strict=True)}
        self.certain = nn.Parameter(torch.tensor(certain))

    def forward(self, x):
        z = torch.zeros(len(x), 3)
        for i, row in enumerate(x.numpy()):
            if row.tobytes() in self.known:
                z[i, self.known[row.tobytes()]] = self.certain
        return z


def remember(x, y, membership, seeds):
    return [Memory(x[members], y[members]) for members in membership]


def forget(x, y, membership, seeds):
    return [Memory(x[:0], y[:0]) for _ in membership]


def test_perfect_memory_is_told_perfectly_and_none_not_at_all():
    canaries = craft("noise", X[:50], Y[:50], 3, (0, 1), 80, 0, data_fingerprint="f")
    good = summary(evaluate_canaries(canaries, DATA, remember, 6, 1))
    assert good["true_positive_rate"]["mean"] == 1 and good["auc"]["mean"] == 1
    assert good["epsilon"]["min"] > 1
    none = summary(evaluate_canaries(canaries, DATA, forget, 6, 1))
    assert none["true_positive_rate"]["mean"] == 0 and none["auc"]["mean"] == 0.5
    assert none["epsilon"]["max"] <= good["epsilon"]["min"] and none["tied_losses"]["mean"] == 1


def test_random_scores_rarely_prove_anything():
    """Class A at 95 %: with no signal ε exceeds 0 in at most 5 % of runs, up to the noise of 200 draws."""

    class Guess(nn.Module):
        def __init__(self, seed):
            super().__init__()
            self.p = nn.Parameter(torch.zeros(1))
            self.seed = seed

        def forward(self, x):
            return torch.randn(len(x), 3, generator=torch.Generator().manual_seed(self.seed))

    canaries = craft("noise", X[:50], Y[:50], 3, (0, 1), 80, 0)
    member = np.random.default_rng(1).random((200, 80)) < 0.5
    found = [evaluation_run(Guess(k), canaries, flags, DATA).epsilon > 0 for k, flags in enumerate(member)]
    assert np.mean(found) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def test_coins_and_seeds_are_fresh_in_every_run_and_sources_are_never_trained_on():
    seen = []

    def spy(x, y, membership, seeds):
        seen.append((x, membership, list(seeds)))
        return remember(x, y, membership, seeds)

    canaries = craft("random", X[:50], Y[:50], 3, (0, 1), 20, 0, data_fingerprint="f")
    first = evaluate_canaries(canaries, DATA, spy, 5, 1, together=2)
    assert [len(seeds) for _, _, seeds in seen] == [2, 2, 1]
    assert len({seed for _, _, seeds in seen for seed in seeds}) == 5
    coins = np.concatenate([membership[:, 30:] for _, membership, _ in seen])
    assert len(np.unique(coins, axis=0)) == 5
    assert all(membership[:, :30].all() and len(x) == 50 for x, membership, _ in seen)
    assert [run.members for run in first] == coins.sum(1).tolist()
    assert evaluate_canaries(canaries, DATA, remember, 5, 1) == first  # the batch of models does not matter
    assert evaluate_canaries(canaries, DATA, remember, 5, 2) != first


def test_intervals_are_student_intervals():
    mean, half = mean_interval([1.0, 2.0, 3.0])
    assert mean == 2 and half == pytest.approx(4.302652729911275 / np.sqrt(3))
    assert mean_interval([5.0]) == (5.0, None)


def test_what_cannot_be_evaluated_is_refused():
    few = craft("noise", X[:50], Y[:50], 3, (0, 1), 10, 0)
    with pytest.raises(InputError, match="too few"):
        evaluate_canaries(few, DATA, remember)
    foreign = craft("noise", X[:50], Y[:50], 3, (0, 1), 20, 0, data_fingerprint="other")
    with pytest.raises(InputError, match="other data"):
        evaluate_canaries(foreign, DATA, remember)
    with pytest.raises(InputError, match="runs"):
        evaluate_canaries(craft("noise", X[:50], Y[:50], 3, (0, 1), 20, 0), DATA, remember, runs=0)


def test_the_whole_way_with_the_real_engine():
    trainer = recipe(DATA, "mlp", steps_per_epoch=2, epochs=3, learning_rate=0.1, momentum=0.9)
    for method in ("greedy", "metagradient"):
        options = {"meta_steps": 1, "replicas": 2} if method == "metagradient" else {}
        canaries = craft_for(DATA, method, 16, 0, trainer, **options)
        assert len(evaluate_canaries(canaries, DATA, trainer, 2, 0)) == 2
    private = recipe(DATA, "mlp", 2, 2, 0.1, noise_multiplier=1.0, clipping_norm=1.0)
    assert len(evaluate_canaries(canaries, DATA, private, 2, 0)) == 2
    with pytest.raises(InputError, match="not known"):
        recipe(DATA, "nothing", 2, 2, 0.1)
