"""Crafted rows of a table are rows that an encoder could have written, and fixed columns stay."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from coalmine.audit.cli import main
from coalmine.audit.craft import craft_warnings
from coalmine.audit.training.data import checked_data
from coalmine.canaries import CanarySet, craft
from coalmine.canaries.clipped_influence import ClippedInfluence
from coalmine.canaries.columns import columns_of
from coalmine.canaries.refinement import Refinement
from coalmine.canaries.unrolled import InnerTraining
from coalmine.foundation import InputError

STREAM = np.random.default_rng(0)
N = 60
Y = np.arange(N) % 3
KINDS = np.eye(4, dtype=np.float32)[np.arange(N) % 4]
PAIR = np.eye(2, dtype=np.float32)[np.arange(N) // 7 % 2]
X = np.column_stack(  # 0-1 measured, 2 counted, 3-6 one of four, 7 measured, 8-9 one of two, 10 yes or no
    [
        STREAM.normal(size=(N, 2)) + Y[:, None],
        np.arange(N) % 5,
        KINDS,
        STREAM.normal(size=N),
        PAIR,
        np.arange(N) % 3 == 0,
    ]
).astype(np.float32)
FIXED = (1, 10)


def legal(x):
    own = np.isin(x[:, 2], np.arange(5)) & np.isin(x[:, 10], (0, 1))
    return own & (np.sort(x[:, 3:7]) == [0, 0, 0, 1]).all(1) & (np.sort(x[:, 8:10]) == [0, 1]).all(1)


def test_a_table_tells_which_columns_are_discrete_and_which_belong_together():
    found = columns_of(X, True, FIXED)
    assert [group.tolist() for group in found.groups] == [[3, 4, 5, 6], [8, 9]]
    assert set(found.levels) == {2} and found.levels[2].tolist() == [0, 1, 2, 3, 4]
    assert np.flatnonzero(found.fixed).tolist() == [1, 10] and np.flatnonzero(found.free() == 0).tolist() == [1, 10]
    assert not columns_of(X, False).groups and not columns_of(np.zeros((5, 1, 4, 4), np.float32), True).levels
    for wrong in ((11,), (-1,), (True,)):
        with pytest.raises(InputError, match="columns are 0 to 10"):
            columns_of(X, True, wrong)
    with pytest.raises(InputError, match="all 11 columns"):
        columns_of(X, True, range(11))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_legal_rows_are_legal_and_stay(seed):
    found, x = columns_of(X, True), np.random.default_rng(seed).normal(size=(20, 11)).astype(np.float32)
    once = found.legal(x)
    assert legal(once).all()
    np.testing.assert_array_equal(found.legal(once), once)
    np.testing.assert_array_equal(found.legal(X), X)  # natural rows are what they are
    np.testing.assert_array_equal(once[:, [0, 1, 7]], x[:, [0, 1, 7]])


def train_many(x, y, membership, seeds):
    models = []
    for members, seed in zip(membership, seeds, strict=True):
        model = build(seed)
        optimizer = torch.optim.SGD(model.parameters(), 0.2)
        for _ in range(15):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(torch.tensor(x[members])), torch.tensor(y[members])).backward()
            optimizer.step()
        models.append(model)
    return models


def build(seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(11, 8), nn.GELU(), nn.Linear(8, 3))


OPTIONS = {
    "noise": {},
    "binary_noise": {},
    "mislabelled": {},
    "greedy": {},
    "ibis": {"refinement": Refinement(replicas=2, restarts=2, steps=4, warmup=1)},
    "metagradient": {"build": build, "inner": InnerTraining(2, 2), "meta_steps": 2, "replicas": 2},
    "clipped_influence": {"clipping_norm": 1.0, "settings": ClippedInfluence(models=2, steps=3, fisher_rows=20)},
}


@pytest.mark.parametrize("start", ["mislabelled", "binary_noise"])
@pytest.mark.parametrize("method", OPTIONS)
def test_every_method_keeps_a_table_legal_and_its_fixed_columns(method, start):
    moved = method in ("ibis", "metagradient", "clipped_influence")
    options = OPTIONS[method] | ({"start": start} if moved else {})
    made = craft(method, X, Y, 3, None, 20, 1, fixed_columns=FIXED, train_many=train_many, **options)
    assert legal(made.x).all()
    known = {tuple(row) for row in X[:, FIXED].tolist()}
    assert {tuple(row) for row in made.x[:, FIXED].tolist()} <= known
    from_rows = made.source_index >= 0
    np.testing.assert_array_equal(made.x[from_rows][:, FIXED], X[made.source_index[from_rows]][:, FIXED])
    assert made.parameters["fixed_columns"] == [1, 10]
    if moved:
        begin = craft(start, X, Y, 3, None, 20, 1, fixed_columns=FIXED)
        np.testing.assert_array_equal(made.x[:, FIXED], begin.x[:, FIXED])


def test_binary_noise_takes_any_column_of_a_group():
    made = craft("binary_noise", X, Y, 3, None, 400, 1)
    assert made.x[:, 3:7].sum(0).min() > 60 and made.x[:, 8:10].sum(0).min() > 150


def test_methods_that_make_whole_inputs_refuse_fixed_columns():
    with pytest.raises(InputError, match="makes inputs of its own"):
        craft("blank", X, Y, 3, None, 4, 1, fixed_columns=FIXED)


def test_scales_apart_and_too_many_canaries_are_told():
    assert craft_warnings(checked_data("table", X, Y), 10) == []
    apart = checked_data("table", X * np.array([1e4] + [1] * 10, np.float32), Y)
    assert "standardise the columns" in craft_warnings(apart, 10)[0]
    assert "40 canaries beside" in craft_warnings(checked_data("table", X, Y), 40)[0]


def test_fixed_columns_at_the_command_line(tmp_path, capsys):
    table = tmp_path / "table.csv"
    head = ",".join([*(f"c{k}" for k in range(11)), "label"])
    np.savetxt(table, np.column_stack([X, Y]), delimiter=",", header=head, comments="", fmt="%.6g")
    craft_ = ["canaries", "craft", "--data", str(table), "--method", "binary_noise", "--count", "30", "--seed", "1"]
    with pytest.raises(SystemExit) as stop:
        main([*craft_, "-o", str(tmp_path / "c"), "--fixed-columns", "0-1, 10"])
    assert stop.value.code == 0
    made = CanarySet.load(tmp_path / "c")
    assert made.parameters["fixed_columns"] == [0, 1, 10] and legal(made.x).all()
    assert "30 canaries beside" in capsys.readouterr().err
    for wrong in ("3-1", "name", "11"):
        with pytest.raises(SystemExit) as stop:
            main([*craft_, "-o", str(tmp_path / "d"), "--fixed-columns", wrong])
        assert stop.value.code == 2 and "column" in capsys.readouterr().err
