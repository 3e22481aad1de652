"""RMS norm, with the residual added on the way where there is one."""

from typing import Any, Literal, overload

import torch
from torch import Tensor

from octet.torch._activation import QuantizedActivation, Source, empty_carrier, empty_copies, recipe_of
from octet.torch._dtensor import inner_shard_dim, shaped, with_dim_in_front
from octet.torch._formats import DEFAULT_WGRAD, WGRAD_BLOCKS, check_dtype, empty_quantized, operand_format, rows_of
from octet.torch._operators import differentiable, is_plain, ops


@torch.library.register_fake("octet::rms_norm")
def _(x: Tensor, g: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape[0], dtype=torch.float32)


@torch.library.register_fake("octet::rms_norm_residual")
def _(x: Tensor, residual: Tensor, g: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape), x.new_empty(x.shape[0], dtype=torch.float32)


@torch.library.register_fake("octet::rms_norm_quantized")
def _(
    x: Tensor, residual: Tensor | None, g: Tensor, eps: float, format: int, wgrad: int, save_x: bool
) -> tuple[Tensor, ...]:
    return (
        empty_carrier(x.shape, x),
        *empty_copies(x, format, wgrad, save_x),
        x.new_empty(0 if residual is None else x.shape),
        x.new_empty(x.shape[0], dtype=torch.float32),
    )


@torch.library.register_fake("octet::rms_norm_transposed")
def _(x: Tensor, g: Tensor, eps: float, format: int, wgrad: int) -> tuple[Tensor, Tensor]:
    return empty_quantized(x.shape[1], x.shape[0], WGRAD_BLOCKS[wgrad], x)


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
        return None, None
    return ops.rms_norm_backward(rows_of(dy), *ctx.saved_tensors, ctx.eps)


def _backward_of_sum(ctx: Any, dy: Tensor | None, dsum: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of the sum, which x and the residual share, and of g."""
    if dy is None:
        return dsum, None
    if dsum is None:
        return ops.rms_norm_backward(rows_of(dy), *ctx.saved_tensors, ctx.eps)
    return ops.rms_norm_residual_backward(rows_of(dy), rows_of(dsum), *ctx.saved_tensors, ctx.eps)


def _setup_residual(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    _, _, g, ctx.eps = inputs
    _, sum, rstd = output
    ctx.save_for_backward(sum, g, rstd)
    ctx.mark_non_differentiable(rstd)
    ctx.set_materialize_grads(False)


def _backward_residual(ctx: Any, dy: Tensor | None, dsum: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
    dx, dg = _backward_of_sum(ctx, dy, dsum)
    return dx, dx, dg


def _setup_quantized(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, residual, g, ctx.eps, *_ = inputs
    _, *copies, sum, rstd = output
    ctx.has_residual = residual is not None
    ctx.save_for_backward(sum if ctx.has_residual else x, g, rstd)
    ctx.mark_non_differentiable(*copies, *(() if ctx.has_residual else (sum,)), rstd)
    ctx.set_materialize_grads(False)


def _backward_quantized(ctx: Any, dy: Tensor | None, *rest: Tensor | None) -> tuple[Tensor | None, ...]:
    dx, dg = _backward_of_sum(ctx, dy, rest[4] if ctx.has_residual else None)
    return dx, dx if ctx.has_residual else None, dg


_plain = differentiable("rms_norm", ("x", "g"), _setup, _backward)
_residual = differentiable("rms_norm_residual", ("x", "residual", "g"), _setup_residual, _backward_residual)
_quantized = differentiable("rms_norm_quantized", ("x", "residual", "g"), _setup_quantized, _backward_quantized)


@overload
def rms_norm(x: Tensor, g: Tensor, residual: None = None, *, eps: float = 1e-6) -> Tensor: ...
@overload
def rms_norm(x: Tensor, g: Tensor, residual: Tensor, *, eps: float = 1e-6) -> tuple[Tensor, Tensor]: ...
@overload
def rms_norm(
    x: Tensor,
    g: Tensor,
    residual: None = None,
    *,
    eps: float = 1e-6,
    quantized: Literal[True],
    wgrad: str = DEFAULT_WGRAD,
    format: str = "e4m3",
    recompute: bool = False,
    granularity: str = "blockwise",
    mx_scale: str = "floor",
) -> QuantizedActivation: ...
@overload
def rms_norm(
    x: Tensor,
    g: Tensor,
    residual: Tensor,
    *,
    eps: float = 1e-6,
    quantized: Literal[True],
    wgrad: str = DEFAULT_WGRAD,
    format: str = "e4m3",
    recompute: bool = False,
    granularity: str = "blockwise",
    mx_scale: str = "floor",
) -> tuple[QuantizedActivation, Tensor]: ...
@overload
def rms_norm(
    x: Tensor,
    g: Tensor,
    residual: Tensor | None = None,
    *,
    eps: float = 1e-6,
    quantized: bool = False,
    wgrad: str = DEFAULT_WGRAD,
    format: str = "e4m3",
    recompute: bool = False,
    granularity: str = "blockwise",
    mx_scale: str = "floor",
) -> Any: ...
def rms_norm(
    x: Tensor,
    g: Tensor,
    residual: Tensor | None = None,
    *,
    eps: float = 1e-6,
    quantized: bool = False,
    wgrad: str = DEFAULT_WGRAD,
    format: str = "e4m3",
    recompute: bool = False,
    granularity: str = "blockwise",
    mx_scale: str = "floor",
) -> Any:
    """``h / sqrt(mean(h^2) + eps) * g`` over the last dimension, f32 inside; h is x, or x + residual.

    Args:
        x: ``[..., C]``, float32, float16 or bfloat16.
        g: ``[C]``, of any of these dtypes.
        residual: as x.
        quantized: y is only written in FP8, for the layers that read it: a :class:`QuantizedActivation` with the bits
            of :func:`quantize_activation` of y. wgrad, format, granularity and mx_scale are its options. In one pass if
            blockwise, and if rowwise where no y^T is kept and x has 16 bits; otherwise y exists in the dtype of x until
            it is cast.
        recompute: with ``quantized``: the layers that read y norm h again in backward instead of keeping y^T.

    Returns:
        y ``[..., C]``, in the dtype of x; with a residual ``(y, h)``, h being the next residual.
    """
    check_dtype("x", x)
    check_dtype("g", g)
    format = operand_format(format)
    recipe = recipe_of(format, wgrad, granularity, mx_scale)  # refuses wrong names, used or not
    if residual is not None:
        check_dtype("residual", residual)
        if residual.shape != x.shape:
            raise ValueError(
                f"octet: residual must have the shape of x, got {list(residual.shape)} and {list(x.shape)}"
            )
    if not quantized and (dim := inner_shard_dim(x)) is not None:  # sequence parallel
        operands = (x,) if residual is None else (x, residual)
        return with_dim_in_front(dim, lambda x, *residual: rms_norm(x, g, *residual, eps=eps), *operands)
    flat, h = rows_of(x), None if residual is None else rows_of(residual)
    if quantized:
        grad = torch.is_grad_enabled()
        recompute = recompute and is_plain(x)
        carrier, *copies, sum, _ = _quantized(flat, h, g, eps, *recipe, grad and not recompute)
        source = Source(flat if h is None else sum, g, eps) if recompute and grad else None
        y: Any = QuantizedActivation.make(carrier, copies, x.shape, format, wgrad, source, granularity, mx_scale)
    elif h is None:
        y, _ = _plain(flat, g, eps)
        y = shaped(y, x.shape)
    else:
        y, sum, _ = _residual(flat, h, g, eps)
        y = shaped(y, x.shape)
    return y if residual is None else (y, shaped(sum, x.shape))
