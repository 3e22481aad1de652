"""Loads torch.ops.octet, and turns failures of its operators into the exceptions Python users expect."""

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from octet._library import library_path

# What octet_torch_register returns (src/torch/operators.cpp).
_MISSING, _NAMESPACE_TAKEN = 1, 2


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(os.fspath(library_path("liboctet_torch.so")))
    library.octet_torch_last_error.restype = ctypes.c_char_p
    library.octet_torch_cached_plans.restype = ctypes.c_size_t
    what = ctypes.c_char_p()
    outcome = library.octet_torch_register(ctypes.byref(what))
    if outcome == 0:
        return library
    name = (what.value or b"").decode()
    if outcome == _MISSING:
        raise ImportError(f"octet.torch needs torch 2.10 or later; torch {torch.__version__} has no {name}")
    if outcome == _NAMESPACE_TAKEN:
        raise ImportError(
            "octet.torch cannot register torch.ops.octet: something in this process has registered operators of that "
            "name already, such as an octet of another folder, or an import of octet.torch that failed halfway"
        )
    raise ImportError(f"octet.torch: torch {torch.__version__} refuses to register {name}")


_library = _load()
ops = torch.ops.octet

# octet_status of octet/c/types.h, and kWrongDtype of src/torch/error.hpp
_EXCEPTIONS: dict[int, type[Exception]] = {
    1: ValueError,  # invalid argument
    2: ValueError,  # well formed, but no implementation takes it
    3: torch.OutOfMemoryError,
    1000: TypeError,
}


def raise_translated(error: RuntimeError) -> NoReturn:
    """Raises what fits an operator's RuntimeError: another type where octet's status has one, with the same text."""
    text = _library.octet_torch_last_error().decode()
    kind = _EXCEPTIONS.get(_library.octet_torch_last_status())
    if not text or not str(error).startswith(text) or kind is None:
        raise error
    raise kind(text) from error


def call(operator: Any, *args: Any) -> Any:
    """operator(*args); a refusal is a ValueError with octet's message."""
    if torch.compiler.is_compiling():  # the fake kernel runs, and has an error of its own
        return operator(*args)
    try:
        return operator(*args)
    except RuntimeError as error:
        raise_translated(error)


def _constant(t: Tensor, message: bytes) -> Tensor:
    """t with a gradient that raises, as torch.autograd.function.once_differentiable makes it."""
    return torch._C._functions.DelayedError(message, 1)(t.detach().requires_grad_())


def _once(name: str, backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward whose own gradient is refused in words, and whose failures are those of forward.

    Its results are constants for autograd. With create_graph=True they get a node that raises when somebody
    differentiates them: without it the second derivative would be wrong without a word.
    """

    def run(ctx: Any, *grads: Any) -> Any:
        try:
            with torch.no_grad():
                results = backward(ctx, *grads)
        except RuntimeError as error:
            raise_translated(error)
        if not torch.is_grad_enabled():
            return results
        message = f"octet: {name} is differentiable once; its gradient has no gradient".encode()
        return tuple(None if t is None else _constant(t, message) for t in results)

    return run


def register_gradient(
    name: str, inputs: Sequence[str], setup: Callable[..., None], backward: Callable[..., tuple[Tensor | None, ...]]
) -> None:
    """Gives octet::name its gradient, for torch.compile, torch.export, DTensor and whoever calls torch.ops.octet.

    inputs: the arguments that have gradients. backward returns these, and reads in ctx.needs which ones are wanted.
    """
    at = positions(name)
    where = [at[argument] for argument in inputs]
    once = _once(name, backward)

    def run(ctx: Any, *grads: Any) -> Any:
        ctx.needs = tuple(ctx.needs_input_grad[i] for i in where)
        results: list[Tensor | None] = [None] * len(at)
        for i, gradient in zip(where, once(ctx, *grads)):
            results[i] = gradient
        return tuple(results)

    torch.library.register_autograd(f"octet::{name}", run, setup_context=setup)


def differentiable(
    name: str,
    inputs: Sequence[str],
    setup: Callable[..., None],
    backward: Callable[..., tuple[Tensor | None, ...]],
    *,
    first_only: bool = False,
) -> Callable[..., Any]:
    """register_gradient, and the function that calls octet::name and returns its results, or the first one.

    The registered gradient takes some 100 us per call in eager mode, where the same two functions in an
    autograd.Function take 10. Its apply looks at each argument it gets, so those without gradients travel in one tuple.
    With first_only the other results have no gradient, and setup need not say so.
    """

    def setup_all(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        setup(ctx, inputs, output)
        ctx.mark_non_differentiable(*output[1:])

    register_gradient(name, inputs, setup_all if first_only else setup, backward)
    operator = getattr(ops, name).default
    at = positions(name)
    where = [at[argument] for argument in inputs]
    once = _once(name, backward)

    class Eager(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, args: tuple[Any, ...], *_: Any) -> Any:
            with torch._C._AutoDispatchBelowAutograd():
                output = operator._op(*args)
            setup(ctx, args, output)  # a setup_context of its own would bind the arguments by inspection, 20 us
            return output[0] if first_only else output

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            ctx.needs = ctx.needs_input_grad[1:]
            return None, *once(ctx, *grads)

    Eager.__name__ = Eager.__qualname__ = name
    # That of the base class: Function.apply looks for a setup_context and for transforms, which are excluded below.
    apply = super(torch.autograd.Function, Eager).apply

    def run(*args: Any) -> Any:
        if (
            torch.compiler.is_compiling()
            or torch._C._are_functorch_transforms_active()
            or not _PLAIN.issuperset(map(type, args))
        ):
            results = call(operator, *args)
            return results[0] if first_only else results
        try:
            return apply(args, *[args[i] for i in where])
        except RuntimeError as error:
            raise_translated(error)

    return run


def positions(name: str) -> dict[str, int]:
    """Where the arguments of octet::name stand, by the names of its schema."""
    return {argument.name: i for i, argument in enumerate(getattr(ops, name).default._schema.arguments)}


# What the eager path takes; tensor subclasses go through the dispatcher.
_PLAIN = {Tensor, torch.nn.Parameter, type(None), int, float, bool}


def is_plain(x: Tensor) -> bool:
    """Whether x is no tensor subclass, such as DTensor."""
    return type(x) is Tensor or type(x) is torch.nn.Parameter


def cached_plans() -> int:
    """How many plans the operators keep; bounded, whatever shapes they have seen."""
    return _library.octet_torch_cached_plans()
