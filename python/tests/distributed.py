"""Run by torchrun from test_distributed.py: one model on two ranks against the same model on one.

distributed.py MODE...: each mode prints "result MODE SNR", the smallest of all gradients in dB, inf for equal bits.
"""

import copy
import itertools
import sys
import tempfile
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from conftest import Block, snr
from distributed_attention import ring, sharded
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

import octet.torch as ot


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).float().square().mean()


def full(t: Tensor) -> Tensor:
    return t.full_tensor() if isinstance(t, DTensor) else t


def worst_of(got: list[Tensor], want: list[Tensor]) -> float:
    """In dB; infinite where every bit is the same."""
    pairs = [(full(a).detach(), b.detach()) for a, b in zip(got, want, strict=True)]
    return min(float("inf") if torch.equal(a, b) else snr(a, b) for a, b in pairs)


def data_parallel(mode: str, model: nn.Module, xs: Tensor, mesh: DeviceMesh) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16 if "bf16" in mode else None)
    for block in model:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    if "compiled" in mode:
        for block in model:
            block.compile(backend="aot_eager", fullgraph=True)
    loss_of(model, xs[dist.get_rank()]).backward()


def tensor_parallel(mode: str, model: nn.Module, xs: Tensor, mesh: DeviceMesh) -> None:
    plan = {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
    for block in model:
        parallelize_module(block, mesh, plan)
        if "compiled" in mode:
            block.compile(backend="aot_eager", fullgraph=True)
    (sum(loss_of(model, x) for x in xs) / len(xs)).backward()


def sharing_of(mode: str) -> dict[str, Any]:
    """How scales are shared, and what goes with it."""
    granularity = next((name for name in ("tensorwise", "rowwise", "mxfp8") if name in mode), "blockwise")
    scale = "up" if mode.endswith("-up") else "floor"
    return {"granularity": granularity, "mx_scale": scale, "fast_accumulation": mode.endswith("-fast")}


def model_in_parallel(mode: str, mesh: DeviceMesh) -> float:
    """The gradients of two transformer layers under FSDP2 or tensor parallel."""
    wgrad = "2d" if "2d" in mode else "1d"
    model = ot.convert(nn.Sequential(Block(), Block()), wgrad=wgrad, **sharing_of(mode))
    xs = torch.randn(dist.get_world_size(), 2, 32, 128)
    alone = copy.deepcopy(model)
    (sum(loss_of(alone, x) for x in xs) / len(xs)).backward()
    (data_parallel if mode.startswith("fsdp") else tensor_parallel)(mode, model, xs, mesh)
    return worst_of([p.grad for p in model.parameters()], [p.grad for p in alone.parameters()])


class Fused(nn.Module):
    """A norm that writes FP8, and the packed modules that read it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.mlp = (
            ot.RMSNorm(128, quantized=True),
            ot.QKV(128, 2, bias=True),
            ot.GatedMLP(128, 256),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return self.qkv(y)[..., :128] + self.mlp(y)


def groups(mode: str, mesh: DeviceMesh) -> float:
    """Norm, layer and MLP in FSDP2 groups of their own: activations in FP8 pass from one group to the next."""
    model = Fused()
    xs = torch.randn(dist.get_world_size(), 2, 32, 128)
    alone = copy.deepcopy(model)
    (sum(loss_of(alone, x) for x in xs) / len(xs)).backward()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16 if "bf16" in mode else None)
    for module in (model.norm, model.qkv, model.mlp, model):
        fully_shard(module, mesh=mesh, mp_policy=policy)
    loss_of(model, xs[dist.get_rank()]).backward()
    state = model.qkv._get_fsdp_state()._fsdp_param_group
    assert state._training_state.name == "IDLE" and state.is_sharded  # the hooks of backward have run
    return worst_of([p.grad for p in model.parameters()], [p.grad for p in alone.parameters()])


def checkpoint(mode: str, mesh: DeviceMesh) -> float:
    """A model of packed modules, saved and loaded by torch.distributed.checkpoint, and as a whole."""
    x = torch.randn(2, 32, 128)

    def make(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(seed)
        model = nn.Sequential(Fused(), Fused())
        for block in model:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        loss_of(model, x).backward()
        optimizer.step()
        return model, optimizer

    torch.manual_seed(1)
    alone = nn.Sequential(Fused(), Fused())
    (model, optimizer), (loaded, other) = make(1), make(2)
    assert list(model.state_dict()) == list(alone.state_dict()) == [name for name, _ in alone.named_parameters()]

    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    states = [dict(zip(("model", "optim"), get_state_dict(*pair))) for pair in ((model, optimizer), (loaded, other))]
    dcp.save(states[0], checkpoint_id=folder[0])
    dcp.load(states[1], checkpoint_id=folder[0])
    set_state_dict(loaded, other, model_state_dict=states[1]["model"], optim_state_dict=states[1]["optim"])
    for (name, a), b in zip(model.named_parameters(), loaded.parameters(), strict=True):
        assert torch.equal(a.full_tensor(), b.full_tensor()), name
        momenta = [o.state[p]["exp_avg"].full_tensor() for o, p in ((optimizer, a), (other, b))]
        assert torch.equal(*momenta), name

    # As Hugging Face names the layers: gathered on every rank, loaded into one process and into shards.
    split = ot.split_state_dict(model)
    assert "0.qkv.q_proj.bias" in split and "1.mlp.up_proj.weight" in split and "0.qkv.weight" not in split
    alone.load_state_dict({name: full(t) for name, t in split.items()})
    fresh = make(3)[0]
    whole = ot.pack_state_dict(fresh, {name: full(t) for name, t in split.items()})
    set_model_state_dict(fresh, whole, options=StateDictOptions(full_state_dict=True))
    for (name, a), b, c in zip(model.named_parameters(), alone.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(a.full_tensor(), b) and torch.equal(c.full_tensor(), b), name
    return worst_of([model(x)], [alone(x)])


def adamw(mode: str, mesh: DeviceMesh) -> float:
    """The parameters after two steps of ot.AdamW under FSDP2, with shards of unequal length."""
    model = nn.Sequential(nn.Linear(8, 5), nn.Linear(5, 3))
    xs = torch.randn(dist.get_world_size(), 4, 8)
    alone = copy.deepcopy(model)
    (sum(loss_of(alone, x) for x in xs) / len(xs)).backward()
    data_parallel(mode, model, xs, mesh)
    optimizers = [ot.AdamW(m.parameters(), lr=0.1) for m in (model, alone)]
    for _ in range(2):
        for optimizer in optimizers:
            optimizer.step()
    state = optimizers[0].state[model[0].weight]
    assert state["exp_avg"].placements == model[0].weight.placements
    return worst_of(list(model.parameters()), list(alone.parameters()))


class Mlp(nn.Module):
    """A gated MLP with its norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.down = ot.RMSNorm(128), nn.Linear(512, 128)
        self.gate, self.up = nn.Linear(128, 512, bias=False), nn.Linear(128, 512, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


def sequence_parallel(mode: str, mesh: DeviceMesh) -> float:
    """x and the norm are cut along the sequence, the linear layers along their columns and rows."""
    model = ot.convert(Mlp())
    with torch.no_grad():
        model.norm.weight.normal_()
    x, alone = torch.randn(2, 32, 128), copy.deepcopy(model)
    want = alone(x)
    want.square().mean().backward()
    columns = ColwiseParallel(input_layouts=Shard(1))
    rows = RowwiseParallel(output_layouts=Shard(1), use_local_output=False)
    parallelize_module(model, mesh, {"norm": SequenceParallel(), "gate": columns, "up": columns, "down": rows})
    if "compiled" in mode:
        model.compile(backend="aot_eager", fullgraph=True)
    y = model(distribute_tensor(x, mesh, [Shard(1)]))
    assert y.placements == (Shard(1),)
    y.full_tensor().square().mean().backward()
    got = [y, *(p.grad for p in model.parameters())]
    return worst_of(got, [want, *(p.grad for p in alone.parameters())])


def layer(mode: str, mesh: DeviceMesh) -> float:
    """y, dx and dw of one linear layer, with x, w and dy cut in every way."""
    worst, cuts = float("inf"), [Replicate(), Shard(0), Shard(1)]
    wgrad = "2d" if "2d" in mode else "1d"
    shapes = [(64, 256), (1024, 256), (100, 200), (7, 12), (3, 8, 256)]
    for shape in shapes:
        x, w, dy = torch.randn(shape), torch.randn(96, shape[-1]), torch.randn(*shape[:-1], 96)
        leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
        y = ot.linear(*leaves, wgrad=wgrad, **sharing_of(mode))
        want = [y.detach(), *torch.autograd.grad(y, leaves, dy)]
        for x_cut, w_cut, dy_cut in itertools.product(cuts, repeat=3):
            parts = [distribute_tensor(t, mesh, [cut]).requires_grad_() for t, cut in ((x, x_cut), (w, w_cut))]
            y = ot.linear(*parts, wgrad=wgrad, **sharing_of(mode))
            y.backward(distribute_tensor(dy, mesh, [dy_cut]))
            worst = min(worst, worst_of([y, *(part.grad for part in parts)], want))
    return worst


def main_grad(mode: str, mesh: DeviceMesh) -> float:
    """dx and what two passes have added to main_grad, which is cut as w or a partial sum."""
    worst, cuts = float("inf"), [Replicate(), Shard(0), Shard(1)]
    wgrad = "2d" if "2d" in mode else "1d"
    for tokens, k in [(1024, 256), (100, 256 if wgrad == "2d" else 200)]:
        x, w, dy = torch.randn(tokens, k), torch.randn(96, k), torch.randn(tokens, 96)
        start = torch.randn(96, k)
        leaf = x.clone().requires_grad_()
        want = start.clone()
        for _ in range(2):
            ot.linear(leaf, w.clone().requires_grad_(), wgrad=wgrad, main_grad=want).backward(dy)
        for x_cut, w_cut, dy_cut in itertools.product(cuts, repeat=3):
            sums = [w_cut] + ([Partial()] if w_cut == Replicate() and tokens == 1024 else [])
            for sum_cut in sums:
                part, weight = (distribute_tensor(t, mesh, [c]).requires_grad_() for t, c in ((x, x_cut), (w, w_cut)))
                if sum_cut == Partial():
                    total = DTensor.from_local(start / dist.get_world_size(), mesh, [Partial()])
                else:
                    total = distribute_tensor(start.clone(), mesh, [sum_cut])
                address = total.to_local().data_ptr()
                for _ in range(2):
                    y = ot.linear(part, weight, wgrad=wgrad, main_grad=total)
                    y.backward(distribute_tensor(dy, mesh, [dy_cut]))
                assert weight.grad is None and total.placements == (sum_cut,)
                assert total.to_local().data_ptr() == address
                worst = min(worst, worst_of([part.grad, total], [leaf.grad, want]))
    # A cut that would need a copy of main_grad is refused.
    part, weight = (distribute_tensor(t, mesh, [Replicate()]).requires_grad_() for t in (x, w))
    try:
        ot.linear(part, weight, wgrad=wgrad, main_grad=distribute_tensor(start, mesh, [Partial()]))
        return 0
    except RuntimeError as error:
        assert "octet: main_grad must be sharded as the weight's gradient is, got P(sum), wanted one of R, S(0)" in str(
            error
        )
    return worst


def elements(mode: str, mesh: DeviceMesh) -> float:
    """rms_norm, swiglu and rope with their operands cut in every way, one of them otherwise than the others."""
    worst = float("inf")
    x, residual, g = torch.randn(3, 8, 64), torch.randn(3, 8, 64), torch.randn(64)
    q, k = torch.randn(3, 8, 4, 16), torch.randn(3, 8, 2, 16)
    qkv, cos, sin = torch.randn(3, 8, 128), torch.randn(8, 16), torch.randn(8, 16)

    def tables(cut: Placement) -> list[Tensor]:
        return [distribute_tensor(t, mesh, [cut]) for t in (cos, sin)]

    positions = distribute_tensor(torch.randint(8, (3, 8)), mesh, [Replicate()])
    cases = [
        (lambda x, g: (ot.rms_norm(x, g),), (x, g), 1),
        (lambda x, r, g: ot.rms_norm(x, g, r), (x, residual, g), 2),
        (lambda x, r, g: ot.rms_norm(x, g, r)[:1], (x, residual, g), 2),
        (lambda x: (ot.swiglu(x),), (x,), 1),
        (lambda gate, up: (ot.swiglu(gate, up),), (x, residual), 2),
        (lambda q, k: ot.rope(q, k, *tables(Replicate())), (q, k), 2),
        (lambda q, k: ot.rope(q, k, *tables(Shard(0))), (q, k), 2),
        (lambda q, k: ot.rope(q, k, *tables(Shard(0)), positions=positions), (q, k), 2),
        (lambda qkv: ot.rope_qkv(qkv, 4, 2, *tables(Replicate())), (qkv,), 1),
        (lambda qkv: ot.rope_qkv(qkv, 4, 2, *tables(Replicate()), positions=positions), (qkv,), 1),
    ]
    for function, inputs, cut_together in cases:
        whole = [distribute_tensor(t, mesh, [Replicate()]).requires_grad_() for t in inputs]
        outputs = function(*whole)
        grads = [torch.randn(t.shape) for t in outputs]
        torch.autograd.backward(outputs, [distribute_tensor(d, mesh, [Replicate()]) for d in grads])
        want = [t.full_tensor() for t in (*outputs, *(t.grad for t in whole))]
        for cut, other in itertools.product([Replicate(), *(Shard(dim) for dim in range(inputs[0].dim()))], repeat=2):
            cuts = [cut] * (cut_together - 1) + [other] + [Replicate()] * (len(inputs) - cut_together)
            parts = [distribute_tensor(t, mesh, [c]).requires_grad_() for t, c in zip(inputs, cuts, strict=True)]
            outputs = function(*parts)
            if cut == other == Shard(1):  # batches of three are not cut evenly
                assert all(y.placements == (cut,) for y in outputs), (cut, [y.placements for y in outputs])
            torch.autograd.backward(outputs, [distribute_tensor(d, mesh, [other]) for d in grads])
            worst = min(worst, worst_of([*outputs, *(part.grad for part in parts)], want))
    return worst


def fused(mode: str, mesh: DeviceMesh) -> float:
    """Activations in FP8 between operators, on DTensors that are cut in every way."""
    worst, cuts = float("inf"), [Replicate(), Shard(0), Shard(1)]
    recipe = {"wgrad": "2d" if "2d" in mode else "1d", **sharing_of(mode)}
    recipe.pop("fast_accumulation")  # not of casts
    matrix = torch.randn(130, 300)
    for cut in cuts:
        got = ot.dequantize(ot.quantize(distribute_tensor(matrix, mesh, [cut])))
        assert torch.equal(got.full_tensor(), ot.dequantize(ot.quantize(matrix)))

    def one_cast(x: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        q = ot.quantize_activation(x, **recipe)
        return ot.linear(q, w), ot.linear(q, v)

    def norm(x: Tensor, residual: Tensor, g: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        q, total = ot.rms_norm(x, g, residual, quantized=True, **recipe)
        return ot.linear(q, w), total

    def gate(x: Tensor, up: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        return (ot.linear(ot.swiglu(x, up, quantized=True, **recipe), w),)

    def mlp(x: Tensor, w_gate_up: Tensor, w_down: Tensor) -> tuple[Tensor, ...]:
        return (ot.gated_mlp(x, w_gate_up, w_down, **recipe),)

    for tokens, k in [(1024, 256), (100, 200)]:
        x, y, g, w, v = (torch.randn(shape) for shape in ((tokens, k), (tokens, k), (k,), (96, k), (96, k)))
        w_gate_up, w_down = torch.randn(256, k) / 8, torch.randn(k, 128) / 8
        for function, inputs, activations in (
            (one_cast, (x, w, v), 1),
            (norm, (x, y, g, w), 2),
            (gate, (x, y, w), 2),
            (mlp, (x, w_gate_up, w_down), 1),
        ):
            leaves = [t.clone().requires_grad_() for t in inputs]
            outputs = function(*leaves)
            grads = [torch.randn(t.shape) for t in outputs]
            want = [*outputs, *torch.autograd.grad(outputs, leaves, grads)]
            for cut, w_cut in itertools.product(cuts, repeat=2):
                cuts_of = [cut] * activations + [Replicate() if t is g else w_cut for t in inputs[activations:]]
                parts = [distribute_tensor(t, mesh, [c]).requires_grad_() for t, c in zip(inputs, cuts_of, strict=True)]
                outputs = function(*parts)
                torch.autograd.backward(outputs, [distribute_tensor(d, mesh, [cut]) for d in grads])
                worst = min(worst, worst_of([*outputs, *(part.grad for part in parts)], want))
                # A scale of whole rows of x^T spans the ranks: there x is gathered.
                sharded = tokens == 1024 and recipe["granularity"] != "rowwise"
                if sharded and cut == Shard(0) and w_cut == Replicate():
                    assert all(output.placements == (cut,) for output in outputs), function
    return worst


def head(mode: str, mesh: DeviceMesh) -> float:
    """The loss of a head and its gradients, with tokens sharded or not; main_grad as a whole and as partial sums."""
    worst, (tokens, vocabulary, k) = float("inf"), (96, 80, 128)
    x, w, target = torch.randn(tokens, k), torch.randn(vocabulary, k) / 8, torch.randint(vocabulary, (tokens,))
    target[::5] = -100
    for reduction, placement in itertools.product(("mean", "sum", "none"), (Replicate(), Shard(0))):
        options = {"reduction": reduction, "precision": "plain" if "plain" in mode else "fp8"}
        leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
        loss = ot.linear_cross_entropy(*leaves, target, **options)
        dloss = torch.randn(loss.shape)
        want = [loss, *torch.autograd.grad(loss, leaves, dloss)]

        def place(t: Tensor, placement: Placement) -> DTensor:
            return distribute_tensor(t, mesh, [placement if t.dim() else Replicate()])

        # A mean needs the number of all tokens: x is gathered, and the loss is whole.
        stays = placement if reduction != "mean" else Replicate()
        sums = [None, Replicate()] + ([Partial()] if stays == Shard(0) else [])
        for of_sum in sums:
            parts = [place(x, placement).requires_grad_(), place(w, Replicate()).requires_grad_()]
            main_grad = None
            if of_sum is not None:
                zeros = torch.zeros(vocabulary, k)
                main_grad = DTensor.from_local(zeros, mesh, [of_sum], run_check=False)
            loss = ot.linear_cross_entropy(*parts, place(target, placement), main_grad=main_grad, **options)
            if of_sum != Replicate():
                assert loss.placements == ((Partial() if reduction == "sum" and stays == Shard(0) else stays),)
            loss.backward(place(dloss, loss.placements[0] if loss.dim() else Replicate()))
            assert main_grad is None or parts[1].grad is None
            got = [loss, parts[0].grad, parts[1].grad if main_grad is None else main_grad]
            worst = min(worst, worst_of(got, want))
    return worst


MODES = {
    "head": head,
    "fused": fused,
    "fsdp": model_in_parallel,
    "tp": model_in_parallel,
    "sp": sequence_parallel,
    "layer": layer,
    "main_grad": main_grad,
    "elements": elements,
    "adamw": adamw,
    "groups": groups,
    "checkpoint": checkpoint,
    "ring": lambda mode, mesh: worst_of(*ring(mode, mesh)),
    "attention": lambda mode, mesh: worst_of(*sharded(mode, mesh)),
}


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for mode in sys.argv[1:]:
        torch.manual_seed(1)
        worst = MODES[mode.partition("-")[0]](mode, mesh)
        if dist.get_rank() == 0:
            print("result", mode, worst, flush=True)
        torch._dynamo.reset()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
