"""Registry of the image datasets: their files, where these are searched for, and where they are downloaded from.

No dataset is shipped with the library.  A file that the user has put in place is used whatever its checksum:
re-cropped or cleaned copies of these datasets are common, and deliberate.  Only downloads are verified against the
publisher's checksum.
"""

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

from squad.data.download import Content, DownloadError, Progress
from squad.data.download import download as download_file
from squad.errors import ArgumentError, DataError

__all__ = ["DATASETS", "Dataset", "RemoteFile", "dataset", "find", "locate_or_fetch", "search_folders"]


@dataclass(frozen=True)
class RemoteFile:
    """A file of a dataset, as published.

    Attributes:
        name: Name of the file.
        url: Address to download it from.
        checksum: Known checksums of the content, "md5:..." and "sha256:...".
        content: What the checksums refer to: "raw" for the file itself, "gzip" for its decompressed content.
        size_bytes: Approximate size of the published file; a much larger download is refused.
        fallback: Address used if ``url`` cannot be reached: without TLS, as first published.
    """

    name: str
    url: str
    checksum: str
    content: Content
    size_bytes: int
    fallback: str = ""


@dataclass(frozen=True)
class Dataset:
    """Description of a dataset.

    Attributes:
        name: Name for the command and :func:`squad.data.images.load_images`.
        title: Name for display.
        classes: Names of the labels 0, 1, ...
        files: Required files; none if a package contains the data.
        licence: Licence, in the publisher's words.
        homepage: Homepage of the publisher.
        note: Remarks for the user.
    """

    name: str
    title: str
    classes: tuple[str, ...]
    files: tuple[RemoteFile, ...]
    licence: str
    homepage: str
    note: str


DIGITS = tuple("0123456789")
#: The same files in the publisher's bucket: through the interface with TLS, and at the original address.
_FASHION = (
    "https://fashion-mnist.s3.eu-central-1.amazonaws.com/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)
_SVHN = ("https://ufldl.stanford.edu/housenumbers/", "http://ufldl.stanford.edu/housenumbers/")
_NOTMNIST = ("https://yaroslavvb.com/upload/notMNIST/", "http://yaroslavvb.com/upload/notMNIST/")


def _remote(name: str, folders: tuple[str, str], checksum: str, content: Content, size: int) -> RemoteFile:
    return RemoteFile(name, folders[0] + name, checksum, content, size, folders[1] + name)


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
            # Checksums of the decompressed files: Debian's package, for example, recompressed them.  The MD5 sums are
            # the commonly cited ones; the SHA-256 sums are of the same bytes.
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
            # Checksum of the publisher's archive, as cited by several public projects; a repacked copy has another one.
            # None of them cites a SHA-256.
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
            # Checksums of the publisher's files, from torchvision: the MD5 sums from its datasets, the SHA-256 sums
            # from its prototype datasets.  Re-cropped copies with other checksums are common, and load as well.
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

#: Folders of system packages, by dataset.
SYSTEM_FOLDERS = {"fashion-mnist": Path("/usr/share/datasets/fashion-mnist")}


def dataset(name: str) -> Dataset:
    """Return the description of a dataset.

    Raises:
        ArgumentError: The name is unknown; the message lists the known ones.

    Examples:
        >>> dataset("fashion-mnist").name
        'fashion-mnist'
    """
    if name in DATASETS:
        return DATASETS[name]
    word = str(name).strip().lower().replace("_", "-").replace(" ", "-")
    near = difflib.get_close_matches(word, DATASETS, n=1, cutoff=0.65)
    raise ArgumentError.of(
        "dataset", repr(name), "one of " + ", ".join(map(repr, DATASETS)), f"Did you mean {near[0]!r}?" if near else ""
    )


def _roots(data_dir: str | Path | None) -> list[Path]:
    """Folders named by the user, in order."""
    named = [data_dir, os.environ.get("SQUAD_DATA")]
    return [Path(root).expanduser() for root in named if root is not None and str(root)]


def _cache(name: str) -> Path:
    """Folder of the dataset in the user's cache."""
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("squad")) / name


def search_folders(name: str, data_dir: str | Path | None = None) -> list[Path]:
    """Return the folders that are searched for a dataset, in order; none for a dataset without files.

    These are ``data_dir`` and $SQUAD_DATA (each with the subfolder NAME, then the folder itself), the user's cache, and
    the folder of a system package.

    Args:
        name: Name of the dataset.
        data_dir: Folder to search first.

    Returns:
        The folders, which may not exist.
    """
    if not dataset(name).files:
        return []
    named = [folder for root in _roots(data_dir) for folder in (root / name, root)]
    folders = [*named, _cache(name), *([SYSTEM_FOLDERS[name]] if name in SYSTEM_FOLDERS else [])]
    return list(dict.fromkeys(folders))


def find(name: str, data_dir: str | Path | None = None) -> Path | None:
    """Find a dataset among the :func:`search_folders`.

    Args:
        name: Name of the dataset.
        data_dir: Folder to search first.

    Returns:
        The first folder that holds all files of the dataset; None if there is none.
    """
    files = dataset(name).files
    # os.path.isfile, not Path.is_file: an unreadable folder counts as one without the files, not as an error.
    complete = (
        folder for folder in search_folders(name, data_dir) if all(os.path.isfile(folder / file.name) for file in files)
    )
    return next(complete, None)


def locate_or_fetch(
    name: str, data_dir: str | Path | None = None, progress: Progress | None = None, download: bool = True
) -> Path:
    """Return the folder with the files of a dataset; download them if they are missing.

    They are downloaded to ``data_dir/NAME`` if ``data_dir`` is given, otherwise to ``$SQUAD_DATA/NAME`` if set,
    otherwise to the user's cache.

    Args:
        name: Name of the dataset.
        data_dir: Folder to search first.
        progress: Called with (file name, bytes so far, total bytes or None) during a download.
        download: Whether missing files may be downloaded.

    Returns:
        The folder.

    Raises:
        DataError: Files are missing and cannot be downloaded; the message says which, from where, and where to put
            them.
    """
    files = dataset(name).files
    if not files:
        raise ArgumentError.of("dataset", repr(name), "a dataset with files", f"{name} is part of a package.")
    folder = find(name, data_dir)
    if folder is not None:
        return folder
    roots = _roots(data_dir)
    target = roots[0] / name if roots else _cache(name)

    def missing() -> list[RemoteFile]:
        return [file for file in files if not os.path.isfile(target / file.name)]

    def failure(why: str) -> DataError:
        names = ", ".join(file.name for file in missing())
        hint = f"Put {names} into {target}, or name their folder with --data-dir or SQUAD_DATA."
        return DataError(f"{name} is not on this machine, and {why}. {hint}")

    for file in missing():
        if not download:
            raise failure(f"downloading it from {file.url.rpartition('/')[0]}/ is not allowed here")
        try:
            _download(file, target / file.name, progress)
        except DownloadError as cause:
            raise failure(f"{cause.url} {cause.problem}") from cause
    return target


def _download(file: RemoteFile, target: Path, progress: Progress | None) -> None:
    """Download a file from one of its addresses; the checksums are verified in either case.

    The address without TLS serves networks and publishers that do not support the other one.  Wrong or too much data
    from an address that was reached is an alarm, not a reason to use an unprotected connection.
    """
    try:
        download_file(file.url, target, file.checksum, file.content, size=file.size_bytes, progress=progress)
    except DownloadError as problem:
        if not (file.fallback and problem.unreachable):
            raise
        download_file(file.fallback, target, file.checksum, file.content, size=file.size_bytes, progress=progress)
