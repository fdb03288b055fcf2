"""Checkpoints: every format in every wrapper gives equal weights; whatever does not fit gets one line; no code runs."""

from __future__ import annotations

import argparse
import contextlib
import os
import pickle
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file, save_model
from torch import nn

from coalmine.audit.training.checkpoint import load_checkpoint, open_model
from coalmine.audit.training.checkpoint_files import file_kind
from coalmine.audit.training.checkpoint_keys import match_names
from coalmine.foundation import InputError


class Net(nn.Module):
    """A model with a legitimate attribute called `module`, and one whose name ends like a prefix."""

    def __init__(self, classes: int = 3, width: int = 4) -> None:
        super().__init__()
        self.module = nn.Linear(5, width)
        self.my_module = nn.Linear(width, width)
        self.norm = nn.GroupNorm(2, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.my_module(self.module(x)).relu()))


class OnlyModule(nn.Module):
    """All of its names begin with `module.`, and rightly so."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)


def trained(kind: type[nn.Module] = Net, seed: int = 1) -> nn.Module:
    model = kind()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=generator)
    return model


def assert_equal_weights(one: nn.Module, other: nn.Module) -> None:
    expected, found = dict(one.named_parameters()), dict(other.named_parameters())
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def refused(path, model: nn.Module, *words: str) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(InputError) as caught:
        load_checkpoint(path, model)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 700
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def compiled(model: nn.Module) -> nn.Module:
    return torch.compile(model, backend="eager")  # type: ignore[return-value]


def grad_sample(model: nn.Module) -> nn.Module:
    pytest.importorskip("opacus", reason="the extra opacus is not installed")
    from opacus import GradSampleModule

    return GradSampleModule(model)


def distributed(model: nn.Module) -> nn.Module:
    """DistributedDataParallel of a group of one process, on the CPU."""
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(model)


@pytest.fixture(scope="module", autouse=True)
def process_group(tmp_path_factory):
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # a container may not resolve its own name
    place = tmp_path_factory.mktemp("group") / "store"
    torch.distributed.init_process_group("gloo", init_method=f"file://{place}", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


WRAPPERS = {
    "plain": lambda m: m,
    "DataParallel": nn.DataParallel,
    "DistributedDataParallel": distributed,
    "compile": compiled,
    "GradSampleModule": grad_sample,
    "AveragedModel": torch.optim.swa_utils.AveragedModel,
    "compile(GradSampleModule)": lambda m: compiled(grad_sample(m)),
    "GradSampleModule(compile)": lambda m: grad_sample(compiled(m)),
    "DataParallel(compile)": lambda m: nn.DataParallel(compiled(m)),
    "DataParallel(GradSampleModule)": lambda m: nn.DataParallel(grad_sample(m)),
    "compile(AveragedModel(DataParallel))": lambda m: compiled(torch.optim.swa_utils.AveragedModel(nn.DataParallel(m))),
}


def torch_file(path: Path, state: dict) -> Path:
    torch.save(state, path.with_suffix(".pt"))
    return path.with_suffix(".pt")


def under(name: str, **more):
    def save(path: Path, state: dict) -> Path:
        torch.save({name: state, "epoch": 3, "optimizer": {"state": {}, "lr": 0.1}, **more}, path.with_suffix(".pth"))
        return path.with_suffix(".pth")

    return save


def legacy(path: Path, state: dict) -> Path:
    torch.save(state, path.with_suffix(".pth"), _use_new_zipfile_serialization=False)
    return path.with_suffix(".pth")


def safetensors(path: Path, state: dict) -> Path:
    save_file({name: tensor.clone() for name, tensor in state.items()}, path.with_suffix(".safetensors"))
    return path.with_suffix(".safetensors")


FORMATS = {
    "torch": torch_file,
    "legacy torch": legacy,
    "safetensors": safetensors,
    **{name: under(name) for name in ("state_dict", "model", "model_state_dict", "net", "module_state_dict")},
    "lightning": under("state_dict", **{"pytorch-lightning_version": "2.4.0", "global_step": 10}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_every_format_in_every_wrapper_loads_to_equal_weights(tmp_path, wrapper):
    for kind in (Net, OnlyModule):
        original = trained(kind)
        state = WRAPPERS[wrapper](trained(kind)).state_dict()
        for name, save in FORMATS.items():
            path = save(tmp_path / f"{kind.__name__}-{name}".replace(" ", "-"), state)
            assert_equal_weights(original, load_checkpoint(path, kind()))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrapper", ["compile", "DataParallel", "GradSampleModule"])
def test_a_wrapped_model_takes_a_plain_checkpoint(tmp_path, wrapper):
    path = torch_file(tmp_path / "plain", trained().state_dict())
    inner = Net()
    load_checkpoint(path, WRAPPERS[wrapper](inner))
    assert_equal_weights(trained(), inner)


def test_a_lightning_attribute_of_any_name_is_stripped_but_only_for_lightning(tmp_path):
    state = {f"classifier.{name}": value for name, value in trained().state_dict().items()}
    assert_equal_weights(trained(), load_checkpoint(FORMATS["lightning"](tmp_path / "l", state), Net()))
    refused(torch_file(tmp_path / "plain", state), Net(), "'classifier'", "save that part alone")


def test_an_opacus_checkpoint_with_its_accountant(tmp_path):
    state = {f"_module.{name}": value for name, value in trained().state_dict().items()}
    accountant = {"history": [(1.1, 0.01, 100)], "mechanism": "rdp"}
    torch.save({"module_state_dict": state, "privacy_accountant_state_dict": accountant}, tmp_path / "o.pt")
    assert_equal_weights(trained(), load_checkpoint(tmp_path / "o.pt", Net()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_converted(tmp_path, dtype):
    state = trained().to(dtype).state_dict()
    model = load_checkpoint(torch_file(tmp_path / "m", state), Net())
    assert model.head.weight.dtype == torch.float32
    assert torch.equal(model.head.weight, state["head.weight"].float())


class TestTiedWeights:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.head = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 3)
            self.second.weight = self.first.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.second(self.first(x)))

    def test_safetensors_stores_a_tied_weight_once(self, tmp_path):
        save_model(trained(self.Tied), str(tmp_path / "m.safetensors"))
        model = load_checkpoint(tmp_path / "m.safetensors", self.Tied())
        assert_equal_weights(trained(self.Tied), model)
        assert model.first.weight is model.second.weight


class TestNames:
    def test_only_leading_parts_that_every_name_carries_are_stripped(self):
        assert match_names(["module.a.module.w"], ["a.module.w"]) == {"a.module.w": "module.a.module.w"}
        assert match_names(["_module.my_module.w", "_module.w"], ["my_module.w", "w"])["w"] == "_module.w"
        for stored in (["module.a", "b"], ["mymodule.a", "mymodule.b"], ["modulea", "moduleb"]):
            with pytest.raises(InputError):
                match_names(stored, ["a", "b"])

    @given(st.permutations(["module.", "_module.", "_orig_mod.", "module."]), st.integers(0, 4))
    def test_any_nesting(self, order, depth):
        prefix = "".join(order[:depth])
        names = ["module.weight", "my_module.bias", "_module", "n_averaged.w"]
        assert match_names([prefix + name for name in names], names) == {name: prefix + name for name in names}

    def test_missing_and_unexpected_names_are_listed(self):
        with pytest.raises(InputError, match=r"missing 1: c; unexpected 2: d, e"):
            match_names(["a", "b", "d", "e"], ["a", "b", "c"])

    def test_a_counter_of_batch_norm_may_be_absent(self):
        names = ["bn.weight", "bn.running_mean", "bn.num_batches_tracked"]
        assert len(match_names(names[:2], names)) == 2


class TestMisfits:
    def test_another_number_of_classes(self, tmp_path):
        path = torch_file(tmp_path / "m", trained().state_dict())
        refused(path, Net(classes=10), "head.weight (3, 4) for (10, 4)", "gives 3 classes", "built for 10")

    def test_another_width(self, tmp_path):
        path = torch_file(tmp_path / "m", Net(width=8).state_dict())
        refused(path, Net(), "shapes do not fit", "Another width")

    def test_batch_norm_that_opacus_replaced(self, tmp_path):
        def build(norm: nn.Module) -> nn.Module:
            return nn.Sequential(nn.Conv2d(1, 4, 3), norm, nn.Flatten(), nn.LazyLinear(2))

        group, batch = build(nn.GroupNorm(2, 4)), build(nn.BatchNorm2d(4))
        for model in (group, batch):
            model(torch.zeros(2, 1, 8, 8))
        refused(torch_file(tmp_path / "g", group.state_dict()), batch, "1.running_mean", "ModuleValidator.fix")
        refused(torch_file(tmp_path / "b", batch.state_dict()), group, "unexpected 3", "BatchNorm where the model has")

    def test_another_architecture(self, tmp_path):
        path = torch_file(tmp_path / "m", nn.Sequential(nn.Linear(5, 3)).state_dict())
        refused(path, Net(), "No name agrees")

    def test_a_part_and_a_whole(self, tmp_path):
        state = trained().state_dict()
        body = {name: value for name, value in state.items() if not name.startswith("head")}
        refused(torch_file(tmp_path / "body", body), Net(), "missing 2: head.weight, head.bias", "only a part")
        refused(torch_file(tmp_path / "more", {**state, "extra.w": torch.ones(1)}), Net(), "unexpected 1: extra.w")

    def test_whole_numbers_are_no_weights(self, tmp_path):
        state = trained().state_dict()
        state["head.weight"] = state["head.weight"].to(torch.int8)
        refused(torch_file(tmp_path / "m", state), Net(), "head.weight has dtype torch.int8", "floating point")

    def test_weights_that_are_not_finite(self, tmp_path):
        state = trained().state_dict()
        state["head.bias"][1] = float("nan")
        refused(torch_file(tmp_path / "m", state), Net(), "head.bias holds NaN", "diverged")

    def test_several_sets_of_weights(self, tmp_path):
        torch.save({"model": trained().state_dict(), "net": trained().state_dict()}, tmp_path / "m.pt")
        refused(tmp_path / "m.pt", Net(), "several sets of weights (model, net)")

    def test_no_weights_under_a_usual_name(self, tmp_path):
        torch.save({"weights_of_mine": trained().state_dict(), "epoch": 3}, tmp_path / "m.pt")
        refused(tmp_path / "m.pt", Net(), "its entries are weights_of_mine, epoch")
        torch.save(torch.ones(3), tmp_path / "t.pt")
        refused(tmp_path / "t.pt", Net(), "holds a Tensor")
        torch.save({}, tmp_path / "e.pt")
        refused(tmp_path / "e.pt", Net(), "its entries are nothing")


class _Evil:
    """A pickle that would create a file."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self):
        return (Path.touch, (self.proof,))


class TestNothingIsExecuted:
    @pytest.mark.parametrize("protocol", [0, 2, 4, 5])
    def test_a_hostile_bare_pickle(self, tmp_path, protocol):
        path, proof = tmp_path / "evil.pkl", tmp_path / "executed"
        path.write_bytes(pickle.dumps({"state_dict": _Evil(proof)}, protocol))
        refused(path, Net(), "pathlib", "not opened", "torch.save(model.state_dict(), path)")
        assert not proof.exists()
        pickle.loads(path.read_bytes())
        assert proof.exists(), "the pickle is no threat: the test shows nothing"

    @pytest.mark.parametrize("new", [True, False])
    def test_a_hostile_torch_file(self, tmp_path, new):
        path, proof = tmp_path / "evil.pt", tmp_path / "executed"
        content = {"state_dict": trained().state_dict(), "callback": _Evil(proof)}
        torch.save(content, path, _use_new_zipfile_serialization=new)
        refused(path, Net(), "pathlib", "not opened")
        assert not proof.exists()

    def test_a_whole_module_is_named(self, tmp_path):
        torch.save(trained(), tmp_path / "whole.pt")
        refused(tmp_path / "whole.pt", Net(), "Net", "a whole pickled module")

    def test_python_objects_beside_the_weights_are_named(self, tmp_path):
        state = trained().state_dict()
        for thing, name in ((argparse.Namespace(lr=1), "argparse.Namespace"), (np.float64(0.9), "numpy")):
            torch.save({"state_dict": state, "more": thing}, tmp_path / "m.pt")
            refused(tmp_path / "m.pt", Net(), name, "besides tensors")

    def test_programs_are_not_opened_as_weights(self, tmp_path):
        torch.jit.save(torch.jit.script(trained()), tmp_path / "script.pt")
        refused(tmp_path / "script.pt", Net(), "torchscript", "a program")


class TestDamage:
    @pytest.mark.parametrize("name", ["torch", "legacy torch", "safetensors"])
    @pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
    def test_truncated_files(self, tmp_path, name, share):
        path = FORMATS[name](tmp_path / "m", trained().state_dict())
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * share)])
        refused(path, Net(), path.name)

    def test_empty_missing_and_foreign_files(self, tmp_path):
        (tmp_path / "empty.pt").write_bytes(b"")
        refused(tmp_path / "empty.pt", Net(), "is empty")
        refused(tmp_path / "absent.pt", Net(), "does not exist")
        refused(tmp_path, Net(), "is a directory")
        np.savez(tmp_path / "m.npz", a=np.zeros(3))
        refused(tmp_path / "m.npz", Net(), "numpy archive")
        (tmp_path / "m.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50))
        refused(tmp_path / "m.h5", Net(), "HDF5")
        (tmp_path / "m.pt").write_text("version https://git-lfs.github.com/spec/v1\n")
        refused(tmp_path / "m.pt", Net(), "no PyTorch checkpoint")

    @settings(max_examples=80, deadline=None)
    @given(content=st.binary(max_size=300), start=st.sampled_from([b"", b"PK\x03\x04", b"\x80\x02", b"\x80\x04"]))
    def test_any_bytes_are_refused_in_one_line(self, tmp_path_factory, content, start):
        path = tmp_path_factory.mktemp("fuzz") / "m.pt"
        path.write_bytes(start + content)
        with pytest.raises(InputError):
            load_checkpoint(path, Net())

    @settings(max_examples=80, deadline=None)
    @given(position=st.integers(0, 10**6), value=st.integers(0, 255), name=st.sampled_from(["torch", "safetensors"]))
    def test_a_flipped_byte_is_weights_or_an_input_error(self, tmp_path_factory, position, value, name):
        path = FORMATS[name](tmp_path_factory.mktemp("fuzz") / "m", trained().state_dict())
        content = bytearray(path.read_bytes())
        content[position % len(content)] = value
        path.write_bytes(bytes(content))
        with contextlib.suppress(InputError):
            load_checkpoint(path, Net())


class TestPrograms:
    def scripted(self, path: Path) -> Path:
        torch.jit.save(torch.jit.script(trained()), path)
        return path

    def exported(self, path: Path, dynamic: bool) -> Path:
        shapes = ({0: torch.export.Dim("batch")},) if dynamic else None
        torch.export.save(torch.export.export(trained().eval(), (torch.rand(2, 5),), dynamic_shapes=shapes), path)
        return path

    @pytest.mark.filterwarnings("ignore")
    def test_they_are_opened_only_on_trust(self, tmp_path):
        x = torch.rand(7, 5)
        for path in (self.scripted(tmp_path / "m.pt"), self.exported(tmp_path / "m.pt2", dynamic=True)):
            with pytest.raises(InputError, match="--trust-code"):
                open_model(path, None, (5,), ("a", "b", "c"))
            opened = open_model(path, None, (5,), ("a", "b", "c"), trust_code=True)
            torch.testing.assert_close(opened(x), trained()(x))

    @pytest.mark.filterwarnings("ignore")
    def test_a_fixed_batch_size_is_explained(self, tmp_path):
        path = self.exported(tmp_path / "m.pt2", dynamic=False)
        with pytest.raises(InputError, match="dynamic batch size"):
            open_model(path, None, (5,), ("a", "b", "c"), trust_code=True)

    @pytest.mark.filterwarnings("ignore")
    def test_outputs_must_fit_the_classes(self, tmp_path):
        with pytest.raises(InputError, match=r"returns shape \(2, 3\)"):
            open_model(self.scripted(tmp_path / "m.pt"), None, (5,), ("a", "b"), trust_code=True)


class TestOpenModel:
    def test_weights_need_an_architecture(self, tmp_path):
        path = torch_file(tmp_path / "m", trained().state_dict())
        with pytest.raises(InputError, match="--model"):
            open_model(path, None, (5,), ("a", "b", "c"))

    def test_directories(self, tmp_path):
        with pytest.raises(InputError, match="neither"):
            open_model(tmp_path, "mlp", (5,), ("a", "b", "c"))
        from coalmine.audit.training.models import build_model

        save_file(build_model("mlp", (5,), 3, 9).state_dict(), tmp_path / "checkpoint.safetensors")
        opened = open_model(tmp_path, "mlp", (5,), ("a", "b", "c"))
        assert not opened.training
        assert_equal_weights(build_model("mlp", (5,), 3, 9), opened)

    def test_a_hugging_face_directory_without_the_extra(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "transformers", None)
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(InputError, match=r"coalmine\[hf\]"):
            open_model(tmp_path, None, (3, 8, 8), ("a", "b"))

    def test_a_hugging_face_image_classifier(self, tmp_path):
        transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")
        config = transformers.ViTConfig(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8,
            patch_size=4, id2label={0: "cat", 1: "dog"}, label2id={"cat": 0, "dog": 1},
        )  # fmt: skip
        network = transformers.ViTForImageClassification(config).eval()
        network.save_pretrained(tmp_path)
        (tmp_path / "preprocessor_config.json").write_text(
            '{"do_normalize": true, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25]}'
        )
        x = torch.rand(3, 3, 8, 8)
        with torch.no_grad():
            expected = network(pixel_values=(x - 0.5) / 0.25).logits
            torch.testing.assert_close(open_model(tmp_path, None, (3, 8, 8), ("cat", "dog"))(x), expected)
            swapped = open_model(tmp_path, None, (3, 8, 8), ("dog", "cat"))(x)
            torch.testing.assert_close(swapped, expected[:, [1, 0]])
        with pytest.raises(InputError, match="gives 2 classes, the data has 3"):
            open_model(tmp_path, None, (3, 8, 8), ("a", "b", "c"))


def test_what_a_file_is_is_read_from_its_bytes(tmp_path):
    state = OrderedDict(trained().state_dict())
    torch.save(state, tmp_path / "lies.safetensors")
    save_file(dict(state), tmp_path / "lies.pt")
    assert file_kind(tmp_path / "lies.safetensors") == "torch"
    assert file_kind(tmp_path / "lies.pt") == "safetensors"
    for name in ("lies.safetensors", "lies.pt"):
        assert_equal_weights(trained(), load_checkpoint(tmp_path / name, Net()))
