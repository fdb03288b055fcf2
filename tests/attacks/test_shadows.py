"""Shadow models: coins, shards, resumption, spans, processes. Training is counted, results are compared to the byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from coalmine.attacks.measurement import Measurement
from coalmine.attacks.query import view_list
from coalmine.attacks.shadows import plan_shadows, read_shard, run_shadows, shard_path
from coalmine.attacks.user_training import UserTraining
from coalmine.foundation import InputError

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(40, 3)).astype(np.float32), RANDOM.integers(0, 2, 40)
MEASURE = Measurement(X, Y, X[:0], Y[:0])


class Trainer:
    """A train_many that counts: class means of the members as a linear model, plus a trace of the seed."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.trained: list[int] = []
        self.fail_at = fail_at

    def __call__(self, membership, seeds):
        if self.fail_at is not None and len(self.trained) >= self.fail_at:
            raise KeyboardInterrupt
        models = []
        for member, seed in zip(membership, seeds, strict=True):
            self.trained.append(seed)
            model = nn.Linear(3, 2)
            with torch.no_grad():
                for c in range(2):
                    rows = X[member & (c == Y)]
                    model.weight[c] = torch.tensor(rows.mean(axis=0) if len(rows) else np.zeros(3))
                model.bias.copy_(torch.tensor([seed % 97, seed % 89]) / 1000)
            models.append(model)
        return models


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def test_coins_are_independent_and_a_longer_plan_keeps_the_shorter_one():
    plan = plan_shadows(200, 500, 3, {})
    assert abs(plan.keep.mean() - 0.5) < 4 * 0.5 / np.sqrt(plan.keep.size)
    per_example = plan.keep.sum(axis=0)
    assert per_example.var() == pytest.approx(50, rel=0.3)  # binomial, not balanced (variance 0)
    np.testing.assert_array_equal(plan_shadows(7, 500, 3, {}).keep, plan.keep[:7])
    assert plan_shadows(7, 500, 3, {}).seeds == plan.seeds[:7]
    assert len(set(plan.seeds)) == 200
    other = plan_shadows(200, 500, 3, {}, stream="target")
    assert abs(np.corrcoef(other.keep.ravel(), plan.keep.ravel())[0, 1]) < 0.02
    assert not set(other.seeds) & set(plan.seeds)


def test_coins_ignore_the_global_generator_and_honour_fraction_and_always():
    """SACRO-ML #222, LeakPro #345."""
    np.random.seed(0)  # noqa: NPY002
    first = plan_shadows(20, 300, 1, {}).keep
    np.random.seed(1)  # noqa: NPY002
    np.testing.assert_array_equal(plan_shadows(20, 300, 1, {}).keep, first)
    always = np.arange(300) < 100
    plan = plan_shadows(20, 300, 1, {}, fraction=0.7, always=always)
    assert plan.keep[:, always].all()
    assert plan.keep[:, ~always].mean() == pytest.approx(0.7, abs=0.03)
    for wrong in ({"count": 0}, {"fraction": 1.0}, {"fraction": 0.0}):
        with pytest.raises(InputError):
            plan_shadows(**{"count": 2, "rows": 3, "seed": 0, "identity": {}, **wrong})


def test_an_identical_rerun_trains_nothing_and_changes_no_byte(tmp_path):
    """LeakPro #432: a cache that never hits."""
    plan = plan_shadows(10, 40, 0, {"recipe": 1})
    first, trainer = Trainer(), Trainer()
    cold = run_shadows(plan, first, MEASURE, tmp_path, chunk=4)
    before = files(tmp_path)
    warm = run_shadows(plan, trainer, MEASURE, tmp_path, chunk=4)
    assert len(first.trained) == 10 and trainer.trained == []
    assert files(tmp_path) == before and len(before) == 3
    assert cold is not None and warm is not None
    for name in cold:
        np.testing.assert_array_equal(cold[name], warm[name])
    assert cold["phi"].shape == (10, 40, 1)


def test_a_killed_run_resumes_to_the_same_bytes(tmp_path):
    plan = plan_shadows(10, 40, 0, {})
    run_shadows(plan, Trainer(), MEASURE, tmp_path / "whole", chunk=4)
    with pytest.raises(KeyboardInterrupt):
        run_shadows(plan, Trainer(fail_at=4), MEASURE, tmp_path / "broken", chunk=4)
    assert len(files(tmp_path / "broken")) == 1
    trainer = Trainer()
    run_shadows(plan, trainer, MEASURE, tmp_path / "broken", chunk=4)
    assert len(trainer.trained) == 6
    assert files(tmp_path / "broken") == files(tmp_path / "whole")


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"fraction": 0.6}, {"identity": {"epochs": 6}}, {"rows": 41}, {"always": np.arange(40) == 0}],
)
def test_a_changed_run_never_meets_old_shards(tmp_path, change):
    """LeakPro #346, #415, #452, #234: stale caches after another config, split, epochs or row order."""
    given = {"count": 4, "rows": 40, "seed": 0, "identity": {"epochs": 5}, "fraction": 0.5, "always": None}
    old, new = plan_shadows(**given), plan_shadows(**{**given, **change})
    assert old.key != new.key
    if len(new.keep[0]) == 40:
        run_shadows(old, Trainer(), MEASURE, tmp_path, chunk=4)
        trainer = Trainer()
        run_shadows(new, trainer, MEASURE, tmp_path, chunk=4)
        assert len(trainer.trained) == 4


def test_more_shadows_train_only_the_new_ones(tmp_path):
    run_shadows(plan_shadows(4, 40, 0, {}), Trainer(), MEASURE, tmp_path, chunk=2)
    trainer = Trainer()
    run_shadows(plan_shadows(8, 40, 0, {}), trainer, MEASURE, tmp_path, chunk=2)
    assert len(trainer.trained) == 4


def test_index_ranges_together_are_the_whole_run(tmp_path):
    plan = plan_shadows(10, 40, 0, {})
    assert run_shadows(plan, Trainer(), MEASURE, tmp_path / "a", chunk=2, span=(4, 10)) is None
    trainer = Trainer()
    parts = run_shadows(plan, trainer, MEASURE, tmp_path / "a", chunk=2, span=(0, 4))
    assert parts is not None and len(trainer.trained) == 4
    run_shadows(plan, Trainer(), MEASURE, tmp_path / "b", chunk=2)
    assert files(tmp_path / "a") == files(tmp_path / "b")
    with pytest.raises(InputError, match="span"):
        run_shadows(plan, Trainer(), MEASURE, tmp_path, span=(4, 4))


def test_results_do_not_depend_on_the_chunk(tmp_path):
    plan = plan_shadows(7, 40, 0, {})
    results = [run_shadows(plan, Trainer(), MEASURE, tmp_path / str(c), chunk=c) for c in (1, 3, 7)]
    for name in results[0]:
        for other in results[1:]:
            np.testing.assert_array_equal(results[0][name], other[name])


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 half a file", b"\x80\x04pickle"])
def test_a_damaged_or_foreign_shard_is_named(tmp_path, damage):
    plan = plan_shadows(2, 40, 0, {})
    run_shadows(plan, Trainer(), MEASURE, tmp_path)
    path = shard_path(tmp_path, plan.key, 0, 2)
    whole = path.read_bytes()
    with pytest.raises(InputError, match=r"another run|damaged"):
        read_shard(path, "0" * 64)
    path.write_bytes(damage)
    with pytest.raises(InputError, match=path.name):
        run_shadows(plan, Trainer(), MEASURE, tmp_path)
    random = np.random.default_rng(0)
    for _ in range(60):  # cut and flipped files: an error that names the file, or the content, never anything else
        broken = bytearray(whole[: random.integers(1, len(whole) + 1)])
        for place in random.integers(0, len(broken), 3):
            broken[place] ^= int(random.integers(1, 256))
        path.write_bytes(bytes(broken))
        try:
            read_shard(path, plan.key)
        except InputError as error:
            assert path.name in str(error)


def test_wrong_arguments_and_trainers_are_named(tmp_path):
    plan = plan_shadows(2, 40, 0, {})
    with pytest.raises(InputError, match="chunk"):
        run_shadows(plan, Trainer(), MEASURE, tmp_path, chunk=0)
    with pytest.raises(InputError, match="backend"):
        run_shadows(plan, Trainer(), MEASURE, tmp_path, backend="ray")
    with pytest.raises(InputError, match="1 models for 2"):
        run_shadows(plan, lambda keep, seeds: [nn.Linear(3, 2)], MEASURE, tmp_path)


def test_measurement_counts_right_labels_and_keeps_every_view():
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 1))
    x = RANDOM.normal(size=(9, 1, 4, 4)).astype(np.float32)
    y = (model(torch.tensor(x)).detach().numpy()[:, 0] > 0).astype(int)
    measured = Measurement(x, y, x[:4], 1 - y[:4], tuple(view_list("mirror")))(model)
    assert measured["phi"].shape == (9, 2) and measured["phi"].dtype == np.float32
    assert measured["correct"].all() and not measured["population_correct"].any()
    np.testing.assert_array_equal(measured["population"], -measured["phi"][:4, 0])


def test_user_function_is_found_by_name_and_checked(tmp_path, monkeypatch):
    (tmp_path / "my_recipe_of_tests.py").write_text(
        "import numpy as np, torch\n"
        "def train(indices, seed):\n"
        "    assert indices.dtype == np.int64\n"
        "    model = torch.nn.Linear(3, 2)\n"
        "    torch.nn.init.constant_(model.weight, float(len(indices)) + seed)\n"
        "    return model\n"
        "def nothing(indices, seed): return 'no module'\n"
        "def one(indices): return None\n"
        "def broken(indices, seed):\n"
        "    raise ValueError('boom\\nand more')\n"
    )
    training = UserTraining("my_recipe_of_tests:train", str(tmp_path))
    models = training(np.array([[True, False, True], [False, False, True]]), [10, 20])
    assert [float(m.weight.detach()[0, 0]) for m in models] == [12.0, 21.0]
    before = training.code_hash()
    assert len(before) == 64
    (tmp_path / "my_recipe_of_tests.py").write_text((tmp_path / "my_recipe_of_tests.py").read_text() + "# edited\n")
    assert training.code_hash() != before  # an edited recipe never meets the shards of the old one
    for name, message in (
        ("my_recipe_of_tests:nothing", "Module"),
        ("my_recipe_of_tests:one", r"\(indices, seed\)"),
        ("my_recipe_of_tests:absent", "no function"),
        (
            "my_recipe_of_tests:broken",
            r"raised ValueError: boom and more \(my_recipe_of_tests.py, line 10\).*3 indices",
        ),
        ("no_such_module_here:train", "cannot be imported"),
        ("my_recipe_of_tests", "package.module:function"),
    ):
        with pytest.raises(InputError, match=message):
            UserTraining(name, str(tmp_path))(np.ones((1, 3), bool), [0])
