"""The fused path: activations in FP8 that several layers read, QKV, GatedMLP, RMSNorm and rope of packed qkv.
Everything has the bits of the same computation in separate calls."""

import copy

import pytest
import torch
import torch.nn.functional as F
from conftest import FusedBlock, exact, normal, same, snr
from torch import nn
from torch._dynamo.backends.debugging import aot_eager
from torch.distributed.utils import _apply_to_tensors
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

import octet.torch as ot

RECIPES = [("1d", "e4m3", "e4m3"), ("2d", "e4m3", "e5m2")]


def gradients(function, *inputs, seed=9):
    """Results of a function of leaves, and the gradients of the leaves."""
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    out = function(*leaves)
    out = out if isinstance(out, tuple) else (out,)
    seeds = [normal(*t.shape, dtype=t.dtype, seed=seed + i) for i, t in enumerate(out)]
    return [*(t.detach() for t in out), *torch.autograd.grad(out, leaves, seeds)]


@pytest.mark.parametrize("wgrad, format, grad_format", RECIPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_cast_serves_several_layers(dtype, wgrad, format, grad_format):
    x, w1, w2 = (
        normal(2, 20, 200, dtype=dtype),
        normal(130, 200, dtype=dtype, seed=1),
        normal(64, 200, dtype=dtype, seed=2),
    )
    recipe = {"wgrad": wgrad, "format": format}

    def shared(x, w1, w2):
        q = ot.quantize_activation(x, **recipe)
        assert q.shape == x.shape and q.dtype == dtype and q.device == x.device
        return ot.linear(q, w1, grad_format=grad_format), ot.linear(q, w2, grad_format=grad_format)

    def separate(x, w1, w2):
        return tuple(ot.linear(x, w, grad_format=grad_format, **recipe) for w in (w1, w2))

    assert same(gradients(shared, x, w1, w2), gradients(separate, x, w1, w2))


@pytest.mark.parametrize("wgrad, format, _", RECIPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norm_and_activation_write_what_the_cast_of_their_result_would(dtype, wgrad, format, _):
    x, g, residual = (
        normal(40, 300, dtype=dtype),
        normal(300, dtype=dtype, seed=1),
        normal(40, 300, dtype=dtype, seed=2),
    )
    recipe = {"wgrad": wgrad, "format": format}
    pairs = [
        (ot.rms_norm(x, g, quantized=True, **recipe), ot.rms_norm(x, g)),
        (ot.rms_norm(x, g, residual, quantized=True, **recipe)[0], ot.rms_norm(x, g, residual)[0]),
        (ot.swiglu(x, quantized=True, **recipe), ot.swiglu(x)),
        (ot.swiglu(x, residual, quantized=True, **recipe), ot.swiglu(x, residual)),
    ]
    for got, plain in pairs:
        want = ot.quantize_activation(plain, **recipe)
        for name in ("values", "scales", "t_values", "t_scales"):
            assert torch.equal(getattr(got, name), getattr(want, name)), name
        assert got.shape == plain.shape
        assert snr(ot.dequantize(got.row()), plain) > 25
        assert snr(ot.dequantize(got.transposed()).t(), plain) > 25


@pytest.mark.parametrize("wgrad", ["1d", "2d"])
def test_gradients_flow_through_fp8(wgrad):
    """norm -> linear and swiglu -> linear, in FP8 between and through f32."""
    x, g, residual = normal(40, 300), normal(300, seed=1), normal(40, 300, seed=2)
    w, w_half = normal(130, 300, seed=3), normal(130, 150, seed=4)

    def norm(quantized):
        def run(x, g, residual, w):
            y, h = ot.rms_norm(x, g, residual, quantized=quantized, **({"wgrad": wgrad} if quantized else {}))
            return ot.linear(y, w, **({} if quantized else {"wgrad": wgrad})), h

        return run

    def activation(quantized):
        def run(x, w):
            y = ot.swiglu(x, quantized=quantized, **({"wgrad": wgrad} if quantized else {}))
            return ot.linear(y, w, **({} if quantized else {"wgrad": wgrad}))

        return run

    assert same(gradients(norm(True), x, g, residual, w), gradients(norm(False), x, g, residual, w))
    assert same(gradients(activation(True), x, w_half), gradients(activation(False), x, w_half))


@pytest.mark.parametrize("wgrad", ["1d", "2d"])
def test_transposes_made_again_in_backward_have_the_same_bits(wgrad):
    x, g, residual, w = normal(40, 300), normal(300, seed=1), normal(40, 300, seed=2), normal(130, 300, seed=3)
    w_gate_up, w_down = normal(96, 300, seed=4), normal(300, 48, seed=5)
    saved = {}

    def run(recompute, with_residual):
        def block(x, g, residual, w, w_gate_up, w_down):
            h = (residual,) if with_residual else ()
            y = ot.rms_norm(x, g, *h, quantized=True, wgrad=wgrad, recompute=recompute)
            y = y[0] if with_residual else y
            assert (y.transposed() is None) == recompute
            q = ot.quantize_activation(x, wgrad=wgrad, recompute=recompute)
            out = ot.linear(y, w), ot.gated_mlp(y, w_gate_up, w_down), ot.linear(q, w)
            return *out, ot.linear(x, w, wgrad=wgrad, recompute=recompute), residual * 1

        sizes: dict[int, int] = {}
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: (sizes.setdefault(t.data_ptr(), t.numel() * t.element_size()), t)[1], lambda t: t
        ):
            results = gradients(block, x, g, residual, w, w_gate_up, w_down)
        saved[recompute] = sum(sizes.values())
        return results

    for with_residual in (False, True):
        assert same(run(True, with_residual), run(False, with_residual))
        assert saved[True] < saved[False]


def test_an_activation_made_without_gradients_is_refused_by_a_weight_that_needs_one():
    with torch.no_grad():
        q = ot.quantize_activation(normal(4, 128))
    assert q.transposed() is None
    w = normal(8, 128, seed=1).requires_grad_()
    with pytest.raises(ValueError, match="octet: x was quantised without gradients"):
        ot.linear(q, w)
    assert torch.equal(ot.linear(q, w.detach()), ot.linear(normal(4, 128), w.detach()))
    with pytest.raises(ValueError, match="octet: x was quantised with wgrad='2d', got wgrad='1d'"):
        ot.linear(q, w.detach(), wgrad="1d")
    with pytest.raises(ValueError, match="octet: x must be .* with K at least 1"):
        ot.quantize_activation(torch.empty(4, 0))


@pytest.mark.parametrize("compiled", [False, True])
def test_autocast_reaches_activations_in_fp8(compiled):
    """Norm and layers have f32 parameters: what is written in FP8 are the bits of f32, and results are bf16."""
    torch.manual_seed(1)
    norm, layer, mlp = ot.RMSNorm(128, quantized=True), ot.Linear(128, 40), ot.GatedMLP(128, 96)

    def run(x):
        y = norm(x)
        return layer(y), mlp(y), layer(ot.quantize_activation(x))

    function = torch.compile(run, fullgraph=True, backend=aot_eager) if compiled else run
    x = normal(6, 128).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        got = function(x)
    assert all(t.dtype == torch.bfloat16 for t in got)
    sum(t.float().square().sum() for t in got).backward()
    parameters = [*norm.parameters(), *layer.parameters(), *mlp.parameters()]
    assert x.grad.any() and all(p.grad.dtype == torch.float32 and p.grad.any() for p in parameters)
    halves = [p.detach().bfloat16() for p in (layer.weight, mlp.w_gate_up, mlp.w_down)]
    q = norm(x)
    want = (
        ot.linear(q, halves[0], layer.bias),
        ot.gated_mlp(q, *halves[1:]),
        ot.linear(ot.quantize_activation(x), halves[0], layer.bias),
    )
    assert same(got, want)


@pytest.mark.parametrize("recompute", [False, True])
def test_activations_in_fp8_are_pytrees_and_dataclasses(recompute):
    """As FSDP2's hooks need them: they find the carrier, which alone is a float, and may replace it."""
    x, w = normal(4, 300).requires_grad_(), normal(8, 300, seed=1).requires_grad_()
    q = ot.rms_norm(x, normal(300, seed=2).requires_grad_(), quantized=True, recompute=recompute)
    want = torch.autograd.grad(ot.linear(q, w).square().sum(), (x, w), retain_graph=True)
    leaves, spec = tree_flatten(q)
    assert [t for t in leaves if t is not None and t.is_floating_point()] == [q.carrier]
    carrier = q.carrier.view_as(q.carrier)
    other = tree_unflatten([carrier, *leaves[1:]], spec)
    assert other.carrier is carrier and (other.source is None) == (not recompute)
    got = torch.autograd.grad(ot.linear(other, w).square().sum(), (x, w), retain_graph=True)
    assert same(got, want)
    cast = _apply_to_tensors(lambda t: t.bfloat16() if t.is_floating_point() else t, q)
    assert cast.dtype == torch.bfloat16 and torch.equal(cast.scales, q.scales)
    assert ot.linear(cast, w.bfloat16()).dtype == torch.bfloat16
    y = ot.quantize(x)
    again = tree_map(torch.clone, y)
    assert torch.equal(ot.dequantize(again), ot.dequantize(y)) and "[4, 300]" in repr(y)


def test_activations_in_fp8_leave_an_exported_program():
    class Norm(nn.Module):
        def forward(self, x):
            return ot.rms_norm(x, torch.ones(128), quantized=True)

    x, w = normal(6, 128), normal(8, 128, seed=1)
    with torch.no_grad():
        program = torch.export.export(Norm(), (x,))
        q = program.module()(x)
        assert isinstance(q, ot.QuantizedActivation) and torch.equal(ot.linear(q, w), ot.linear(Norm()(x), w))


def mlp_of_parts(x, w_gate_up, w_down, **recipe):
    return ot.linear(ot.swiglu(ot.linear(x, w_gate_up, **recipe)), w_down, **recipe)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("wgrad, format, grad_format", RECIPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gated_mlp_is_its_parts(dtype, wgrad, format, grad_format, recompute):
    inputs = [
        normal(2, 20, 200, dtype=dtype),
        normal(260, 200, dtype=dtype, seed=1),
        normal(200, 130, dtype=dtype, seed=2),
    ]
    recipe = {"wgrad": wgrad, "format": format, "grad_format": grad_format}
    want = gradients(lambda *t: mlp_of_parts(*t, **recipe), *inputs)
    got = gradients(lambda *t: ot.gated_mlp(*t, recompute=recompute, **recipe), *inputs)
    assert same(got, want)

    def quantized(x, w_gate_up, w_down):
        q = ot.quantize_activation(x, wgrad=wgrad, format=format)
        return ot.gated_mlp(q, w_gate_up, w_down, grad_format=grad_format, recompute=recompute)

    assert same(gradients(quantized, *inputs), want)


def test_a_closed_gate_lets_nothing_through():
    up, down = exact(128, 128, seed=1), exact(128, 128, seed=2)
    y = ot.gated_mlp(exact(16, 128), torch.cat([torch.zeros(128, 128), up]), down)
    assert torch.equal(y, torch.zeros(16, 128))


def test_gated_mlp_saves_what_it_says():
    x, w_gate_up, w_down = (
        t.bfloat16() for t in (normal(512, 256), normal(1024, 256, seed=1), normal(256, 512, seed=2))
    )
    weights = [w_gate_up.requires_grad_(), w_down.requires_grad_()]

    def saved(recompute):
        sizes = []

        def pack(t):
            if all(t.data_ptr() != w.data_ptr() for w in weights):
                sizes.append(t.untyped_storage().nbytes())
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            ot.gated_mlp(x, *weights, recompute=recompute)
        return sum(sizes)

    x_t, h_t = 256 * 512 + 4 * 2 * 4, 512 * 512 + 4 * 4 * 4  # values, and a scale per 128x128 block
    assert saved(True) == 512 * 2 * 1024 + x_t
    assert saved(False) == saved(True) + h_t


def test_gated_mlp_adds_to_main_grads():
    inputs = [normal(40, 256), normal(96, 256, seed=1), normal(256, 48, seed=2)]
    x, w_gate_up, w_down = (t.clone().requires_grad_() for t in inputs)
    main_grads = torch.ones(96, 256), torch.ones(256, 48)
    ot.gated_mlp(x, w_gate_up, w_down, main_grads=main_grads).sum().backward()
    assert w_gate_up.grad is None and w_down.grad is None
    x2, w_gate_up2, w_down2 = (t.clone().requires_grad_() for t in inputs)
    ot.gated_mlp(x2, w_gate_up2, w_down2).sum().backward()
    assert torch.equal(x.grad, x2.grad)
    assert snr(main_grads[0], 1 + w_gate_up2.grad) > 100 and snr(main_grads[1], 1 + w_down2.grad) > 100


def test_norm_and_activation_refuse_names_that_they_do_not_use():
    x, g = normal(4, 32), normal(32, seed=1)
    for function in (lambda **names: ot.rms_norm(x, g, **names), lambda **names: ot.swiglu(x, x, **names)):
        for name in ("granularity", "format", "wgrad", "mx_scale"):
            with pytest.raises(ValueError, match=f"octet: {name} must be .*, got 'foo'"):
                function(**{name: "foo"})


def test_gated_mlp_refuses_in_words():
    x, w_gate_up, w_down = normal(4, 256), normal(96, 256, seed=1), normal(256, 48, seed=2)
    with pytest.raises(ValueError, match=r"octet: w_down must be \[K, F\] = \[256, 48\], got \[256, 40\]"):
        ot.gated_mlp(x, w_gate_up, w_down[:, :40])
    assert ot.gated_mlp(torch.empty(0, 256), w_gate_up, w_down).shape == (0, 256)
    with pytest.raises(ValueError, match="octet: w_gate_up and w_down must both require gradients, or neither"):
        ot.gated_mlp(x, w_gate_up.requires_grad_(), w_down)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rope_of_packed_qkv(interleaved):
    batch, seq, heads, kv_heads, head_dim = 2, 5, 4, 2, 16
    qkv, cos, sin = normal(batch, seq, 8 * head_dim), normal(9, head_dim // 2, seed=1), normal(9, head_dim // 2, seed=2)
    for positions in (None, torch.tensor([[4, 3, 2, 1, 8], [0, 0, 1, 1, 4]])):

        def packed(qkv, positions=positions):
            return ot.rope_qkv(qkv, heads, kv_heads, cos, sin, positions=positions, interleaved=interleaved)

        def split(qkv, positions=positions):
            q, k, v = qkv.view(batch, seq, 8, head_dim).split([heads, kv_heads, kv_heads], 2)
            return *ot.rope(q, k, cos, sin, positions=positions, interleaved=interleaved), v

        assert same(gradients(packed, qkv), gradients(split, qkv))


def test_positions_choose_the_rows_of_the_tables():
    q, k, cos, sin = normal(1, 3, 2, 8), normal(1, 3, 1, 8, seed=1), normal(9, 4, seed=2), normal(9, 4, seed=3)
    rows = torch.tensor([[7, 0, 3]])
    for positions in (rows, rows.int()):
        got = ot.rope(q, k, cos, sin, positions=positions)
        assert same(got, ot.rope(q, k, cos[rows[0]], sin[rows[0]]))
    with pytest.raises(TypeError, match="octet: positions must be int32 or int64"):
        ot.rope(q, k, cos, sin, positions=rows.float())
    with pytest.raises(ValueError, match="octet: qkv must have .* columns, got 12"):
        ot.rope_qkv(normal(1, 3, 12), 3, 1, cos, sin)


def block_step(block, function, x):
    x = x.clone().requires_grad_()
    y = function(x)
    y.float().square().mean().backward()
    out = [y.detach(), x.grad, *(p.grad.clone() for p in block.parameters())]
    block.zero_grad()
    return out


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_fused_block_compiles_whole(dynamic, recompute):
    torch.manual_seed(1)
    block = FusedBlock(wgrad="2d", recompute=recompute)
    compiled = torch.compile(block, backend=aot_eager, fullgraph=True, dynamic=dynamic)
    for seq in (32, 33):
        x = normal(2, seq, 128)
        assert same(block_step(block, compiled, x), block_step(block, block, x))


def test_a_fused_block_compiles_with_inductor():
    torch.manual_seed(1)
    block, x = FusedBlock(), normal(2, 32, 128)
    for a, b in zip(
        block_step(block, torch.compile(block, fullgraph=True), x), block_step(block, block, x), strict=True
    ):
        assert snr(a, b) > 30


def test_a_fused_block_is_close_to_torch():
    torch.manual_seed(1)
    block, x = FusedBlock(), normal(2, 32, 128)

    def plain(x):
        h = F.rms_norm(x, (128,), block.norm1.weight, 1e-6)
        q, k, v = (t.view(2, 32, 2, 64).transpose(1, 2) for t in F.linear(h, block.qkv.weight).chunk(3, -1))
        attention = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + F.linear(attention, block.out.weight)
        gate, up = F.linear(F.rms_norm(x, (128,), block.norm2.weight, 1e-6), block.mlp.w_gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, block.mlp.w_down)

    for a, b in zip(block_step(block, block, x), block_step(block, plain, x), strict=True):
        assert snr(a, b) > 20


def test_packed_modules_split_into_the_names_of_their_parts():
    torch.manual_seed(1)
    qkv, mlp = ot.QKV(64, 4, 2, bias=True), ot.GatedMLP(64, 96)
    model = nn.ModuleDict({"attention": qkv, "mlp": mlp, "norm": ot.RMSNorm(64)})
    assert list(model.state_dict()) == [name for name, _ in model.named_parameters()]
    split = ot.split_state_dict(model)
    assert {k: tuple(v.shape) for k, v in split.items()} == {
        "attention.q_proj.weight": (64, 64),
        "attention.k_proj.weight": (32, 64),
        "attention.v_proj.weight": (32, 64),
        "attention.q_proj.bias": (64,),
        "attention.k_proj.bias": (32,),
        "attention.v_proj.bias": (32,),
        "mlp.gate_proj.weight": (96, 64),
        "mlp.up_proj.weight": (96, 64),
        "mlp.down_proj.weight": (64, 96),
        "norm.weight": (64,),
    }
    packed = ot.pack_state_dict(model, split)
    assert packed.keys() == model.state_dict().keys()
    assert all(torch.equal(packed[name], t) for name, t in model.state_dict().items())
    compiled = torch.compile(model)
    assert "_orig_mod.mlp.up_proj.weight" in ot.split_state_dict(compiled)
    assert "mlp.up_proj.weight" in ot.split_state_dict(compiled, model.state_dict())
    other = nn.ModuleDict(
        {"attention": ot.QKV(64, 4, 2, bias=True), "mlp": ot.GatedMLP(64, 96), "norm": ot.RMSNorm(64)}
    )
    for state in (split, model.state_dict()):
        torch.nn.init.zeros_(other["mlp"].w_down)
        other.load_state_dict(state)
        assert same(list(other.parameters()), list(model.parameters()))
    assert same(list(copy.deepcopy(model).parameters()), list(model.parameters()))
    with pytest.raises(RuntimeError, match="Missing key.*attention.weight"):
        model.load_state_dict({k: v for k, v in split.items() if k != "attention.q_proj.weight"})
