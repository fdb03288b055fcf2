"""The whole story on real handwritten digits: two runs, one claim, one of them broken.

Both runs train the same network on the same digits with the same canaries and coins, clip every gradient, and are
claimed to be DP-SGD with random allocation and NOISE_MULTIPLIER. One of them is. The other forgot to add the noise:
a bug that no accountant sees and that an audit finds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from ..canaries import CanarySet, craft, draw_coins
from ..canaries.coins import commit
from ..foundation import InputError, json_bytes, write_bytes
from ..reports.page import write_report
from ..reports.rounding import UP, percent, plain
from .bounds import RandomAllocation
from .score import score_canaries
from .training.checkpoint import open_model, sha256_of_checkpoint
from .training.data import load_data
from .training.models import build_model
from .training.run import CHECKPOINT, RUN, train_run, training_rows
from .training.run_record import RunRecord
from .training.settings import TrainingSettings
from .verdict.claim import Claim
from .verdict.input import AuditInput, read_evidence
from .verdict.judge import judge
from .verdict.result import AuditResult
from .verdict.score_record import ScoreRecord, save_scores
from .verdict.settings import AuditSettings

# Chosen in trials with other canaries and coins than any seed of the demo draws, so that the broken run is rejected for
# nearly every seed while the other network still learns; how often: reports/experiments/demo_seeds.py.
CANARIES, CANARY_METHOD, MODEL, SCORE = 300, "binary_noise", "mlp", "phi"
STEPS_PER_EPOCH, EPOCHS, NOISE_MULTIPLIER, CLIPPING_NORM = 10, 60, 3.5, 1.0
LEARNING_RATE, MOMENTUM, DELTA = 0.5, 0.9, 1e-5
RUNS = {"private": NOISE_MULTIPLIER, "noise_forgotten": 0.0}
LABELS = {"private": "with noise", "noise_forgotten": "noise forgotten"}  # no run is called private to people


@dataclass(frozen=True)
class DemoResult:
    """The audits by run name, the record of each training run, and the page that shows them."""

    audits: dict[str, AuditResult]
    records: dict[str, RunRecord]
    report: Path


def run_demo(output: str | Path, seed: int = 0, tell: Callable[[str], None] = lambda _: None) -> DemoResult:
    """Everything from canaries to report, in `output`. Deterministic in the seed; resumes where it was interrupted."""
    output = Path(output)
    _refuse_other_contents(output)
    data = load_data("digits")
    tell(f"data: {len(data.y)} handwritten digits to train on, {len(data.y_test)} to test")

    canaries = craft(
        CANARY_METHOD,
        data.x,
        data.y,
        len(data.classes),
        data.value_range,
        CANARIES,
        seed,
        data_fingerprint=data.fingerprint,
    )
    coins = draw_coins(canaries, seed)
    claim = Claim(RandomAllocation(STEPS_PER_EPOCH, EPOCHS, NOISE_MULTIPLIER))
    own = {
        "canaries.safetensors": canaries.to_bytes(),
        "coins.json": coins.to_bytes(),
        "commitment.json": json_bytes(commit(coins).to_json()),
        "claim.json": json_bytes(claim.to_json()),
    }
    _refuse_other_contents(output, own)
    for name, content in own.items():
        write_bytes(output / name, content, secret=name == "coins.json")
    tell(
        f"canaries: {CANARIES} images of {CANARY_METHOD.replace('_', ' ')}, {int(coins.member.sum())} drawn as members"
    )

    accuracy = claim.mechanism.accuracy()
    allowed = plain(percent(float(accuracy.upper), UP))
    tell(f"claim: noise multiplier {NOISE_MULTIPLIER:g}, so no attack is right more than {allowed} of times")

    def build(model_seed: int) -> nn.Module:
        return build_model(MODEL, data.x.shape[1:], len(data.classes), model_seed)

    public_size = training_rows(data, canaries, coins).expected_size
    audits, records = {}, {}
    for name, noise_multiplier in RUNS.items():
        folder = output / name
        settings = TrainingSettings(
            steps_per_epoch=STEPS_PER_EPOCH,
            epochs=EPOCHS,
            learning_rate=LEARNING_RATE,
            public_size=public_size,
            noise_multiplier=noise_multiplier,
            clipping_norm=CLIPPING_NORM,
            momentum=MOMENTUM,
        )
        records[name] = train_run(folder, data, build, MODEL, settings, canaries, coins, seed)
        tell(f"trained, {LABELS[name]}: test accuracy {plain(percent(records[name].test_accuracy))}")
        audits[name] = _attack_and_judge(output, name, canaries, claim, data.classes)
    tell("audited both against the same claim")
    report = write_report([output / name / "audit.json" for name in RUNS], output / "report.html")[0]
    return DemoResult(audits, records, report)


def _refuse_other_contents(output: Path, own: Mapping[str, bytes] | None = None) -> None:
    """The demo is the same for the same seed: what differs in its folder is another seed's, or somebody's own audit.

    Errors: InputError for a file of its names with other content, or, with `own` left out, without its canary set.
    """
    if own is None:
        names = ("coins.json", "commitment.json", "claim.json", "report.html", *RUNS)
        other = [] if (output / "canaries.safetensors").exists() else [n for n in names if (output / n).exists()]
    else:
        there = {name: output / name for name in own if (output / name).exists()}
        other = [name for name, path in there.items() if path.is_dir() or path.read_bytes() != own[name]]
    if other:
        raise InputError(
            f"--output {str(output)!r} holds {', '.join(other)} of something else, or of a demo with another seed or "
            "version: nothing there is replaced; name another folder"
        )


def _attack_and_judge(
    output: Path, name: str, canaries: CanarySet, claim: Claim, classes: tuple[str, ...]
) -> AuditResult:
    """Score the checkpoint, write the scores, open the coins, check the chain, judge."""
    folder, checkpoint = output / name, output / name / CHECKPOINT
    model = open_model(checkpoint, MODEL, canaries.x.shape[1:], classes)
    scores = score_canaries(model, canaries, SCORE)
    record = ScoreRecord(
        SCORE,
        views=1,
        canaries=len(canaries),
        canaries_sha256=canaries.sha256,
        canary_method=canaries.method,
        checkpoint=CHECKPOINT,
        checkpoint_sha256=sha256_of_checkpoint(checkpoint),
    )
    save_scores(folder / "scores.csv", scores.scores, replace(record, counts=scores.counts()))
    given = AuditInput(
        scores=folder / "scores.csv",
        coins=output / "coins.json",
        commitment=output / "commitment.json",
        # The broken trainer believes in its noise: it is audited on its claim, without the truthful record of its run.
        run=folder / RUN if name == "private" else None,
    )
    result = judge(read_evidence(given, label=LABELS[name]), claim, AuditSettings())
    result.save(folder / "audit.json")
    return result
