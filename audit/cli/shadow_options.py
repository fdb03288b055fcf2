"""Options of the recipe of shadow models, and of where they are trained."""

from __future__ import annotations

from typing import Annotated

import typer

from ...foundation import InputError

Train = Annotated[
    str | None,
    typer.Option(
        "--train", help="Your own training, package.module:function(indices, seed) -> module, one model a call."
    ),
]
Fraction = Annotated[float, typer.Option("--fraction", help="Probability that a shadow is trained on an example.")]
StepsPerEpoch = Annotated[int | None, typer.Option("--steps-per-epoch", help="M: optimiser steps in one epoch.")]
Epochs = Annotated[int | None, typer.Option("--epochs", help="E: epochs.")]
LearningRate = Annotated[float | None, typer.Option("--learning-rate", help="Step size of SGD.")]
NoiseMultiplier = Annotated[
    float | None, typer.Option("--noise-multiplier", help="DP-SGD shadows; with --clipping-norm.")
]
ClippingNorm = Annotated[float | None, typer.Option("--clipping-norm", help="Left out: plain SGD.")]
Sampler = Annotated[
    str | None, typer.Option("--sampler", help="random_allocation, fixed_bins, poisson, fixed_size or full_batch.")
]
Momentum = Annotated[float | None, typer.Option("--momentum", help="Momentum of SGD.")]
Augmentation = Annotated[str | None, typer.Option("--augmentation", help="none or flip_shift (images).")]
Chunk = Annotated[
    int | None,
    typer.Option(
        "--chunk", min=1, help="Models trained side by side, and a shard on disk: 8 if left out, 1 with --train."
    ),
]
Jobs = Annotated[
    int, typer.Option("--jobs", min=1, help="Processes on this machine; they pay once training takes minutes.")
]
Scheduler = Annotated[
    str | None, typer.Option("--scheduler", help="Address of a dask scheduler that shares --output (extra dask).")
]
Span = Annotated[
    str | None, typer.Option("--span", help="first:last, only shadows of that range: one job of a cluster array.")
]
ShadowSeed = Annotated[
    int,
    typer.Option(
        "--seed",
        min=0,
        help="Of the shadow models, and of targets of the recipe: the auditor's own models, on which no privacy "
        "rests. The same seed trains the same models; --target is not touched by it.",
    ),
]


def parse_span(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, separator, last = text.partition(":")
    if not separator or not first.isdigit() or not last.isdigit():
        raise InputError(f"--span {text!r} must be first:last, as 0:16")
    return int(first), int(last)
