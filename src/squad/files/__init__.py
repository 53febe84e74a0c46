"""Atomic writing, bounded reading and locking of files.

Everything the library writes goes through this package: a full disk, a crash or ``kill -9`` leaves either the old file
or the new one, never a partial one, and new files have the permissions that the user's umask allows.
"""

from squad.files.locking import file_lock
from squad.files.reading import Unpacking, open_regular, read_bytes, read_text
from squad.files.scratch import abandoned_backups, backup_path, remove_abandoned, scratch_path
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
    "abandoned_backups",
    "atomic_write",
    "atomic_write_all",
    "backup_path",
    "create_new",
    "file_lock",
    "make_folder",
    "move_into_place",
    "open_regular",
    "read_bytes",
    "read_text",
    "remove_abandoned",
    "scratch_path",
    "sync_folder",
    "write_bytes",
    "write_json",
    "write_text",
]
