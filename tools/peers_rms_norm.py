"""rms_norm beside torch: forward, backward, and forward to FP8 both ways."""

import functools

import torch

import octet_c_elements
from peers_elements import EPS, Pass, Written, quantized_both_ways, randn, sets_of


def rstd_of(x):
    return torch.rsqrt(x.float().square().mean(-1) + EPS)


def forward(x, g):
    x32 = x.float()
    rstd = torch.rsqrt(x32.square().mean(-1, keepdim=True) + EPS)
    return ((x32 * rstd * g.float()).to(x.dtype),)


def forward_fp8(x, g):
    return quantized_both_ways(*forward(x, g))


def backward(dy, x, g, rstd):
    dy32, x32, rstd = dy.float(), x.float(), rstd[:, None]
    t = dy32 * g.float()
    mean = (t * x32).mean(-1, keepdim=True) * rstd * rstd
    return ((t - x32 * mean) * rstd).to(x.dtype), (dy32 * x32 * rstd).sum(0)


def torch_rms_norm(x, g):
    return (torch.nn.functional.rms_norm(x, x.shape[1:], g, EPS),)


def torch_rms_norm_backward(dy, x, g, rstd):
    """What autograd calls behind torch.nn.functional.rms_norm."""
    dx, dg = torch.ops.aten._fused_rms_norm_backward(dy, x, x.shape[1:], rstd[:, None], g,
                                                     [True, True])
    return dx, dg


def octet_forward(x, g):
    y, rstd = torch.empty_like(x), torch.empty(len(x), device=x.device)
    plan = functools.partial(octet_c_elements.rms_norm_forward_plan, x, g, EPS, y, rstd)
    return Written(plan, (y, rstd), (y,))


def octet_forward_fp8(x, g):
    rstd = torch.empty(len(x), device=x.device)
    plan = functools.partial(octet_c_elements.rms_norm_forward_plan, x, g, EPS, None, rstd)
    return Written.copies(plan, *x.shape, x.device, rstd)


def octet_backward(dy, x, g, rstd):
    dx, dg = torch.empty_like(x), torch.empty(x.shape[1], device=x.device)
    plan = functools.partial(octet_c_elements.rms_norm_backward_plan, dy, x, g, rstd, EPS, dx, dg)
    return Written(plan, (dx, dg))


FORWARD = Pass("rms_norm forward", octet_forward, forward,
               others={"torch rms_norm": torch_rms_norm})
BACKWARD = Pass("rms_norm backward", octet_backward, backward,
                others={"torch rms_norm": torch_rms_norm_backward})
FORWARD_FP8 = Pass("rms_norm forward to fp8", octet_forward_fp8, forward_fp8, fp8=True)


def cases(shape, compare, options, l2_bytes, device="cuda"):
    generator = torch.Generator(device).manual_seed(1)
    g = randn(generator, shape[1])

    def gradients():
        dy, x = randn(generator, *shape), randn(generator, *shape)
        return dy, x, g, rstd_of(x)

    inputs = sets_of(lambda: (randn(generator, *shape), g), l2_bytes)
    for which in (FORWARD, FORWARD_FP8):
        yield which.compared(shape, inputs, compare, options.compile_mode)
    inputs = sets_of(gradients, l2_bytes)
    yield BACKWARD.compared(shape, inputs, compare, options.compile_mode)
