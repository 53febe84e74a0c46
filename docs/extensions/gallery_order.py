"""Order of the examples in the gallery: from the first that a newcomer needs to the special ones."""

from pathlib import Path

__all__ = ["ORDER", "GalleryOrder"]

#: Names of the examples without "plot_" and ".py".
ORDER = (
    "certify_sklearn_model",
    "medical_table",
    "how_many_labels",
    "what_breaks_a_guarantee",
    "compare_two_models",
    "text_tfidf",
    "out_of_distribution",
    "layer_in_your_loop",
    "ten_networks_at_once",
    "search",
)


class GalleryOrder:
    """Key by which sphinx-gallery sorts; an example that is not listed ends the build."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, filename: str) -> int:
        """Return the place of an example.

        Raises:
            ValueError: It is not in ``ORDER``.
        """
        name = Path(filename).stem.removeprefix("plot_")
        if name not in ORDER:
            raise ValueError(f"The example {filename} has no place in the gallery. Add it to ORDER in {__file__}.")
        return ORDER.index(name)
