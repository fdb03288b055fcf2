"""The stacked DP-SGD engine: K models trained side by side by one program, each exactly as if it were alone.

Abadi et al. 2016 (arXiv:1607.00133), with the analysis of random allocation in mind (DESIGN: "Training under
audit"). One step of model k:

    batch     its members among the rows that its sampler drew for this step (maybe none)
    gradient  of every example, clipped to norm C                 per example, never of a mean
    sum       of the clipped gradients + extra_sum + N(0, (sigma C)^2 I)     also when the batch is empty
    update    theta <- theta - learning_rate * velocity,  velocity <- momentum * velocity + noisy sum / divisor

The divisor is a public constant. With clipping_norm None the sum of plain gradients takes the place of the
clipped one, which is ordinary SGD. All randomness of model k comes from its seed: streams "allocation/<epoch>",
"noise/<epoch>", "augmentation/<epoch>", "dropout/<epoch>/<step>".

Memory: K * microbatch * P * 4 bytes for per-example gradients (P parameters), kept near GRADIENT_BYTES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from ...foundation import InputError, numpy_stream, torch_stream
from .augmentation import flip_shift
from .samplers import epoch_batches
from .settings import TrainingSettings

GRADIENT_BYTES = 64 * 2**20
BuildModel = Callable[[int], nn.Module]  # seed -> freshly initialised model


class StepHooks(Protocol):
    """What a white-box audit sees and adds: gradient canaries and their observation.

    step counts from 0 over the whole run; tensors are (K, P), parameters in the order of named_parameters().
    """

    def extra_sum(self, step: int) -> Tensor | None: ...

    def observe(self, step: int, noisy_sum: Tensor) -> None: ...


@dataclass
class Stack:
    """K models in training: theta and velocity (K, P), buffers of K models each, and the epoch that comes next."""

    template: nn.Module
    theta: Tensor
    velocity: Tensor
    buffers: dict[str, Tensor]
    seeds: tuple[int, ...]
    epochs_done: int = 0

    def parameters(self) -> dict[str, Tensor]:
        """Views into theta, one (K, *shape) tensor a parameter: writing to theta moves them."""
        views, start = {}, 0
        for name, parameter in _trained(self.template):
            views[name] = self.theta[:, start : start + parameter.numel()].view(-1, *parameter.shape)
            start += parameter.numel()
        return views

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


def train_epochs(
    stack: Stack,
    x: Tensor,
    y: Tensor,
    membership: np.ndarray,
    settings: TrainingSettings,
    hooks: StepHooks | None = None,
) -> Iterator[Stack]:
    """Train in place from stack.epochs_done to settings.epochs, handing the stack back after every epoch.

    x (N, ...), y (N,) class numbers, membership (K, N) bool. Stopping between two epochs and going on later
    from the same theta, velocity, buffers and seeds gives the same bits as an unbroken run.
    Errors: InputError for shapes that do not fit, examples coupled by batch normalisation under DP-SGD, and
    gradients that are not finite.
    """
    _check(stack, x, y, membership, settings)
    step = stack.epochs_done * settings.steps_per_epoch
    for epoch in range(stack.epochs_done, settings.epochs):
        noise = [torch_stream(seed, f"noise/{epoch}", stack.theta.device) for seed in stack.seeds]
        augmentation = [torch_stream(seed, f"augmentation/{epoch}", x.device) for seed in stack.seeds]
        for index, mask in _padded_batches(membership, settings, stack.seeds, epoch):
            batch = _Batch(x, y, index, mask, augmentation if settings.augmentation != "none" else None)
            noisy_sum = _gradient_sum(stack, batch, settings, epoch, step)
            extra = hooks.extra_sum(step) if hooks else None
            if extra is not None:
                noisy_sum += extra
            if settings.noise_multiplier > 0 and settings.clipping_norm is not None:
                for k, generator in enumerate(noise):
                    draw = torch.randn(
                        noisy_sum.shape[1], generator=generator, device=noisy_sum.device, dtype=noisy_sum.dtype
                    )
                    noisy_sum[k].add_(draw, alpha=settings.noise_multiplier * settings.clipping_norm)
            if hooks:
                hooks.observe(step, noisy_sum)
            stack.velocity.mul_(settings.momentum).add_(noisy_sum, alpha=1.0 / settings.divisor)
            stack.theta.add_(stack.velocity, alpha=-settings.learning_rate)
            step += 1
        stack.epochs_done = epoch + 1
        yield stack


def train_many(
    build: BuildModel,
    x: np.ndarray,
    y: np.ndarray,
    membership: np.ndarray,
    seeds: Sequence[int],
    settings: TrainingSettings,
    device: str | torch.device = "cpu",
    chunk: int = 8,
) -> list[nn.Module]:
    """Train K models on their own members of the same rows; `chunk` of them are stacked at a time.

    Results do not depend on the chunk beyond the rounding of batched sums. A model whose forward pass looks at
    the batch (batch normalisation, plain SGD only) is trained alone: padding would enter its statistics.
    """
    membership = np.asarray(membership, dtype=bool)
    xs, ys = torch.as_tensor(x).to(device), torch.as_tensor(y).to(device)
    models: list[nn.Module] = []
    start = 0
    while start < len(seeds):
        stack = initial_stack(build, seeds[start : start + 1], device)
        width = 1 if batch_normalisation(stack.template) else chunk
        if width > 1:
            stack = initial_stack(build, seeds[start : start + width], device)
        for _ in train_epochs(stack, xs, ys, membership[start : start + width], settings):
            pass
        models += stack.modules()
        start += width
    return models


def batch_normalisation(model: nn.Module) -> str | None:
    """The name of the first layer whose training output for one example depends on the others, if any."""
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            return name or type(module).__name__
    return None


@dataclass(frozen=True)
class _Batch:
    """The padded batches of K models: index (K, B) into the rows, mask (K, B) 1 for a real row and 0 for padding."""

    x: Tensor
    y: Tensor
    index: np.ndarray
    mask: np.ndarray
    augmentation: list[torch.Generator] | None

    def pieces(self, size: int, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """x (K, b, ...), y (K, b), mask (K, b) in pieces of at most `size` columns."""
        for start in range(0, self.index.shape[1], size):
            index = torch.from_numpy(self.index[:, start : start + size]).to(self.x.device)
            mask = torch.from_numpy(self.mask[:, start : start + size]).to(self.x.device, dtype)
            x = self.x[index]
            x = x.to(dtype) if x.is_floating_point() else x
            if self.augmentation is not None:
                x = torch.stack([flip_shift(row, g) for row, g in zip(x, self.augmentation, strict=True)])
            yield x, self.y[index], mask


def _padded_batches(
    membership: np.ndarray, settings: TrainingSettings, seeds: Sequence[int], epoch: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Per step: index (K, B) and mask (K, B), padded with row 0 to the largest batch of the K models."""
    records = membership.shape[1]
    drawn = [epoch_batches(settings.sampler, records, settings.steps_per_epoch, seed, epoch) for seed in seeds]
    for step in range(settings.steps_per_epoch):
        rows = [batches[step][members[batches[step]]] for batches, members in zip(drawn, membership, strict=True)]
        width = max(len(r) for r in rows)
        index = np.zeros((len(rows), width), dtype=np.int64)
        mask = np.zeros((len(rows), width), dtype=bool)
        for k, r in enumerate(rows):
            index[k, : len(r)] = r
            mask[k, : len(r)] = True
        yield index, mask


def _gradient_sum(stack: Stack, batch: _Batch, settings: TrainingSettings, epoch: int, step: int) -> Tensor:
    """(K, P): the sum over each model's batch of its (clipped) gradients."""
    parameters = stack.parameters()
    total = torch.zeros_like(stack.theta)
    private = settings.clipping_norm is not None
    parameter_count = stack.theta.shape[1]
    if private:
        size = max(16, GRADIENT_BYTES // (len(stack.seeds) * parameter_count * 4))
    else:  # a batch-coupled model must see its batch whole
        size = 2**62 if batch_normalisation(stack.template) else max(64, 4096 // len(stack.seeds))
    with _dropout_randomness(stack, epoch, step):
        for x, y, mask in batch.pieces(size, stack.theta.dtype):
            if private:
                total += _clipped_sum(stack, parameters, x, y, mask, float(settings.clipping_norm or 0), step)
            else:
                gradients = vmap(grad(_masked_loss, argnums=1), in_dims=(None, 0, 0, 0, 0, 0), randomness="different")(
                    stack.template, parameters, stack.buffers, x, y, mask
                )
                total += torch.cat([g.flatten(1) for g in gradients.values()], dim=1)
    if not torch.isfinite(total).all():
        raise InputError(
            f"the gradients of step {step} are not finite: lower learning_rate ({settings.learning_rate:g}), "
            "or check the data and the model for overflow"
        )
    return total


def _clipped_sum(
    stack: Stack, parameters: dict[str, Tensor], x: Tensor, y: Tensor, mask: Tensor, clipping_norm: float, step: int
) -> Tensor:
    per_example = vmap(grad(_example_loss, argnums=1), in_dims=(None, None, None, 0, 0), randomness="different")
    per_model = vmap(per_example, in_dims=(None, 0, 0, 0, 0), randomness="different")
    gradients = per_model(stack.template, parameters, stack.buffers, x, y)
    norms = torch.stack([g.flatten(2).square().sum(2) for g in gradients.values()]).sum(0).sqrt()  # (K, b)
    if not torch.isfinite(norms).all():
        raise InputError(
            f"an example's gradient in step {step} is not finite: lower learning_rate, or check the data and the model"
        )
    weight = mask * (clipping_norm / norms.clamp_min(torch.finfo(norms.dtype).tiny)).clamp(max=1.0)
    return torch.cat([torch.einsum("kb,kbp->kp", weight, g.flatten(2)) for g in gradients.values()], dim=1)


def _example_loss(
    template: nn.Module, parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor, y: Tensor
) -> Tensor:
    return classification_loss(functional_call(template, (parameters, buffers), (x[None],)), y[None]).sum()


def _masked_loss(
    template: nn.Module, parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor, y: Tensor, mask: Tensor
) -> Tensor:
    return (classification_loss(functional_call(template, (parameters, buffers), (x,)), y) * mask).sum()


def classification_loss(logits: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy per example (B,): logits (B, classes), or (B, 1) and (B,) for one output and labels 0/1."""
    if logits.dim() == 1 or logits.shape[-1] == 1:
        return binary_cross_entropy_with_logits(logits.reshape(y.shape), y.to(logits.dtype), reduction="none")
    return cross_entropy(logits, y, reduction="none")


def _trained(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]


@contextmanager
def _dropout_randomness(stack: Stack, epoch: int, step: int) -> Iterator[None]:
    """vmap draws dropout from torch's global generator: lend it a seed of the first model and put it back after.

    Deterministic for a stack, but models with dropout draw differently when they are stacked differently.
    """
    if not any(isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0 for m in stack.template.modules()):
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(int(numpy_stream(stack.seeds[0], f"dropout/{epoch}/{step}").integers(2**63)))
        yield


def _check(stack: Stack, x: Tensor, y: Tensor, membership: np.ndarray, settings: TrainingSettings) -> None:
    if membership.shape != (len(stack.seeds), len(x)) or membership.dtype != bool:
        raise InputError(
            f"membership must be bool of shape (models, records) = ({len(stack.seeds)}, {len(x)}), "
            f"got {membership.dtype} {membership.shape}"
        )
    if len(y) != len(x):
        raise InputError(f"x holds {len(x)} records and y {len(y)}: one label a record")
    coupled = batch_normalisation(stack.template)
    if coupled and settings.clipping_norm is not None:
        raise InputError(
            f"layer {coupled!r} normalises over the batch, so one record changes the gradients of others and DP-SGD "
            "promises nothing: use GroupNorm (opacus.validators.ModuleValidator.fix does it)"
        )
    if coupled and len(stack.seeds) > 1:
        raise InputError(f"layer {coupled!r} normalises over the batch: train such models one at a time (chunk=1)")
