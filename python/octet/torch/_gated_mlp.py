"""Llama's MLP in FP8 as one differentiable function: two layers and the SwiGLU between them."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from octet.torch._activation import QuantizedActivation, Source
from octet.torch._dtensor import shaped
from octet.torch._formats import FORMATS, WGRAD_BLOCKS, empty_quantized, formats_of, number, rows_of
from octet.torch._linear import NO_WEIGHT, QuantizedWeight, activation_arguments, checked_operands
from octet.torch._operators import differentiable, ops, positions

_AT = positions("gated_mlp_forward")
_AT_BACKWARD = positions("gated_mlp_backward")
_AT_MAIN_GRAD = positions("gated_mlp_backward_main_grad")


def _named(inputs: tuple[Any, ...], at: dict[str, int], *names: str) -> list[Any]:
    return [inputs[at[name]] for name in names]


@torch.library.register_fake("octet::gated_mlp_forward")
def _(*inputs: Any) -> tuple[Tensor, ...]:
    x, x_values, w_gate_up, w_down = _named(inputs, _AT, "x", "x_values", "w_gate_up", "w_down")
    wgrad, save, save_x, save_h = _named(inputs, _AT, "wgrad", "save", "save_x", "save_h")
    (tokens, k), f = x.shape, w_down.shape[1]
    torch._check(
        w_gate_up.shape[0] == 2 * f and w_gate_up.shape[1] == k and w_down.shape[0] == k,
        lambda: (
            f"octet: x [M, K], w_gate_up [2 F, K] and w_down [K, F] do not fit: "
            f"{x.shape}, {w_gate_up.shape}, {w_down.shape}"
        ),
    )

    def transposed(wanted: bool, rows: Any) -> tuple[Tensor, Tensor]:
        if not wanted:
            return x.new_empty(0, dtype=torch.uint8), x.new_empty(0, dtype=torch.float32)
        return empty_quantized(rows, tokens, WGRAD_BLOCKS[wgrad], x)

    gate_up = x.new_empty((tokens, 2 * f) if save else 0)
    x_t, h_t = transposed(save_x and x_values is None, k), transposed(save_h, f)
    return x.new_empty(tokens, k), gate_up, *x_t, *h_t


@torch.library.register_fake("octet::gated_mlp_backward")
def _(*inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    dy, w_gate_up, w_down = _named(inputs, _AT_BACKWARD, "dy", "w_gate_up", "w_down")
    need_dx, need_dw = _named(inputs, _AT_BACKWARD, "need_dx", "need_dw")
    dx = dy.new_empty((dy.shape[0], w_down.shape[0]) if need_dx else 0)
    return dx, dy.new_empty(w_gate_up.shape if need_dw else 0), dy.new_empty(w_down.shape if need_dw else 0)


@torch.library.register_fake("octet::gated_mlp_backward_main_grad")
def _(*inputs: Any) -> Tensor:
    dy, w_down, need_dx = _named(inputs, _AT_MAIN_GRAD, "dy", "w_down", "need_dx")
    return dy.new_empty((dy.shape[0], w_down.shape[0]) if need_dx else 0)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, gate_up, *made_x_t, h_t, h_t_scales = output
    # Not saved: another micro-batch may add to them in between.
    *ctx.main_grads, ctx.accumulate = _named(inputs, _AT, "main_grad_gate_up", "main_grad_down", "accumulate")
    ctx.recipe = _named(inputs, _AT, "format", "grad_format", "wgrad")
    ctx.saved, save_x, save_h = _named(inputs, _AT, "save", "save_x", "save_h")
    *source, ctx.eps = _named(inputs, _AT, "source", "g", "eps")
    given_x_t = _named(inputs, _AT, "x_t", "x_t_scales")
    x_t = made_x_t if save_x and given_x_t[0] is None else given_x_t
    h = (h_t, h_t_scales) if save_h else (None, None)
    w_gate_up = _named(inputs, _AT, "w_gate_up", "w_gate_up_t", "w_gate_up_t_scales")
    w_down = _named(inputs, _AT, "w_down", "w_down_t", "w_down_t_scales")
    ctx.save_for_backward(*source, gate_up, *x_t, *h, *w_gate_up, *w_down)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, dy: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    need_dx, need_gate_up, need_down = ctx.needs
    need_dw = need_gate_up or need_down
    if dy is None or not (need_dx or need_dw):
        return None, None, None
    dw_gate_up = dw_down = None
    if not ctx.saved:
        raise RuntimeError("octet: backward needs gated_mlp_forward with save=True")
    source, g, gate_up, x_t, x_t_scales, *rest = ctx.saved_tensors
    if need_dw and x_t is None:
        x_t, x_t_scales = Source(source, g, ctx.eps).transposed(ctx.recipe[0], ctx.recipe[2])
    operands = (rows_of(dy), gate_up, x_t, x_t_scales, *rest)
    if need_dw and ctx.main_grads[0] is not None:
        # The gradient of one weight alone may be asked for; that of the other is computed, and dropped.
        wanted = zip(ctx.main_grads, (need_gate_up, need_down))
        sums = [main_grad if need else torch.zeros_like(main_grad) for main_grad, need in wanted]
        dx = ops.gated_mlp_backward_main_grad(*operands, *sums, ctx.accumulate, *ctx.recipe, need_dx)
    else:
        dx, dw_gate_up, dw_down = ops.gated_mlp_backward(*operands, *ctx.recipe, need_dx, need_dw)
    return dx if need_dx else None, dw_gate_up if need_gate_up else None, dw_down if need_down else None


_forward = differentiable("gated_mlp_forward", ("x", "w_gate_up", "w_down"), _setup, _backward, first_only=True)


@register_flop_formula(ops.gated_mlp_forward)
def _forward_flops(x_shape: Any, *args: Any, **kwargs: Any) -> int:
    k, f = args[_AT["w_down"] - 1]
    return 2 * x_shape[0] * 3 * f * k


@register_flop_formula([ops.gated_mlp_backward, ops.gated_mlp_backward_main_grad])
def _backward_flops(dy_shape: Any, *args: Any, **kwargs: Any) -> int:
    k, f = args[_AT_BACKWARD["w_down"] - 1]
    need_dx, need_dw = args[-2:] if isinstance(args[-2], bool) else (args[-1], True)
    return 2 * dy_shape[0] * f * k * (1 + 2 * need_dx + 3 * need_dw)


def gated_mlp(
    x: Tensor | QuantizedActivation,
    w_gate_up: Tensor,
    w_down: Tensor,
    *,
    wgrad: str | None = None,
    format: str | None = None,
    grad_format: str | None = None,
    granularity: str | None = None,
    mx_scale: str | None = None,
    fast_accumulation: bool = False,
    recompute: bool = False,
    main_grads: tuple[Tensor, Tensor] | None = None,
    accumulate: bool = True,
    quantized_weights: tuple[QuantizedWeight, QuantizedWeight] | None = None,
) -> Tensor:
    """``(silu(x Wg^T) * (x Wu^T)) Wd^T`` in FP8; between the layers, h and the gradient of gate | up exist in FP8 only,
    unless granularity is another than ``"blockwise"``: their scales need a cast of its own.

    Args:
        x: ``[..., K]``, or an activation that is quantised already.
        w_gate_up: ``[2 F, K]``, Wg above Wu.
        w_down: ``[K, F]``.
        wgrad, format, grad_format, granularity, mx_scale, fast_accumulation: as in :func:`linear`.
        recompute: make h^T again in backward instead of saving it: one byte per token and hidden feature less, for
            one more read of gate | up.
        main_grads, accumulate: of w_gate_up and w_down, as in :func:`linear`.
        quantized_weights: both weights in FP8; see :func:`cache_weights`.

    Returns:
        y ``[..., K]``, in the dtype of x.

    Saved for backward: gate | up in the dtype of x, x^T and, unless recomputed, h^T in FP8, and the weights themselves.
    """
    format, grad_format = formats_of(format, grad_format)
    x, w_gate_up, w_down = checked_operands(x, ("w_gate_up", "w_down"), w_gate_up, w_down)
    needs = (w_gate_up.requires_grad, w_down.requires_grad)
    if needs[0] != needs[1]:
        raise ValueError("octet: w_gate_up and w_down must both require gradients, or neither")
    need_dw = torch.is_grad_enabled() and needs[0]
    carrier = x.carrier if isinstance(x, QuantizedActivation) else x
    save = torch.is_grad_enabled() and (needs[0] or carrier.requires_grad)
    if w_gate_up.numel() == 0 and isinstance(x, Tensor):  # nothing to quantise
        gate, up = torch.nn.functional.linear(x, w_gate_up).chunk(2, -1)
        return torch.nn.functional.linear(torch.nn.functional.silu(gate) * up, w_down)
    shared: dict[str, Any] = {
        "granularity": granularity,
        "mx_scale": mx_scale,
        "fast_accumulation": fast_accumulation,
    }
    activation = activation_arguments(x, wgrad, format, need_dw, **shared)
    gate_up_cache, down_cache = quantized_weights or (NO_WEIGHT, NO_WEIGHT)
    y = _forward(
        *activation.operands,
        rows_of(w_gate_up),
        *gate_up_cache,
        rows_of(w_down),
        *down_cache,
        *(main_grads if main_grads is not None and need_dw else (None, None)),
        accumulate,
        activation.format,
        number("grad_format", grad_format, FORMATS),
        activation.wgrad,
        save,
        activation.save_x,
        need_dw and not recompute,
        *activation.source,
    )
    return shaped(y, (*x.shape[:-1], w_down.shape[0]))
