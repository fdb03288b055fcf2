"""The input contract: ids, duplicates, undefined and infinite scores, views, members; and whatever bytes are given."""

import contextlib
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coalmine.audit.verdict.membership import join, member_count_remark
from coalmine.audit.verdict.scores import arrange_scores, load_scores
from coalmine.canaries import Coins
from coalmine.foundation import InputError


@pytest.fixture
def coins_path(tmp_path):
    path = tmp_path / "coins.json"
    path.write_text(json.dumps({"member": [1, 0, 1, 0]}))
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_every_format_reads_the_same(tmp_path, suffix):
    frame = pd.DataFrame({"canary_id": [2, 0, 1], "score": [0.5, np.nan, -1.0], "member": [1, 0, 0]})
    path = tmp_path / f"scores{suffix}"
    if suffix == ".csv":
        frame.to_csv(path, index=False)
    elif suffix == ".parquet":
        frame.to_parquet(path)
    else:
        np.savez(path, **{name: frame[name].to_numpy() for name in frame})
    read = load_scores(path)
    assert read.canary_id.tolist() == [0, 1, 2]
    assert read.score[1:].tolist() == [-1.0, 0.5] and np.isnan(read.score[0])
    assert read.member.tolist() == [False, False, True]
    assert (read.views, read.undefined) == (1, 1)


def test_views_are_averaged_and_an_undefined_view_is_an_undefined_canary():
    read = arrange_scores({"canary_id": [0, 0, 1, 1], "view": ["a", "b", "b", "a"], "score": [1.0, 3.0, 5.0, np.nan]})
    assert read.score[0] == 2.0 and np.isnan(read.score[1]) and read.views == 2


@pytest.mark.parametrize(
    "columns, words",
    [
        ({"canary_id": [0, 1]}, "no column 'score'"),
        ({"score": [0.0, 1]}, "no column 'canary_id'"),
        ({"canary_id": [0, 0], "score": [1.0, 2]}, "repeats canary_id 0"),
        ({"canary_id": [0, 0, 1], "view": [0, 1, 0], "score": [1.0, 2, 3]}, "lacks views of canary_id 1"),
        ({"canary_id": [0, 0], "view": [1, 1], "score": [1.0, 2]}, "repeats a view of canary_id 0"),
        ({"canary_id": [0, 1], "score": [1.0, np.inf]}, "1 infinite scores .canary_id 1"),
        ({"canary_id": [0, 1.5], "score": [1.0, 2]}, "whole number"),
        ({"canary_id": [0, np.nan], "score": [1.0, 2]}, "whole number"),
        ({"canary_id": ["a", None], "score": [1.0, 2]}, "empty in row 2"),
        ({"canary_id": [0, 1], "score": ["0.5", "high"]}, "'high' in row 2 is not a number"),
        ({"canary_id": [0, 1], "score": [1.0, 2], "member": [0, 2]}, "member must be 0 or 1"),
        ({"canary_id": [0, 1], "score": [1.0, 2], "member": [0, np.nan]}, "row 2"),
        ({"canary_id": [0, 0], "view": [0, 1], "score": [1.0, 2], "member": [0, 1]}, "differs between the views"),
        ({"canary_id": [], "score": []}, "no rows"),
        ({"canary_id": [0, 1, 2], "score": [1.0, 2]}, "one column"),
    ],
)
def test_what_is_wrong_is_named(columns, words):
    with pytest.raises(InputError, match=words):
        arrange_scores({name: np.asarray(values) for name, values in columns.items()})


def test_infinite_scores_may_stand_for_the_extremes():
    read = arrange_scores({"canary_id": [0, 1, 2], "score": [np.inf, 0.0, -np.inf]}, infinite="extreme")
    assert read.score.tolist() == [np.inf, 0.0, -np.inf]


def test_scores_join_coins_by_id(coins_path):
    scores = arrange_scores({"canary_id": [3, 1, 0, 2], "score": [30.0, 10.0, 0.0, 20.0]})
    values, members = join(scores, Coins.load(coins_path), "coins")
    assert values.tolist() == [0, 10, 20, 30] and members.tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    "ids, words",
    [([0, 1, 2], "lack canary_id 3"), ([0, 1, 2, 3, 4], "name canary_id 4"), ([-1, 0, 1, 2], "canary_id -1")],
)
def test_missing_and_unknown_ids_are_named(coins_path, ids, words):
    scores = arrange_scores({"canary_id": ids, "score": np.arange(len(ids), dtype=float)})
    with pytest.raises(InputError, match=words):
        join(scores, Coins.load(coins_path), "coins")


def test_membership_decides_what_is_needed(coins_path):
    coins = Coins.load(coins_path)
    bare = arrange_scores({"canary_id": [0, 1, 2, 3], "score": [1.0, 2, 3, 4]})
    flagged = arrange_scores({"canary_id": ["a", "b"], "score": [1.0, 2], "member": [True, False]})
    with pytest.raises(InputError, match="needs the coins file"):
        join(flagged, None, "coins")
    with pytest.raises(InputError, match="needs a column 'member'"):
        join(bare, None, "random_split")
    with pytest.raises(InputError, match="coins file was given"):
        join(bare, coins, "unknown")
    with pytest.raises(InputError, match="got names"):
        join(flagged, coins, "coins")
    with pytest.raises(InputError, match="contradicts the coins"):
        ids = {"canary_id": [0, 1, 2, 3], "score": [1.0, 2, 3, 4], "member": [0, 1, 0, 1]}
        join(arrange_scores(ids), coins, "coins")
    assert join(flagged, None, "random_split")[1].tolist() == [True, False]


def test_one_sided_membership_is_refused(tmp_path):
    path = tmp_path / "coins.json"
    path.write_text('{"member": [1, 1]}')
    with pytest.raises(InputError, match="at least one member and one non-member"):
        join(arrange_scores({"canary_id": [0, 1], "score": [1.0, 2]}), Coins.load(path), "coins")


def test_member_counts_that_no_fair_coin_gives_are_remarked():
    assert member_count_remark(np.arange(1000) < 500) is None
    assert member_count_remark(np.arange(1000) < 560) is None
    assert "not credible" in member_count_remark(np.arange(1000) < 900)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"member": 1}',
        '{"member": [0, 2]}',
        '{"member": ["0"]}',
        '{"member": [1]}',
        '{"member": [NaN]}',
    ],
)
def test_coins_files_that_are_none_are_refused(tmp_path, text):
    path = tmp_path / "coins.json"
    path.write_text(text)
    with pytest.raises(InputError, match="coins"):
        Coins.load(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=80) | st.text(alphabet='{}[]"member:01, ', max_size=60).map(str.encode))
def test_any_coins_file_is_read_or_refused(tmp_path, content):
    path = tmp_path / "coins.json"
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        assert Coins.load(path).member.size >= 2


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path, suffix, content):
    path = tmp_path / f"scores{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError):
        load_scores(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.text(alphabet="0123456789.,-+einfNa \n\"'x", max_size=120))
def test_any_csv_body_is_read_or_refused(tmp_path, body):
    path = tmp_path / "scores.csv"
    path.write_text("canary_id,score\n" + body)
    try:
        read = load_scores(path)
    except InputError:
        return
    assert read.score.size == np.unique(read.canary_id).size >= 1


def test_a_damaged_file_of_each_kind_is_refused(tmp_path):
    frame = pd.DataFrame({"canary_id": range(50), "score": np.arange(50.0)})
    frame.to_parquet(tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", canary_id=np.arange(50), score=np.arange(50.0))
    for name in ("a.parquet", "a.npz"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(InputError, match="cannot be read"):
            load_scores(tmp_path / name)


def test_pickled_arrays_are_never_loaded(tmp_path):
    path = tmp_path / "scores.npz"
    np.savez(path, canary_id=np.arange(2), score=np.array([{}, 1.0], dtype=object))
    with pytest.raises(InputError, match="cannot be read"):
        load_scores(path)


def test_a_missing_file_and_an_unknown_suffix_are_named(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        load_scores(tmp_path / "no.csv")
    (tmp_path / "scores.xlsx").write_bytes(b"")
    with pytest.raises(InputError, match=r"\.csv, \.parquet or \.npz"):
        load_scores(tmp_path / "scores.xlsx")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"canary_id,score,score\n0,1,2\n1,2,1\n", "'score' twice"),
        (b"canary_id,score\n0,1,2\n1,2,1\n", "line 2 has 3 fields, the header has 2"),
        (b"canary_id,score\n0,1\n1\n", "line 3 has 1 fields, the header has 2"),
        (b"canary_id;score\n0;1\n1;2\n", "semicolons: write commas"),
        (b"canary_id\tscore\n0\t1\n1\t2\n", "tabs: write commas"),
        (b"canary_id,score\n0,1\n1,\xff\n", "not UTF-8"),
        ("canary_id,score\n0,1\n".encode("utf-16"), "UTF-8"),
        ("canary_id,score\n0,1\n".encode("utf-16-le"), "NUL"),
        (b"", "empty"),
    ],
)
def test_a_csv_that_would_be_read_wrongly_is_refused(tmp_path, content, words):
    (tmp_path / "scores.csv").write_bytes(content)
    with pytest.raises(InputError, match=words):
        load_scores(tmp_path / "scores.csv")


def test_a_byte_order_mark_and_blank_lines_are_no_data(tmp_path):
    (tmp_path / "scores.csv").write_bytes(b"\xef\xbb\xbfcanary_id, score\r\n0, 1\r\n\r\n1, 2\r\n")
    read = load_scores(tmp_path / "scores.csv")
    assert read.canary_id.tolist() == [0, 1] and read.score.tolist() == [1.0, 2.0]


def test_ids_in_the_index_of_a_parquet_file_are_read_or_asked_for(tmp_path):
    frame = pd.DataFrame({"canary_id": [2, 0, 1], "score": [0.5, 1.5, 2.5]})
    frame.set_index("canary_id").to_parquet(tmp_path / "scores.parquet")
    assert load_scores(tmp_path / "scores.parquet").score.tolist() == [1.5, 2.5, 0.5]
    pd.DataFrame({"score": [0.5, 1.5]}, index=[1, 0]).to_parquet(tmp_path / "scores.parquet")
    with pytest.raises(InputError, match="rename_axis"):
        load_scores(tmp_path / "scores.parquet")


ROWS = st.lists(st.tuples(st.integers(0, 30), st.floats(-5, 5)), min_size=2, max_size=12, unique_by=lambda row: row[0])


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=ROWS, data=st.data())
def test_a_csv_with_a_field_too_many_or_too_few_anywhere_is_never_read(tmp_path, rows, data):
    lines = ["canary_id,score", *(f"{i},{value!r}" for i, value in rows)]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(lines) + "\n")
    assert load_scores(path).score.size == len(rows)
    at = data.draw(st.integers(0, len(lines) - 1))
    change = data.draw(
        st.sampled_from([lambda line: line + ",1", lambda line: line.split(",")[0], lambda line: "1," + line])
    )
    lines[at] = change(lines[at])
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError):
        load_scores(path)
