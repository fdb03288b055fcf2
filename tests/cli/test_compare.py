"""`coalmine compare`, run as a user runs it: killed and resumed to the same bytes, grown, refused."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from coalmine.audit.cli import main
from coalmine.audit.compare.table import read_table

COMMAND = (
    "compare --data rows.npz --noise-multiplier 1,3 --steps-per-epoch 3 --epochs 2 --runs 4 --canaries 20 --chunk 2 "
    "--quiet -o"
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stream = np.random.default_rng(0)
    np.savez(tmp_path / "rows.npz", x=stream.random((80, 5), dtype=np.float32), y=np.arange(80) % 3)
    return tmp_path


def call(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main(list(words))
    said = capsys.readouterr()
    return end.value.code, said.out, said.err


def test_killed_in_the_middle_and_run_again_it_writes_the_same_bytes(here, capsys):
    assert call(capsys, *COMMAND.split(), "unbroken")[0] == 0
    whole = (here / "unbroken" / "compare.csv").read_bytes()
    started = subprocess.Popen(
        [sys.executable, "-m", "coalmine", *COMMAND.split(), "killed"],
        cwd=here,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 120
    while not list((here / "killed").glob("shard-*.npz")) and started.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    started.send_signal(signal.SIGKILL)
    started.wait()
    pieces = {file.name: file.stat().st_mtime_ns for file in (here / "killed").glob("shard-*.npz")}
    assert pieces
    assert call(capsys, *COMMAND.split(), "killed")[0] == 0
    assert (here / "killed" / "compare.csv").read_bytes() == whole
    for name, written in pieces.items():  # what was finished is not trained again
        assert (here / "killed" / name).stat().st_mtime_ns == written


def test_the_table_holds_every_audit_with_n_intervals_and_class(here, capsys):
    code, out, _ = call(capsys, *COMMAND.split(), "out", "--score", "phi,loss")
    assert code == 0 and out.count("white box") == 2
    rows = read_table(here / "out" / "compare.csv")
    assert len(rows) == 2 * 3 * 3 * (4 + 1)  # cells, attacks, quantities, runs and all together
    for row in rows:
        assert row["class"] in ("A", "B", "C", "runs") and row["n"] > 0
        if row["quantity"] == "attack_accuracy":
            assert row["lower"] <= row["value"] <= row["upper"] and row["bound_lower"] <= row["bound_upper"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--noise-multiplier", "1,two"], "--noise-multiplier"),
        (["--noise-multiplier", "0"], "noise_multiplier"),
        (["--noise-multiplier", "1", "--sampler", "fixed_size"], "sampler"),
        (["--noise-multiplier", "1", "--canary-method", "none_such"], "none_such"),
        (["--noise-multiplier", "1", "--model", "none-such"], "none-such"),
        (["--noise-multiplier", "1", "--format", "xls"], "--format"),
        (["--noise-multiplier", "1", "--data", "rows.npz", "--canaries", "1"], "canaries"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_trained(here, capsys, words, named):
    code, _, err = call(capsys, "compare", *words, "-o", "out", "--quiet")
    assert code == 2 and named in err and err.count("\n") == 1
    assert not list(here.glob("out/shard-*"))
