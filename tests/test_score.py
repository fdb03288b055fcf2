"""Scores of canaries: right values, whatever the batch size or the order, and a record that pins the choice."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import logsumexp
from torch import nn

from coalmine.attacks import AttackScores
from coalmine.audit.feeding import normalised
from coalmine.audit.score import check_scores_output, score_canaries
from coalmine.audit.training.checkpoint import sha256_of_checkpoint
from coalmine.audit.training.models import build_model
from coalmine.audit.verdict import score_record
from coalmine.audit.verdict.score_record import ScoreRecord
from coalmine.audit.verdict.scores import load_scores
from coalmine.canaries import CanarySet
from coalmine.foundation import InputError

SHAPE, CLASSES, M = (1, 8, 8), 10, 23


def save_scores(path, scores: AttackScores, told: ScoreRecord) -> None:
    """As `coalmine score` does: first whether it may, then the scores and their record."""
    check_scores_output(path, told)
    score_record.save_scores(path, scores.scores, replace(told, counts=scores.counts()))


def canary_set(x=None, y=None) -> CanarySet:
    generator = np.random.default_rng(0)
    x = generator.random((M, *SHAPE), dtype=np.float32) if x is None else x
    y = generator.integers(0, CLASSES, len(x)) if y is None else y
    return CanarySet(x=x, y=y, source_index=np.full(len(x), -1), method="test", classes=CLASSES)


def network(seed: int = 0) -> nn.Module:
    model = build_model("cnn", SHAPE, CLASSES, seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # as far from uniform as a trained model
    return model


def logits(model: nn.Module, canaries: CanarySet) -> np.ndarray:
    with torch.no_grad():
        return model.double()(torch.tensor(canaries.x, dtype=torch.float64)).numpy()


@pytest.mark.parametrize("score", ["phi", "loss", "hinge", "difference"])
def test_values_by_their_definitions(score):
    canaries, reference = canary_set(), network(1) if score == "difference" else None
    found = score_canaries(network(), canaries, score, reference=reference).scores

    def phi(z: np.ndarray, label: int) -> float:
        return z[label] - logsumexp(np.delete(z, label))

    rows = list(zip(logits(network(), canaries), canaries.y, strict=True))
    before = logits(network(1), canaries)
    expected = {
        "phi": [phi(z, label) for z, label in rows],
        "loss": [z[label] - logsumexp(z) for z, label in rows],
        "hinge": [z[label] - np.delete(z, label).max() for z, label in rows],
        "difference": [phi(z, label) - phi(w, label) for (z, label), w in zip(rows, before, strict=True)],
    }[score]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_mirror_views_are_averaged():
    canaries = canary_set()
    mirrored = canary_set(canaries.x[..., ::-1].copy(), canaries.y)
    one, other = (score_canaries(network(), each).scores for each in (canaries, mirrored))
    np.testing.assert_allclose(score_canaries(network(), canaries, views=2).scores, (one + other) / 2, rtol=1e-9)


@pytest.mark.parametrize(("score", "views"), [("phi", 9), ("loss", 1), ("hinge", 2)])
def test_files_are_equal_to_the_byte_for_every_batch_size(tmp_path, score, views):
    canaries = canary_set()
    written = []
    for batch_size in (1, 7, M, 1000):
        scores = score_canaries(network(), canaries, score, views=views, batch_size=batch_size)
        save_scores(tmp_path / f"{batch_size}.csv", scores, record())
        written.append((tmp_path / f"{batch_size}.csv").read_bytes())
    assert len(set(written)) == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_scores_of_the_cpu():
    canaries = canary_set()
    on_cpu, on_gpu = (score_canaries(network(), canaries, device=device).scores for device in ("cpu", "cuda"))
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-9)


def test_a_permutation_of_the_canaries_permutes_the_scores():
    canaries, order = canary_set(), np.random.default_rng(1).permutation(M)
    shuffled = canary_set(canaries.x[order], canaries.y[order])
    np.testing.assert_allclose(
        score_canaries(network(), shuffled, batch_size=4).scores,
        score_canaries(network(), canaries, batch_size=5).scores[order],
        rtol=1e-11,
    )


class WithModes(nn.Module):
    """Dropout and BatchNorm: both behave otherwise in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.BatchNorm1d(10), nn.Dropout(0.5))
        self.layers[2].running_mean.fill_(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def test_the_model_is_asked_in_eval_mode_and_left_as_it_was():
    model, canaries = WithModes().train(), canary_set()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    one, again = (score_canaries(model, canaries).scores for _ in range(2))
    np.testing.assert_array_equal(one, again)
    assert model.training and model.layers[3].training
    for name, value in model.state_dict().items():
        assert value.dtype == before[name].dtype and torch.equal(value, before[name])


class InsistsOnFloat32(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x.flatten(1).float())


def test_a_model_that_insists_on_its_own_precision_is_asked_in_it():
    model, canaries = InsistsOnFloat32(), canary_set()
    with torch.no_grad():
        z = model(torch.tensor(canaries.x)).double().numpy()
    expected = z[np.arange(M), canaries.y] - logsumexp(z, axis=1)
    np.testing.assert_allclose(score_canaries(model, canaries, "loss").scores, expected, rtol=1e-5)
    assert model.linear.weight.dtype == torch.float32
    half = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).to(torch.bfloat16)

    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = half

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x.to(torch.bfloat16))

    assert np.isfinite(score_canaries(Cast(), canaries).scores).all()
    assert half[1].weight.dtype == torch.bfloat16


def test_one_logit_serves_two_classes():
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 1))
    canaries = canary_set(y=np.arange(M) % 2)
    with torch.no_grad():
        z = model(torch.tensor(canaries.x)).double().numpy()[:, 0]
    expected = np.where(canaries.y == 1, z, -z)
    np.testing.assert_allclose(score_canaries(model, canaries).scores, expected, atol=1e-6)


def test_token_ids_reach_a_module_that_begins_with_long():
    class Text(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(50_000, 4), nn.Linear(4, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.embedding(x.long()).mean(dim=1))

    tokens = np.random.default_rng(0).integers(0, 50_000, (M, 12))
    model, canaries = Text(), canary_set(tokens, np.arange(M) % CLASSES)
    with torch.no_grad():
        z = model(torch.from_numpy(tokens)).double().numpy()
    expected = z[np.arange(M), canaries.y] - logsumexp(z, axis=1)
    np.testing.assert_allclose(score_canaries(model, canaries, "loss").scores, expected, rtol=1e-5)


def test_a_model_that_gives_nan_abstains_on_that_canary_only():
    class Nan(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = x.flatten(1)[:, :10].clone()
            z[x[:, 0, 0, 0] > 0.85] = float("nan")
            return z

    canaries = canary_set()
    scores = score_canaries(Nan(), canaries)
    np.testing.assert_array_equal(np.isnan(scores.scores), canaries.x[:, 0, 0, 0] > 0.85)
    assert scores.counts()["undefined"] == (canaries.x[:, 0, 0, 0] > 0.85).sum() > 0


def test_normalisation_is_applied_before_the_model():
    canaries = canary_set()
    shifted = canary_set(((canaries.x - np.float32(0.3)) / np.float32(0.2)), canaries.y)
    inside = score_canaries(normalised(network(), [0.3], [0.2], SHAPE), canaries).scores
    np.testing.assert_allclose(inside, score_canaries(network(), shifted).scores, rtol=1e-4)
    for mean, std, shape in (([0.3], [0.0], SHAPE), ([0.1, 0.2], [1.0, 1.0], SHAPE), ([0.1], [1.0], (64,))):
        with pytest.raises(InputError, match="pixel"):
            normalised(network(), mean, std, shape)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"score": "entropy"}, "not known"),
        ({"views": 3}, "views must be"),
        ({"score": "difference"}, "goes with a reference"),
        ({"reference": network()}, "goes with a reference"),
    ],
)
def test_mistakes(arguments, words):
    with pytest.raises(InputError, match=words):
        score_canaries(network(), canary_set(), **arguments)


def test_views_need_images_and_labels_must_be_answered():
    flat = canary_set(np.random.default_rng(0).random((5, 64), dtype=np.float32))
    with pytest.raises(InputError, match="needs images"):
        score_canaries(nn.Linear(64, 10), flat, views=2)
    with pytest.raises(InputError, match="gives 3 classes only"):
        score_canaries(nn.Linear(64, 3), canary_set(flat.x, np.array([0, 1, 2, 3, 0])))


def record(**changes) -> ScoreRecord:
    return ScoreRecord(
        **{
            "score": "phi",
            "views": 1,
            "canaries": 3,
            "canaries_sha256": "c" * 64,
            "canary_method": "noise",
            "checkpoint": "m.pt",
            "checkpoint_sha256": "a" * 64,
            **changes,
        }
    )


def some_scores(values=(0.1, -2.0, 3.5)) -> AttackScores:
    values = np.array(values)
    return AttackScores(values, np.where(np.isnan(values), "non_finite_target", "ok"), {"attack": "phi"})


class TestFiles:
    @pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
    def test_the_audit_reads_what_is_written_abstentions_too(self, tmp_path, suffix):
        path = tmp_path / f"scores.{suffix}"
        save_scores(path, some_scores((0.1, np.nan, -1 / 3)), record())
        read = load_scores(path)
        np.testing.assert_array_equal(read.canary_id, [0, 1, 2])
        np.testing.assert_allclose(read.score, [0.1, np.nan, -1 / 3], rtol=1e-9)
        assert read.undefined == 1
        beside = json.loads((tmp_path / "scores.json").read_text())
        assert beside["score"] == "phi" and beside["counts"]["undefined"] == 1
        assert beside["checkpoint_sha256"] == "a" * 64 and beside["canaries_sha256"] == "c" * 64

    def test_ten_significant_digits_are_written(self, tmp_path):
        save_scores(tmp_path / "s.csv", some_scores((np.pi * 1e-20, -np.e * 1e15, 0.0)), record())
        assert pd.read_csv(tmp_path / "s.csv").score.tolist() == [3.141592654e-20, -2.718281828e15, 0.0]

    def test_another_score_does_not_replace_the_one_that_was_fixed(self, tmp_path):
        path = tmp_path / "scores.csv"
        save_scores(path, some_scores(), record())
        before = path.read_bytes()
        save_scores(path, some_scores(), record(checkpoint="moved/m.pt"))
        for changes in ({"score": "loss"}, {"views": 2}, {"checkpoint_sha256": "b" * 64}, {"pixel_mean": (0.5,)}):
            with pytest.raises(InputError, match=f"differ in {next(iter(changes))}"):
                save_scores(path, some_scores((9, 9, 9)), record(**changes))
        assert path.read_bytes() == before

    def test_unknown_suffixes_are_refused(self, tmp_path):
        with pytest.raises(InputError, match=r"\.csv, \.parquet, \.npz"):
            check_scores_output(tmp_path / "scores.txt", record())

    def test_a_directory_has_a_hash_of_all_its_files(self, tmp_path):
        (tmp_path / "d").mkdir()
        (tmp_path / "d" / "a").write_text("1")
        (tmp_path / "d" / "b").write_text("2")
        one = sha256_of_checkpoint(tmp_path / "d")
        (tmp_path / "d" / "b").write_text("3")
        assert sha256_of_checkpoint(tmp_path / "d") != one
        (tmp_path / "d" / "b").write_text("2")
        assert sha256_of_checkpoint(tmp_path / "d") == one
