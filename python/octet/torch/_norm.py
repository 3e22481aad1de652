"""RMS norm, with the residual added on the way where there is one."""

from typing import Any, overload

import torch
from torch import Tensor

from octet.torch._formats import check_dtype, rows_of
from octet.torch._operators import call, ops


@torch.library.register_fake("octet::rms_norm")
def _(x: Tensor, g: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape[0], dtype=torch.float32)


@torch.library.register_fake("octet::rms_norm_residual")
def _(x: Tensor, residual: Tensor, g: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape), x.new_empty(x.shape[0], dtype=torch.float32)


@torch.library.register_fake("octet::rms_norm_backward")
def _(dy: Tensor, x: Tensor, g: Tensor, rstd: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), g.new_empty(g.shape)


@torch.library.register_fake("octet::rms_norm_residual_backward")
def _(dy: Tensor, dsum: Tensor, sum: Tensor, g: Tensor, rstd: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return sum.new_empty(sum.shape), g.new_empty(g.shape)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, g, ctx.eps = inputs
    ctx.save_for_backward(x, g, output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, dy: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
    if dy is None:
        return None, None, None
    return *ops.rms_norm_backward(rows_of(dy), *ctx.saved_tensors, ctx.eps), None


def _setup_residual(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    _, _, g, ctx.eps = inputs
    _, sum, rstd = output
    ctx.save_for_backward(sum, g, rstd)
    ctx.mark_non_differentiable(rstd)
    ctx.set_materialize_grads(False)


def _backward_residual(ctx: Any, dy: Tensor | None, dsum: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
    if dy is None:
        return dsum, dsum, None, None
    saved = ctx.saved_tensors
    if dsum is None:
        dx, dg = ops.rms_norm_backward(rows_of(dy), *saved, ctx.eps)
    else:
        dx, dg = ops.rms_norm_residual_backward(rows_of(dy), rows_of(dsum), *saved, ctx.eps)
    return dx, dx, dg, None


torch.library.register_autograd("octet::rms_norm", _backward, setup_context=_setup)
torch.library.register_autograd("octet::rms_norm_residual", _backward_residual, setup_context=_setup_residual)


@overload
def rms_norm(x: Tensor, g: Tensor, residual: None = None, *, eps: float = 1e-6) -> Tensor: ...
@overload
def rms_norm(x: Tensor, g: Tensor, residual: Tensor, *, eps: float = 1e-6) -> tuple[Tensor, Tensor]: ...
def rms_norm(
    x: Tensor, g: Tensor, residual: Tensor | None = None, *, eps: float = 1e-6
) -> Tensor | tuple[Tensor, Tensor]:
    """``h / sqrt(mean(h^2) + eps) * g`` over the last dimension, f32 inside; h is x, or x + residual.

    Args:
        x: ``[..., C]``, float32, float16 or bfloat16.
        g: ``[C]``, of any of these dtypes.
        residual: as x.

    Returns:
        y ``[..., C]``, in the dtype of x; with a residual ``(y, h)``, h being the next residual.
    """
    check_dtype("x", x)
    check_dtype("g", g)
    if residual is None:
        y, _ = call(ops.rms_norm, rows_of(x), g, eps)
        return y.view(x.shape)
    check_dtype("residual", residual)
    y, h, _ = call(ops.rms_norm_residual, rows_of(x), rows_of(residual), g, eps)
    return y.view(x.shape), h.view(x.shape)
