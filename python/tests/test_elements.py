"""rms_norm, rope and swiglu against torch in f64."""

import pytest
import torch
import torch.nn.functional as F
from conftest import normal, snr

import octet.torch as ot

DTYPES = {torch.float32: 120, torch.bfloat16: 45}  # and the dB that are wanted


def compare(function, reference, inputs, dtype):
    leaves = [t.to(dtype).requires_grad_() for t in inputs]
    doubles = [t.detach().double().requires_grad_() for t in leaves]
    got, want = function(*leaves), reference(*doubles)
    got, want = (t if isinstance(t, tuple) else (t,) for t in (got, want))
    seeds = [normal(*t.shape, dtype=dtype, seed=9) for t in got]
    got_grads = torch.autograd.grad(got, leaves, seeds)
    want_grads = torch.autograd.grad(want, doubles, [s.double() for s in seeds])
    for a, b in zip([*got, *got_grads], [*want, *want_grads], strict=True):
        assert a.shape == b.shape and a.dtype == dtype
        assert snr(a, b) > DTYPES[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm(dtype):
    inputs = [normal(2, 3, 200), normal(200, seed=1)]
    compare(ot.rms_norm, lambda x, g: F.rms_norm(x, (200,), g, 1e-6), inputs, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm_with_residual(dtype):
    def reference(x, g, residual):
        return F.rms_norm(x + residual, (200,), g, 1e-6), x + residual

    compare(ot.rms_norm, reference, [normal(2, 3, 200), normal(200, seed=1), normal(2, 3, 200, seed=2)], dtype)


def test_rms_norm_uses_of_one_output():
    x, g, residual = (t.requires_grad_() for t in (normal(6, 40), normal(40, seed=1), normal(6, 40, seed=2)))
    y, h = ot.rms_norm(x, g, residual)
    assert torch.equal(torch.autograd.grad(h.sum(), residual, retain_graph=True)[0], torch.ones(6, 40))
    dx, dg = torch.autograd.grad(y.sum(), (x, g))
    want = torch.autograd.grad(ot.rms_norm(x + residual, g).sum(), (x, g))
    assert torch.equal(dx, want[0]) and torch.equal(dg, want[1])


def rotated(x, cos, sin, interleaved):
    if interleaved:
        a, b = x[..., ::2], x[..., 1::2]
    else:
        a, b = x.chunk(2, -1)
    a, b = a * cos[:, None] - b * sin[:, None], b * cos[:, None] + a * sin[:, None]
    return torch.stack((a, b), -1).flatten(-2) if interleaved else torch.cat((a, b), -1)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rope(dtype, interleaved, full):
    angles = torch.arange(7.0)[:, None] / 10 ** torch.arange(4.0)
    cos, sin = angles.cos(), angles.sin()
    twice = (lambda t: t.repeat_interleave(2, 1)) if interleaved else (lambda t: torch.cat((t, t), 1))
    tables = [twice(t) if full else t for t in (cos, sin)]
    # Heads before positions, as attention wants them.
    qs, ks = normal(2, 4, 7, 8), normal(2, 2, 7, 8, seed=1)
    compare(
        lambda q, k: ot.rope(q.transpose(1, 2), k.transpose(1, 2), *tables, interleaved=interleaved),
        lambda q, k: tuple(rotated(t.transpose(1, 2), cos.double(), sin.double(), interleaved) for t in (q, k)),
        [qs, ks],
        dtype,
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_swiglu(dtype):
    def reference(gate_up):
        gate, up = gate_up.chunk(2, -1)
        return F.silu(gate) * up

    compare(ot.swiglu, reference, [normal(2, 3, 260)], dtype)


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (lambda x: ot.rms_norm(x, x[0, :5]), ValueError, "rms_norm: g must be [cols] = [40], got [5]"),
        (lambda x: ot.rms_norm(x.int(), x[0]), TypeError, "octet: x must be float32, float16 or bfloat16"),
        (lambda x: ot.swiglu(x[:, :5]), ValueError, "octet: gate_up must have an even number of columns"),
        (lambda x: ot.rope(x, x, x, x), ValueError, "octet: q must have 4 dimensions, got 2"),
    ],
)
def test_bad_input_is_refused_in_words(call, kind, text):
    with pytest.raises(kind) as error:
        call(normal(6, 40))
    assert str(error.value).startswith(text)


def test_no_bound_lets_numbers_pass_that_are_not_finite():
    x = torch.ones(3)
    for bad in (float("nan"), float("inf")):
        y = torch.tensor([1.0, bad, 1.0])
        assert snr(y, x) == snr(x, y) == -float("inf")
    assert snr(x, x) == snr(0 * x, 0 * x) == float("inf")
