"""tools/check_site.py finds broken links of the site."""

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[1] / "tools" / "check_site.py"
spec = importlib.util.spec_from_file_location("check_site", TOOL)
assert spec is not None
assert spec.loader is not None
check_site = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_site)


def site(folder: Path, body: str) -> Path:
    (folder / "guides").mkdir()
    (folder / "guides" / "one.html").write_text('<h1 id="top">One</h1><a href="../index.html#start">back</a>')
    (folder / "index.html").write_text(f'<h1 id="start">Start</h1>{body}')
    return folder


def test_good_links_pass(tmp_path: Path) -> None:
    body = '<a href="guides/one.html#top">one</a><a href="#start">up</a><a href="https://example.org/a?b=c">out</a>'
    assert list(check_site.problems(site(tmp_path, body))) == []
    assert check_site.main([str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ('<a href="guides/two.html">x</a>', "no such file"),
        ('<a href="guides/one.html#bottom">x</a>', "no such anchor"),
        ('<a href="#nowhere">x</a>', "no such anchor"),
        ('<a href="../../secret.html">x</a>', "outside the site"),
        ('<a href="http://example.org">x</a>', "not https"),
        ('<a href="https://nothing">x</a>', "no valid host"),
        ('<img src="missing.png">', "no such file"),
        ('<script src="https://example.org/a.js"></script>', "loaded from elsewhere"),
        ('<link rel="stylesheet" href="https://example.org/a.css">', "loaded from elsewhere"),
        ("<style>@import url(https://example.org/a.css);</style>", "loaded from elsewhere"),
        ('<img srcset="missing.png 1x, other.png 2x">', "no such file"),
        ('<img srcset="https://example.org/a.png 2x">', "loaded from elsewhere"),
        ('<video src="//example.org/a.mp4"></video>', "loaded from elsewhere"),
        ('<object data="https://example.org/a.svg"></object>', "loaded from elsewhere"),
    ],
)
def test_a_bad_link_is_found(tmp_path: Path, body: str, wrong: str) -> None:
    (line, *_) = check_site.problems(site(tmp_path, body))
    assert line.startswith("index.html: ")
    assert line.endswith(wrong)
    assert check_site.main([str(tmp_path)]) == 1


@pytest.mark.parametrize(
    "style", ['@import "https://example.org/a.css";', "p { background: url(//example.org/a.png) }"]
)
def test_what_a_style_sheet_loads_is_found(tmp_path: Path, style: str) -> None:
    site(tmp_path, "")
    (tmp_path / "style.css").write_text(style)
    (line,) = check_site.problems(tmp_path)
    assert line.startswith("style.css: ")
    assert line.endswith("loaded from elsewhere")


def test_an_empty_site_is_an_error(tmp_path: Path) -> None:
    assert check_site.main([str(tmp_path)]) == 1
