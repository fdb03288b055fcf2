"""Hugging Face directories for image classification (extra `hf`): config.json and safetensors, no remote code.

The model is asked with pixels in [0, 1], as all image sources give them; the resizing and normalisation that the
directory's preprocessor_config.json states are applied inside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...foundation import InputError, read_json


class _ImageClassifier(nn.Module):
    """pixels (n, channels, h, w) in [0, 1] -> logits (n, classes) in the order of the data's classes."""

    mean: Tensor
    std: Tensor
    order: Tensor

    def __init__(self, network: nn.Module, preprocessor: dict[str, Any], order: list[int]) -> None:
        super().__init__()
        self.network = network
        normalise = preprocessor.get("do_normalize", True)
        for name, default in (("image_mean", 0.0), ("image_std", 1.0)):
            value = preprocessor.get(name, default) if normalise else default
            tensor = torch.as_tensor(value, dtype=torch.float32).reshape(1, -1, 1, 1)
            self.register_buffer(name.removeprefix("image_"), tensor)
        self.register_buffer("order", torch.as_tensor(order))
        self.size = _target_size(preprocessor) if preprocessor.get("do_resize", False) else None
        self.bicubic = preprocessor.get("resample") == 3

    def forward(self, pixels: Tensor) -> Tensor:
        if self.size is not None and pixels.shape[-2:] != self.size:
            mode = "bicubic" if self.bicubic else "bilinear"
            pixels = F.interpolate(pixels, size=self.size, mode=mode, antialias=True)
        return self.network(pixel_values=(pixels - self.mean) / self.std).logits[:, self.order]


def open_hugging_face(directory: Path, classes: tuple[str, ...]) -> nn.Module:
    """The classifier in `directory`, from safetensors only, never with trust_remote_code. Errors: InputError."""
    try:
        network = _factory().from_pretrained(
            str(directory), local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise InputError(f"checkpoint {str(directory)!r} is no image classifier in safetensors ({reason})") from None
    return _ImageClassifier(network, _preprocessor(directory), _order(directory, network.config.id2label, classes))


def untrained_hugging_face(directory: str | Path, classes: int) -> nn.Module:
    """The architecture of `directory` behind its preprocessing, with fresh weights. Errors: InputError."""
    try:
        from transformers import AutoConfig  # pyright: ignore[reportMissingImports]  # an extra

        config = AutoConfig.from_pretrained(str(directory), local_files_only=True, trust_remote_code=False)
        network = _factory().from_config(config, trust_remote_code=False)
    except InputError:
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise InputError(f"{str(directory)!r} names no image classifier that can be built ({reason})") from None
    return _ImageClassifier(network, _preprocessor(Path(directory)), list(range(classes)))


def _factory() -> Any:
    try:
        from transformers import AutoModelForImageClassification  # pyright: ignore[reportMissingImports]  # an extra
    except ImportError:
        raise InputError("a Hugging Face checkpoint needs the extra: pip install 'coalmine[hf]'") from None
    return AutoModelForImageClassification


def _preprocessor(directory: Path) -> dict[str, Any]:
    path = directory / "preprocessor_config.json"
    return read_json(path, "preprocessor file") if path.is_file() else {"do_normalize": False}


def _order(directory: Path, id2label: dict[int, str], classes: tuple[str, ...]) -> list[int]:
    """For each class of the data, the model's output that stands for it."""
    names = [str(id2label[index]) for index in sorted(id2label)]
    if len(names) != len(classes):
        raise InputError(f"checkpoint {str(directory)!r} gives {len(names)} classes, the data has {len(classes)}")
    return [names.index(name) for name in classes] if set(names) == set(classes) else list(range(len(classes)))


def _target_size(preprocessor: dict[str, Any]) -> tuple[int, int] | None:
    size = preprocessor.get("size")
    if isinstance(size, int):
        return size, size
    if isinstance(size, dict) and {"height", "width"} <= size.keys():
        return int(size["height"]), int(size["width"])
    return None
