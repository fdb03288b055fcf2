"""The folders, the lists in pyproject.toml and the built wheel agree; importing is light; the arrows hold."""

import ast
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PROJECT["tool"]["setuptools"]
OUTSIDE = {"tests", "docs", "examples", "runs", "build", "dist"}


def package_folders() -> set[str]:
    found = [p.parent.relative_to(ROOT) for p in ROOT.rglob("__init__.py")]
    return {
        ".".join(("coalmine", *folder.parts))
        for folder in found
        if not (folder.parts and (folder.parts[0] in OUTSIDE or folder.parts[0].startswith(".")))
    }


def test_every_package_folder_is_listed_twice():
    assert package_folders() == set(SETUPTOOLS["packages"]) == set(SETUPTOOLS["package-dir"])


def test_no_module_lies_at_the_root_by_accident():
    assert {p.name for p in ROOT.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_the_wheel_holds_every_module_and_nothing_of_the_tests(tmp_path):
    copy = tmp_path / "source"
    copy.mkdir()
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git checkout: the files of the source tree are not known")
    for name in filter(None, tracked.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(copy)]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for package, folder in SETUPTOOLS["package-dir"].items():
        for module in (copy / folder).glob("*.py"):
            assert "/".join((*package.split("."), module.name)) in names
    assert "coalmine/py.typed" in names
    assert "coalmine/reports/templates/report.html" in names
    assert not any("tests/" in n or "experiments/" in n for n in names)


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("coalmine", ["torch", "numpy", "pandas", "matplotlib", "sklearn", "scipy"]),
        ("coalmine.audit.bounds", ["torch", "pandas", "matplotlib", "sklearn"]),
        ("coalmine.audit.estimators", ["torch", "pandas", "matplotlib", "sklearn"]),
        ("coalmine.audit.cli", ["torch", "pandas", "matplotlib", "sklearn"]),
    ],
)
def test_importing_is_light(module, absent):
    code = f"import sys, {module}; print(*[m for m in {absent!r} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


def imported_folders(path: Path) -> set[str]:
    """The top-level folders of coalmine that a module imports, at any depth of its code."""
    here = path.relative_to(ROOT).parts[:-1]
    folders = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level + 1]
            target = (*base, *(node.module or "").split(".")) if node.module else base
            folders |= {target[0]} if target and target[0] else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("coalmine."):
            folders.add((node.module or "").split(".")[1])
    return folders


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("foundation", {"audit", "attacks", "canaries", "reports"}),
        ("attacks", {"audit", "canaries", "reports"}),
        ("canaries", {"audit", "attacks", "reports"}),
        ("audit/bounds", {"attacks", "canaries", "reports"}),
        ("audit/estimators", {"attacks", "canaries", "reports"}),
        ("audit/training", {"attacks", "reports"}),
    ],
)
def test_the_arrows_of_the_architecture_hold(folder, forbidden):
    for path in (ROOT / folder).glob("*.py"):
        assert not imported_folders(path) & forbidden, path
