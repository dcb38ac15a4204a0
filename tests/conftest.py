"""What all tests share: two threads, no network, and GPU tests that say why they are skipped."""

import os
import socket
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

# Sums are split by thread, so their rounding depends on the count; read by torch and numpy as they load.
os.environ["OMP_NUM_THREADS"] = "2"

ROOT = Path(__file__).parents[1]
LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_items and not cuda_is_available():
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def cuda_is_available() -> bool:
    try:
        import torch
    except ImportError:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a CUDA build complains about a machine without a driver
        return torch.cuda.is_available()


@pytest.fixture(autouse=True, scope="session")
def offline() -> Iterator[None]:
    """Refuse connections that leave the machine: what passes here passes without a network."""
    connect = socket.socket.connect

    def connect_locally(self: socket.socket, address: tuple[str, int] | str | bytes) -> None:
        if self.family in {socket.AF_INET, socket.AF_INET6} and address[0] not in LOOPBACK:
            self.close()
            raise RuntimeError(f"a test asked for the network: {address}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect_locally)
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    """Top of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def sources() -> dict[str, Path]:
    """Public module name -> source file, by the rule that pyproject.toml spells out package by package."""
    rooms = {"zeropower": ROOT / "core", "zeropower.conformance": ROOT / "conformance"}
    rooms |= {f"zeropower.{file.parent.name}": file.parent for file in ROOT.glob("adapters/*/*.py")}
    files = [(package, room, file) for package, room in rooms.items() for file in room.rglob("*.py")]
    return {module_name(package, file.relative_to(room)): file for package, room, file in files}


def module_name(package: str, file: Path) -> str:
    parts = [part for part in file.with_suffix("").parts if part != "__init__"]
    return ".".join([package, *parts])
