"""Whole runs of ``zeropower compare``, small ones."""

import json
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from zeropower.cli import main
from zeropower.cli.runs import Run

BACKENDS = ["torch", "jax"]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    return request.param


def interrupt_at(monkeypatch: pytest.MonkeyPatch, optimizer: str, step: int) -> None:
    """Send SIGINT to this process while it logs a step."""
    log = Run.log

    def logging(self: Run, event: str, label: str, **fields) -> None:
        log(self, event, label, **fields)
        if (event, label, fields.get("step")) == ("step", optimizer, step):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Run, "log", logging)


def test_outputs_exist_and_parse(compare, backend, capsys):
    folder = compare("first", "--backend", backend)
    config = json.loads((folder / "config.json").read_text())
    assert config["options"]["steps"] == 12
    assert [one["label"] for one in config["optimizers"]] == ["adamw", "muon_adamw"]
    assert config["optimizers"][0]["settings"]["lr"] > 0
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for label in ("adamw", "muon_adamw"):
        own = [event for event in events if event["optimizer"] == label]
        steps = [event for event in own if event["event"] == "step"]
        assert [event["step"] for event in steps] == list(range(1, 13))
        assert all(0 < event["optimizer_ms"] < event["ms"] for event in steps)
        total = sum(event["ms"] for event in steps) / 1000
        assert steps[-1]["seconds"] == pytest.approx(total)
        assert [event["step"] for event in own if event["event"] == "validation"] == list(range(13))
        assert [event["state_bytes"] > 0 for event in own if event["event"] == "optimizer"] == [True]
    assert (folder / "loss.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert not list(folder.glob(".*"))
    out = capsys.readouterr().out
    for expected in ("After 12 steps", "steps to", "MiB", "Plan of muon_adamw", str(folder / "loss.png")):
        assert expected in out


def test_output_into_a_pipe_is_short(compare, capsys):
    compare("quiet", "--steps", "100", "--optimizer", "sgd")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("sgd: step")]
    assert len(lines) == 11
    assert "ms/step" in lines[-1]
    assert "0:00 left" in lines[-1]


def test_same_seed_same_losses(compare, losses, backend):
    one = losses(compare("one", "--backend", backend))
    again = losses(compare("again", "--backend", backend, "--optimizer", "muon_adamw"))
    other = losses(compare("other", "--backend", backend, "--optimizer", "adamw", "--seed", "1"))
    assert one["muon_adamw"] == again["muon_adamw"]
    assert one["adamw"][0] == one["muon_adamw"][0]  # the same model before the first step
    assert one["adamw"] != other["adamw"]


def test_backends_train_the_same_model(compare, losses):
    for backend in BACKENDS:
        pytest.importorskip(backend, reason=f"{backend} is not installed")
    torch, jax = (losses(compare(name, "--backend", name, "--optimizer", "adamw"))["adamw"] for name in BACKENDS)
    # rounding differences grow from step to step; different data or weights would show in the second digit
    assert [loss for *_, loss in torch] == pytest.approx([loss for *_, loss in jax], rel=1e-4)


def test_resumed_equals_uninterrupted(compare, losses, backend, arguments, monkeypatch, capsys):
    """Stopped within the first optimizer, then between the two, then within the second."""
    whole = losses(compare("whole", "--backend", backend))
    folder = Path(arguments[arguments.index("--out") + 1]) / "broken"
    line = [*arguments, "--backend", backend, "--name", "broken"]
    for optimizer, step in (("adamw", 5), ("adamw", 12), ("muon_adamw", 7)):
        capsys.readouterr()
        with monkeypatch.context() as patch:
            interrupt_at(patch, optimizer, step)
            assert main(line) == 130
        assert f"zeropower compare --resume --name broken --out {folder.parent}" in capsys.readouterr().out
        assert (folder / "loss.png").exists()
        assert losses(folder)[optimizer][-1][1] == step
        line = ["compare", "--resume", "--out", str(folder.parent)]
    assert main(line) == 0
    assert losses(folder) == whole


def test_a_killed_run_resumes_from_its_last_checkpoint(compare, losses, backend, monkeypatch, arguments):
    """What came after the checkpoint, a torn last line included, is forgotten and done again."""
    whole = losses(compare("whole", "--backend", backend, "--optimizer", "adamw", "--steps", "40"))
    save = Run.write

    def dying(self: Run, name: str, writer) -> Path:
        if name == "adamw.checkpoint" and (self.folder / name).exists():
            raise RuntimeError("power cut")
        return save(self, name, writer)

    line = [*arguments, "--backend", backend, "--optimizer", "adamw", "--steps", "40", "--name", "killed"]
    with monkeypatch.context() as patch:
        patch.setattr(Run, "write", dying)
        with pytest.raises(RuntimeError, match="power cut"):
            main(line)
    folder = Path(arguments[arguments.index("--out") + 1]) / "killed"
    with (folder / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"event": "step", "optim')
    assert losses_end(folder) > 3
    assert main(["compare", "--resume", "--name", "killed", "--out", str(folder.parent)]) == 0
    assert losses(folder) == whole


CONFIGURATIONS = {
    "adamw.toml": """
        [optimizer]
        learning_rate = 0.01
        weight_decay = 0.1
        grad_clip_value = 0.5
    """,
    "bitnet.toml": """
        [optimizer]
        name = "bitnet_published"
        schedule_mode = "bitnet_b158_reference"
        learning_rate = 0.01
        weight_decay = 0.1
    """,
    "hybrid.toml": """
        [optimizer]
        name = "muon_hybrid_exp"
        learning_rate = 0.01
        weight_decay = 0.1
        grad_clip_norm = 1.0
        lr_schedule = { type = "cosine", warmup_steps = 2 }

        [optimizer.muon]
        enabled = true
        target_modules = ["q", "k", "v", "out", "up", "down"]
    """,
}


@pytest.fixture
def configurations(tmp_path: Path) -> list[str]:
    """Write a file for each kind of optimizer that a configuration can ask for."""
    for name, text in CONFIGURATIONS.items():
        (tmp_path / name).write_text(textwrap.dedent(text))
    return [str(tmp_path / name) for name in CONFIGURATIONS]


@pytest.fixture
def configured(compare, losses, configurations) -> dict[str, dict[str, list[tuple[str, int, float]]]]:
    """Losses of the three kinds, by backend."""
    for backend in BACKENDS:
        pytest.importorskip(backend, reason=f"{backend} is not installed")
    runs = {one: compare(one, "--backend", one, "--config", *configurations) for one in BACKENDS}
    return {backend: losses(folder) for backend, folder in runs.items()}


def test_configurations_train_every_kind_alike_in_both_backends(configured):
    assert list(configured["torch"]) == list(CONFIGURATIONS)
    for label, torch in configured["torch"].items():
        final = [loss for _, _, loss in torch]
        assert final[-1] < 0.95 * final[0]
        assert final == pytest.approx([loss for *_, loss in configured["jax"][label]], rel=1e-4)


def test_configurations_differ_in_what_they_say(configured):
    """The three would train alike if what is in the files did not matter."""
    last = {label: rows[-1][2] for label, rows in configured["torch"].items()}
    assert len(set(last.values())) == len(CONFIGURATIONS)


def test_configurations_join_the_other_optimizers(compare, losses, configurations):
    both = losses(compare("both", "--optimizer", "adamw", "--config", configurations[0]))
    assert list(both) == ["adamw", "adamw.toml"]
    assert both["adamw"][0] == both["adamw.toml"][0]
    assert both["adamw"][-1] != both["adamw.toml"][-1]


def test_a_configured_run_resumes_from_what_its_files_said(
    compare, losses, backend, arguments, configurations, monkeypatch, capsys
):
    whole = losses(compare("whole", "--backend", backend, "--config", *configurations))
    with monkeypatch.context() as patch:
        interrupt_at(patch, "hybrid.toml", 7)
        line = [*arguments, "--backend", backend, "--name", "broken", "--config", *configurations]
        assert main(line) == 130
    for path in configurations:
        Path(path).unlink()
    out = arguments[arguments.index("--out") + 1]
    assert main(["compare", "--resume", "--name", "broken", "--out", out]) == 0
    assert losses(Path(out) / "broken") == whole
    capsys.readouterr()
    assert main(["compare", "--resume", "--name", "broken", "--out", out, "--config", "other.toml"]) == 2
    assert "conflicts with run 'broken', which was started with" in capsys.readouterr().err


def losses_end(folder: Path) -> int:
    """Last step in the metrics, without the torn line."""
    return json.loads((folder / "metrics.jsonl").read_text().splitlines()[-2])["step"]


def test_resuming_a_finished_run_only_reports(compare, capsys, arguments):
    folder = compare("done")
    before = (folder / "metrics.jsonl").read_bytes()
    (folder / "loss.png").unlink()
    capsys.readouterr()
    assert main(["compare", "--resume", "--out", str(folder.parent), "--steps", "12"]) == 0
    assert (folder / "metrics.jsonl").read_bytes() == before
    assert (folder / "loss.png").exists()
    out = capsys.readouterr().out
    assert "After 12 steps" in out
    assert "ms/step" not in out


def test_resuming_with_other_settings_is_refused(compare, capsys, corpus):
    folder = compare("first")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    resume = ["compare", "--resume", "--out", str(folder.parent)]
    capsys.readouterr()
    for option, value, message in (
        ("--steps", "13", "argument --steps: 13 conflicts with run 'first', which was started with 12"),
        ("--optimizer", "sgd", "argument --optimizer: sgd conflicts with run 'first'"),
        ("--backend", "jax", "argument --backend: jax conflicts with run 'first'"),
    ):
        assert main([*resume, option, value]) == 2
        assert message in capsys.readouterr().err
    (corpus / "a.txt").write_text("changed")
    assert main(resume) == 2
    assert "the text of run 'first' has changed since it started" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_new_run_never_overwrites_an_old_one(compare, capsys, arguments):
    compare("first", "--optimizer", "sgd")
    capsys.readouterr()
    assert main([*arguments, "--name", "first"]) == 2
    assert "exists; --resume continues it" in capsys.readouterr().err


def test_sweep_names_the_best_rate(compare, losses, capsys):
    folder = compare("sweep", "--sweep", "--optimizer", "sgd:lr=0.1")
    final = {label: rows[-1][2] for label, rows in losses(folder).items()}
    assert list(final) == [f"sgd:lr={lr}" for lr in ("0.025", "0.05", "0.1", "0.2", "0.4")]
    (marked,) = [line for line in capsys.readouterr().out.splitlines() if "│" in line and "best" in line]
    assert min(final, key=final.__getitem__).removeprefix("sgd:lr=") in marked.split()


def test_a_run_that_diverges_is_reported_and_is_still_json(compare, capsys):
    folder = compare("wild", "--optimizer", "adamw", "sgd:lr=1e30")
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    events = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert any(event["optimizer"].startswith("sgd") and event["loss"] is None for event in events if "loss" in event)
    assert "not finite" in capsys.readouterr().out


def test_ctrl_c_of_a_process_saves_and_the_next_one_goes_on(arguments, tmp_path):
    command = [sys.executable, "-c", "import sys; from zeropower.cli import main; sys.exit(main())"]
    run = tmp_path / "runs" / "long"

    def interrupted(wanted: int, *more: str) -> tuple[str, int]:
        process = subprocess.Popen([*command, *more], stdout=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + 120
            while last_step(run) < wanted and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 130
        assert "Interrupted. All steps done are saved; to continue: zeropower compare --resume --name long" in out
        return out, last_step(run)

    long = ["--steps", "1000000", "--optimizer", "sgd", "--threads", "1", "--name", "long"]
    _, first = interrupted(3, *arguments, *long)
    assert (run / "loss.png").exists()
    out, second = interrupted(first + 3, "compare", "--resume", "--name", "long", "--out", str(run.parent))
    assert f"sgd: step {first} of 1000000" in out
    assert second > first
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines() if '"step",' in line]
    assert steps == list(range(1, second + 1))


def last_step(run: Path) -> int:
    metrics = run / "metrics.jsonl"
    whole = metrics.read_text().split("\n")[:-1] if metrics.exists() else []
    return max((json.loads(line)["step"] for line in whole), default=0)
