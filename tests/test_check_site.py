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
        ('<svg><image href="https://example.org/a.png"/></svg>', "loaded from elsewhere"),
        ('<svg><image xlink:href="missing.png"/></svg>', "no such file"),
        ('<svg><use href="https://example.org/a.svg#b"/></svg>', "loaded from elsewhere"),
        ('<svg><use href="#nowhere"/></svg>', "no such anchor"),
        ('<svg><a xlink:href="missing.html">x</a></svg>', "no such file"),
        ('<map><area href="missing.html"></map>', "no such file"),
        ('<link rel=ICON href="https://example.org/a.ico">', "loaded from elsewhere"),
        ("<style>@IMPORT url(HTTPS://example.org/a.css);</style>", "loaded from elsewhere"),
        ('<base href="https://example.org/">', "a base address"),
        ('<base href="guides/"><a href="one.html">x</a>', "a base address"),
        ('<a href="http://[bad">x</a>', "no valid address"),
        ('<img src="http://[bad">', "no valid address"),
        ('<a href="a%00b.html">x</a>', "no such file"),
        pytest.param(f'<a href="{"a" * 5000}.html">x</a>', "no such file", id="long path"),
        ('<img srcset="missing.png 1x, ">', "no such file"),
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


def test_a_base_without_an_address_is_allowed(tmp_path: Path) -> None:
    assert list(check_site.problems(site(tmp_path, '<base target="_blank">'))) == []


@pytest.mark.parametrize("name", ["latin.html", "latin.css"])
def test_a_file_that_is_not_utf8_is_found(name: str, tmp_path: Path) -> None:
    site(tmp_path, f'<a href="{name}#end">x</a>')
    (tmp_path / name).write_bytes('<p id="end">caf\u00e9</p>'.encode("latin-1"))
    assert list(check_site.problems(tmp_path)) == [f"{name}: not UTF-8"]
    assert check_site.main([str(tmp_path)]) == 1


@pytest.mark.parametrize("name", ["", "missing", "_static", "file"])
def test_a_site_without_pages_is_an_error(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "_static":
        (tmp_path / name).mkdir()
        (tmp_path / name / "template.html").write_text("")
        name = ""
    elif name == "file":
        (tmp_path / name).write_text("")
    assert check_site.main([str(tmp_path / name)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"{tmp_path / name} has no pages. Build the site first: make site\n"


@pytest.mark.parametrize("arguments", [[], ["one", "two"]])
def test_wrong_usage_is_an_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert check_site.main(arguments) == 2
    assert capsys.readouterr().err.startswith("Usage: ")
