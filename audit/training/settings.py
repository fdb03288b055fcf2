"""What a training run is told, checked before anything is trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ...foundation import InputError
from .samplers import SAMPLERS

AUGMENTATIONS = ("none", "flip_shift")
LARGEST = 1e15  # beyond it products leave the range of float32


@dataclass(frozen=True)
class TrainingSettings:
    """DP-SGD, or plain SGD where clipping_norm is None.

    noise_multiplier is the standard deviation of the noise on the **sum** of clipped per-example gradients,
    divided by clipping_norm. public_size is the number that stands for the data-set size in the divisor
    public_size / steps_per_epoch (public_size for full batch): a constant that does not depend on who is in the
    training set, since dividing by a realised size tells who is. sampling_rate is for poisson alone: a rate other
    than 1/steps_per_epoch, by which public_size is then multiplied for the divisor. public_size_fixed: it was named
    beforehand, not counted from the rows. Errors: InputError.
    """

    steps_per_epoch: int
    epochs: int
    learning_rate: float
    public_size: float
    noise_multiplier: float = 0.0
    clipping_norm: float | None = None
    sampler: str = "random_allocation"
    momentum: float = 0.0
    augmentation: str = "none"
    sampling_rate: float | None = None
    public_size_fixed: bool = False

    def __post_init__(self) -> None:
        for name in ("steps_per_epoch", "epochs"):
            value = getattr(self, name)
            if isinstance(value, bool) or not 1 <= value < LARGEST or int(value) != value:
                raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
        for name in ("learning_rate", "public_size"):
            value = getattr(self, name)
            if not 0 < value < LARGEST:
                raise InputError(f"{name} must be a positive number below {LARGEST:g}, got {value!r}")
        if not 0 <= self.noise_multiplier < LARGEST:
            raise InputError(
                f"noise_multiplier must be at least 0 and below {LARGEST:g}, got {self.noise_multiplier!r}"
            )
        if self.clipping_norm is not None and not 0 < self.clipping_norm < LARGEST:
            raise InputError(f"clipping_norm must be a positive number below {LARGEST:g}, got {self.clipping_norm!r}")
        if self.clipping_norm is None and self.noise_multiplier > 0:
            raise InputError(
                f"noise_multiplier {self.noise_multiplier:g} needs a clipping_norm: noise without clipping "
                "promises nothing"
            )
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum must lie in [0, 1), got {self.momentum!r}")
        if self.sampler not in SAMPLERS:
            raise InputError(f"sampler {self.sampler!r} is not known: choose one of {', '.join(SAMPLERS)}")
        if self.sampling_rate is not None and (self.sampler != "poisson" or not 0 < self.sampling_rate <= 1):
            raise InputError(
                f"sampling_rate {self.sampling_rate!r} must lie in (0, 1] and is for sampler poisson, got sampler "
                f"{self.sampler!r}"
            )
        if self.augmentation not in AUGMENTATIONS:
            raise InputError(
                f"augmentation {self.augmentation!r} is not known: choose one of {', '.join(AUGMENTATIONS)}"
            )

    @property
    def divisor(self) -> float:
        """The public constant by which a noisy sum becomes a step."""
        if self.sampling_rate is not None:
            return self.public_size * self.sampling_rate
        return self.public_size if self.sampler == "full_batch" else self.public_size / self.steps_per_epoch

    def mechanism(self) -> dict[str, Any]:
        """The `mechanism` of run.json: what was run, in the words of a claim."""
        if self.clipping_norm is None or self.noise_multiplier == 0:
            return {"name": "none", "sampler": self.sampler} | self._shape()
        if self.sampler == "poisson":
            return {
                "name": "poisson",
                "sampling_rate": 1.0 / self.steps_per_epoch if self.sampling_rate is None else self.sampling_rate,
                "steps": self.steps_per_epoch * self.epochs,
                "noise_multiplier": self.noise_multiplier,
            }
        if self.sampler == "full_batch":
            return {
                "name": "full_batch",
                "steps": self.steps_per_epoch * self.epochs,
                "noise_multiplier": self.noise_multiplier,
            }
        return {"name": self.sampler} | self._shape() | {"noise_multiplier": self.noise_multiplier}

    def _shape(self) -> dict[str, int]:
        return {"steps_per_epoch": self.steps_per_epoch, "epochs": self.epochs}

    def record(self) -> dict[str, Any]:
        told = asdict(self)
        for name in ("sampling_rate", "public_size_fixed"):  # records of older versions do not hold them
            if not told[name]:
                del told[name]
        return told
