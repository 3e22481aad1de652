"""Loads torch.ops.octet, and turns failures of its operators into the exceptions Python users expect."""

import ctypes
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

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


def differentiable(name: str, setup: Callable[..., None], backward: Callable[..., Any]) -> Callable[..., Any]:
    """Gives octet::name its gradient, and returns the function that calls it.

    The gradient is registered with torch, for torch.compile, torch.export, DTensor and whoever calls torch.ops.octet.
    That takes some 100 us per call in eager mode, where the same two functions in an autograd.Function take 10.
    """
    operator = getattr(ops, name).default
    torch.library.register_autograd(f"octet::{name}", backward, setup_context=setup)

    class Eager(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            with torch._C._AutoDispatchBelowAutograd():
                output = operator(*args)
            setup(ctx, args, output)  # a setup_context of its own would bind the arguments by inspection, 20 us
            return output

    Eager.backward = staticmethod(backward)  # type: ignore[assignment,method-assign]
    Eager.__name__ = Eager.__qualname__ = name

    def run(*args: Any) -> Any:
        if (
            torch.compiler.is_compiling()
            or torch._C._are_functorch_transforms_active()
            or not all(type(a) in _PLAIN for a in args)
        ):
            return call(operator, *args)
        try:
            return Eager.apply(*args)
        except RuntimeError as error:
            raise _translated(error) from None

    return run


# What the eager path takes; tensor subclasses go through the dispatcher.
_PLAIN = {Tensor, torch.nn.Parameter, type(None), int, float, bool}


def is_plain(x: Tensor) -> bool:
    """Whether x is no tensor subclass, such as DTensor."""
    return type(x) is Tensor or type(x) is torch.nn.Parameter


def cached_plans() -> int:
    """How many plans the operators keep; bounded, whatever shapes they have seen."""
    return _library.octet_torch_cached_plans()
def positions(name: str) -> dict[str, int]:
    """Where the arguments of octet::name stand, by the names of its schema."""
    return {argument.name: i for i, argument in enumerate(getattr(ops, name).default._schema.arguments)}


