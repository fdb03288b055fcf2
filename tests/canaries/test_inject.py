"""Injection: every source row leaves, exactly the members come."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from coalmine.canaries import CanarySet, Coins, craft, draw_coins, inject, remaining_rows
from coalmine.foundation import InputError


class IntLabels(torch.utils.data.Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.as_tensor(self.x[i]), int(self.y[i])


def data(n=20):
    return np.arange(n * 3, dtype=np.float32).reshape(n, 3), np.arange(n) % 4


@given(seed=st.integers(0, 1000), method=st.sampled_from(["random", "noise", "mislabelled"]), count=st.integers(2, 15))
@settings(max_examples=40, deadline=None)
def test_sources_leave_and_members_come(seed, method, count):
    x, y = data()
    canaries = craft(method, x, y, 4, None, count, seed)
    coins = draw_coins(canaries, seed)
    injected = inject(IntLabels(x, y), canaries, coins)
    rows = [i for i in range(20) if i not in set(canaries.source_index)]
    expected_x = np.concatenate([x[rows], canaries.x[coins.member]])
    expected_y = np.concatenate([y[rows], canaries.y[coins.member]])
    assert len(injected) == len(expected_y)
    np.testing.assert_array_equal(np.array([injected[i][0].numpy() for i in range(len(injected))]), expected_x)
    np.testing.assert_array_equal([injected[i][1] for i in range(len(injected))], expected_y)


@pytest.mark.parametrize("tensor_labels", [True, False])
def test_a_loader_batches_rows_and_canaries_together(tensor_labels):
    x, y = data()
    dataset = TensorDataset(torch.tensor(x), torch.tensor(y)) if tensor_labels else IntLabels(x, y)
    canaries = craft("noise", x, y, 4, None, 10, 0)
    injected = inject(dataset, canaries, draw_coins(canaries, 0))
    labels = torch.cat([batch[1] for batch in DataLoader(injected, batch_size=7, shuffle=True)])
    assert labels.dtype == torch.int64 and len(labels) == len(injected)


def test_the_transform_of_the_data_is_applied_to_canaries_too():
    x, y = data()
    canaries = craft("noise", x, y, 4, None, 5, 0)
    coins = Coins(np.ones(5, bool), "0" * 64, canaries.sha256, None)
    injected = inject(IntLabels(x, y), canaries, coins, transform=lambda tensor: tensor * 2)
    np.testing.assert_allclose(injected[len(injected) - 1][0], canaries.x[-1] * 2)


def test_what_does_not_fit_is_refused():
    x, y = data()
    canaries = craft("random", x, y, 4, None, 5, 0)
    coins = draw_coins(canaries, 0)
    with pytest.raises(InputError, match="drawn for"):
        inject(IntLabels(x, y), craft("random", x, y, 4, None, 5, 1), coins)
    with pytest.raises(InputError, match="training data has 3 rows"):
        remaining_rows(CanarySet(x[:1], y[:1], np.array([3]), "m"), 3)
    flat = CanarySet(np.zeros((2, 5), np.float32), np.zeros(2, int), np.full(2, -1), "m")
    with pytest.raises(InputError, match="shape"):
        inject(IntLabels(x, y), flat, Coins(np.ones(2, bool), "0" * 64, flat.sha256, None))


def test_past_the_end_is_an_index_error():
    x, y = data()
    canaries = craft("noise", x, y, 4, None, 5, 0)
    injected = inject(IntLabels(x, y), canaries, draw_coins(canaries, 0))
    with pytest.raises(IndexError):
        injected[len(injected)]


def test_another_data_set_than_the_canaries_were_crafted_from_is_refused():
    x, y = data(25)
    kept = np.arange(25) % 5 != 0
    canaries = craft("random", x[kept], y[kept], 4, None, 6, 0)
    coins = draw_coins(canaries, 0)
    assert canaries.source_rows == 20
    inject(IntLabels(x[kept], y[kept]), canaries, coins)
    with pytest.raises(InputError, match="data with 20 rows, the training data has 25"):
        inject(IntLabels(x, y), canaries, coins)
    with pytest.raises(InputError, match="data with 20 rows, the training data has 25"):
        remaining_rows(canaries, 25)


@pytest.mark.parametrize("method", ["random", "mislabelled", "noise"])
def test_equally_many_other_rows_are_told_by_their_hash(method, tmp_path):
    x, y = data()
    craft(method, x, y, 4, None, 6, 0).save(tmp_path / "set")
    canaries = CanarySet.load(tmp_path / "set")
    coins = draw_coins(canaries, 0)
    inject(IntLabels(x, y), canaries, coins)
    inject(IntLabels(x.astype(np.float64), y), canaries, coins)
    if not len(canaries.sources()):
        return
    for other in (x[::-1].copy(), x / 255):
        with pytest.raises(InputError, match="give the same transform"):
            inject(IntLabels(other, y), canaries, coins)
    inject(IntLabels(x / 255, y), canaries, coins, transform=lambda row: row / 255)


def test_a_set_of_an_older_version_is_read_and_what_cannot_be_checked_is_said():
    x, y = data()
    crafted = craft("random", x, y, 4, None, 6, 0)
    old = CanarySet(crafted.x, crafted.y, crafted.source_index, "random")
    assert old.source_rows is None
    with pytest.warns(UserWarning, match="cannot be checked"):
        inject(IntLabels(x, y), old, draw_coins(old, 0))
