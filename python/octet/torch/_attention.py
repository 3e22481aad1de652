"""Attention: softmax(scale q k^T, masked) v of every head, dense or of sequences of different lengths."""

import math
from collections.abc import Sequence
from typing import Any, Literal, overload

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from octet.torch._formats import DTYPES, check_dtype, heads_of, number
from octet.torch._linear import autocast
from octet.torch._operators import differentiable, ops

ALIGNMENTS = {"bottom_right": 1, "top_left": 2}
ALL = -1  # keys on one side of a query: no limit
OFFSETS = (torch.int32, torch.int64)

# Keywords of other attention functions, and why octet's has none of them.
NOT_OFFERED = {
    "dropout": "the weights of attention are not dropped out",
    "dropout_p": "the weights of attention are not dropped out",
    "attn_mask": "masks are causal=, window= and offsets: a tensor of them is as large as the scores",
    "bias": "nothing is added to the scores: a bias is as large as they are",
    "attn_bias": "nothing is added to the scores: a bias is as large as they are",
    "alibi_slopes": "nothing is added to the scores; use rotary embedding",
    "softcap": "the tanh of every score would take longer than the exponential does",
}


def _check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    torch._check(
        q.dim() == k.dim() == v.dim(),
        lambda: f"octet: q, k and v must have one rank, got {q.shape}, {k.shape}, {v.shape}",
    )
    torch._check(q.shape[-1] == k.shape[-1], lambda: f"octet: q {q.shape} and k {k.shape} must have one head size")
    torch._check(
        k.shape[:-1] == v.shape[:-1], lambda: f"octet: k {k.shape} and v {v.shape} must have the same rows and heads"
    )


@torch.library.register_fake("octet::attention_forward")
def _(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sink: Tensor | None,
    offsets_q: Tensor | None,
    offsets_kv: Tensor | None,
    *args: Any,
) -> tuple[Tensor, Tensor]:
    _check_shapes(q, k, v)
    out = q.new_empty((*q.shape[:-1], v.shape[-1]), dtype=torch.float32 if args[-1] == 1 else q.dtype)
    rows, heads = q.shape[-3:-1]
    return out, q.new_empty((heads, rows) if q.dim() == 3 else (q.shape[0], heads, rows), dtype=torch.float32)


@torch.library.register_fake("octet::attention_backward")
def _(
    dout: Tensor, dlse: Tensor | None, q: Tensor, k: Tensor, v: Tensor, sink: Tensor | None, *args: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dsink = q.new_empty(0 if sink is None else sink.shape, dtype=torch.float32)
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape), dsink


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:6], *output)
    ctx.options = inputs[6:12]
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> tuple[Tensor | None, ...]:
    if (dout is None and dlse is None) or not any(ctx.needs):
        return (None,) * 4
    *inputs, out, lse = ctx.saved_tensors
    dout = torch.zeros_like(out) if dout is None else heads_of(dout)
    dlse = None if dlse is None else dlse.contiguous()
    gradients = ops.attention_backward(dout, dlse, *inputs, out, lse, *ctx.options)
    return tuple(gradient if wanted else None for gradient, wanted in zip(gradients, ctx.needs))


_attention = differentiable("attention_forward", ("q", "k", "v", "sink"), _setup, _backward)


def _sum_clamped(count: int, start: int, most: int) -> int:
    """The sum of start, start + 1, ... over count numbers, each clamped to [0, most]."""
    begin, end = min(max(0, -start), count), min(max(0, most - start), count)  # where the numbers are within
    return (end - begin) * (2 * start + begin + end - 1) // 2 + (count - end) * most


def visible_pairs(queries: int, keys: int, left: int, right: int, align: int) -> int:
    """How many pairs of a query and a key the mask shows in one sequence."""
    shift = keys - queries if align == ALIGNMENTS["bottom_right"] else 0
    ends = queries * keys if right == ALL else _sum_clamped(queries, shift + right + 1, keys)
    return ends - (0 if left == ALL else _sum_clamped(queries, shift - left, keys))


def _lengths(offsets: Any, longest: int, rows: int) -> list[int]:
    """Of the sequences; in a traced graph, where offsets have no values, as long as they may be."""
    if type(offsets) is Tensor and offsets.device.type != "meta":
        return offsets.diff().tolist()
    return [longest or rows] * (offsets.shape[0] - 1)


def _pair_flops(q: Any, k: Any, v: Any, offsets_q: Any, offsets_kv: Any, options: Sequence[Any]) -> int:
    """Of the two products of forward."""
    max_seq_q, max_seq_kv, *mask = options[:5]
    if offsets_q is None:
        pairs = q.shape[0] * visible_pairs(q.shape[1], k.shape[1], *mask)
    else:
        lengths = _lengths(offsets_q, max_seq_q, q.shape[0]), _lengths(offsets_kv, max_seq_kv, k.shape[0])
        pairs = sum(visible_pairs(queries, keys, *mask) for queries, keys in zip(*lengths))
    return 2 * pairs * q.shape[-2] * (q.shape[-1] + v.shape[-1])


@register_flop_formula(ops.attention_forward, get_raw=True)
def _forward_flops(
    q: Any, k: Any, v: Any, sink: Any, offsets_q: Any, offsets_kv: Any, *args: Any, **kwargs: Any
) -> int:
    return _pair_flops(q, k, v, offsets_q, offsets_kv, args)


@register_flop_formula(ops.attention_backward, get_raw=True)
def _backward_flops(dout: Any, dlse: Any, q: Any, k: Any, v: Any, sink: Any, *args: Any, **kwargs: Any) -> int:
    offsets_q, offsets_kv, _, _, *options = args
    return _pair_flops(q, k, v, offsets_q, offsets_kv, options) * 5 // 2


def _reach(window: Any, causal: bool) -> tuple[int, int]:
    """Keys before and behind a query that it sees."""
    sides = (None, None) if window is None else window
    if not isinstance(sides, (tuple, list)) or len(sides) != 2:
        raise ValueError(f"octet: window must be (left, right), keys on either side or None for all, got {window!r}")
    for side in sides:
        if side is not None and (not isinstance(side, int) or isinstance(side, bool) or side < 0):
            raise ValueError(f"octet: window must be (left, right), at least 0 or None for all, got {window!r}")
    left, right = (ALL if side is None else side for side in sides)
    return left, 0 if causal else right


def _check_offsets(offsets_q: Any, offsets_kv: Any) -> None:
    for name, offsets in (("offsets_q", offsets_q), ("offsets_kv", offsets_kv)):
        if not isinstance(offsets, Tensor):
            raise TypeError(f"octet: {name} must be a torch.Tensor as the other offsets, got {type(offsets).__name__}")
        if offsets.dtype not in OFFSETS:
            raise TypeError(f"octet: {name} must be int32 or int64, got {offsets.dtype}")
    if offsets_q.dtype != offsets_kv.dtype:
        raise TypeError(
            f"octet: offsets_q and offsets_kv must have the same dtype, got {offsets_q.dtype} and {offsets_kv.dtype}"
        )


def _check_options(scale: Any, out_dtype: Any, dtype: torch.dtype, not_offered: dict[str, Any]) -> None:
    for name, value in not_offered.items():
        if name not in NOT_OFFERED:
            raise TypeError(f"attention() got an unexpected keyword argument {name!r}")
        if isinstance(value, Tensor) or value:
            raise TypeError(f"octet: attention has no {name}: {NOT_OFFERED[name]}")
    if scale is not None and (scale == 0 or not math.isfinite(scale)):
        raise ValueError(f"octet: scale must be finite and not 0, got {scale}")
    if out_dtype not in (None, dtype, torch.float32):
        raise ValueError(f"octet: out_dtype must be {dtype}, that of q, or torch.float32, got {out_dtype}")


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    align: str = "bottom_right",
    scale: float | None = None,
    sink: Tensor | None = None,
    return_lse: Literal[False] = False,
    out_dtype: torch.dtype | None = None,
    offsets_q: Tensor | None = None,
    offsets_kv: Tensor | None = None,
    max_seq_q: int | None = None,
    max_seq_kv: int | None = None,
) -> Tensor: ...
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, return_lse: Literal[True], **options: Any
) -> tuple[Tensor, Tensor]: ...
@overload
def attention(q: Tensor, k: Tensor, v: Tensor, *, return_lse: bool = False, **options: Any) -> Any: ...
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    align: str = "bottom_right",
    scale: float | None = None,
    sink: Tensor | None = None,
    return_lse: bool = False,
    out_dtype: torch.dtype | None = None,
    offsets_q: Tensor | None = None,
    offsets_kv: Tensor | None = None,
    max_seq_q: int | None = None,
    max_seq_kv: int | None = None,
    **not_offered: Any,
) -> Any:
    """``softmax(scale * q k^T, masked) v`` for every head, f32 inside, deterministic in both passes.

    Heads are grouped: query head h reads key and value head ``h // (heads // kv_heads)``. A query that sees no key gets
    zeros, an lse of -infinity (or the sink) and no gradient.

    Args:
        q: ``[batch, seq_q, heads, dim]``, float32, float16 or bfloat16; under autocast q, k and v are cast to its
            dtype. With offsets ``[total_q, heads, dim]``. Any strides but the last, which must be 1, or q is copied:
            heads may lie before tokens, and q, k and v in one packed tensor.
        k: ``[batch, seq_kv, kv_heads, dim]``, or ``[total_kv, kv_heads, dim]``.
        v: ``[batch, seq_kv, kv_heads, dim_v]``, or ``[total_kv, kv_heads, dim_v]``.
        causal: a query sees the keys up to its own place.
        window: (left, right): so many keys before and behind its own place, None for all. With causal, right is 0.
        align: which query and key are at the same place where there are more keys than queries, or fewer: the last
            ones, ``"bottom_right"``, or the first ones, ``"top_left"``, as is_causal of torch has it.
        scale: of the scores; by default ``1 / sqrt(dim)``.
        sink: ``[heads]``, one more logit for every query of a head, whose value is 0. Differentiable.
        return_lse: also return the logarithm of the sum that the softmax divides by. Differentiable.
        out_dtype: float32 for partial results that are merged (:func:`merge_attention`); by default that of q.
        offsets_q, offsets_kv: ``[sequences + 1]``, int32 or int64, on the device of q, where they stay: sequence i has
            the rows ``offsets[i]`` to ``offsets[i + 1]``. They ascend from 0; rows behind the last sequence get zeros.
        max_seq_q, max_seq_kv: with offsets, an upper bound on the rows of a sequence; by default all rows.

    Returns:
        ``[batch, seq_q, heads, dim_v]``, or ``[total_q, heads, dim_v]``, contiguous; with return_lse also the lse,
        ``[batch, heads, seq_q]``, or ``[heads, total_q]``, float32.

    Saved for backward: q, k, v, the result and the lse.

    Raises:
        ValueError: a shape, mask or option that octet refuses; tensors on a GPU, whose kernels are not there yet.
        TypeError: an argument that is not a tensor of a supported dtype; dropout, bias, a mask tensor or softcap.
    """
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        check_dtype(name, tensor)
    q, k, v = autocast(q, k, v)
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(f"octet: q, k and v must have the same dtype, got {q.dtype}, {k.dtype} and {v.dtype}")
    _check_options(scale, out_dtype, q.dtype, not_offered)
    left, right = _reach(window, causal)
    alignment = number("align", align, ALIGNMENTS)
    packed = offsets_q is not None or offsets_kv is not None
    if packed:
        _check_offsets(offsets_q, offsets_kv)
    for name, bound in (("max_seq_q", max_seq_q), ("max_seq_kv", max_seq_kv)):
        if bound is not None and (not packed or bound < 1):
            raise ValueError(f"octet: {name} must be at least 1, and is for sequences with offsets, got {bound}")
    letters = "[total, heads, dim] with offsets" if packed else "[batch, seq, heads, dim]"
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != 4 - packed:
            raise ValueError(f"octet: {name} must be {letters}, got {list(tensor.shape)}")
    if sink is not None:
        check_dtype("sink", sink)
        sink = sink.float().contiguous()
    out, lse = _attention(
        heads_of(q),
        heads_of(k),
        heads_of(v),
        sink,
        None if offsets_q is None else offsets_q.contiguous(),
        None if offsets_kv is None else offsets_kv.contiguous(),
        max_seq_q or 0,
        max_seq_kv or 0,
        left,
        right,
        alignment,
        float(scale or 0),
        0 if out_dtype in (None, q.dtype) else DTYPES[torch.float32],
    )
    return (out, lse) if return_lse else out


def merge_attention(outs: Sequence[Tensor], lses: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The attention over all keys of partial results over some of them each, weighted by ``exp(lse)``.

    Context parallelism gives every rank a part of the keys; the parts of one query are summed up here. A sink belongs
    to one of the parts. Differentiable, also where a part sees no key (lse of -infinity).

    Args:
        outs: ``[batch, seq, heads, dim]`` each, or ``[total, heads, dim]``; best float32 (``out_dtype`` of
            :func:`attention`).
        lses: ``[batch, heads, seq]`` each, or ``[heads, total]``.

    Returns:
        The merged result in the dtype of ``outs[0]``, and its lse.
    """
    if len(outs) != len(lses) or not outs:
        raise ValueError(f"octet: merge_attention needs an lse for every result, got {len(outs)} and {len(lses)}")
    for out, lse in zip(outs, lses):
        if out.shape != outs[0].shape or lse.shape != (*out.shape[:-3], out.shape[-2], out.shape[-3]):
            raise ValueError(
                f"octet: outs must have one shape, and lses [..., heads, seq] of it, got {list(out.shape)} and "
                f"{list(lse.shape)}"
            )
    logs = torch.stack([lse.float() for lse in lses])
    top = logs.detach().amax(0)
    top = torch.where(top == -math.inf, 0, top)  # no part has a key: -inf - -inf would be NaN
    weights = (logs - top).exp()
    total = weights.sum(0)
    seen = total > 0
    total = torch.where(seen, total, 1)  # before the logarithm, whose gradient at 0 is infinite
    shares = (weights / total).transpose(-1, -2).unsqueeze(-1)  # [parts, ..., seq, heads, 1]
    merged = outs[0].float() * shares[0]
    for out, share in zip(outs[1:], shares[1:]):
        merged = merged + out.float() * share
    return merged.to(outs[0].dtype), torch.where(seen, top + total.log(), -math.inf)
