"""Attention beside torch's cuDNN and flash backends: forward, which saves the lse, and backward.

The backends are called as SDPA calls them, by their own operators of aten, so that neither SDPA's
choice nor autograd is timed. Heads are [batch, seq, heads, dim] in memory for all of them.
"""

import functools

import torch

import octet_c_attention
from peers_rounds import OURS, Case, noted

aten = torch.ops.aten


def flops(shape):
    """Of forward, as octet bench counts them: half of the pairs under a causal mask."""
    batch, seq, heads, _, dim_qk, dim_v, mask = shape
    return 2.0 * batch * heads * seq * seq * (dim_qk + dim_v) / (2 if mask == "causal" else 1)


def agree(bound):
    """Every head of every tensor of a tuple by itself; rows alone may be sums that cancel."""
    def heads_agree(given, wanted):
        error = (given.float() - wanted.float()).square().sum((1, 3))
        return bool((error <= bound * wanted.float().square().sum((1, 3))).all())

    def judge(given, wanted):
        return all(one.shape == other.shape and heads_agree(one, other)
                   for one, other in zip(given, wanted, strict=True))

    return judge


def as_sdpa(*tensors):
    """[batch, seq, heads, dim] as [batch, heads, seq, dim], and back."""
    return [tensor.transpose(1, 2) for tensor in tensors]


class Cudnn:
    """torch's CUDNN_ATTENTION."""

    def __init__(self, q, k, v, causal):
        self.inputs, self.causal = as_sdpa(q, k, v), causal

    def forward(self):
        return aten._scaled_dot_product_cudnn_attention(*self.inputs, None, True, 0.0, self.causal)

    def backward(self, saved, dout):
        out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = saved
        return functools.partial(
            aten._scaled_dot_product_cudnn_attention_backward, dout, *self.inputs, out, lse, seed,
            offset, None, cum_q, cum_k, max_q, max_k, 0.0, self.causal)


class Flash(Cudnn):
    """torch's FLASH_ATTENTION."""

    def forward(self):
        return aten._scaled_dot_product_flash_attention(*self.inputs, 0.0, self.causal)

    def backward(self, saved, dout):
        out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = saved
        return functools.partial(
            aten._scaled_dot_product_flash_attention_backward, dout, *self.inputs, out, lse, cum_q,
            cum_k, max_q, max_k, 0.0, self.causal, seed, offset)


BACKENDS = {"torch cudnn": Cudnn, "torch flash": Flash}


def forward_of(backend, q, k, v, causal):
    attention = backend(q, k, v, causal)
    return lambda: as_sdpa(attention.forward()[0])


def backward_of(backend, q, k, v, causal, dout):
    attention = backend(q, k, v, causal)
    gradients = attention.backward(attention.forward(), *as_sdpa(dout))
    return lambda: as_sdpa(*gradients())


def ran(plan, written, *held):
    """The call that returns what the plan writes, and holds what it only has addresses of."""
    def call():
        plan()
        return written

    call.held = held
    return noted(call, f"{plan.implementation}: {plan.configuration}")


def octet_forward(q, k, v, causal):
    """It also writes the lse, the last of what the call holds."""
    batch, seq, heads, _ = q.shape
    out = torch.empty(batch, seq, heads, v.shape[3], dtype=q.dtype, device=q.device)
    lse = torch.empty(batch, heads, seq, device=q.device)
    plan = octet_c_attention.forward_plan(q, k, v, causal, out, lse)
    return ran(plan, (out,), q, k, v, lse)


def octet_backward(q, k, v, causal, dout):
    forward = octet_forward(q, k, v, causal)
    (out,), lse = forward(), forward.held[-1]
    gradients = [torch.empty_like(tensor) for tensor in (q, k, v)]
    plan = octet_c_attention.backward_plan(q, k, v, causal, out, lse, dout, *gradients)
    return ran(plan, gradients, q, k, v, out, lse, dout)


def contenders(octet, of_backend, *inputs):
    makers = {OURS: lambda: octet(*inputs)}
    return makers | {name: functools.partial(of_backend, backend, *inputs)
                     for name, backend in BACKENDS.items()}


def cases(shape, compare, _options, _l2_bytes, device="cuda"):
    batch, seq, heads_q, heads_kv, dim_qk, dim_v, mask = shape
    generator = torch.Generator(device).manual_seed(1)

    def randn(heads, dim):
        return torch.randn((batch, seq, heads, dim), generator=generator, dtype=torch.bfloat16,
                           device=device)

    inputs = randn(heads_q, dim_qk), randn(heads_kv, dim_qk), randn(heads_kv, dim_v)
    inputs += (mask == "causal",)
    yield compare(Case(shape, "attention forward", "bf16", flops(shape)),
                  contenders(octet_forward, forward_of, *inputs),
                  agree(1e-4))
    # P and dS are rounded to bf16 at different places: 30 dB.
    yield compare(Case(shape, "attention backward", "bf16", 2.5 * flops(shape)),
                  contenders(octet_backward, backward_of, *inputs, randn(heads_q, dim_v)),
                  agree(1e-3))
