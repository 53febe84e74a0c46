"""Texts of several lines on a screen."""

import pytest

from squad.cli.terminal import facts, tell_paragraphs, wrapped

TEXT = (
    "Certified at risk 5 %, confidence level 99 %: accepts 672 of 2,000 calibration cases (33.6 %), 23 of them wrong.\n"
    " - new cases and the 2,000 calibration cases come from the same source, drawn independently;\n"
    "   blue   above 0.5167   220 of 308 (71.4 %)   12 wrong, 12 missed cat, 17 false dog, 30 of another kind"
)


@pytest.mark.parametrize("width", range(30, 121))
def test_lines_are_broken_between_words_and_below_their_beginning(width: int) -> None:
    shown = wrapped(TEXT, width)
    lines = shown.split("\n")
    assert all(len(line) <= width for line in lines)
    assert shown.split() == TEXT.split()
    assert not any(line.lstrip().startswith("%") for line in lines)  # 5 % stays together
    starts = [line for line in lines if line.startswith((" - ", "   blue", "Certified"))]
    assert len(starts) == 3
    place = lines.index(starts[1])
    assert all(line.startswith("   ") for line in lines[place + 1 :])
    assert wrapped(TEXT, 200) == TEXT


def test_a_long_word_is_not_broken() -> None:
    assert wrapped(f"a {'b' * 50} c", 20) == f"a\n{'b' * 50}\nc"


def test_only_a_terminal_gets_broken_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    tell_paragraphs(TEXT)
    assert capsys.readouterr().out == f"{TEXT}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    tell_paragraphs(TEXT)
    assert capsys.readouterr().out == f"{wrapped(TEXT, 60)}\n"


def test_facts_have_no_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    facts("it", [("path", "a\nb\x1b")])
    assert "a\\nb\\x1b" in capsys.readouterr().out
