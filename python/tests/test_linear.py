"""ot.linear: exact and approximate results, gradients, what is saved, errors."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import c_api
import pytest
import torch
from conftest import PLAIN, exact, linear_inputs, normal, snr
from torch.utils.flop_counter import FlopCounterMode

import octet.torch as ot
from octet.torch._operators import cached_plans, call

ops = torch.ops.octet
SHAPES = [(1, 1, 1), (40, 130, 256), (129, 65, 200), (7, 384, 128)]


def gradients(function, *inputs, dy):
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("wgrad", ["1d", "2d"])
@pytest.mark.parametrize("m, n, k", SHAPES)
def test_integers_are_exact(m, n, k, wgrad, dtype):
    x, w, dy = exact(m, k, dtype), exact(n, k, dtype, 1), exact(m, n, dtype, 2)
    got = gradients(lambda x, w: ot.linear(x, w, wgrad=wgrad), x, w, dy=dy)
    want = gradients(lambda x, w: x @ w.t(), x.double(), w.double(), dy=dy.double())
    for a, b in zip(got, want, strict=True):
        assert a.dtype == dtype
        assert torch.equal(a, b.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("wgrad", ["1d", "2d"])
@pytest.mark.parametrize("m, n, k", SHAPES)
def test_same_bits_as_the_c_api(m, n, k, wgrad, dtype):
    """Of random data. w^T is cast in backward here and in forward there."""
    x, w, dy = (normal(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate([(m, k), (n, k), (m, n)]))
    recipe = (4, 5, {"1d": 1, "2d": 2}[wgrad])
    want_y, want_x_t, *want = c_api.linear(x, w, dy, *recipe)
    y, dx, dw = gradients(lambda x, w: ot.linear(x, w, wgrad=wgrad, grad_format="e5m2"), x, w, dy=dy)
    _, x_t, _ = ops.linear_forward(*linear_inputs(x, w), *recipe, True, *PLAIN)
    assert torch.equal(y, want_y) and torch.equal(x_t, want_x_t)
    assert torch.equal(dx, want[0]) and torch.equal(dw, want[1])


@pytest.mark.parametrize("formats", [("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e5m2")])
@pytest.mark.parametrize("wgrad", ["1d", "2d"])
def test_equals_the_product_of_what_quantize_gives(wgrad, formats):
    """y, dx and dw in f64 from the quantised operands: only the f32 sums of octet differ."""
    m, n, k = 100, 130, 300
    x, w, dy = normal(m, k), normal(n, k, seed=1), normal(m, n, seed=2)
    format, grad_format = formats
    block = {"1d": "1x128", "2d": "128x128"}[wgrad]
    real = lambda t, *a, **kw: ot.dequantize(ot.quantize(t, *a, **kw)).double()  # noqa: E731
    x_q, w_q = real(x, format=format), real(w, "128x128", format=format)
    x_t = real(x, block, format=format, transposed=True)
    dy_q = real(dy, format=grad_format)
    dy_t = real(dy, format=grad_format, transposed=True)
    got = gradients(lambda x, w: ot.linear(x, w, wgrad=wgrad, format=format, grad_format=grad_format), x, w, dy=dy)
    for a, b in zip(got, [x_q @ w_q.t(), dy_q @ w_q, dy_t @ x_t.t()], strict=True):
        assert snr(a, b) > 110


def test_formats_and_wgrad_reach_the_operator():
    x, w, dy = normal(100, 300), normal(130, 300, seed=1), normal(100, 130, seed=2)
    plain = gradients(ot.linear, x, w, dy=dy)
    hybrid = gradients(lambda x, w: ot.linear(x, w, grad_format="e5m2"), x, w, dy=dy)
    rows = gradients(lambda x, w: ot.linear(x, w, wgrad="1d"), x, w, dy=dy)
    assert [torch.equal(a, b) for a, b in zip(plain, hybrid)] == [True, False, False]
    assert [torch.equal(a, b) for a, b in zip(plain, rows)] == [True, True, False]


def test_is_close_to_the_product():
    x, w, dy = normal(64, 512), normal(96, 512, seed=1), normal(64, 96, seed=2)
    want = gradients(lambda x, w: x @ w.t(), x.double(), w.double(), dy=dy.double())
    for a, b in zip(gradients(ot.linear, x, w, dy=dy), want, strict=True):
        assert snr(a, b) > 25


def test_any_leading_shape_and_bias():
    x, w, bias = exact(24, 128).view(2, 3, 4, 128), exact(5, 128, seed=1), torch.arange(5.0)
    dy = exact(24, 5, seed=2).view(2, 3, 4, 5)
    got = gradients(ot.linear, x, w, bias, dy=dy)
    want = gradients(torch.nn.functional.linear, x, w, bias, dy=dy)
    for a, b in zip(got, want, strict=True):
        assert torch.equal(a, b)
    assert torch.equal(ot.linear(x[0, 0, 0], w, bias), want[0][0, 0, 0])


@pytest.mark.parametrize("bias_dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_bias_is_added_before_y_is_rounded(bias_dtype):
    """257 + 0.5 rounds to 258 in bf16; 257 alone would round to 256, and that + 0.5 to 256."""
    x = torch.zeros(4, 128, dtype=torch.bfloat16)
    x[:, 0], x[:, 1] = 256, 1
    w = torch.ones(6, 128, dtype=torch.bfloat16)
    leaves = [x.requires_grad_(), w.requires_grad_(), torch.full((6,), 0.5, dtype=bias_dtype, requires_grad=True)]
    y = ot.linear(*leaves)
    assert torch.equal(y, torch.full((4, 6), 258.0, dtype=torch.bfloat16))
    y.backward(torch.ones_like(y))
    assert leaves[2].grad.dtype == bias_dtype and torch.equal(leaves[2].grad, torch.full((6,), 4.0, dtype=bias_dtype))


def test_strided_and_expanded_inputs():
    x, w = exact(128, 256).t()[:40], exact(130, 300, seed=1)[:, :128]  # columns, a window
    leaves = [t.detach().requires_grad_() for t in (x, w)]
    y = ot.linear(*leaves)
    assert torch.equal(y, x @ w.t())
    (7 * y.sum()).backward()  # dy is one number, expanded
    assert torch.equal(leaves[0].grad, 7 * w.sum(0).expand(40, 128))


def test_no_tokens():
    w = exact(5, 128).requires_grad_()
    x = torch.empty(2, 0, 128, requires_grad=True)
    y = ot.linear(x, w)
    assert y.shape == (2, 0, 5)
    y.sum().backward()
    assert torch.equal(w.grad, torch.zeros(5, 128))


@pytest.mark.parametrize("need", [(True, False), (False, True)])
def test_one_gradient_alone(need):
    x, w = (exact(40, 256).requires_grad_(need[0]), exact(130, 256, seed=1).requires_grad_(need[1]))
    dy = exact(40, 130, seed=2)
    ot.linear(x, w).backward(dy)
    assert x.grad is None if not need[0] else torch.equal(x.grad, dy @ w)
    assert w.grad is None if not need[1] else torch.equal(w.grad, dy.t() @ x)


def saved_bytes(w: torch.Tensor, x: torch.Tensor) -> int:
    sizes = []

    def pack(t):
        if t.data_ptr() != w.data_ptr():
            sizes.append(t.untyped_storage().nbytes())
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        ot.linear(x, w)
    return sum(sizes)


def test_saves_one_byte_per_element_of_x():
    w, x = normal(256, 1024, dtype=torch.bfloat16).requires_grad_(), normal(512, 1024, dtype=torch.bfloat16)
    assert saved_bytes(w, x) == 512 * 1024 + 4 * 8 * 4  # a scale per 128x128 block
    assert saved_bytes(w.detach(), x.requires_grad_()) == 0


def test_main_grad_is_added_to():
    x, w, dy = exact(40, 256), exact(130, 256, seed=1).requires_grad_(), exact(40, 130, seed=2)
    main_grad = torch.ones(130, 256)
    first = ot.linear(x, w, main_grad=main_grad)
    second = ot.linear(x, w, main_grad=main_grad)
    first.backward(dy)
    second.backward(dy)
    assert w.grad is None
    assert torch.equal(main_grad, 1 + 2 * (dy.t() @ x))


def test_main_grad_of_bf16_weights():
    x, w = exact(40, 256, torch.bfloat16), exact(130, 256, torch.bfloat16, 1).requires_grad_()
    dy, main_grad = exact(40, 130, torch.bfloat16, 2), torch.zeros(130, 256)
    ot.linear(x, w, main_grad=main_grad).backward(dy)
    assert torch.equal(main_grad, dy.float().t() @ x.float())


def test_flops_are_counted():
    x, w = normal(8, 128).requires_grad_(), normal(16, 128).requires_grad_()
    with FlopCounterMode(display=False) as counter:
        ot.linear(x, w).sum().backward()
    assert counter.get_total_flops() == 3 * 2 * 8 * 128 * 16


def test_flops_of_a_gated_mlp_are_counted():
    x, w_gate_up, w_down = (normal(*shape).requires_grad_() for shape in ((8, 128), (2 * 32, 128), (128, 32)))
    with FlopCounterMode(display=False) as counter:
        ot.gated_mlp(x, w_gate_up, w_down).sum().backward()
    assert counter.get_total_flops() == 3 * 3 * 2 * 8 * 128 * 32


def test_deterministic_mode():
    torch.use_deterministic_algorithms(True)
    try:
        x, w, dy = normal(40, 256), normal(130, 256), normal(40, 130)
        assert all(map(torch.equal, gradients(ot.linear, x, w, dy=dy), gradients(ot.linear, x, w, dy=dy)))
    finally:
        torch.use_deterministic_algorithms(False)


def test_plan_cache_is_bounded():
    """Whatever it holds before: every length makes four plans, two of casts and two of products."""
    w = normal(8, 16).requires_grad_()

    def run(lengths):
        for length in lengths:
            ot.linear(torch.ones(length, 16), w).sum().backward()

    run(range(1, 1101))
    full = cached_plans()
    assert full >= 4096  # of one device; those of others stay
    run(range(1101, 1201))
    assert cached_plans() == full


def test_threads_share_the_plans():
    x, w, dy = normal(40, 256), normal(130, 256), normal(40, 130)
    want = gradients(ot.linear, x, w, dy=dy)

    def work(seed):
        for length in range(20):
            ot.linear(normal(1 + (length * seed) % 37, 256), w)
            assert all(map(torch.equal, gradients(ot.linear, x, w, dy=dy), want))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(1, 5)))  # raises what a thread has raised


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (
            lambda x, w: ot.linear(x, w[:, :8].contiguous()),
            ValueError,
            "octet: w must be [N, K] = [130, 256], got [130, 8]",
        ),
        (lambda x, w: ot.linear(x.double(), w), TypeError, "octet: x must be float32, float16 or bfloat16"),
        (lambda x, w: ot.linear(x.bfloat16(), w), TypeError, "octet: x and w must have the same dtype"),
        (lambda x, w: ot.linear([1.0], w), TypeError, "octet: x must be a torch.Tensor, got list"),
        (
            lambda x, w: ot.linear(x, w[0]),
            ValueError,
            "octet: x must be [..., K] and w [N, K], got [40, 256] and [256]",
        ),
        (lambda x, w: ot.linear(x, w, wgrad="3d"), ValueError, "octet: wgrad must be one of '1d', '2d', got '3d'"),
        (lambda x, w: ot.linear(x, w, format="fp8"), ValueError, "octet: format must be one of 'e4m3', 'e5m2'"),
    ],
)
def test_bad_input_is_refused_in_words(call, kind, text):
    with pytest.raises(kind) as error:
        call(exact(40, 256), exact(130, 256))
    assert str(error.value).startswith(text)


def test_refused_backward_writes_nothing():
    x, w = exact(40, 256), exact(130, 256)
    _, x_t, x_t_scales = ops.linear_forward(*linear_inputs(x, w), 4, 4, 1, True, *PLAIN)
    main_grad = torch.full((130, 200), 3.0)  # too small
    with pytest.raises(RuntimeError, match=r"octet: main_grad must be \[N, K\] = \[130, 256\], got \[130, 200\]"):
        ops.linear_backward_main_grad(
            torch.ones(40, 130), x_t, x_t_scales, w, None, None, main_grad, True, 4, 4, 1, True
        )
    assert torch.equal(main_grad, torch.full((130, 200), 3.0))
    with pytest.raises(
        RuntimeError, match=r"octet: x_t.values must be a contiguous uint8 tensor of shape \[256, 128\]"
    ):
        ops.linear_backward(torch.ones(40, 130), x_t[:100], x_t_scales, w, None, None, 4, 4, 1, True, True)


def test_errors_of_backward_are_those_of_forward():
    """Whoever unpacks saved tensors may give back something else."""
    x, w = exact(40, 256).requires_grad_(), exact(130, 256, seed=1).requires_grad_()

    def with_saved(unpack):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            return ot.linear(x, w).sum()

    with pytest.raises(ValueError, match=r"octet: x_t.values must be a contiguous uint8 tensor of shape") as error:
        with_saved(lambda t: t[:100] if t.dtype == torch.uint8 else t).backward()
    assert isinstance(error.value.__cause__, RuntimeError)
    with pytest.raises(TypeError, match="octet: w must be float32, float16 or bfloat16"):
        with_saved(lambda t: t.double() if t.shape == w.shape else t).backward()
    assert x.grad is None and w.grad is None


def test_a_failed_allocation_is_out_of_memory():
    """One column of 2^50 rows, which takes more than the address space has."""
    x = torch.ones(1, 40).expand(1 << 50, 40)
    with pytest.raises(
        torch.OutOfMemoryError, match=f"octet: torch could not allocate {1 << 52} bytes on cpu"
    ) as error:
        call(ops.rms_norm, x, torch.ones(40), 1e-6)
    if hasattr(ctypes.CDLL(torch._C.__file__), "torch_exception_get_what_without_backtrace"):
        assert "allocate memory" in str(error.value)  # torch's own words


def test_what_no_implementation_takes_is_a_value_error():
    q = [t for t in (*ops.quantize(exact(40, 256), 4, 128, 1, False, False, 0.0, False),)]
    with pytest.raises(ValueError, match="must"):
        call(ops.dequantize, *q, 40, 256, 4, 64, 64, 1)
    with pytest.raises(ValueError, match="octet: dtype number 5 is not"):
        call(ops.dequantize, *q, 40, 256, 4, 128, 1, 5)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_have_no_gradient(compiled):
    x, w = normal(8, 128).requires_grad_(), normal(16, 128, seed=1).requires_grad_()
    function = torch.compile(ot.linear, fullgraph=True, backend="aot_eager") if compiled else ot.linear
    (dx,) = torch.autograd.grad(function(x, w).square().sum(), x, create_graph=True)
    message = "double backward" if compiled else "octet: linear_forward is differentiable once"
    with pytest.raises(RuntimeError, match=message):
        dx.square().sum().backward()


@pytest.mark.parametrize(
    "name, function",
    [
        ("rms_norm", lambda x: ot.rms_norm(x, torch.ones(128))),
        ("rms_norm_residual", lambda x: ot.rms_norm(x, torch.ones(128), x)[1]),
        ("swiglu", ot.swiglu),
        ("rope_qkv", lambda x: ot.rope_qkv(x[None], 2, 1, torch.ones(8, 16), torch.ones(8, 16))[0]),
        ("gated_mlp_forward", lambda x: ot.gated_mlp(x, normal(96, 128), normal(128, 48))),
        ("linear_cross_entropy", lambda x: ot.linear_cross_entropy(x, normal(50, 128), torch.arange(8))),
        ("linear_forward", lambda x: torch.ops.octet.linear_forward(*linear_inputs(x, x), 4, 4, 1, True, *PLAIN)[0]),
    ],
)
def test_every_function_is_differentiable_once(name, function):
    x = normal(8, 128).requires_grad_()
    (dx,) = torch.autograd.grad(function(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=f"octet: {name} is differentiable once"):
        dx.square().sum().backward()
