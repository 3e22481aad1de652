"""Attention over a sequence that is cut into pieces, one per rank: keys and values go round in a ring."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from octet.torch._attention import ALIGNMENTS, ALL, attention, merge_attention
from octet.torch._formats import heads_of
from octet.torch._operators import ops, raise_translated


class _Ring:
    """The ranks of a group, each of which sends to the next one."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        whole: Any = dist.group.WORLD if group is None else group
        self._next, self._last = (
            dist.get_global_rank(whole, (self.rank + step) % self.ranks) for step in (1, self.ranks - 1)
        )

    def owner(self, step: int) -> int:
        """Whose piece is here after so many steps."""
        return (self.rank - step) % self.ranks

    def start(self, buffer: Tensor) -> tuple[Tensor, list[Any]]:
        """Sends a buffer on. Returns that of the rank before, and what to wait for until it is there."""
        arriving = torch.empty_like(buffer)
        both = [
            dist.P2POp(dist.isend, buffer, self._next, self.group),
            dist.P2POp(dist.irecv, arriving, self._last, self.group),
        ]
        return arriving, dist.batch_isend_irecv(both)


def _wait(requests: list[Any]) -> None:
    for request in requests:
        request.wait()


def _split(buffer: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Views of a buffer that holds k and v, or their gradients, one behind the other."""
    return buffer[: k.numel()].view(k.shape), buffer[k.numel() :].view(v.shape)


def _joined(k: Tensor, v: Tensor) -> Tensor:
    return torch.cat((k.reshape(-1), v.reshape(-1)))


def _mask(ring: _Ring, step: int, causal: bool) -> int | None:
    """How many keys behind its own place a query sees of the piece that is here, ALL of them or, None, no key at all.
    Pieces of lower ranks lie before every query of this one, and those of higher ranks behind."""
    owner = ring.owner(step)
    if not causal or owner < ring.rank:
        return ALL
    return 0 if owner == ring.rank else None


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, group: Any, causal: bool, scale: float | None) -> Any:
        ring, kv = _Ring(group), _joined(k, v)
        total: tuple[Tensor, Tensor] | None = None
        for step in range(ring.ranks):
            arriving, requests = ring.start(kv) if step + 1 < ring.ranks else (kv, [])
            right = _mask(ring, step, causal)
            if right is not None:
                part = attention(
                    q, *_split(kv, k, v), causal=right == 0, scale=scale, return_lse=True, out_dtype=torch.float32
                )
                total = part if total is None else merge_attention(*zip(total, part))
            _wait(requests)
            kv = arriving
        assert total is not None  # a query sees its own piece
        out, lse = total[0].to(q.dtype), total[1]
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.ring, ctx.causal, ctx.scale = ring, causal, float(scale or 0)
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> Any:
        """A piece's gradients need the merged result and lse. dk and dv travel with it, and are home at the end."""
        q, k, v, out, lse = ctx.saved_tensors
        ring, kv = ctx.ring, _joined(k, v)
        dout = torch.zeros_like(out) if dout is None else heads_of(dout)
        dlse = None if dlse is None else dlse.contiguous()
        dq = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
        dkv = torch.zeros(kv.shape, dtype=torch.float32, device=q.device)
        for step in range(ring.ranks):
            arriving, requests = ring.start(kv) if step + 1 < ring.ranks else (kv, [])
            right = _mask(ring, step, ctx.causal)
            if right is not None:
                options = (0, 0, ALL, right, ALIGNMENTS["bottom_right"], ctx.scale)
                try:
                    part = ops.attention_backward(
                        dout, dlse, q, *_split(kv, k, v), None, None, None, out, lse, *options
                    )
                except RuntimeError as error:
                    raise_translated(error)
                dq += part[0]
                for total, piece in zip(_split(dkv, k, v), part[1:3]):
                    total += piece
            dkv, returning = ring.start(dkv)
            _wait([*requests, *returning])
            kv = arriving
        dk, dv = _split(dkv, k, v)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None, None


@torch.compiler.disable
def ring_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    group: Any = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
) -> Any:
    """:func:`attention` over a sequence cut along its tokens: rank i of the group has piece i of q, k and v.

    Keys and values go round the ranks while each computes with what it has; partial results are float32 and merged.
    In backward the gradients of k and v travel with them, in float32. Deterministic. With causal, a rank computes with
    the pieces of lower ranks and its own, so that the last one has the most work.

    Args:
        q: ``[batch, seq / ranks, heads, dim]``, as in :func:`attention`.
        k, v: ``[batch, seq / ranks, kv_heads, dim]``, pieces of one length on all ranks.
        group: a process group; by default all ranks. gloo on CPUs, NCCL on GPUs.
        causal, scale, return_lse: as in :func:`attention`.

    Returns:
        The piece of the result that belongs to q; with return_lse also that of the lse.
    """
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise ValueError(f"octet: q, k and v must be [batch, seq, heads, dim], got {q.shape}, {k.shape}, {v.shape}")
    if causal and q.shape[1] != k.shape[1]:
        raise ValueError(f"octet: causal ring_attention needs as many keys as queries, got {q.shape}, {k.shape}")
    out, lse = _RingAttention.apply(heads_of(q), k, v, group, causal, scale)
    return (out, lse) if return_lse else out
