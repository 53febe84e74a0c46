"""Progress display: lines in a file, a bar on a terminal."""

import io

import pytest
from rich.console import Console

from squad.train import EpochReport, make_progress
from squad.train.progress import BarProgress, PlainProgress


def report(epoch: int, **changes: object) -> EpochReport:
    values = {"loss": 0.5, "kl": 12.0, "accuracy": 0.91, "temperature": 0.75, "training": 1, "members": 1}
    return EpochReport(epoch, 4, **{**values, **changes})  # type: ignore[arg-type]


def test_plain_lines() -> None:
    stream = io.StringIO()
    progress = make_progress(stream, "training")
    assert isinstance(progress, PlainProgress)
    progress.start(0, 4)
    for epoch in range(1, 5):
        progress.epoch(report(epoch))
    progress.message("something happened")
    progress.close()
    first, message, last = stream.getvalue().splitlines()
    for words in (
        "epoch 1 of 4",
        "loss 0.5000",
        "KL 12.00",
        "validation accuracy 91.00 %",
        "temperature 0.75",
        "s left",
    ):
        assert words in first
    assert "members" not in first
    assert message == "training: something happened"
    assert "epoch 4 of 4" in last
    assert "\x1b" not in stream.getvalue()


def test_no_kl_and_temperature_for_networks_without() -> None:
    text = report(1, kl=None, temperature=None, training=3, members=5).text()
    assert "KL" not in text
    assert "temperature" not in text
    assert "3 of 5 members" in text


def test_a_bar_on_a_terminal() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=140, _environ={"TERM": "xterm"})
    progress = BarProgress(console, "training")
    progress.start(1, 4)
    progress.epoch(report(2))
    progress.message("something happened")
    progress.epoch(report(3))
    progress.bar.refresh()
    progress.close()
    shown = stream.getvalue()
    assert "3/4" in shown
    assert "validation accuracy 91.00 %" in shown
    assert "something happened" in shown


def test_closing_before_the_start() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.close()
    assert stream.getvalue() == ""


def test_the_title_comes_first_and_once() -> None:
    stream = io.StringIO()
    progress = make_progress(stream, title="600 rows")
    assert stream.getvalue() == ""
    progress.message("resuming")
    progress.start(0, 4)
    progress.epoch(report(1))
    progress.close()
    assert stream.getvalue().splitlines()[:2] == ["600 rows", "training: resuming"]
    assert stream.getvalue().count("600 rows") == 1


REPORT = EpochReport(12, 200, 0.4531, 48.41, 0.9172, 0.69, 3, 3)


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (200, REPORT.text()),
        (55, "loss 0.453 KL 48.4 val. acc. 91.7 % τ 0.69 3/3 members"),
        (43, "loss 0.453 KL 48.4 val. acc. 91.7 % τ 0.69"),
        (36, "loss 0.453 val. acc. 91.7 % τ 0.69"),
        (30, "loss 0.453 val. acc. 91.7 %"),
        (20, "val. acc. 91.7 %"),
        (3, ""),
    ],
)
def test_the_least_important_results_are_omitted_first(width: int, text: str) -> None:
    assert REPORT.short_text(width) == text


def test_a_terminal_without_greek_letters() -> None:
    assert REPORT.short_text(45, ascii_only=True) == "loss 0.453 val. acc. 91.7 % temperature 0.69"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160])
@pytest.mark.parametrize("label", ["training", "squad-factorized"])
def test_the_bar_is_one_line(width: int, label: str) -> None:
    console = Console(
        file=io.StringIO(), force_terminal=True, width=width, color_system=None, _environ={"TERM": "xterm"}
    )
    bar = BarProgress(console, label)
    bar.start(0, 200)
    bar.epoch(REPORT)
    lines = console.render_lines(bar.bar.get_renderable(), pad=False)
    bar.close()
    assert len(lines) == 1
    shown = "".join(segment.text for segment in lines[0])
    assert len(shown) <= width
    assert "12/200" in shown
    if width >= 80:
        assert "91.7" in shown
        assert "left" in shown
        assert "…" not in shown
