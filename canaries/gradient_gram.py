"""Gram matrices of per-example gradients, ⟨g_a, g_b⟩ for all pairs, without ever holding n × parameters numbers.

Linear layer that sees one vector an example: ⟨g_a, g_b⟩ = (δ_a·δ_b)(a_a·a_b + 1), δ the gradient at the layer's output,
a its input, the 1 for the bias where there is one ("ghost" products). Layers with shared positions (convolutions,
Linear over tokens) first sum the outer products δ_p a_pᵀ over positions: Σ_p of products is not the product of sums.
Models whose parameters live elsewhere, or that call a layer twice, take explicit per-example gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import unfold

from ..foundation.classification import classification_loss
from .per_example import MEMORY, Loss, per_example_gradients, refuse_non_finite, trained_parameters


@dataclass
class _Trace:
    """What passed through one layer: input and, after the backward pass, gradient at the output, both (n, T, width)."""

    module: nn.Module
    calls: int = 0
    inputs: Tensor | None = None
    output: Tensor | None = None


def gradient_gram(
    model: nn.Module,
    rows: tuple[Tensor, Tensor],
    columns: tuple[Tensor, Tensor] | None = None,
    loss: Loss = classification_loss,
    last_layer_only: bool = False,
    memory: int = MEMORY,
) -> Tensor:
    """(n_rows, n_columns) float64 inner products of per-example gradients; columns default to the rows.

    rows, columns: (x, y). The result does not depend on `memory` or on the order of the rows, beyond rounding.
    Errors: InputError for BatchNorm and non-finite gradients.
    """
    trained_parameters(model)
    layers = _ghost_layers(model, rows[0][:1], last_layer_only)
    columns_ = rows if columns is None else columns
    if layers is None:
        return _explicit_gram(model, rows, columns_, loss, memory)
    mode = model.training
    model.eval()
    try:
        left = _layer_factors(model, layers, rows, loss)
        right = left if columns is None else _layer_factors(model, layers, columns, loss)
        gram = torch.zeros(len(rows[0]), len(columns_[0]), dtype=torch.float64, device=rows[0].device)
        for (module, a, d), (_, b, e) in zip(left, right, strict=True):
            gram += _layer_gram(module, a, d, b, e, memory)
        return gram
    finally:
        model.train(mode)


def last_linear(model: nn.Module) -> str | None:
    """Name of the last Linear layer in the order of definition, or None."""
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    return names[-1] if names else None


def _ghost_layers(model: nn.Module, x: Tensor, last_layer_only: bool) -> list[nn.Module] | None:
    """The layers that hold every trained parameter, each called once; None where there are others."""
    if last_layer_only:
        name = last_linear(model)
        return None if name is None else [dict(model.named_modules())[name]]
    layers = []
    for module in model.modules():
        own = [p for p in module.parameters(recurse=False) if p.requires_grad]
        if not own:
            continue
        supported = isinstance(module, nn.Linear) or (
            isinstance(module, nn.Conv2d) and module.groups == 1 and module.padding_mode == "zeros"
        )
        if not supported or isinstance(module.__dict__.get("padding"), str):
            return None
        if any(not p.requires_grad for p in module.parameters(recurse=False)):
            return None  # half a layer frozen: rare, leave it to explicit gradients
        layers.append(module)
    with _traced(layers) as traces, torch.no_grad():
        model(x)
    return layers if all(trace.calls == 1 for trace in traces) else None


@contextmanager
def _traced(layers: list[nn.Module]) -> Iterator[list[_Trace]]:
    traces = [_Trace(layer) for layer in layers]
    handles = []
    for trace in traces:

        def hook(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor, trace: _Trace = trace) -> None:
            trace.calls += 1
            trace.inputs, trace.output = inputs[0], output

        handles.append(trace.module.register_forward_hook(hook))
    try:
        yield traces
    finally:
        for handle in handles:
            handle.remove()


def _layer_factors(
    model: nn.Module, layers: list[nn.Module], rows: tuple[Tensor, Tensor], loss: Loss, chunk: int = 512
) -> list[tuple[nn.Module, Tensor, Tensor]]:
    """For each layer (module, inputs (n, T, in), output gradients (n, T, out))."""
    x, y = rows
    inputs: list[list[Tensor]] = [[] for _ in layers]
    deltas: list[list[Tensor]] = [[] for _ in layers]
    for start in range(0, len(x), chunk):
        with _traced(layers) as traces, torch.enable_grad():
            losses = loss(model(x[start : start + chunk]), y[start : start + chunk])
            outputs = [trace.output for trace in traces]
            gradients = torch.autograd.grad(losses.sum(), outputs)  # type: ignore[arg-type]
        for k, (trace, gradient) in enumerate(zip(traces, gradients, strict=True)):
            assert trace.inputs is not None
            a, d = _positions(trace.module, trace.inputs.detach(), gradient)
            refuse_non_finite(d.flatten(1), start)
            inputs[k].append(a)
            deltas[k].append(d)
    return [(layer, torch.cat(a), torch.cat(d)) for layer, a, d in zip(layers, inputs, deltas, strict=True)]


def _positions(module: nn.Module, inputs: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    if isinstance(module, nn.Conv2d):
        patches = unfold(inputs, module.kernel_size, module.dilation, module.padding, module.stride)  # type: ignore[arg-type]
        return patches.transpose(1, 2), gradient.flatten(2).transpose(1, 2)
    n = len(inputs)
    return inputs.reshape(n, -1, inputs.shape[-1]), gradient.reshape(n, -1, gradient.shape[-1])


def _layer_gram(module: nn.Module, a: Tensor, d: Tensor, b: Tensor, e: Tensor, memory: int) -> Tensor:
    bias = getattr(module, "bias", None) is not None
    if a.shape[1] == 1 and b.shape[1] == 1:
        return (d[:, 0].double() @ e[:, 0].double().T) * (a[:, 0].double() @ b[:, 0].double().T + float(bias))
    gram = torch.empty(len(a), len(b), dtype=torch.float64, device=a.device)
    width = (a.shape[2] + 1) * d.shape[2] * 8
    block = max(1, memory // (2 * width))
    for i in range(0, len(a), block):
        left = _summed(a[i : i + block], d[i : i + block], bias)
        for j in range(0, len(b), block):
            gram[i : i + block, j : j + block] = left @ _summed(b[j : j + block], e[j : j + block], bias).T
    return gram


def _summed(a: Tensor, d: Tensor, bias: bool) -> Tensor:
    """(n, out·in [+ out]): the layer's per-example gradients, outer products summed over positions."""
    d = d.double()
    gradient = torch.einsum("nto,nti->noi", d, a.double()).flatten(1)
    return torch.cat([gradient, d.sum(dim=1)], dim=1) if bias else gradient


def _explicit_gram(
    model: nn.Module, rows: tuple[Tensor, Tensor], columns: tuple[Tensor, Tensor], loss: Loss, memory: int
) -> Tensor:
    blocks = []
    for left in per_example_gradients(model, *rows, loss, memory // 2):
        parts = [
            left.double() @ right.double().T for right in per_example_gradients(model, *columns, loss, memory // 2)
        ]
        blocks.append(torch.cat(parts, dim=1))
    return torch.cat(blocks)
