"""The certified noise of every shape of run at one target, found once and kept in a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ... import __version__
from ...foundation import InputError, read_json, write_json
from ..bounds import PoissonSampling, RandomAllocation
from ..bounds.calibration import Calibration, calibrate_random_allocation, make_target

TOLERANCE = 1e-3


@dataclass
class NoiseTable:
    """target: {"epsilon", "delta"} or {"accuracy"}. A file of another target or version is written anew."""

    path: Path
    target: dict[str, float]
    entries: dict[str, dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.entries = {}
        if self.path.exists():
            try:
                content = read_json(self.path, "table of noise")
                if content["target"] == self.target and content["coalmine_version"] == __version__:
                    self.entries = {k: v for k, v in content["entries"].items() if v["noise_multiplier"] > 0}
            except (InputError, KeyError, TypeError, AttributeError):
                pass  # it can be had again

    def random_allocation(self, steps_per_epoch: int, epochs: int) -> dict[str, Any]:
        """{"noise_multiplier", "certificate", "closed_form_noise_multiplier"}: the certificate is the measure's
        interval at that noise, whose upper end meets the target."""
        return self._entry(
            f"random_allocation {steps_per_epoch} {epochs}",
            lambda: calibrate_random_allocation(steps_per_epoch, epochs, make_target(**self.target), TOLERANCE),
        )

    def poisson(self, sampling_rate: float, steps: int) -> dict[str, Any]:
        return self._entry(
            f"poisson {sampling_rate!r} {steps}",
            lambda: PoissonSampling.calibrate(sampling_rate, steps, tolerance=TOLERANCE, **self.target),
        )

    def mechanism(self, steps_per_epoch: int, epochs: int) -> RandomAllocation:
        noise = self.random_allocation(steps_per_epoch, epochs)["noise_multiplier"]
        return RandomAllocation(steps_per_epoch, epochs, noise)

    def _entry(self, key: str, work: Callable[[], Calibration]) -> dict[str, Any]:
        if key not in self.entries:
            found = work()
            self.entries[key] = {
                "noise_multiplier": found.noise_multiplier,
                "certificate": found.certificate.record(),
                "closed_form_noise_multiplier": found.closed_form_noise_multiplier,
            }
            content = {"coalmine_version": __version__, "target": self.target, "entries": self.entries}
            write_json(self.path, content)
        return self.entries[key]
