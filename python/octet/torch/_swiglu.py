"""The gated activation of Llama's MLP."""

from typing import Any

import torch
from torch import Tensor

from octet.torch._formats import check_dtype, rows_of
from octet.torch._operators import call, ops


@torch.library.register_fake("octet::swiglu")
def _(gate_up: Tensor) -> Tensor:
    return gate_up.new_empty(gate_up.shape[0], gate_up.shape[1] // 2)


@torch.library.register_fake("octet::swiglu_backward")
def _(dy: Tensor, gate_up: Tensor) -> Tensor:
    return gate_up.new_empty(gate_up.shape)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])


def _backward(ctx: Any, dy: Tensor) -> Tensor:
    return ops.swiglu_backward(rows_of(dy), *ctx.saved_tensors)


torch.library.register_autograd("octet::swiglu", _backward, setup_context=_setup)


def swiglu(gate_up: Tensor) -> Tensor:
    """``silu(gate) * up`` of ``gate | up`` side by side, as one fused projection makes them.

    ``[..., 2 F] -> [..., F]``, float32, float16 or bfloat16, f32 inside.
    """
    check_dtype("gate_up", gate_up)
    return call(ops.swiglu, rows_of(gate_up)).view(*gate_up.shape[:-1], gate_up.shape[-1] // 2)
