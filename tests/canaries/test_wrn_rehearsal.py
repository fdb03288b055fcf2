"""The WRN-16-4 experiment: its whole path at toy size on the CPU, and its refusal where there is no GPU."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from coalmine.canaries import CanarySet

SCRIPT = Path(__file__).parents[2] / "reports" / "experiments" / "canaries_wrn.py"


def call(*options):
    return subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_rehearsal_goes_through_every_stage_and_resumes(tmp_path):
    done = call("--rehearse", "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "0"
    start, refined = (CanarySet.load(folder / f"{name}.safetensors") for name in ("greedy", "greedy_refined"))
    assert refined.x.shape == (32, 1, 8, 8) and refined.parameters["refinement"]["canary_batch"] == 8
    moved = (refined.x != start.x).any(axis=(1, 2, 3))
    assert 8 <= moved.sum() <= 16  # two steps moved eight canaries each
    np.testing.assert_array_equal(refined.source_index, start.source_index)
    for name in ("binary_noise", "greedy", "greedy_refined"):
        (run,) = json.loads((folder / f"{name}.evaluation.json").read_text())
        assert 0 <= run["auc"] <= 1
        assert f"| {name} | 32 | 1 |" in done.stdout
    stamps = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = call("--rehearse", "--folder", str(tmp_path))
    assert again.returncode == 0 and stamps == {path: path.stat().st_mtime_ns for path in folder.iterdir()}


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_the_full_size_is_refused_before_any_work(tmp_path):
    refused = call("--folder", str(tmp_path / "runs"))
    assert refused.returncode == 2 and refused.stdout == ""
    assert refused.stderr.startswith("error: 1000 canaries on a WRN-16-4 need a GPU") and "--rehearse" in refused.stderr
    assert not (tmp_path / "runs").exists()
