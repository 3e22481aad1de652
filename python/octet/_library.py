"""Finds and loads the libraries that the package contains."""

import ctypes
import functools
import os
from pathlib import Path


def folder() -> Path:
    """Where bin/ and lib/ are: in the package, or where OCTET_PYTHON_DIR says (a build folder's python/octet)."""
    return Path(os.environ.get("OCTET_PYTHON_DIR") or Path(__file__).parent)


def library_path(name: str = "liboctet.so.0") -> Path:
    """The path of a library of the package; by default liboctet with the C API of octet/octet.h."""
    path = folder() / "lib" / name
    if not path.is_file():
        raise ImportError(f"octet: {path} is missing; install the package with `pip install .` in octet's source tree")
    return path


@functools.cache
def liboctet() -> ctypes.CDLL:
    """The library with the C API."""
    return ctypes.CDLL(os.fspath(library_path()))


def set_tuning_table(path: str | os.PathLike[str] | None) -> None:
    """Plans made from now on take what `octet tune` found: the table at `path`, or none.

    Without a call the table is that of OCTET_TUNING_TABLE. Set it before the first step: octet.torch keeps its plans.
    """
    library = liboctet()
    library.octet_set_tuning_table.argtypes = [ctypes.c_char_p]
    library.octet_last_error.restype = ctypes.c_char_p
    if library.octet_set_tuning_table(os.fsencode(path) if path is not None else None) != 0:
        raise ValueError(library.octet_last_error().decode())


def tuning_table() -> str:
    """The path of the tuning table in use; empty where there is none."""
    library = liboctet()
    library.octet_tuning_table.restype = ctypes.c_char_p
    library.octet_last_error.restype = ctypes.c_char_p
    path = library.octet_tuning_table()
    if path is None:
        raise ValueError(library.octet_last_error().decode())
    return os.fsdecode(path)


def _version() -> str:
    number = liboctet().octet_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


__version__ = _version()
