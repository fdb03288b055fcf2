"""The probe is what it says: known gradients, orthogonal rows, coordinates of noise alone, rows with their numbers."""

import numpy as np
import pytest
import torch
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from coalmine.canaries.probe import GIANT_LENGTH, SOLO_LENGTH, ProbeModel, make_probe
from coalmine.foundation import InputError


@pytest.fixture(scope="module")
def probe():
    return make_probe(120, 0)


def test_gradients_are_those_of_the_model_whatever_its_weights(probe):
    model = probe.model()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_()
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss(weights, x, y):
        return cross_entropy(functional_call(model, weights, (x[None],)), y[None])

    found = vmap(grad(loss), (None, 0, 0))(weights, torch.from_numpy(probe.x), torch.from_numpy(probe.y))
    flat = torch.cat([g.flatten(1) for g in found.values()], dim=1).numpy()
    np.testing.assert_allclose(flat, probe.gradients, rtol=1e-5, atol=1e-12)


def test_lengths_by_kind(probe):
    long = np.char.startswith(probe.kind, "solo") | np.char.startswith(probe.kind, "choir") | (probe.kind == "spread")
    np.testing.assert_allclose(probe.lengths[long], SOLO_LENGTH, rtol=1e-3)
    np.testing.assert_allclose(probe.lengths[probe.kind == "giant"], GIANT_LENGTH, rtol=1e-3)
    np.testing.assert_allclose(probe.lengths[probe.kind == "ladder/10"], 10, rtol=1e-3)


def test_rows_of_their_own_are_orthogonal_and_free_coordinates_are_free(probe):
    own = probe.own[~np.char.startswith(probe.kind, "choir")]
    cosine = own @ own.T
    assert np.abs(cosine - np.diag(np.diag(cosine))).max() == 0
    assert np.all(probe.gradients[:, probe.free] == 0)
    for place in probe.slices.values():  # every parameter, biases too, has coordinates for the noise alone
        assert probe.free[place].sum() >= 4


def test_silenced_rows_are_there_and_contribute_next_to_nothing(probe):
    rows = np.arange(0, 120, 3)
    x = probe.silenced(rows)
    model = probe.model()
    assert np.array_equal(model.rows_of(torch.from_numpy(x)), np.arange(120))
    for row in rows[:10]:
        model.zero_grad()
        cross_entropy(model(torch.from_numpy(x[row : row + 1])), torch.from_numpy(probe.y[row : row + 1])).backward()
        length = torch.sqrt(sum(p.grad.square().sum() for p in model.parameters() if p.grad is not None))
        assert 1e-8 < float(length) < 1e-5


@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 400)])
def test_a_probe_of_another_shape(shape):
    probe = make_probe(60, 1, shape=shape, classes=5)
    x = torch.from_numpy(probe.x)
    assert probe.model()(x).shape == (60, 5)
    assert np.array_equal(probe.model().rows_of(x), np.arange(60))


def test_rows_that_were_changed_or_padded_are_told(probe):
    model: ProbeModel = probe.model()
    x = torch.from_numpy(probe.x)
    assert set(model.rows_of((x - 0.4) / 0.3)) == {-2}
    assert set(model.rows_of(torch.zeros_like(x))) == {-1}
    assert len(model.rows_of(x[:0])) == 0


@pytest.mark.parametrize("records", [10, 39])
def test_too_few_records_are_refused(records):
    with pytest.raises(InputError, match="at least 40"):
        make_probe(records, 0)


def test_a_shape_too_small_is_refused():
    with pytest.raises(InputError, match="ask for fewer"):
        make_probe(200, 0, shape=(10, 10))
