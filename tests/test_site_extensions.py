"""Extensions of the documentation site: signatures and docstrings, the order of the gallery, links and images."""

from pathlib import Path

import pytest
from docutils import nodes
from sphinx.util.inspect import signature, stringify_signature

import squad
from docs.extensions import repository_links
from docs.extensions.gallery_order import ORDER, GalleryOrder
from docs.extensions.mathml import keep_punctuation
from docs.extensions.readable_docstrings import list_see_also, shorten_types
from docs.extensions.readable_signatures import shorten
from squad.metrics import aurc

GALLERY = Path(__file__).resolve().parents[1] / "docs" / "gallery"


@pytest.mark.parametrize("subject", [squad.certify, aurc, squad.Predictor.certify, squad.Certificate])
def test_signatures_name_aliases_instead_of_expanding_them(subject: object) -> None:
    written = stringify_signature(signature(subject), unqualified_typehints=True)  # type: ignore[arg-type]
    short = shorten(written)
    assert short != written
    for internal in ("_Buffer", "_NestedSequence", "ndarray[", "<factory>"):
        assert internal not in short


def test_types_of_arrays_have_the_name_of_their_alias() -> None:
    written = "numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.int64]]"
    assert shorten_types(f"   :type: {written} | None") == "   :type: NDArray[int64] | None"
    smart = "~numpy.ndarray[tuple[~typing.Any, ...], ~numpy.dtype[~numpy.float64]]"
    assert shorten_types(f":type: tuple[{smart}, {smart}]") == ":type: tuple[NDArray[float64], NDArray[float64]]"
    assert shorten_types(":type: numpy.ndarray") == ":type: numpy.ndarray"


def test_punctuation_stays_with_its_formula() -> None:
    paragraph = nodes.paragraph(
        "", "", nodes.math("", "x"), nodes.Text("), then "), nodes.math("", "y"), nodes.Text(" and")
    )
    keep_punctuation(None, paragraph, "page")  # type: ignore[arg-type]
    first, second = paragraph.findall(nodes.math)
    assert (first.get("after"), second.get("after")) == ("),", None)
    assert paragraph.astext() == "x then y and"


def test_see_also_becomes_a_list_of_links() -> None:
    docstring = [
        "One.",
        "",
        "See Also:",
        "    a.b: First,",
        "        continued.",
        "    c: Second.",
        "",
        "Raises:",
        "    X: Y.",
    ]
    assert list_see_also(docstring) == [
        *docstring[:3],
        "    - :py:obj:`.a.b`: First,",
        "          continued.",
        "    - :py:obj:`.c`: Second.",
        *docstring[6:],
    ]


def test_every_example_has_one_place_in_the_gallery() -> None:
    examples = [path.name for path in GALLERY.glob("plot_*.py")]
    order = GalleryOrder(str(GALLERY))
    assert sorted(map(order, examples)) == list(range(len(ORDER)))


def test_an_example_without_a_place_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"plot_new\.py has no place"):
        GalleryOrder(str(GALLERY))("plot_new.py")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[str]]:
    """A repository with a page of the paper and its images, and the warnings of the build."""
    for name in ("experiments/paper/search/one/history.png", "experiments/paper/figures/a.png", "elsewhere.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"png")
    for name in ("docs/page.md", "experiments/paper/search.md", "experiments/paper/figures/a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.setattr(repository_links, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(repository_links, "PAPER", tmp_path / "experiments" / "paper")
    warnings: list[str] = []
    monkeypatch.setattr(repository_links.logger, "warning", lambda text, *args, **_: warnings.append(text % args))
    repository_links.copy_pages(tmp_path / "experiments" / "paper", tmp_path / "docs" / "auto_paper")
    return tmp_path / "docs" / "auto_paper", warnings


def test_the_images_of_the_paper_are_copied_with_its_pages(repository: tuple[Path, list[str]]) -> None:
    copies, warnings = repository
    found = sorted(path.relative_to(copies).as_posix() for path in copies.rglob("*") if path.is_file())
    assert found == ["figures/a.png", "search.md", "search/one/history.png"]
    for image in ("![All trials](search/one/history.png)", "![A figure](figures/a.png)"):
        assert repository_links.translate(image, "auto_paper/search") == image
    assert warnings == []


def test_an_image_outside_the_site_is_a_warning(repository: tuple[Path, list[str]]) -> None:
    _, warnings = repository
    assert repository_links.translate("![Elsewhere](../elsewhere.png)", "page") == "Elsewhere"
    (warning,) = warnings
    assert warning.startswith("The image ../elsewhere.png is not part of the site")


def test_links_to_files_outside_the_site_become_text_and_others_are_translated(
    repository: tuple[Path, list[str]],
) -> None:
    _, warnings = repository
    assert repository_links.translate("The [script](figures/a.py).", "auto_paper/search") == "The script."
    page = repository_links.translate("The [searches](../experiments/paper/search.md#one).", "page")
    assert page == "The [searches](auto_paper/search.md#one)."
    assert warnings == []
