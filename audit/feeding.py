"""How a model wants to be fed: the transform, normalisation and order of classes that it was trained with.

One value for every command that asks a model. Rows come as the data source gives them (images in [0, 1]); labels are
put in the order of the model's outputs, since a softmax over other outputs would be another number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..foundation import InputError
from ..foundation.named_code import named_function, reason_of
from .training.data import Data


@dataclass(frozen=True)
class Feeding:
    """pixel_mean, pixel_std: per channel, (x − mean)/std. classes: names in the order of the model's outputs.
    transform: package.module:function, called with a batch (n, …) of rows and returning what the model takes; it
    comes before the normalisation. Errors: InputError for numbers that are no normalisation."""

    pixel_mean: tuple[float, ...] | None = None
    pixel_std: tuple[float, ...] | None = None
    classes: tuple[str, ...] | None = None
    transform: str | None = None

    def __post_init__(self) -> None:
        if (self.pixel_mean is None) != (self.pixel_std is None):
            raise InputError("pixel mean and standard deviation go together: give both or neither")
        if self.pixel_mean is not None and self.pixel_std is not None:
            if not np.isfinite([*self.pixel_mean, *self.pixel_std]).all():
                raise InputError(f"pixel mean and standard deviation must be finite, got {self}")
            if min(self.pixel_std) <= 0:
                raise InputError(f"pixel standard deviation must be positive, got {list(self.pixel_std)}")
        if self.classes is not None and len(set(self.classes)) != len(self.classes):
            raise InputError(f"classes {', '.join(self.classes)} name one twice: give each output its own name")

    @property
    def changes_rows(self) -> bool:
        return self.transform is not None or self.pixel_mean is not None

    def to_json(self) -> dict[str, Any]:
        """What is stated, for records: {} where rows are fed as they are."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items() if v is not None}

    def relabelled(self, data: Data) -> Data:
        """The data with labels that count the model's outputs. Errors: InputError for classes that do not fit."""
        if self.classes is None:
            return data
        missing = [name for name in data.classes if name not in self.classes]
        if missing:
            raise InputError(
                f"classes {', '.join(self.classes)} lack {', '.join(missing[:5])} of the data: name the data's classes "
                f"({', '.join(data.classes[:20])}) in the order of the model's outputs"
            )
        number = np.array([self.classes.index(name) for name in data.classes], dtype=np.int64)
        return replace(data, y=number[data.y], y_test=number[data.y_test], classes=self.classes)

    def shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a row as the model gets it."""
        rows = torch.zeros((2, *input_shape))
        return tuple(self._rows(rows, input_shape).shape[1:])

    def wrap(self, network: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """The network behind its transform and normalisation, asked with rows of `input_shape`."""
        if not self.changes_rows:
            return network
        self.shape(input_shape)
        return Fed(network, self)

    def _rows(self, rows: Tensor, input_shape: tuple[int, ...]) -> Tensor:
        """The rows through transform and normalisation, checked. Errors: InputError."""
        moved = Fed(nn.Identity(), replace(self, pixel_mean=None, pixel_std=None))
        if self.transform is not None:
            try:
                rows = moved(rows)
            except InputError:
                raise
            except Exception as error:
                raise InputError(
                    f"transform {self.transform!r} fails on a batch of rows {tuple(input_shape)}: {reason_of(error)}; "
                    "it is called with a float tensor (n, …) and returns what the model takes"
                ) from error
            if not isinstance(rows, Tensor) or rows.ndim < 2 or len(rows) != 2:
                raise InputError(f"transform {self.transform!r} must return a tensor with one row for each row given")
        if self.pixel_mean is not None and self.pixel_std is not None:
            shape = tuple(rows.shape[1:])
            if len(shape) != 3 or {len(self.pixel_mean), len(self.pixel_std)} - {1, shape[0]}:
                raise InputError(
                    f"pixel mean and standard deviation need one number or one a channel of images {shape}, got "
                    f"{len(self.pixel_mean)} and {len(self.pixel_std)}"
                )
        return rows


class Fed(nn.Module):
    """A network behind the transform and normalisation of a `Feeding`."""

    mean: Tensor | None
    std: Tensor | None

    def __init__(self, network: nn.Module, feeding: Feeding) -> None:
        super().__init__()
        self.network, self.name = network, feeding.transform
        for name, values in (("mean", feeding.pixel_mean), ("std", feeding.pixel_std)):
            held = None if values is None else torch.tensor(values, dtype=torch.float32).reshape(1, -1, 1, 1)
            self.register_buffer(name, held)

    def forward(self, x: Tensor) -> Any:
        if self.name is not None:
            x = named_function(self.name, "transform")(
                x
            )  # by name: a module that travels to other processes holds no function
        if self.mean is not None and self.std is not None:
            x = (x - self.mean) / self.std
        return self.network(x)


def normalised(
    network: nn.Module, mean: Sequence[float], std: Sequence[float], input_shape: tuple[int, ...]
) -> nn.Module:
    """A model behind (x − mean)/std per channel. Errors: InputError where they do not fit images of that shape."""
    return Feeding(tuple(mean), tuple(std)).wrap(network, input_shape)
