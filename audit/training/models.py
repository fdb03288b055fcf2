"""Models by name, deterministic in the seed, and the check that a model treats each example alone.

    mlp                       two hidden layers of 64, for any input
    cnn                       two convolutions, for digits and small images of at least 4 × 4
    cnn-137k                  three convolutions, 137,190 parameters on 3 × 32 × 32 and ten classes
    wrn16-4                   wide residual network 16-4 with GroupNorm, 2.75 million parameters
    torchvision:NAME          any torchvision classifier, untrained; with BatchNorm for training without clipping
    huggingface:DIR           the architecture of a Hugging Face directory's config.json, untrained (extra hf)
    package.module:function   a user's own: a function or class that returns an nn.Module

Guaranteed: parameters depend on (name, shapes, seed) alone. Whatever the builder draws comes from
torch_stream(seed, "init"); torch's global generator is neither read nor moved, so models may be built in threads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from ...foundation import InputError, torch_stream
from ...foundation.named_code import named_function
from .architectures import cnn, cnn_137k, mlp, wide_resnet_16_4

_BUILT_IN: dict[str, Callable[[tuple[int, ...], int], nn.Module]] = {
    "mlp": mlp,
    "cnn": cnn,
    "cnn-137k": cnn_137k,
    "wrn16-4": wide_resnet_16_4,
}


def build_model(
    name: str, input_shape: tuple[int, ...], classes: int, seed: int, *, may_couple: bool = False
) -> nn.Module:
    """The untrained model of that name for rows of `input_shape`, in training mode, on the CPU.

    A user's function is called with those of `input_shape`, `classes` (or `num_classes`) and `seed` that it
    takes by name. The model must return (rows, classes) logits; for two classes one logit a row will do.
    Layers that couple the examples of a batch are refused. `may_couple`: BatchNorm with running statistics passes,
    for a model that is only asked, or trained without per-example gradients. A model that wants whole numbers (token
    ids) gets them as int64. Errors: InputError.
    """
    if classes < 2:
        raise InputError(f"classes must be at least 2, got {classes}")
    with _SeededInit(torch_stream(seed, "init")):
        if name in _BUILT_IN:
            model = _BUILT_IN[name](tuple(input_shape), classes)
        elif name.startswith("huggingface:"):
            from .checkpoint_hugging_face import untrained_hugging_face

            model = untrained_hugging_face(name.removeprefix("huggingface:"), classes)
        elif name.startswith("torchvision:"):
            model = _torchvision_model(name.removeprefix("torchvision:"), tuple(input_shape), classes)
        elif ":" in name:
            model = _own_model(name, tuple(input_shape), classes, seed)
        else:
            raise InputError(
                f"model {name!r} is not known: use {', '.join(_BUILT_IN)}, torchvision:NAME or package.module:function"
            )
    refuse_batch_coupling(model, name, may_couple=may_couple)
    ask_with_whole_numbers(model, tuple(input_shape))
    check_output(model, name, tuple(input_shape), classes)
    return model


def ask_with_whole_numbers(model: nn.Module, input_shape: tuple[int, ...]) -> None:
    """Let a model that refuses floats and takes int64, as one that begins with an embedding, get int64. In place."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            try:
                model(torch.zeros((2, *input_shape)))
                return
            except (RuntimeError, TypeError, IndexError):
                model(torch.zeros((2, *input_shape), dtype=torch.int64))
    except Exception:
        return  # neither: check_output says why
    finally:
        model.train(training)
    model.register_forward_pre_hook(_to_whole_numbers)


def _to_whole_numbers(model: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return (inputs[0].long(), *inputs[1:])  # float32 holds the ids exactly: the data was checked


def refuse_batch_coupling(model: nn.Module, name: str = "model", *, may_couple: bool = False) -> None:
    """Refuse layers in which one example's output depends on the others of its batch: DP-SGD has no meaning there."""
    for layer_name, layer in model.named_modules():
        kind = type(layer).__name__
        where = f"model {name!r}: layer {layer_name!r} is a {kind}"
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            if not may_couple:
                raise InputError(
                    f"{where}, which mixes the examples of a batch, so no per-example gradient exists: "
                    "replace it by GroupNorm with fewer groups than channels, or train by a function of your own "
                    "(coalmine lira --train); without clipping, shadow models keep it"
                )
            if not layer.track_running_stats:
                raise InputError(
                    f"{where} without running statistics: its scores would depend on the batch; use GroupNorm"
                )
        elif isinstance(layer, nn.modules.instancenorm._InstanceNorm) and layer.track_running_stats and not may_couple:
            raise InputError(f"{where} with running statistics shared by all examples: set track_running_stats=False")


class _SeededInit(TorchDispatchMode):
    """Every random operation of this thread draws from `generator` in place of torch's global one."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded in func.tags and kwargs.get("generator") is None:
            func = _with_generator(func)
            kwargs["generator"] = self.generator
        return func(*args, **kwargs)


def _with_generator(func: Any) -> Any:
    """The overload of a random ATen operation that takes a generator: normal_ has the argument, randn a sibling."""
    if any(argument.name == "generator" for argument in func._schema.arguments):
        return func
    packet, overload = func.overloadpacket, func._overloadname
    sibling = "generator" if overload == "default" else f"{overload}_generator"
    if sibling in packet.overloads():
        return getattr(packet, sibling)
    raise InputError(
        f"the model draws its initial parameters with {func}, which takes no generator and would move torch's global "
        "one: use torch.nn.init, randn, rand or in-place normal_/uniform_"
    )


def _torchvision_model(name: str, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    from torchvision import models

    if name not in models.list_models(module=models):
        raise InputError(
            f"model 'torchvision:{name}' is no torchvision classifier: see torchvision.models.list_models()"
        )
    options: dict[str, Any] = {"weights": None, "num_classes": classes}
    if name.startswith("vit_"):
        options["image_size"] = input_shape[-1]
    if name in ("googlenet", "inception_v3"):
        options |= {"aux_logits": False, "init_weights": True}
    try:
        return models.get_model(name, **options)
    except (RuntimeError, ValueError, TypeError) as error:
        raise InputError(
            f"model 'torchvision:{name}' cannot be built for rows {input_shape}: {_first_line(error)}"
        ) from None


def _own_model(name: str, input_shape: tuple[int, ...], classes: int, seed: int) -> nn.Module:
    function = named_function(name, "model")
    offered = {"input_shape": input_shape, "classes": classes, "num_classes": classes, "seed": seed}
    try:
        parameters = inspect.signature(function).parameters
        model = function(**{key: value for key, value in offered.items() if key in parameters})
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"model {name!r} failed when called: {type(error).__name__}: {_first_line(error)}") from error
    if not isinstance(model, nn.Module):
        raise InputError(f"model {name!r} returned a {type(model).__name__}: it must return a torch.nn.Module")
    return model


def check_output(
    model: nn.Module, name: str, input_shape: tuple[int, ...], classes: int, *, probe_zeros: bool = False
) -> None:
    """Two rows through the model in eval mode: the shape is right, and each row's output is its own."""
    rows = torch.rand((2, *input_shape), generator=torch_stream(0, "init/probe"))
    rows = torch.zeros_like(rows) if probe_zeros else rows
    training = model.training
    try:
        with torch.no_grad():
            model.eval()
            outputs, alone = model(rows), model(rows[:1])
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"model {name!r} does not take rows of shape {input_shape}: {_first_line(error)}") from error
    finally:
        model.train(training)
    if not isinstance(outputs, torch.Tensor):
        raise InputError(f"model {name!r} returns a {type(outputs).__name__}: return the logits as one tensor")
    allowed = [(2, classes)] + ([(2, 1), (2,)] if classes == 2 else [])
    if tuple(outputs.shape) not in allowed:
        raise InputError(
            f"model {name!r} returns shape {tuple(outputs.shape)} for 2 rows of {classes} classes; "
            f"expected {' or '.join(map(str, allowed))}"
        )
    if not torch.allclose(outputs[:1], alone, rtol=1e-3, atol=1e-4, equal_nan=True):
        raise InputError(
            f"model {name!r} gives a row another output in eval mode when it stands in another batch: a layer mixes "
            "examples or draws noise; remove it"
        )


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
