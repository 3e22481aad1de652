"""On a GPU: results and gradients, other streams, graphs, reduce-overhead, cached weights. Skipped without one."""

import copy
import functools

import pytest
import torch
import torch.nn.functional as F
from conftest import Calls, FusedBlock, exact, normal, same, snr
from torch import nn
from torch._dynamo.utils import counters

import octet.torch as ot
from octet.torch._formats import BLOCKS

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs a Hopper GPU"
)
BF16 = torch.bfloat16


def rand(*shape, seed=0):
    return normal(*shape, dtype=BF16, seed=seed)


@functools.cache
def tables(device):
    """cos and sin. Made once: a graph cannot capture their way to the GPU."""
    return [normal(33, 32, seed=seed).to(device) for seed in (3, 4)]


GRANULARITIES = {
    "tensorwise": {"granularity": "tensorwise"},
    "tensorwise_fast": {"granularity": "tensorwise", "fast_accumulation": True},
    "rowwise": {"granularity": "rowwise"},
    "rowwise_fast": {"granularity": "rowwise", "fast_accumulation": True},
    "mxfp8": {"granularity": "mxfp8"},
    "mxfp8_up_1d": {"granularity": "mxfp8", "mx_scale": "up", "wgrad": "1d"},
}
# name -> (function, inputs that get gradients), on the CPU
CASES = {
    **{
        f"linear_{name}": (
            functools.partial(ot.linear, **options),
            lambda: (rand(256, 384), rand(512, 384, seed=1), rand(512, seed=2)),
        )
        for name, options in GRANULARITIES.items()
    },
    "linear": (ot.linear, lambda: (rand(256, 384), rand(512, 384, seed=1), rand(512, seed=2))),
    "linear_2d": (lambda x, w: ot.linear(x, w, wgrad="2d"), lambda: (rand(256, 384), rand(512, 384, seed=1))),
    "linear_recompute": (
        lambda x, w: ot.linear(x, w, recompute=True),
        lambda: (rand(256, 384), rand(512, 384, seed=1)),
    ),
    "gated_mlp": (ot.gated_mlp, lambda: (rand(256, 384), rand(512, 384, seed=1), rand(384, 256, seed=2))),
    "gated_mlp_recompute": (
        lambda *t: ot.gated_mlp(*t, recompute=True),
        lambda: (rand(256, 384), rand(512, 384, seed=1), rand(384, 256, seed=2)),
    ),
    "rms_norm": (ot.rms_norm, lambda: (rand(130, 256), rand(256, seed=1))),
    "rms_norm_residual": (ot.rms_norm, lambda: (rand(130, 256), rand(256, seed=1), rand(130, 256, seed=2))),
    "rms_norm_quantized": (
        lambda x, g, w: ot.linear(ot.rms_norm(x, g, quantized=True), w),
        lambda: (rand(256, 384), rand(384, seed=1), rand(512, 384, seed=2)),
    ),
    "rms_norm_recompute": (
        lambda x, g, w: ot.linear(ot.rms_norm(x, g, quantized=True, recompute=True), w),
        lambda: (rand(256, 384), rand(384, seed=1), rand(512, 384, seed=2)),
    ),
    **{
        f"rms_norm_{name}": (
            lambda x, g, w, options=options: ot.linear(ot.rms_norm(x, g, quantized=True, **options), w),
            lambda: (rand(256, 384), rand(384, seed=1), rand(512, 384, seed=2)),
        )
        for name, options in {
            "rowwise": {"granularity": "rowwise"},
            "rowwise_recompute": {"granularity": "rowwise", "recompute": True},  # FP8 in the norm's own pass
            "mxfp8_up": {"granularity": "mxfp8", "mx_scale": "up"},
        }.items()
    },
    "swiglu": (ot.swiglu, lambda: (rand(130, 256), rand(130, 256, seed=1))),
    "swiglu_packed": (ot.swiglu, lambda: (rand(130, 256),)),
    "swiglu_quantized": (
        lambda x, w: ot.linear(ot.swiglu(x, quantized=True), w),
        lambda: (rand(256, 768), rand(512, 384, seed=1)),
    ),
    "rope": (
        lambda q, k: ot.rope(q, k, *tables(q.device)),
        lambda: (rand(2, 33, 4, 64), rand(2, 33, 2, 64, seed=1)),
    ),
    "rope_qkv": (
        lambda qkv: ot.rope_qkv(qkv, 4, 2, *tables(qkv.device)),
        lambda: (rand(2, 33, 512),),
    ),
    "linear_cross_entropy": (
        lambda x, w: ot.linear_cross_entropy(x, w, torch.arange(len(x), device=x.device) % len(w)),
        lambda: (rand(256, 384), rand(512, 384, seed=1) / 16),
    ),
}
# The same operations in the same order on the CPU and on a GPU: the same bits. The others are sums of many products, or
# have an exponential, whose last bits differ.
SAME_BITS = {"rope", "rope_qkv"}
each = pytest.mark.parametrize("name", CASES)


def seeds_of(outputs):
    return [normal(1, *t.shape, dtype=t.dtype, seed=9 + i)[0].to(t.device) for i, t in enumerate(outputs)]


def run(function, inputs):
    """Results of a function of leaves and the gradients of the leaves."""
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    outputs = function(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return [*(t.detach() for t in outputs), *torch.autograd.grad(outputs, leaves, seeds_of(outputs))]


def on_gpu(tensors):
    return [t.cuda() for t in tensors]


@each
def test_results_and_gradients_are_those_of_the_cpu(name):
    function, make = CASES[name]
    inputs = make()
    for got, want in zip(run(function, on_gpu(inputs)), run(function, inputs), strict=True):
        assert torch.equal(got.cpu(), want) if name in SAME_BITS else snr(got.cpu(), want) > 40


@pytest.mark.parametrize("wgrad", ["1d", "2d"])
@pytest.mark.parametrize("m, n, k", [(1, 130, 257), (129, 65, 200), (256, 384, 512)])
def test_integers_are_exact(m, n, k, wgrad):
    x, w, dy = (exact(*shape, BF16, seed) for seed, shape in enumerate([(m, k), (n, k), (m, n)]))
    leaves = [t.cuda().requires_grad_() for t in (x, w)]
    y = ot.linear(*leaves, wgrad=wgrad)
    got = [y, *torch.autograd.grad(y, leaves, dy.cuda())]
    x, w, dy = x.double(), w.double(), dy.double()
    for a, b in zip(got, [x @ w.t(), dy @ w, dy.t() @ x], strict=True):
        assert torch.equal(a.detach().cpu(), b.bfloat16())


@pytest.mark.parametrize("block", list(BLOCKS))
@pytest.mark.parametrize("transposed", [False, True])
def test_casts_have_the_bits_of_the_cpu(block, transposed):
    x = rand(130, 300)
    a, b = (ot.quantize(t, block, transposed=transposed) for t in (x.cuda(), x))
    assert torch.equal(a.data.cpu(), b.data) and torch.equal(a.scale_data.cpu(), b.scale_data)
    for dtype in (torch.float32, BF16, torch.float16):
        assert torch.equal(ot.dequantize(a, dtype).cpu(), ot.dequantize(b, dtype))


def gated_mlp_in_f64(x, w_gate_up, w_down):
    gate, up = (x.double() @ w_gate_up.double().t()).chunk(2, -1)
    return ((F.silu(gate) * up) @ w_down.double().t()).to(x.dtype)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", GRANULARITIES)
def test_gated_mlp_of_other_granularities_is_as_close_to_f64_as_on_the_cpu(name, recompute):
    """Bits differ: where the largest magnitude of h differs by half a step of bf16, so does every element that shares
    its scale. The error is the same, and with outliers it tells granularities apart: y has 25.1 dB blockwise, 24.3
    rowwise, 23.1 tensorwise and 21.3 with mx scales."""
    function = functools.partial(ot.gated_mlp, recompute=recompute, **GRANULARITIES[name])
    x = normal(256, 384)
    x.view(-1)[::64] *= 20
    inputs = x.to(BF16), rand(512, 384, seed=1) / 20, rand(384, 256, seed=2) / 16
    results = [run(function, on_gpu(inputs)), run(function, inputs), run(gated_mlp_in_f64, inputs)]
    for got, cpu, want in zip(*results, strict=True):
        error = snr(got.cpu(), want)
        assert error > 20 and abs(error - snr(cpu, want)) < 0.4  # gate G1 of a gated MLP; docs/numerics.md


@pytest.mark.parametrize("accumulate", [True, False])
def test_main_grad(accumulate):
    x, w, dy = (exact(*shape, BF16, seed) for seed, shape in enumerate([(256, 384), (512, 384), (256, 512)]))
    want = dy.double().t() @ x.double()
    x, w, dy = x.cuda(), w.cuda().requires_grad_(), dy.cuda()
    main_grad = torch.ones(512, 384, device="cuda")
    for _ in range(2):
        ot.linear(x, w, main_grad=main_grad, accumulate=accumulate).backward(dy)
    assert w.grad is None
    assert torch.equal(main_grad.cpu().double(), 1 + 2 * want if accumulate else want)
    weights = [t.cuda().requires_grad_() for t in (rand(512, 384, seed=1), rand(384, 256, seed=2))]
    fresh = torch.autograd.grad(ot.gated_mlp(x, *weights).float().sum(), weights)
    main_grads = [torch.zeros(t.shape, device="cuda") for t in weights]
    ot.gated_mlp(x, *weights, main_grads=tuple(main_grads), accumulate=accumulate).float().sum().backward()
    assert all(snr(a, b) > 45 for a, b in zip(main_grads, fresh, strict=True))


@each
def test_no_tokens(name):
    if name.startswith("rope"):
        pytest.skip("has no rows")
    function, make = CASES[name]
    first, *others = on_gpu(make())
    if name == "swiglu":
        others = [t[:0] for t in others]
    if name == "rms_norm_residual":
        others[1] = others[1][:0]
    if name == "linear_cross_entropy":
        assert function(first[:0], *others).isnan()
        return
    outputs = run(function, [first[:0], *others])
    assert outputs[0].shape[0] == 0
    torch.cuda.synchronize()


@each
def test_deterministic_mode(name):
    function, make = CASES[name]
    inputs = on_gpu(make())
    torch.use_deterministic_algorithms(True)
    try:
        want = run(function, inputs)
        assert all(same(run(function, inputs), want) for _ in range(3))
    finally:
        torch.use_deterministic_algorithms(False)


@each
def test_side_stream_waits_for_nobody_else(name):
    """Inputs are written on the side stream after a pause: work on any other stream would read them too early."""
    function, make = CASES[name]
    inputs = on_gpu(make())
    want = run(function, inputs)
    late = [torch.zeros_like(t) for t in inputs]
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)  # clocks, some 30 ms
        for to, t in zip(late, inputs, strict=True):
            to.copy_(t)
        got = run(function, late)
    side.synchronize()
    assert same(got, want)


@each
def test_graph_replays_on_new_data(name):
    function, make = CASES[name]
    inputs = [t.requires_grad_() for t in on_gpu(make())]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # as torch wants it: warm-up on a side stream
        for _ in range(3):
            run(function, inputs)
    torch.cuda.current_stream().wait_stream(side)
    seeds = seeds_of(outputs if isinstance(outputs := function(*inputs), tuple) else (outputs,))
    del outputs
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        captured = [*outputs, *torch.autograd.grad(outputs, inputs, seeds)]
    with torch.no_grad():
        inputs[0].copy_(inputs[0].roll(1, 0))
    for _ in range(2):
        graph.replay()
        assert same(captured, run(function, inputs))


@pytest.mark.parametrize("options", [{}, {"mode": "reduce-overhead"}])
def test_compiled(options):
    function, make = CASES["linear"]
    inputs = on_gpu(make())
    want = run(function, inputs)
    counters.clear()
    compiled = torch.compile(function, fullgraph=True, **options)
    for _ in range(4):
        got = [t.clone() for t in run(compiled, inputs)]
    assert same(got, want)
    assert counters["inductor"]["cudagraph_skips"] == 0


def test_reduce_overhead_of_a_fused_block():
    torch.manual_seed(1)
    block, x = FusedBlock().cuda().bfloat16(), rand(2, 64, 128).cuda()
    counters.clear()
    compiled = torch.compile(block, fullgraph=True, mode="reduce-overhead")

    def step(function):
        block.zero_grad()
        y = function(x)
        y.float().square().mean().backward()
        return [y.detach().clone(), *(p.grad.clone() for p in block.parameters())]

    want = step(block)
    for _ in range(4):
        got = step(compiled)
    assert all(snr(a, b) > 25 for a, b in zip(got, want, strict=True))
    assert counters["inductor"]["cudagraph_skips"] == 0


def test_cached_weights_change_no_bit():
    torch.manual_seed(1)
    plain = nn.Sequential(FusedBlock(), ot.Linear(128, 128)).cuda().bfloat16()
    cached = copy.deepcopy(plain)
    results = []
    for model in (plain, cached):
        optimizer = ot.AdamW(model.parameters(), lr=1e-2)
        if model is cached:
            ot.cache_weights(model, optimizer)
        for step in range(3):
            model(rand(2, 64, 128, seed=step).cuda()).float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        results.append(list(model.parameters()))
    assert same(*results)


def test_a_cache_follows_the_model_to_the_gpu():
    layer, x = ot.cache_weights(ot.Linear(128, 64).bfloat16()), rand(4, 128).cuda()
    layer.cuda()
    assert torch.equal(layer(x), ot.linear(x, layer.weight, layer.bias))


@pytest.mark.parametrize("master_weights", [False, True])
@pytest.mark.parametrize("format", ["e4m3", "e5m2"])
@pytest.mark.parametrize("compiled", [False, True])
def test_adamw_writes_the_caches_in_its_kernel(compiled, format, master_weights):
    """Weights, moments and caches have the bits of the step followed by a cast; ragged shapes too."""
    torch.manual_seed(1)
    model = nn.Sequential(
        ot.Linear(384, 520, bias=False, format=format),
        ot.GatedMLP(520, 264, format=format),
        ot.Linear(520, 131, bias=False, format=format),
    )
    model.to("cuda", BF16)
    results = []
    for fused, copied in ((True, copy.deepcopy(model)), (False, copy.deepcopy(model))):
        optimizer = ot.AdamW(copied.parameters(), lr=1e-2, master_weights=master_weights)
        ot.cache_weights(copied, optimizer if fused else None)
        function = torch.compile(copied, fullgraph=True) if compiled else copied
        cached = [c for m in copied.modules() for c in m.__dict__.get("_octet_cached_weights", {}).values()]
        for step in range(3):
            function(rand(256, 384, seed=step).cuda()).float().square().mean().backward()
            with Calls() as calls:
                optimizer.step()
            assert calls.seen["adamw_cast_"] == (4 if fused else 0) and calls.seen["cast_weight_"] == 0
            optimizer.zero_grad()
            if not fused:
                ot.refresh_weights(copied)
            results.append([t.clone() for c in cached for t in c.weight])
            results[-1] += [p.detach().clone() for p in copied.parameters()]
        results[-1] += [t for state in optimizer.state.values() for t in state.values()]
    assert all(map(same, results[:3], results[3:]))


def test_a_captured_step_of_adamw_is_refused():
    p = nn.Parameter(torch.ones(64, device="cuda"))
    p.grad = torch.ones_like(p)
    optimizer = ot.AdamW([p])
    optimizer.step()
    torch.cuda.synchronize()
    with pytest.raises(RuntimeError, match="octet: AdamW.step cannot be captured in a CUDA graph"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            optimizer.step()


def test_is_close_to_the_product():
    x, w = (t.cuda() for t in (rand(2048, 1024), rand(1024, 1024, seed=1)))
    for a, b in zip(run(ot.linear, (x, w)), run(lambda x, w: x @ w.t(), (x.double(), w.double())), strict=True):
        assert snr(a, b) > 25


def test_devices_may_not_be_mixed():
    with pytest.raises(ValueError, match="device|cuda|cpu"):
        ot.linear(torch.ones(2, 3), torch.ones(2, 3, device="cuda"))
    x, w = torch.ones(2, 3, device="cuda"), torch.ones(2, 3, device="cuda", requires_grad=True)
    with pytest.raises(ValueError, match="octet: main_grad must be on the device of the weight, cuda:0, got cpu"):
        ot.linear(x, w, main_grad=torch.zeros(2, 3))
