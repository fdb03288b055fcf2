"""Training one model after another equals the stacked engine, and trains what cannot be stacked."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from coalmine.audit.recipe import engine_recipe
from coalmine.audit.rows import universe
from coalmine.audit.training.data import checked_data
from coalmine.audit.training.engine import train_many
from coalmine.audit.training.models import build_model
from coalmine.audit.training.sequential import train_sequentially
from coalmine.audit.training.settings import TrainingSettings
from coalmine.foundation import torch_stream

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(30, 1, 4, 4)).astype(np.float32), RANDOM.integers(0, 3, 30)
KEEP = RANDOM.random((3, 30)) < 0.5


class Recurrent(nn.Module):
    """A GRU over the rows of an image: per-example gradients of it cannot be taken under vmap."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(4, 5, batch_first=True), nn.Linear(5, 3)
        generator = torch_stream(seed, "init")
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, generator=generator) * 0.3)

    def forward(self, x):
        return self.head(self.gru(x[:, 0])[0][:, -1])


def recurrent(input_shape, classes, seed):
    return Recurrent(seed)


@pytest.mark.parametrize("sampler", ["random_allocation", "poisson", "full_batch"])
@pytest.mark.parametrize("private", [{}, {"clipping_norm": 0.5, "noise_multiplier": 0.8}])
def test_equals_the_stacked_engine(sampler, private):
    settings = TrainingSettings(
        steps_per_epoch=5, epochs=3, learning_rate=0.2, public_size=15, momentum=0.5, sampler=sampler, **private
    )
    build = partial(build_model, "mlp", (1, 4, 4), 3)
    stacked = train_many(build, X, Y, KEEP, (1, 2, 3), settings)
    alone = train_sequentially(build, X, Y, KEEP, (1, 2, 3), settings)
    for a, b in zip(stacked, alone, strict=True):
        for p, q in zip(a.parameters(), b.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
        assert not b.training


def test_a_model_that_cannot_be_stacked_is_trained_anyway_and_says_so(monkeypatch, tmp_path):
    (tmp_path / "recurrent_of_tests.py").write_text(
        "import importlib.util\n"
        f"spec = importlib.util.spec_from_file_location('holder', {__file__!r})\n"
        "holder = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(holder)\n"
        "recurrent = holder.recurrent\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    data = checked_data("small", X, Y, X[:6], Y[:6], classes=("a", "b", "c"))
    settings = TrainingSettings(
        steps_per_epoch=3, epochs=1, learning_rate=0.2, public_size=15, clipping_norm=1.0, noise_multiplier=0.5
    )
    recipe = engine_recipe(universe(data), "recurrent_of_tests:recurrent", settings)
    assert "one model after another" in recipe.identity["training"]
    models = recipe.train_many(KEEP, (1, 2, 3))
    assert len(models) == 3 and all(torch.isfinite(p).all() for m in models for p in m.parameters())
    assert engine_recipe(universe(data), "mlp", settings).identity["training"] == "stacked"


def test_an_empty_batch_still_takes_its_noise():
    settings = TrainingSettings(
        steps_per_epoch=40, epochs=1, learning_rate=0.1, public_size=1, clipping_norm=1.0, noise_multiplier=1.0
    )
    build = partial(build_model, "mlp", (1, 4, 4), 3)
    nobody = np.zeros((1, 30), bool)
    model = train_sequentially(build, X, Y, nobody, (5,), settings)[0]
    initial = build(5)
    change = torch.cat([(p - q).flatten() for p, q in zip(model.parameters(), initial.parameters(), strict=True)])
    expected = 0.1 * 40 * np.sqrt(40)  # learning rate / divisor (1/40) times sqrt(40) steps of unit noise
    assert float(change.detach().std()) == pytest.approx(expected, rel=0.1)
