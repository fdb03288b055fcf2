"""A run folder: what is in it, that it resumes to the bit, that it refuses what does not belong together."""

import contextlib
import dataclasses

import numpy as np
import pytest

from coalmine.audit.training.checkpoint_files import read_weights
from coalmine.audit.training.data import load_data
from coalmine.audit.training.models import build_model
from coalmine.audit.training.run import train_run, training_rows
from coalmine.audit.training.run_record import load_run
from coalmine.audit.training.settings import TrainingSettings
from coalmine.canaries import craft, draw_coins
from coalmine.foundation import InputError, read_json

DATA = load_data("digits")
CANARIES = craft(
    "mislabelled", DATA.x, DATA.y, len(DATA.classes), DATA.value_range, 40, seed=1, data_fingerprint=DATA.fingerprint
)
COINS = draw_coins(CANARIES, seed=2)


def settings(**changes) -> TrainingSettings:
    size = training_rows(DATA, CANARIES, COINS).expected_size
    told = {"steps_per_epoch": 4, "epochs": 3, "learning_rate": 0.5, "noise_multiplier": 1.0, "clipping_norm": 1.0}
    return TrainingSettings(**({"public_size": size} | told | changes))


def train(output, told=None, on_epoch=None, seed=5, canaries=CANARIES, coins=COINS):
    def build(s):
        return build_model("mlp", DATA.x.shape[1:], len(DATA.classes), s)

    return train_run(output, DATA, build, "mlp", told or settings(), canaries, coins, seed, on_epoch=on_epoch)


def content(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def test_a_finished_run_leaves_its_record_and_weights_and_no_secret(tmp_path):
    record = train(tmp_path)
    assert sorted(content(tmp_path)) == ["checkpoint.safetensors", "initial.safetensors", "run.json"]
    assert record == load_run(tmp_path)
    assert record.mechanism == {
        "name": "random_allocation", "steps_per_epoch": 4, "epochs": 3, "noise_multiplier": 1.0
    }  # fmt: skip
    assert record.finished and record.epochs_done == 3
    assert record.divisor == (len(DATA.y) - 40 + 20) / 4
    assert record.canaries_sha256 == CANARIES.sha256
    assert record.seeded is True and not any("seed_sha256" in key for key in record.to_json())


def test_same_seed_same_bytes_other_seed_other_weights(tmp_path):
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        train(tmp_path / name, seed=seed)
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert content(tmp_path / "a")["checkpoint.safetensors"] != content(tmp_path / "c")["checkpoint.safetensors"]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_an_interrupted_run_goes_on_to_the_same_bits(tmp_path, momentum):
    told = settings(momentum=momentum)
    train(tmp_path / "unbroken", told)

    def interrupt(epochs_done):
        if epochs_done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "broken", told, interrupt)
    assert read_json(tmp_path / "broken" / "run.json", "run")["finished"] is False
    seen = []
    train(tmp_path / "broken", told, seen.append)
    assert seen == [3]
    assert content(tmp_path / "unbroken") == content(tmp_path / "broken")


def test_an_unseeded_run_resumes_with_the_seed_it_began_with(tmp_path):
    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, on_epoch=interrupt, seed=None)
    record = train(tmp_path, seed=None)
    assert record.finished and record.seeded is False


@pytest.mark.parametrize("finished", [True, False])
def test_a_folder_with_another_seed_is_another_run(tmp_path, finished):
    def interrupt(_):
        if not finished:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        train(tmp_path, on_epoch=interrupt, seed=5)
    for seed in (6, None):
        with pytest.raises(InputError, match="differs in seed"):
            train(tmp_path, seed=seed)


def test_what_a_killed_write_left_is_swept_and_a_damaged_state_names_the_remedy(tmp_path):
    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, on_epoch=interrupt)
    (tmp_path / ".training_state.safetensors.abc.tmp").write_bytes(b"half")
    whole = (tmp_path / "training_state.safetensors").read_bytes()
    (tmp_path / "training_state.safetensors").write_bytes(whole[:100])
    with pytest.raises(InputError, match="delete it, and the same command starts over"):
        train(tmp_path)
    (tmp_path / "training_state.safetensors").unlink()
    train(tmp_path)
    assert sorted(content(tmp_path)) == ["checkpoint.safetensors", "initial.safetensors", "run.json"]


def test_a_finished_run_is_not_trained_again(tmp_path):
    train(tmp_path)
    before = content(tmp_path)
    train(tmp_path, on_epoch=lambda _: pytest.fail("trained again"))
    assert content(tmp_path) == before


def test_a_folder_that_holds_another_run_is_refused_by_what_differs(tmp_path):
    train(tmp_path)
    with pytest.raises(InputError, match="differs in mechanism, settings"):
        train(tmp_path, settings(noise_multiplier=2.0))


def test_source_rows_leave_the_data_whatever_the_coins_say():
    rows = training_rows(DATA, CANARIES, COINS)
    assert rows.natural == len(DATA.y) - 40
    assert np.array_equal(rows.membership[rows.natural :], COINS.member)
    natural = rows.x[: rows.natural].reshape(rows.natural, -1)
    kept = np.setdiff1d(np.arange(len(DATA.y)), CANARIES.source_index)
    assert np.array_equal(natural, DATA.x[kept].reshape(len(kept), -1))


def test_the_divisor_does_not_depend_on_the_coins():
    sizes = {training_rows(DATA, CANARIES, draw_coins(CANARIES, seed=s)).expected_size for s in range(5)}
    assert sizes == {len(DATA.y) - 40 + 20.0}


def test_what_does_not_belong_together_is_refused(tmp_path):
    other = craft("noise", DATA.x, DATA.y, 10, DATA.value_range, 40, seed=9, data_fingerprint=DATA.fingerprint)
    with pytest.raises(InputError, match="coins were drawn for"):
        train(tmp_path, canaries=other)
    with pytest.raises(InputError, match="go together"):
        train(tmp_path, coins=None)
    foreign = dataclasses.replace(CANARIES, data_fingerprint="0" * 64)
    with pytest.raises(InputError, match="other data"):
        train(tmp_path, canaries=foreign, coins=draw_coins(foreign, seed=1))
    wrong = dataclasses.replace(CANARIES, x=np.zeros((40, 3), np.float32), value_range=None)
    with pytest.raises(InputError, match="shape"):
        train(tmp_path, canaries=wrong, coins=draw_coins(wrong, seed=1))
    assert not list(tmp_path.iterdir())


def test_a_divisor_that_is_counted_from_the_rows_is_not_called_public(tmp_path):
    """Without canaries the rows may be the user's own coins: their number tells who is in, unless it was named."""
    plain = settings(public_size=float(len(DATA.y)))
    assert train(tmp_path / "a", plain, canaries=None, coins=None).divisor_is_public is False
    fixed = settings(public_size=1500.0, public_size_fixed=True)
    assert train(tmp_path / "b", fixed, canaries=None, coins=None).divisor_is_public is True
    assert train(tmp_path / "c").divisor_is_public is True


def test_a_checkpoint_with_flipped_bits_is_refused(tmp_path):
    train(tmp_path)
    path = tmp_path / "checkpoint.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 0x40
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="was changed since it was written"):
        read_weights(path)
