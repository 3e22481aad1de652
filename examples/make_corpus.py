"""Makes a corpus from the text in Debian packages: tokens.bin and vocabulary.json for train_llama.py.

    python examples/make_corpus.py --out corpus                  # 4 sources of 18 MB: about 20 M tokens, some minutes
    python examples/make_corpus.py --out corpus --sources dictionary,python --megabytes 2 --vocab 4096
    python examples/train_llama.py --data corpus/tokens.bin --vocab 32768 ...

Packages are downloaded by name with apt-get into OUT/packages, or taken from there; nothing is installed. The same
packages and flags give the same files, whose origin is in corpus.json. Needs the tokenizers package.
"""

from __future__ import annotations

import argparse
import array
import gzip
import hashlib
import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

END = "<|end|>"  # token 0, after every document
PIECE = 1 << 16  # bytes of a document where a source is one long file


def dictionary(root: Path) -> Iterator[tuple[str, bytes]]:
    """Webster's of 1913 with additions, GPL."""
    with gzip.open(root / "usr/share/dictd/gcide.dict.dz") as file:
        for number, piece in enumerate(iter(lambda: file.read(PIECE), b"")):
            yield f"{number:06}", piece


def python(root: Path) -> Iterator[tuple[str, bytes]]:
    """The manual of Python as reStructuredText, PSF licence."""
    folder = root / "usr/share/doc/python3.11/html/_sources"
    for path in sorted(folder.rglob("*.txt")):
        yield path.relative_to(folder).as_posix(), path.read_bytes()


def kernel(root: Path, wanted: Callable[[list[str]], bool]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(root / "usr/src/linux-source-6.1.tar.xz", "r|xz") as archive:
        for member in archive:
            parts = member.name.split("/")[1:]
            if member.isfile() and parts and wanted(parts) and (file := archive.extractfile(member)):
                yield "/".join(parts), file.read()


def kernel_documentation(root: Path) -> Iterator[tuple[str, bytes]]:
    """Of Linux, GPL-2."""
    return kernel(root, lambda parts: parts[0] == "Documentation" and parts[-1].endswith((".rst", ".txt")))


def kernel_code(root: Path) -> Iterator[tuple[str, bytes]]:
    """C of Linux without drivers and architectures, GPL-2."""
    return kernel(root, lambda parts: parts[0] not in ("drivers", "arch", "Documentation") and parts[-1].endswith(".c"))


@dataclass(frozen=True)
class Source:
    package: str
    documents: Callable[[Path], Iterator[tuple[str, bytes]]]  # (name, text) from the unpacked package


SOURCES = {
    "dictionary": Source("dict-gcide", dictionary),
    "python": Source("python3.11-doc", python),
    "kernel-documentation": Source("linux-source-6.1", kernel_documentation),
    "kernel-code": Source("linux-source-6.1", kernel_code),
}


def run(command: list[str], folder: Path) -> str:
    try:
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise OSError(f"octet: {command[0]} is not installed; the packages are Debian's") from None
    except subprocess.CalledProcessError as error:
        raise OSError(f"octet: {' '.join(command)} failed: {error.stderr.strip()}") from None


def unpack(package: str, folder: Path) -> tuple[Path, str]:
    """Downloads the package if it is not there. Its files, and its version."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (found := sorted(folder.glob(f"{package}_*.deb"))):
        run(["apt-get", "download", package], folder)
        found = sorted(folder.glob(f"{package}_*.deb"))
    if len(found) != 1:
        raise OSError(f"octet: {folder} must have one {package}_*.deb, got {len(found)}")
    root = folder / package
    if not root.exists():
        partial = folder / f"{package}.partial"
        run(["dpkg-deb", "-x", str(found[0]), str(partial)], folder)
        partial.rename(root)
    return root, run(["dpkg-deb", "-f", str(found[0]), "Version"], folder).strip()


def select(source: Source, root: Path, limit: int) -> list[str]:
    """At most limit bytes of documents, in an order that is the same everywhere and mixes folders."""
    named = [(name, text) for name, text in source.documents(root) if text.strip()]
    if not named:
        raise OSError(f"octet: no text in {root}; is {source.package} another version?")
    named.sort(key=lambda pair: hashlib.sha256(pair[0].encode()).digest())
    chosen, size = [], 0
    for _, text in named:
        if size + len(text) <= limit:
            chosen.append(text.decode("utf-8", errors="replace"))
            size += len(text)
    if not chosen:
        raise ValueError(f"octet: --megabytes {limit / 1e6:g} is less than any document of {source.package}")
    return chosen


def train_vocabulary(texts: list[list[str]], vocab: int, limit: int):
    """A byte-level BPE, as GPT-2's, from up to limit bytes of every source."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    def sample() -> Iterator[str]:
        for documents in texts:
            size = 0
            for text in documents:
                if size >= limit:
                    break
                size += len(text)
                yield text

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=[END], initial_alphabet=sorted(alphabet), show_progress=False
    )
    tokenizer.train_from_iterator(sample(), trainer)
    return tokenizer


def encode(tokenizer, documents: list[str]) -> array.array:
    """uint16 tokens, END after every document."""
    tokens = array.array("H")
    for begin in range(0, len(documents), 64):
        for encoding in tokenizer.encode_batch(documents[begin : begin + 64]):
            tokens.extend(encoding.ids)
            tokens.append(0)
    return tokens


def write(path: Path, data: bytes) -> None:
    """Whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    temporary.replace(path)


def make(args: argparse.Namespace) -> None:
    begin = time.perf_counter()

    def say(line: str) -> None:
        print(f"{time.perf_counter() - begin:6.1f} s  {line}", flush=True)

    texts, origin = [], []
    for name in args.sources:
        source = SOURCES[name]
        root, version = unpack(source.package, args.out / "packages")
        documents = select(source, root, int(args.megabytes * 1e6))
        texts.append(documents)
        size = sum(len(text.encode()) for text in documents)
        origin.append({"source": name, "package": source.package, "version": version, "bytes": size})
        say(f"{name}: {len(documents)} documents, {size / 1e6:.1f} MB of {source.package} {version}")
    tokenizer = train_vocabulary(texts, args.vocab, int(args.vocabulary_megabytes * 1e6))
    say(f"vocabulary of {tokenizer.get_vocab_size()}")
    tokens = array.array("H")
    for entry, documents in zip(origin, texts, strict=True):
        part = encode(tokenizer, documents)
        entry["tokens"] = len(part)
        tokens.extend(part)
        say(f"{entry['source']}: {len(part) / 1e6:.2f} M tokens, {entry['bytes'] / len(part):.2f} bytes per token")
    if sys.byteorder == "big":
        tokens.byteswap()
    data = tokens.tobytes()
    about = {"vocab": tokenizer.get_vocab_size(), "tokens": len(tokens), "sha256": hashlib.sha256(data).hexdigest()}
    write(args.out / "tokens.bin", data)
    write(args.out / "vocabulary.json", tokenizer.to_str().encode())
    write(args.out / "corpus.json", json.dumps({**about, "sources": origin}, indent=1).encode() + b"\n")
    say(f"{args.out / 'tokens.bin'}: {len(tokens) / 1e6:.2f} M tokens, sha256 {about['sha256'][:16]}")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--sources", default=",".join(SOURCES), help=f"[{','.join(SOURCES)}]")
    parser.add_argument("--megabytes", type=float, default=18, help="of text per source, at most [18]")
    parser.add_argument("--vocab", type=int, default=32768, help="tokens of the vocabulary, 257 to 65536 [32768]")
    parser.add_argument("--vocabulary-megabytes", type=float, default=8, help="per source, to make it from [8]")
    args = parser.parse_args(argv)
    args.sources = args.sources.split(",")
    for name in args.sources:
        if name not in SOURCES:
            raise ValueError(f"octet: --sources must be of {', '.join(SOURCES)}, got {name!r}")
    if not 257 <= args.vocab <= 65536:
        raise ValueError(f"octet: --vocab must be 257 to 65536 (256 bytes, the end; 16 bits), got {args.vocab}")
    for name in ("megabytes", "vocabulary_megabytes"):
        if getattr(args, name) <= 0:
            raise ValueError(f"octet: --{name.replace('_', '-')} must be above 0, got {getattr(args, name)}")
    args.out = args.out.resolve()
    return args


if __name__ == "__main__":
    try:
        make(parse())
    except (ValueError, OSError) as error:
        raise SystemExit(str(error)) from None
    except ImportError as error:
        raise SystemExit(f"octet: {error}; pip install tokenizers") from None
