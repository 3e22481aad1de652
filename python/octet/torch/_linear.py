"""The FP8 linear layer as a differentiable function."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from octet.torch._activation import QuantizedActivation, Source, no_source, recipe_of
from octet.torch._dtensor import shaped
from octet.torch._formats import (
    DEFAULT_WGRAD,
    DTYPES,
    FORMATS,
    WGRAD_BLOCKS,
    check_dtype,
    empty_quantized,
    formats_of,
    number,
    rows_of,
)
from octet.torch._operators import differentiable, is_plain, ops, positions


class QuantizedWeight(NamedTuple):
    """A weight ``[N, K]`` and its transpose in FP8, in octet's layout: with 128x128 blocks, with a scale per row of
    either, or with one for both; see cache_weights."""

    values: Tensor
    scales: Tensor
    t_values: Tensor
    t_scales: Tensor


NO_WEIGHT = (None, None, None, None)


@torch.library.register_fake("octet::linear_forward")
def _(
    x: Tensor,
    x_values: Tensor | None,
    x_scales: Tensor | None,
    x_t: Tensor | None,
    x_t_scales: Tensor | None,
    w: Tensor,
    w_values: Tensor | None,
    w_scales: Tensor | None,
    w_t: Tensor | None,
    w_t_scales: Tensor | None,
    main_grad: Tensor | None,
    accumulate: bool,
    format: int,
    grad_format: int,
    wgrad: int,
    save_x: bool,
    bias: Tensor | None,
    source: Tensor | None,
    g: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    torch._check(x.dim() == 2 and w.dim() == 2, lambda: f"octet: x and w must be matrices, got {x.shape}, {w.shape}")
    torch._check(
        x.shape[1] == w.shape[1], lambda: f"octet: x {x.shape} and w {w.shape} must have the same number of columns"
    )
    y = x.new_empty(x.shape[0], w.shape[0])
    if not save_x or x_values is not None:
        return y, x.new_empty(0, dtype=torch.uint8), x.new_empty(0, dtype=torch.float32)
    return y, *empty_quantized(x.shape[1], x.shape[0], WGRAD_BLOCKS[wgrad], x)


@torch.library.register_fake("octet::linear_backward")
def _(
    dy: Tensor,
    x_t: Tensor | None,
    x_t_scales: Tensor | None,
    w: Tensor,
    w_t: Tensor | None,
    w_t_scales: Tensor | None,
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
    x_t: Tensor | None,
    x_t_scales: Tensor | None,
    w: Tensor,
    w_t: Tensor | None,
    w_t_scales: Tensor | None,
    main_grad: Tensor,
    accumulate: bool,
    format: int,
    grad_format: int,
    wgrad: int,
    need_dx: bool,
) -> Tensor:
    return dy.new_empty((dy.shape[0], w.shape[1]) if need_dx else 0)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    _, _, _, x_t, x_t_scales, w, _, _, w_t, w_t_scales, main_grad, ctx.accumulate, *options = inputs
    *ctx.recipe, save_x, bias, source, g, ctx.eps = options
    # Not through save_for_backward: another micro-batch may add to main_grad in between. It is an input of forward
    # because what backward uses must be an input or an output of the operator.
    ctx.main_grad = main_grad
    if x_t is None and save_x:
        _, x_t, x_t_scales = output
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.save_for_backward(x_t, x_t_scales, source, g, w, w_t, w_t_scales)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, dy: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    need_dx, need_dw, need_dbias = ctx.needs
    if dy is None:
        return None, None, None
    dx = dw = dbias = None
    dy = rows_of(dy)
    x_t, x_t_scales, source, g, w, w_t, w_t_scales = ctx.saved_tensors
    if need_dw and x_t is None:
        if source is None:
            raise RuntimeError("octet: the gradient of w needs linear_forward with save_x=True, or a source")
        x_t, x_t_scales = Source(source, g, ctx.eps).transposed(ctx.recipe[0], ctx.recipe[2])
    operands = (dy, x_t, x_t_scales, w, w_t, w_t_scales)
    if need_dw and ctx.main_grad is not None:
        dx = ops.linear_backward_main_grad(*operands, ctx.main_grad, ctx.accumulate, *ctx.recipe, need_dx)
    elif need_dx or need_dw:
        dx, dw = ops.linear_backward(*operands, *ctx.recipe, need_dx, need_dw)
    if need_dbias:
        dbias = dy.sum(0, dtype=torch.float32).to(ctx.bias_dtype)
    return dx if need_dx else None, dw if need_dw else None, dbias


_forward = differentiable("linear_forward", ("x", "w", "bias"), _setup, _backward, first_only=True)
_W = positions("linear_forward")["w"]


@register_flop_formula(ops.linear_forward)
def _forward_flops(x_shape: Any, *args: Any, **kwargs: Any) -> int:
    w_shape = args[_W - 1]
    return 2 * x_shape[0] * x_shape[1] * w_shape[0]


@register_flop_formula(ops.linear_backward)
def _backward_flops(dy_shape: Any, x_t: Any, x_t_scales: Any, w_shape: Any, *args: Any, **kwargs: Any) -> int:
    need_dx, need_dw = args[-2:]
    return 2 * dy_shape[0] * w_shape[0] * w_shape[1] * (need_dx + need_dw)


@register_flop_formula(ops.linear_backward_main_grad)
def _backward_main_grad_flops(dy_shape: Any, x_t: Any, x_t_scales: Any, w_shape: Any, *args: Any, **kwargs: Any) -> int:
    need_dx = args[-1]
    return 2 * dy_shape[0] * w_shape[0] * w_shape[1] * (need_dx + 1)


def autocast(x: Any, *weights: Tensor) -> tuple[Any, ...]:
    """x and the weights in the dtype of autocast, where it is on. The bits of an activation in FP8 stay, but not its
    dtype, which is that of the layer's result."""
    if not torch._C._is_any_autocast_enabled():  # the cheap question first
        return x, *weights
    if not torch.is_autocast_enabled(x.device.type):
        return x, *weights
    dtype = torch.get_autocast_dtype(x.device.type)
    return x.to(dtype), *(w.to(dtype) for w in weights)


def checked_operands(x: Any, names: tuple[str, ...], *weights: Tensor) -> tuple[Any, ...]:
    """x and the weights in the dtype of autocast. Refuses what is not an activation ``[..., K]``, and weights, by their
    names, that are no matrices of its dtype."""
    if not isinstance(x, QuantizedActivation):
        check_dtype("x", x)
    for name, w in zip(names, weights):
        check_dtype(name, w)
    x, *cast = autocast(x, *weights)
    if isinstance(x, QuantizedActivation):
        x = x.to(cast[0].dtype)
    for name, w in zip(names, cast):
        if x.dtype != w.dtype:
            raise TypeError(f"octet: x and {name} must have the same dtype, got {x.dtype} and {w.dtype}")
        if len(x.shape) == 0 or w.dim() != 2:
            raise ValueError(f"octet: x must be [..., K] and {name} [N, K], got {list(x.shape)} and {list(w.shape)}")
    return x, *cast


def _plainly_fit(x: Any, w: Any) -> bool:
    """Whether x and w are, at a glance, what checked_operands returns unchanged."""
    return is_plain(x) and is_plain(w) and x.dtype == w.dtype and x.dtype in DTYPES and x.dim() > 0 and w.dim() == 2


class Activation(NamedTuple):
    """The arguments of the operators that come from x."""

    operands: tuple[Tensor | None, ...]  # x, x_values, x_scales, x_t, x_t_scales
    format: int
    wgrad: int
    save_x: bool
    source: Source


def activation_arguments(
    x: Tensor | QuantizedActivation,
    wgrad: str | None,
    format: str | None,
    need_dw: bool,
    recompute: bool = False,
    granularity: str | None = None,
    mx_scale: str | None = None,
    fast_accumulation: bool = False,
) -> Activation:
    if not isinstance(x, QuantizedActivation):
        flat = rows_of(x)
        source = Source(flat, None, 0.0) if recompute and need_dw and is_plain(x) else no_source()
        shared = (granularity or "blockwise", mx_scale or "floor", fast_accumulation)
        numbers = recipe_of(format or "e4m3", wgrad or DEFAULT_WGRAD, *shared)
        return Activation((flat, *NO_WEIGHT), *numbers, need_dw and source.x is None, source)
    for option, given, made in (
        ("wgrad", wgrad, x.wgrad),
        ("format", format, x.format),
        ("granularity", granularity, x.granularity),
        ("mx_scale", mx_scale, x.mx_scale),
    ):
        if given is not None and given != made:
            raise ValueError(f"octet: x was quantised with {option}={made!r}, got {option}={given!r}")
    numbers = recipe_of(x.format, x.wgrad, x.granularity, x.mx_scale, fast_accumulation)
    if need_dw and x.source is not None:
        return Activation((x.carrier, x.values, x.scales, None, None), *numbers, False, x.source)
    if need_dw and x.transposed() is None:
        raise ValueError("octet: x was quantised without gradients, so it has no transposed copy; the weight needs one")
    t_values, t_scales = (x.t_values, x.t_scales) if need_dw else (None, None)
    return Activation((x.carrier, x.values, x.scales, t_values, t_scales), *numbers, need_dw, no_source())


def linear(
    x: Tensor | QuantizedActivation,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    wgrad: str | None = None,
    format: str | None = None,
    grad_format: str | None = None,
    granularity: str | None = None,
    mx_scale: str | None = None,
    fast_accumulation: bool = False,
    recompute: bool = False,
    main_grad: Tensor | None = None,
    accumulate: bool = True,
    quantized_w: QuantizedWeight | None = None,
) -> Tensor:
    """``x w^T + bias`` with all three products of training in FP8.

    x and w are float32, float16 or bfloat16, both the same; under autocast both are cast to its dtype. Any K, N and
    number of tokens.

    Args:
        x: ``[..., K]``, activations. Quantised here, or quantised already.
        w: ``[N, K]``, weights.
        bias: ``[N]``. Added in f32 before y is rounded.
        wgrad: how x^T is quantised for the weight gradient: ``"2d"``, 128x128 blocks, or ``"1d"``, 1x128 blocks, whose
            product is slower on a GPU and whose error is smaller where tokens differ in magnitude. Default: ``"2d"``,
            or what a quantised x was made with.
        format: of x and w, ``"e4m3"`` (default) or ``"e5m2"``; ``"hybrid"`` is e4m3 with dy in e5m2.
        grad_format: of dy, ``"e4m3"`` (default) or ``"e5m2"``.
        granularity: how scales are shared. ``"blockwise"`` (default): x and dy in 1x128 blocks along each product's
            contraction, w in 128x128 ones. ``"tensorwise"``: one scale per tensor. ``"rowwise"``: one per row of every
            operand as its product reads it, so w, x and dy are cast twice, each time from the original values.
            ``"mxfp8"``: mx blocks of 32 with power-of-two scales, folded to the blocks of blockwise. wgrad is of
            blockwise and mxfp8; the others have no such blocks.
        mx_scale: of mxfp8, how the power of two follows from a block's largest magnitude: ``"floor"`` (default), as OCP
            MX has it, where that magnitude may saturate; ``"even"``, rounded; ``"up"``, where none saturates.
        fast_accumulation: of tensorwise and rowwise, on a GPU: a sum stays in the tensor cores, which keep about 14
            bits of it, for the whole of K. Other libraries do so; the error grows with K. On a CPU it changes nothing.
        recompute: keep x and cast x^T in backward, which saves memory where something else keeps x as well.
        main_grad: ``[N, K]``, float32 or bfloat16. Backward adds the weight gradient to it, and ``w.grad`` stays None.
        accumulate: False: backward overwrites main_grad.
        quantized_w: w in FP8, in place of the casts of w in forward and backward; see :func:`cache_weights`.

    Returns:
        y ``[..., N]``, in the dtype of x.

    Saved for backward: x^T in FP8 (one byte per element, and w itself; nothing of x if w needs no gradient). Layers
    that read one :class:`QuantizedActivation` save the same x^T.

    Raises:
        ValueError: a shape, format or device that octet refuses; nothing has been written.
        TypeError: an argument that is not a tensor of a supported dtype.
    """
    if torch._C._is_any_autocast_enabled() or not _plainly_fit(x, w):
        x, w = checked_operands(x, ("w",), w)
    if format == "hybrid" or grad_format is None:
        format, grad_format = formats_of(format, grad_format)
    grad_format_number = number("grad_format", grad_format, FORMATS)
    need_dw = torch.is_grad_enabled() and w.requires_grad
    if w.shape[1] == 0 and isinstance(x, Tensor):  # nothing to quantise
        y = F.linear(x, w)
        return y if bias is None else y + bias.to(y.dtype)
    activation = activation_arguments(x, wgrad, format, need_dw, recompute, granularity, mx_scale, fast_accumulation)
    if main_grad is not None and need_dw:
        check_dtype("main_grad", main_grad)
    else:
        main_grad = None
    if bias is not None and bias.dtype not in (torch.float32, x.dtype):
        bias = bias.to(x.dtype)
    # A product of DTensors may be a sum over ranks, to which the bias must be added once.
    fused = bias is None or is_plain(w)
    y = _forward(
        *activation.operands,
        rows_of(w),
        *(quantized_w or NO_WEIGHT),
        main_grad,
        accumulate,
        activation.format,
        grad_format_number,
        activation.wgrad,
        activation.save_x,
        bias if fused else None,
        *activation.source,
    )
    if len(x.shape) != 2:
        y = shaped(y, (*x.shape[:-1], w.shape[0]))
    return y if fused or bias is None else y + bias.to(y.dtype)
