"""Rotary position embedding."""

from typing import Any

import torch
from torch import Tensor

from octet.torch._formats import check_dtype
from octet.torch._operators import call, ops


@torch.library.register_fake("octet::rope")
def _(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> tuple[Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape)


@torch.library.register_fake("octet::rope_backward")
def _(dq_out: Tensor, dk_out: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> tuple[Tensor, Tensor]:
    return dq_out.new_empty(dq_out.shape), dk_out.new_empty(dk_out.shape)


def _heads(x: Tensor) -> Tensor:
    """A copy where the last dimension is not contiguous or elements share memory, as in an expanded gradient."""
    return x if x.stride(-1) == 1 and all(s > 0 for s in x.stride()) else x.contiguous()


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _, _, cos, sin, ctx.interleaved = inputs
    ctx.save_for_backward(cos, sin)


def _backward(ctx: Any, dq: Tensor, dk: Tensor) -> tuple[Tensor | None, ...]:
    cos, sin = ctx.saved_tensors
    return *ops.rope_backward(_heads(dq), _heads(dk), cos, sin, ctx.interleaved), None, None, None


torch.library.register_autograd("octet::rope", _backward, setup_context=_setup)


def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool = False) -> tuple[Tensor, Tensor]:
    """q and k rotated by their positions, 0 to seq - 1, in one launch.

    Args:
        q: ``[batch, seq, heads, head_dim]``, float32, float16 or bfloat16. Only the last stride must be 1.
        k: ``[batch, seq, kv_heads, head_dim]``.
        cos, sin: ``[rows >= seq, head_dim]`` with every angle twice, as Hugging Face makes them, or
            ``[rows >= seq, rotary_dim / 2]``. Not differentiated.
        interleaved: pairs are ``(x[2i], x[2i + 1])`` instead of ``(x[i], x[i + rotary_dim / 2])``.

    Returns:
        q and k rotated, contiguous.
    """
    for name, tensor in (("q", q), ("k", k), ("cos", cos), ("sin", sin)):
        check_dtype(name, tensor)
    return call(ops.rope, _heads(q), _heads(k), cos.contiguous(), sin.contiguous(), interleaved)
