"""A model with one logit for two classes is the model with the pair (0, z): every method crafts the same set through
either."""

import numpy as np
import pytest
import torch
from torch import nn

from coalmine.audit.craft import Trainer, craft_for
from coalmine.audit.evaluate import evaluate_canaries
from coalmine.audit.training.data import Data
from coalmine.audit.training.settings import TrainingSettings
from coalmine.canaries.clipped_influence import ClippedInfluence
from coalmine.canaries.crafting import WITH_MODELS
from coalmine.canaries.diagnosis import diagnose
from coalmine.canaries.refinement import Refinement
from coalmine.foundation.classification import class_logits, classification_loss

STREAM = np.random.default_rng(0)
Y = np.arange(60) % 2
X = np.clip(STREAM.random((60, 6)) * 0.6 + 0.3 * Y[:, None], 0, 1).astype(np.float32)
DATA = Data(X[:50], Y[:50], X[50:], Y[50:], ("no", "yes"), (0.0, 1.0), "made", "f")


class Scorer(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.first, self.head, self.columns = nn.Linear(6, 8), nn.Linear(8, 1), columns

    def forward(self, x):
        z = self.head(torch.nn.functional.gelu(self.first(x)))
        return {0: z[..., 0], 1: z, 2: torch.cat([torch.zeros_like(z), z], dim=-1)}[self.columns]


def trainer(columns, clipping_norm=None):
    def build(seed):
        with torch.random.fork_rng():
            torch.manual_seed(seed % 2**31)
            return Scorer(columns)

    return Trainer(build, TrainingSettings(3, 4, 0.3, 50.0, clipping_norm=clipping_norm, sampler="fixed_size"))


def crafted(method, columns):
    options: dict = {}
    if method == "ibis":
        options = {"refinement": Refinement(replicas=2, restarts=2, steps=3, warmup=1)}
    if method == "metagradient":
        options = {"meta_steps": 1, "replicas": 2}
    if method == "clipped_influence":
        options = {"settings": ClippedInfluence(models=2, steps=3, fisher_rows=20)}
    clipping = 1.0 if method == "clipped_influence" else None
    return craft_for(DATA, method, 16, 3, trainer(columns, clipping), **options)


@pytest.mark.parametrize("method", WITH_MODELS)
def test_one_logit_crafts_what_two_do(method):
    two = crafted(method, 2)
    for columns in (0, 1):
        one = crafted(method, columns)
        np.testing.assert_array_equal(one.y, two.y)
        np.testing.assert_array_equal(one.source_index, two.source_index)
        np.testing.assert_allclose(one.x, two.x, atol=2e-3)


def test_one_logit_is_diagnosed_and_evaluated():
    canaries = crafted("mislabelled", 1)
    one, two = (evaluate_canaries(canaries, DATA, trainer(columns), 2, 0) for columns in (1, 2))
    assert [run.auc for run in one] == pytest.approx([run.auc for run in two], abs=0.05)
    stay = np.ones((1, 50), bool)
    ranks = [diagnose(canaries, trainer(c)(X[:50], Y[:50], stay, [1]))["effective_rank"] for c in (1, 2)]
    assert ranks[0] == pytest.approx(ranks[1], rel=1e-3)


def test_the_pair_has_the_loss_of_the_logit():
    z, y = torch.randn(9, 1, generator=torch.Generator().manual_seed(0)).double(), torch.arange(9) % 2
    for logits in (z, z[:, 0]):
        torch.testing.assert_close(classification_loss(class_logits(logits), y), classification_loss(logits, y))
    assert class_logits(torch.zeros(4, 3)).shape == (4, 3)
