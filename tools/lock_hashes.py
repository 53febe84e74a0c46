"""Write requirements.lock and requirements-dev.lock: constraints.txt with the SHA-256 of every file of each version.

Run manually (`make lock`), in the environment created by `make`.  pip chooses another file on another platform or with
another Python, so all files of a version are listed, with the hashes from the package index.  pip's configuration
determines the index; its address is not recorded.  torch is omitted: the CPU build, the CUDA build and the build in the
index have the same version and different files.
"""

import html.parser
import re
import ssl
import subprocess
import sys
import tomllib
import urllib.error
import urllib.parse
import urllib.request
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
#: Packages pinned by constraints.txt only, without hashes.
BY_VERSION = {"torch"}
#: Build dependencies: pyproject.toml names the first, which needs the second for an editable install.
BUILD = ("hatchling", "editables")
#: Platform tags of wheels, and the corresponding values of sys_platform.
SYSTEMS = {"linux": "linux", "macosx": "darwin", "win": "win32"}
HEADER = """\
# {what}, with the SHA-256 of every file of each version: pip refuses any other.
# Written by `make lock` from constraints.txt; do not edit.  torch is missing on purpose, see CONTRIBUTING.md.
"""


class Links(html.parser.HTMLParser):
    """Collects file names and their hashes from a page of a package index."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record a link to a file with a hash."""
        link = urllib.parse.urlsplit(dict(attrs).get("href") or "") if tag == "a" else None
        if link is not None and link.fragment.startswith("sha256="):
            name = urllib.parse.unquote(link.path.rpartition("/")[2])
            self.found[name] = link.fragment.removeprefix("sha256=")


def pip(*arguments: str) -> str:
    """Run pip and return its output."""
    return subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, check=True).stdout


def index() -> tuple[str, str | None]:
    """Return the address of pip's package index, and its certificate file, if configured."""
    settings = dict(re.findall(r"^(\S+?)='(.*)'$", pip("config", "list"), re.M))
    named = {name.rpartition(".")[2]: value for name, value in settings.items()}
    default = re.search(r"default\s+(https://[^)\s]+)\)", pip("install", "--help"))
    url = named.get("index-url") or (default[1] if default else "")
    if not url:
        sys.exit("pip does not report which index it uses. Name it: PIP_INDEX_URL=... make lock")
    return url.rstrip("/"), named.get("cert")


def page(url: str, cert: str | None, name: str) -> dict[str, str]:
    """Return the hashes of a package's files in the index, by file name."""
    trusted = ssl.create_default_context(cafile=cert)
    links = Links()
    with urllib.request.urlopen(f"{url}/{name}/", context=trusted, timeout=120) as answer:
        links.feed(answer.read().decode())
    return links.found


def version_of(name: str, file: str) -> Version | None:
    """Return the version of a file; None if it is not an installable file of this package."""
    try:
        parsed = parse_wheel_filename(file) if file.endswith(".whl") else parse_sdist_filename(file)
    except (InvalidSdistFilename, InvalidWheelFilename):
        return None
    return parsed[1] if parsed[0] == canonicalize_name(name) else None


def systems(files: list[str]) -> set[str] | None:
    """Return the systems that files are built for; None if one of them is platform-independent."""
    found = set()
    for file in files:
        if not file.endswith(".whl"):
            return None
        for tag in parse_wheel_filename(file)[3]:
            if tag.platform == "any":
                return None
            found |= {marker for start, marker in SYSTEMS.items() if start in tag.platform}
    return found


def entry(name: str, version: str, files: dict[str, str]) -> str:
    """Format the lines of one package."""
    for_some = systems(list(files))
    marker = ""
    if for_some is not None and for_some != set(SYSTEMS.values()):
        marker = " ; " + " or ".join(f"sys_platform == '{system}'" for system in sorted(for_some))
    hashes = "".join(f" \\\n    --hash=sha256:{digest}" for digest in sorted(set(files.values())))
    return f"{name}=={version}{marker}{hashes}\n"


def needed(roots: list[str]) -> set[str]:
    """Return the names of all installed packages that these requirements depend on, directly or indirectly."""
    found: set[str] = set()
    open_ = [Requirement(text) for text in roots]
    seen: set[tuple[str, str]] = set()
    while open_:
        requirement = open_.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            try:
                inner = requires(name) or []
            except PackageNotFoundError:  # only needed on another system
                continue
            found.add(name)
            parsed = [Requirement(text) for text in inner]
            open_ += [one for one in parsed if one.marker is None or one.marker.evaluate({"extra": extra})]
    return found


def main() -> None:
    """Write both lock files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    run = needed([*project["dependencies"], *BUILD])
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    url, cert = index()
    locks: dict[str, list[str]] = {"requirements.lock": [], "requirements-dev.lock": []}
    for name, version in pins.items():
        if canonicalize_name(name) in BY_VERSION:
            continue
        try:
            every = page(url, cert, canonicalize_name(name))
        except (urllib.error.URLError, TimeoutError) as cause:
            sys.exit(f"The index has no page for {name}: {cause}")
        files = {file: digest for file, digest in every.items() if version_of(name, file) == Version(version)}
        if not files:
            sys.exit(f"The index has no file of {name} {version}, or does not state its hash.")
        lock = "requirements.lock" if canonicalize_name(name) in run else "requirements-dev.lock"
        locks[lock].append(entry(name, version, files))
        print(f"{name} {version}: {len(files)} files")
    what = {
        "requirements.lock": "What the package needs, and what builds it",
        "requirements-dev.lock": "What its extras and its tests need beyond that",
    }
    for lock, entries in locks.items():
        (ROOT / lock).write_text(HEADER.format(what=what[lock]) + "".join(entries), encoding="utf-8")


if __name__ == "__main__":
    main()
