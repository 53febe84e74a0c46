"""Seeded mutations of files: bytes changed, cut, duplicated, moved, or replaced by input that parsers mishandle."""

import random
import struct
from collections.abc import Iterator

__all__ = ["damaged"]

#: Input that parsers are known to mishandle.
PIECES = (
    b"\0",
    b"\xff",
    b'"',
    b"\r",
    b"\n",
    b",",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"nan",
    b"-1",
    b"1e999",
    b"9" * 40,
    b"{" * 50,
    b"[" * 2000,
    b"\x80abc",
    b"PAR1",
    b"PK\x05\x06",
    b"\x1f\x8b",
    b"\x93NUMPY",
    b"NaN",
    b"Infinity",
    b"null",
    b"true",
    b'"\\ud800"',
    b"-0.0",
    struct.pack("<q", -1),
    struct.pack("<q", 2**62),
    struct.pack("<i", 2**31 - 1),
)


def damaged(data: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Yield damaged copies of ``data``, each with one to four faults."""
    source = random.Random(seed)
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(source.choice((1, 1, 2, 4))):
            _fault(changed, source)
        yield bytes(changed)


def _fault(data: bytearray, source: random.Random) -> None:
    if not data:
        data += source.randbytes(4)
        return
    place = source.randrange(len(data))
    # Formats have headers at both ends, where faults have more effect.
    if source.random() < 0.5:
        place = (
            min(len(data) - 1, source.randrange(128)) if source.random() < 0.5 else max(0, len(data) - 1 - place % 128)
        )
    end = min(len(data), place + source.choice((1, 2, 4, 8, 64)))
    kind = source.randrange(8)
    if kind == 0:
        data[place] ^= 1 << source.randrange(8)
    elif kind == 1:
        data[place] = source.randrange(256)
    elif kind == 2:
        del data[place:end]
    elif kind == 3:
        del data[place:]
    elif kind == 4:
        data[place:place] = data[place:end] * source.choice((1, 2, 50))
    elif kind == 5:
        data[place:end] = source.choice(PIECES)
    elif kind == 6:
        data[place:place] = source.choice(PIECES)
    else:
        other = source.randrange(len(data))
        data[place:end] = data[other : other + end - place]
