"""Loads torch.ops.octet, and turns failures of its operators into the exceptions Python users expect."""

import ctypes
import os
from typing import Any

import torch

from octet._library import library_path


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(os.fspath(library_path("liboctet_torch.so")))
    library.octet_torch_register.restype = ctypes.c_char_p
    library.octet_torch_last_error.restype = ctypes.c_char_p
    library.octet_torch_cached_plans.restype = ctypes.c_size_t
    if (missing := library.octet_torch_register()) is not None:
        raise ImportError(f"octet.torch needs torch 2.10 or later; torch {torch.__version__} has no {missing.decode()}")
    return library


_library = _load()
ops = torch.ops.octet

# octet_status of octet/c/types.h
_INVALID_ARGUMENT, _OUT_OF_MEMORY = 1, 3


def _translated(error: RuntimeError) -> Exception:
    """What to raise for an operator's RuntimeError: another type where octet's status has one, with the same text."""
    text = _library.octet_torch_last_error().decode()
    if not text or not str(error).startswith(text):
        return error
    status = _library.octet_torch_last_status()
    kind = {_INVALID_ARGUMENT: ValueError, _OUT_OF_MEMORY: torch.OutOfMemoryError}.get(status, RuntimeError)
    return kind(text)


def call(operator: Any, *args: Any) -> Any:
    """operator(*args); a refusal is a ValueError with octet's message."""
    if torch.compiler.is_compiling():  # the fake kernel runs, and has an error of its own
        return operator(*args)
    try:
        return operator(*args)
    except RuntimeError as error:
        raise _translated(error) from None


def cached_plans() -> int:
    """How many plans the operators keep; bounded, whatever shapes they have seen."""
    return _library.octet_torch_cached_plans()
