"""What the command accepts, and the one line that it says otherwise."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

import zeropower
from zeropower.cli import main
from zeropower.cli.compare import configure
from zeropower.cli.options import Options, typed


def error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the command, which must refuse with exit code 2, one line on stderr and nothing on stdout."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("zeropower: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["--text", "nowhere.txt"], "argument --text: no such file or folder: "),
        (
            ["--optimizer", "adam"],
            "argument --optimizer: 'adam' is unknown; --backend torch has adamw, bitnet_adamw",
        ),
        (["--optimizer", "adamw", "optax_muon"], "'optax_muon' is unknown; --backend torch has"),
        (["--optimizer", "adamw:beta=1"], "adamw has no 'beta'; it takes lr, weight_decay"),
        (["--optimizer", "adamw:adamw_lr=1"], "adamw has no 'adamw_lr'; it takes lr, weight_decay"),
        (
            ["--optimizer", "muon_adamw:dialect=lion"],
            "'muon_adamw:dialect=lion': dialect must be one of zeropower, keller, torch",
        ),
        (["--optimizer", "adamw:dialect=keller"], "adamw has no 'dialect'; it takes lr, weight_decay"),
        (["--optimizer", "adamw:lr=fast"], "'adamw:lr=fast': lr must be a number above 0, got 'fast'"),
        (["--optimizer", "adamw:lr=nan"], "lr must be a number above 0, got 'nan'"),
        (["--optimizer", "adamw:lr=0"], "lr must be a number above 0, got '0'"),
        (["--optimizer", "adamw:lr"], "lr must be a number above 0, got ''"),
        (["--optimizer", "adamw:weight_decay=-1"], "weight_decay must be a number at least 0, got '-1'"),
        (["--optimizer", "sgd", "sgd"], "'sgd' is asked for twice"),
        (["--steps", "0"], "argument --steps: must be an integer of at least 1, got '0'"),
        (["--steps", "many"], "argument --steps: must be an integer of at least 1, got 'many'"),
        (["--seed", "-1"], "argument --seed: must be an integer of at least 0, got '-1'"),
        (["--batch", "1.5"], "argument --batch: must be an integer of at least 1, got '1.5'"),
        (
            ["--width", "100", "--heads", "3"],
            "argument --width: must be a multiple of twice --heads (6), got 100",
        ),
        (["--backend", "jax", "--threads", "2"], "argument --threads: only the torch backend takes it"),
        (["--backend", "numpy"], "argument --backend: invalid choice: 'numpy'"),
        (["--step", "5"], "unrecognized arguments: --step 5"),
        (["--name", "a/b"], "argument --name: must be the name of a folder, without slashes, got 'a/b'"),
        (["--resume"], "argument --resume: no run in "),
        (["--resume", "--name", "gone"], "argument --resume: no run 'gone' in "),
    ],
)
def test_bad_input_is_refused_in_one_line(capsys, tmp_path, typed, message):
    out = tmp_path / "runs"
    assert message in error(capsys, "compare", "--out", str(out), *typed)
    assert not out.exists()


ADAMW = "learning_rate = 0.01\nweight_decay = 0.1\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "argument --config: {path} cannot be read (No such file or directory); accepted: a TOML file\n"),
        ("lr =", "argument --config: {path} is not valid TOML: Invalid value"),
        (
            ADAMW + "learning_rat = 1\n",
            "argument --config: {path}: optimizer.learning_rat is not known; accepted: name,",
        ),
        (ADAMW + 'name = "sgd"\n', "argument --config: {path}: optimizer.name='sgd' is not known; accepted: 'adamw',"),
        (ADAMW + 'name = "muon_hybrid_exp"\n', "argument --config: {path}: optimizer.muon must be set when"),
        (
            ADAMW + '[lr_schedule]\ntype = "cosine"\nwarmup_steps = 5\n',
            "argument --config: {path}: optimizer.lr_schedule.warmup_steps=5 is out of range; accepted: ",
        ),
    ],
    ids=["missing", "malformed", "unknown field", "unknown kind", "no table of muon", "longer than the run"],
)
def test_bad_configurations_are_refused_in_one_line(capsys, tmp_path, content, message):
    path = tmp_path / "one.toml"
    if content is not None:
        path.write_text(content)
    got = error(capsys, "compare", "--out", str(tmp_path / "runs"), "--steps", "5", "--config", str(path))
    assert got.startswith("zeropower: error: " + message.format(path=path))
    assert not (tmp_path / "runs").exists()


def test_configurations_that_do_not_go_together(capsys, tmp_path):
    (tmp_path / "more").mkdir()
    paths = [tmp_path / "one.toml", tmp_path / "more" / "one.toml"]
    for path in paths:
        path.write_text(ADAMW)
    assert "argument --config: two files are called 'one.toml'" in error(
        capsys, "compare", "--config", *map(str, paths)
    )
    message = error(capsys, "compare", "--sweep", "--config", str(paths[0]))
    assert "argument --sweep: the learning rates of --config are not swept" in message


@pytest.mark.parametrize("arguments", [[], ["train"], ["--verbose"]])
def test_the_command_itself_must_be_known(capsys, arguments):
    assert "see zeropower --help" in error(capsys, *arguments)


@pytest.mark.parametrize("body", [b"", b"too short", b"\0\1\2" * 5000])
def test_text_without_enough_text(capsys, tmp_path, body):
    (tmp_path / "text").write_bytes(body)
    message = error(capsys, "compare", "--text", str(tmp_path / "text"), "--out", str(tmp_path / "runs"))
    assert "bytes of text; a context of 128 needs at least 1290" in message
    assert not (tmp_path / "runs").exists()


def test_folder_of_runs_that_cannot_be_made(capsys, arguments, tmp_path):
    (tmp_path / "runs").write_text("a file")
    assert "argument --out: cannot make " in error(capsys, *arguments, "--name", "x", "--optimizer", "sgd")


def test_missing_packages_are_named(capsys, monkeypatch, arguments):
    real = sys.modules["importlib.util"].find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "rich" else real(name))
    assert "this command needs rich: pip install 'zeropower[cli]'" in error(capsys, *arguments)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch" else real(name))
    assert "this command needs torch: pip install 'zeropower[torch]'" in error(capsys, *arguments)


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"zeropower {zeropower.__version__}\n"


def test_help_lists_the_optimizers(capsys):
    with pytest.raises(SystemExit) as end:
        main(["compare", "--help"])
    assert end.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "torch: adamw, muon_adamw" in text
    assert "optax_muon" in text


def test_importing_and_refusing_load_no_framework():
    code = (
        "import sys, zeropower.cli\n"
        "assert zeropower.cli.main(['compare', '--optimizer', 'adam']) == 2\n"
        "print(*{'torch', 'jax', 'optax'} & set(sys.modules))\n"
    )
    imported = "import sys, zeropower.cli\nprint(*{'torch', 'jax', 'optax', 'matplotlib', 'rich'} & set(sys.modules))\n"
    for source in (code, imported):
        done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
        assert done.stdout == "\n"


def test_options_survive_their_file_and_paths_become_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser()
    configure(parser)
    arguments = parser.parse_args([
        "--text",
        "a",
        "b",
        "--text",
        "c",
        "--optimizer",
        "sgd",
        "adamw:lr=1",
        "--steps",
        "7",
        "--sweep",
    ])
    options = Options(**typed(vars(arguments)))
    assert options.text == tuple(str(tmp_path / name) for name in "abc")
    assert options.optimizer == ("sgd", "adamw:lr=1")
    assert (options.steps, options.sweep, options.batch) == (7, True, Options().batch)
    assert Options.from_json(options.to_json()) == options


def test_a_console_script_and_main_agree():
    script = Path(sys.executable).with_name("zeropower")
    done = subprocess.run([script, "compare", "--steps", "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
