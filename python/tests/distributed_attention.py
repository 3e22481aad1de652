"""Modes of distributed.py: attention on two ranks. Each returns what the ranks computed and what one process does."""

import itertools
from collections.abc import Callable

import torch
import torch.distributed as dist
from conftest import normal
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import octet.torch as ot

Tensors = list[Tensor]


def step(function: Callable[..., tuple[Tensor, Tensor]], tensors: Tensors, douts: Tensors) -> Tensors:
    """out, lse and the gradients of the tensors."""
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    results = function(*leaves)
    torch.autograd.backward(results, douts)
    return [*(t.detach() for t in results), *(leaf.grad for leaf in leaves)]


def gathered(t: Tensor, dim: int) -> Tensor:
    parts = [torch.empty_like(t) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, t.contiguous())
    return torch.cat(parts, dim)


def ring(mode: str, mesh: DeviceMesh) -> tuple[Tensors, Tensors]:
    """A sequence of 35 tokens per rank: keys and values go round, and so do their gradients."""
    rank, ranks, causal = dist.get_rank(), dist.get_world_size(), "causal" in mode
    dtype, seq = torch.bfloat16 if "bf16" in mode else torch.float32, 35 * ranks
    shapes = (2, seq, 4, 16), (2, seq, 2, 16), (2, seq, 2, 8)
    q, k, v = (normal(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate(shapes))
    dout, dlse = normal(2, seq, 4, 8, dtype=dtype, seed=3), normal(2, 4, seq, seed=4)

    def mine(t: Tensor, dim: int = 1) -> Tensor:
        return t.chunk(ranks, dim)[rank]

    def together(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        return ot.ring_attention(*tensors, causal=causal, return_lse=True)

    def alone(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        return ot.attention(*tensors, causal=causal, return_lse=True)

    pieces, douts = [mine(t) for t in (q, k, v)], [mine(dout), mine(dlse, 2)]
    got, again = step(together, pieces, douts), step(together, pieces, douts)
    assert all(map(torch.equal, got, again)) and got[0].dtype == got[3].dtype == dtype
    tokens = (1, 2, 1, 1, 1)  # the dimension of each
    return [gathered(t, dim) for t, dim in zip(got, tokens, strict=True)], step(alone, [q, k, v], [dout, dlse])


def sharded(mode: str, mesh: DeviceMesh) -> tuple[Tensors, Tensors]:
    """DTensors cut by batch and by heads, k and v otherwise than q. A sink's gradient is a sum over the batch."""
    offsets = torch.tensor([0, 3, 9]) if "offsets" in mode else None
    rank = 4 if offsets is None else 3
    shapes = (2, 9, 4, 8), (2, 9, 2, 8), (2, 9, 2, 8)
    q, k, v = (normal(*shape[4 - rank :], seed=seed) for seed, shape in enumerate(shapes))
    sink, batch, heads = normal(4, seed=3), Shard(0), Shard(rank - 2)
    given = {} if offsets is None else dict.fromkeys(("offsets_q", "offsets_kv"), offsets)

    def run(q: Tensor, k: Tensor, v: Tensor, sink: Tensor, **given: Tensor) -> tuple[Tensor, Tensor]:
        return ot.attention(q, k, v, causal=True, sink=sink, return_lse=True, **given)

    out, lse = run(q, k, v, sink, **given)
    douts = [normal(*out.shape, seed=4), normal(*lse.shape, seed=5)]
    alone = step(lambda *t: run(*t, **given), [q, k, v, sink], douts)
    got: Tensors = []
    want: Tensors = []
    for of_q, of_k in itertools.product((Replicate(), batch, heads), repeat=2):
        places = (of_q, of_k, of_k, Replicate())
        leaves = [
            distribute_tensor(t, mesh, [p]).requires_grad_() for t, p in zip((q, k, v, sink), places, strict=True)
        ]
        wide = {name: distribute_tensor(t, mesh, [Replicate()]) for name, t in given.items()}
        results = run(*leaves, **wide)
        if of_q == of_k == heads or (of_q == of_k == batch and offsets is None):
            assert results[0].placements == (of_q,)  # nothing was gathered
        torch.autograd.backward(results, [distribute_tensor(t, mesh, [Replicate()]) for t in douts])
        got += [*results, *(leaf.grad for leaf in leaves)]
        want += alone
    return got, want
