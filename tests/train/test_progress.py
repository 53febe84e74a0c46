"""What a person sees: lines in a file, a bar on a terminal."""

import io

from rich.console import Console

from squad.train import EpochReport, make_progress
from squad.train.progress import BarProgress, PlainProgress


def report(epoch: int, **changes: object) -> EpochReport:
    values = {"loss": 0.5, "kl": 12.0, "accuracy": 0.91, "temperature": 0.75, "training": 1, "members": 1}
    return EpochReport(epoch, 4, **{**values, **changes})  # type: ignore[arg-type]


def test_lines_say_what_is_asked_for() -> None:
    stream = io.StringIO()
    progress = make_progress(stream, "training")
    assert isinstance(progress, PlainProgress)
    progress.start(0, 4)
    for epoch in range(1, 5):
        progress.epoch(report(epoch))
    progress.message("something happened")
    progress.close()
    first, told, last = stream.getvalue().splitlines()
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
    assert told == "training: something happened"
    assert "epoch 4 of 4" in last
    assert "\x1b" not in stream.getvalue()


def test_what_a_network_does_not_have_is_not_shown() -> None:
    text = report(1, kl=None, temperature=None, training=3, members=5).text()
    assert "KL" not in text
    assert "temperature" not in text
    assert "3 of 5 members" in text


def test_a_bar_on_a_terminal() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=140)
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


def test_closing_before_anything_was_said() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.close()
    assert stream.getvalue() == ""
