"""Per-example gradients of a classifier's loss, in chunks of bounded memory, and what makes them impossible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from ..foundation import InputError, torch_stream
from ..foundation.classification import class_logits, classification_loss

Loss = Callable[[Tensor, Tensor], Tensor]  # logits (n, classes), labels (n,) -> (n,)
MEMORY = 256 * 2**20  # bytes that one block of gradients may take


def trained_parameters(model: nn.Module) -> dict[str, Tensor]:
    """The parameters that training moves. Errors: InputError where a layer couples the examples of a batch."""
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise InputError(
                f"layer {name!r} normalises over the batch, so an example has no gradient of its own: "
                "use GroupNorm or LayerNorm"
            )
    parameters = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    if not parameters:
        raise InputError("the model has no trainable parameter")
    return parameters


def per_example_gradients(
    model: nn.Module, x: Tensor, y: Tensor, loss: Loss = classification_loss, memory: int = MEMORY
) -> Iterator[Tensor]:
    """Blocks (rows, parameters) of ∇_θ loss(model(x_i), y_i), in the order of the rows, each within `memory` bytes.

    The model is evaluated in eval mode and left as it was. Errors: InputError for BatchNorm and non-finite gradients.
    """
    parameters = trained_parameters(model)
    frozen = dict(model.named_buffers()) | {n: p for n, p in model.named_parameters() if n not in parameters}
    width = sum(p.numel() for p in parameters.values())
    itemsize = next(iter(parameters.values())).element_size()
    rows = max(1, memory // (3 * width * itemsize))  # torch.func keeps about three copies
    mode = model.training
    model.eval()

    def one(theta: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        return loss(functional_call(model, theta | frozen, (row[None],)), label[None]).sum()

    try:
        for start in range(0, len(x), rows):
            gradients = vmap(grad(one), in_dims=(None, 0, 0))(
                parameters, x[start : start + rows], y[start : start + rows]
            )
            block = torch.cat([gradients[name].flatten(1) for name in parameters], dim=1)
            refuse_non_finite(block, start)
            yield block
    finally:
        model.train(mode)


def gradient_function(model: nn.Module, loss: Loss = classification_loss) -> Callable[[Tensor, Tensor], Tensor]:
    """(x (n, …), y (n,)) -> (n, P) per-example gradients at this model, differentiable in x; all rows in one block.
    Puts the model in eval mode. Errors: InputError for BatchNorm."""
    parameters = trained_parameters(model)
    frozen = dict(model.named_buffers()) | {n: p.detach() for n, p in model.named_parameters() if n not in parameters}
    model.eval()

    def one(theta: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        return loss(functional_call(model, theta | frozen, (row[None],)), label[None]).sum()

    def gradients(x: Tensor, y: Tensor) -> Tensor:
        each = vmap(grad(one), in_dims=(None, 0, 0))(parameters, x, y)
        return torch.cat([each[name].flatten(1) for name in parameters], dim=1)

    return gradients


def refuse_non_finite(block: Tensor, first_row: int = 0) -> None:
    finite = torch.isfinite(block.sum(dim=1))  # one NaN or infinity makes its row's sum so
    if not finite.all():
        finite = torch.isfinite(block).all(dim=1)
    if not finite.all():
        row = first_row + int((~finite).nonzero()[0, 0])
        raise InputError(f"the gradient of row {row} is not finite: the base model has diverged, train it again")


def sampled_labels(model: nn.Module, x: Tensor, seed: int, purpose: str, chunk: int = 4096) -> Tensor:
    """(n,) one label a row, drawn from the model's own softmax: what makes a Fisher matrix of gradients (the labels of
    the data would make the empirical Fisher, which flattens every self influence)."""
    generator = torch_stream(seed, purpose, x.device)
    mode = model.training
    model.eval()
    with torch.no_grad():
        probabilities = [
            class_logits(model(x[start : start + chunk])).softmax(dim=1) for start in range(0, len(x), chunk)
        ]
    model.train(mode)
    return torch.multinomial(torch.cat(probabilities), 1, generator=generator)[:, 0]


def unanimous_device(models: Sequence[nn.Module]) -> torch.device:
    """The device of the models' parameters. Errors: InputError when there are no models."""
    if not models:
        raise InputError("models is empty: at least one base model is needed")
    return next(models[0].parameters()).device
