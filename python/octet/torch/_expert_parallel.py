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
        return _exchange(rows, send, receive, group)

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        return _exchange(d, ctx.receive, ctx.send, ctx.group), None, None, None


def _exchange(rows: Tensor, send: list[int], receive: list[int], group: Any) -> Tensor:
    """Bytes are sent, so that every backend takes every dtype."""
    out = rows.new_empty(sum(receive), rows.shape[1])
    dist.all_to_all_single(out.view(torch.uint8), rows.contiguous().view(torch.uint8), receive, send, group=group)
    return out


class Trip:
    """Where the rows of one routing go. The host reads how many rows travel, as all_to_all_single needs to know."""

    def __init__(self, routing: Routing, experts: int, group: Any) -> None:
        ranks = dist.get_world_size(group)
        here = experts // ranks
        self.routing, self.group, self.local = routing, group, here
        self.row_of, self.source, sizes = call(ops.moe_maps, routing.indices, experts)
        arriving = torch.empty_like(sizes)  # rows for each expert here, from each rank
        dist.all_to_all_single(arriving, sizes, group=group)
        self.send, self.receive = torch.stack([sizes, arriving]).view(2, ranks, here).sum(2).tolist()
        self.arriving = arriving

    def gather(self, x: Tensor) -> Tensor:
        """The token of every slot, in the order of experts."""
        return gather_rows(x, self.row_of, self.source)[: sum(self.send)]

    def weights(self) -> Tensor:
        """The weight of every slot in the same order, ``[rows, 1]``."""
        slots = self.routing.weights.reshape(-1, 1)
        return gather_rows(slots, self.row_of.view(-1, 1), self.source)[: sum(self.send)]

    def dispatch(self, rows: Tensor) -> Tensor:
        return _Exchange.apply(rows, self.send, self.receive, self.group)

    def indices(self) -> Tensor:
        """The expert of every row that has arrived, among those here: ``[rows, 1]``."""
        experts = torch.arange(self.local, dtype=torch.int32, device=self.arriving.device)
        experts = experts.repeat(len(self.receive))
        return experts.repeat_interleave(self.arriving, output_size=sum(self.receive)).view(-1, 1)

    def combine(self, rows: Tensor) -> Tensor:
        return _Exchange.apply(rows, self.receive, self.send, self.group)

    def sum(self, rows: Tensor) -> Tensor:
        """The rows of every token added up, in the order of its experts."""
        missing = self.source.shape[0] - rows.shape[0]  # maps of no tokens have one row all the same
        rows = rows if missing == 0 else torch.cat([rows, rows.new_zeros(missing, rows.shape[1])])
        return sum_rows(rows, self.row_of, self.source)


def expert_parallel_mlp(
    x: Tensor, routing: Routing, w_gate_up: Tensor, w_down: Tensor, *, experts: int, group: Any, **options: Any
) -> Tensor:
    """:func:`moe_mlp` where every rank of the group has ``experts / ranks`` experts and tokens of its own."""
    trip = Trip(routing, experts, group)
    rows, weights = trip.dispatch(trip.gather(x)), trip.dispatch(trip.weights())
    y, _ = moe_mlp(rows, trip.indices(), weights, w_gate_up, w_down, **options)
    return trip.sum(trip.combine(y))
