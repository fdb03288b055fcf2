"""One SOBA step of refinement through convolutions on the CPU: ordinary, grouped, or as patches and a matrix product.

    python tests/benchmarks/canaries_convolution.py

CPU seconds of `directions` for 4 replicas on one thread. "one by one" is what refinement does: each replica's
convolutions as they are. "grouped" maps over the replicas' weights; "patches" unfolds the rows and multiplies matrices.
"""

from __future__ import annotations

import time
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.functional import unfold

from coalmine.audit.training.models import build_model
from coalmine.canaries.bilevel import Bilevel, complementary_masks, directions, stacked


class PatchConvolution(nn.Module):
    """A Conv2d of one group with zero padding, computed from patches; its parameters keep their names and shapes."""

    def __init__(self, layer: nn.Conv2d) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.geometry = (layer.kernel_size, layer.dilation, layer.padding, layer.stride)

    def forward(self, x: Tensor) -> Tensor:
        kernel, dilation, padding, stride = self.geometry
        sizes = [
            (x.shape[axis - 2] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1) // stride[axis] + 1  # type: ignore[operator]
            for axis in (0, 1)
        ]
        out = self.weight.flatten(1) @ unfold(x, kernel, dilation, padding, stride)  # type: ignore[arg-type]
        if self.bias is not None:
            out = out + self.bias[:, None]
        return out.unflatten(-1, sizes)


def with_patches(model: nn.Module) -> nn.Module | None:
    """A copy of the model whose convolutions are computed from patches, with the same named parameters; None where one
    is grouped, padded otherwise, or not two-dimensional."""
    model = deepcopy(model)
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if not isinstance(layer, nn.modules.conv._ConvNd):
                continue
            plain = type(layer) is nn.Conv2d and layer.groups == 1 and layer.padding_mode == "zeros"
            if not plain or isinstance(layer.padding, str):
                return None
            setattr(parent, name, PatchConvolution(layer))
    return None if isinstance(model, nn.modules.conv._ConvNd) else model


def main() -> None:
    torch.set_num_threads(1)
    for name, shape, count in (("cnn", (1, 8, 8), 100), ("cnn-137k", (3, 32, 32), 50)):
        generator = torch.Generator().manual_seed(0)
        x, c = torch.rand(300, *shape, generator=generator), torch.rand(count, *shape, generator=generator)
        y = torch.randint(10, (300,), generator=generator)
        labels = torch.randint(10, (count,), generator=generator)
        models = [build_model(name, shape, 10, seed) for seed in range(4)]
        theta, masks = stacked(models), complementary_masks(4, count, generator)
        v = {key: 0.01 * torch.randn(p.shape, generator=generator) for key, p in theta.items()}
        rows = torch.randint(300, (4, count), generator=generator)
        patches = with_patches(models[0])
        assert patches is not None
        for way, template, together in (
            ("one by one", models[0], 1),
            ("grouped", models[0], 4),
            ("patches", patches, 4),
        ):
            problem = Bilevel(template, x, y, labels)
            directions(problem, theta, v, c, masks, rows, together=together)
            started = time.process_time()
            for _ in range(3):
                directions(problem, theta, v, c, masks, rows, together=together)
            print(
                f"{name}, {count} canaries, {way}: {(time.process_time() - started) / 3:.3f} CPU s a step", flush=True
            )


if __name__ == "__main__":
    main()
