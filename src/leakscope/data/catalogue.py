"""The catalogue: one entry per dataset: where it comes from, which files are published, and what loads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leakscope.data.published import locate


@dataclass(frozen=True)
class PublishedFile:
    """One file as its authors publish it; size and checksum are those of a `.bin`, never of a `.bin.xz`.

    Attributes:
        name: of the file.
        n_bytes: its size.
        checksum: hexadecimal; its length says which: 64 digits are a sha256, 32 an md5, where the authors
            publish no other.
        required: whether the dataset cannot be read without it.
    """

    name: str
    n_bytes: int
    checksum: str
    required: bool = True

    @property
    def algorithm(self) -> str:
        """Name of the checksum, as hashlib knows it."""
        return "md5" if len(self.checksum) == 32 else "sha256"


@dataclass(frozen=True)
class Dataset:
    """What there is to know about a dataset before it is read.

    Attributes:
        name: what the user calls it.
        summary: one line.
        loader: "module:function"; the function takes the dataset's folder first where there are files.
        n_records: number of records with the loader's default options.
        shape: shape of one record's features, likewise.
        n_classes: number of classes.
        source: where it comes from, for people.
        licence: one line.
        folder: name of its folder in the data folder; "" where it needs no files.
        files: what belongs into the folder.
        mirrors: addresses that each hold every file under its own name, tried in order.
        archive: address of a tar.gz with the files under `folder/`; "" where they are published one by one.
        unpacked: folders that may lie in `folder` in place of the files; each has one folder per class.
        files_per_class: published number of files in each of these folders of a class.
    """

    name: str
    summary: str
    loader: str
    n_records: int
    shape: tuple[int, ...]
    n_classes: int
    source: str
    licence: str
    folder: str = ""
    files: tuple[PublishedFile, ...] = ()
    mirrors: tuple[str, ...] = ()
    archive: str = ""
    unpacked: tuple[str, ...] = ()
    files_per_class: int = 0

    def folder_in(self, root: Path) -> Path:
        """The dataset's folder in the data folder `root`, whatever the case of its name."""
        exact = root / self.folder
        if exact.is_dir() or not root.is_dir():
            return exact
        alike = (path for path in sorted(root.iterdir()) if path.name.lower() == self.folder.lower())
        return next((path for path in alike if path.is_dir()), exact)

    def is_unpacked(self, root: Path) -> bool:
        """True when a folder that stands for the files is there; how much is in it is not looked at."""
        return any((self.folder_in(root) / name).is_dir() for name in self.unpacked)

    def is_unpacked_whole(self, root: Path) -> bool:
        """True when every class of every unpacked folder has the published number of files."""
        splits = [self.folder_in(root) / name for name in self.unpacked]
        classes = [path for split in splits if split.is_dir() for path in split.iterdir() if path.is_dir()]
        counts = [sum(1 for _ in path.iterdir()) for path in classes]
        return bool(counts) and counts == [self.files_per_class] * (self.n_classes * len(self.unpacked))

    def present_files(self, root: Path) -> list[Path]:
        """The paths of the files that lie in the data folder `root`; contents are not looked at."""
        paths = (locate(self.folder_in(root), file.name) for file in self.files)
        return [path for path in paths if path is not None]

    def is_present(self, root: Path) -> bool:
        """True when every required file is there, or none is needed, or some are unpacked."""
        return self.is_unpacked(root) or all(
            locate(self.folder_in(root), file.name) for file in self.files if file.required
        )


def _files(table: str) -> tuple[PublishedFile, ...]:
    """One file per line: name, bytes, sha256."""
    rows = (line.split() for line in table.strip().splitlines())
    return tuple(PublishedFile(name, int(n_bytes), sha256) for name, n_bytes, sha256 in rows)


_ADULT_FILES = _files("""
    adult.data   3974305  5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d
    adult.test   2003153  a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05
""")
_LOCATION30_FILES = _files("""
    dataset_location.tgz    287293  927203f85a868f8ee17a0ded1dc61699efe602167beabe34fbf45b4b1de94b33
""")
_MNIST_FILES = _files("""
    train-images-idx3-ubyte.gz   9912422  440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609
    train-labels-idx1-ubyte.gz     28881  3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c
    t10k-images-idx3-ubyte.gz    1648877  8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6
    t10k-labels-idx1-ubyte.gz       4542  f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6
""")
_FASHION_MNIST_FILES = _files("""
    train-images-idx3-ubyte.gz  26421880  3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84
    train-labels-idx1-ubyte.gz     29515  a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845
    t10k-images-idx3-ubyte.gz    4422102  346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073
    t10k-labels-idx1-ubyte.gz       5148  67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5
""")
_CIFAR10_FILES = _files("""
    data_batch_1.bin  30730000  cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5
    data_batch_2.bin  30730000  a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed
    data_batch_3.bin  30730000  bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67
    data_batch_4.bin  30730000  014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48
    data_batch_5.bin  30730000  755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add
    test_batch.bin    30730000  8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b
""")
_CIFAR10_CLASS_NAMES = PublishedFile(
    "batches.meta.txt", 61, "558e74b5e208382e186da55784b4bac2cd52e558448e1b5800990fdb28ed8033", required=False
)

DATASETS: tuple[Dataset, ...] = (
    Dataset(
        name="gaussian",
        summary="five Gaussian classes in ten dimensions, made from a seed",
        loader="leakscope.data.gaussian:gaussian",
        n_records=500,
        shape=(10,),
        n_classes=5,
        source="built in, generated",
        licence="none needed, the records are synthetic",
    ),
    Dataset(
        name="overlapping",
        summary="ten Gaussian classes in twenty dimensions that overlap so far that a model must memorize",
        loader="leakscope.data.gaussian:overlapping",
        n_records=4_000,
        shape=(20,),
        n_classes=10,
        source="built in, generated",
        licence="none needed, the records are synthetic",
    ),
    Dataset(
        name="letters",
        summary="made-up letters of 64 tokens at most, some with a planted secret, made from a seed",
        loader="leakscope.data.made_up_text:letters",
        n_records=600,
        shape=(64,),
        n_classes=1,
        source="built in, generated",
        licence="none needed, the records are synthetic",
    ),
    Dataset(
        name="digits",
        summary="hand-written digits of 8 x 8 pixels",
        loader="leakscope.data.digits:digits",
        n_records=1_797,
        shape=(64,),
        n_classes=10,
        source="built in, comes with scikit-learn",
        licence="CC BY 4.0 (UCI, Alpaydin and Kaynak 1998)",
    ),
    Dataset(
        name="adult",
        summary="people of the 1994 US census: is the income above $50K?",
        loader="leakscope.data.adult:adult",
        n_records=48_842,
        shape=(108,),
        n_classes=2,
        source="https://archive.ics.uci.edu/dataset/2/adult",
        licence="CC BY 4.0 (UCI, Kohavi 1996)",
        folder="adult",
        files=_ADULT_FILES,
        mirrors=("https://archive.ics.uci.edu/ml/machine-learning-databases/adult/",),
    ),
    Dataset(
        name="location30",
        summary="people by the places in Bangkok they checked in at",
        loader="leakscope.data.location30:location30",
        n_records=5_010,
        shape=(446,),
        n_classes=30,
        source="https://github.com/privacytrustlab/datasets",
        licence="none stated; for research, cite Shokri et al. 2017",
        folder="location-30",
        files=_LOCATION30_FILES,
        mirrors=("https://raw.githubusercontent.com/privacytrustlab/datasets/master/",),
    ),
    Dataset(
        name="mnist",
        summary="hand-written digits of 28 x 28 pixels",
        loader="leakscope.data.mnist:mnist",
        n_records=70_000,
        shape=(1, 28, 28),
        n_classes=10,
        source="http://yann.lecun.com/exdb/mnist/",
        licence="none stated; cite LeCun et al. 1998",
        folder="mnist",
        files=_MNIST_FILES,
        # The authors' own page no longer serves the files; these are the copies it is replaced by.
        mirrors=(
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
        ),
    ),
    Dataset(
        name="fashion-mnist",
        summary="images of clothes, 28 x 28 pixels",
        loader="leakscope.data.mnist:fashion_mnist",
        n_records=70_000,
        shape=(1, 28, 28),
        n_classes=10,
        source="https://github.com/zalandoresearch/fashion-mnist",
        licence="MIT (Zalando SE 2017)",
        folder="fashion-mnist",
        files=_FASHION_MNIST_FILES,
        mirrors=(
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
    ),
    Dataset(
        name="cifar10",
        summary="color images of 32 x 32 pixels in ten classes",
        loader="leakscope.data.cifar10:cifar10",
        n_records=60_000,
        shape=(3, 32, 32),
        n_classes=10,
        source="https://www.cs.toronto.edu/~kriz/cifar.html",
        licence="none stated; cite Krizhevsky 2009",
        folder="cifar-10-batches-bin",
        files=(*_CIFAR10_FILES, _CIFAR10_CLASS_NAMES),
        archive="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    ),
    Dataset(
        name="cinic10",
        summary="color images of 32 x 32 pixels in ten classes, from CIFAR-10 and ImageNet",
        loader="leakscope.data.cinic10:cinic10",
        n_records=270_000,
        shape=(3, 32, 32),
        n_classes=10,
        source="https://datashare.ed.ac.uk/handle/10283/3192",
        licence="CC BY 4.0 (Darlow et al. 2018)",
        folder="CINIC-10",
        # The authors publish an md5 of the archive, and no sha256.
        files=(PublishedFile("CINIC-10.tar.gz", 687_544_992, "6ee4d0c996905fe93221de577967a372"),),
        mirrors=("https://datashare.ed.ac.uk/bitstream/handle/10283/3192/",),
        unpacked=("train", "valid", "test"),
        files_per_class=9_000,
    ),
)
