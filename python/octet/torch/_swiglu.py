"""The gated activation of Llama's MLP."""

from typing import Any, Literal, overload

import torch
from torch import Tensor

from octet.torch._activation import QuantizedActivation, empty_carrier, empty_copies, recipe_of
from octet.torch._dtensor import inner_shard_dim, shaped, with_dim_in_front
from octet.torch._formats import DEFAULT_WGRAD, check_dtype, operand_format, rows_of
from octet.torch._operators import differentiable, ops


def _result(gate: Tensor, up: Tensor | None) -> Tensor:
    return gate.new_empty(gate.shape if up is not None else (gate.shape[0], gate.shape[1] // 2))


@torch.library.register_fake("octet::swiglu")
def _(gate: Tensor, up: Tensor | None) -> Tensor:
    return _result(gate, up)


@torch.library.register_fake("octet::swiglu_quantized")
def _(gate: Tensor, up: Tensor | None, format: int, wgrad: int, save_x: bool) -> tuple[Tensor, ...]:
    y = _result(gate, up)
    return empty_carrier(y.shape, gate), *empty_copies(y, format, wgrad, save_x)


@torch.library.register_fake("octet::swiglu_backward")
def _(dy: Tensor, gate: Tensor, up: Tensor | None) -> tuple[Tensor, Tensor]:
    return gate.new_empty(gate.shape), gate.new_empty(0 if up is None else up.shape)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])


def _backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    gate, up = ctx.saved_tensors
    dgate, dup = ops.swiglu_backward(rows_of(dy), gate, up)
    return dgate, None if up is None else dup


def _setup_quantized(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _backward_quantized(ctx: Any, dy: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if dy is None:
        return None, None
    return _backward(ctx, dy)


_plain = differentiable("swiglu", ("gate", "up"), _setup, _backward)
_quantized = differentiable("swiglu_quantized", ("gate", "up"), _setup_quantized, _backward_quantized)


@overload
def swiglu(gate: Tensor, up: Tensor | None = None) -> Tensor: ...
@overload
def swiglu(
    gate: Tensor,
    up: Tensor | None = None,
    *,
    quantized: Literal[True],
    wgrad: str = DEFAULT_WGRAD,
    format: str = "e4m3",
    granularity: str = "blockwise",
    mx_scale: str = "floor",
) -> QuantizedActivation: ...
@overload
def swiglu(
    gate: Tensor,
    up: Tensor | None = None,
    *,
    quantized: bool = False,
    wgrad: str = DEFAULT_WGRAD,
    format: str = "e4m3",
    granularity: str = "blockwise",
    mx_scale: str = "floor",
) -> Any: ...
def swiglu(
    gate: Tensor,
    up: Tensor | None = None,
    *,
    quantized: bool = False,
    wgrad: str = DEFAULT_WGRAD,
    format: str = "e4m3",
    granularity: str = "blockwise",
    mx_scale: str = "floor",
) -> Any:
    """``silu(gate) * up``, float32, float16 or bfloat16, f32 inside.

    Args:
        gate: ``[..., F]``; or ``[..., 2 F]``, gate | up side by side as one fused projection makes them.
        up: ``[..., F]``, or None.
        quantized: the result is only written in FP8, for the layers that read it: a :class:`QuantizedActivation` with
            the bits of :func:`quantize_activation`. wgrad, format, granularity and mx_scale are its options. In one
            pass if blockwise, and if rowwise without gradients and with 16 bits; otherwise through a tensor of gate's
            dtype.

    Returns:
        ``[..., F]``
    """
    check_dtype("gate", gate)
    format = operand_format(format)
    recipe = recipe_of(format, wgrad, granularity, mx_scale)  # refuses wrong names, used or not
    if up is not None:
        check_dtype("up", up)
        if up.shape != gate.shape:
            raise ValueError(f"octet: gate and up must have one shape, got {list(gate.shape)} and {list(up.shape)}")
    shape = gate.shape if up is not None else torch.Size((*gate.shape[:-1], gate.shape[-1] // 2))
    if not quantized and (dim := inner_shard_dim(gate)) is not None:
        return with_dim_in_front(dim, swiglu, *((gate,) if up is None else (gate, up)))
    inputs = (rows_of(gate), None if up is None else rows_of(up))
    if not quantized:
        return shaped(_plain(*inputs), shape)
    carrier, *copies = _quantized(*inputs, *recipe, torch.is_grad_enabled())
    return QuantizedActivation.make(carrier, copies, shape, format, wgrad, granularity=granularity, mx_scale=mx_scale)
