"""Which bytes make the text."""

import hashlib
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from zeropower.cli.errors import UsageError
from zeropower.cli.text import collect


def content(text) -> bytes:
    return np.concatenate([text.train, text.validation]).tobytes()


def fill(folder: Path, names: list[str], size: int = 400) -> dict[str, bytes]:
    files = {name: name.encode().ljust(size, b".") for name in names}
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return files


def test_every_file_once_whatever_the_order_of_creation(tmp_path):
    names = ["b.txt", "a/z.txt", "a/b/c.md", "no_suffix"]
    fill(tmp_path / "one", names)
    files = fill(tmp_path / "two", names[::-1])
    one, two = (collect([tmp_path / folder], context=8) for folder in ("one", "two"))
    assert content(one) == content(two)
    assert one.files == two.files == 4
    pieces = sorted(content(one)[start : start + 400] for start in range(0, 1600, 400))
    assert pieces == sorted(files.values())


def test_validation_is_the_last_tenth_and_the_digest_covers_all(tmp_path):
    body = bytes(range(1, 251)) * 4
    (tmp_path / "text").write_bytes(body)
    text = collect([tmp_path / "text"], context=8)
    assert text.train.tobytes() == body[:900]
    assert text.validation.tobytes() == body[900:]
    assert text.size == 1000
    assert text.digest == hashlib.sha256(body).hexdigest()


def test_binaries_hidden_files_and_caches_are_left_out(tmp_path):
    fill(tmp_path, ["good.txt"])
    fill(tmp_path, [".hidden", ".git/config", "__pycache__/x.py"])
    (tmp_path / "image.png").write_bytes(b"\x89PNG" + bytes(500))
    text = collect([tmp_path], context=8)
    assert content(text) == b"good.txt".ljust(400, b".")


def test_a_file_named_twice_is_read_once(tmp_path):
    fill(tmp_path, ["a.txt", "b.txt"])
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    text = collect([tmp_path / "a.txt", tmp_path, tmp_path / "a.txt"], context=8)
    assert text.files == 2
    assert text.size == 800


@pytest.mark.parametrize("limit", [300, 400, 1000])
def test_the_limit_is_exact(tmp_path, limit):
    fill(tmp_path, [f"{index}.txt" for index in range(6)])
    text = collect([tmp_path], context=8, limit=limit)
    assert text.size == limit
    assert text.files == -(-limit // 400)
    assert content(text) == content(collect([tmp_path], context=8))[:limit]


def test_standard_library_without_tests_and_packages():
    text = collect([], context=128)
    root = Path(sysconfig.get_path("stdlib"))
    whole = content(text)
    assert 200 < text.files < 1500
    assert (root / "argparse.py").read_bytes() in whole
    tests = root / "test" / "test_argparse.py"
    assert not tests.exists() or tests.read_bytes() not in whole


def test_errors_name_the_path(tmp_path):
    with pytest.raises(UsageError, match=r"no such file or folder: .*nowhere"):
        collect([tmp_path / "nowhere"], context=8)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="empty has 0 bytes of text"):
        collect([tmp_path / "empty"], context=8)


def test_shortest_text_that_is_accepted(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"x" * 90)
    assert len(collect([path], context=8).validation) == 9
    path.write_bytes(b"x" * 89)
    with pytest.raises(UsageError, match=r"89 bytes of text; a context of 8 needs at least 90"):
        collect([path], context=8)
