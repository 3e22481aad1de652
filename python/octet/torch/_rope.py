"""Rotary position embedding."""

from typing import Any

import torch
from torch import Tensor

from octet.torch._formats import check_dtype, heads_of
from octet.torch._operators import differentiable, ops


@torch.library.register_fake("octet::rope")
def _(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, interleaved: bool
) -> tuple[Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape)


@torch.library.register_fake("octet::rope_backward")
def _(
    dq_out: Tensor, dk_out: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, interleaved: bool
) -> tuple[Tensor, Tensor]:
    return dq_out.new_empty(dq_out.shape), dk_out.new_empty(dk_out.shape)


@torch.library.register_fake("octet::rope_qkv")
def _(
    qkv: Tensor, heads: int, kv_heads: int, cos: Tensor, sin: Tensor, positions: Tensor | None, interleaved: bool
) -> tuple[Tensor, Tensor, Tensor]:
    batch, seq, width = qkv.shape
    head_dim = width // (heads + 2 * kv_heads)
    q, k, v = (qkv.new_empty(batch, seq, count, head_dim) for count in (heads, kv_heads, kv_heads))
    return q, k, v


@torch.library.register_fake("octet::rope_qkv_backward")
def _(
    dq: Tensor, dk: Tensor, dv: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, interleaved: bool
) -> Tensor:
    batch, seq, heads, head_dim = dq.shape
    return dq.new_empty(batch, seq, (heads + dk.shape[2] + dv.shape[2]) * head_dim)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tables, ctx.interleaved = inputs[-4:]
    ctx.save_for_backward(*tables)


def _backward(ctx: Any, dq: Tensor, dk: Tensor) -> tuple[Tensor | None, ...]:
    return ops.rope_backward(heads_of(dq), heads_of(dk), *ctx.saved_tensors, ctx.interleaved)


def _backward_qkv(ctx: Any, dq: Tensor, dk: Tensor, dv: Tensor) -> tuple[Tensor | None, ...]:
    return (ops.rope_qkv_backward(heads_of(dq), heads_of(dk), dv, *ctx.saved_tensors, ctx.interleaved),)


_rope = differentiable("rope", ("q", "k"), _setup, _backward)
_rope_qkv = differentiable("rope_qkv", ("qkv",), _setup, _backward_qkv)


def _tables(cos: Tensor, sin: Tensor, positions: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    check_dtype("cos", cos)
    check_dtype("sin", sin)
    return cos.contiguous(), sin.contiguous(), None if positions is None else positions.contiguous()


def rope(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *, positions: Tensor | None = None, interleaved: bool = False
) -> tuple[Tensor, Tensor]:
    """q and k rotated by their positions in one launch.

    Args:
        q: ``[batch, seq, heads, head_dim]``, float32, float16 or bfloat16. Only the last stride must be 1.
        k: ``[batch, seq, kv_heads, head_dim]``.
        cos, sin: ``[rows, head_dim]`` with every angle twice, as Hugging Face makes them, or
            ``[rows, rotary_dim / 2]``. Not differentiated.
        positions: ``[batch, seq]``, int32 or int64, rows of cos and sin; without them 0 to seq - 1.
        interleaved: pairs are ``(x[2i], x[2i + 1])`` instead of ``(x[i], x[i + rotary_dim / 2])``.

    Returns:
        q and k rotated, contiguous.
    """
    check_dtype("q", q)
    check_dtype("k", k)
    return _rope(heads_of(q), heads_of(k), *_tables(cos, sin, positions), interleaved)


def rope_qkv(
    qkv: Tensor,
    heads: int,
    kv_heads: int,
    cos: Tensor,
    sin: Tensor,
    *,
    positions: Tensor | None = None,
    interleaved: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """q and k rotated and v, of q | k | v side by side as one projection makes them; their gradient is packed as well.

    Args:
        qkv: ``[batch, seq, (heads + 2 kv_heads) head_dim]``, float32, float16 or bfloat16.
        cos, sin, positions, interleaved: as in :func:`rope`.

    Returns:
        q ``[batch, seq, heads, head_dim]``, k and v ``[batch, seq, kv_heads, head_dim]``, contiguous.
    """
    check_dtype("qkv", qkv)
    if qkv.dim() != 3:
        raise ValueError(f"octet: qkv must be [batch, seq, (heads + 2 kv_heads) head_dim], got {list(qkv.shape)}")
    return _rope_qkv(qkv.contiguous(), heads, kv_heads, *_tables(cos, sin, positions), interleaved)
