"""Other tools' folders and arrays of one's own: written as those tools write them, read to the same scores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from coalmine.attacks import lira
from coalmine.attacks.import_lira_analysis import import_lira_analysis
from coalmine.attacks.import_lira_pytorch import import_lira_pytorch
from coalmine.attacks.import_mi_lira import import_mi_lira
from coalmine.attacks.import_ml_privacy_meter import import_ml_privacy_meter
from coalmine.attacks.shadow_arrays import ShadowArrays, read_arrays
from coalmine.audit.attack.conclude import ATTACKS
from coalmine.audit.estimators.roc import auc as roc_auc
from coalmine.foundation import InputError

MODELS, N, VIEWS, CLASSES = 5, 12, 2, 3
RANDOM = np.random.default_rng(0)
LOGITS = RANDOM.normal(0, 4, (MODELS, N, VIEWS, CLASSES)).astype(np.float32)
KEEP = RANDOM.random((MODELS, N)) < 0.5
LABELS = RANDOM.integers(0, CLASSES, N)


def save(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array)


def expected(target: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """phi by another route: log p - log(1 - p) of a float64 softmax."""
    z = LOGITS.astype(np.float64)
    p = np.exp(z - z.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    p = p[:, np.arange(N), :, LABELS].transpose(1, 0, 2)
    phi = np.log(p) - np.log1p(-p)
    others = np.arange(MODELS) != target
    return phi[others], KEEP[others], phi[target]


def check(arrays: ShadowArrays, target: int, rtol: float = 1e-9) -> None:
    shadow, keep, own = expected(target)
    np.testing.assert_allclose(arrays.shadow_phi, shadow, rtol=rtol)
    np.testing.assert_array_equal(arrays.keep, keep)
    np.testing.assert_allclose(arrays.target_phi[0], own, rtol=rtol)
    np.testing.assert_array_equal(arrays.target_member, KEEP[[target]])


def test_mi_lira_2021(tmp_path):
    for i in range(MODELS):
        place = tmp_path / f"experiment-{i}_{MODELS}"
        save(place / "keep.npy", KEEP[i])
        save(place / "logits" / "0000000020.npy", 0 * LOGITS[i][:, None])
        save(place / "logits" / "0000000100.npy", LOGITS[i][:, None])
        save(place / "scores" / "0000000100.npy", np.zeros((N, VIEWS)))
    (tmp_path / "experiment-notes").mkdir()
    save(tmp_path / "y_train.npy", LABELS)
    check(import_mi_lira(tmp_path), MODELS - 1)
    check(import_mi_lira(tmp_path, 2), 2)


def test_mi_lira_orders_experiments_by_number(tmp_path):
    for i, logits in enumerate(np.repeat(LOGITS, 3, axis=0)[:12]):
        save(tmp_path / f"experiment-{i}_12" / "keep.npy", KEEP[0])
        save(tmp_path / f"experiment-{i}_12" / "logits" / "0000000001.npy", logits[:, None] + i)
    save(tmp_path / "y_train.npy", LABELS)
    assert import_mi_lira(tmp_path).origin["target_model"] == 11
    np.testing.assert_allclose(
        import_mi_lira(tmp_path).shadow_phi[2], import_mi_lira(tmp_path).shadow_phi[0], rtol=1e-4
    )


def test_lira_pytorch_never_guesses_the_target(tmp_path):
    for i, name in enumerate(("10", "2", "0", "1", "11")):
        number = [2, 3, 1, 4, 0].index(i)  # sorted by number: 0, 1, 2, 10, 11
        save(tmp_path / name / "keep.npy", KEEP[number])
        save(tmp_path / name / "logits.npy", LOGITS[number])
    save(tmp_path / "labels.npy", LABELS)
    with pytest.raises(InputError, match="target"):
        import_lira_pytorch(tmp_path)
    order = [[2, 3, 1, 4, 0].index(i) for i in (2, 3, 1, 0, 4)]
    arrays = import_lira_pytorch(tmp_path, 3)
    np.testing.assert_array_equal(arrays.target_member[0], KEEP[order[3]])
    np.testing.assert_allclose(arrays.target_phi[0], expected(order[3])[2], rtol=1e-9)


def test_lira_analysis(tmp_path):
    for i in range(MODELS):
        save(tmp_path / f"model_{i}" / "logits" / "logits.npy", LOGITS[i][:, None])
    save(tmp_path / "keep_indices.npy", KEEP)
    save(tmp_path / "y_train.npy", LABELS)
    check(import_lira_analysis(tmp_path, 1), 1)
    for wrong in (None, 9):
        with pytest.raises(InputError, match="target"):
            import_lira_analysis(tmp_path, wrong)


def test_ml_privacy_meter_counts_the_probabilities_that_lost_their_phi(tmp_path):
    p = np.array([[0.5, 0.9, 1.0], [0.25, 0.75, 0.5], [0.1, 0.2, 0.3], [0.6, 0.7, 0.8]])
    save(tmp_path / "signals" / "softmax_signals.npy", p)
    save(tmp_path / "memberships.npy", np.array([[1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 0, 0]]))
    (tmp_path / "models_metadata.json").write_text(json.dumps({"note": "unused"}))
    arrays = import_ml_privacy_meter(tmp_path, 0)
    assert arrays.origin["clipped_probabilities"] == 1
    np.testing.assert_allclose(expit(arrays.shadow_phi[:, :, 0]), p.T[1:], rtol=1e-12)
    np.testing.assert_array_equal(arrays.target_member, [[True, False, True, False]])
    with pytest.raises(InputError, match="target"):
        import_ml_privacy_meter(tmp_path)
    save(tmp_path / "other.npy", p)
    with pytest.raises(InputError, match="one signal file"):
        import_ml_privacy_meter(tmp_path, 0)


def test_arrays_of_ones_own_as_logits_or_phi(tmp_path):
    path = tmp_path / "arrays.npz"
    shadow, keep, own = expected(0)
    np.savez(
        path,
        keep=keep,
        shadow_logits=LOGITS[1:],
        target_logits=LOGITS[0],
        labels=LABELS,
        target_member=KEEP[0].astype(int),
    )
    check(read_arrays(path), 0)
    np.savez(path, keep=keep, shadow_phi=shadow, target_phi=own)
    arrays = read_arrays(path)
    assert arrays.target_member is None
    np.testing.assert_array_equal(arrays.shadow_phi, shadow)
    np.savez(path, keep=keep, shadow_logits=LOGITS[1:, :, 0], target_logits=LOGITS[0, :, 0], labels=LABELS)
    one = read_arrays(path)
    np.testing.assert_allclose(one.shadow_phi[:, :, 0], shadow[:, :, 0], rtol=1e-9)
    np.savez(path, keep=keep, shadow_phi=shadow[:, :, 0], target_phi=own[:, 0])
    flat = read_arrays(path)
    np.testing.assert_allclose(
        lira(one.shadow_phi, keep, one.target_phi[0]).scores, lira(flat.shadow_phi, keep, flat.target_phi[0]).scores
    )
    np.savez(path, keep=keep, shadow_phi=shadow, target_phi=np.stack([own, own]), target_member=KEEP[[0, 0]])
    assert read_arrays(path).targets == 2


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "keep"),
        ({"keep": KEEP}, "shadow_phi"),
        ({"keep": KEEP, "shadow_logits": LOGITS, "target_logits": LOGITS[0]}, "labels"),
        ({"keep": KEEP, "shadow_logits": LOGITS, "target_logits": LOGITS[0], "labels": LABELS[:5]}, "fit"),
        ({"keep": KEEP[:3], "shadow_phi": LOGITS[..., 0], "target_phi": LOGITS[0, ..., 0]}, "keep"),
        ({"keep": KEEP + 2, "shadow_phi": LOGITS[..., 0], "target_phi": LOGITS[0, ..., 0]}, "keep"),
        ({"keep": KEEP, "shadow_phi": LOGITS[..., 0], "target_phi": LOGITS[0, :, 0, 0]}, "fit"),
        (
            {"keep": KEEP, "shadow_phi": LOGITS[..., 0], "target_phi": LOGITS[0, ..., 0], "target_member": KEEP},
            "member",
        ),
        ({"keep": KEEP, "shadow_phi": np.array(["a"]), "target_phi": LOGITS[0, ..., 0]}, "numbers"),
    ],
)
def test_wrong_arrays_are_named(tmp_path, arrays, message):
    path = tmp_path / "arrays.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=message):
        read_arrays(path)


def test_nothing_is_unpickled(tmp_path):
    path = tmp_path / "arrays.npz"
    np.savez(path, keep=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="npz"):
        read_arrays(path)
    save(tmp_path / "0" / "keep.npy", KEEP[0])
    with open(tmp_path / "0" / "logits.npy", "wb") as file:
        np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    save(tmp_path / "labels.npy", LABELS)
    with pytest.raises(InputError, match=r"logits\.npy"):
        import_lira_pytorch(tmp_path, 0)


def test_empty_and_wrong_folders_are_named(tmp_path):
    for importer in (import_mi_lira, import_lira_pytorch, import_lira_analysis, import_ml_privacy_meter):
        with pytest.raises(InputError, match=tmp_path.name):
            importer(tmp_path, 0)
        with pytest.raises(InputError):
            importer(tmp_path / "absent", 0)
    save(tmp_path / "0" / "keep.npy", KEEP[0])
    save(tmp_path / "0" / "logits.npy", LOGITS[0])
    with pytest.raises(InputError, match="labels"):
        import_lira_pytorch(tmp_path, 0)
    save(tmp_path / "labels.npy", LABELS)
    with pytest.raises(InputError, match="single model"):
        import_lira_pytorch(tmp_path, 0)
    save(tmp_path / "1" / "keep.npy", KEEP[0][:4])
    save(tmp_path / "1" / "logits.npy", LOGITS[0])
    with pytest.raises(InputError, match="model 1"):
        import_lira_pytorch(tmp_path, 0)


def test_damaged_archives_are_named(tmp_path):
    path = tmp_path / "arrays.npz"
    np.savez(path, keep=KEEP, shadow_phi=LOGITS[..., 0], target_phi=LOGITS[0, ..., 0])
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    for _ in range(80):
        broken = bytearray(whole[: random.integers(0, len(whole) + 1)])
        for place in random.integers(0, max(len(broken), 1), 4):
            if len(broken):
                broken[place] ^= int(random.integers(1, 256))
        path.write_bytes(bytes(broken))
        try:
            read_arrays(path)
        except InputError as error:
            assert str(error)


def test_population_arrays_give_rmia(values, tmp_path):
    regular, path = slice(0, 64), tmp_path / "arrays.npz"
    given = {
        "keep": values["keep"][:, regular],
        "shadow_logits": values["shadow_logits"][:, regular],
        "target_logits": values["target_logits"][regular],
        "labels": values["labels"][regular],
        "population_shadow_logits": values["pop_shadow_logits"],
        "population_target_logits": values["pop_target_logits"],
        "population_labels": values["pop_labels"],
    }
    np.savez(path, **given)
    scores = ATTACKS["rmia_offline"](read_arrays(path), 0).scores
    np.testing.assert_allclose(scores, values["expect__reg__rmia_offline_a0.3_g1"], rtol=1e-12)
    arrays = read_arrays(path)
    as_phi = {name: array for name, array in given.items() if not name.startswith("population_")} | {
        "population_shadow_phi": arrays.population_shadow,
        "population_target_phi": arrays.population_target[0],
    }
    np.savez(path, **as_phi)
    np.testing.assert_array_equal(ATTACKS["rmia_offline"](read_arrays(path), 0).scores, scores)
    np.savez(path, **as_phi | {"population_shadow_phi": arrays.population_shadow[1:]})
    with pytest.raises(InputError, match="15 shadows"):
        read_arrays(path)
    del given["population_target_logits"]
    np.savez(path, **given)
    with pytest.raises(InputError, match="need population_target_phi"):
        read_arrays(path)


def test_ml_privacy_meter_trains_pairs_of_which_the_targets_own_is_no_shadow(tmp_path):
    """Signals without any leak: the complement alone would tell the membership, with an AUC far from 1/2."""
    random = np.random.default_rng(0)
    half = random.random((4, 4000)) < 0.5
    keep = np.stack([half, ~half], axis=1).reshape(8, 4000)
    signals = expit(random.normal(0, 2, (4000, 1)) + random.normal(size=(4000, 8)))
    save(tmp_path / "memberships.npy", keep)
    save(tmp_path / "signals" / "rmia_signals.npy", signals)
    save(tmp_path / "signals" / "rmia_signals_pop.npy", expit(random.normal(size=(4000, 8))))
    arrays = import_ml_privacy_meter(tmp_path, 2)
    assert arrays.shadows == 6 and arrays.origin["left_out_as_the_targets_pair"] == 1
    assert not (arrays.keep == ~arrays.target_member[0]).all(axis=1).any()
    assert arrays.population_shadow.shape == (6, 4000) and arrays.population_target.shape == (1, 4000)
    scores = lira(arrays.shadow_phi, arrays.keep, arrays.target_phi[0]).scores
    assert abs(roc_auc(scores, arrays.target_member[0]) - 0.5) < 0.03


def test_ml_privacy_meter_audits_fewer_rows_than_it_holds(tmp_path):
    random = np.random.default_rng(0)
    drawn = random.random((40, 4)) < 0.5
    save(tmp_path / "memberships.npy", random.random((4, 100)) < 0.5)
    save(tmp_path / "signals" / "rmia_signals.npy", random.random((40, 4)))
    with pytest.raises(InputError, match=r"audit\.data_size"):
        import_ml_privacy_meter(tmp_path, 0)
    save(tmp_path / "report" / "memberships.npy", drawn)
    arrays = import_ml_privacy_meter(tmp_path, 0)
    np.testing.assert_array_equal(arrays.target_member[0], drawn[:, 0])
