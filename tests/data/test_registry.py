"""Where datasets are looked for, and what happens when they are nowhere."""

import gzip
import hashlib
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import platformdirs
import pytest

from squad.data import download as module
from squad.data import registry
from squad.data.registry import DATASETS, RemoteFile, dataset, find, locate_or_fetch, search_folders
from squad.errors import ArgumentError, DataError
from tests.data.site import Site, serve

DEBIAN = dict(registry.SYSTEM_FOLDERS)
NAMES = [file.name for file in DATASETS["fashion-mnist"].files]


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No dataset anywhere, whatever this machine really has; no pauses; no proxy."""
    monkeypatch.delenv("SQUAD_DATA", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "cache" / name))
    monkeypatch.setattr(registry, "SYSTEM_FOLDERS", {"fashion-mnist": tmp_path / "system"})
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")


def fill(folder: Path, names: list[str] = NAMES) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def publish(monkeypatch: pytest.MonkeyPatch, address: str) -> dict[str, bytes]:
    """Make the address the publisher of Fashion-MNIST, of small files: their bodies by name."""
    bodies = {name: gzip.compress(name.encode()) for name in NAMES}
    files = tuple(
        RemoteFile(name, f"{address}/{name}", "md5:" + hashlib.md5(name.encode()).hexdigest(), "gzip", 30)
        for name in NAMES
    )
    monkeypatch.setitem(DATASETS, "fashion-mnist", replace(DATASETS["fashion-mnist"], files=files))
    return bodies


def test_every_entry_is_complete() -> None:
    assert list(DATASETS) == ["digits", "fashion-mnist", "notmnist", "svhn"]
    for name, entry in DATASETS.items():
        assert entry.name == name
        assert len(set(entry.classes)) == 10
        assert all((entry.title, entry.licence, entry.homepage, entry.note))
        for file in entry.files:
            assert file.url.startswith("https://")
            assert file.fallback == "" or file.fallback.startswith("http://")
            assert file.url.endswith("/" + file.name)
            assert file.size_bytes > 0
            module._parse(file.checksum)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("fashionmnist", "fashion-mnist"), ("Fashion_MNIST", "fashion-mnist"), ("SVHN", "svhn"), ("digit", "digits")],
)
def test_suggestions_for_unknown_names(name: str, meant: str) -> None:
    message = f"one of 'digits', 'fashion-mnist', 'notmnist', 'svhn', got '{name}'. Did you mean '{meant}'?"
    for function in (dataset, search_folders, find, locate_or_fetch):
        with pytest.raises(ArgumentError) as error:
            function(name)
        assert str(error.value) == f"dataset must be {message}"


def test_no_suggestion_for_a_dissimilar_name() -> None:
    with pytest.raises(ArgumentError, match=r"got 'iris'\.$"):
        dataset("iris")


def test_the_order_of_search_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, variable = tmp_path / "named", tmp_path / "variable"
    monkeypatch.setenv("SQUAD_DATA", str(variable))
    expected = [
        named / "fashion-mnist",
        named,
        variable / "fashion-mnist",
        variable,
        tmp_path / "cache" / "squad" / "fashion-mnist",
        tmp_path / "system",
    ]
    assert search_folders("fashion-mnist", str(named)) == expected
    # Filled from the last to the first, each takes precedence over those behind it.
    assert find("fashion-mnist", named) is None
    for place in reversed(expected):
        fill(place)
        assert find("fashion-mnist", named) == place == locate_or_fetch("fashion-mnist", named)


def test_debians_folder() -> None:
    assert {"fashion-mnist": Path("/usr/share/datasets/fashion-mnist")} == DEBIAN


def test_an_empty_variable_and_a_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUAD_DATA", "")
    assert len(search_folders("svhn")) == 1
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SQUAD_DATA", "~/data")
    assert search_folders("svhn")[:2] == [tmp_path / "data" / "svhn", tmp_path / "data"]


def test_a_folder_must_hold_all_files(tmp_path: Path) -> None:
    fill(tmp_path / "a" / "fashion-mnist", NAMES[:3])
    (tmp_path / "a" / "fashion-mnist" / NAMES[3]).mkdir()
    assert find("fashion-mnist", tmp_path / "a") is None


def test_a_dataset_without_files() -> None:
    assert search_folders("digits") == []
    assert find("digits") is None
    with pytest.raises(ArgumentError, match=r"got 'digits'\. .*package"):
        locate_or_fetch("digits")


def test_downloads_go_to_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    with serve(Site(cuts=[5])) as site:
        site.files = publish(monkeypatch, site.address)
        folder = locate_or_fetch("fashion-mnist", progress=lambda name, done, total: seen.append(name))
        assert folder == tmp_path / "cache" / "squad" / "fashion-mnist"
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == site.files
        assert list(dict.fromkeys(seen)) == NAMES
        count = len(site.requests)
        assert locate_or_fetch("fashion-mnist") == folder
        assert len(site.requests) == count


def test_downloads_go_to_named_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(Site()) as site:
        site.files = publish(monkeypatch, site.address)
        monkeypatch.setenv("SQUAD_DATA", str(tmp_path / "variable"))
        named = fill(tmp_path / "named" / "fashion-mnist", NAMES[:2])
        assert locate_or_fetch("fashion-mnist", tmp_path / "named") == named
        assert [name for name, _ in site.requests] == NAMES[2:]  # the others are somebody's own
        assert locate_or_fetch("fashion-mnist") == tmp_path / "variable" / "fashion-mnist"


def one_line(name: str, **options: bool) -> str:
    with pytest.raises(DataError) as error:
        locate_or_fetch(name, **options)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_message_when_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "cache" / "squad" / "fashion-mnist"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        publish(monkeypatch, address)
        fill(target, NAMES[:1])
        message = one_line("fashion-mnist")
        assert message.startswith("fashion-mnist is not on this machine")
        assert f"{address}/{NAMES[1]} cannot be reached (Connection refused)" in message
        assert f"{', '.join(NAMES[1:])} into {target}, " in message
        assert "--data-dir or SQUAD_DATA" in message


def test_downloads_that_are_not_allowed(tmp_path: Path) -> None:
    message = one_line("svhn", download=False)
    assert message.startswith("svhn is not on this machine")
    assert "https://ufldl.stanford.edu/housenumbers/ is not allowed" in message
    assert f"train_32x32.mat, test_32x32.mat into {tmp_path}/cache/squad/svhn, " in message
    assert "--data-dir or SQUAD_DATA" in message


def test_a_publisher_with_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(Site()) as site:
        site.files = publish(monkeypatch, site.address)
        site.files[NAMES[1]] = gzip.compress(b"something else")
        message = one_line("fashion-mnist")
        assert f"and {site.address}/{NAMES[1]} sent the wrong data (" in message
        assert f" {', '.join(NAMES[1:])} into " in message
        del site.files[NAMES[1]]
        assert re.search(rf"/{NAMES[1]} .*\(HTTP 404 Not Found\)", one_line("fashion-mnist"))


def test_all_but_notmnist_have_a_sha256() -> None:
    """MD5 collisions can be constructed; for the notMNIST archive no other checksum is known."""
    without = {name for name, entry in DATASETS.items() for file in entry.files if "sha256:" not in file.checksum}
    assert without == {"notmnist"}


@pytest.fixture
def without_tls(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Site, Site]]:
    """A publisher without files, and its fallback address with them."""
    with serve(Site()) as site, serve(Site()) as other:
        other.files = publish(monkeypatch, site.address)
        move(monkeypatch, fallback=other.address)
        yield site, other


def move(monkeypatch: pytest.MonkeyPatch, url: str | None = None, fallback: str | None = None) -> None:
    """Let the files of Fashion-MNIST come from other addresses."""
    entry = DATASETS["fashion-mnist"]
    files = tuple(
        replace(
            file,
            url=file.url if url is None else f"{url}/{file.name}",
            fallback=file.fallback if fallback is None else f"{fallback}/{file.name}",
        )
        for file in entry.files
    )
    monkeypatch.setitem(DATASETS, "fashion-mnist", replace(entry, files=files))


def test_the_fallback_without_tls_is_used_if_the_address_is_unreachable(
    without_tls: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, other = without_tls
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        move(monkeypatch, url=f"http://127.0.0.1:{free.getsockname()[1]}")
        folder = locate_or_fetch("fashion-mnist")
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == other.files
        other.files[NAMES[0]] = gzip.compress(b"something else")
        (folder / NAMES[0]).unlink()
        assert f"{other.address}/{NAMES[0]} sent the wrong data" in one_line("fashion-mnist")


@pytest.mark.parametrize("answer", ["wrong data", "too much", "cut"])
def test_the_fallback_without_tls_is_not_used_after_a_response(without_tls: tuple[Site, Site], answer: str) -> None:
    site, other = without_tls
    if answer == "wrong data":
        site.files = dict.fromkeys(NAMES, gzip.compress(b"something else"))
    elif answer == "cut":
        site.files, site.cuts = other.files, [1] * 100
    site.endless = answer == "too much"
    message = one_line("fashion-mnist")
    assert f"{site.address}/{NAMES[0]}" in message
    assert {"wrong data": "wrong data", "too much": "more than", "cut": "broke off"}[answer] in message
    assert not other.requests


def test_the_fallback_without_tls_is_used_if_the_file_is_missing(without_tls: tuple[Site, Site]) -> None:
    site, other = without_tls
    site.files = {}
    folder = locate_or_fetch("fashion-mnist")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == other.files
