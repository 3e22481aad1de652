"""Main gradients: tensors in f32 or bf16 to which backward adds weight gradients, and Megatron-LM's protocol for them.

Megatron-LM gives its parameters the attributes ``main_grad`` and ``grad_added_to_main_grad``. Its hooks run when the
parameter gets a gradient, must find one (overlapped reductions count on that), and do not add it where
``grad_added_to_main_grad`` is set. So a layer that has added to main_grad returns a gradient without meaning.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor


class MainGrad(NamedTuple):
    weight: Tensor  # what the layer computes with in the place of the parameter
    main_grad: Tensor | None
    accumulate: bool  # otherwise backward overwrites main_grad


class _Noted(torch.autograd.Function):
    """The weight. Backward notes that main_grad has its gradient, and returns one that nobody reads."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        ctx.weight = weight
        ctx.set_materialize_grads(False)
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Tensor:
        weight = ctx.weight
        weight.grad_added_to_main_grad = True
        if getattr(weight, "zero_out_wgrad", False):  # Megatron-LM adds the gradient nevertheless
            return torch.zeros_like(weight)
        return torch.empty_like(weight)


class _Placeholder(torch.autograd.Function):
    """_Noted for torch.compile, whose backward cannot write attributes."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        ctx.save_for_backward(weight)
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Tensor:
        return torch.zeros_like(ctx.saved_tensors[0])


def main_grad_of(weight: Tensor) -> MainGrad:
    """A parameter's main_grad where it has one and needs a gradient."""
    main_grad = getattr(weight, "main_grad", None)
    if main_grad is None or not (torch.is_grad_enabled() and weight.requires_grad):
        return MainGrad(weight, None, True)
    accumulate = not getattr(weight, "overwrite_main_grad", False)  # Megatron-FSDP's
    if not hasattr(weight, "grad_added_to_main_grad"):
        return MainGrad(weight, main_grad, accumulate)
    if not torch.compiler.is_compiling():
        return MainGrad(_Noted.apply(weight), main_grad, accumulate)
    setattr(weight, "grad_added_to_main_grad", True)  # noqa: B010 - torch.compile replays it at every forward
    return MainGrad(_Placeholder.apply(weight), main_grad, accumulate)
