"""Random allocation for any DataLoader, and for Opacus: each record in exactly one step of each epoch.

    sampler = RandomAllocationBatchSampler(len(dataset), steps_per_epoch)
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=EmptyBatchCollate(dataset))

    model = GradSampleModule(model)
    optimizer = DPOptimizer(optimizer, noise_multiplier=…, max_grad_norm=…,
                            expected_batch_size=public_size / steps_per_epoch)

`public_size` stands for the number of records and must not depend on who is among them: natural rows plus half the
canaries, as a float. PrivacyEngine.make_private would replace the loader by a Poisson one and take the realised size,
which tells how many canaries are members; so the two Opacus classes are used directly.

A step may have no record at all. It must still be taken, with its noise: skipping it would show that it was empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import Dataset, Sampler, default_collate

from ...foundation import InputError, fresh_seed
from .samplers import epoch_batches


class RandomAllocationBatchSampler(Sampler[list[int]]):
    """Batches of row indices, `steps_per_epoch` an epoch: every record draws its step uniformly, afresh each epoch.

    Each iteration is one epoch. Without a seed the draws start from the operating system's entropy; with one they
    are those of the training engine for the same seed. To resume, set `epoch` to the number of epochs done.
    Errors: InputError.
    """

    def __init__(self, records: int, steps_per_epoch: int, seed: int | None = None) -> None:
        for name, value in (("records", records), ("steps_per_epoch", steps_per_epoch)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
        self.records = records
        self.steps_per_epoch = steps_per_epoch
        self.epoch = 0
        self._seed = fresh_seed() if seed is None else seed

    def __iter__(self) -> Iterator[list[int]]:
        batches = epoch_batches("random_allocation", self.records, self.steps_per_epoch, self._seed, self.epoch)
        self.epoch += 1
        for batch in batches:
            yield batch.tolist()

    def __len__(self) -> int:
        return self.steps_per_epoch


class EmptyBatchCollate:
    """A collate function that makes an empty batch out of no examples: the same tensors with a first axis of 0."""

    def __init__(self, dataset: Dataset[Any], collate: Callable[[list[Any]], Any] = default_collate) -> None:
        self.collate = collate
        self._empty = _without_rows(collate([dataset[0]]))

    def __call__(self, examples: list[Any]) -> Any:
        return self.collate(examples) if examples else self._empty


def _without_rows(batch: Any) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch[:0]
    if isinstance(batch, dict):
        return {name: _without_rows(part) for name, part in batch.items()}
    if isinstance(batch, tuple | list):
        return [_without_rows(part) for part in batch]
    raise InputError(f"a batch holds a {type(batch).__name__}: an empty batch needs tensors; give collate")
