"""`coalmine score`: attack a checkpoint, one score per canary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...foundation import InputError
from ..choices import SCORES, SUFFIXES, VIEWS
from .options import Device, Json, Quiet, print_json, remark, torch_device, writable_file

if TYPE_CHECKING:
    from ..training.run_record import RunRecord

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Example: coalmine score --checkpoint model.pt --model mypackage.nets:build "
    "--canaries canaries.safetensors --score phi --output scores.csv"
)
def score(
    checkpoint: Annotated[
        Path,
        typer.Option(
            help="A .pt, .pth, .ckpt or .safetensors file, a Hugging Face directory, or the folder of a "
            "`coalmine train` run."
        ),
    ],
    canaries: Annotated[Path, typer.Option(help="canaries.safetensors")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            callback=writable_file,
            help="scores.csv, .parquet or .npz; a .json record is written beside it.",
        ),
    ] = Path("scores.csv"),
    model: Annotated[
        str | None,
        typer.Option(
            help="The architecture: mlp, cnn, cnn-137k, wrn16-4, torchvision:NAME or package.module:function. "
            "Known already for the folder of a run."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="The data that the canaries belong to; needed where they do not state the number of classes."
        ),
    ] = None,
    score: Annotated[
        str, typer.Option(help="phi, loss, hinge or difference: fix it before the coins are opened.")
    ] = "phi",
    views: Annotated[int, typer.Option(help="1, 2 (mirror), 9, 18, 25 or 50 (shifts, mirrored).")] = 1,
    reference_checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="For --score difference: the initial model, or one trained without canaries. Known already for the "
            "folder of a run."
        ),
    ] = None,
    pixel_mean: Annotated[
        str | None, typer.Option(help="Per channel, as 0.49,0.48,0.45: if the model was trained on normalised pixels.")
    ] = None,
    pixel_std: Annotated[str | None, typer.Option(help="Per channel; with --pixel-mean.")] = None,
    trust_code: Annotated[
        bool, typer.Option("--trust-code", help="Open TorchScript and torch.export files, which are programs.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows at a time; the scores do not depend on it.")] = 256,
    device: Device = "cpu",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score every canary by the trained model, higher = more likely a member.

    Writes the scores and, beside them, a record of which score was chosen, with the hashes of checkpoint and canaries:
    do it before you open the coins, and use no other score afterwards.
    """
    if score not in SCORES:
        raise InputError(f"--score must be one of {', '.join(SCORES)}, got {score!r}")
    if views not in VIEWS:
        raise InputError(f"--views must be one of {', '.join(map(str, VIEWS))}, got {views}")
    if output.suffix.lower() not in SUFFIXES:
        raise InputError(f"--output {str(output)!r} must end in {', '.join(SUFFIXES)}")
    if (pixel_mean is None) != (pixel_std is None):
        raise InputError("--pixel-mean and --pixel-std go together: give both or neither")
    mean, std = _numbers("--pixel-mean", pixel_mean), _numbers("--pixel-std", pixel_std)
    for path in (checkpoint, reference_checkpoint):
        if path is not None and not path.exists():
            raise InputError(f"checkpoint {str(path)!r} does not exist: check the path")
    run = _run_record(checkpoint)
    if score == "difference" and reference_checkpoint is None and run is not None:
        reference_checkpoint = checkpoint / "initial.safetensors"
    if (score == "difference") != (reference_checkpoint is not None):
        raise InputError("--score difference goes with --reference-checkpoint: give both or neither")
    from ...canaries import CanarySet

    canary_set = CanarySet.load(canaries)
    if views > 1 and canary_set.x.ndim != 4:
        raise InputError(f"--views {views} needs images (channels, height, width), the canaries are no images")
    from ..score import check_scores_output, normalised, score_canaries, sha256_of_checkpoint
    from ..training.checkpoint import open_model
    from ..verdict.score_record import ScoreRecord, save_scores

    where = torch_device(device)
    if run is not None:
        check_run(run, checkpoint, canary_set.sha256)
        model = model or (run.model.name if run.model else None)
        checkpoint = checkpoint / "checkpoint.safetensors"
    classes = _classes(canary_set, data, run)
    record = ScoreRecord(
        score=score,
        views=views,
        canaries=len(canary_set),
        canaries_sha256=canary_set.sha256,
        canary_method=canary_set.method,
        checkpoint=str(checkpoint),
        checkpoint_sha256=sha256_of_checkpoint(checkpoint),
        reference_checkpoint=str(reference_checkpoint) if reference_checkpoint else None,
        reference_sha256=sha256_of_checkpoint(reference_checkpoint) if reference_checkpoint else None,
        model=model,
        pixel_mean=mean,
        pixel_std=std,
    )
    check_scores_output(output, record)
    shape = canary_set.x.shape[1:]
    opened = [
        open_model(path, model, shape, classes, trust_code=trust_code) if path else None
        for path in (checkpoint, reference_checkpoint)
    ]
    if mean is not None and std is not None:
        opened = [normalised(each, mean, std, shape) if each is not None else None for each in opened]
    target, reference = opened
    assert target is not None
    scores = score_canaries(
        target, canary_set, score, views=views, reference=reference, batch_size=batch_size, device=where
    )
    save_scores(output, scores.scores, replace(record, counts=scores.counts()))
    for line in scores.remarks():
        remark(line, quiet)
    if json:
        print_json({**record.to_json(), "output": str(output), "counts": scores.counts()})
    else:
        typer.echo(f"{output}: {score} of {len(scores)} canaries, {views} view(s), {scores.distinct} distinct values")


def _run_record(checkpoint: Path) -> RunRecord | None:
    """run.json where --checkpoint names the folder of a `coalmine train` run."""
    from ..training.run_record import load_run

    if not (checkpoint / "run.json").is_file():
        return None
    record = load_run(checkpoint)
    if record.model is None:
        raise InputError(
            f"run record {str(checkpoint / 'run.json')!r} names no model: give the checkpoint file and --model"
        )
    return record


def check_run(run: RunRecord, folder: Path, canaries_sha256: str | None) -> None:
    """Errors: InputError for a run that is not finished or was trained with other canaries; None: no set is asked."""
    if not run.finished:
        raise InputError(
            f"the run in {str(folder)!r} is not finished: the same `coalmine train` command goes on with it"
        )
    trained = run.canaries_sha256
    if canaries_sha256 is not None and trained not in (None, canaries_sha256):
        raise InputError(
            f"the run in {str(folder)!r} was trained with other canaries ({trained}) than --canaries "
            f"({canaries_sha256}): give the set that it was trained with"
        )


def _classes(canaries: Any, data: str | None, run: RunRecord | None) -> tuple[str, ...]:
    """Class names; their numbers where no data is given."""
    if data is not None:
        from ..training.data import load_data

        source = load_data(data)
        if canaries.data_fingerprint and canaries.data_fingerprint != source.fingerprint:
            raise InputError(
                f"--canaries were crafted from other data than --data {data}: give the data they belong to"
            )
        if source.input_shape != canaries.x.shape[1:]:
            raise InputError(f"--canaries have shape {canaries.x.shape[1:]}, --data {data} has {source.input_shape}")
        return source.classes
    count = canaries.classes or (run.model.classes if run is not None and run.model is not None else None)
    if not isinstance(count, int):
        raise InputError("--canaries does not state the number of classes: give --data")
    return tuple(str(label) for label in range(count))


def _numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} {text!r} must be numbers with commas between, as 0.49,0.48,0.45") from None
