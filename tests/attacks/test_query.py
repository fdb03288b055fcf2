"""Asking a model: eval mode always, batch sizes, views, devices and odd models."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from coalmine.attacks import phi
from coalmine.attacks.query import IDENTITY, View, query_logits, view_list
from coalmine.foundation import InputError


def network(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(4 * 36, 3)
        )
        model(torch.randn(50, 1, 8, 8))  # running statistics that are not the initial ones
    return model


IMAGES = np.random.default_rng(0).normal(size=(23, 1, 8, 8)).astype(np.float32)


def test_batch_sizes_agree_and_a_second_query_is_equal_to_the_bit():
    model = network()
    whole = query_logits(model, IMAGES, batch_size=23)
    assert whole.shape == (23, 1, 3) and whole.dtype == np.float32
    for size in (1, 7, 10_000):
        np.testing.assert_allclose(query_logits(model, IMAGES, batch_size=size), whole, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(query_logits(model, IMAGES, batch_size=7), query_logits(model, IMAGES, batch_size=7))
    double = network().double()
    exact = query_logits(double, IMAGES.astype(np.float64), batch_size=23)
    for size in (1, 7):
        np.testing.assert_allclose(query_logits(double, IMAGES.astype(np.float64), batch_size=size), exact, rtol=1e-12)


def test_a_model_in_train_mode_is_asked_in_eval_mode_and_left_as_it_was():
    model = network().train()
    model[1].eval()  # a frozen BatchNorm inside a model in train mode
    modes = [m.training for m in model.modules()]
    state = copy.deepcopy(model.state_dict())
    answer = query_logits(model, IMAGES, batch_size=4)
    assert [m.training for m in model.modules()] == modes
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, state[key]), key
    np.testing.assert_array_equal(answer, query_logits(network().eval(), IMAGES, batch_size=4))
    assert all(p.grad is None for p in model.parameters())


def test_mode_is_restored_after_an_error():
    model = network().train()
    with pytest.raises(RuntimeError):
        query_logits(model, np.zeros((2, 3, 8, 8), dtype=np.float32))
    assert model.training


def test_order_of_rows_is_kept():
    """ART #1165: shuffled rows."""
    order = np.random.default_rng(1).permutation(23)
    straight = query_logits(network(), IMAGES, batch_size=5)
    np.testing.assert_allclose(
        query_logits(network(), IMAGES[order], batch_size=5), straight[order], rtol=1e-5, atol=1e-6
    )


def test_views():
    assert view_list("identity") == (IDENTITY,)
    assert view_list(["mirror"]) == (IDENTITY, View(mirror=True))
    assert len(view_list(["mirror", "shift1"])) == 18
    assert len(view_list(["mirror", "shift2"])) == 50
    assert view_list(["mirror", "shift1"])[0] == IDENTITY
    image = torch.arange(9.0).reshape(1, 1, 3, 3)
    assert View(mirror=True)(image)[0, 0, 0].tolist() == [2, 1, 0]
    assert View(down=1)(image)[0, 0].tolist() == [[0, 1, 2], [0, 1, 2], [3, 4, 5]]
    assert View(right=-1)(image)[0, 0, 0].tolist() == [1, 2, 2]
    model = network()
    answers = query_logits(model, IMAGES, views=view_list("mirror"))
    np.testing.assert_array_equal(answers[:, 1], query_logits(model, IMAGES[..., ::-1].copy())[:, 0])
    with pytest.raises(InputError, match="flip"):
        view_list("flip")
    with pytest.raises(InputError, match="images"):
        query_logits(nn.Linear(4, 2), np.zeros((3, 4), dtype=np.float32), views=view_list("mirror"))


def test_one_output_scripted_and_half_models():
    linear = nn.Linear(4, 1)
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    flat = nn.Sequential(linear, nn.Flatten(0))
    assert query_logits(flat, x).shape == (6, 1, 1)
    assert phi(query_logits(linear, x)[:, 0], [0, 1, 0, 1, 0, 1]).shape == (6,)
    scripted = torch.jit.script(network())
    np.testing.assert_array_equal(query_logits(scripted, IMAGES), query_logits(network(), IMAGES))
    assert query_logits(nn.Linear(4, 2).bfloat16(), torch.tensor(x).bfloat16()).dtype == np.float32


def test_wrong_models_and_arguments_are_named():
    x = np.zeros((3, 4), dtype=np.float32)
    with pytest.raises(InputError, match="logits"):
        query_logits(nn.Unflatten(1, (2, 2)), x)
    with pytest.raises(InputError, match="batch_size"):
        query_logits(nn.Linear(4, 2), x, batch_size=0)
    with pytest.raises(InputError, match="at least one example"):
        query_logits(nn.Linear(4, 2), x[:0])
