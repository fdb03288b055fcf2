"""Models by name: sizes, determinism without the global generator, and the refusal of layers that couple examples."""

from __future__ import annotations

import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from coalmine.audit.training.models import build_model, refuse_batch_coupling
from coalmine.foundation import InputError

DIGITS, CIFAR = (1, 8, 8), (3, 32, 32)


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a user's module and name a function in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "users_nets", raising=False)

    def write(source: str) -> None:
        (tmp_path / "users_nets.py").write_text("import torch\nfrom torch import nn\n" + textwrap.dedent(source))

    yield write
    sys.modules.pop("users_nets", None)


@pytest.mark.parametrize(
    ("name", "shape", "count"),
    [
        ("mlp", DIGITS, 64 * 65 + 64 * 65 + 65 * 10),
        ("cnn", DIGITS, 16 * 10 + 32 * 145 + 129 * 10),
        ("cnn-137k", CIFAR, 137_190),
        ("wrn16-4", CIFAR, 2_748_890),  # 2.75 million, De et al., arXiv 2204.13650
        ("torchvision:squeezenet1_1", CIFAR, 727_626),
    ],
)
def test_sizes_and_outputs(name, shape, count):
    model = build_model(name, shape, 10, seed=0)
    assert parameters(model) == count
    assert model.training
    assert model(torch.zeros(3, *shape)).shape == (3, 10)


@pytest.mark.parametrize("name", ["mlp", "cnn", "torchvision:squeezenet1_1"])
def test_equal_seeds_give_equal_bits_and_others_do_not(name):
    shape = CIFAR if name.startswith("torchvision") else DIGITS
    one, same, other = (weights(build_model(name, shape, 10, seed)) for seed in (5, 5, 6))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_the_global_generator_is_neither_read_nor_moved():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = weights(build_model("mlp", DIGITS, 10, seed=3))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(weights(build_model("mlp", DIGITS, 10, seed=3)), one)


def test_models_built_in_threads_are_those_built_in_a_row():
    in_a_row = [weights(build_model("mlp", DIGITS, 10, seed)) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        in_threads = list(pool.map(lambda seed: weights(build_model("mlp", DIGITS, 10, seed)), range(8)))
    assert all(torch.equal(one, other) for one, other in zip(in_a_row, in_threads, strict=True))


def test_the_initial_weights_have_torchs_default_scale():
    weight = build_model("mlp", (1, 20, 20), 10, seed=0)[1].weight
    assert weight.abs().max() <= 1 / 400**0.5
    assert weight.std().item() == pytest.approx(1 / (3 * 400) ** 0.5, rel=0.05)


@pytest.mark.parametrize(
    "draw",
    [
        "torch.randn(3)",
        "torch.rand(2, 2)",
        "torch.randperm(5)",
        "torch.randint(0, 9, (4,))",
        "torch.randint(9, (4,))",
        "torch.normal(torch.zeros(3), 1.0)",
        "nn.init.orthogonal_(torch.empty(3, 3))",
        "nn.init.trunc_normal_(torch.empty(3))",
        "torch.empty(3).exponential_()",
    ],
)
def test_whatever_a_users_function_draws_comes_from_the_seed(own, draw):
    own(f"""
        def build(input_shape, classes):
            model = nn.Sequential(nn.Flatten(), nn.Linear(64, classes))
            model.register_buffer("drawn", {draw}.float())
            return model
    """)
    before = torch.get_rng_state()
    one, same, other = (build_model("users_nets:build", DIGITS, 10, seed).drawn for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one, same) and not torch.equal(one, other)


class TestUsersOwn:
    def test_a_function_gets_what_it_asks_for_by_name(self, own):
        own("""
            class Net(nn.Sequential):
                def __init__(self, num_classes=7, width=3):
                    super().__init__(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, num_classes))
            def fixed():
                return Net(10)
            def scorer(input_shape):
                return nn.Sequential(nn.Flatten(), nn.Linear(64, 1))
        """)
        assert build_model("users_nets:Net", DIGITS, 4, 0)(torch.zeros(2, 1, 8, 8)).shape == (2, 4)
        build_model("users_nets:fixed", DIGITS, 10, 0)
        build_model("users_nets:scorer", DIGITS, 2, 0)  # one logit serves two classes

    @pytest.mark.parametrize(
        ("source", "words"),
        [
            ("def build(): return 3", "must return a torch.nn.Module"),
            ("def build(size): return nn.Linear(1, 1)", "failed when called"),
            ("def build(): raise KeyError('width')", "KeyError"),
            ("build = 5", "not a function"),
            ("def build(): return nn.Flatten()", "returns shape (2, 64)"),
            ("def build(): return nn.Linear(3, 10)", "does not take rows of shape (1, 8, 8)"),
            ("def build(:", "cannot be imported"),
            ("import no_such_package", "cannot be imported"),
            ("other = 1", "cannot be imported"),
        ],
    )
    def test_mistakes_get_one_line(self, own, source, words):
        own(source)
        with pytest.raises(InputError) as caught:
            build_model("users_nets:build", DIGITS, 10, 0)
        assert words in str(caught.value)

    def test_a_tuple_of_outputs_is_refused(self, own):
        own("""
            class build(nn.Linear):
                def __init__(self): super().__init__(8, 10)
                def forward(self, x): return super().forward(x)[:, 0, 0], None
        """)
        with pytest.raises(InputError, match="returns a tuple"):
            build_model("users_nets:build", DIGITS, 10, 0)


class TestBatchCoupling:
    @pytest.mark.parametrize("layer", [nn.BatchNorm1d(4), nn.BatchNorm2d(4), nn.LazyBatchNorm2d(), nn.SyncBatchNorm(4)])
    def test_batch_norm_is_refused_by_its_place_and_with_a_remedy(self, layer):
        with pytest.raises(InputError, match=r"layer '1\.0' is a .*BatchNorm.*GroupNorm"):
            refuse_batch_coupling(nn.Sequential(nn.ReLU(), nn.Sequential(layer)))

    def test_instance_norm_may_stay_unless_it_shares_statistics(self):
        refuse_batch_coupling(nn.Sequential(nn.InstanceNorm2d(4), nn.GroupNorm(2, 4), nn.LayerNorm(4)))
        with pytest.raises(InputError, match="track_running_stats=False"):
            refuse_batch_coupling(nn.InstanceNorm2d(4, track_running_stats=True))

    def test_a_trained_batch_norm_may_be_scored_if_it_has_running_statistics(self):
        refuse_batch_coupling(nn.BatchNorm2d(4), may_couple=True)
        with pytest.raises(InputError, match="without running statistics"):
            refuse_batch_coupling(nn.BatchNorm2d(4, track_running_stats=False), may_couple=True)

    def test_a_torchvision_model_with_batch_norm(self):
        with pytest.raises(InputError, match="layer 'bn1' is a BatchNorm2d"):
            build_model("torchvision:resnet18", CIFAR, 10, 0)
        assert parameters(build_model("torchvision:resnet18", CIFAR, 10, 0, may_couple=True)) == 11_181_642

    def test_a_layer_that_no_list_knows_is_found_by_its_output(self, own):
        own("""
            class Centre(nn.Module):
                def forward(self, x): return x - x.mean(dim=0)
            def build(classes): return nn.Sequential(nn.Flatten(), nn.Linear(64, classes), Centre())
        """)
        with pytest.raises(InputError, match="mixes examples"):
            build_model("users_nets:build", DIGITS, 10, 0)


@pytest.mark.parametrize(
    ("name", "shape", "classes", "words"),
    [
        ("cnn", (64,), 10, "needs images"),
        ("cnn-137k", DIGITS, 10, "at least 16"),
        ("resnet", CIFAR, 10, "not known"),
        ("torchvision:resnet", CIFAR, 10, "no torchvision classifier"),
        ("torchvision:squeezenet1_1", DIGITS, 10, "does not take rows"),
        ("mlp", DIGITS, 1, "classes must be at least 2"),
    ],
)
def test_mistakes_get_one_line(name, shape, classes, words):
    with pytest.raises(InputError, match=words):
        build_model(name, shape, classes, 0)
