"""Extensions of the documentation site: signatures that people can read, and the order of the gallery."""

from pathlib import Path

import pytest
from sphinx.util.inspect import signature, stringify_signature

import squad
from docs.extensions.gallery_order import ORDER, GalleryOrder
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


def test_every_example_has_one_place_in_the_gallery() -> None:
    examples = [path.name for path in GALLERY.glob("plot_*.py")]
    order = GalleryOrder(str(GALLERY))
    assert sorted(map(order, examples)) == list(range(len(ORDER)))


def test_an_example_without_a_place_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"plot_new\.py has no place"):
        GalleryOrder(str(GALLERY))("plot_new.py")
