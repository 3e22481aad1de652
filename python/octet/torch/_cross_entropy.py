"""The head of a language model and its loss as one differentiable function."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from octet.torch._dtensor import DTENSORS
from octet.torch._formats import DEFAULT_WGRAD, FORMATS, WGRADS, check_dtype, number, rows_of
from octet.torch._linear import NO_WEIGHT, QuantizedWeight, checked_operands
from octet.torch._operators import call, ops, register_gradient

REDUCTIONS = {"none": 0, "sum": 1, "mean": 2}
PRECISIONS = {"fp8": True, "plain": False}


def _check_shapes(x: Tensor, w: Tensor, target: Tensor) -> None:
    torch._check(x.dim() == 2 and w.dim() == 2, lambda: f"octet: x and w must be matrices, got {x.shape}, {w.shape}")
    torch._check(
        x.shape[1] == w.shape[1], lambda: f"octet: x {x.shape} and w {w.shape} must have the same number of columns"
    )
    torch._check(target.dim() == 1, lambda: f"octet: target must have one dimension, got {target.shape}")
    torch._check(
        x.shape[0] == target.shape[0],
        lambda: f"octet: x {x.shape} and target {target.shape} must have the same number of tokens",
    )


@torch.library.register_fake("octet::linear_cross_entropy")
def _(
    x: Tensor,
    w: Tensor,
    w_values: Tensor | None,
    w_scales: Tensor | None,
    w_t: Tensor | None,
    w_t_scales: Tensor | None,
    target: Tensor,
    main_grad: Tensor | None,
    accumulate: bool,
    ignore_index: int,
    reduction: int,
    fp8: bool,
    format: int,
    grad_format: int,
    wgrad: int,
    need_dx: bool,
    need_dw: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    _check_shapes(x, w, target)
    loss = x.new_empty(x.shape[0] if reduction == 0 else 1, dtype=torch.float32)
    lse = x.new_empty(x.shape[0], dtype=torch.float32)
    dw_dtype = x.dtype if main_grad is None else main_grad.dtype
    dx = x.new_empty(x.shape if need_dx else 0)
    return loss, lse, dx, x.new_empty(w.shape if need_dw else 0, dtype=dw_dtype)


@torch.library.register_fake("octet::linear_cross_entropy_backward")
def _(dloss: Tensor, x: Tensor, w: Tensor, *args: Any) -> tuple[Tensor, Tensor]:
    need_dx, need_dw = args[-2:]
    return x.new_empty(x.shape if need_dx else 0), x.new_empty(w.shape if need_dw else 0)


@torch.library.register_fake("octet::linear_cross_entropy_backward_main_grad")
def _(dloss: Tensor, x: Tensor, w: Tensor, *args: Any) -> Tensor:
    return x.new_empty(x.shape if args[-1] else 0)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, w, *fp8, target, main_grad, ctx.accumulate = inputs[:9]
    _, lse, dx, dw = output
    *ctx.recipe, need_dx, need_dw = inputs[9:]
    # Not through save_for_backward: another micro-batch may add to main_grad in between.
    ctx.main_grad = main_grad
    ctx.at_once = need_dx or need_dw
    ctx.has = need_dx, need_dw
    if ctx.at_once:
        ctx.save_for_backward(dx, dw)
    else:
        ctx.save_for_backward(x, w, *fp8, target, lse)
    ctx.mark_non_differentiable(lse, dx, dw)
    ctx.set_materialize_grads(False)


def _scaled(ctx: Any, dloss: Tensor, need_dx: bool, need_dw: bool) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of forward, times that of the loss. Forward's stay as they are: backward may run again."""
    dx: Tensor
    dw: Any
    dx, dw = ctx.saved_tensors
    factor = dloss.reshape(())  # without a dimension it does not promote 16-bit gradients
    if need_dw and ctx.main_grad is not None:
        if not ctx.accumulate:
            ctx.main_grad.copy_(dw * factor)
        elif isinstance(dw, DTENSORS):  # which have no addcmul_ of partial sums
            ctx.main_grad.add_(dw * factor)
        else:
            ctx.main_grad.addcmul_(dw, factor)
        need_dw = False
    return dx * factor if need_dx else None, dw * factor if need_dw else None


def _recomputed(ctx: Any, dloss: Tensor, need_dx: bool, need_dw: bool) -> tuple[Tensor | None, Tensor | None]:
    dloss = dloss.float().contiguous()
    if need_dw and ctx.main_grad is not None:
        args = (dloss, *ctx.saved_tensors, ctx.main_grad, ctx.accumulate, *ctx.recipe, need_dx)
        dx, dw = ops.linear_cross_entropy_backward_main_grad(*args), None
    else:
        dx, dw = ops.linear_cross_entropy_backward(dloss, *ctx.saved_tensors, *ctx.recipe, need_dx, need_dw)
    return dx if need_dx else None, dw if need_dw else None


def _backward(ctx: Any, dloss: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    need_dx, need_dw = ctx.needs
    if dloss is None or not (need_dx or need_dw):
        return None, None
    if ctx.at_once and not (need_dx <= ctx.has[0] and need_dw <= ctx.has[1]):
        raise RuntimeError("octet: a gradient was not computed: linear_cross_entropy needs need_dx and need_dw for it")
    return (_scaled if ctx.at_once else _recomputed)(ctx, dloss, need_dx, need_dw)


register_gradient("linear_cross_entropy", ("x", "w"), _setup, _backward)


@register_flop_formula(ops.linear_cross_entropy)
def _forward_flops(x_shape: Any, w_shape: Any, *args: Any, **kwargs: Any) -> int:
    need_dx, need_dw = args[-2:]
    return 2 * x_shape[0] * w_shape[0] * w_shape[1] * (1 + need_dx + need_dw)


@register_flop_formula(ops.linear_cross_entropy_backward)
def _backward_flops(dloss_shape: Any, x_shape: Any, w_shape: Any, *args: Any, **kwargs: Any) -> int:
    need_dx, need_dw = args[-2:]
    return 2 * x_shape[0] * w_shape[0] * w_shape[1] * (1 + need_dx + need_dw)


@register_flop_formula(ops.linear_cross_entropy_backward_main_grad)
def _backward_main_grad_flops(dloss_shape: Any, x_shape: Any, w_shape: Any, *args: Any, **kwargs: Any) -> int:
    return 2 * x_shape[0] * w_shape[0] * w_shape[1] * (2 + args[-1])


def _refuse_split_vocabulary(w: Tensor) -> None:
    for placement in getattr(w, "placements", ()):
        if placement.is_shard(0):
            raise ValueError(
                f"octet: linear_cross_entropy needs the whole vocabulary on every rank, but w is a DTensor with "
                f"{placement}, split along it: the loss would need the maxima and sums of the logits of all ranks. "
                f"Replicate w (w.redistribute(placements=[Replicate()])), or shard it with FSDP2, which gathers it"
            )


def _check_target(x: Tensor, target: Any) -> None:
    if not isinstance(target, Tensor):
        raise TypeError(f"octet: target must be a torch.Tensor, got {type(target).__name__}")
    if target.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"octet: target must be int64 or int32, got {target.dtype}")
    if target.shape != x.shape[:-1]:
        raise ValueError(
            f"octet: target must have the shape of x without its last dimension, {list(x.shape[:-1])}, "
            f"got {list(target.shape)}"
        )


class _NoGradient(torch.autograd.Function):
    """w for a loss of no tokens, where main_grad gets the gradient: zeros, or nothing to add."""

    @staticmethod
    def forward(ctx: Any, w: Tensor, main_grad: Tensor, accumulate: bool) -> Tensor:
        ctx.main_grad, ctx.accumulate = main_grad, accumulate
        return w.view_as(w)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> tuple[None, None, None]:
        if not ctx.accumulate:
            ctx.main_grad.zero_()
        return None, None, None


def _loss_of_no_tokens(
    x: Tensor,
    w: Tensor,
    target: Tensor,
    ignore_index: int,
    reduction: str,
    main_grad: Tensor | None,
    accumulate: bool,
) -> Tensor:
    if main_grad is not None:
        w = _NoGradient.apply(w, main_grad, accumulate)
    logits = F.linear(x, w).float().reshape(-1, w.shape[0])
    loss = F.cross_entropy(logits, target.reshape(-1).long(), ignore_index=ignore_index, reduction=reduction)
    return loss.view(target.shape) if reduction == "none" else loss


def linear_cross_entropy(
    x: Tensor,
    w: Tensor,
    target: Tensor,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    precision: str = "fp8",
    wgrad: str = DEFAULT_WGRAD,
    format: str = "e4m3",
    grad_format: str = "e4m3",
    main_grad: Tensor | None = None,
    accumulate: bool = True,
    quantized_w: QuantizedWeight | None = None,
) -> Tensor:
    """The cross-entropy of the logits ``x w^T`` against target, without a tensor of all logits.

    What ``F.cross_entropy(F.linear(x, w).float(), target)`` computes. Tokens are taken in chunks whose logits stay
    within 512 MiB (``"plain"``: in one chunk where that takes no more than a float32 dw); the loss is float32. For
    ``"mean"`` and ``"sum"`` the gradients of x and w are computed in the same pass, and backward multiplies them by the
    gradient of the loss; for ``"none"``, and in float16, backward computes the logits again.

    Args:
        x: ``[..., K]``, float32, float16 or bfloat16; under autocast x and w are cast to its dtype.
        w: ``[V, K]``, in the dtype of x. On a GPU ``"plain"`` products are 16-bit ones.
        target: ``[...]``, int64 or int32: words in ``[0, V)``, or ignore_index. Other numbers are refused on the CPU;
            on a GPU the loss becomes NaN.
        ignore_index: tokens with this target have no loss and no gradient.
        reduction: ``"mean"`` over the tokens that are not ignored (NaN if all are, with zero gradients), ``"sum"``, or
            ``"none"``.
        precision: ``"fp8"``, products and casts of ``linear``; or ``"plain"``, products in the dtype of x.
        wgrad: with fp8, blocks of x^T: ``"1d"``, 1x128, or ``"2d"``, 128x128.
        format: with fp8, of x and w.
        grad_format: with fp8, of the gradients of the logits.
        main_grad: ``[V, K]``, float32. Backward adds the weight gradient to it, and ``w.grad`` stays None.
        accumulate: False: backward overwrites main_grad.
        quantized_w: with fp8, w cast already (``cache_weights``).

    Returns:
        The loss, float32: a scalar, or ``[...]`` with ``"none"``.

    Saved for backward: dx and dw, as large as x and w (dw in float32 with main_grad); for ``"none"`` x and w.

    Raises:
        ValueError: a shape, target or option that octet refuses, or a w split along the vocabulary.
        TypeError: an argument that is not a tensor of a supported dtype.
    """
    check_dtype("x", x)
    reduction_number = number("reduction", reduction, REDUCTIONS)
    recipe = (
        number("precision", precision, PRECISIONS),
        number("format", format, FORMATS),
        number("grad_format", grad_format, FORMATS),
        number("wgrad", wgrad, WGRADS),
    )
    x, w = checked_operands(x, ("w",), w)
    _check_target(x, target)
    _refuse_split_vocabulary(w)
    need_dx, need_dw = (torch.is_grad_enabled() and t.requires_grad for t in (x, w))
    if main_grad is None or not need_dw:
        main_grad = None
    elif main_grad.dtype != torch.float32:
        raise TypeError(f"octet: main_grad must be float32, got {main_grad.dtype}")
    if x.numel() == 0:
        return _loss_of_no_tokens(x, w, target, ignore_index, reduction, main_grad, accumulate)
    # A mean of float16 may have gradients below its range; backward knows the scale of the loss.
    at_once = reduction != "none" and x.dtype != torch.float16
    loss, _, _, _ = call(
        ops.linear_cross_entropy,
        rows_of(x),
        rows_of(w),
        *(quantized_w or NO_WEIGHT),
        target.reshape(-1).contiguous(),
        main_grad,
        accumulate,
        ignore_index,
        reduction_number,
        *recipe,
        need_dx and at_once,
        need_dw and at_once,
    )
    return loss.view(target.shape if reduction == "none" else ())
