"""The rooms of the checkout become one package: names, import arrows, sdist, wheel."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import distributions, version
from importlib.util import find_spec
from pathlib import Path

import pytest

import zeropower

NOT_SOURCE = shutil.ignore_patterns(".*", "build", "dist", "runs", "*.egg-info", "__pycache__")

# Package -> what it may import besides the standard library and itself. Arrows run one way.
ARROWS = {
    "zeropower": {"array_api_compat", "numpy"},
    "zeropower.torch": {"zeropower", "torch", "numpy", "array_api_compat"},
    "zeropower.jax": {"zeropower", "jax", "optax", "numpy", "array_api_compat"},
    "zeropower.cli": {
        *("zeropower", "zeropower.torch", "zeropower.jax"),
        *("torch", "jax", "optax", "numpy", "rich", "matplotlib"),
    },
    "zeropower.conformance": {"zeropower", "pytest", "numpy", "array_api_compat", "array_api_strict"},
    "zeropower.conformance.golden": {"numpy", "formulas"},  # its neighbour, where it runs as a script
    "zeropower.conformance.peers": {
        *("zeropower", "zeropower.conformance", "numpy", "pytest", "array_api_compat"),
        *("torch", "jax", "optax", "keras", "heavyball"),  # the other peers are imported by name
    },
}


@pytest.fixture(scope="session")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="session")
def packages(sources):
    """Package -> its folder."""
    return {name: file.parent for name, file in sources.items() if file.stem == "__init__"}


# ---- names ----


def test_each_source_file_is_found_under_its_public_name(sources):
    specs = {name: find_spec(name) for name in sources}
    assert [name for name, spec in specs.items() if spec is None] == []
    found = {name: Path(spec.origin).resolve() for name, spec in specs.items()}
    assert found == {name: file.resolve() for name, file in sources.items()}


def test_listed_packages_are_the_folders_with_sources(project, packages, sources, root):
    settings = project["tool"]["setuptools"]
    assert {file.parent for file in sources.values()} == set(packages.values()), "an __init__.py is missing"
    assert set(settings["packages"]) == packages.keys()
    assert {name: root / folder for name, folder in settings["package-dir"].items()} == packages


def test_version_stands_in_one_place(project, sources):
    number = zeropower.__version__
    assert "version" in project["project"]["dynamic"]
    assert version("zeropower") == number
    holders = [name for name, file in sources.items() if f'"{number}"' in file.read_text("utf-8")]
    assert holders == ["zeropower"]


# ---- import arrows ----


def package_of(name: str) -> str:
    """Room that a module of ours belongs to; the top-level name of a module that is not ours."""
    parts = name.split(".")
    rooms = (".".join(parts[:3]), ".".join(parts[:2]), parts[0])
    return next((room for room in rooms if room in ARROWS), parts[0])


def imports_of(module: str, file: Path) -> Iterator[tuple[str, str]]:
    """(imported module, imported name or "") of each import statement, the relative ones resolved."""
    package = module if file.stem == "__init__" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*base, *filter(None, [node.module])])
            for alias in node.names:  # `from zeropower import torch` names a room too
                name = f"{source}.{alias.name}"
                yield (name, "") if name in ARROWS else (source, alias.name)


def test_imports_follow_the_arrows(sources):
    against = []
    for module, file in sources.items():
        room = package_of(module)
        for imported, _ in imports_of(module, file):
            target = package_of(imported)
            if target not in {room, *ARROWS[room], *sys.stdlib_module_names}:
                against.append(f"{module} imports {imported}")
    assert against == []


def test_no_room_uses_private_names_of_another(sources):
    private = [
        f"{module} imports {name or imported} from {imported}"
        for module, file in sources.items()
        for imported, name in imports_of(module, file)
        if package_of(imported) in ARROWS.keys() - {package_of(module)}
        and any(re.match(r"_(?!_)", part) for part in [*imported.split("."), name])
    ]
    assert private == []


# ---- sdist and wheel ----


def run_python(*arguments: str | Path, cwd: Path, **environment: str) -> str:
    """Standard output of the interpreter, which must succeed without a network."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    answer = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=kept | {"PIP_NO_INDEX": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


@pytest.fixture(scope="session")
def built(root, tmp_path_factory):
    """Folder with the sdist and the wheel, built from a copy that holds an older build's leftovers."""
    folder = tmp_path_factory.mktemp("built")
    checkout = shutil.copytree(root, folder / "checkout", ignore=NOT_SOURCE)
    leftover = checkout / "build" / "lib" / "zeropower" / "leftover.py"
    leftover.parent.mkdir(parents=True)
    leftover.write_text("raise ImportError")
    run_python("-m", "build", "--no-isolation", "--outdir", folder, checkout, cwd=folder)
    return folder


@pytest.fixture(scope="session")
def shipped(packages):
    """Path in the wheel -> file in the checkout, of everything that lies in a room."""
    files = {}
    for name, folder in sorted(packages.items()):  # an inner package comes after the outer one and prevails
        for file in folder.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                files[file] = f"{name.replace('.', '/')}/{file.relative_to(folder).as_posix()}"
    return {path: file for file, path in files.items()}


def test_wheel_holds_the_rooms_and_nothing_else(built, shipped):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        contents = {name: wheel.read(name) for name in wheel.namelist()}
    ours = {name: content for name, content in contents.items() if ".dist-info/" not in name}
    assert "zeropower/py.typed" in ours
    assert ours.keys() == shipped.keys()
    assert [name for name, content in ours.items() if content != shipped[name].read_bytes()] == []


def test_wheel_carries_the_licence(built, root):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        licence = next(name for name in wheel.namelist() if name.endswith("dist-info/licenses/LICENSE"))
        assert wheel.read(licence) == (root / "LICENSE").read_bytes()
    text = (root / "LICENSE").read_text("utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_sdist_holds_what_a_build_and_the_tests_need(built, shipped, root):
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}
    rooms = {file.relative_to(root).as_posix() for file in shipped.values()}
    tests = {file.relative_to(root).as_posix() for file in (root / "tests").rglob("*.py")}
    top = {"pyproject.toml", "Makefile", "constraints.txt", "README.md", "CHANGELOG.md", "LICENSE"}
    assert (rooms | tests | top | {"adapters/__init__.py"}) - names == set()
    assert [name for name in names if name.startswith("build/") or name.endswith(".pyc")] == []


@pytest.fixture(scope="session")
def installed(built):
    """Folder into which the wheel, and nothing else, is installed."""
    folder = built / "installed"
    wheel = next(built.glob("*.whl"))
    run_python("-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, wheel, cwd=built)
    return folder


def test_installed_wheel_imports_from_elsewhere(installed, tmp_path):
    code = "import zeropower; print(zeropower.__file__, zeropower.__version__)"
    file, number = run_python("-c", code, cwd=tmp_path, PYTHONPATH=str(installed)).split()
    assert Path(file) == installed / "zeropower" / "__init__.py"
    assert number == zeropower.__version__


def test_entry_points_are_installed_and_load(installed, project):
    wheel = one(distributions(path=[str(installed)]))
    declared = project["project"]["entry-points"]["zeropower.backends"]
    backends = wheel.entry_points.select(group="zeropower.backends")
    scripts = wheel.entry_points.select(group="console_scripts")
    assert {entry.name: entry.value for entry in backends} == declared
    assert {entry.name: entry.value for entry in scripts} == {"zeropower": "zeropower.cli:main"}
    assert all(isinstance(entry.load(), zeropower.Backend) for entry in backends)
    assert callable(one(scripts).load())


def one(values):
    (value,) = values
    return value
