"""A canary file is whole, unchanged and within its stated limits, or it is refused with one clear line."""

import io
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coalmine.canaries import CanarySet, craft
from coalmine.foundation import InputError
from coalmine.foundation.tensor_file import pack


def a_set(m: int = 5, **changes) -> CanarySet:
    values = {
        "x": np.linspace(0, 1, m * 4, dtype=np.float32).reshape(m, 1, 2, 2),
        "y": np.arange(m) % 3,
        "source_index": np.arange(m),
        "method": "random",
        "parameters": {"seed": 1},
        "data_fingerprint": "abc",
        "value_range": (0.0, 1.0),
        "classes": 3,
    }
    return CanarySet(**(values | changes))


def test_a_saved_set_is_read_back_equal(tmp_path):
    canaries = a_set()
    canaries.save(tmp_path / "c.safetensors")
    again = CanarySet.load(tmp_path / "c.safetensors")
    assert again.sha256 == canaries.sha256
    for name in ("x", "y", "source_index"):
        np.testing.assert_array_equal(getattr(again, name), getattr(canaries, name))
        assert getattr(again, name).dtype == getattr(canaries, name).dtype
    for name in ("method", "parameters", "data_fingerprint", "value_range", "classes"):
        assert getattr(again, name) == getattr(canaries, name)


def test_the_same_set_is_the_same_file_in_every_process(tmp_path):
    code = (
        "import numpy as np, sys; from coalmine.canaries import craft; "
        "craft('noise', np.eye(4), np.arange(4), 4, (0, 1), 3, seed=7).save(sys.argv[1])"
    )
    for name in ("a", "b", "c"):
        subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], check=True)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


def test_reading_a_canary_file_does_not_import_torch(tmp_path):
    a_set().save(tmp_path / "c")
    code = (
        "import sys; from coalmine.canaries import CanarySet; CanarySet.load(sys.argv[1]); "
        "print('torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path / "c")], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "False"


def test_the_hash_follows_the_tensors_and_nothing_else():
    base = a_set()
    assert a_set(method="other", parameters={}).sha256 == base.sha256
    assert a_set(y=np.array([0, 1, 2, 0, 2])).sha256 != base.sha256
    assert a_set(source_index=np.full(5, -1)).sha256 != base.sha256
    assert a_set(x=base.x.reshape(5, 4)).sha256 != base.sha256
    assert a_set(x=base.x * np.float32(0.5)).sha256 != base.sha256


def test_the_arrays_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        a_set().x[0] = 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"x": np.zeros((0, 2, 2)), "y": np.zeros(0, int), "source_index": np.zeros(0, int)}, "at least 1"),
        ({"x": np.zeros(5)}, "shape"),
        ({"x": np.zeros((5, 0))}, "without values"),
        ({"y": np.zeros(4, int)}, "one per row"),
        ({"y": np.zeros((5, 1), int)}, "one per row"),
        ({"y": np.zeros(5)}, "whole numbers"),
        ({"y": np.array([0, 1, 2, 3, 0])}, "label 3.*0…2"),
        ({"y": np.array([0, 1, 2, -1, 0])}, "label -1"),
        ({"source_index": np.full(5, -2)}, "-2"),
        ({"x": np.full((5, 2), np.nan)}, "NaN.*row 0"),
        ({"x": np.full((5, 2), np.inf)}, "infinite"),
        ({"x": np.full((5, 2), 1.5)}, "outside the stated value range"),
        ({"value_range": (1.0, 0.0)}, "lowest below highest"),
        ({"value_range": (0.0, float("nan"))}, "finite"),
        ({"value_range": "wide"}, "value_range"),
        ({"parameters": {"step": float("nan")}}, "JSON"),
        ({"classes": 0}, "classes"),
    ],
)
def test_a_set_that_makes_no_sense_is_refused(changes, says):
    with pytest.raises(InputError, match=says):
        a_set(**changes)


def test_pickles_are_refused_unopened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was opened",))

    (tmp_path / "pickle").write_bytes(pickle.dumps(Bomb()))
    buffer = io.BytesIO()
    torch.save({"x": torch.zeros(1)}, buffer)
    (tmp_path / "torch").write_bytes(buffer.getvalue())
    for name in ("pickle", "torch"):
        with pytest.raises(InputError, match="pickle"):
            CanarySet.load(tmp_path / name)


def test_missing_files_and_folders_are_told(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        CanarySet.load(tmp_path / "no")
    with pytest.raises(InputError, match="is a directory"):
        CanarySet.load(tmp_path)


@pytest.mark.parametrize(
    ("tensors", "metadata", "says"),
    [
        ({"x": np.zeros((2, 2), np.float32)}, {}, "tensors"),
        ({"x": np.zeros((2, 2))}, {"full": "yes"}, "type float64"),
        ({}, {"kind": "gradient"}, "kind 'gradient'"),
        ({}, {"parameters": "{"}, "not valid JSON"),
        ({}, {"parameters": "[]"}, "JSON object"),
        ({}, {"parameters": '{"a": NaN}'}, "NaN"),
        ({}, {"value_range": "[0]"}, "value_range"),
        ({}, {"classes": "1"}, "label"),
        ({}, {"content_sha256": "0" * 64}, "hash"),
    ],
)
def test_foreign_or_tampered_files_are_refused(tmp_path, tensors, metadata, says):
    good = a_set()
    full = {"x": good.x, "y": good.y, "source_index": good.source_index}
    stated = {"kind": "example", "parameters": "{}", "value_range": "null", "content_sha256": good.sha256}
    if tensors and "full" not in metadata:
        full = {}
    (tmp_path / "c").write_bytes(pack(full | tensors, stated | metadata))
    with pytest.raises(InputError, match=says):
        CanarySet.load(tmp_path / "c")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_damaged_file_is_read_as_something_else(tmp_path_factory, data):
    content = bytearray(a_set().to_bytes())
    how = data.draw(st.sampled_from(["flip", "cut", "insert", "noise"]))
    if how == "noise":
        content = bytearray(data.draw(st.binary(max_size=64)))
    else:
        at = data.draw(st.integers(0, len(content) - 1))
        if how == "flip":
            content[at] ^= data.draw(st.integers(1, 255))
        elif how == "cut":
            del content[at:]
        else:
            content[at:at] = data.draw(st.binary(min_size=1, max_size=8))
    path = tmp_path_factory.mktemp("fuzz") / "c"
    path.write_bytes(content)
    try:
        again = CanarySet.load(path)
    except InputError as error:
        assert "\n" not in str(error)
    else:  # the change fell into free text (method, fingerprint, padding): the tensors are intact
        assert again.sha256 == a_set().sha256


@given(
    count=st.integers(1, 6),
    method=st.sampled_from(["random", "mislabelled", "noise", "blank"]),
    seed=st.integers(0, 2**64),
)
@settings(max_examples=60, deadline=None)
def test_every_baseline_gives_a_valid_set_that_its_seed_determines(count, method, seed):
    x = np.linspace(-1, 2, 24).reshape(6, 4)
    y = np.arange(6) % 3
    one, two = (craft(method, x, y, 3, (-1, 2), count, seed, data_fingerprint="f") for _ in range(2))
    assert one.sha256 == two.sha256
    assert len(one) == count
    assert one.method == method
    assert one.data_fingerprint == "f"
    natural = one.source_index >= 0
    np.testing.assert_array_equal(one.x[natural], x.astype(np.float32)[one.source_index[natural]])
    if method in ("random", "mislabelled"):
        assert natural.all()
        assert len(one.sources()) == count
        assert ((one.y == y[one.source_index]) == (method == "random")).all()
    else:
        assert not natural.any()


def test_wrong_labels_are_uniform_over_the_other_classes():
    canaries = craft("mislabelled", np.zeros((9000, 1)), np.zeros(9000, int), 4, None, 9000, 0)
    counts = np.bincount(canaries.y, minlength=4)
    assert counts[0] == 0
    assert abs(counts[1:] - 3000).max() < 4 * np.sqrt(9000 * (1 / 3) * (2 / 3))


def test_noise_spans_each_feature_where_no_common_range_is_stated():
    x = np.array([[0, 100.0, 5], [1, 300.0, 5]])
    canaries = craft("noise", x, np.array([0, 1]), 2, None, 2000, 0)
    assert (canaries.x >= [0, 100, 5]).all() and (canaries.x <= [1, 300, 5]).all()
    np.testing.assert_allclose(canaries.x.mean(0), [0.5, 200, 5], rtol=0.05)


def test_only_allowed_rows_become_canaries_and_too_few_is_an_error_with_both_numbers():
    x, y = np.zeros((10, 2)), np.arange(10) % 2
    allowed = np.arange(10) < 4
    assert set(craft("random", x, y, 2, None, 4, 0, allowed=allowed).source_index) == {0, 1, 2, 3}
    with pytest.raises(InputError, match=r"count is 5, the pool has 4"):
        craft("random", x, y, 2, None, 5, 0, allowed=allowed)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"method": "magic"}, "unknown: use one of"),
        ({"count": 0}, "count"),
        ({"count": True}, "count"),
        ({"seed": -1}, "seed"),
        ({"classes": 1, "y": np.zeros(3, int), "method": "mislabelled"}, "2 classes"),
        ({"x": np.full((3, 2), 9.0)}, "outside"),
        ({"y": np.array([0, 1, 7])}, "label 7"),
        ({"allowed": np.ones(2, bool)}, "allowed"),
    ],
)
def test_bad_arguments_to_craft_are_told(changes, says):
    arguments = {
        "method": "noise",
        "x": np.zeros((3, 2)),
        "y": np.array([0, 1, 1]),
        "classes": 2,
        "value_range": (0, 1),
    }
    arguments |= {"count": 2, "seed": 0} | changes
    with pytest.raises(InputError, match=says):
        craft(**arguments)
