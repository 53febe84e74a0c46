"""Damaged files give a SquadError or a result, never another exception, and never take long.

Bounded and seeded.  For a longer campaign: ``SQUAD_FUZZ=20 pytest tests/slow/test_fuzz_files.py``, which tries twenty
times as many, of other seeds.
"""

import gzip
import io
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from squad import artifact
from squad.data.tables import Arrays, Table, labels, read
from squad.errors import SquadError
from squad.records import Record
from squad.selective.certificate import Certificate
from squad.selective.certify import certify
from squad.train import checkpoint
from tests.slow.mutations import damaged

#: Factor on the number of cases, and seeds.
TIMES = int(os.environ.get("SQUAD_FUZZ", "1"))
SEED = 20 if TIMES == 1 else int(time.time())

#: Time limit in seconds for one of these small files, on a busy machine.
PATIENCE = 5.0


@pytest.fixture(autouse=True)
def warned() -> Iterator[None]:
    """Ignore warnings of numpy and pandas, as for a user."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def outcome(work: Callable[[], Any], what: bytes) -> Any:
    """Return the result; None for a SquadError."""
    began = time.monotonic()
    try:
        return work()
    except SquadError:
        return None
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}, of seed {SEED} and {what[:2000]!r}") from error
    finally:
        assert time.monotonic() - began < PATIENCE, what[:2000]


FRAME = pd.DataFrame(
    {
        "age": [str(place) for place in range(40)],
        "sex": ["f", "m"] * 20,
        "note": ['say "hi", é', "two\nlines"] * 20,
        "y": ["ill", "well"] * 20,
    }
)


def packed(arrays: dict[str, Any], compressed: bool) -> bytes:
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **arrays)
    return buffer.getvalue()


def parquet(**options: Any) -> bytes:
    pytest.importorskip("pyarrow")
    buffer = io.BytesIO()
    FRAME.assign(number=np.arange(40.0), kind=pd.Categorical(FRAME["sex"])).to_parquet(buffer, **options)
    return buffer.getvalue()


def npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(60.0).reshape(20, 3))
    return buffer.getvalue()


ARRAYS = {"x": np.arange(60.0).reshape(20, 3), "y": np.asarray(["a", "b"] * 10)}
CSV = FRAME.to_csv(index=False).encode()
TABLES: dict[str, tuple[Callable[[], bytes], int]] = {
    "a.csv": (lambda: CSV, 400),
    "a.tsv": (lambda: FRAME.to_csv(index=False, sep="\t").encode(), 200),
    "a.csv.gz": (lambda: gzip.compress(CSV), 300),
    "a.npz": (lambda: packed(ARRAYS, False), 400),
    "b.npz": (lambda: packed(ARRAYS, True), 300),
    "a.npy": (npy, 300),
    "a.parquet": (parquet, 300),
    "b.parquet": (lambda: parquet(compression="gzip"), 150),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str, tmp_path: Path) -> None:
    make, count = TABLES[name]
    path = tmp_path / name
    for content in damaged(make(), SEED, count * TIMES):
        path.write_bytes(content)
        found = outcome(lambda: read(path, strict=False), content)
        if isinstance(found, Table):
            assert len(found) > 0
            outcome(partial(labels, found, found.columns[-1], strict=False), content)
        elif isinstance(found, Arrays):
            assert found.x.size > 0
            outcome(partial(labels, found, strict=False), content)


@pytest.mark.parametrize("options", [{"decimal": ","}, {"encoding": "utf-16"}, {"encoding": "cp1252", "decimal": ","}])
def test_other_formats(options: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    text = "name;größe;x\n" + "José;1.234,5;3,14\n" * 20
    for content in damaged(text.encode(options.get("encoding", "utf-8")), SEED, 150 * TIMES):
        path.write_bytes(content)
        outcome(lambda: read(path, strict=False, **options), content)


def test_models(tmp_path: Path) -> None:
    """A model folder with any changed file is refused."""
    rows = {"rows": {"rows": torch.arange(9), "groups": torch.arange(2)}}
    tensors = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.zeros(2)}
    folder = artifact.save(tmp_path / "model", tensors, {"record": {"notes": ["é", 1.5, None]}}, extras=rows)
    config = json.loads((folder / "config.json").read_bytes())

    def everything() -> Any:
        found, said = artifact.load(folder)
        extra = artifact.load_extra(folder, "rows", said)
        return {name: tensor.tolist() for name, tensor in found.items()}, said, extra is not None

    whole = everything()
    for file in sorted(folder.iterdir()):
        before = file.read_bytes()
        for content in damaged(before, SEED, 250 * TIMES):
            file.write_bytes(content)
            found = outcome(everything, content)
            # Whitespace of JSON may differ, but not its content.
            assert found is None or found == whole, content
        file.write_bytes(before)
    assert everything()[1] == config


def test_certificates(tmp_path: Path) -> None:
    made = certify(np.linspace(0, 1, 300), np.arange(300) % 50 != 7, risk=0.1)
    path = made.save(tmp_path / "c.json")
    before = path.read_bytes()
    for content in damaged(before, SEED, 600 * TIMES):
        path.write_bytes(content)
        found = outcome(lambda: Certificate.load(path), content)
        assert found is None or found == made, content


def test_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    checkpoint.write(path, {"a": torch.arange(6.0), "b": torch.zeros(2, 2)}, {"epoch": 3, "best": [0.5]}, "print")
    before = path.read_bytes()
    whole = checkpoint.read(path, "print")
    assert whole is not None
    for content in damaged(before, SEED, 500 * TIMES):
        path.write_bytes(content)
        found = outcome(lambda: checkpoint.read(path, "print"), content)
        if found is not None:
            assert found[1] == whole[1]
            assert {name: tensor.tolist() for name, tensor in found[0].items()} == {
                name: tensor.tolist() for name, tensor in whole[0].items()
            }


def test_records(tmp_path: Path) -> None:
    path = Record("test", "one", {"a": 1}, {"b": [1.5, None]}).save(tmp_path / "r.json")
    before = path.read_bytes()
    for content in damaged(before, SEED, 500 * TIMES):
        path.write_bytes(content)
        found = outcome(lambda: Record.load(path), content)
        assert found is None or isinstance(found, Record)
