"""Files are whole or absent, JSON is JSON, and no two purposes share a random draw."""

import json
import math
import os

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coalmine.foundation import (
    InputError,
    check_output_file,
    check_output_folder,
    fresh_seed,
    numpy_stream,
    read_json,
    torch_stream,
    write_bytes,
    write_json,
)
from coalmine.foundation.tensor_file import pack, unpack

PURPOSES = ["pool", "craft", "coins", "allocation/0", "allocation/1", "noise/0", "noise/1", "init", "order", "shadow/1"]


def test_streams_of_different_purposes_and_seeds_differ_and_equal_ones_repeat():
    drawn = {
        (seed, p): tuple(numpy_stream(seed, p).integers(2**63, size=4)) for seed in (0, 1, 2**127) for p in PURPOSES
    }
    assert len(set(drawn.values())) == len(drawn)
    torch_drawn = {p: tuple(torch.rand(4, generator=torch_stream(7, p)).tolist()) for p in PURPOSES}
    assert len(set(torch_drawn.values())) == len(PURPOSES)
    assert drawn[(1, "coins")] == tuple(numpy_stream(1, "coins").integers(2**63, size=4))


def test_streams_leave_the_global_generators_alone():
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    numpy_stream(1, "x").random(10)
    torch.rand(10, generator=torch_stream(1, "x"))
    assert np.array_equal(before[0], np.random.get_state()[1])  # noqa: NPY002
    assert torch.equal(before[1], torch.get_rng_state())


def test_two_streams_are_uncorrelated():
    a, b = (numpy_stream(0, p).standard_normal(100_000) for p in ("coins", "allocation/0"))
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / math.sqrt(100_000)


@pytest.mark.parametrize("seed", [-1, 1.5, "3", True, None])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(InputError, match="seed"):
        numpy_stream(seed, "coins")


def test_fresh_seeds_differ():
    assert len({fresh_seed() for _ in range(100)}) == 100


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # whatever else the machine does
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
        max_leaves=8,
    )
)
def test_json_survives_a_round_trip(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("json") / "value.json"
    write_json(path, value)
    assert read_json(path, "value") == value


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_json_never_holds_a_value_that_is_no_number(tmp_path, value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", {"a": value})
    assert not list(tmp_path.iterdir())
    (tmp_path / "x.json").write_text(json.dumps({"a": value}))
    with pytest.raises(InputError, match="not valid JSON"):
        read_json(tmp_path / "x.json", "audit file")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=60))
def test_any_bytes_are_json_or_one_clear_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("fuzz") / "f.json"
    path.write_bytes(content)
    try:
        read_json(path, "coins file")
    except InputError as error:
        assert "coins file" in str(error)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a": 1e999}', ""])
def test_hostile_json_is_one_clear_error(tmp_path, content):
    (tmp_path / "f.json").write_text(content)
    with pytest.raises(InputError, match="not valid JSON"):
        read_json(tmp_path / "f.json", "coins file")


def test_a_missing_file_and_a_directory_are_named(tmp_path):
    with pytest.raises(InputError, match=r"coins file .*nothing\.json.* does not exist"):
        read_json(tmp_path / "nothing.json", "coins file")
    with pytest.raises(InputError, match="is a directory"):
        read_json(tmp_path, "coins file")


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    write_bytes(path, b"old")

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_a_path_that_cannot_be_written_is_told_before_work(tmp_path):
    (tmp_path / "plain").write_text("")
    for path in (tmp_path, tmp_path / "plain" / "below"):
        with pytest.raises(InputError, match="--output"):
            check_output_file(path, "--output")
    for path in (tmp_path / "plain", tmp_path / "plain" / "below"):
        with pytest.raises(InputError, match="--output"):
            check_output_folder(path, "--output")
    check_output_file(tmp_path / "new" / "folders" / "a.json")
    check_output_folder(tmp_path / "new")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["plain"]
    with pytest.raises(InputError, match="cannot be written"):
        write_bytes(tmp_path / "plain" / "below", b"")


def test_a_tensor_file_whose_first_byte_is_a_pickle_s_is_read(tmp_path):
    """The header's length comes first; one of 32 lengths begins with the byte of a pickle."""
    for padding in range(256):
        content = pack({"x": np.zeros(2)}, {"note": "n" * padding})
        (tmp_path / "set.safetensors").write_bytes(content)
        assert unpack(tmp_path / "set.safetensors", "file")[1] == {"note": "n" * padding}
    (tmp_path / "set.safetensors").write_bytes(b"\x80\x04\x95" + b"0" * 40)
    with pytest.raises(InputError, match="pickle"):
        unpack(tmp_path / "set.safetensors", "file")
