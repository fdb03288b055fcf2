"""The recipe of the audit to come: options shared by the commands that train models to look through or to evaluate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .options import torch_device

if TYPE_CHECKING:
    from ..craft import Trainer
    from ..training.data import Data as LoadedData

Data = Annotated[str, typer.Option("--data", help="digits, cifar10:ROOT, imagefolder:DIR, table.csv, arrays.npz …")]
# the recipe of the audit to come: what base models, replicas and evaluated models are trained by
Model = Annotated[
    str, typer.Option("--model", help="mlp, cnn, cnn-137k, wrn16-4, torchvision:NAME or package:function.")
]
StepsPerEpoch = Annotated[int | None, typer.Option(help="M of the recipe; left out: batches of about 100.")]
Epochs = Annotated[int, typer.Option(help="E of the recipe.")]
LearningRate = Annotated[float, typer.Option(help="Step size of the recipe.")]
Momentum = Annotated[float, typer.Option(help="Momentum of the recipe.")]
NoiseMultiplier = Annotated[float, typer.Option(help="Noise of the recipe; needs --clipping-norm.")]
ClippingNorm = Annotated[float | None, typer.Option(help="Clipping norm of the recipe; left out: plain SGD.")]


def trainer_of(
    source: LoadedData,
    model: str,
    steps_per_epoch: int | None = None,
    epochs: int = 20,
    learning_rate: float = 0.5,
    momentum: float = 0.0,
    noise_multiplier: float = 0.0,
    clipping_norm: float | None = None,
    device: str = "cpu",
) -> Trainer:
    """The trainer of this recipe on this data. Errors: InputError."""
    from ..craft import recipe

    steps = max(1, round(len(source.y) / 100)) if steps_per_epoch is None else steps_per_epoch
    where = torch_device(device)
    return recipe(
        source,
        model,
        steps,
        epochs,
        learning_rate,
        momentum,
        noise_multiplier=noise_multiplier,
        clipping_norm=clipping_norm,
        device=where,
    )
