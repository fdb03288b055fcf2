"""The options of `coalmine plan`: those of the calculator, those of measuring, and which belong to which."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...foundation import InputError
from .replacing import FIGURE, PLAN_FOLDER, replacing, replacing_claim

Records = Annotated[int | None, typer.Option(help="Size of the data set; with --measure that of --data.")]
Epochs = Annotated[str | None, typer.Option(help="Passes over the data. May be swept; with --measure a list.")]
Epsilon = Annotated[
    str | None, typer.Option(help="Budget first: find noise, rounds and (unless --sample-size) sample size.")
]
SampleSize = Annotated[str | None, typer.Option(help="Records a round. Alone, run first: find epsilon and noise.")]
NoiseMultiplier = Annotated[
    str | None,
    typer.Option(help="Noise first, with --sample-size: find epsilon. Standard deviation over the clipping norm."),
]
Delta = Annotated[float | None, typer.Option(help="Default 1/records.")]
Theta = Annotated[float, typer.Option(help="Largest over mean sample size; 1 if constant.")]
ClippingNorm = Annotated[str, typer.Option(help="Clipping norm C; with --measure a list.")]
Adjacency = Annotated[str, typer.Option(help="add_remove (sensitivity C) or replace_one (2C).")]
Mechanism = Annotated[
    str, typer.Option(help="Whose noise --output claims: poisson or random_allocation (certified), or closed_form.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", callback=replacing_claim, help="claim.json for train, audit and power."),
]
FailIfInfeasible = Annotated[
    bool, typer.Option("--fail-if-infeasible", help="Exit code 2 where the theorem promises nothing.")
]
PlotFile = Annotated[
    Path | None, typer.Option("--plot", callback=replacing(FIGURE), help="Draw the sweep to a .png, .svg or .pdf.")
]
Measure = Annotated[bool, typer.Option("--measure", help="Train, and choose the setting of the best accuracy.")]
Data = Annotated[str | None, typer.Option(help="With --measure: digits, table.csv, cifar10:ROOT … as in train.")]
Model = Annotated[str | None, typer.Option(help="With --measure: mlp, cnn, package.module:function … as in train.")]
Accuracy = Annotated[
    float | None, typer.Option(help="With --measure: the attack accuracy to allow, instead of --epsilon.")
]
StepsPerEpoch = Annotated[str | None, typer.Option(help="With --measure: a list of M, records over sample size.")]
LearningRate = Annotated[str | None, typer.Option(help="With --measure: a list; default by the clipping norm.")]
Public = Annotated[bool, typer.Option("--public", help="The rows of --data are public, or stand for the private ones.")]
SpendsBudget = Annotated[bool, typer.Option("--spends-budget", help="Measure on private rows, and say what it costs.")]
Folder = Annotated[
    Path,
    typer.Option(
        callback=replacing(PLAN_FOLDER), help="plan.json, claim.json and the pieces; the same command resumes."
    ),
]
CpuMinutes = Annotated[float, typer.Option(help="Cap of CPU time, interrupted runs included.")]
SearchSeeds = Annotated[int, typer.Option(help="Runs of each setting in the search.")]
FreshSeeds = Annotated[int, typer.Option(help="Runs of the chosen setting, with seeds that the search never saw.")]

OF_THE_CALCULATOR = ("records", "sample_size", "noise_multiplier", "plot")
OF_MEASURING = ("data", "model", "accuracy", "steps_per_epoch", "learning_rate")


def refuse_strays(measure: bool, given: dict[str, Any]) -> None:
    """Errors: InputError for an option that the mode would not look at."""
    of_the_other = OF_THE_CALCULATOR if measure else OF_MEASURING
    stray = ["--" + name.replace("_", "-") for name in of_the_other if given.get(name) is not None]
    if stray:
        where = "without --measure only" if measure else "with --measure only"
        raise InputError(f"{', '.join(stray)} {'belongs' if len(stray) == 1 else 'belong'} to plan {where}")
