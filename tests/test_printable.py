"""Text that a terminal shows and does not obey."""

import string
import sys
import unicodedata

import pytest

from squad.printable import one_line, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Größe (µm) 年齢 \U0001f469\u200d\u2695", "Größe (µm) 年齢 \U0001f469\u200d\u2695"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),  # C1: what ESC [ is in one byte
        ("a\u202eb\u2066c\u200fd\u061ce", "a\\u202eb\\u2066c\\u200fd\\u061ce"),
        ("a\tb\rc\x00\x7f", "a\\tb\\rc\\x00\\x7f"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\udc80\ud800", "\\udc80\\ud800"),
        ("\ufeffid", "\\ufeffid"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_one_line() -> None:
    assert one_line("a\nb\r\nc\u2028d\x85e\x1b") == "a b c d e\\x1b"


def test_no_character_gets_through() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    left = printable(every, keep="")
    left.encode()  # no halves
    assert {letter for letter in left if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")} == {
        "\u200c",
        "\u200d",
    }
    assert set(string.printable[:95]) <= set(left)
