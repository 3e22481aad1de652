"""rope of q and k beside torch: forward, and backward, which is the inverse rotation."""

import functools

import torch

import octet_c_elements
from peers_elements import Pass, Written, randn, sets_of


def rotate(x, cos, sin):
    """Rotates halves of heads of x [batch, seq, heads, dim] by angles [seq, dim / 2], in f32."""
    first, second = x.float().chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def angles(seq, head_dim, device):
    """cos and sin as the models have them."""
    speeds = 10000.0 ** (-torch.arange(0, head_dim, 2, device=device) / head_dim)
    turns = torch.arange(seq, device=device)[:, None] * speeds
    return turns.cos(), turns.sin()


def forward(q, k, cos, sin):
    return rotate(q, cos, sin).to(q.dtype), rotate(k, cos, sin).to(k.dtype)


def backward(dq, dk, cos, sin):
    return forward(dq, dk, cos, -sin)


def octet_rope(make_plan, q, k, cos, sin):
    outputs = torch.empty_like(q), torch.empty_like(k)

    def plan(backend=None):
        return make_plan(q, k, *outputs, cos, sin, backend)

    return Written(plan, outputs)


octet_forward = functools.partial(octet_rope, octet_c_elements.rope_forward_plan)
octet_backward = functools.partial(octet_rope, octet_c_elements.rope_backward_plan)
PASSES = (Pass("rope forward", octet_forward, forward),
          Pass("rope backward", octet_backward, backward))


def heads_of(shape, options):
    """(batch, seq, hidden) as (batch, seq, heads, head_dim)."""
    batch, seq, hidden = shape
    return batch, seq, hidden // options.head_dim, options.head_dim


def cases(shape, compare, options, l2_bytes, device="cuda"):
    generator = torch.Generator(device).manual_seed(1)
    batch, seq, heads, head_dim = heads_of(shape, options)
    turn = angles(seq, head_dim, device)

    def inputs():
        return (randn(generator, batch, seq, heads, head_dim),
                randn(generator, batch, seq, options.kv_heads, head_dim), *turn)

    sets = sets_of(inputs, l2_bytes)
    for which in PASSES:
        yield which.compared(shape, sets, compare, options.compile_mode)
