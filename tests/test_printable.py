"""Escaping of characters that control a terminal."""

import string
import unicodedata

import pytest

from squad.printable import one_line, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Größe (µm) 年齢 \U0001f469\u200d\u2695", "Größe (µm) 年齢 \U0001f469\u200d\u2695"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),  # C1: ESC [ in one byte
        ("a\u202eb\u2066c\u200fd\u061ce", "a\\u202eb\\u2066c\\u200fd\\u061ce"),
        ("a\tb\rc\x00\x7f", "a\\tb\\rc\\x00\\x7f"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\udc80\ud800", "\\udc80\\ud800"),
        ("\ufeffid", "\\ufeffid"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_one_line() -> None:
    assert one_line("a\nb\r\nc\u2028d\x85e\x1b") == "a b c d e\\x1b"


def test_every_control_character_is_escaped() -> None:
    # All planes that have assigned characters other than private use and ideographs.
    every = "".join(map(chr, (*range(0x20000), *range(0xE0000, 0xE1000))))
    left = printable(every, keep="")
    left.encode()  # no surrogates
    assert {char for char in left if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")} == {
        "\u200c",
        "\u200d",
    }
    assert set(string.printable[:95]) <= set(left)
