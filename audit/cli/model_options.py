"""Options of every command that asks a user's model: how it is fed, and the truth about its rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...foundation import InputError
from ..choices import VIEWS

if TYPE_CHECKING:
    from ..attack.candidates import Candidates
    from ..attack.target import Target as OpenTarget
    from ..feeding import Feeding
    from ..training.data import Data as LoadedData

PixelMean = Annotated[
    str | None,
    typer.Option("--pixel-mean", help="Per channel, as 0.49,0.48,0.45: if the model was trained on normalised pixels."),
]
PixelStd = Annotated[str | None, typer.Option("--pixel-std", help="Per channel; with --pixel-mean.")]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        help="Names of the data's classes in the order of the model's outputs, as cat,dog; left out: sorted.",
    ),
]
Transform = Annotated[
    str | None,
    typer.Option("--transform", help="package.module:function that turns a batch of rows into what the model takes."),
]
TrustCode = Annotated[
    bool,
    typer.Option("--trust-code", help="Run code that a file holds or names: TorchScript, torch.export, a run's model."),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="Your trained model: a checkpoint, a Hugging Face directory, the folder of a `coalmine train` run, or "
        "package.module:function that answers rows with logits or probabilities, or that loads the model.",
    ),
]
TargetMembers = Annotated[
    Path | None,
    typer.Option(
        "--target-members",
        help="A .npy or .csv with the rows of --data that the target was trained on: true/false for each, or row "
        "numbers. Left out: all training rows, if --data has a test part of its own, whose rows are the non-members.",
    ),
]
TrainingAccuracy = Annotated[
    float | None,
    typer.Option(
        "--training-accuracy",
        help="What your log says of the target on its own training rows, as 0.98: another accuracy here is an error.",
    ),
]
About = Annotated[
    Path | None,
    typer.Option(
        "--about", help="A csv with one line a row: id, name or file names it, further columns group the rows."
    ),
]
ViewCount = Annotated[int, typer.Option("--views", help="1, 2 (mirror), 9, 18, 25 or 50 (shifts, mirrored).")]
Top = Annotated[int, typer.Option("--top", min=0, help="How many rows at risk are listed.")]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="The architecture: mlp, cnn, cnn-137k, wrn16-4, torchvision:NAME, huggingface:DIR or "
        "package.module:function. Known already for a run or a Hugging Face directory.",
    ),
]


def feeding_of(pixel_mean: str | None, pixel_std: str | None, classes: str | None, transform: str | None) -> Feeding:
    """Errors: InputError, before torch is imported, for numbers that are none."""
    if (pixel_mean is None) != (pixel_std is None):
        raise InputError("--pixel-mean and --pixel-std go together: give both or neither")
    mean, std = _numbers("--pixel-mean", pixel_mean), _numbers("--pixel-std", pixel_std)
    names = None if classes is None else tuple(name.strip() for name in classes.split(","))
    from ..feeding import Feeding

    return Feeding(mean, std, names, transform)


def check_views(views: int) -> None:
    if views not in VIEWS:
        raise InputError(f"--views must be one of {', '.join(map(str, VIEWS))}, got {views}")


def check_paths(**paths: Path | None) -> None:
    """Errors: InputError for a path that does not exist, before anything heavy is imported."""
    for option, path in paths.items():
        if path is not None and not path.exists():
            raise InputError(f"--{option.replace('_', '-')} {str(path)!r} does not exist: check the path")


def check_target(target: str | None) -> None:
    if target is not None and ":" not in target and not Path(target).exists():
        raise InputError(
            f"--target {target!r} does not exist: check the path, or name a function as package.module:function"
        )


def rows_of(data: LoadedData, target: OpenTarget, members: Path | None, about: Path | None) -> Candidates:
    """The rows that are asked about, with the truth that the user gives. Errors: InputError."""
    from ..attack.candidates import About as Described
    from ..attack.candidates import candidates, members_of

    flags = None if members is None else members_of(members, data)
    asked = len(data.y) + (len(data.y_test) if flags is None else 0)
    described = None if about is None else Described.load(about, asked)
    own = target.run is not None and target.run.canaries_sha256 is None
    rows = candidates(data, flags, described, own_hold_out=own)
    return replace(rows, members_file="" if members is None else str(members))


def _numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} {text!r} must be numbers with commas between, as 0.49,0.48,0.45") from None
