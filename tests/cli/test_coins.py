"""`coalmine coins` at the command line."""

import json

import pytest

from coalmine.audit.cli import main
from coalmine.canaries import CanarySet, Coins, craft, verify_commitment


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    craft("noise", [[0.0, 1.0], [1.0, 0.0]], [0, 1], 2, (0, 1), 40, 0).save("c.safetensors")
    return tmp_path


def run(capsys, *arguments):
    code = 0
    try:
        main(["coins", *arguments])
    except SystemExit as error:
        code = error.code or 0
    return code, *capsys.readouterr()


def test_coins_and_commitment_are_written_and_belong_together(here, capsys):
    code, out, _ = run(capsys, "--canaries", "c.safetensors", "--json")
    assert code == 0 and json.loads(out)["canaries"] == 40
    Coins.load("coins.json").check(CanarySet.load("c.safetensors"))
    verify_commitment("coins.json", "commitment.json")
    assert "member" not in out


def test_coins_are_never_overwritten_by_accident(here, capsys):
    run(capsys, "--canaries", "c.safetensors")
    before = (here / "coins.json").read_bytes()
    code, _, err = run(capsys, "--canaries", "c.safetensors")
    assert code == 2 and "--force" in err
    assert (here / "coins.json").read_bytes() == before
    assert run(capsys, "--canaries", "c.safetensors", "--force")[0] == 0
    assert (here / "coins.json").read_bytes() != before


def test_a_published_commitment_is_never_overwritten_by_accident(here, capsys):
    run(capsys, "--canaries", "c.safetensors")
    before = (here / "commitment.json").read_bytes()
    code, _, err = run(capsys, "--canaries", "c.safetensors", "--output", "other.json")
    assert code == 2 and "--commitment" in err and not (here / "other.json").exists()
    assert (here / "commitment.json").read_bytes() == before


def test_a_seed_reproduces_and_says_what_it_is_for(here, capsys):
    _, _, err = run(capsys, "--canaries", "c.safetensors", "--seed", "5")
    before = (here / "coins.json").read_bytes()
    assert "for reproduction, not for privacy" in err
    run(capsys, "--canaries", "c.safetensors", "--seed", "5", "--force")
    assert (here / "coins.json").read_bytes() == before


def test_secret_and_public_file_must_differ(here, capsys):
    code, _, err = run(capsys, "--canaries", "c.safetensors", "--output", "a.json", "--commitment", "a.json")
    assert code == 2 and "secret" in err


@pytest.mark.parametrize("content", [b"", b"\x80\x04.", b"PK\x03\x04", b"\xff" * 40, b"{}"])
def test_a_file_that_is_no_canary_set_is_one_line(here, capsys, content):
    (here / "bad").write_bytes(content)
    code, out, err = run(capsys, "--canaries", "bad")
    assert code == 2 and out == "" and err.startswith("error: ") and err.count("\n") == 1
