"""Atomic writing, bounded reading and locking of files.

Everything the library writes goes through this package: a full disk, a crash or ``kill -9`` leaves either the old file
or the new one, never a partial one, and new files have the permissions that the user's umask allows.
"""

from squad.files.locking import locked
from squad.files.reading import Unpacking, opened, read_bytes, read_text
from squad.files.scratch import aside_of, left_aside, scratch_beside, sweep
from squad.files.writing import make_folder, replacing, replacing_all, sync_folder, write_bytes, write_json, write_text

__all__ = [
    "Unpacking",
    "aside_of",
    "left_aside",
    "locked",
    "make_folder",
    "opened",
    "read_bytes",
    "read_text",
    "replacing",
    "replacing_all",
    "scratch_beside",
    "sweep",
    "sync_folder",
    "write_bytes",
    "write_json",
    "write_text",
]
