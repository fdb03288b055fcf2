"""A run folder under threat: killed at every write, used twice at once, holding somebody else's weights, spied upon."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coalmine.audit.training.data import load_data
from coalmine.audit.training.models import build_model
from coalmine.audit.training.run import train_run, training_rows
from coalmine.audit.training.settings import TrainingSettings
from coalmine.canaries import craft, draw_coins
from coalmine.foundation import InputError, files, in_use, sha256_of_bytes

DATA = load_data("digits")
CANARIES = craft(
    "random", DATA.x, DATA.y, len(DATA.classes), DATA.value_range, 10, seed=1, data_fingerprint=DATA.fingerprint
)
COINS = draw_coins(CANARIES, seed=2)
FINISHED = ["checkpoint.safetensors", "initial.safetensors", "run.json"]


def train(output, seed=5, on_epoch=None):
    size = training_rows(DATA, CANARIES, COINS).expected_size
    settings = TrainingSettings(2, 2, 0.5, size, 1.0, 1.0)

    def build(s):
        return build_model("mlp", DATA.x.shape[1:], len(DATA.classes), s)

    return train_run(output, DATA, build, "mlp", settings, CANARIES, COINS, seed, on_epoch=on_epoch)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


KILLED = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_run_folder as t
real, unlink = os.replace, Path.unlink
def child(kill_at, before, folder):
    done = 0
    def counted(work):
        def step(*given, **named):
            nonlocal done
            done += 1
            if done == kill_at and before:
                os._exit(9)
            work(*given, **named)
            if done == kill_at:
                os._exit(9)
        return step
    os.replace = counted(real)
    Path.unlink = counted(unlink)
    t.train(folder)
    os._exit(0)
t.train(Path(sys.argv[2]).parent / "warm")  # what is imported and compiled once is there for every child
kill_at = 0
while True:
    kill_at += 1
    codes = []
    for before in (True, False):
        pid = os.fork()
        if pid == 0:
            child(kill_at, before, Path(sys.argv[2]) / f"{kill_at:02d}-{before}")
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    if codes == [0, 0]:
        break
print(kill_at)
"""


def test_a_run_killed_before_or_after_any_write_goes_on_to_the_same_bytes_and_leaves_no_secret(tmp_path):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # one thread: nothing is lost by the fork
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(tmp_path / "killed")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 9  # record, weights, state, twice two an epoch, checkpoint, record, the state's removal
    train(tmp_path / "unbroken")
    whole = {name: (tmp_path / "unbroken" / name).read_bytes() for name in FINISHED}
    for folder in sorted((tmp_path / "killed").iterdir()):
        for file in folder.iterdir():
            if "training_state" in file.name:
                assert file.stat().st_mode & 0o777 == 0o600, (folder.name, file.name)
        train(folder)
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == whole, folder.name


def test_a_finished_run_that_kept_its_state_loses_it_on_the_rerun(tmp_path):
    state = {}

    def keep(_):
        state["bytes"] = (tmp_path / "training_state.safetensors").read_bytes()

    train(tmp_path, on_epoch=keep)
    (tmp_path / "training_state.safetensors").write_bytes(state["bytes"])
    (tmp_path / ".training_state.safetensors.x1.tmp").write_bytes(state["bytes"])
    assert train(tmp_path).finished
    assert names(tmp_path) == FINISHED


def test_the_state_is_its_owners_alone_in_every_epoch(tmp_path):
    modes = []
    train(tmp_path, on_epoch=lambda _: modes.append((tmp_path / "training_state.safetensors").stat().st_mode & 0o777))
    assert modes == [0o600, 0o600]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_secret_is_0600_at_every_moment_whatever_the_umask(tmp_path, monkeypatch, umask):
    seen = []
    for call in ("fsync", "replace"):
        real = getattr(os, call)

        def spied(*given, real=real):
            seen.extend(p.stat().st_mode & 0o777 for p in tmp_path.iterdir())
            return real(*given)

        monkeypatch.setattr(files.os, call, spied)
    before = os.umask(umask)
    try:
        COINS.save(tmp_path / "coins.json")
        COINS.save(tmp_path / "coins.json")  # over one that is there
    finally:
        os.umask(before)
    assert set(seen) == {0o600} and len(seen) >= 4
    assert (tmp_path / "coins.json").stat().st_mode & 0o777 == 0o600


def test_no_file_of_a_finished_seeded_run_holds_its_seed_or_a_hash_of_it(tmp_path):
    train(tmp_path, seed=987654321)
    text = b"".join(p.read_bytes() for p in tmp_path.iterdir())
    for form in ("987654321", "coalmine seed 987654321"):
        assert form.encode() not in text and sha256_of_bytes(form.encode()).encode() not in text


def test_records_of_older_versions_are_known_again(tmp_path):
    train(tmp_path)
    record = json.loads((tmp_path / "run.json").read_text())
    del record["seeded"]
    record["given_seed_sha256"] = sha256_of_bytes(b"coalmine seed 5")
    (tmp_path / "run.json").write_text(json.dumps(record))
    assert train(tmp_path).finished
    with pytest.raises(InputError, match="differs in seed"):
        train(tmp_path, seed=6)


@pytest.mark.parametrize("name", ["checkpoint.safetensors", "initial.safetensors", "training_state.safetensors"])
def test_weights_without_a_record_are_somebody_elses(tmp_path, name):
    (tmp_path / name).write_bytes(b"precious")
    with pytest.raises(InputError, match="would be replaced"):
        train(tmp_path)
    assert names(tmp_path) == [name] and (tmp_path / name).read_bytes() == b"precious"


def test_a_folder_in_use_is_refused_and_untouched_and_free_again_afterwards(tmp_path):
    with in_use(tmp_path), pytest.raises(InputError, match="in use by another process"):
        train(tmp_path)
    assert names(tmp_path) == []
    assert train(tmp_path).finished


def test_who_shares_a_lock_excludes_only_those_who_do_not(tmp_path):
    with in_use(tmp_path, shared=True), in_use(tmp_path, shared=True), pytest.raises(InputError), in_use(tmp_path):
        pass
    with in_use(tmp_path), pytest.raises(InputError), in_use(tmp_path, shared=True):
        pass
    assert names(tmp_path) == []


def test_the_lock_of_a_killed_process_blocks_nobody(tmp_path):
    held = "from coalmine.foundation import in_use; import os, sys\nwith in_use(sys.argv[1]): os._exit(9)"
    assert subprocess.run([sys.executable, "-c", held, str(tmp_path)]).returncode == 9
    with in_use(tmp_path):
        pass
    assert names(tmp_path) == []
