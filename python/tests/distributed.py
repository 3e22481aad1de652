"""Run by torchrun from test_distributed.py: one model on two ranks against the same model on one.

distributed.py MODE...: each mode prints "result MODE SNR", the smallest of all gradients in dB.
"""

import copy
import itertools
import sys

import torch
import torch.distributed as dist
from conftest import Block, snr
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import octet.torch as ot


def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).float().square().mean()


def data_parallel(mode: str, model: nn.Module, xs: torch.Tensor, mesh: DeviceMesh) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16 if "bf16" in mode else None)
    for block in model:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    if "compiled" in mode:
        for block in model:
            block.compile(backend="aot_eager", fullgraph=True)
    loss_of(model, xs[dist.get_rank()]).backward()


def tensor_parallel(mode: str, model: nn.Module, xs: torch.Tensor, mesh: DeviceMesh) -> None:
    plan = {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
    for block in model:
        parallelize_module(block, mesh, plan)
        if "compiled" in mode:
            block.compile(backend="aot_eager", fullgraph=True)
    (sum(loss_of(model, x) for x in xs) / len(xs)).backward()


def layer(wgrad: str, mesh: DeviceMesh) -> float:
    """The smallest SNR of y, dx and dw of one layer, with x, w and dy cut in every way."""
    worst, cuts = float("inf"), [Replicate(), Shard(0), Shard(1)]
    for tokens, k in [(64, 256), (1024, 256), (100, 200), (7, 12)]:
        x, w, dy = torch.randn(tokens, k), torch.randn(96, k), torch.randn(tokens, 96)
        leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
        y = ot.linear(*leaves, wgrad=wgrad)
        want = [y.detach(), *torch.autograd.grad(y, leaves, dy)]
        for x_cut, w_cut, dy_cut in itertools.product(cuts, repeat=3):
            parts = [distribute_tensor(t, mesh, [cut]).requires_grad_() for t, cut in ((x, x_cut), (w, w_cut))]
            y = ot.linear(*parts, wgrad=wgrad)
            y.backward(distribute_tensor(dy, mesh, [dy_cut]))
            got = [y.detach(), *(part.grad for part in parts)]
            worst = min(worst, *(snr(a.full_tensor(), b) for a, b in zip(got, want, strict=True)))
    return worst


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for mode in sys.argv[1:]:
        torch.manual_seed(1)
        if mode.startswith("layer"):
            worst = layer("2d" if "2d" in mode else "1d", mesh)
            if dist.get_rank() == 0:
                print("result", mode, worst, flush=True)
            continue
        model = ot.convert(nn.Sequential(Block(), Block()), wgrad="2d" if "2d" in mode else "1d")
        xs = torch.randn(dist.get_world_size(), 2, 32, 128)
        alone = copy.deepcopy(model)
        (sum(loss_of(alone, x) for x in xs) / len(xs)).backward()
        (data_parallel if mode.startswith("fsdp") else tensor_parallel)(mode, model, xs, mesh)
        worst = float("inf")
        for p, q in zip(model.parameters(), alone.parameters(), strict=True):
            grad = p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad
            worst = min(worst, snr(grad, q.grad))
        if dist.get_rank() == 0:
            print("result", mode, worst, flush=True)
        torch._dynamo.reset()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
