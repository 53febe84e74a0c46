"""The lock files pin the versions of constraints.txt with hashes, and make installs from them."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools import lock_hashes

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", "requirements-dev.lock")


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    found = [line.partition(" ")[0].split("==") for line in lines if re.match(r"[A-Za-z]", line)]
    return {canonicalize_name(name): version for name, version in found}


def test_every_pin_but_torch_is_locked() -> None:
    run, dev = map(pins, LOCKS)
    assert not set(run) & set(dev)
    assert {**run, **dev, "torch": pins("constraints.txt")["torch"]} == pins("constraints.txt"), "run `make lock`"


@pytest.mark.parametrize("name", LOCKS)
def test_every_entry_has_hashes(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    body = text.partition("\n#")[2].partition("\n")[2]
    entries = re.findall(
        r"^[\w.-]+==[\w.]+(?: ; [^\\\n]+)?(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n", body, re.MULTILINE
    )
    assert "".join(entries) == body
    assert "://" not in text


def test_dependencies_are_in_requirements_lock() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]}
    assert needed - {"torch"} | {"hatchling", "editables"} <= set(pins("requirements.lock"))
    extras = [Requirement(text) for extra in project["optional-dependencies"].values() for text in extra]
    both = {**pins("requirements.lock"), **pins("requirements-dev.lock")}
    for one in (one for one in extras if one.name != "squad-torch"):
        assert one.specifier.contains(both[canonicalize_name(one.name)]), one


def test_only_torch_and_the_project_are_installed_without_hashes() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "LOCKED := $(PIP) install --require-hashes --no-deps" in text
    for lock in LOCKS:
        assert f"$(LOCKED) {lock}" in text
    # Installed without hashes: the project itself, which brings torch, and libraries for two benchmarks.
    by_version = re.findall(r"^\t\$\(INSTALL[^)]*\) (.*)", text, re.MULTILINE)
    assert all("--editable ." in line or "--editable '.[dev]'" in line or "benchmarks/" in line for line in by_version)


def test_links_of_an_index_page() -> None:
    links = lock_hashes.Links()
    links.feed(
        '<a href="../../p/ab/some_thing-1.0-py3-none-any.whl#sha256=aa">x</a><a href="some-thing-1.0.tar.gz#sha256=bb">'
        '<a href="some_thing-1.0.post1-py3-none-any.whl#sha256=cc"><a href="some-thing-1.0.zip">'
        '<a href="some_thing-1.0%2Bcpu-py3-none-any.whl#sha256=dd">'
    )
    version = Version("1.0")
    of = {file for file in links.found if lock_hashes.version_of("Some.Thing", file) == version}
    assert of == {"some_thing-1.0-py3-none-any.whl", "some-thing-1.0.tar.gz"}
    assert lock_hashes.version_of("other", "some-thing-1.0.tar.gz") is None
    assert lock_hashes.version_of("some-thing", "some-thing-1.0.exe") is None


def test_a_package_for_some_systems_has_a_marker() -> None:
    linux = {"t-1-cp311-cp311-manylinux_2_28_x86_64.whl": "aa", "t-1-cp312-cp312-manylinux_2_28_x86_64.whl": "bb"}
    assert lock_hashes.entry("t", "1", linux) == (
        "t==1 ; sys_platform == 'linux' \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
    )
    for more in ("t-1.tar.gz", "t-1-py3-none-any.whl"):
        assert ";" not in lock_hashes.entry("t", "1", {**linux, more: "cc"})
    everywhere = {"t-1-cp311-cp311-win_amd64.whl": "cc", "t-1-cp311-cp311-macosx_11_0_arm64.whl": "dd"}
    assert ";" not in lock_hashes.entry("t", "1", {**linux, **everywhere})
    assert "darwin' or sys_platform == 'win32'" in lock_hashes.entry("t", "1", everywhere)
