"""What docs/your_model.md says of Opacus' own sampling and of coins that a user drew himself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from coalmine.audit.cli import main

PAGE = (Path(__file__).parent.parent / "docs" / "your_model.md").read_text("utf-8")


def section(title: str) -> str:
    return re.split(r"^#+ ", PAGE.split(title, 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def code(title: str, language: str) -> str:
    return re.search(rf"```{language}\n(.*?)```", section(title), re.DOTALL)[1]


def coalmine(*arguments: object) -> int:
    try:
        main([*map(str, arguments)])
    except SystemExit as error:
        return int(error.code or 0)
    return 0


@pytest.mark.filterwarnings("ignore")
class TestMakePrivate:
    title = "### You used Opacus' make_private (Poisson)"

    def names(self, rows: int) -> dict:
        model = torch.nn.Linear(4, 2)
        return {
            "PrivacyEngine": pytest.importorskip("opacus").PrivacyEngine,
            "training_set": TensorDataset(torch.randn(rows, 4), torch.zeros(rows, dtype=torch.long)),
            "model": model,
            "optimizer": torch.optim.SGD(model.parameters(), 0.1),
        }

    def test_it_takes_rate_and_divisor_from_the_number_of_rows(self):
        table = re.findall(r"^\| ([\d,]+) \| 1/(\d+) \| (\d+) \|$", section(self.title), re.MULTILINE)
        assert len(table) == 3
        for rows, steps, divisor in table:
            names = self.names(int(rows.replace(",", "")))
            _, optimizer, loader = names["PrivacyEngine"]().make_private(
                module=names["model"],
                optimizer=names["optimizer"],
                data_loader=DataLoader(names["training_set"], batch_size=64),
                noise_multiplier=1.0,
                max_grad_norm=1.0,
            )
            assert (len(loader), optimizer.expected_batch_size) == (int(steps), int(divisor))
            assert loader.sample_rate == 1 / int(steps)

    @pytest.mark.parametrize("rows", [1450, 1537])
    def test_the_lines_of_the_page_make_both_constant(self, rows):
        names = self.names(rows)
        exec(code(self.title, "python"), names)
        optimizer, loader, model = names["optimizer"], names["loader"], names["model"]
        assert optimizer.expected_batch_size == 62.5 and loader.batch_sampler.sample_rate == 1 / 24
        sizes = []
        for x, y in loader:
            sizes.append(len(x))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        assert len(sizes) == 24 and len(set(sizes)) > 1  # 24 steps; batches of random size: Poisson

    def test_the_claim_is_written_as_the_page_says(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        words = code(self.title, "").split()
        assert words[:2] == ["coalmine", "claim"] and coalmine(*words[1:]) == 0
        mechanism = json.loads((tmp_path / "claim.json").read_text())["mechanism"]
        assert mechanism["sampling_rate"] >= 1 / 24 and mechanism["steps"] == 24 * 20


def test_coins_that_a_user_drew_himself(tmp_path, monkeypatch, capsys):
    """An overfitted model of 150 noisy rows, of which fair coins chose the half that it was trained on."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 150
    member = rng.random(n) < 0.5  # before training
    x, y = rng.random((n, 30)).astype(np.float32), rng.integers(0, 2, n)
    exec(code("## You drew fair coins yourself", "python"), {"json": json, "member": member})
    np.savez("rows.npz", x=x, y=y, x_test=x[:0], y_test=y[:0])
    np.save("member.npy", member)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(30, 128), torch.nn.ReLU(), torch.nn.Linear(128, 2))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(150):
        optimizer.zero_grad()
        logits = model(torch.from_numpy(x[member]))
        torch.nn.functional.cross_entropy(logits, torch.from_numpy(y[member])).backward()
        optimizer.step()
    torch.save(model.state_dict(), "model.pt")
    (tmp_path / "my_net.py").write_text(
        "import torch\n"
        "def build():\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(30, 128), torch.nn.ReLU(), "
        "torch.nn.Linear(128, 2))\n"
    )
    lira = ["lira", "--target", "model.pt", "--model", "my_net:build", "--data", "rows.npz", "--target-members"]
    lira += ["member.npy", "--steps-per-epoch", 1, "--epochs", 30, "--learning-rate", 0.5, "--shadows", 4]
    assert coalmine(*lira, "--attack", "lira_offline", "--output", "runs/lira", "--quiet") == 0, capsys.readouterr().err
    audit = ["audit", "--scores", "runs/lira/scores.csv", "--epsilon", 1, "--delta", 1e-5]
    capsys.readouterr()
    assert coalmine(*audit, "--coins", "coins.json", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["counts"]["canaries"] == n and result["counts"]["members"] == member.sum()
    assert result["verdict"] == "rejected"
    assert coalmine(*audit, "--membership", "coins") == 2  # a list of members is not yet a coin
    assert "coins file" in capsys.readouterr().err
