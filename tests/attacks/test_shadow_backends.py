"""The same shadows in a loop, in processes and on a two-worker dask cluster: equal to the byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coalmine.attacks import lira
from coalmine.audit.lira.shadows import Plan, shadow_arrays
from coalmine.audit.recipe import engine_recipe
from coalmine.audit.rows import universe
from coalmine.audit.training.data import checked_data
from coalmine.audit.training.settings import TrainingSettings
from coalmine.audit.work import Work

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.random((60, 1, 4, 4)).astype(np.float32), RANDOM.integers(0, 3, 60)


def scores(folder: Path, **work: object) -> tuple[np.ndarray, dict[str, bytes]]:
    rows = universe(checked_data("small", X, Y, X[:9], Y[:9], classes=("a", "b", "c")))
    settings = TrainingSettings(
        steps_per_epoch=3, epochs=2, learning_rate=0.5, public_size=30, clipping_norm=1.0, noise_multiplier=0.3
    )
    recipe = engine_recipe(rows, "mlp", settings)
    arrays = shadow_arrays(rows, recipe, Work(folder, seed=1, chunk=2, **work), Plan(6))  # type: ignore[arg-type]
    assert arrays is not None
    result = lira(arrays.shadow_phi, arrays.keep, arrays.target_phi[0]).scores
    return result, {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def test_processes_give_the_bytes_of_a_loop(tmp_path):
    loop, loky = scores(tmp_path / "loop"), scores(tmp_path / "loky", jobs=2)
    np.testing.assert_array_equal(loop[0], loky[0])
    assert loop[1] == loky[1] and len(loop[1]) == 4


@pytest.mark.slow
def test_a_dask_cluster_gives_the_bytes_of_a_loop(tmp_path):
    distributed = pytest.importorskip("distributed", reason="extra dask is not installed")
    loop = scores(tmp_path / "loop")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        dask = scores(tmp_path / "dask", jobs=2, backend="dask")
    np.testing.assert_array_equal(loop[0], dask[0])
    assert loop[1] == dask[1]


@pytest.mark.slow
def test_dask_without_a_client_is_a_clear_error(tmp_path):
    pytest.importorskip("distributed", reason="extra dask is not installed")
    with pytest.raises(ValueError, match=r"distributed\.Client"):
        scores(tmp_path / "dask", jobs=2, backend="dask")
