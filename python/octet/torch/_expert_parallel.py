"""Experts on the ranks of a process group: tokens travel to their experts and back by all_to_all_single.

Rows leave in the order of their experts, and of tokens within an expert; those of lower ranks come first. So an expert
sees its tokens in the order in which one process would, and has the same bits: outputs, gradients of x and of the
experts. Only the gradient of the router is summed over the ranks, by whoever sums the gradients of all other layers.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from octet.torch._moe import Routing, gather_rows, moe_mlp, sum_rows
from octet.torch._operators import call, ops


class _Exchange(torch.autograd.Function):
    """Rows to the ranks they are for; ``send`` and ``receive`` are rows per rank. The gradient goes the other way."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, send: list[int], receive: list[int], group: Any) -> Tensor:
        ctx.send, ctx.receive, ctx.group = send, receive, group
        return exchange(rows, send, receive, group)

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        return exchange(d.contiguous(), ctx.receive, ctx.send, ctx.group), None, None, None


def exchange(rows: Tensor, send: list[int], receive: list[int], group: Any) -> Tensor:
    """Bytes are sent, so that every backend takes every dtype."""
    out = rows.new_empty(sum(receive), *rows.shape[1:])
    if rows.shape[1:].numel() > 0:
        dist.all_to_all_single(out.view(torch.uint8), rows.view(torch.uint8), receive, send, group=group)
    return out


def at_least(rows: Tensor, count: int) -> Tensor:
    """rows with zeros behind them: maps of no tokens have one row all the same."""
    return rows if rows.shape[0] >= count else torch.cat([rows, rows.new_zeros(count - rows.shape[0], *rows.shape[1:])])


def expert_parallel_mlp(
    x: Tensor, routing: Routing, w_gate_up: Tensor, w_down: Tensor, *, experts: int, group: Any, **options: Any
) -> Tensor:
    """:func:`moe_mlp` where every rank of the group has ``experts / ranks`` experts and tokens of its own.

    The numbers of rows that travel are read by the host, as all_to_all_single needs them.
    """
    ranks = dist.get_world_size(group)
    here = w_gate_up.shape[0]
    if here * ranks != experts:
        raise ValueError(f"octet: {ranks} ranks with {here} experts each are not {experts} experts")
    row_of, source, sizes = call(ops.moe_maps, routing.indices, experts)
    arriving = torch.empty_like(sizes)  # [ranks, experts here]: rows from each rank
    dist.all_to_all_single(arriving, sizes, group=group)
    send, receive = torch.stack([sizes, arriving]).view(2, ranks, here).sum(2).tolist()
    slots = sum(send)
    rows = _Exchange.apply(gather_rows(x, row_of, source)[:slots], send, receive, group)
    flat = routing.weights.reshape(-1, 1)
    weights = gather_rows(flat, row_of.view(-1, 1), source)[:slots]
    weights = _Exchange.apply(weights, send, receive, group)
    local = torch.arange(here, dtype=torch.int32, device=x.device).repeat(ranks)
    indices = local.repeat_interleave(arriving, output_size=sum(receive)).view(-1, 1)
    y_rows, _ = moe_mlp(rows, indices, weights, w_gate_up, w_down, **options)
    back = _Exchange.apply(y_rows, receive, send, group)
    return sum_rows(at_least(back, source.shape[0]), row_of, source)
