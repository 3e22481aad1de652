"""Scales per tensor, per row and of mx blocks: their casts against torch and ml_dtypes, layers against their parts."""

import copy
import math
import pickle

import c_api
import ml_dtypes
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import FusedBlock, exact, make_model, normal, same, snr, step
from torch import nn

import octet.torch as ot

OTHERS = ["tensorwise", "rowwise", "mxfp8"]
LIMITS = {"e4m3": 448.0, "e5m2": 57344.0}
FLOAT8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
LARGEST_EXPONENT = {"e4m3": 8, "e5m2": 15}
RECIPES = [("tensorwise", "1d"), ("rowwise", "1d"), ("mxfp8", "1d"), ("mxfp8", "2d")]


def outliers(*shape, seed=0, dtype=torch.float32):
    """Numbers of which one in 64 is 100 times as large."""
    x = normal(*shape, seed=seed)
    x.view(-1)[seed % 64 :: 64] *= 100
    return x.to(dtype)


def gradients(function, *inputs, dy):
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


def amax_of(x, block):
    """The largest magnitude of every block, [rows of scales, columns of scales]."""
    rows, cols = (n if b == -1 else b for n, b in zip(x.shape, block))
    padded = F.pad(x.float().abs(), (0, -x.shape[1] % cols, 0, -x.shape[0] % rows))
    return padded.unflatten(0, (-1, rows)).unflatten(2, (-1, cols)).amax((1, 3))


def spread(scales, x, block):
    """A scale for every element."""
    rows, cols = (n if b == -1 else b for n, b in zip(x.shape, block))
    return scales.repeat_interleave(rows, 0).repeat_interleave(cols, 1)[: x.shape[0], : x.shape[1]]


def emulated(x, block, format):
    """Values and scales as torch computes them, from the formulas of octet/ops/quantize.hpp."""
    amax, limit = amax_of(x, block), LIMITS[format]
    assert (amax > 0).all()
    # torch makes a reciprocal of a number over a tensor.
    scaled = (x.float() * spread(torch.full_like(amax, limit) / amax, x, block)).clamp(-limit, limit)
    return scaled.to(FLOAT8[format]), amax / limit


@pytest.mark.parametrize("format", ["e4m3", "e5m2"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("block", ["1xall", "allx1", "allxall"])
@pytest.mark.parametrize("rows, cols", [(1, 1), (40, 300), (129, 257)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_casts_have_the_bytes_of_torch(dtype, rows, cols, block, transposed, format):
    x = outliers(rows, cols, seed=3, dtype=dtype)
    q = ot.quantize(x, block, format=format, transposed=transposed)
    extents = {"1xall": (1, -1), "allx1": (-1, 1), "allxall": (-1, -1)}[block]
    values, scales = emulated(x.t() if transposed else x, extents, format)
    assert torch.equal(q.values.view(torch.uint8), values.view(torch.uint8))
    assert torch.equal(q.scales, scales)
    assert torch.equal(ot.dequantize(q), values.float() * spread(scales, values, extents))


@pytest.mark.parametrize("format", ["e4m3", "e5m2"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("block", ["1x32", "32x32"])
@pytest.mark.parametrize("rows, cols", [(1, 1), (40, 300), (129, 65)])
def test_mx_casts_have_the_bytes_of_ml_dtypes(rows, cols, block, transposed, format):
    x = outliers(rows, cols, seed=5)
    x[0, 0] = 0
    q = ot.quantize(x, block, format=format, transposed=transposed)
    source = (x.t() if transposed else x).contiguous()
    extents = {"1x32": (1, 32), "32x32": (32, 32)}[block]
    amax = amax_of(source, extents).double()
    # floor(log2(amax)) - that of the largest power of two of the format, as OCP MX has it
    exponents = torch.where(amax > 0, torch.frexp(amax).exponent.double() - 1 - LARGEST_EXPONENT[format], -127.0)
    scales = torch.exp2(exponents)
    assert np.array_equal(
        q.scales.view(torch.uint8).numpy().view(ml_dtypes.float8_e8m0fnu).astype(np.float64), scales.numpy()
    )
    limit = LIMITS[format]
    scaled = (source.double() / spread(scales, source, extents)).clamp(-limit, limit).float().numpy()
    kind = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[format]
    assert np.array_equal(q.values.view(torch.uint8).numpy(), scaled.astype(kind).view(np.uint8))
    assert torch.equal(ot.dequantize(q).double(), q.values.double() * spread(scales, source, extents))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("granularity, wgrad", RECIPES)
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (40, 130, 256), (129, 65, 200)])
def test_integers_are_exact(m, n, k, granularity, wgrad, dtype):
    x, w, dy = exact(m, k, dtype), exact(n, k, dtype, 1), exact(m, n, dtype, 2)
    got = gradients(lambda x, w: ot.linear(x, w, granularity=granularity, wgrad=wgrad), x, w, dy=dy)
    want = gradients(lambda x, w: x @ w.t(), x.double(), w.double(), dy=dy.double())
    for a, b in zip(got, want, strict=True):
        assert a.dtype == dtype
        assert torch.equal(a, b.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("granularity, wgrad", RECIPES)
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (40, 130, 256), (129, 65, 200)])
def test_same_bits_as_the_c_api(m, n, k, granularity, wgrad, dtype):
    x, w, dy = outliers(m, k, dtype=dtype), normal(n, k, dtype=dtype, seed=1), normal(m, n, dtype=dtype, seed=2)
    number = {"tensorwise": 1, "rowwise": 2, "mxfp8": 3}[granularity]
    want_y, want_x_t, *want = c_api.linear(x, w, dy, 4, 5, {"1d": 1, "2d": 2}[wgrad], number)
    layer = lambda x, w: ot.linear(x, w, granularity=granularity, wgrad=wgrad, format="hybrid")  # noqa: E731
    y, dx, dw = gradients(layer, x, w, dy=dy)
    q = ot.quantize_activation(x, granularity=granularity, wgrad=wgrad)
    assert torch.equal(q.t_values, want_x_t)
    assert same([y, dx, dw], [want_y, *want])


@pytest.mark.parametrize("formats", [("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e5m2")])
@pytest.mark.parametrize("granularity, extents", [("tensorwise", (-1, -1)), ("rowwise", (1, -1))])
def test_layers_are_products_of_what_torch_casts(granularity, extents, formats):
    """Every operand cast by torch, in the orientation of its product and from the original values."""
    format, grad_format = formats
    x, w, dy = outliers(100, 300), normal(130, 300, seed=1), outliers(100, 130, seed=2)

    def real(t, format):
        values, scales = emulated(t, extents, format)
        return values.double() * spread(scales, t, extents).double()

    want = [
        real(x, format) @ real(w, format).t(),
        real(dy, grad_format) @ real(w.t(), format).t(),
        real(dy.t(), grad_format) @ real(x.t(), format).t(),
    ]
    recipe = {"granularity": granularity, "format": format, "grad_format": grad_format}
    got = gradients(lambda x, w: ot.linear(x, w, **recipe), x, w, dy=dy)
    for a, b in zip(got, want, strict=True):
        assert snr(a, b) > 110


def test_folding_changes_no_mx_value_by_more_than_half_a_step():
    """Against the mx blocks that ml_dtypes checks: exact but for subnormals of the folded scale."""
    x = outliers(200, 384)
    q = ot.quantize_activation(x, granularity="mxfp8")
    mx = ot.dequantize(ot.quantize(x, "1x32"), torch.float32)
    folded = ot.dequantize(q.row(), torch.float32)
    step_of = spread(q.row().scales, x, (1, 128)) * 2.0**-9
    assert ((folded - mx).abs() <= step_of / 2).all()
    assert 0.5 < (folded == mx).float().mean() < 1
    assert torch.equal(torch.frexp(q.row().scales).mantissa, torch.full_like(q.row().scales, 0.5))


@pytest.mark.parametrize("data", [normal, outliers])
@pytest.mark.parametrize("format, bound", [("e4m3", 25), ("hybrid", 20), ("e5m2", 20)])
@pytest.mark.parametrize("granularity", ["blockwise", *OTHERS])
def test_layers_are_close_to_the_product(granularity, format, bound, data):
    x, w, dy = data(256, 512), normal(320, 512, seed=1), data(256, 320, seed=2)
    want = gradients(lambda x, w: x @ w.t(), x.double(), w.double(), dy=dy.double())
    got = gradients(lambda x, w: ot.linear(x, w, granularity=granularity, format=format), x, w, dy=dy)
    for a, b in zip(got, want, strict=True):
        assert snr(a, b) > bound


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("granularity", OTHERS)
def test_one_cast_serves_several_layers(granularity, recompute):
    x, w, dy = outliers(2, 20, 200, dtype=torch.bfloat16), normal(130, 200, dtype=torch.bfloat16), normal(2, 20, 130)
    plain = gradients(lambda x, w: ot.linear(x, w, granularity=granularity), x, w, dy=dy.bfloat16())
    options = {"granularity": granularity, "recompute": recompute}
    cast = gradients(lambda x, w: ot.linear(ot.quantize_activation(x, **options), w), x, w, dy=dy.bfloat16())
    again = gradients(lambda x, w: ot.linear(x, w, **options), x, w, dy=dy.bfloat16())
    assert same(cast, plain) and same(again, plain)
    q = ot.quantize_activation(x, granularity=granularity)
    with pytest.raises(ValueError, match=f"quantised with granularity='{granularity}', got granularity='blockwise'"):
        ot.linear(q, w, granularity="blockwise")
    with pytest.raises(ValueError, match=f"granularity='{granularity}', got granularity='blockwise'"):
        ot.Linear(200, 130, dtype=torch.bfloat16)(q)
    copied = pickle.loads(pickle.dumps(q))
    assert torch.equal(ot.linear(copied, w), ot.linear(q, w)) and copied.granularity == granularity


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("granularity", OTHERS)
def test_gated_mlp_is_its_parts(granularity, recompute):
    inputs = [normal(2, 20, 200), normal(260, 200, seed=1), normal(200, 130, seed=2)]
    recipe = {"granularity": granularity, "format": "hybrid"}
    parts = lambda x, gate_up, down: ot.linear(  # noqa: E731
        ot.swiglu(ot.linear(x, gate_up, **recipe)), down, **recipe
    )
    dy = normal(2, 20, 200, seed=3)
    want = gradients(parts, *inputs, dy=dy)
    got = gradients(lambda *t: ot.gated_mlp(*t, recompute=recompute, **recipe), *inputs, dy=dy)
    assert same(got, want)


@pytest.mark.parametrize("granularity", OTHERS)
def test_main_grad_gets_the_gradient(granularity):
    x, w, dy = normal(40, 256), normal(130, 256, seed=1), normal(40, 130, seed=2)
    _, _, want = gradients(lambda x, w: ot.linear(x, w, granularity=granularity), x, w, dy=dy)
    main_grad = torch.zeros(130, 256)
    leaf = w.clone().requires_grad_()
    for _ in range(2):
        ot.linear(x, leaf, granularity=granularity, main_grad=main_grad).backward(dy)
    assert leaf.grad is None and torch.equal(main_grad, want + want)


@pytest.mark.parametrize("granularity", OTHERS)
def test_no_tokens(granularity):
    x, w = torch.zeros(0, 256, requires_grad=True), normal(130, 256).requires_grad_()
    y = ot.linear(x, w, granularity=granularity)
    y.sum().backward()
    assert y.shape == (0, 130) and x.grad.shape == (0, 256) and not w.grad.any()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("granularity", OTHERS)
def test_cached_weights_change_no_bit(granularity, compiled):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(128, 256), ot.GatedMLP(256, 128, granularity=granularity))
    ot.convert(model, granularity=granularity)
    results = []
    for kind in (torch.optim.AdamW, ot.AdamW):
        for cached in (False, True):
            trained = copy.deepcopy(model)
            optimizer = kind(trained.parameters(), lr=1e-2)
            if cached:
                ot.cache_weights(trained, optimizer)
            run = torch.compile(trained, backend="aot_eager", fullgraph=True) if compiled else trained
            for seed in range(3):
                run(normal(16, 128, seed=seed)).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            results.append([p.detach() for p in trained.parameters()])
    assert same(results[0], results[1]) and same(results[2], results[3])


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("granularity", OTHERS)
def test_compiles_whole(granularity, backend):
    model = ot.convert(make_model(), granularity=granularity, format="hybrid")
    x = normal(2, 16, 128)
    want = step(copy.deepcopy(model), x)
    got = step(torch.compile(model, backend=backend, fullgraph=True), x)
    close = same(got, want) if backend == "aot_eager" else min(map(snr, got, want)) > 20
    assert close


def test_options_reach_every_layer():
    model = ot.convert(make_model(), granularity="rowwise", format="hybrid")
    layers = [m for m in model.modules() if isinstance(m, ot.Linear)]
    assert layers and all((m.granularity, m.format, m.grad_format) == ("rowwise", "e4m3", "e5m2") for m in layers)
    assert "granularity=rowwise, format=e4m3, grad_format=e5m2" in repr(layers[0])
    assert "granularity=mxfp8, wgrad=2d" in repr(ot.QKV(128, 2, granularity="mxfp8"))
    for refused, message in (
        ({"granularity": "row"}, "granularity must be one of 'blockwise', 'tensorwise', 'rowwise', 'mxfp8', got 'row'"),
        ({"format": "hybrid", "grad_format": "e4m3"}, "format='hybrid' has gradients in e5m2, got grad_format='e4m3'"),
        ({"format": "e3m4"}, "format must be one of"),
    ):
        for make in (lambda o: ot.Linear(8, 8, **o), lambda o: ot.linear(normal(8, 8), normal(8, 8), **o)):
            with pytest.raises(ValueError, match=message):
                make(refused)


def test_a_block_of_fused_modules_refuses_what_its_norm_cannot_write():
    with pytest.raises(ValueError, match="quantised with granularity='blockwise', got granularity='rowwise'"):
        block = FusedBlock()
        block.qkv.granularity = "rowwise"
        block(normal(1, 16, 128))


@pytest.mark.parametrize("format", ["e4m3", "hybrid"])
@pytest.mark.parametrize("granularity", OTHERS)
def test_converted_model_trains(granularity, format):
    """As tests/test_modules.py has it for blockwise layers."""
    losses = {}
    tokens = torch.randint(16, (4, 33), generator=torch.Generator().manual_seed(3))
    for name in ("torch", "octet"):
        torch.manual_seed(2)
        model = nn.Sequential(nn.Embedding(16, 128), make_model()[0], nn.Linear(128, 16))
        if name == "octet":
            ot.convert(model, granularity=granularity, format=format)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        losses[name] = []
        for _ in range(25):
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[name].append(loss.item())
    assert losses["octet"][-1] < 1.0 < losses["octet"][0] and math.isfinite(losses["octet"][-1])
    # The largest number of an mx block may saturate: 4 % seen there, 2 % elsewhere.
    assert losses["octet"][10] == pytest.approx(losses["torch"][10], rel=0.06 if granularity == "mxfp8" else 0.03)
