"""What `import zeropower` brings, and what it leaves alone."""

import json
import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

# scipy and hypothesis arrive with jax and the tests: nothing that a user of the core has asked for.
FOREIGN = {"torch", "jax", "jaxlib", "optax", "pytest", "scipy", "hypothesis", "matplotlib", "rich"}
PACKAGES = ["zeropower", "zeropower.torch", "zeropower.jax", "zeropower.conformance"]


def loaded_by(statement: str) -> set[str]:
    """Modules in a fresh interpreter after `statement`."""
    code = f"{statement}; import json, sys; print(json.dumps(list(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return set(json.loads(answer.stdout))


def test_core_loads_no_framework():
    loaded = loaded_by("import zeropower")
    assert "zeropower" in loaded
    assert loaded & FOREIGN == set()


@pytest.mark.parametrize(("adapter", "other"), [("torch", {"jax", "optax"}), ("jax", {"torch"})])
def test_adapter_loads_its_own_framework_alone(adapter, other):
    loaded = loaded_by(f"import zeropower.{adapter}")
    assert adapter in loaded
    assert loaded & other == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_those_of_all(package):
    module = import_module(package)
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    declared = [name for name in module.__all__ if name != "__version__"]
    assert sorted(declared) == sorted(name for name, value in public.items() if not is_submodule(value))


def is_submodule(value: object) -> bool:
    return isinstance(value, ModuleType) and value.__name__.startswith("zeropower.")
