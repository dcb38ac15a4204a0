"""What is read out of the metrics of a run: crossings, tables, plots, progress."""

import io
import math
import signal

import pytest

pytest.importorskip("rich", reason="rich is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from rich.console import Console

from zeropower.cli.errors import UsageError
from zeropower.cli.history import Crossing, Curve, History, histories
from zeropower.cli.interrupt import interruptible
from zeropower.cli.optimizers import Chosen, Settings
from zeropower.cli.plot import plot, smooth
from zeropower.cli.progress import Bars, Lines, reporting
from zeropower.cli.report import baseline, comparison, sweep
from zeropower.cli.runs import Run
from zeropower.cli.trainer import Step


def history(*losses: float, seconds: float = 2.0) -> History:
    """Validations every ten steps, training that takes `seconds` for each ten."""
    steps = [10 * index for index in range(len(losses))]
    times = [seconds * index for index in range(len(losses))]
    training = Curve(steps[1:], times[1:], list(losses[1:]))
    return History(training, Curve(steps, times, list(losses)), optimizer_seconds=0.5, state_bytes=3 * 2**20)


def chosen(*labels: str) -> list[Chosen]:
    return [Chosen(label, label.partition(":")[0], Settings(0.1, 0.0)) for label in labels]


def rows(table) -> list[str]:
    console = Console(width=200, file=io.StringIO())
    console.print(table)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize(
    ("losses", "loss", "expected"),
    [
        ((5.0, 3.0, 2.0), 3.0, Crossing(10, 2)),
        ((5.0, 3.0, 2.0), 4.0, Crossing(5, 1)),
        ((5.0, 3.0, 2.0), 2.25, Crossing(17.5, 3.5)),
        ((5.0, 3.0, 2.0), 5.0, Crossing(0, 0)),
        ((5.0, 3.0, 2.0), 1.9, None),
        ((5.0, 3.0, 4.0, 2.0), 3.5, Crossing(7.5, 1.5)),
        ((5.0, math.nan, 2.0), 3.0, Crossing(20, 4)),
        ((), 3.0, None),
        ((5.0, 3.0), math.nan, None),
    ],
)
def test_when_a_loss_is_reached(losses, loss, expected):
    assert history(*losses).reaches(loss) == expected


def test_comparison_measures_against_adamw():
    found = {"muon_adamw": history(5.0, 2.0, 1.0, seconds=3.0), "adamw": history(5.0, 4.0, 3.0)}
    both = chosen("muon_adamw", "adamw")
    assert baseline(both).label == "adamw"
    text = rows(comparison(both, found, 20))
    (muon,) = [line.split("│")[1:-1] for line in text if "│ muon_adamw" in line]
    assert [cell.strip() for cell in muon] == [
        "muon_adamw", "1.0000", "7 (33 %)", "2.0 (50 %)", "6.0", "8.3 %", "3.0 MiB"
    ]  # fmt: skip
    (adamw,) = [line.split("│")[1:-1] for line in text if "│ adamw" in line]
    assert [cell.strip() for cell in adamw][1:4] == ["3.0000", "20 (100 %)", "4.0 (100 %)"]


def test_comparison_of_an_interrupted_run():
    three = chosen("adamw", "muon_adamw", "sgd")
    text = "\n".join(rows(comparison(three, {"adamw": history(5.0, 4.0), "muon_adamw": history(5.0)}, 20)))
    assert "stopped at step 10" in text
    assert text.count("muon_adamw") == text.count("sgd") == 1


def test_without_adamw_the_first_is_the_measure():
    assert baseline(chosen("sgd", "muon_adamw")).label == "sgd"


def test_sweep_marks_the_best_of_each_optimizer():
    pairs = [(name, lr) for name in ("adamw", "sgd") for lr in (0.1, 0.2)]
    some = [Chosen(f"{name}:lr={lr}", name, Settings(lr, 0.0)) for name, lr in pairs]
    finals = (2.0, math.nan, 4.0, 3.0)
    found = {one.label: history(5.0, 4.5, final) for one, final in zip(some, finals, strict=True)}
    lines = [line.replace("│", " ").split() for line in rows(sweep(some, found, 20))]
    assert ["adamw", "0.1", "2.0000", "best"] in lines
    assert ["adamw", "0.2", "not", "finite"] in lines
    assert ["sgd", "0.1", "4.0000"] in lines
    assert ["sgd", "0.2", "3.0000", "best"] in lines


def test_metrics_become_histories_again(tmp_path):
    run = Run(tmp_path, {})
    run.log("validation", "a", step=0, seconds=0.0, loss=5.5)
    run.log("step", "a", step=1, seconds=0.5, loss=math.inf, ms=500.0, optimizer_ms=100.0)
    run.log("optimizer", "a", step=1, state_bytes=12, plan=None)
    run.log("step", "b", step=1, seconds=0.25, loss=1 / 3, ms=250.0, optimizer_ms=10.0)
    found = histories(run.events())
    assert list(found) == ["a", "b"]
    assert found["a"].validation == Curve([0], [0.0], [5.5])
    assert math.isnan(found["a"].training.losses[0])
    assert found["a"].optimizer_seconds == 0.1
    assert found["a"].state_bytes == 12
    assert found["b"].training == Curve([1], [0.25], [1 / 3])
    assert found["b"].seconds == 0.25


def test_forgetting_keeps_other_optimizers_and_earlier_steps(tmp_path):
    run = Run(tmp_path, {})
    for label in ("a", "b"):
        for step in (1, 2, 3):
            run.log("step", label, step=step, loss=0.1 * step)
    before = run.events()
    run.forget("a", after=2)
    assert run.events() == [event for event in before if (event["optimizer"], event["step"]) != ("a", 3)]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    run = Run(tmp_path, {})
    run.write("file", lambda path: path.write_text("old"))

    def fail(path) -> None:
        path.write_text("half")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        run.write("file", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "old"


def test_newest_run_is_found_and_a_broken_config_is_named(tmp_path):
    for name in ("b", "a"):
        Run.create(tmp_path, name, {"who": name})
    assert Run.find(tmp_path, None).config == {"who": "a"}
    assert Run.find(tmp_path, "b").config == {"who": "b"}
    (tmp_path / "a" / "config.json").write_text("{")
    with pytest.raises(UsageError, match=r"a/config\.json' is not JSON"):
        Run.find(tmp_path, "a")


def test_smoothing_keeps_a_constant_and_weighs_the_past():
    assert smooth(Curve([1, 2, 3], [1, 2, 3], [2.0, 2.0, 2.0])) == pytest.approx([2.0, 2.0, 2.0])
    assert smooth(Curve([1, 2], [1, 2], [1.0, 0.0])) == pytest.approx([1.0, 0.95 / 1.95])


@pytest.mark.parametrize(
    "found", [{}, {"adamw": history(5.0)}, {"adamw": history(5.0, math.nan), "x": history(5.0, 4.0)}]
)
def test_plots_of_what_there_is(tmp_path, found):
    plot(found, "adamw", tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_bars_on_a_terminal_show_loss_and_times():
    console = Console(force_terminal=True, width=160, file=io.StringIO())
    with reporting(console) as reporter:
        assert isinstance(reporter, Bars)
        reporter.begin("muon_adamw", 3, 5)
        for _ in range(2):
            reporter.advance(Step(2.5, 0.2, 0.03))
    last = console.file.getvalue()
    assert "muon_adamw" in last
    assert "5/5" in last
    assert "loss 2.500  200 ms/step, 30.0 in the optimizer  0:00 left" in last


def test_lines_elsewhere_and_the_estimate_of_the_rest():
    console = Console(width=160, file=io.StringIO())
    with reporting(console) as reporter:
        assert isinstance(reporter, Lines)
        reporter.begin("sgd", 0, 1000)
        for _ in range(100):
            reporter.advance(Step(2.5, 0.2, 0.03))
    first, second = console.file.getvalue().splitlines()
    assert first == "sgd: step 0 of 1000"
    assert second == "sgd: step 100 of 1000  loss 2.500  200 ms/step, 30.0 in the optimizer  3:00 left"


def test_a_second_interrupt_is_not_swallowed():
    before = signal.getsignal(signal.SIGINT)
    with interruptible() as stopped:
        assert not stopped()
        signal.raise_signal(signal.SIGINT)
        assert stopped()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
