"""A mixture of experts whose experts lie on several ranks, against the same layer in one process.

    torchrun --nproc-per-node 2 examples/moe_expert_parallel.py            # compares every bit
    torchrun --nproc-per-node 8 examples/moe_expert_parallel.py --bench --dim 7168 --hidden 2048 --experts 256 --top-k 8

Every rank has tokens of its own and experts / ranks of the experts; octet.torch.MoE with group= sends the tokens to
their experts and back. Rank 0 then runs the whole layer alone. Outputs, the gradient of the tokens and those of the
experts have the same bits; the gradient of the router, a sum over ranks, agrees to rounding.

--bench: milliseconds of a layer, forward and backward, and bytes per second of dispatch (tokens to experts) and combine
(back), by the slowest rank. Bytes are those that a rank sends, its own included. gloo on CPUs, NCCL on GPUs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn

import octet.torch as ot
from octet.torch import _expert_parallel


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=192, help="of every rank [default: 192]")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--top-k", type=int, default=2)
    parser.add_argument("--wgrad", choices=("1d", "2d"), default="1d")
    parser.add_argument("--bench", action="store_true", help="measure instead of comparing")
    parser.add_argument("--steps", type=int, default=5, help="of --bench, after one that is not timed [default: 5]")
    return parser.parse_args()


def make_layer(options: argparse.Namespace, device: torch.device, group: dist.ProcessGroup | None) -> ot.MoE:
    """The weights of the whole mixture are drawn alike everywhere; a rank keeps its own experts. Router in f32."""
    sizes = options.dim, options.hidden, options.experts, options.top_k
    torch.manual_seed(0)
    whole = ot.MoE(*sizes, wgrad=options.wgrad, dtype=torch.bfloat16)
    layer = ot.MoE(*sizes, wgrad=options.wgrad, dtype=torch.bfloat16, group=group)
    here = layer.w_gate_up.shape[0]
    first = 0 if group is None else dist.get_rank(group) * here
    layer.router = nn.Parameter(whole.router.detach().float())
    with torch.no_grad():
        layer.w_gate_up.copy_(whole.w_gate_up[first : first + here])
        layer.w_down.copy_(whole.w_down[first : first + here])
    return layer.to(device)


def tokens_of(options: argparse.Namespace, rank: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """x and dy of a rank."""
    generator = torch.Generator().manual_seed(1 + rank)
    draw = [torch.randn(options.tokens, options.dim, generator=generator).bfloat16().to(device) for _ in range(2)]
    return draw[0], draw[1]


def step(layer: ot.MoE, x: Tensor, dy: Tensor, routing: ot.Routing | None = None) -> list[Tensor]:
    """y and the gradients of x, the experts and the router."""
    x = x.detach().requires_grad_()
    layer.zero_grad(set_to_none=True)
    y = layer(x, layer.route(x) if routing is None else routing)
    y.backward(dy)
    return [y.detach(), x.grad, layer.w_gate_up.grad, layer.w_down.grad, layer.router.grad]  # type: ignore[list-item]


def gathered(t: Tensor) -> Tensor:
    """The tensors of all ranks, one above the other."""
    parts = [torch.empty_like(t) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, t.contiguous())
    return torch.cat(parts)


def compare(options: argparse.Namespace, device: torch.device) -> bool:
    layer = make_layer(options, device, dist.group.WORLD)
    *mine, d_router = step(layer, *tokens_of(options, dist.get_rank(), device))
    together = [gathered(t) for t in mine]
    dist.all_reduce(d_router)
    if dist.get_rank() != 0:
        return True
    alone = make_layer(options, device, None)
    drawn = [tokens_of(options, rank, device) for rank in range(dist.get_world_size())]
    *want, want_router = step(alone, torch.cat([x for x, _ in drawn]), torch.cat([dy for _, dy in drawn]))
    names = ("y", "dx", "dw_gate_up", "dw_down")
    differ = [name for name, a, b in zip(names, together, want, strict=True) if not torch.equal(a, b)]
    error = ((d_router - want_router).abs().max() / want_router.abs().max().clamp(min=1e-30)).item()
    print(
        f"{dist.get_world_size()} ranks: {', '.join(differ) or 'nothing'} differs; router gradient within {error:.1e}"
    )
    return not differ and error < 1e-6


def seconds(function: Callable[[], object], device: torch.device, steps: int) -> float:
    """The median of the slowest rank."""
    times = []
    for i in range(steps + 1):
        dist.barrier()
        start = time.perf_counter()
        function()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if i > 0:
            times.append(time.perf_counter() - start)
    slowest = torch.tensor(statistics.median(times), dtype=torch.float64, device=device)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def bench(options: argparse.Namespace, device: torch.device) -> None:
    layer = make_layer(options, device, dist.group.WORLD)
    x, dy = tokens_of(options, dist.get_rank(), device)
    layer_seconds = seconds(lambda: step(layer, x, dy), device, options.steps)
    with torch.no_grad():
        routing = layer.route(x)
        trip = _expert_parallel.Trip(routing, options.experts, dist.group.WORLD)
        rows = trip.gather(x)
        there = trip.dispatch(rows)
        out = seconds(lambda: trip.dispatch(rows), device, options.steps)
        back = seconds(lambda: trip.combine(there), device, options.steps)
    size = rows.numel() * rows.element_size()
    if dist.get_rank() == 0:
        ranks = dist.get_world_size()
        where = f"{ranks} ranks, {ranks if device.type == 'cuda' else 0} GPUs, {options.tokens} tokens each"
        speeds = f"dispatch {size / out / 1e9:.3f} GB/s, combine {size / back / 1e9:.3f} GB/s"
        print(f"{where}: layer {1e3 * layer_seconds:.2f} ms, {speeds}")


def main() -> int:
    options = arguments()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    try:
        if options.bench:
            bench(options, device)
            return 0
        return 0 if compare(options, device) else 1
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
