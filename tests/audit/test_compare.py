"""A grid of trainings beside theory: the white box reaches the bound, tables are told apart, options are checked."""

import itertools

import numpy as np
import pytest

from coalmine.audit.compare.conclude import Attacked, conclude
from coalmine.audit.compare.grid import Grid, mechanism_of
from coalmine.audit.compare.table import COLUMNS, read_table, write_table
from coalmine.audit.compare.white_box import WhiteBoxTraining, log_likelihood_ratios
from coalmine.audit.estimators import clopper_pearson, guess_by_sign
from coalmine.audit.rows import Universe
from coalmine.audit.training.settings import TrainingSettings
from coalmine.foundation import InputError, numpy_stream

SETTINGS = {"learning_rate": 0.1, "public_size": 20.0, "clipping_norm": 1.5}


def universe(rows: int = 20) -> Universe:
    x = numpy_stream(0, "test/compare").normal(size=(rows, 4)).astype(np.float32)
    y = np.arange(rows) % 3
    return Universe(x, y, np.ones(rows, bool), np.empty(0, int), x[:0], y[:0], 3, "f", "canaries")


def white_box(sampler: str, steps: int, epochs: int, sigma: float, runs: int, m: int, seed: int):
    """(R, m) log-likelihood ratios of the engine's own runs and the coins behind them."""
    coins = numpy_stream(seed, "test/coins").random((runs, m)) < 0.5
    rows = universe()
    settings = TrainingSettings(
        steps_per_epoch=steps, epochs=epochs, noise_multiplier=sigma, sampler=sampler, **SETTINGS
    )
    keep = np.concatenate([np.ones((runs, len(rows.x)), bool), coins], axis=1)
    models = WhiteBoxTraining(rows, "mlp", settings, m)(keep, range(seed, seed + runs))
    return np.stack([model.white_box for model in models]), coins, models


@pytest.mark.parametrize("sampler", ["random_allocation", "fixed_bins", "poisson", "full_batch"])
def test_in_the_engines_own_runs_the_white_box_reaches_the_exact_bound_of_every_sampler(sampler):
    scores, coins, _ = white_box(sampler, 5, 3, 2.0, 4, 1500, 7)
    correct, n = guess_by_sign(scores.ravel(), coins.ravel())
    low, high = clopper_pearson(correct, n, 0.9999)
    exact = mechanism_of(sampler, 5, 3, 2.0).accuracy()
    assert low <= exact.upper and exact.lower <= high
    assert low > 0.5


def test_the_white_box_accuracy_is_the_exact_bound_over_a_grid_within_intervals_of_the_family():
    """M and E of the headline, sigma over two decades; the mechanism itself, 20,000 coins a cell."""
    cells = list(itertools.product((1, 10, 100), (1, 10, 50), (0.3, 1.0, 3.0, 10.0, 30.0)))
    confidence = 1 - 0.001 / len(cells)
    outside = []
    for number, (steps, epochs, sigma) in enumerate(cells):
        stream = numpy_stream(number, "test/mechanism")
        correct = n = 0
        for _ in range(4):
            coins = stream.random(5000) < 0.5
            settings = TrainingSettings(steps_per_epoch=steps, epochs=epochs, noise_multiplier=sigma, **SETTINGS)
            ratio = np.zeros(5000)
            for _ in range(epochs):  # an epoch at a time: the ratio of a run is the sum over its epochs
                x = stream.normal(0, sigma, (steps, 5000)).astype(np.float32)
                x[stream.integers(0, steps, 5000)[coins], np.flatnonzero(coins)] += 1
                one = TrainingSettings(steps_per_epoch=steps, epochs=1, noise_multiplier=sigma, **SETTINGS)
                ratio += log_likelihood_ratios(x[:, None, :], one)[0]
            right, all_of_them = guess_by_sign(ratio, coins)
            correct, n = correct + right, n + all_of_them
            assert settings.mechanism()["epochs"] == epochs
        low, high = clopper_pearson(correct, n, confidence)
        exact = mechanism_of("random_allocation", steps, epochs, sigma).accuracy()
        if not (low <= exact.upper and exact.lower <= high):
            outside.append((steps, epochs, sigma, correct / n, exact))
    assert not outside


def test_gradient_canaries_leave_the_network_as_it_would_be_without_them():
    """Only the noise of a step is cut elsewhere; without coins and with all coins the weights are the same to the bit
    where the batches of the other rows are."""
    rows, m = universe(), 6
    settings = TrainingSettings(steps_per_epoch=2, epochs=2, noise_multiplier=1.0, sampler="full_batch", **SETTINGS)
    weights = []
    for inside in (False, True):
        keep = np.concatenate([np.ones((1, len(rows.x)), bool), np.full((1, m), inside)], axis=1)
        model = WhiteBoxTraining(rows, "mlp", settings, m)(keep, [3])[0]
        weights.append(np.concatenate([p.detach().numpy().ravel() for p in model.network.parameters()]))
        moved = model.gradient_canaries.detach().numpy()
        assert np.abs(moved).max() > 0  # noise, and the canaries where they are in
    assert np.allclose(weights[0], weights[1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["perfect", "useless", "all_nan", "two_canaries"])
def test_every_row_is_right_for_scores_at_the_edge(kind):
    m = 2 if kind == "two_canaries" else 30
    grid = Grid((1.0,), (10,), (5,), runs=6, canaries=m)
    members = numpy_stream(1, "test/edge").random((6, m)) < 0.5
    members[:, 0], members[:, 1] = True, False
    scores = (
        members + 0.0 if kind == "perfect" else np.zeros((6, m)) if kind == "useless" else np.where(members, 1, -1.0)
    )
    scores = np.full((6, m), np.nan) if kind == "all_nan" else scores + 1e-3 * np.arange(m)
    attacked = [Attacked("black_box", "phi", scores, members), Attacked("white_box", "ratio", scores, members)]
    rows = list(conclude(next(grid.cells()), grid, attacked, np.full(6, 0.9)))
    assert len(rows) == 2 * 3 * (6 + 1)
    for row in rows:
        assert set(row) <= set(COLUMNS) and row["n"] >= row["correct"] >= 0
        if row["quantity"] == "attack_accuracy":
            assert row["lower"] <= row["value"] <= row["upper"]
            assert kind != "all_nan" or row["value"] == 0
        if row["quantity"] == "p_value":
            assert 0 <= row["value"] <= 1 and (kind != "all_nan" or row["value"] == 1)
        if row["quantity"] == "epsilon":
            assert row["value"] >= 0 and (kind not in ("all_nan", "useless") or row["value"] == 0)


def test_a_table_read_again_is_the_table_that_was_written(tmp_path):
    grid = Grid((1.0,), (10,), (5,), runs=3, canaries=10)
    members = numpy_stream(2, "test/table").random((3, 10)) < 0.5
    rows = list(conclude(next(grid.cells()), grid, [Attacked("black_box", "phi", members * 1.0, members)], np.ones(3)))
    for name in ("t.csv", "t.parquet"):
        write_table(rows, tmp_path / name)
        again = read_table(tmp_path / name)
        assert [r["quantity"] for r in again] == [r["quantity"] for r in rows]
        assert all(a["value"] == pytest.approx(b["value"], rel=1e-9) for a, b in zip(again, rows, strict=True))
        assert [r["run"] for r in again] == [r["run"] for r in rows]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"noise_multiplier": (0.0,)}, "noise_multiplier"),
        ({"noise_multiplier": ()}, "noise_multiplier"),
        ({"epochs": (1, 1)}, "epochs"),
        ({"sampler": "fixed_size"}, "sampler"),
        ({"runs": 1}, "runs"),
        ({"score": ("lira",)}, "score"),
        ({"confidence": 0.4}, "confidence"),
    ],
)
def test_what_cannot_be_compared_is_told_before_training(wrong, named):
    with pytest.raises(InputError, match=named):
        Grid(**{"noise_multiplier": (1.0,), "steps_per_epoch": (10,), "epochs": (5,), **wrong})
