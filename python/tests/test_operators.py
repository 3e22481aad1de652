"""torch's own checks of every operator: schema, fake kernel, autograd registration, AOT dispatch."""

import pytest
import torch
from conftest import normal

import octet.torch  # noqa: F401

ops = torch.ops.octet
opcheck = torch.library.opcheck
DTYPES = [torch.float32, torch.bfloat16]


def x_and_w(dtype):
    return normal(40, 256, dtype=dtype).requires_grad_(), normal(130, 256, dtype=dtype, seed=1).requires_grad_()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wgrad", [1, 2])
def test_linear_forward(wgrad, dtype):
    x, w = x_and_w(dtype)
    opcheck(ops.linear_forward.default, (x, w, 4, 4, wgrad, True))
    opcheck(ops.linear_forward.default, (x, w.detach(), 4, 4, wgrad, False))
    opcheck(ops.linear_forward_main_grad.default, (x, w.detach(), torch.zeros(130, 256), 4, 4, wgrad))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wgrad", [1, 2])
def test_linear_backward(wgrad, dtype):
    x, w = (t.detach() for t in x_and_w(dtype))
    y, x_t, x_t_scales = ops.linear_forward(x, w, 4, 4, wgrad, True)
    dy = torch.ones_like(y)
    for need in [(True, True), (True, False), (False, True)]:
        opcheck(ops.linear_backward.default, (dy, x_t, x_t_scales, w, 4, 5, wgrad, *need))
    main_grad = torch.zeros(130, 256)
    for need_dx in (True, False):
        args = (dy, x_t, x_t_scales, w, main_grad, 4, 5, wgrad, need_dx)
        opcheck(ops.linear_backward_main_grad.default, args)


@pytest.mark.parametrize("block", [(1, 128), (128, 1), (128, 128)])
@pytest.mark.parametrize("transposed", [False, True])
def test_quantize_and_dequantize(transposed, block):
    x = normal(40, 300)
    args = (x, 4, *block, transposed, False, 0.0)
    opcheck(ops.quantize.default, args)
    extents = (300, 40) if transposed else (40, 300)
    opcheck(ops.dequantize.default, (*ops.quantize(*args), *extents, 4, *block, 3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm(dtype):
    x, g = normal(6, 40, dtype=dtype).requires_grad_(), normal(40, seed=1).requires_grad_()
    residual = normal(6, 40, dtype=dtype, seed=2).requires_grad_()
    opcheck(ops.rms_norm.default, (x, g, 1e-6))
    opcheck(ops.rms_norm_residual.default, (x, residual, g, 1e-6))
    x, g, dy = x.detach(), g.detach(), residual.detach()
    _, rstd = ops.rms_norm(x, g, 1e-6)
    opcheck(ops.rms_norm_backward.default, (dy, x, g, rstd, 1e-6))
    opcheck(ops.rms_norm_residual_backward.default, (dy, dy, x, g, rstd, 1e-6))


@pytest.mark.parametrize("interleaved", [False, True])
def test_rope(interleaved):
    q, k = normal(2, 5, 4, 8).requires_grad_(), normal(2, 5, 2, 8, seed=1).requires_grad_()
    cos, sin = normal(5, 4, seed=2), normal(5, 4, seed=3)
    opcheck(ops.rope.default, (q, k, cos, sin, interleaved))
    opcheck(ops.rope_backward.default, (q.detach(), k.detach(), cos, sin, interleaved))


def test_swiglu():
    gate_up = normal(6, 40).requires_grad_()
    opcheck(ops.swiglu.default, (gate_up,))
    opcheck(ops.swiglu_backward.default, (normal(6, 20), gate_up.detach()))


def test_every_operator_is_checked_here():
    source = open(__file__).read()
    names = {name.split("::")[1] for name in torch._C._dispatch_get_all_op_names() if name.startswith("octet::")}
    assert len(names) == 14
    for name in names:
        assert f"ops.{name}.default" in source, name
