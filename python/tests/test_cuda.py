"""On a GPU: the bits of the CPU, other streams, graphs, reduce-overhead. Skipped without one."""

import pytest
import torch
from conftest import exact, normal, snr

import octet.torch as ot

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs a Hopper GPU"
)


def step(function, x, w):
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    y = function(x, w)
    return [y.detach(), *torch.autograd.grad(y, (x, w), torch.ones_like(y))]


def inputs(m=1024, n=512, k=768):
    return normal(m, k, dtype=torch.bfloat16).cuda(), normal(n, k, dtype=torch.bfloat16, seed=1).cuda()


@pytest.mark.parametrize("wgrad", ["1d", "2d"])
@pytest.mark.parametrize("m, n, k", [(1, 130, 257), (129, 65, 200), (256, 384, 512)])
def test_integers_are_exact(m, n, k, wgrad):
    x, w, dy = (exact(*shape, torch.bfloat16, seed) for seed, shape in enumerate([(m, k), (n, k), (m, n)]))
    leaves = [t.cuda().requires_grad_() for t in (x, w)]
    y = ot.linear(*leaves, wgrad=wgrad)
    got = [y, *torch.autograd.grad(y, leaves, dy.cuda())]
    x, w, dy = x.double(), w.double(), dy.double()
    for a, b in zip(got, [x @ w.t(), dy @ w, dy.t() @ x], strict=True):
        assert torch.equal(a.detach().cpu(), b.bfloat16())


@pytest.mark.parametrize("block", ["1x128", "128x128"])
@pytest.mark.parametrize("transposed", [False, True])
def test_casts_have_the_bits_of_the_cpu(block, transposed):
    x = normal(130, 300, dtype=torch.bfloat16)
    a, b = (ot.quantize(t, block, transposed=transposed) for t in (x.cuda(), x))
    assert torch.equal(a.data.cpu(), b.data) and torch.equal(a.scale_data.cpu(), b.scale_data)
    assert torch.equal(ot.dequantize(a).cpu(), ot.dequantize(b))


def test_elementwise_operators_have_the_bits_of_the_cpu():
    x, g = normal(130, 256, dtype=torch.bfloat16), normal(256, dtype=torch.bfloat16, seed=1)
    for function, args in [(ot.rms_norm, (x, g)), (ot.swiglu, (x,))]:
        assert torch.equal(function(*(t.cuda() for t in args)).cpu(), function(*args))


def test_side_stream():
    x, w = inputs()
    want = step(ot.linear, x, w)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        got = step(ot.linear, x, w)
    side.synchronize()
    assert all(map(torch.equal, got, want))


@pytest.mark.parametrize("options", [{}, {"mode": "reduce-overhead"}])
def test_compiled(options):
    x, w = inputs()
    want = step(ot.linear, x, w)
    compiled = torch.compile(ot.linear, fullgraph=True, **options)
    for _ in range(4):
        got = [t.clone() for t in step(compiled, x, w)]
    assert all(map(torch.equal, got, want))


def test_graph_replays_on_new_data():
    x, w = (t.requires_grad_() for t in inputs())
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(ot.linear, x, w)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = ot.linear(x, w)
        captured = [y, *torch.autograd.grad(y, (x, w), torch.ones_like(y))]
    with torch.no_grad():
        x.copy_(x.roll(1, 0))
    graph.replay()
    assert all(map(torch.equal, captured, step(ot.linear, x, w)))


def test_is_close_to_the_product():
    x, w = inputs(2048, 1024, 1024)
    for a, b in zip(step(ot.linear, x, w), step(lambda x, w: x @ w.t(), x.double(), w.double()), strict=True):
        assert snr(a, b) > 25


def test_devices_may_not_be_mixed():
    with pytest.raises(ValueError, match="device|cuda|cpu"):
        ot.linear(torch.ones(2, 3), torch.ones(2, 3, device="cuda"))
