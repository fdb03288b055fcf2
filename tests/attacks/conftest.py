"""The reference arrays and the signals computed from them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from coalmine.attacks import log_confidence, phi


@pytest.fixture(scope="session")
def values():
    return np.load(Path(__file__).parents[1] / "data" / "attacks" / "lira_values.npz", allow_pickle=False)


@pytest.fixture(scope="session")
def signals(values):
    labels, population = values["labels"], values["pop_labels"]
    arrays = SimpleNamespace(
        shadow_phi=phi(values["shadow_logits"], labels[None, :, None]),
        target_phi=phi(values["target_logits"], labels[:, None]),
        keep=values["keep"],
        shadow=log_confidence(values["shadow_logits"][:, :, 0], labels[None]),
        target=log_confidence(values["target_logits"][:, 0], labels),
        population_shadow=log_confidence(values["pop_shadow_logits"][:, :, 0], population[None]),
        population_target=log_confidence(values["pop_target_logits"][:, 0], population),
        names=[str(name) for name in values["edge_names"]],
    )
    for array in vars(arrays).values():
        if isinstance(array, np.ndarray):
            array.setflags(write=False)  # no attack may write to what it is given
    return arrays
