"""One audited training run in one folder: data + member canaries -> checkpoint, resumable, with its record.

| file in the folder | holds |
|---|---|
| run.json | what was run, for the audit to hold against the claim; `finished` is false until the end |
| initial.safetensors | the weights before training: reference of the "difference" score |
| training_state.safetensors | weights, momentum, seed: secret (0600), as the seed gives the noise; gone at the end |
| checkpoint.safetensors | the trained weights |

Interrupting a run loses at most the epoch that was under way; the same call goes on and gives the same bits as an
unbroken run. The folder is locked while a process trains in it.

A seed that was given is in no file but the state: a hash of a small one could be found by trying. That a folder is not
continued with another seed is told by the state, and once that is gone by the initial weights. Those tell a small seed
to whoever tries them all, as does every trace of a seeded run: it is for reproduction, not for privacy.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ... import __version__
from ...canaries import CanarySet, Coins
from ...canaries.coins import commit
from ...canaries.injection import remaining_rows
from ...foundation import InputError, fresh_seed, in_use, remove_leftovers, sha256_of_bytes, write_bytes, write_json
from ...foundation.tensor_file import content_sha256, pack, unpack
from .data import Data
from .engine import BuildModel, Stack, fitting_threads, initial_stack, train_epochs
from .run_record import ModelRecord, RunRecord, load_run
from .settings import TrainingSettings

RUN, INITIAL, STATE, CHECKPOINT = (
    "run.json",
    "initial.safetensors",
    "training_state.safetensors",
    "checkpoint.safetensors",
)
CHANGING = (  # of a record between the first epoch and the last
    "epochs_done",
    "finished",
    "train_accuracy",
    "test_accuracy",
    "initial_accuracy",
    "majority_share",
    "initial_sha256",
    "checkpoint_sha256",
    "given_seed_sha256",
    "versions",
)


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Every row that may be trained on: natural rows whose source is no canary, then all m canaries.

    x (N, ...), y (N,), membership (N,) bool: natural rows always, canaries by their coins; natural is how many rows
    come before the canaries.
    expected_size is the public number for the divisor: natural rows + m/2, the same whatever the coins say.
    """

    x: np.ndarray
    y: np.ndarray
    membership: np.ndarray
    natural: int
    expected_size: float


def training_rows(data: Data, canaries: CanarySet | None = None, coins: Coins | None = None) -> TrainingRows:
    """Errors: InputError where canaries, coins and data do not belong together."""
    if canaries is None or coins is None:
        if canaries is not None or coins is not None:
            raise InputError("canaries and coins go together: give both, or neither for a run without canaries")
        return TrainingRows(data.x, data.y, np.ones(len(data.y), dtype=bool), len(data.y), float(len(data.y)))
    coins.check(canaries)
    if canaries.x.shape[1:] != data.x.shape[1:]:
        raise InputError(f"canaries have shape {canaries.x.shape[1:]}, the records of {data.name} {data.x.shape[1:]}")
    if canaries.y.max() >= len(data.classes):
        raise InputError(
            f"a canary has label {int(canaries.y.max())}, {data.name} has the classes 0…{len(data.classes) - 1}"
        )
    if canaries.data_fingerprint and canaries.data_fingerprint != data.fingerprint:
        raise InputError(
            f"the canaries were crafted from other data ({canaries.data_fingerprint[:12]}…) than {data.name} "
            f"({data.fingerprint[:12]}…): their source rows cannot be taken out; craft them from this data"
        )
    stay = remaining_rows(canaries, len(data.y))
    return TrainingRows(
        np.concatenate([data.x[stay], canaries.x]),
        np.concatenate([data.y[stay], canaries.y]),
        np.concatenate([np.ones(int(stay.sum()), dtype=bool), coins.member]),
        int(stay.sum()),
        float(stay.sum()) + len(canaries) / 2,
    )


def train_run(
    output: str | Path,
    data: Data,
    build: BuildModel,
    model_name: str,
    settings: TrainingSettings,
    canaries: CanarySet | None = None,
    coins: Coins | None = None,
    seed: int | None = None,
    device: str | torch.device = "cpu",
    on_epoch: Callable[[int], None] | None = None,
) -> RunRecord:
    """Train, or go on with, the run in `output`; returns what run.json holds.

    Without a seed all randomness starts from the operating system's entropy. on_epoch hears how many epochs are
    done. Errors: InputError when the folder holds another run, or anything does not fit, before training starts.
    """
    output = Path(output)
    rows = training_rows(data, canaries, coins)
    record = _record(data, model_name, settings, canaries, coins, seed)
    _earlier(output, record)  # told before the folder is touched
    with in_use(output, "--output"):
        return _train(output, data, rows, build, settings, record, seed, device, on_epoch)


def _train(
    output: Path,
    data: Data,
    rows: TrainingRows,
    build: BuildModel,
    settings: TrainingSettings,
    record: RunRecord,
    seed: int | None,
    device: str | torch.device,
    on_epoch: Callable[[int], None] | None,
) -> RunRecord:
    """`train_run` in a folder that nobody else writes to."""
    earlier = _earlier(output, record)
    for name in (RUN, INITIAL, STATE, CHECKPOINT):
        remove_leftovers(output / name)
    if earlier is not None and earlier.finished:
        if seed is not None:
            _refuse_another_seed(output, build, seed, device)
        (output / STATE).unlink(missing_ok=True)  # of a run that was killed between its last write and this one
        return earlier
    stack = _start(output, build, seed, earlier, device)
    if earlier is None:
        initial = _weights(stack)
        untrained = accuracy(stack.modules()[0], *_natural(rows, device))
        record = replace(record, initial_sha256=sha256_of_bytes(initial), initial_accuracy=untrained)
        write_json(output / RUN, record.to_json())  # first of all: weights without a record are somebody else's
        write_bytes(output / INITIAL, initial)
        _save_state(output, stack)
    else:
        record = earlier
    x, y = torch.as_tensor(rows.x).to(device), torch.as_tensor(rows.y).to(device)
    with fitting_threads(stack):
        for _ in train_epochs(stack, x, y, rows.membership[None], settings):
            _save_state(output, stack)
            write_json(output / RUN, replace(record, epochs_done=stack.epochs_done).to_json())
            if on_epoch:
                on_epoch(stack.epochs_done)
    model = stack.modules()[0]
    weights = _weights(stack)
    record = replace(
        record,
        epochs_done=stack.epochs_done,
        finished=True,
        # of the natural rows alone: a figure that the coins have no part in beyond the model itself
        train_accuracy=accuracy(model, *_natural(rows, device)),
        test_accuracy=accuracy(model, torch.as_tensor(data.x_test).to(device), torch.as_tensor(data.y_test).to(device)),
        checkpoint_sha256=sha256_of_bytes(weights),
    )
    write_bytes(output / CHECKPOINT, weights)
    write_json(output / RUN, record.to_json())
    (output / STATE).unlink(missing_ok=True)
    return record


def _natural(rows: TrainingRows, device: str | torch.device) -> tuple[Tensor, Tensor]:
    """The rows that are in whatever the coins say."""
    return tuple(torch.as_tensor(part[: rows.natural]).to(device) for part in (rows.x, rows.y))  # type: ignore


def accuracy(model: nn.Module, x: Tensor, y: Tensor, batch: int = 1024) -> float | None:
    """Share of rows that the model labels right; None where there are no rows."""
    if len(y) == 0:
        return None
    right = 0
    with torch.no_grad():
        for start in range(0, len(y), batch):
            logits = model(x[start : start + batch])
            label = (logits.reshape(-1) > 0).long() if logits.shape[-1] == 1 else logits.argmax(-1)
            right += int((label == y[start : start + batch]).sum())
    return right / len(y)


def _record(
    data: Data,
    model_name: str,
    settings: TrainingSettings,
    canaries: CanarySet | None,
    coins: Coins | None,
    seed: int | None,
) -> RunRecord:
    """The record before the first epoch. Nothing in it depends on the coins but their commitment."""
    return RunRecord(
        mechanism=settings.mechanism(),
        clipping_norm=settings.clipping_norm,
        divisor=settings.divisor,
        # of the rows that were given and no canaries, the number depends on who is among them
        divisor_is_public=canaries is not None or settings.public_size_fixed,
        epochs_done=0,
        finished=False,
        settings=settings.record(),
        model=ModelRecord(model_name, tuple(data.x.shape[1:]), len(data.classes)),
        data=data.name,
        data_fingerprint=data.fingerprint,
        canaries_sha256=canaries.sha256 if canaries else None,
        commitment=commit(coins).coins_sha256 if coins is not None and coins.nonce is not None else None,
        seeded=seed is not None,
        majority_share=float(np.bincount(data.y).max() / len(data.y)),
        versions={"coalmine": __version__, "python": platform.python_version(), "torch": torch.__version__},
    )


def _identity(record: RunRecord) -> dict[str, Any]:
    """What must be equal for a folder to hold the same run. Records of older versions hold a hash of the seed."""
    known = {"seeded": record.others.get("given_seed_sha256") is not None} | json.loads(json.dumps(record.to_json()))
    return {key: value for key, value in known.items() if key not in CHANGING}


def _earlier(output: Path, record: RunRecord) -> RunRecord | None:
    """The record of what the folder holds of this run; None for a new one. Errors: InputError for what is not its."""
    if not (output / RUN).exists():
        foreign = [name for name in (INITIAL, STATE, CHECKPOINT) if os.path.lexists(output / name)]
        if foreign:
            raise InputError(
                f"--output {str(output)!r} holds {', '.join(foreign)} and no {RUN}: these weights are not of a run "
                "here and would be replaced; choose another folder"
            )
        return None
    earlier = load_run(output / RUN)
    known, wanted = _identity(earlier), _identity(record)
    different = sorted(key for key in {*known, *wanted} if known.get(key) != wanted.get(key))
    if different:
        raise InputError(
            f"--output {str(output)!r} holds another run, which differs in "
            f"{', '.join(different).replace('seeded', 'seed')}: choose another folder, or delete this one"
        )
    if earlier.finished:
        done = (output / CHECKPOINT).exists()
        if not done:
            raise InputError(f"{str(output / RUN)!r} says finished and its {CHECKPOINT} is missing: delete the folder")
        return earlier
    return earlier if (output / STATE).exists() else None


def _another_seed(output: Path) -> InputError:
    return InputError(
        f"--output {str(output)!r} holds another run, which differs in seed: choose another folder, or delete this one"
    )


def _refuse_another_seed(output: Path, build: BuildModel, seed: int, device: str | torch.device) -> None:
    """A finished run's seed is in none of its files; its initial weights are what the seed gives."""
    began, _ = unpack(output / INITIAL, "initial weights")
    now = initial_stack(build, [seed], device).modules()[0].state_dict()
    if set(now) != set(began) or not all(np.array_equal(now[n].cpu().numpy(), began[n]) for n in began):
        raise _another_seed(output)


def _start(
    output: Path, build: BuildModel, seed: int | None, earlier: RunRecord | None, device: str | torch.device
) -> Stack:
    if earlier is None:
        return initial_stack(build, [fresh_seed() if seed is None else seed], device)
    try:
        tensors, metadata = unpack(output / STATE, "training state")
    except InputError as error:
        raise InputError(f"{error}; delete it, and the same command starts over") from None
    if seed is not None and metadata.get("seed") != str(seed):
        raise _another_seed(output)
    try:
        stack = initial_stack(build, [int(metadata["seed"])], device)
        stack.theta.copy_(torch.from_numpy(tensors["theta"]))
        stack.velocity.copy_(torch.from_numpy(tensors["velocity"]))
        for name, buffer in stack.buffers.items():
            buffer.copy_(torch.from_numpy(tensors[f"buffer.{name}"]))
        stack.epochs_done = int(metadata["epochs_done"])
    except (KeyError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{str(output / STATE)!r} does not fit the run ({error}): delete it, and the same command starts over"
        ) from None
    return stack


def _save_state(output: Path, stack: Stack) -> None:
    tensors = {"theta": stack.theta, "velocity": stack.velocity}
    tensors |= {f"buffer.{name}": buffer for name, buffer in stack.buffers.items()}
    metadata = {
        "seed": str(stack.seeds[0]),
        "epochs_done": str(stack.epochs_done),
        "warning": "secret: the seed gives the noise away",
    }
    write_bytes(output / STATE, pack({name: t.cpu().numpy() for name, t in tensors.items()}, metadata), secret=True)


def _weights(stack: Stack) -> bytes:
    """The state dict of the one model in the stack, as safetensors. Tied weights are written once a name."""
    state = stack.modules()[0].state_dict()
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in state.items()}
    return pack(arrays, {"tensors_sha256": content_sha256(arrays), "coalmine_version": __version__})
