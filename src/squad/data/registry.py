"""The image datasets by name: their files, where these are looked for, and where they come from.

Nothing is shipped with the library.  A file that somebody has put in place is used as it is, whatever its checksum:
re-cropped or cleaned copies of these datasets are common, and whoever puts one there means it.  Only what is downloaded
is held against the publisher's checksum.
"""

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

from squad.data.download import Content, DownloadError, Progress
from squad.data.download import download as download_file
from squad.errors import ArgumentError, DataError

__all__ = ["DATASETS", "Dataset", "RemoteFile", "dataset", "find", "locate_or_fetch", "places"]


@dataclass(frozen=True)
class RemoteFile:
    """One file of a dataset, at its publisher's.

    Attributes:
        name: the file's name in its folder.
        url: where it comes from.
        checksum: "md5:..." and "sha256:..." of the content, those that are known.
        content: what the checksum is of: "raw" the file itself, "gzip" what is packed in it.
        size_bytes: of the publisher's file, about; a download that is much larger is refused.
        fallback: where it comes from if nobody can be reached at ``url``: without TLS, as it was first published.
    """

    name: str
    url: str
    checksum: str
    content: Content
    size_bytes: int
    fallback: str = ""


@dataclass(frozen=True)
class Dataset:
    """A dataset: what it is and where it comes from.

    Attributes:
        name: as the command and :func:`squad.data.images.load_images` take it.
        title: as a table shows it.
        classes: names of the labels 0, 1, ...
        files: what has to be there; none if the data come with a package.
        licence: in the publisher's words.
        homepage: of the publisher.
        note: what a user should know.
    """

    name: str
    title: str
    classes: tuple[str, ...]
    files: tuple[RemoteFile, ...]
    licence: str
    homepage: str
    note: str


DIGITS = tuple("0123456789")
#: The same files of the publisher's bucket: by the interface that has TLS, and by the address they were published at.
_FASHION = (
    "https://fashion-mnist.s3.eu-central-1.amazonaws.com/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)
_SVHN = ("https://ufldl.stanford.edu/housenumbers/", "http://ufldl.stanford.edu/housenumbers/")
_NOTMNIST = ("https://yaroslavvb.com/upload/notMNIST/", "http://yaroslavvb.com/upload/notMNIST/")


def _remote(name: str, places: tuple[str, str], checksum: str, content: Content, size: int) -> RemoteFile:
    return RemoteFile(name, places[0] + name, checksum, content, size, places[1] + name)


DATASETS: dict[str, Dataset] = {
    entry.name: entry
    for entry in (
        Dataset(
            name="digits",
            title="scikit-learn's digits",
            classes=DIGITS,
            files=(),
            licence="CC BY 4.0",
            homepage="https://archive.ics.uci.edu/dataset/80",
            note="1,797 handwritten digits, 8x8 grey; part of scikit-learn, so no file is needed.",
        ),
        Dataset(
            name="fashion-mnist",
            title="Fashion-MNIST",
            classes=(
                "T-shirt/top",
                "Trouser",
                "Pullover",
                "Dress",
                "Coat",
                "Sandal",
                "Shirt",
                "Sneaker",
                "Bag",
                "Ankle boot",
            ),
            # The checksums are of the unpacked files: Debian's package, for one, has packed them anew.  The MD5 sums
            # are those that go round; the SHA-256 sums are of the same bytes.
            files=tuple(
                _remote(f"{name}-ubyte.gz", _FASHION, f"md5:{md5} sha256:{sha256}", "gzip", size)
                for name, md5, sha256, size in (
                    (
                        "train-images-idx3",
                        "f4a8712d7a061bf5bd6d2ca38dc4d50a",
                        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                        26_421_880,
                    ),
                    (
                        "train-labels-idx1",
                        "9018921c3c673c538a1fc5bad174d6f9",
                        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                        29_515,
                    ),
                    (
                        "t10k-images-idx3",
                        "8181f5470baa50b63fa0f6fddb340f0a",
                        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                        4_422_102,
                    ),
                    (
                        "t10k-labels-idx1",
                        "15d484375f8d13e6eb1aabb0c3f46965",
                        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
                        5_148,
                    ),
                )
            ),
            licence="MIT",
            homepage="https://github.com/zalandoresearch/fashion-mnist",
            note="60,000 + 10,000 articles of clothing, 28x28 grey; also Debian's package dataset-fashion-mnist.",
        ),
        Dataset(
            name="notmnist",
            title="notMNIST (small)",
            classes=tuple("ABCDEFGHIJ"),
            # The checksum of the publisher's archive, as several public projects give it; a repacked copy has another.
            # None gives a SHA-256, and only the archive itself could tell it.
            files=(
                _remote("notMNIST_small.tar.gz", _NOTMNIST, "md5:c9890a473a9769fda4bdf314aaf500dd", "raw", 8_458_043),
            ),
            licence="none stated by its author",
            homepage="https://yaroslavvb.blogspot.com/2011/09/notmnist-dataset.html",
            note="18,726 letters A to J from many fonts, 28x28 grey; two files are empty, about 500 are duplicates.",
        ),
        Dataset(
            name="svhn",
            title="SVHN, cropped digits",
            classes=DIGITS,
            # The checksums are those of the publisher's files, as torchvision has them: the MD5 sums in its data sets,
            # the SHA-256 sums in the prototypes of new ones.  Re-cropped copies go round, which have others and load
            # as well.
            files=tuple(
                _remote(f"{part}_32x32.mat", _SVHN, f"md5:{md5} sha256:{sha256}", "raw", size)
                for part, md5, sha256, size in (
                    (
                        "train",
                        "e26dedcc434d2e4c54c9b2d4a06d8373",
                        "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
                        182_040_794,
                    ),
                    (
                        "test",
                        "eb5a983be6a315427106f1b164d9cef3",
                        "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
                        64_275_384,
                    ),
                )
            ),
            licence="for non-commercial use only",
            homepage="http://ufldl.stanford.edu/housenumbers/",
            note="73,257 + 26,032 house numbers' digits, 32x32 in colour; the files' label 10 is the digit 0.",
        ),
    )
}

#: Folders that packages of the system fill.
SYSTEM = {"fashion-mnist": Path("/usr/share/datasets/fashion-mnist")}


def dataset(name: str) -> Dataset:
    """The dataset of that name; an unknown name is an error that offers those there are."""
    if name in DATASETS:
        return DATASETS[name]
    word = str(name).strip().lower().replace("_", "-").replace(" ", "-")
    near = difflib.get_close_matches(word, DATASETS, n=1, cutoff=0.65)
    raise ArgumentError.of(
        "dataset", repr(name), "one of " + ", ".join(map(repr, DATASETS)), f"Did you mean {near[0]!r}?" if near else ""
    )


def _roots(data_dir: str | Path | None) -> list[Path]:
    """The folders a user has named, in order."""
    named = [data_dir, os.environ.get("SQUAD_DATA")]
    return [Path(root).expanduser() for root in named if root is not None and str(root)]


def _cache(name: str) -> Path:
    """The dataset's folder in the user's cache."""
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("squad")) / name


def places(name: str, data_dir: str | Path | None = None) -> list[Path]:
    """The folders that are looked into, in order; none for a dataset without files.

    These are ``data_dir`` and $SQUAD_DATA, in each the folder of the dataset's name and then the folder itself, the
    user's cache, and what a package of the system has installed.
    """
    if not dataset(name).files:
        return []
    named = [place for root in _roots(data_dir) for place in (root / name, root)]
    found = [*named, _cache(name), *([SYSTEM[name]] if name in SYSTEM else [])]
    return list(dict.fromkeys(found))


def find(name: str, data_dir: str | Path | None = None) -> Path | None:
    """The first of the :func:`places` that holds all files of the dataset, or None."""
    files = dataset(name).files
    # os.path.isfile and not Path.is_file: a folder that may not be read is one without the files, not an error.
    holding = (p for p in places(name, data_dir) if all(os.path.isfile(p / file.name) for file in files))
    return next(holding, None)


def locate_or_fetch(
    name: str, data_dir: str | Path | None = None, progress: Progress | None = None, download: bool = True
) -> Path:
    """The folder with the dataset's files, which are downloaded if they are nowhere.

    They go to ``data_dir/NAME`` if there is a ``data_dir``, else to ``$SQUAD_DATA/NAME``, else into the user's cache.

    Raises:
        DataError: files are missing and cannot be had; one line says which, from where, and where to put them.
    """
    files = dataset(name).files
    if not files:
        raise ArgumentError.of("dataset", repr(name), "one that has files", f"{name} comes with a package.")
    folder = find(name, data_dir)
    if folder is not None:
        return folder
    roots = _roots(data_dir)
    target = roots[0] / name if roots else _cache(name)

    def left() -> list[RemoteFile]:
        return [file for file in files if not os.path.isfile(target / file.name)]

    def failure(why: str) -> DataError:
        names = ", ".join(file.name for file in left())
        hint = f"put {names} into {target}, or name their folder with --data-dir or SQUAD_DATA."
        return DataError(f"{name} is not on this machine and {why}; {hint}")

    for file in left():
        if not download:
            raise failure(f"may not be downloaded here from {file.url.rpartition('/')[0]}/")
        try:
            _download(file, target / file.name, progress)
        except DownloadError as cause:
            raise failure(f"{cause.url} {cause.problem}") from cause
    return target


def _download(file: RemoteFile, target: Path, progress: Progress | None) -> None:
    """From one of its addresses: what comes is held against the checksums, whatever way it came.

    The one without TLS is for networks and publishers that do not let the other through.  Wrong or too much data from
    an address that was reached is an alarm, and not a reason to use a connection that anyone can change.
    """
    try:
        download_file(file.url, target, file.checksum, file.content, size=file.size_bytes, progress=progress)
    except DownloadError as problem:
        if not (file.fallback and problem.unreachable):
            raise
        download_file(file.fallback, target, file.checksum, file.content, size=file.size_bytes, progress=progress)
