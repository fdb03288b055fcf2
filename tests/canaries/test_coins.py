"""Coins are fair, secret behind a binding commitment, and belong to one frozen set."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coalmine.canaries import CanarySet, Coins, commit, craft, draw_coins, verify_commitment
from coalmine.canaries.coins import save_commitment
from coalmine.foundation import InputError, sha256_of_file


def a_set(m: int = 50, seed: int = 0) -> CanarySet:
    return craft("noise", np.eye(4), np.arange(4), 4, (0, 1), m, seed)


def test_fresh_coins_are_fair_and_never_repeat():
    canaries = a_set(2000)
    draws = [draw_coins(canaries) for _ in range(20)]
    assert len({coins.nonce for coins in draws}) == 20
    heads = np.array([coins.member for coins in draws])
    assert abs(heads.sum() - 20_000) < 5 * np.sqrt(40_000 / 4)
    assert abs(heads.sum(axis=1) - 1000).max() > 0  # independent coins, not exactly half
    assert all(len(coins.nonce) == 64 and coins.created for coins in draws)


def test_a_seed_gives_the_same_bytes_and_another_seed_gives_others():
    canaries = a_set()
    assert draw_coins(canaries, 3).to_bytes() == draw_coins(canaries, 3).to_bytes()
    assert draw_coins(canaries, 3).to_bytes() != draw_coins(canaries, 4).to_bytes()


def test_coins_are_read_back_and_belong_to_their_set(tmp_path):
    canaries = a_set()
    coins = draw_coins(canaries)
    coins.save(tmp_path / "coins.json")
    again = Coins.load(tmp_path / "coins.json")
    assert again.to_bytes() == coins.to_bytes()
    again.check(canaries)
    with pytest.raises(InputError, match="drawn for the canary set"):
        again.check(a_set(seed=1))


def test_the_commitment_is_the_hash_of_the_file_and_hides_the_coins(tmp_path):
    coins = draw_coins(a_set())
    coins.save(tmp_path / "coins.json")
    save_commitment(coins, tmp_path / "commitment.json")
    record = json.loads((tmp_path / "commitment.json").read_text())
    assert record["coins_sha256"] == sha256_of_file(tmp_path / "coins.json")
    assert coins.nonce not in json.dumps(record) and "member" not in record
    verify_commitment(tmp_path / "coins.json", tmp_path / "commitment.json")


def test_any_changed_coin_breaks_the_commitment(tmp_path):
    coins = draw_coins(a_set())
    save_commitment(coins, tmp_path / "commitment.json")
    member = coins.member.copy()
    member[0] ^= True
    Coins(member, coins.nonce, coins.canaries_sha256, coins.created).save(tmp_path / "coins.json")
    with pytest.raises(InputError, match="commits to"):
        verify_commitment(tmp_path / "coins.json", tmp_path / "commitment.json")


def test_the_same_coins_under_another_nonce_have_another_commitment():
    coins = draw_coins(a_set(2))
    other = Coins(coins.member, "0" * 64, coins.canaries_sha256, coins.created)
    assert commit(coins).coins_sha256 != commit(other).coins_sha256


def test_one_canary_is_too_few():
    with pytest.raises(InputError, match="at least 2"):
        draw_coins(a_set(1))


GOOD = {"nonce": "a" * 64, "canaries_sha256": "b" * 64, "member": [0, 1, 1], "created": None}


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ([], "JSON object"),
        ({}, "lacks"),
        (GOOD | {"member": [0, 2]}, "0 and 1"),
        (GOOD | {"member": [True, False]}, "0 and 1"),
        (GOOD | {"member": "01"}, "0 and 1"),
        (GOOD | {"member": [1]}, "at least 2"),
        (GOOD | {"nonce": "A" * 64}, "hex"),
        (GOOD | {"nonce": 5}, "hex"),
        (GOOD | {"canaries_sha256": "b"}, "hex"),
        (GOOD | {"created": 5}, "created"),
    ],
)
def test_a_broken_coins_file_is_told(tmp_path, record, says):
    (tmp_path / "coins.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=says):
        Coins.load(tmp_path / "coins.json")


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_fuzzed_coins_files_are_read_or_refused_in_one_line(tmp_path_factory, data):
    content = bytearray(json.dumps(GOOD).encode())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at : at + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=5))
    path = tmp_path_factory.mktemp("fuzz") / "coins.json"
    path.write_bytes(content)
    try:
        Coins.load(path)
    except InputError as error:
        assert "coins" in str(error)


def test_a_file_with_flags_alone_is_read_and_what_it_cannot_prove_is_said(tmp_path):
    canaries = a_set(3)
    (tmp_path / "coins.json").write_text('{"member": [1, 0, 1]}')
    coins = Coins.load(tmp_path / "coins.json")
    coins.check(canaries)
    assert coins.member.tolist() == [True, False, True] and coins.nonce is None
    assert "no commitment and to no canary set" in coins.remark()
    with pytest.raises(InputError, match="cannot be committed to"):
        commit(coins)
    with pytest.raises(InputError, match="3 coins and 4 canaries"):
        coins.check(a_set(4))
    assert draw_coins(canaries).remark() is None


@pytest.mark.parametrize(
    "again",
    [
        lambda record: json.dumps(record, indent=2),
        lambda record: json.dumps(record),  # without the final newline
        lambda record: json.dumps(record, separators=(",", ":")) + "\n",
        lambda record: json.dumps(dict(reversed(record.items()))) + "\n",
        lambda record: json.dumps(record | {"note": "mine"}) + "\n",
    ],
)
def test_coins_whose_bytes_are_not_those_that_were_committed_to_are_refused_at_once(tmp_path, again):
    coins = draw_coins(a_set())
    coins.save(tmp_path / "coins.json")
    (tmp_path / "coins.json").write_text(again(json.loads((tmp_path / "coins.json").read_text())))
    with pytest.raises(InputError, match="written anew by another program"):
        Coins.load(tmp_path / "coins.json")


def test_a_key_that_stands_twice_is_refused(tmp_path):
    (tmp_path / "coins.json").write_text('{"member": [1, 0, 1], "member": [0, 0, 1]}')
    with pytest.raises(InputError, match="'member' stands there twice"):
        Coins.load(tmp_path / "coins.json")
