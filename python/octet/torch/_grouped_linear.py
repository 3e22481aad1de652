"""FP8 linear layers over groups of rows, such as the experts of a mixture, as one differentiable function."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from octet.torch._formats import DEFAULT_WGRAD, FORMATS, WGRADS, check_dtype, number, round_up, rows_of
from octet.torch._linear import autocast
from octet.torch._operators import call, differentiable, ops

SIZES = {"sizes": 1, "ends": 2, "offsets": 3}  # octet_group_sizes
_ALIGNMENT = 256  # OCTET_ALIGNMENT


def aligned(size: Any) -> Any:
    """The bytes that a piece of memory takes in octet's layouts."""
    return round_up(size, _ALIGNMENT)


def table_words(groups: Any, rows: Any) -> Any:
    """Elements of a group table: octet_group_table_words."""
    offsets = (groups + 4) // 4 * 4
    return 16 + 2 * offsets + 4 * groups + 4 * (rows // 128 + groups + 1) + 4 * (rows // 256 + groups + 1)


def token_block_bytes(groups: Any, rows: Any, features: Any, wgrad: int) -> Any:
    """Bytes of a transposed copy in token blocks: octet_make_token_block_layout."""
    blocks = rows // 128 + groups
    scales = blocks * round_up(features, 4) if wgrad == 1 else round_up(blocks, 4) * ((features + 127) // 128)
    return aligned(blocks * features * 128) + aligned(4 * scales)


@torch.library.register_fake("octet::group_table")
def _(sizes: Tensor, given: int, rows: int) -> Tensor:
    groups = sizes.shape[0] - (given == SIZES["offsets"])
    return sizes.new_empty(0 if rows == 0 else table_words(groups, rows), dtype=torch.int32)


@torch.library.register_fake("octet::grouped_linear_forward")
def _(
    x: Tensor,
    w: Tensor,
    sizes: Tensor,
    main_grad: Tensor | None,
    accumulate: bool,
    given: int,
    format: int,
    grad_format: int,
    wgrad: int,
    save_x: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    torch._check(
        x.dim() == 2 and w.dim() == 3,
        lambda: f"octet: x must be [rows, K] and w [groups, N, K], got {x.shape}, {w.shape}",
    )
    torch._check(
        x.shape[1] == w.shape[2], lambda: f"octet: x {x.shape} and w {w.shape} must have the same number of columns"
    )
    rows, (groups, n, k) = x.shape[0], w.shape
    words, size = (0, 0) if rows == 0 else (table_words(groups, rows), token_block_bytes(groups, rows, k, wgrad))
    table = x.new_empty(words, dtype=torch.int32)
    return x.new_empty(rows, n), table, x.new_empty(size if save_x else 0, dtype=torch.uint8)


@torch.library.register_fake("octet::grouped_linear_backward")
def _(dy: Tensor, table: Tensor, x_t: Tensor, w: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    need_dx, need_dw = options[-2:]
    dx = dy.new_empty((dy.shape[0], w.shape[2]) if need_dx else 0)
    return dx, dy.new_empty(w.shape if need_dw else 0)


@torch.library.register_fake("octet::grouped_linear_backward_main_grad")
def _(dy: Tensor, table: Tensor, x_t: Tensor, w: Tensor, main_grad: Tensor, *options: Any) -> Tensor:
    return dy.new_empty((dy.shape[0], w.shape[2]) if options[-1] else 0)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    _, w, _, main_grad, ctx.accumulate, _, *ctx.recipe, ctx.save_x = inputs
    _, table, x_t = output
    ctx.main_grad = main_grad  # not saved: another micro-batch may add to it in between
    ctx.save_for_backward(table, x_t, w)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, dy: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    need_dx, need_dw = ctx.needs
    if dy is None or not (need_dx or need_dw):
        return None, None
    dw = None
    if need_dw and not ctx.save_x:
        raise RuntimeError("octet: the gradient of w needs grouped_linear_forward with save_x=True")
    operands = (rows_of(dy), *ctx.saved_tensors)
    if need_dw and ctx.main_grad is not None:
        dx = ops.grouped_linear_backward_main_grad(*operands, ctx.main_grad, ctx.accumulate, *ctx.recipe, need_dx)
    else:
        dx, dw = ops.grouped_linear_backward(*operands, *ctx.recipe, need_dx, need_dw)
    return dx if need_dx else None, dw if need_dw else None


_forward = differentiable("grouped_linear_forward", ("x", "w"), _setup, _backward, first_only=True)


@register_flop_formula(ops.grouped_linear_forward)
def _forward_flops(x_shape: Any, w_shape: Any, *args: Any, **kwargs: Any) -> int:
    """Of all rows of the buffer: the sizes are not read."""
    return 2 * x_shape[0] * w_shape[1] * w_shape[2]


@register_flop_formula([ops.grouped_linear_backward, ops.grouped_linear_backward_main_grad])
def _backward_flops(dy_shape: Any, table: Any, x_t: Any, w_shape: Any, *args: Any, **kwargs: Any) -> int:
    need_dx, need_dw = args[-2:] if isinstance(args[-2], bool) else (args[-1], True)
    return 2 * dy_shape[0] * w_shape[1] * w_shape[2] * (need_dx + need_dw)


def check_groups(sizes: Tensor, rows: int, *, given: str = "sizes") -> None:
    """Raises ValueError, naming the group, if sizes do not fit ``rows`` rows; given is that of :func:`grouped_linear`.

    On CUDA it copies them to the host and waits for the device, so it is for debugging. Not for compiled code.
    """
    if torch.compiler.is_compiling():
        raise RuntimeError("octet: check_groups reads sizes on the host; call it outside of compiled code")
    call(ops.group_table, sizes.cpu().contiguous(), number("given", given, SIZES), rows)


def check_experts(x: Tensor, weights: dict[str, Tensor]) -> None:
    """Refuses weights that are not [experts, N, K] of the dtype of x."""
    for name, w in weights.items():
        check_dtype(name, w)
        if w.dim() != 3:
            raise ValueError(f"octet: {name} must be [experts, N, K], got {list(w.shape)}")
        if x.dtype != w.dtype:
            raise TypeError(f"octet: x and {name} must have the same dtype, got {x.dtype} and {w.dtype}")


def grouped_linear(
    x: Tensor,
    w: Tensor,
    sizes: Tensor,
    *,
    given: str = "sizes",
    wgrad: str = DEFAULT_WGRAD,
    format: str = "e4m3",
    grad_format: str = "e4m3",
    main_grad: Tensor | None = None,
    accumulate: bool = True,
) -> Tensor:
    """``y[t] = x[t] w[g]^T`` for the rows t of every group g, with all three products in block-scaled FP8.

    The groups fill the first rows of x, one after the other, in any length; nothing is padded. Each has the bits of
    :func:`linear` on its rows alone. Rows of y and of the gradient of x behind the last group are zeros.

    Args:
        x: ``[rows, K]``.
        w: ``[groups, N, K]``.
        sizes: int32 or int64 on the device of x. Sizes that do not fit raise ValueError on the CPU; on CUDA the host
            never reads them, and they are clamped: see :func:`check_groups`.
        given: what sizes are: ``"sizes"``, the rows of each group, ``"ends"``, the row behind each, or ``"offsets"``,
            ``[groups + 1]``.
        wgrad, format, grad_format, main_grad, accumulate: as in :func:`linear`.

    Saved for backward: x^T in FP8, the table of the groups, and w itself.
    """
    check_dtype("x", x)
    check_dtype("w", w)
    x, w = autocast(x, w)
    check_experts(x, {"w": w})
    if x.dim() != 2:
        raise ValueError(f"octet: x must be [rows, K], got {list(x.shape)}")
    kind = number("given", given, SIZES)
    wanted = w.shape[0] + (given == "offsets")
    if not isinstance(sizes, Tensor) or sizes.dtype not in (torch.int32, torch.int64):
        raise TypeError("octet: sizes must be a tensor of int32 or int64")
    if sizes.shape != (wanted,):
        raise ValueError(f"octet: sizes must be [{wanted}], {given} of {w.shape[0]} groups, got {list(sizes.shape)}")
    if sizes.device != x.device:
        raise ValueError(f"octet: sizes must be on the device of x, {x.device}, got {sizes.device}")
    need_dw = torch.is_grad_enabled() and w.requires_grad
    recipe = (
        number("format", format, FORMATS),
        number("grad_format", grad_format, FORMATS),
        number("wgrad", wgrad, WGRADS),
    )
    main_grad = main_grad if need_dw else None
    return _forward(rows_of(x), w.contiguous(), sizes.contiguous(), main_grad, accumulate, kind, *recipe, need_dw)
