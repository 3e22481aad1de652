"""rms_norm and then rope of q beside torch: forward and backward, the norm over whole rows."""

import functools

import torch

import octet_c_elements
from peers_elements import EPS, Pass, Written, randn, sets_of
from peers_rope import angles, heads_of, rotate


def normed(q):
    """q over the root mean square of all heads of its token, in f32."""
    q32 = q.float()
    return q32 * torch.rsqrt(q32.square().mean((-2, -1), keepdim=True) + EPS)


def forward(q, g, cos, sin):
    return (rotate(normed(q) * g.view(q.shape[2:]).float(), cos, sin).to(q.dtype),)


def backward(dq_out, q, g, rstd, cos, sin):
    dn, q32, rstd = rotate(dq_out, cos, -sin), q.float(), rstd.view(*q.shape[:2], 1, 1)
    t = dn * g.view(q.shape[2:]).float()
    mean = (t * q32).mean((-2, -1), keepdim=True) * rstd * rstd
    return ((t - q32 * mean) * rstd).to(q.dtype), (dn * q32 * rstd).sum((0, 1)).flatten()


def rstd_of(q):
    return torch.rsqrt(q.float().square().mean((-2, -1)) + EPS).flatten()


def octet_forward(q, g, cos, sin):
    q_out, rstd = torch.empty_like(q), torch.empty(q.shape[:2].numel(), device=q.device)
    plan = functools.partial(octet_c_elements.rms_norm_rope_forward_plan, q, g, EPS, q_out, rstd,
                             cos, sin)
    return Written(plan, (q_out, rstd), (q_out,))


def octet_backward(dq_out, q, g, rstd, cos, sin):
    dq, dg = torch.empty_like(q), torch.empty(g.shape, device=q.device)
    plan = functools.partial(octet_c_elements.rms_norm_rope_backward_plan, dq_out, q, g, rstd, EPS,
                             dq, dg, cos, sin)
    return Written(plan, (dq, dg))


FORWARD = Pass("rms_norm_rope forward", octet_forward, forward)
BACKWARD = Pass("rms_norm_rope backward", octet_backward, backward)


def cases(shape, compare, options, l2_bytes, device="cuda"):
    generator = torch.Generator(device).manual_seed(1)
    heads = heads_of(shape, options)
    g, turn = randn(generator, shape[2]), angles(shape[1], options.head_dim, device)

    def gradients():
        dq_out, q = randn(generator, *heads), randn(generator, *heads)
        return dq_out, q, g, rstd_of(q), *turn

    inputs = sets_of(lambda: (randn(generator, *heads), g, *turn), l2_bytes)
    yield FORWARD.compared(shape, inputs, compare, options.compile_mode)
    inputs = sets_of(gradients, l2_bytes)
    yield BACKWARD.compared(shape, inputs, compare, options.compile_mode)
