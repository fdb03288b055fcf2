"""Shadow models, spread over processes or a cluster, resumable: coins, chunks, shards.

Membership: an independent coin for each example and shadow, drawn before training from the stream "shadow/<i>/keep".
Shadow i depends on (seed, i) alone: asking for more shadows later keeps the first ones. Never exactly balanced: a
balanced design tells a left-out model's membership by counting (docs/attacks.md).

Work: chunks of neighbouring shadows, each handed to the injected train_many(membership (K, N) bool, seeds (K,)) -> K
modules, then queried, then written as one shard: a .npz under a temporary name, renamed when whole. A shard's name
holds the hash of everything that decides its content (data, recipe, views, seed, code version), so that a rerun
trains what is missing, and a changed recipe never meets an old shard. Chunks run in a plain loop, in processes
(joblib's loky, one torch thread each) or on a dask cluster that shares the folder; results are the same to the bit.

Memory: a chunk holds K models, their momentum, and whatever train_many needs for a step of K models.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from ..foundation import InputError, in_use, numpy_stream, write_bytes
from .shadow_arrays import load_npz

TrainMany = Callable[[np.ndarray, Sequence[int]], list[nn.Module]]
Measure = Callable[[nn.Module], dict[str, np.ndarray]]  # what to keep of a model: name -> array of one shape
BACKENDS = ("loop", "loky", "dask")


@dataclass(frozen=True)
class Shadows:
    """S shadow models by number: keep (S, N) bool, seeds (S,) and the hash that names their shards."""

    keep: np.ndarray
    seeds: tuple[int, ...]
    key: str

    def __len__(self) -> int:
        return len(self.seeds)


def plan_shadows(
    count: int,
    rows: int,
    seed: int,
    identity: Mapping[str, Any],
    *,
    fraction: float = 0.5,
    always: np.ndarray | None = None,
    stream: str = "shadow",
) -> Shadows:
    """Coins and seeds of `count` models over `rows` examples.

    fraction: probability of each coin. always (rows,) bool: rows that every model trains on, without a coin.
    identity: everything else that decides a model (data fingerprint, recipe, views, code version), JSON.
    stream: "shadow", or another name for models that must share nothing with the shadows ("target").
    Errors: InputError for a count below 1 and a fraction outside (0, 1).
    """
    if count < 1:
        raise InputError(f"the number of models must be at least 1, got {count}")
    if not (0 < fraction < 1):
        raise InputError(f"fraction must lie strictly between 0 and 1, got {fraction!r}")
    keep = np.empty((count, rows), dtype=bool)
    for i in range(count):
        keep[i] = numpy_stream(seed, f"{stream}/{i}/keep").random(rows) < fraction
    if always is not None:
        keep |= always
    seeds = tuple(int(numpy_stream(seed, f"{stream}/{i}/train").integers(2**63)) for i in range(count))
    fixed = "" if always is None else hashlib.sha256(np.packbits(always).tobytes()).hexdigest()
    described = {**identity, "rows": rows, "seed": str(seed), "fraction": fraction, "always": fixed, "stream": stream}
    text = json.dumps(described, sort_keys=True, allow_nan=False)
    return Shadows(keep, seeds, hashlib.sha256(text.encode()).hexdigest())


def run_shadows(
    shadows: Shadows,
    train_many: TrainMany,
    measure: Measure,
    folder: str | Path,
    *,
    chunk: int = 8,
    jobs: int = 1,
    backend: str = "loky",
    span: tuple[int, int] | None = None,
    advance: Callable[[], None] | None = None,
) -> dict[str, np.ndarray] | None:
    """Train and measure what is missing; return name -> (S, …), or None where a span leaves shards to others.

    measure(model) -> arrays to keep of one model; with jobs > 1 both callables must pickle (defined in a module).
    chunk: models a task, 4 to 16 pay. jobs: processes; 1 is a loop. backend dask: a running distributed.Client.
    span: only the chunks that begin in [first, last), for an array of cluster jobs. advance: called after each chunk.
    Errors: InputError where another process trains in the folder.
    """
    if chunk < 1 or jobs < 1:
        raise InputError(f"chunk and jobs must be at least 1, got {chunk} and {jobs}")
    if backend not in BACKENDS:
        raise InputError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    if span is not None and not (0 <= span[0] < span[1]):
        raise InputError(f"span must be first:last with 0 <= first < last, got {span[0]}:{span[1]}")
    folder = Path(os.path.realpath(folder))
    with in_use(folder, "folder", shared=span is not None):  # the jobs of an array share it, each with its own shards
        return _train_missing(shadows, train_many, measure, folder, chunk, jobs, backend, span, advance)


def _train_missing(
    shadows: Shadows,
    train_many: TrainMany,
    measure: Measure,
    folder: Path,
    chunk: int,
    jobs: int,
    backend: str,
    span: tuple[int, int] | None,
    advance: Callable[[], None] | None,
) -> dict[str, np.ndarray] | None:
    starts = range(0, len(shadows), chunk)
    mine = [s for s in starts if span is None or span[0] <= s < span[1]]
    tasks = []
    for start in mine:
        stop = min(start + chunk, len(shadows))
        path = shard_path(folder, shadows.key, start, stop)
        if not path.exists():
            tasks.append((train_many, measure, shadows.keep[start:stop], shadows.seeds[start:stop], path, shadows.key))
        elif advance:
            advance()
    for _ in _run(tasks, jobs, backend):
        if advance:
            advance()
    paths = [shard_path(folder, shadows.key, s, min(s + chunk, len(shadows))) for s in starts]
    if span is not None and not all(path.exists() for path in paths):
        return None
    shards = [read_shard(path, shadows.key) for path in paths]
    return {name: np.concatenate([shard[name] for shard in shards]) for name in shards[0]}


def shard_path(folder: Path, key: str, start: int, stop: int) -> Path:
    return folder / f"shard-{key[:16]}-{start:05d}-{stop:05d}.npz"


def read_shard(path: Path, key: str) -> dict[str, np.ndarray]:
    """The measurements of a shard. Errors: InputError where it is damaged or another run's."""
    stored = load_npz(path)
    if str(stored.pop("key", "")) != key:
        raise InputError(f"shard {str(path)!r} belongs to another run or is damaged: delete it and run again")
    return stored


def _run(tasks: list[tuple[Any, ...]], jobs: int, backend: str) -> Iterator[None]:
    """One item as each task finishes. A failed task's error is raised; finished shards stay."""
    if jobs == 1 or backend == "loop" or len(tasks) <= 1:
        for task in tasks:
            _train_chunk(*task)
            yield
        return
    from joblib import Parallel, delayed, parallel_config

    try:
        with parallel_config(backend="dask") if backend == "dask" else parallel_config("loky", inner_max_num_threads=1):
            for _ in Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(_train_chunk)(*t) for t in tasks):
                yield
    except (ValueError, ImportError) as error:
        if backend == "dask" and not isinstance(error, InputError):
            raise InputError(f"backend dask needs a running distributed.Client (extra dask): {error}") from None
        raise


def _train_chunk(
    train_many: TrainMany, measure: Measure, keep: np.ndarray, seeds: Sequence[int], path: Path, key: str
) -> None:
    """One task, in whatever process: train, measure, write the shard."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # stacked small models gain nothing from threads, and processes would fight for cores
    try:
        models = train_many(keep, seeds)
        if len(models) != len(seeds):
            raise InputError(f"train_many returned {len(models)} models for {len(seeds)} seeds")
        measured = [measure(model) for model in models]
    finally:
        torch.set_num_threads(threads)
    arrays = {name: np.stack([m[name] for m in measured]) for name in measured[0]}
    buffer = io.BytesIO()
    np.savez(buffer, **{"key": np.array(key), **arrays})  # pyright: ignore[reportArgumentType]
    write_bytes(path, buffer.getvalue())
