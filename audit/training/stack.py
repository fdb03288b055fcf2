"""K models of one architecture as stacked tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from ...foundation import InputError

BuildModel = Callable[[int], nn.Module]  # seed -> freshly initialised model


@dataclass
class Stack:
    """K models in training: theta and velocity (K, P), buffers of K models each, and the epoch that comes next."""

    template: nn.Module
    theta: Tensor
    velocity: Tensor
    buffers: dict[str, Tensor]
    seeds: tuple[int, ...]
    epochs_done: int = 0

    @cached_property
    def has_convolution(self) -> bool:
        return any(isinstance(m, nn.modules.conv._ConvNd) for m in self.template.modules())

    @cached_property
    def has_dropout(self) -> bool:
        return any(isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0 for m in self.template.modules())

    @cached_property
    def has_batch_normalisation(self) -> bool:
        return batch_normalisation(self.template) is not None

    def parameters(self) -> dict[str, Tensor]:
        """Views into theta, one (K, *shape) tensor a parameter: writing to theta moves them."""
        views, start = {}, 0
        for name, parameter in _trained(self.template):
            views[name] = self.theta[:, start : start + parameter.numel()].view(-1, *parameter.shape)
            start += parameter.numel()
        return views

    def model(self, k: int) -> Stack:
        """Model k as a stack of one that shares its tensors with this one."""
        one = slice(k, k + 1)
        buffers = {name: buffer[one] for name, buffer in self.buffers.items()}
        return Stack(self.template, self.theta[one], self.velocity[one], buffers, self.seeds[one], self.epochs_done)

    def modules(self) -> list[nn.Module]:
        """The K models as ordinary modules in eval mode, copies that share nothing with the stack."""
        trained = self.parameters()
        models = []
        for k in range(len(self.seeds)):
            model = deepcopy(self.template)
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    parameter.copy_(trained[name][k] if name in trained else self.buffers[name][k])
                for name, buffer in model.named_buffers():
                    buffer.copy_(self.buffers[name][k])
            models.append(model.eval())
        return models


def initial_stack(build: BuildModel, seeds: Sequence[int], device: str | torch.device = "cpu") -> Stack:
    """K fresh models, model k from build(seeds[k]). Errors: InputError where a model cannot be trained here."""
    models = [build(int(seed)).to(device) for seed in seeds]
    if not models:
        raise InputError("seeds is empty: at least one model is needed")
    template = deepcopy(models[0]).train()
    names = [name for name, _ in _trained(template)]
    if not names:
        raise InputError("the model has no trainable parameter")
    rows = [torch.cat([dict(m.named_parameters())[n].detach().reshape(-1) for n in names]) for m in models]
    theta = torch.stack(rows)
    fixed = [dict(m.named_buffers()) | {n: p for n, p in m.named_parameters() if n not in set(names)} for m in models]
    buffers = {name: torch.stack([f[name].detach().clone() for f in fixed]) for name in fixed[0]}
    return Stack(template, theta, torch.zeros_like(theta), buffers, tuple(int(s) for s in seeds))


def batch_normalisation(model: nn.Module) -> str | None:
    """The name of the first layer whose training output for one example depends on the others, if any."""
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            return name or type(module).__name__
    return None


def _trained(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
