"""Atomic writing, bounded reading and locking of files.

Everything the library writes goes through this package: a full disk, a crash or ``kill -9`` leaves either the old file
or the new one, never a partial one, and new files have the permissions that the user's umask allows.
"""

from squad.files.locking import file_lock
from squad.files.reading import Unpacking, open_regular, read_bytes, read_text
from squad.files.scratch import aside_of, left_aside, remove_abandoned, scratch_beside
from squad.files.writing import (
    atomic_write,
    atomic_write_all,
    create_new,
    make_folder,
    move_into_place,
    sync_folder,
    write_bytes,
    write_json,
    write_text,
)

__all__ = [
    "Unpacking",
    "aside_of",
    "atomic_write",
    "atomic_write_all",
    "create_new",
    "file_lock",
    "left_aside",
    "make_folder",
    "move_into_place",
    "open_regular",
    "read_bytes",
    "read_text",
    "remove_abandoned",
    "scratch_beside",
    "sync_folder",
    "write_bytes",
    "write_json",
    "write_text",
]
