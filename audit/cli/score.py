"""`coalmine score`: attack a checkpoint, one score per canary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ...foundation import InputError
from ..choices import SCORES, SUFFIXES
from .model_options import (
    Classes,
    ModelName,
    PixelMean,
    PixelStd,
    TrainingAccuracy,
    Transform,
    TrustCode,
    ViewCount,
    check_views,
    feeding_of,
)  # fmt: skip
from .options import Device, Json, Quiet, print_json, remark, torch_device
from .replacing import SCORE_FILE, replacing

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Example: coalmine score --checkpoint model.pt --model mypackage.nets:build "
    "--canaries canaries.safetensors --score phi --output scores.csv"
)
def score(
    checkpoint: Annotated[
        str,
        typer.Option(
            help="A .pt, .pth, .ckpt or .safetensors file, a Hugging Face directory, the folder of a `coalmine train` "
            "run, or package.module:function that answers rows or loads the model."
        ),
    ],
    canaries: Annotated[Path, typer.Option(help="canaries.safetensors")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            callback=replacing(SCORE_FILE),
            help="scores.csv, .parquet or .npz; a .json record is written beside it.",
        ),
    ] = Path("scores.csv"),
    model: ModelName = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="The data that the canaries belong to; needed where they do not state the number of classes, and for "
            "the check that the model is fed what it was trained on."
        ),
    ] = None,
    score: Annotated[
        str, typer.Option(help="phi, loss, hinge or difference: fix it before the coins are opened.")
    ] = "phi",
    views: ViewCount = 1,
    reference_checkpoint: Annotated[
        str | None,
        typer.Option(
            help="For --score difference: the initial model, or one trained without canaries. Known already for the "
            "folder of a run."
        ),
    ] = None,
    pixel_mean: PixelMean = None,
    pixel_std: PixelStd = None,
    classes: Classes = None,
    transform: Transform = None,
    training_accuracy: TrainingAccuracy = None,
    trust_code: TrustCode = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows at a time; the scores do not depend on it.")] = 256,
    device: Device = "cpu",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score every canary by the trained model, higher = more likely a member.

    Writes the scores and, beside them, a record of which score was chosen, with the hashes of checkpoint and canaries:
    do it before you open the coins, and use no other score afterwards. With --data the model is first asked about
    rows that it was trained on, and stopped where it is fed otherwise than it was trained.
    """
    if score not in SCORES:
        raise InputError(f"--score must be one of {', '.join(SCORES)}, got {score!r}")
    check_views(views)
    if output.suffix.lower() not in SUFFIXES:
        raise InputError(f"--output {str(output)!r} must end in {', '.join(SUFFIXES)}")
    for path in (checkpoint, reference_checkpoint):
        if path is not None and ":" not in path and not Path(path).exists():
            raise InputError(f"checkpoint {path!r} does not exist: check the path")
    if score == "difference" and reference_checkpoint is None and (Path(checkpoint) / "run.json").is_file():
        reference_checkpoint = str(Path(checkpoint) / "initial.safetensors")
    if (score == "difference") != (reference_checkpoint is not None):
        raise InputError("--score difference goes with --reference-checkpoint: give both or neither")
    feeding = feeding_of(pixel_mean, pixel_std, classes, transform)
    from ...canaries import CanarySet
    from ..attack.fed import accuracy_of_run
    from ..attack.output import told_accuracy
    from ..score import ScoredSet, check_scores_output, score_canaries, scored_set
    from ..verdict.score_record import ScoreRecord, save_scores

    canary_set = CanarySet.load(canaries)
    if views > 1 and canary_set.x.ndim != 4:
        raise InputError(f"--views {views} needs images (channels, height, width), the canaries are no images")
    where = torch_device(device)
    opened: ScoredSet = scored_set(checkpoint, canary_set, data, feeding, model, reference_checkpoint, trust_code)
    record = ScoreRecord(
        score=score, views=views, canaries=len(canary_set), canaries_sha256=canary_set.sha256,
        canary_method=canary_set.method, checkpoint=opened.checkpoint, checkpoint_sha256=opened.target.sha256,
        reference_checkpoint=reference_checkpoint, reference_sha256=opened.reference_sha256, model=opened.target.model,
        pixel_mean=feeding.pixel_mean, pixel_std=feeding.pixel_std, classes=feeding.classes,
        transform=feeding.transform,
    )  # fmt: skip
    check_scores_output(output, record)
    accuracy = None
    if opened.rows is not None:
        accuracy = accuracy_of_run(opened.target, opened.rows, training_accuracy, str(where))
    scores = score_canaries(
        opened.target.module, opened.canaries, score, views=views, reference=opened.reference, batch_size=batch_size,
        device=where,
    )  # fmt: skip
    save_scores(output, scores.scores, replace(record, counts=scores.counts()))
    for line in scores.remarks():
        remark(line)
    if accuracy is None and opened.target.run is None:
        remark("accuracy on rows it was trained on: not measured; give --data to see that the model is fed rightly")
    if json:
        own = None if accuracy is None else accuracy.on_members
        print_json(
            {**record.to_json(), "output": str(output), "counts": scores.counts(), "accuracy_on_training_rows": own}
        )
        return
    typer.echo(f"{output}: {score} of {len(scores)} canaries, {views} view(s), {scores.distinct} distinct values")
    if accuracy is not None:
        typer.echo(told_accuracy(accuracy))
    elif opened.target.run is not None and opened.target.run.train_accuracy is not None:
        share = opened.target.run.majority_share
        than = "" if share is None else f" (naming the most frequent class: {share:.1%})"
        typer.echo(f"accuracy of the model: {opened.target.run.train_accuracy:.1%} on its own training rows{than}")
