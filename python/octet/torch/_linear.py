"""The FP8 linear layer as a differentiable function."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from octet.torch._formats import FORMATS, WGRAD_BLOCKS, WGRADS, check_dtype, empty_quantized, number, rows_of
from octet.torch._operators import call, ops


def _check_shapes(x: Tensor, w: Tensor) -> None:
    torch._check(x.dim() == 2 and w.dim() == 2, lambda: f"octet: x and w must be matrices, got {x.shape}, {w.shape}")
    torch._check(x.shape[1] == w.shape[1], lambda: f"octet: x {x.shape} and w {w.shape} must have as many columns")


@torch.library.register_fake("octet::linear_forward")
def _(x: Tensor, w: Tensor, format: int, grad_format: int, wgrad: int, save_x: bool) -> tuple[Tensor, Tensor, Tensor]:
    _check_shapes(x, w)
    y = x.new_empty(x.shape[0], w.shape[0])
    if not save_x:
        return y, x.new_empty(0, dtype=torch.uint8), x.new_empty(0, dtype=torch.float32)
    return y, *empty_quantized(x.shape[1], x.shape[0], WGRAD_BLOCKS[wgrad], x)


@torch.library.register_fake("octet::linear_forward_main_grad")
def _(
    x: Tensor, w: Tensor, main_grad: Tensor, format: int, grad_format: int, wgrad: int
) -> tuple[Tensor, Tensor, Tensor]:
    _check_shapes(x, w)
    return x.new_empty(x.shape[0], w.shape[0]), *empty_quantized(x.shape[1], x.shape[0], WGRAD_BLOCKS[wgrad], x)


@torch.library.register_fake("octet::linear_backward")
def _(
    dy: Tensor,
    x_t: Tensor,
    x_t_scales: Tensor,
    w: Tensor,
    format: int,
    grad_format: int,
    wgrad: int,
    need_dx: bool,
    need_dw: bool,
) -> tuple[Tensor, Tensor]:
    dx = dy.new_empty((dy.shape[0], w.shape[1]) if need_dx else 0)
    return dx, dy.new_empty(w.shape if need_dw else 0)


@torch.library.register_fake("octet::linear_backward_main_grad")
def _(
    dy: Tensor,
    x_t: Tensor,
    x_t_scales: Tensor,
    w: Tensor,
    main_grad: Tensor,
    format: int,
    grad_format: int,
    wgrad: int,
    need_dx: bool,
) -> Tensor:
    return dy.new_empty((dy.shape[0], w.shape[1]) if need_dx else 0)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    _, w, *ctx.recipe, save_x = inputs
    _, x_t, x_t_scales = output
    ctx.saved_x = save_x
    ctx.save_for_backward(x_t, x_t_scales, w)
    ctx.mark_non_differentiable(x_t, x_t_scales)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, dy: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    need_dx, need_dw = ctx.needs_input_grad[:2]
    if dy is None or not (need_dx or need_dw):
        return (None,) * 6
    if need_dw and not ctx.saved_x:
        raise RuntimeError("octet: the gradient of w needs linear_forward with save_x=True")
    dx, dw = ops.linear_backward(rows_of(dy), *ctx.saved_tensors, *ctx.recipe, need_dx, need_dw)
    return (dx if need_dx else None, dw if need_dw else None, None, None, None, None)


torch.library.register_autograd("octet::linear_forward", _backward, setup_context=_setup)


# main_grad is an input of forward, because what backward uses must be an input or an output of the operator.
def _setup_main_grad(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    # Not through save_for_backward: another micro-batch may add to main_grad in between.
    _, w, ctx.main_grad, *ctx.recipe = inputs
    _, x_t, x_t_scales = output
    ctx.save_for_backward(x_t, x_t_scales, w)
    ctx.mark_non_differentiable(x_t, x_t_scales)
    ctx.set_materialize_grads(False)


def _backward_main_grad(ctx: Any, dy: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if dy is None:
        return (None,) * 6
    need_dx = ctx.needs_input_grad[0]
    x_t, x_t_scales, w = ctx.saved_tensors
    dx = ops.linear_backward_main_grad(rows_of(dy), x_t, x_t_scales, w, ctx.main_grad, *ctx.recipe, need_dx)
    return (dx if need_dx else None, None, None, None, None, None)


torch.library.register_autograd("octet::linear_forward_main_grad", _backward_main_grad, setup_context=_setup_main_grad)


@register_flop_formula([ops.linear_forward, ops.linear_forward_main_grad])
def _forward_flops(x_shape: Any, w_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    return 2 * x_shape[0] * x_shape[1] * w_shape[0]


@register_flop_formula(ops.linear_backward)
def _backward_flops(dy_shape: Any, x_t: Any, x_t_scales: Any, w_shape: Any, *args: Any, **kwargs: Any) -> int:
    need_dx, need_dw = args[3], args[4]
    return 2 * dy_shape[0] * w_shape[0] * w_shape[1] * (need_dx + need_dw)


@register_flop_formula(ops.linear_backward_main_grad)
def _backward_main_grad_flops(dy_shape: Any, x_t: Any, x_t_scales: Any, w_shape: Any, *args: Any, **kwargs: Any) -> int:
    need_dx = args[4]
    return 2 * dy_shape[0] * w_shape[0] * w_shape[1] * (need_dx + 1)


def linear(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    wgrad: str = "1d",
    format: str = "e4m3",
    grad_format: str = "e4m3",
    main_grad: Tensor | None = None,
) -> Tensor:
    """``x w^T + bias`` with all three products of training in block-scaled FP8.

    x and w are float32, float16 or bfloat16, both the same; under autocast both are cast to its dtype. Any K, N and
    number of tokens.

    Args:
        x: ``[..., K]``, activations. Quantised in 1x128 blocks.
        w: ``[N, K]``, weights. Quantised in 128x128 blocks.
        bias: ``[N]``. Added in the dtype of y by torch, after the product.
        wgrad: how x^T is quantised for the weight gradient: ``"1d"``, 1x128 blocks, or ``"2d"``, 128x128 blocks, whose
            product is faster on a GPU and whose error is larger where tokens differ in magnitude.
        format: of x and w, ``"e4m3"`` or ``"e5m2"``.
        grad_format: of dy, ``"e4m3"`` or ``"e5m2"``.
        main_grad: ``[N, K]``, float32 or bfloat16. Backward adds the weight gradient to it, and ``w.grad`` stays None.

    Returns:
        y ``[..., N]``, in the dtype of x.

    Saved for backward: x^T in FP8 (one byte per element, and w itself; nothing of x if w needs no gradient).

    Raises:
        ValueError: a shape, format or device that octet refuses; nothing has been written.
        TypeError: an argument that is not a tensor of a supported dtype.
    """
    check_dtype("x", x)
    check_dtype("w", w)
    recipe = (
        number("format", format, FORMATS),
        number("grad_format", grad_format, FORMATS),
        number("wgrad", wgrad, WGRADS),
    )
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, w = x.to(dtype), w.to(dtype)
    if x.dtype != w.dtype:
        raise TypeError(f"octet: x and w must have the same dtype, got {x.dtype} and {w.dtype}")
    if x.dim() == 0 or w.dim() != 2:
        raise ValueError(f"octet: x must be [..., K] and w [N, K], got {list(x.shape)} and {list(w.shape)}")
    if x.numel() == 0:  # no tokens, nothing to quantise
        y = F.linear(x, w)
        return y if bias is None else y + bias.to(y.dtype)
    flat, matrix = rows_of(x), rows_of(w)
    need_dw = torch.is_grad_enabled() and w.requires_grad
    if main_grad is not None and need_dw:
        check_dtype("main_grad", main_grad)
        y, _, _ = call(ops.linear_forward_main_grad, flat, matrix, main_grad, *recipe)
    else:
        y, _, _ = call(ops.linear_forward, flat, matrix, *recipe, need_dw)
    y = y.view(*x.shape[:-1], w.shape[0])
    return y if bias is None else y + bias.to(y.dtype)
