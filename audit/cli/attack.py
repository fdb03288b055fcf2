"""`coalmine attack`: a finished model, the rows it was trained on and others; seconds, nothing is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...foundation import InputError
from ..choices import TARGET_ONLY
from .model_options import (
    About,
    Classes,
    ModelName,
    PixelMean,
    PixelStd,
    Target,
    TargetMembers,
    Top,
    TrainingAccuracy,
    Transform,
    TrustCode,
    ViewCount,
    check_paths,
    check_target,
    check_views,
    feeding_of,
    rows_of,
)  # fmt: skip
from .options import Device, Json, Quiet, print_json, remark, torch_device
from .replacing import ATTACK_FOLDER, replacing

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples: coalmine attack --target model.pt --model mypackage.nets:build --data imagefolder:photos@64 "
    "--target-members trained_on.npy --pixel-mean 0.485,0.456,0.406 --pixel-std 0.229,0.224,0.225   |   coalmine "
    "attack --target my_forest:load --data table.csv   |   coalmine attack --scores their_scores.csv"
)
def attack(
    target: Target = None,
    data: Annotated[
        str | None, typer.Option(help="digits, cifar10:ROOT, imagefolder:DIR, table.csv, arrays.npz …")
    ] = None,
    target_members: TargetMembers = None,
    scores: Annotated[
        Path | None,
        typer.Option(help="In place of a target: scores of another tool, columns canary_id, score, member."),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", callback=replacing(ATTACK_FOLDER), help="Folder to write to.")
    ] = Path("runs/attack"),
    model: ModelName = None,
    pixel_mean: PixelMean = None,
    pixel_std: PixelStd = None,
    classes: Classes = None,
    transform: Transform = None,
    training_accuracy: TrainingAccuracy = None,
    about: About = None,
    attack: Annotated[
        str, typer.Option(help=f"Whose scores are written, chosen beforehand: {', '.join(TARGET_ONLY)}.")
    ] = "loss",
    views: ViewCount = 1,
    top: Top = 10,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows at a time.")] = 512,
    trust_code: TrustCode = False,
    device: Device = "cpu",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attack a finished model without training anything: who was it trained on, by its answers alone?

    Loss, phi, hinge and Attack-P on your rows, with intervals; the target's accuracy on its own rows and on others,
    which stops a model that is fed otherwise than it was trained; the rows with the highest scores. Metrics, no bound
    on epsilon. Writes attack.json (for coalmine report), scores.csv, examples.csv and roc.csv. Stronger: coalmine lira.
    """
    if attack not in TARGET_ONLY:
        raise InputError(
            f"--attack must be one of {', '.join(TARGET_ONLY)}, got {attack!r}; others need shadows: coalmine lira"
        )
    check_views(views)
    check_paths(target_members=target_members, about=about, scores=scores)
    check_target(target)
    if (scores is None) == (target is None):
        raise InputError("give --target and --data, or --scores of another tool: one of the two")
    from ..attack.output import check_folder, summary, table_of_examples, write_result
    from ..verdict.score_record import ScoreRecord

    cost = None
    if scores is not None:
        from ..attack.given_scores import attack_of_scores

        conclusion = attack_of_scores(scores, target_members, about)
        record = ScoreRecord(conclusion.result.attack)
    else:
        assert target is not None
        if data is None:
            raise InputError("--data is missing: name the rows that the target was trained on, and others")
        feeding = feeding_of(pixel_mean, pixel_std, classes, transform)
        from ..attack.attack import Question
        from ..attack.attack import attack as attack_target
        from ..attack.cost import told_cost
        from ..attack.target import open_target
        from ..training.data import load_data

        source = feeding.relabelled(load_data(data))
        opened = open_target(target, source, feeding, model, trust_code=trust_code)
        rows = rows_of(source, opened, target_members, about)
        record = ScoreRecord(
            attack, views=views, checkpoint=target, checkpoint_sha256=opened.sha256, model=opened.model,
            pixel_mean=feeding.pixel_mean, pixel_std=feeding.pixel_std, classes=feeding.classes,
            transform=feeding.transform,
        )  # fmt: skip
        check_folder(output, record)
        where = str(torch_device(device))
        conclusion = attack_target(opened, rows, Question(attack, views, batch_size, where, training_accuracy))
        cost = told_cost(opened, rows)
    files = write_result(output, conclusion, record, "attack.json")
    result = conclusion.result
    for line in result.warnings:
        remark(f"warning: {line}")
    if json:
        print_json(result.to_json())
        return
    typer.echo(summary(result))
    if table := table_of_examples(result, top):
        typer.echo(table)
    typer.echo(f"files: {', '.join(str(f) for f in files)}")
    if not quiet:
        if result.next_attack:
            typer.echo(f"stronger: {result.next_attack}{f' ({cost})' if cost else ''}")
        typer.echo(f"page: coalmine report {files[-1]}")
        typer.echo(result.not_a_bound)
