"""Data sources: what each gives, and that a mistake in one is told in one line before anything is trained."""

from __future__ import annotations

import contextlib
import hashlib
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sklearn.datasets import load_digits

from coalmine.audit.training.data import Data, load_data
from coalmine.foundation import InputError


@pytest.fixture
def write_npz(tmp_path):
    def write(**arrays) -> str:
        path = tmp_path / "data.npz"
        np.savez(path, **arrays)
        return str(path)

    return write


def refused(source: str, *words: str) -> None:
    with pytest.raises(InputError) as caught:
        load_data(source)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"


class TestDigits:
    def test_it_holds_scikit_learns_images_each_once(self):
        data = load_data("digits")
        images = load_digits().images
        together = np.concatenate([data.x, data.x_test])
        assert data.x.dtype == np.float32 and data.y.dtype == np.int64
        assert together.shape == (1797, 1, 8, 8)
        rows = lambda x: sorted(row.tobytes() for row in np.ascontiguousarray(x, np.float32).reshape(1797, 64))  # noqa: E731
        assert rows(together) == rows(images / 16)
        assert data.value_range == (0.0, 1.0) and data.classes == tuple("0123456789")

    def test_the_test_part_is_one_row_in_five_of_each_class(self):
        data = load_data("digits")
        of_class = np.bincount(load_digits().target)
        assert (np.bincount(data.y_test) == of_class // 5).all()
        assert (np.bincount(data.y) == of_class - of_class // 5).all()

    def test_rows_keep_their_labels(self):
        data = load_data("digits")
        bunch = load_digits()
        label = {
            (image / 16).astype(np.float32).tobytes(): y for image, y in zip(bunch.images, bunch.target, strict=True)
        }
        for x, y in ((data.x, data.y), (data.x_test, data.y_test)):
            assert all(label[row.tobytes()] == wanted for row, wanted in zip(x[:, 0], y, strict=True))

    def test_the_split_is_the_same_on_every_machine(self):
        digest = hashlib.sha256(load_data("digits").x.tobytes()).hexdigest()
        assert digest == DIGITS_TRAINING_ROWS
        assert load_data("digits").fingerprint == load_data("digits").fingerprint


DIGITS_TRAINING_ROWS = "f510cbbd7bd5d595abfff85706d2588ef8355d631024156f8774afdb37aee703"


class TestArrays:
    def test_uint8_images_become_channels_first_in_zero_to_one(self, write_npz):
        pixels = np.random.default_rng(0).integers(0, 256, (20, 6, 5, 3), dtype=np.uint8)
        data = load_data(write_npz(x=pixels, y=np.arange(20) % 2, x_test=pixels[:4], y_test=np.arange(4) % 2))
        assert data.x.shape == (20, 3, 6, 5) and data.value_range == (0.0, 1.0)
        np.testing.assert_array_equal(data.x, pixels.transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255))

    def test_channels_first_stay_first(self, write_npz):
        pixels = np.random.default_rng(0).integers(0, 256, (10, 3, 4, 4), dtype=np.uint8)
        data = load_data(write_npz(x=pixels, y=np.arange(10) % 2, x_test=pixels, y_test=np.arange(10) % 2))
        np.testing.assert_array_equal(data.x, pixels / np.float32(255))

    def test_grey_images_get_a_channel(self, write_npz):
        data = load_data(write_npz(x=np.zeros((10, 8, 8), np.uint8), y=np.arange(10) % 2))
        assert data.input_shape == (1, 8, 8)

    def test_floats_stay_as_they_are(self, write_npz):
        x = np.random.default_rng(0).normal(size=(10, 7)).astype(np.float32)
        data = load_data(write_npz(x=x, y=np.arange(10) % 2, x_test=x, y_test=np.arange(10) % 2))
        np.testing.assert_array_equal(data.x, x)
        assert data.value_range is None

    def test_token_ids_survive_as_float32(self, write_npz):
        tokens = np.random.default_rng(0).integers(0, 50_000, (10, 12))
        data = load_data(write_npz(x=tokens, y=np.arange(10) % 2, x_test=tokens, y_test=np.arange(10) % 2))
        np.testing.assert_array_equal(data.x.astype(np.int64), tokens)

    @pytest.mark.parametrize(
        ("labels", "classes", "encoded"),
        [
            (np.array([1, 5, 9, 5, 1, 9]), ("1", "5", "9"), [0, 1, 2, 1, 0, 2]),
            (np.array(["cat", "dog", "ant", "dog", "cat", "ant"]), ("ant", "cat", "dog"), [1, 2, 0, 2, 1, 0]),
            (np.array([True, False, True, True, False, False]), ("False", "True"), [1, 0, 1, 1, 0, 0]),
            (np.array([-1.0, 1.0, -1.0, 1.0, 1.0, 1.0]), ("-1", "1"), [0, 1, 0, 1, 1, 1]),
            (np.array([[10], [2], [10], [2], [2], [2]]), ("2", "10"), [1, 0, 1, 0, 0, 0]),
        ],
        ids=["gaps", "strings", "booleans", "signs as floats", "a column, sorted as numbers"],
    )
    def test_labels_of_any_kind_are_encoded(self, write_npz, labels, classes, encoded):
        x = np.arange(12.0).reshape(6, 2)
        data = load_data(write_npz(x=x, y=labels, x_test=x, y_test=labels))
        assert data.classes == classes
        assert data.y.tolist() == encoded and data.y_test.tolist() == encoded

    def test_a_class_may_be_absent_from_the_training_part(self, write_npz):
        x = np.zeros((2, 3))
        data = load_data(write_npz(x=x, y=np.array([0, 1]), x_test=x, y_test=np.array([1, 2])))
        assert data.classes == ("0", "1", "2")

    def test_stated_classes_make_labels_their_indices(self, write_npz):
        x = np.zeros((10, 3))
        data = load_data(write_npz(x=x, y=np.array([0, 2] * 5), classes=np.array(["a", "b", "c"])))
        assert data.classes == ("a", "b", "c") and set(data.y) == {0, 2}

    def test_the_names_of_keras_and_medmnist_are_known(self, write_npz):
        x, y = np.zeros((4, 8, 8), np.uint8), np.arange(4) % 2
        keras = load_data(write_npz(x_train=x, y_train=y, x_test=x, y_test=y))
        medmnist = load_data(write_npz(train_images=x, train_labels=y[:, None], test_images=x, test_labels=y[:, None]))
        assert keras.fingerprint == medmnist.fingerprint

    def test_npy_pairs(self, tmp_path):
        x, y = np.random.default_rng(0).normal(size=(10, 3)), np.arange(10) % 2
        np.save(tmp_path / "x.npy", x)
        np.save(tmp_path / "y.npy", y)
        data = load_data(f"{tmp_path}/x.npy,{tmp_path}/y.npy")
        assert len(data.x) == 8 and len(data.x_test) == 2
        refused(f"{tmp_path}/x.npy", "X.npy,Y.npy")

    def test_the_fingerprint_tells_any_change(self, write_npz):
        x, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
        original = load_data(write_npz(x=x, y=y)).fingerprint
        assert load_data(write_npz(x=x, y=y)).fingerprint == original
        changed = x.copy()
        changed[3, 1] += 1
        assert load_data(write_npz(x=changed, y=y)).fingerprint != original
        assert load_data(write_npz(x=x, y=1 - y)).fingerprint != original
        assert load_data(write_npz(x=x[::-1], y=y[::-1])).fingerprint != original


class TestMistakesInArrays:
    def test_an_object_array_is_refused_unopened(self, tmp_path):
        path, proof = tmp_path / "evil.npz", tmp_path / "executed"

        class Evil:
            def __reduce__(self):
                return (Path.touch, (proof,))

        np.savez(path, x=np.array([[Evil()]], dtype=object), y=np.zeros(1))
        refused(str(path), "pickle", "never opened")
        assert not proof.exists()

    def test_object_labels_are_refused(self, write_npz):
        refused(write_npz(x=np.zeros((2, 2)), y=np.array(["a", None], dtype=object)), "pickle")

    @pytest.mark.parametrize(
        ("arrays", "words"),
        [
            ({"x": np.array([[0.0], [np.nan]]), "y": [0, 1]}, ("row 1", "NaN")),
            ({"x": np.array([[np.inf], [0.0]]), "y": [0, 1]}, ("row 0", "infinity")),
            ({"x": np.zeros((3, 2)), "y": [0, 1]}, ("labels have shape (2,)", "3 rows")),
            ({"x": np.zeros(3), "y": [0, 1, 0]}, ("shape (3,)",)),
            ({"x": np.zeros((0, 2)), "y": np.zeros(0)}, ("no training rows",)),
            ({"x": np.zeros((2, 2)), "y": [0.5, 1]}, ("fractions",)),
            ({"x": np.zeros((2, 2)), "y": [1, 1]}, ("one class only",)),
            ({"x": np.zeros((2, 2)), "y": [0, 2], "classes": ["a", "b"]}, ("label 2", "0 … 1")),
            ({"x": np.zeros((2, 2)), "y": [0, -1], "classes": ["a", "b"]}, ("label -1",)),
            ({"x": np.zeros((2, 2)), "y": [0, 1], "x_test": np.zeros((2, 3)), "y_test": [0, 1]}, ("test rows have",)),
            ({"x": np.zeros((2, 2)), "y": [0, 1], "x_test": np.zeros((2, 2))}, ("both or neither",)),
            ({"y": [0, 1]}, ("no array x",)),
            ({"x": np.array([["a"], ["b"]]), "y": [0, 1]}, ("not numbers",)),
            ({"x": np.array([[2**24 + 1], [0]]), "y": [0, 1]}, ("2^24",)),
            ({"x": np.array([[3.0], [0.0]]), "y": [0, 1], "value_range": [0, 1]}, ("outside", "value_range")),
            ({"x": np.array([[3.0], [0.0]]), "y": [0, 1], "value_range": [1, 0]}, ("low < high",)),
        ],
    )
    def test_one_clear_line(self, write_npz, arrays, words):
        refused(write_npz(**arrays), *words)

    def test_missing_and_truncated_files(self, tmp_path, write_npz):
        refused(str(tmp_path / "absent.npz"), "does not exist")
        path = write_npz(x=np.zeros((50, 40)), y=np.arange(50) % 2)
        whole = Path(path).read_bytes()
        Path(path).write_bytes(whole[: len(whole) // 2])
        refused(path, "cannot be read")

    @settings(max_examples=60, deadline=None)
    @given(content=st.binary(max_size=200), suffix=st.sampled_from(["npz", "csv", "parquet"]))
    def test_any_bytes_are_data_or_an_input_error(self, tmp_path_factory, content, suffix):
        path = tmp_path_factory.mktemp("fuzz") / f"data.{suffix}"
        path.write_bytes(content)
        with contextlib.suppress(InputError):
            assert isinstance(load_data(str(path)), Data)

    @settings(max_examples=60, deadline=None)
    @given(position=st.integers(0, 2000), value=st.integers(0, 255))
    def test_a_damaged_archive_is_data_or_an_input_error(self, tmp_path_factory, position, value):
        path = tmp_path_factory.mktemp("fuzz") / "data.npz"
        np.savez(path, x=np.random.default_rng(0).normal(size=(20, 3)), y=np.arange(20) % 2)
        content = bytearray(path.read_bytes())
        content[position % len(content)] = value
        path.write_bytes(bytes(content))
        with contextlib.suppress(InputError):
            load_data(str(path))


class TestTables:
    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_a_table_with_string_labels(self, tmp_path, suffix):
        frame = pd.DataFrame({"a": np.arange(10.0), "b": np.arange(10) % 3, "label": ["no", "yes"] * 5})
        path = tmp_path / f"table.{suffix}"
        frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
        data = load_data(str(path))
        assert data.classes == ("no", "yes") and data.input_shape == (2,)
        assert len(data.x) == 8 and len(data.x_test) == 2

    def test_csv_and_parquet_agree(self, tmp_path):
        frame = pd.DataFrame({"a": np.arange(10) / 7, "y": pd.Categorical(["u", "v"] * 5)})
        frame.to_csv(tmp_path / "t.csv", index=False)
        frame.to_parquet(tmp_path / "t.parquet")
        assert load_data(f"{tmp_path}/t.csv").fingerprint == load_data(f"{tmp_path}/t.parquet").fingerprint

    def test_a_split_column_is_obeyed(self, tmp_path):
        frame = pd.DataFrame({"a": np.arange(6.0), "label": [0, 1] * 3, "split": ["train"] * 4 + ["test"] * 2})
        frame.to_csv(tmp_path / "t.csv", index=False)
        data = load_data(f"{tmp_path}/t.csv")
        assert data.x[:, 0].tolist() == [0, 1, 2, 3] and data.x_test[:, 0].tolist() == [4, 5]

    @pytest.mark.parametrize(
        ("frame", "words"),
        [
            ({"a": [1.0, 2.0], "target": [0, 1]}, ("no column 'label'", "target")),
            ({"a": ["x", "z"], "label": [0, 1]}, ("'a' is not numeric", "one-hot")),
            ({"a": [1.0, None], "label": [0, 1]}, ("row 1", "NaN")),
            ({"a": [1.0, 2.0], "label": ["p", None]}, ("lacks a value in row 1",)),
            ({"a": [1.0, 2.0], "label": [0, 1], "split": ["train", "dev"]}, ("train and test", "dev")),
            ({"label": [0, 1]}, ("shape",)),
        ],
    )
    def test_one_clear_line(self, tmp_path, frame, words):
        pd.DataFrame(frame).to_csv(tmp_path / "t.csv", index=False)
        refused(f"{tmp_path}/t.csv", *words)


def write_images(folder: Path, classes=("cat", "dog"), count=5, size=(6, 6), mode="RGB", suffix=".png", seed=0) -> None:
    generator = np.random.default_rng(seed)
    for name in classes:
        (folder / name).mkdir(parents=True)
        for index in range(count):
            shape = size if mode == "L" else (*size, 3)
            Image.fromarray(generator.integers(0, 256, shape, dtype=np.uint8)).save(folder / name / f"{index}{suffix}")


class TestImageFolder:
    def test_a_train_and_a_test_tree(self, tmp_path):
        write_images(tmp_path / "train")
        write_images(tmp_path / "test", count=2, seed=1)
        data = load_data(f"imagefolder:{tmp_path}")
        assert data.x.shape == (10, 3, 6, 6) and data.x_test.shape == (4, 3, 6, 6)
        assert data.classes == ("cat", "dog") and data.y.tolist() == [0] * 5 + [1] * 5
        first = np.asarray(Image.open(tmp_path / "train" / "cat" / "0.png")).transpose(2, 0, 1) / np.float32(255)
        np.testing.assert_array_equal(data.x[0], first)

    def test_a_single_tree_of_grey_images(self, tmp_path):
        write_images(tmp_path, mode="L", suffix=".jpg")
        data = load_data(f"imagefolder:{tmp_path}")
        assert data.x.shape == (8, 1, 6, 6) and data.x_test.shape == (2, 1, 6, 6)

    def test_unequal_sizes_need_a_size(self, tmp_path):
        write_images(tmp_path, classes=("a",), size=(8, 10))
        write_images(tmp_path, classes=("b",), size=(9, 7))
        refused(f"imagefolder:{tmp_path}", "DIR@32")
        assert load_data(f"imagefolder:{tmp_path}@4").input_shape == (3, 4, 4)

    @pytest.mark.parametrize(
        ("break_it", "words"),
        [
            (lambda d: (d / "cat" / "0.png").write_bytes(b"no image"), ("0.png", "cannot be read")),
            (lambda d: (d / "cat" / "0.png").write_bytes((d / "cat" / "0.png").read_bytes()[:60]), ("cannot be read",)),
            (lambda d: (d / "empty").mkdir(), ("empty", "no image")),
        ],
        ids=["not an image", "truncated", "a class without images"],
    )
    def test_one_clear_line(self, tmp_path, break_it, words):
        write_images(tmp_path)
        break_it(tmp_path)
        refused(f"imagefolder:{tmp_path}", *words)

    def test_an_unknown_test_class_and_missing_folders(self, tmp_path):
        refused(f"imagefolder:{tmp_path}/absent", "does not exist")
        refused(f"imagefolder:{tmp_path}", "two classes")
        write_images(tmp_path / "train")
        write_images(tmp_path / "test", classes=("cat", "fox"))
        refused(f"imagefolder:{tmp_path}", "fox")


def write_idx(path: Path, array: np.ndarray) -> None:
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header + array.astype(np.uint8).tobytes())


class TestTorchvision:
    @pytest.mark.parametrize("which", ["MNIST", "FashionMNIST"])
    def test_idx_files_from_a_local_root(self, tmp_path, which):
        generator = np.random.default_rng(0)
        raw = tmp_path / which / "raw"
        pixels = generator.integers(0, 256, (30, 28, 28))
        for part, rows in (("train", pixels[:20]), ("t10k", pixels[20:])):
            write_idx(raw / f"{part}-images-idx3-ubyte", rows)
            write_idx(raw / f"{part}-labels-idx1-ubyte", np.arange(len(rows)) % 10)
        data = load_data(f"{which.lower()}:{tmp_path}")
        assert data.x.shape == (20, 1, 28, 28) and data.x_test.shape == (10, 1, 28, 28)
        np.testing.assert_array_equal(data.x[:, 0], pixels[:20].astype(np.float32) / np.float32(255))
        assert len(data.classes) == 10
        (raw / "t10k-images-idx3-ubyte").write_bytes(b"\0\0")
        refused(f"{which.lower()}:{tmp_path}", "not complete")

    def test_cifar10_batches_from_a_local_root(self, tmp_path, monkeypatch):
        """torchvision checks published checksums before it opens a batch; the test publishes those of its own files."""
        import pickle

        from torchvision.datasets import CIFAR10

        folder = tmp_path / CIFAR10.base_folder
        folder.mkdir()
        generator = np.random.default_rng(0)
        pixels = generator.integers(0, 256, (6, 10, 3072), dtype=np.uint8)

        def publish(name: str, content: dict) -> list[str]:
            (folder / name).write_bytes(pickle.dumps(content))
            return [name, hashlib.md5((folder / name).read_bytes()).hexdigest()]

        batches = [
            publish(name, {"data": rows, "labels": list(range(10))})
            for (name, _), rows in zip([*CIFAR10.train_list, *CIFAR10.test_list], pixels, strict=True)
        ]
        names = [f"class {index}" for index in range(10)]
        meta = publish("batches.meta", {"label_names": names})
        monkeypatch.setattr(CIFAR10, "train_list", batches[:5])
        monkeypatch.setattr(CIFAR10, "test_list", batches[5:])
        monkeypatch.setattr(CIFAR10, "meta", {"filename": meta[0], "key": "label_names", "md5": meta[1]})
        data = load_data(f"cifar10:{tmp_path}")
        assert data.x.shape == (50, 3, 32, 32) and data.x_test.shape == (10, 3, 32, 32)
        np.testing.assert_array_equal(data.x[10], pixels[1, 0].reshape(3, 32, 32) / np.float32(255))
        (folder / "test_batch").write_bytes(b"another pickle")
        refused(f"cifar10:{tmp_path}", "not complete")

    def test_nothing_is_downloaded(self, tmp_path):
        for which in ("cifar10", "mnist", "fashionmnist"):
            refused(f"{which}:{tmp_path}", "not complete", "download=True")
        assert not any(tmp_path.rglob("*.gz"))


def test_unknown_sources_are_told_what_is_known():
    refused("imagenet", "digits", "cifar10:PATH", ".parquet")
    refused("mnist:", "names no directory")
    refused("model.pt", "not a known source")


def test_hugging_face_without_the_extra_says_how_to_install_it(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "datasets", None)
    refused("hf:somewhere", "coalmine[hf]")


class TestHuggingFace:
    def test_images_with_class_names(self, tmp_path):
        datasets = pytest.importorskip("datasets", reason="the extra hf is not installed")
        pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
        features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
        rows = {"img": [Image.fromarray(one) for one in pixels], "label": [0, 1] * 3}
        whole = datasets.Dataset.from_dict(rows, features=features)
        datasets.DatasetDict({"train": whole, "test": whole.select([0, 1])}).save_to_disk(tmp_path / "d")
        data = load_data(f"hf:{tmp_path}/d")
        assert data.classes == ("cat", "dog") and data.value_range == (0.0, 1.0)
        np.testing.assert_array_equal(data.x, pixels.transpose(0, 3, 1, 2) / np.float32(255))
        assert len(data.x_test) == 2

    def test_a_single_split_of_number_lists(self, tmp_path):
        datasets = pytest.importorskip("datasets", reason="the extra hf is not installed")
        rows = {"features": [[float(i), 1.0] for i in range(10)], "label": ["a", "b"] * 5}
        datasets.Dataset.from_dict(rows).save_to_disk(tmp_path / "d")
        data = load_data(f"hf:{tmp_path}/d")
        assert data.classes == ("a", "b") and data.input_shape == (2,) and len(data.x_test) == 2
        refused(f"hf:{tmp_path}", "save_to_disk")


def test_an_empty_test_part_holds_nothing_out(write_npz):
    """Someone whose model was trained on rows of all the data numbers them as he does."""
    x, y = np.random.default_rng(0).random((50, 3)), np.arange(50) % 2
    for nothing in (np.empty((0, 3)), np.array([], dtype=np.uint8)):
        data = load_data(write_npz(x=x, y=y, x_test=nothing, y_test=np.array([])))
        assert len(data.y) == 50 and data.x_test.shape == (0, 3) and data.y_test.shape == (0,)
    refused(write_npz(x=x, y=y, x_test=np.empty((0, 3)), y_test=y), "test", "no test rows")


def test_a_label_column_of_another_name_is_among_the_columns_that_are_listed(tmp_path):
    names = [f"feature_{i}" for i in range(30)] + ["diagnosis"]
    path = tmp_path / "table.csv"
    pd.DataFrame(np.zeros((4, 31)), columns=names).to_csv(path, index=False)
    refused(str(path), "diagnosis", "feature_0", "31 in all", "rename")
