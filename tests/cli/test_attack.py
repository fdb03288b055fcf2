"""`coalmine attack` on the models that people have, fed rightly and wrongly: right numbers, or what to mend."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from torch import nn

from coalmine.audit.attack.result import AttackResult
from coalmine.audit.cli import main


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    try:
        main([*map(str, arguments)])
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def result_of(folder: Path) -> AttackResult:
    return AttackResult.from_json(json.loads((folder / "attack.json").read_text()))


def fit(model: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int, rate: float = 0.3, seed: int = 0) -> nn.Module:
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9)
    generator = torch.Generator().manual_seed(seed)
    model.train()
    for _ in range(steps):
        rows = torch.randperm(len(y), generator=generator)[:64]
        optimizer.zero_grad()
        answers = model(x[rows])
        loss = (
            nn.functional.cross_entropy(answers, y[rows])
            if answers.shape[1] > 1
            else nn.functional.binary_cross_entropy_with_logits(answers[:, 0], y[rows].float())
        )
        loss.backward()
        optimizer.step()
    return model.eval()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("nets", "their_model"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield tmp_path
    for name in ("nets", "their_model"):
        sys.modules.pop(name, None)


@pytest.fixture
def digits(here):
    """A standardised model: trained on (x − 0.3)/0.35 of half of the rows, its ten outputs in the order of digits."""
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    member = np.random.default_rng(0).random(len(y)) < 0.5
    np.savez("data.npz", x=x, y=y, x_test=x[:0], y_test=y[:0], value_range=[0.0, 1.0])
    np.save("member.npy", member)
    (here / "nets.py").write_text(
        "from torch import nn\n"
        "def build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))\n"
        "def halved(x):\n    return x * 0.5\n"
    )
    torch.manual_seed(0)
    build = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    fed = torch.tensor((x - 0.3) / 0.35)
    model = fit(build, fed[member], torch.tensor(y[member]), 400, 0.1)
    torch.save(model.state_dict(), "model.pt")
    with torch.no_grad():
        logits = model(fed).double()  # float32 would round the surest losses to 0
        loss = nn.functional.cross_entropy(logits, torch.tensor(y), reduction="none").numpy()
    return x, y, member, -loss


FED = ("--pixel-mean", 0.3, "--pixel-std", 0.35)
MINE = ("attack", "--target", "model.pt", "--model", "nets:build", "--data", "data.npz", "--output", "out")
MEMBERS = ("--target-members", "member.npy")


def test_one_command_gives_the_numbers_of_a_direct_computation(digits, capsys, here):
    _, _, member, score = digits
    code, out, err = run(capsys, *MINE, *MEMBERS, *FED)
    assert code == 0, err
    found = result_of(here / "out")
    assert found.metrics is not None and found.accuracy is not None
    assert found.metrics.auc == pytest.approx(roc_auc_score(member, score), abs=0.002)
    assert found.accuracy.on_members > 0.99 and "on its own" in out
    assert {one.name for one in found.attacks} == {"loss", "phi", "hinge", "attack_p"}
    assert "coalmine lira" in out and "an epoch here" in out and "not a bound on epsilon" in out
    with open("out/examples.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(member) and set(rows[0]) >= {"row", "label", "member", "score", "false_positive_rate"}
    scores = [float(row["score"]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    some = next(row for row in rows if int(row["row"]) == 7)
    assert float(some["false_positive_rate"]) == pytest.approx((score[~member] >= score[7] - 1e-9).mean(), abs=0.002)
    assert (
        (here / "out" / "roc.csv").read_text().startswith("attack,false_positive_rate,true_positive_rate\nloss,0,0\n")
    )
    before = (here / "out" / "attack.json").read_bytes()
    assert run(capsys, *MINE, *MEMBERS, *FED)[0] == 0 and (here / "out" / "attack.json").read_bytes() == before


def test_the_page_of_it_and_the_same_from_json(digits, capsys, here):
    run(capsys, *MINE, *MEMBERS, *FED)
    code, out, err = run(capsys, "report", "out/attack.json", "--output", "page.html", "--figures", "figures")
    assert code == 0 and "page.html" in out, err
    page = (here / "page.html").read_text()
    assert "data:image/png;base64," in page and "canar" not in page.split("What to do next")[0].lower()
    assert (here / "figures" / "roc.csv").is_file() and (here / "figures" / "roc.svg").is_file()
    assert "://" not in page.replace("http://www.w3.org", "")
    code, _, err = run(capsys, "report", "out/attack.json", "out/attack.json")
    assert code == 2 and "alone" in err


WRONG = {
    "not normalised": ((), "--pixel-mean"),
    "classes swapped": ((*FED, "--classes", "1,0,2,3,4,5,6,7,8,9"), "--classes"),
    "all classes shifted": ((*FED, "--classes", "1,2,3,4,5,6,7,8,9,0"), "--classes"),
    "another training accuracy": ((*FED, "--training-accuracy", 0.8), "--training-accuracy"),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_wrongly_fed_model_is_stopped_by_every_command_that_asks_it(digits, capsys, here, how):
    options, named = WRONG[how]
    recipe = ("--shadows", 2, "--steps-per-epoch", 2, "--epochs", 1, "--learning-rate", 0.1)
    craft = ("canaries", "craft", "--data", "data.npz", "--method", "random", "--count", 20)
    run(capsys, *craft, "--output", "c.safetensors")
    commands = {
        "attack": (*MINE, *MEMBERS),
        "lira": ("lira", *MINE[1:-2], "--output", "lira", *MEMBERS, *recipe),
        "lira of canaries": ("lira", *MINE[1:-2], "--output", "canaries", "--canaries", "c.safetensors", *recipe),
        "score": (
            "score", "--checkpoint", "model.pt", "--model", "nets:build", "--data", "data.npz",
            "--canaries", "c.safetensors", "--output", "scores.csv",
        ),
    }  # fmt: skip
    for name, command in commands.items():
        code, _, err = run(capsys, *command, *options)
        assert code == 2 and named in err and err.count("\n") == 1, (name, how, err)
        assert not list(here.glob("*/scores.csv")) and not Path("scores.csv").exists()


def test_other_data_and_rows_that_are_shuffled_against_their_labels_are_stopped(digits, capsys, here):
    x, y, _, _ = digits
    np.savez("other.npz", x=np.random.default_rng(1).random(x.shape, np.float32), y=y, x_test=x[:0], y_test=y[:0])
    code, _, err = run(capsys, *MINE, *MEMBERS, *FED, "--data", "other.npz")
    assert code == 2 and "--data" in err and "--pixel-mean" in err and "--classes" in err
    np.savez("shuffled.npz", x=np.random.default_rng(1).permutation(x), y=y, x_test=x[:0], y_test=y[:0])
    code, _, err = run(capsys, *MINE, *MEMBERS, *FED, "--data", "shuffled.npz")
    assert code == 2 and "not clearly more than" in err


def test_the_truth_is_given_and_never_made_up(digits, capsys, here):
    x, y, _, _ = digits
    np.savez("no_test.npz", x=x, y=y)
    for command in ("attack", "lira"):
        code, _, err = run(
            capsys, command, *MINE[1:-2], "--output", command, *FED, "--data", "no_test.npz",
            *(("--steps-per-epoch", 2, "--epochs", 1, "--learning-rate", 0.1) if command == "lira" else ()),
        )  # fmt: skip
        assert code == 2 and "--target-members" in err and "x_test" in err
    code, _, err = run(capsys, "attack", "--target", "model.pt", "--model", "nets:build")
    assert code == 2 and "--data is missing" in err
    code, _, err = run(capsys, "attack", "--target", "gone.pt", "--data", "data.npz")
    assert code == 2 and "gone.pt" in err


def test_rows_that_stand_on_both_sides_are_counted(digits, capsys, here):
    x, y, member, _ = digits
    twice, labels = np.concatenate([x, x[member][:50]]), np.concatenate([y, y[member][:50]])
    np.savez("twice.npz", x=twice, y=labels, x_test=x[:0], y_test=y[:0], value_range=[0.0, 1.0])
    np.save("twice.npy", np.concatenate([member, np.zeros(50, bool)]))
    code, _, err = run(capsys, *MINE, *FED, "--data", "twice.npz", "--target-members", "twice.npy", "--quiet")
    assert code == 0 and "100 of 1847 rows stand on both sides" in err  # not even --quiet hides it


def test_groups_and_names_from_a_table_about_the_rows(digits, capsys, here):
    _, y, member, _ = digits
    with open("about.csv", "w") as file:
        file.write("id,site\n" + "".join(f"patient {i},{'north' if i % 3 else 'south'}\n" for i in range(len(y))))
    assert run(capsys, *MINE, *MEMBERS, *FED, "--about", "about.csv")[0] == 0
    found = result_of(here / "out")
    sites = {g.value: g for g in found.groups if g.column == "site"}
    assert sites["south"].members == member[::3].sum() and len([g for g in found.groups if g.column == "class"]) == 10
    assert found.at_risk[0].name.startswith("patient ")
    code, _, err = run(capsys, *MINE, *MEMBERS, *FED, "--about", "short.csv")
    assert code == 2 and "short.csv" in err


def test_a_model_with_one_logit_and_names_in_its_own_order(here, capsys):
    """A table whose classes are called no and yes, and a model whose single output says how much it is a no."""
    random = np.random.default_rng(0)
    x = random.normal(size=(600, 8)).astype(np.float32)
    names = np.where(x[:, 0] + 0.7 * random.normal(size=600) > 0, "yes", "no")
    header = ",".join([*(f"f{i}" for i in range(8)), "label"])
    lines = [",".join([*(f"{v:.6f}" for v in row), name]) for row, name in zip(x, names, strict=True)]
    Path("table.csv").write_text("\n".join([header + ",split", *(f"{s},train" for s in lines[:300])]) + "\n")
    with open("table.csv", "a") as file:
        file.writelines(f"{line},test\n" for line in lines[300:])
    Path("nets.py").write_text(
        "from torch import nn\ndef build():\n    return nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))\n"
    )
    rounded = torch.tensor(np.array([[float(f"{v:.6f}") for v in row] for row in x], np.float32))
    is_no = torch.tensor((names == "no").astype(np.int64))
    torch.manual_seed(0)
    model = fit(nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1)), rounded[:300], is_no[:300], 600, 0.2)
    torch.save(model.state_dict(), "model.pt")
    command = ("attack", "--target", "model.pt", "--model", "nets:build", "--data", "table.csv", "--output", "out")
    code, _, err = run(capsys, *command)
    assert code == 2 and "--classes yes,no" in err
    code, _, err = run(capsys, *command, "--classes", "yes,no")
    assert code == 0, err
    with torch.no_grad():
        z = model(rounded)[:, 0].numpy()
    signed = np.where(is_no.numpy() == 1, z, -z)
    found = result_of(here / "out").metrics
    assert found is not None and found.auc == pytest.approx(roc_auc_score(np.arange(600) < 300, signed), abs=0.01)


def test_a_scikit_learn_forest_by_the_function_that_loads_it(here, capsys):
    import joblib

    x, y = load_digits(return_X_y=True)
    member = np.random.default_rng(1).random(len(y)) < 0.5
    np.savez("data.npz", x=x.astype(np.float32), y=y, x_test=x[:0], y_test=y[:0])
    np.save("member.npy", member)
    forest = RandomForestClassifier(20, random_state=0).fit(x[member], y[member])
    joblib.dump(forest, "forest.joblib")
    Path("their_model.py").write_text(
        "import joblib\n"
        "def load():\n    return joblib.load('forest.joblib')\n"
        "def ask(rows):\n    return load().predict_proba(rows)\n"
        "def guess(rows):\n    return load().predict(rows)\n"
    )
    command = ("attack", "--data", "data.npz", *MEMBERS, "--output")
    code, _, err = run(capsys, *command, "out", "--target", "forest.joblib")
    assert code == 2 and "package.module:function" in err
    expected = roc_auc_score(member, forest.predict_proba(x)[np.arange(len(y)), y])
    for how in ("load", "ask"):
        code, _, err = run(capsys, *command, how, "--target", f"their_model:{how}")
        assert code == 0, err
        found = result_of(here / how)
        assert found.metrics is not None and found.metrics.auc == pytest.approx(expected, abs=0.002)
        assert "--train" in (found.next_attack or "")
    code, _, err = run(capsys, *command, "guess", "--target", "their_model:guess")
    assert code == 2 and "not predicted classes" in err


def test_token_ids_reach_an_embedding_as_whole_numbers(here, capsys):
    random = np.random.default_rng(0)
    x = random.integers(0, 50, (400, 12))
    y = (x[:, :6].mean(axis=1) > x[:, 6:].mean(axis=1)).astype(int)
    np.savez("data.npz", x=x[:200], y=y[:200], x_test=x[200:], y_test=y[200:])
    Path("nets.py").write_text(
        "from torch import nn\n"
        "def build():\n    return nn.Sequential(nn.Embedding(50, 16), nn.Flatten(), nn.Linear(192, 32), nn.ReLU(), "
        "nn.Linear(32, 2))\n"
    )
    torch.manual_seed(0)
    network = nn.Sequential(nn.Embedding(50, 16), nn.Flatten(), nn.Linear(192, 32), nn.ReLU(), nn.Linear(32, 2))
    model = fit(network, torch.tensor(x[:200]), torch.tensor(y[:200]), 200, 0.1)
    torch.save(model.state_dict(), "model.pt")
    command = ("--target", "model.pt", "--model", "nets:build", "--data", "data.npz")
    assert run(capsys, "attack", *command, "--output", "out")[0] == 0
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(torch.tensor(x)), torch.tensor(y), reduction="none").numpy()
    found = result_of(here / "out").metrics
    assert found is not None and found.auc == pytest.approx(roc_auc_score(np.arange(400) < 200, -loss), abs=0.002)
    recipe = ("--shadows", 4, "--steps-per-epoch", 3, "--epochs", 20, "--learning-rate", 0.1, "--momentum", 0.9)
    code, out, err = run(capsys, "lira", *command, *recipe, "--output", "lira")
    assert code == 0 and "shadow models: nets:build, the architecture of the target" in out, err


def test_scores_of_another_tool(here, capsys):
    random = np.random.default_rng(0)
    member = random.random(3000) < 0.5
    score = random.normal(size=3000) + member
    lines = [f"{i},{s:.9g},{int(m)}" for i, (s, m) in enumerate(zip(score, member, strict=True))]
    Path("theirs.csv").write_text("\n".join(["canary_id,score,member", *lines]) + "\n")
    code, _, err = run(capsys, "attack", "--scores", "theirs.csv", "--output", "out")
    assert code == 0, err
    found = result_of(here / "out")
    assert found.metrics is not None and found.metrics.auc == pytest.approx(roc_auc_score(member, score), abs=1e-9)
    assert run(capsys, "report", "out/attack.json", "--output", "page.html")[0] == 0
    Path("theirs.csv").write_text("\n".join(["canary_id,score", *(",".join(s.split(",")[:2]) for s in lines)]) + "\n")
    code, _, err = run(capsys, "attack", "--scores", "theirs.csv", "--output", "again")
    assert code == 2 and "--target-members" in err


def test_a_batch_normalised_network_on_normalised_images(here, capsys):
    """ResNet-18 on JPEG files: refused as they are, right when fed rightly, and its shadows keep BatchNorm."""
    from PIL import Image
    from torchvision import models

    x, y = load_digits(return_X_y=True)
    random = np.random.default_rng(0)
    for part, rows in (("train", range(96)), ("test", range(96, 192))):
        for row in rows:
            pixels = np.kron(x[row].reshape(8, 8) / 16, np.ones((4, 4))) * 0.2 + random.random((32, 32)) * 0.1
            folder = Path("images") / part / str(y[row] % 2)
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray((255 * np.stack([pixels] * 3, -1)).astype(np.uint8)).save(folder / f"{row}.jpg", quality=95)
    from coalmine.audit.training.data import load_data

    data = load_data("imagefolder:images")
    mean, std = (round(float(v), 3) for v in (data.x.mean(), data.x.std()))
    fed = lambda rows: torch.tensor((rows - mean) / std)  # noqa: E731
    torch.manual_seed(0)
    network = models.resnet18(weights=None, num_classes=2)
    model = fit(network, fed(data.x), torch.tensor(data.y), 30, 0.02)
    torch.save(model.state_dict(), "model.pt")
    command = ("--target", "model.pt", "--model", "torchvision:resnet18", "--data", "imagefolder:images")
    code, _, err = run(capsys, "attack", *command, "--output", "wrong")
    assert code == 2 and "--pixel-mean" in err
    normalised = ("--pixel-mean", ",".join([str(mean)] * 3), "--pixel-std", ",".join([str(std)] * 3))
    code, _, err = run(capsys, "attack", *command, *normalised, "--output", "out")
    assert code == 0, err
    every, labels = np.concatenate([data.x, data.x_test]), np.concatenate([data.y, data.y_test])
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(fed(every)), torch.tensor(labels), reduction="none").numpy()
    found = result_of(here / "out")
    expected = roc_auc_score(np.arange(len(labels)) < len(data.y), -loss)
    assert found.metrics is not None and found.metrics.auc == pytest.approx(expected, abs=0.01)
    assert found.at_risk[0].name.endswith(".jpg") and found.at_risk[0].picture is not None
    recipe = ("--shadows", 2, "--steps-per-epoch", 2, "--epochs", 1, "--learning-rate", 0.02)
    code, out, err = run(capsys, "lira", *command, *normalised, *recipe, "--output", "lira", "--attack", "base_online")
    assert code == 0 and "torchvision:resnet18, the architecture of the target" in out, err
    assert "one model after another: BatchNorm" in err


def test_a_hugging_face_directory_of_a_random_configuration(here, capsys):
    transformers = pytest.importorskip("transformers", reason="extra hf is not installed")
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=8, patch_size=4,
        num_channels=1, num_labels=10,
    )  # fmt: skip
    torch.manual_seed(0)
    network = transformers.ViTForImageClassification(config)
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    inputs, labels = torch.tensor(x[:600]), torch.tensor(y[:600])
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(80):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(pixel_values=inputs[:300]).logits, labels[:300]).backward()
        optimizer.step()
    network.eval().save_pretrained("vit")
    np.savez("data.npz", x=x[:300], y=y[:300], x_test=x[300:600], y_test=y[300:600])
    code, _, err = run(capsys, "attack", "--target", "vit", "--data", "data.npz", "--output", "out")
    assert code == 0, err
    with torch.no_grad():
        loss = nn.functional.cross_entropy(network(pixel_values=inputs).logits, labels, reduction="none").numpy()
    found = result_of(here / "out").metrics
    assert found is not None and found.auc == pytest.approx(roc_auc_score(np.arange(600) < 300, -loss), abs=0.01)
    recipe = ("--shadows", 2, "--steps-per-epoch", 1, "--epochs", 1, "--learning-rate", 0.1, "--output", "lira")
    code, out, err = run(capsys, "lira", "--target", "vit", "--data", "data.npz", *recipe)
    assert code == 0 and "huggingface:vit, the architecture of the target" in out, err
