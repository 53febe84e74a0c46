"""Progress of a search: lines in a file, a bar on a terminal."""

import io

import pytest
from rich.console import Console

from squad.search.progress import (
    BarSearchProgress,
    PlainSearchProgress,
    Remaining,
    SearchProgress,
    SilentSearchProgress,
    Snapshot,
    duration,
    make_progress,
)

COVERAGE = "coverage@risk=0.02,delta=0.01"


class Clock:
    """A clock that advances on request."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def snapshot(done: int, best: float | None = None, **changes: object) -> Snapshot:
    values = {"total": 700, "running": 32, "best_trial": None if best is None else 7, "objective": COVERAGE}
    return Snapshot(done=done, best=best, **{**values, **changes})  # type: ignore[arg-type]


def test_no_estimate_before_the_first_trial_ends() -> None:
    clock = Clock()
    remaining = Remaining(300, clock)
    clock.now += 60
    # 300 of earlier runs say nothing about this one.
    assert remaining.seconds(snapshot(300)) is None
    assert remaining.seconds(snapshot(700)) == 0


def test_the_estimate_uses_trials_of_this_run() -> None:
    clock = Clock()
    remaining = Remaining(300, clock)
    clock.now += 60
    # One at a time: 20 trials in 60 s, 380 left.
    assert remaining.seconds(snapshot(320, running=0)) == pytest.approx(60 * 380 / 20)
    # Those that run count for half: 32 of them are 16 that are done, and 16 that are left.
    assert remaining.seconds(snapshot(320)) == pytest.approx(60 * (380 - 16) / (20 + 16))
    # Surplus running trials of other workers do not count.
    assert remaining.seconds(snapshot(690)) == pytest.approx(60 * (10 - 5) / (390 + 5))


def test_the_estimate_for_a_steady_search() -> None:
    """32 slots and trials of 30 to 60 s: after the first dozens, the estimate must be within a fifth of the truth."""
    clock = Clock()
    begun = clock.now
    remaining = Remaining(0, clock)
    ends = sorted([begun + 30 + slot for slot in range(32)])
    told = []
    for done in range(1, 701):
        clock.now = ends.pop(0)
        ends = sorted([*ends, clock.now + 30 + done % 31])
        told.append((done, clock.now, remaining.seconds(snapshot(done, running=32))))
    over = clock.now
    for done, now, left in told:
        assert left is not None
        if 32 <= done <= 600:
            assert left == pytest.approx(over - now, rel=0.2)


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "?"), (0, "0:00"), (41.2, "0:42"), (754, "12:34"), (5025, "1:23:45")]
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_lines() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = PlainSearchProgress(stream, clock=clock)
    progress.start(0, 700)
    progress.update(snapshot(0))
    clock.now += 30
    progress.update(snapshot(10, 0.6951, epochs_per_second=412.34))
    progress.message("something happened")
    first, second, told = stream.getvalue().splitlines()
    assert first == "search: 0 of 700 trials, 32 running, ? left"
    assert second == "search: 10 of 700 trials, best coverage 69.5 % in trial 7, 32 running, 412 epochs/s, 12:58 left"
    assert told == "search: something happened"
    assert "\x1b" not in stream.getvalue()


def test_lines_for_new_best_values_and_every_ten_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = PlainSearchProgress(stream, clock=clock)
    progress.start(0, 700)

    def lines(done: int, best: float, after: float) -> int:
        before = stream.getvalue().count("\n")
        clock.now += after
        progress.update(snapshot(done, best))
        return stream.getvalue().count("\n") - before

    assert lines(1, 0.5, 0) == 1
    assert lines(2, 0.5, 5) == 0
    assert lines(3, 0.6, 1) == 1  # better
    assert lines(4, 0.6, 9) == 0
    assert lines(5, 0.6, 2) == 1  # 11 s since the last
    assert lines(5, 0.6, 30) == 0  # nothing has changed
    assert lines(5, 0.6, 31) == 1  # a sign of life


def test_the_final_state_is_printed_once() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = PlainSearchProgress(stream, clock=clock)
    progress.start(0, 2)
    progress.update(snapshot(1, 0.5, total=2))
    progress.update(snapshot(2, 0.5, total=2, running=0))
    progress.close()
    progress.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[-1] == "search: 2 of 2 trials, best coverage 50.0 % in trial 7, 0 running"


def test_closing_without_a_line() -> None:
    stream = io.StringIO()
    PlainSearchProgress(stream).close()
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("objective", "best", "text"),
    [
        (COVERAGE, 0.6951, "best coverage 69.5 %"),
        ("accuracy", 0.9, "best accuracy 90.0 %"),
        # The negative AURC is maximized; the AURC is displayed.
        ("aurc", -0.01234, "best AURC 0.01234"),
    ],
)
def test_formats_of_values(objective: str, best: float, text: str) -> None:
    assert f", {text} in trial 7" in snapshot(10, best, objective=objective).text()
    assert snapshot(10, best, objective=objective).fitted(len(text)) == text


SNAPSHOT = snapshot(123, 0.6951, best_trial=101, epochs_per_second=412.0)


@pytest.mark.parametrize(
    ("room", "text"),
    [
        (80, "best coverage 69.5 % (trial 101), 32 running, 412 epochs/s"),
        (50, "best coverage 69.5 % (trial 101), 32 running"),
        (40, "best coverage 69.5 %, 32 running"),
        (30, "best coverage 69.5 %"),
        (10, "69.5 %"),
        (3, ""),
    ],
)
def test_shortening(room: int, text: str) -> None:
    assert SNAPSHOT.fitted(room) == text


def terminal(width: int) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None, _environ={"TERM": "xterm"})


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 160])
@pytest.mark.parametrize("elapsed", [0.0, 60.0, 36000.0])
@pytest.mark.parametrize("best", [None, 0.6951, 1.0])
def test_the_bar_is_one_line(width: int, elapsed: float, best: float | None) -> None:
    console, clock = terminal(width), Clock()
    bar = BarSearchProgress(console, clock=clock)
    bar.start(100, 700)
    clock.now += elapsed
    bar.update(snapshot(123, best, epochs_per_second=412.0))
    lines = console.render_lines(bar.bar.get_renderable(), pad=False)
    bar.close()
    assert len(lines) == 1
    shown = "".join(segment.text for segment in lines[0])
    assert len(shown) <= width
    if width >= 40:
        assert "123/700" in shown
        assert "…" not in shown
        assert " left" in shown
    if width >= 80 and best is not None:
        assert f"best coverage {100 * best:.1f} %" in shown
        assert "32 running" in shown


def test_messages_above_the_bar() -> None:
    console = terminal(80)
    bar = BarSearchProgress(console)
    bar.message("before")
    bar.start(0, 700)
    bar.update(snapshot(0))
    bar.message("while it [runs]")
    bar.close()
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "before" in shown
    assert "while it [runs]" in shown


def test_make_progress() -> None:
    stream = io.StringIO()
    assert isinstance(make_progress(stream), PlainSearchProgress)
    made: list[SearchProgress] = [make_progress(stream), SilentSearchProgress()]
    for progress in made:
        progress.start(0, 1)
        progress.update(snapshot(1, 0.5, total=1))
        progress.close()
    assert stream.getvalue().count("\n") == 1
