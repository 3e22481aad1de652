"""examples/make_corpus.py on packages made here: the same files every time, and text that comes back."""

import gzip
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import make_corpus  # noqa: E402
from train_llama import Data  # noqa: E402

TEXT = "".join(f"Entry {i}: the {'quick ' * (i % 3)}fox, {i * i} times; café.\n" for i in range(3000)).encode()


def pack(folder: Path, package: str, files: dict[str, bytes]) -> None:
    root = folder / "source" / package
    control = f"Package: {package}\nVersion: 1.2\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    for name, data in {**files, "DEBIAN/control": control.encode()}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / "packages").mkdir(exist_ok=True)
    target = folder / "packages" / f"{package}_1.2_all.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", root, target], check=True, capture_output=True)


def archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    pack(folder, "dict-gcide", {"usr/share/dictd/gcide.dict.dz": gzip.compress(TEXT)})
    pack(folder, "python3.11-doc", {f"usr/share/doc/python3.11/html/_sources/{n}.rst.txt": TEXT[:999] for n in "ab"})
    kernel = {
        "linux-source-6.1/Documentation/guide.rst": TEXT[:500],
        "linux-source-6.1/mm/slab.c": TEXT[:700],
        "linux-source-6.1/drivers/big.c": b"never read",
    }
    pack(folder, "linux-source-6.1", {"usr/src/linux-source-6.1.tar.xz": archive(kernel)})
    return folder / "packages"


def corpus(packages: Path, out: Path, *flags: str) -> dict:
    (out / "packages").mkdir(parents=True)
    for deb in packages.glob("*.deb"):
        (out / "packages" / deb.name).symlink_to(deb)
    make_corpus.make(make_corpus.parse(["--out", str(out), "--vocab", "400", *flags]))
    return json.loads((out / "corpus.json").read_text())


def test_the_same_packages_give_the_same_tokens(packages, tmp_path):
    about = corpus(packages, tmp_path / "a")
    assert corpus(packages, tmp_path / "b") == about
    for name in ("tokens.bin", "vocabulary.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert [(s["source"], s["version"]) for s in about["sources"]] == [(name, "1.2") for name in make_corpus.SOURCES]

    data = Data(str(tmp_path / "a" / "tokens.bin"), vocab=about["vocab"], seq=8, seed=0)
    assert len(data.tokens) == about["tokens"]
    vocabulary = Tokenizer.from_file(str(tmp_path / "a" / "vocabulary.json"))
    pieces = vocabulary.decode(data.tokens.tolist(), skip_special_tokens=False).split(make_corpus.END)
    assert {TEXT[:700].decode(), TEXT[:500].decode(), TEXT[:999].decode()} <= set(pieces)
    assert "never read" not in "".join(pieces)


def test_size_is_bounded_per_source(packages, tmp_path):
    about = corpus(packages, tmp_path, "--sources", "dictionary,python", "--megabytes", "0.1")
    dictionary, python = (source["bytes"] for source in about["sources"])
    assert make_corpus.PIECE < dictionary <= 100_000 < len(TEXT) and python == 1998


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--sources news", "--sources must be of dictionary, python, kernel-documentation, kernel-code, got 'news'"),
        ("--vocab 70000", "--vocab must be 257 to 65536"),
        ("--megabytes 0", "--megabytes must be above 0, got 0"),
        ("--sources dictionary --megabytes 1e-6", "less than any document of dict-gcide"),
    ],
)
def test_bad_flags_say_what_was_wanted(flags, message, packages, tmp_path):
    with pytest.raises(ValueError, match=message):
        corpus(packages, tmp_path, *flags.split())
    assert not (tmp_path / "tokens.bin").exists()


def test_two_versions_of_a_package_are_refused(packages, tmp_path):
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "dict-gcide_0_all.deb").touch()
    (tmp_path / "packages" / "dict-gcide_1_all.deb").touch()
    with pytest.raises(OSError, match="must have one dict-gcide_.*deb, got 2"):
        make_corpus.make(make_corpus.parse(["--out", str(tmp_path)]))
