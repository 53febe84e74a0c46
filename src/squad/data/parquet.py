"""Read and write Parquet files with pyarrow, an optional dependency."""

import errno
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squad.errors import DataError
from squad.files import Unpacking, open_regular

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_frame", "require_pyarrow", "write_frame"]

#: Rows of a Parquet file decompressed between two checks of the limit.
BATCH_ROWS = 1 << 14


def require_pyarrow(path: Path, done: str) -> None:
    """Raise a :class:`DataError` if pyarrow is missing.

    Args:
        path: Parquet file, used in the error message.
        done: "read" or "written", used in the error message.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise DataError(
            f"{path} cannot be {done}: Parquet needs pyarrow. Install it with: pip install 'squad-torch[parquet]'"
        ) from None


def read_frame(path: Path) -> "pd.DataFrame":
    """Read a Parquet file, within the limit on decompressed sizes.

    Args:
        path: The Parquet file.

    Returns:
        The columns of the file.

    Raises:
        DataError: The file is damaged or has no columns, or pyarrow is not installed.
    """
    require_pyarrow(path, "read")
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            raise DataError(f"{path} is empty: it has 0 bytes.")
        try:
            frame = _decompress(file, Unpacking.of(size))
        except Exception as cause:  # pyarrow raises various exceptions for damaged files
            if isinstance(cause, OSError) and cause.errno == errno.EFBIG:
                raise
            reason = str(cause).splitlines()[0][:120] if str(cause) else type(cause).__name__
            raise DataError(f"{path} is not a Parquet file, or is damaged: {reason}") from cause
    if not len(frame.columns):
        raise DataError(f"{path} has no columns.")
    return frame


def _decompress(file: Any, unpacking: Unpacking) -> "pd.DataFrame":
    import pyarrow
    from pyarrow import parquet

    stored = parquet.ParquetFile(file)
    metadata = stored.metadata
    sizes = (metadata.row_group(position).total_byte_size for position in range(metadata.num_row_groups))
    # A constant column takes hardly a byte in the file, however many rows it has.
    unpacking.check(max(sum(sizes), metadata.num_rows * metadata.num_columns))
    batches, size = [], 0
    for batch in stored.iter_batches(BATCH_ROWS):
        size += batch.nbytes
        unpacking.check(size)
        batches.append(batch)
    whole = pyarrow.Table.from_batches(batches, stored.schema_arrow).unify_dictionaries()
    # pandas stores its index in such columns; they are not data.
    hidden = [name for name in whole.column_names if re.fullmatch(r"__index_level_\d+__", name)]
    return whole.drop_columns(hidden).to_pandas(ignore_metadata=True)


def write_frame(frame: "pd.DataFrame", file: Any, path: Path) -> None:
    """Write a data frame as Parquet.

    Args:
        frame: The data frame; its index is not written.
        file: Open binary file.
        path: Name of the file, used in error messages.
    """
    import pyarrow

    try:
        frame.to_parquet(file, index=False, engine="pyarrow")
    except pyarrow.ArrowException as cause:
        reason = str(cause).splitlines()[0][:120] if str(cause) else type(cause).__name__
        raise DataError(f"{path} cannot be written: Parquet cannot store some cells ({reason}).") from cause
