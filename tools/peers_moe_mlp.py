"""A layer of experts, from routing to output, forward and backward: octet.torch's MoE in FP8 beside
the same layer in bf16, torch's grouped_mm under torch.compile.

octet casts its weights in every step and takes 128x128 blocks in weight gradients (wgrad 2d). The
output and all gradients are compared first; the notes have their SNR and the peak memory of a step.
"""

import functools
import math

import torch
from torch.nn.functional import grouped_mm, linear, silu

import octet_c
from peers_rounds import OURS, Case, noted, quickest
from peers_torch import first_timing

OUTPUTS = ("y", "dx", "drouter", "dw_gate_up", "dw_down")
# FP8 beside bf16: 20 dB. The router's gradients are differences of experts: 10 dB.
BOUNDS = dict.fromkeys(OUTPUTS, 1e-2) | {"drouter": 1e-1}


class Permute(torch.autograd.Function):
    """rows[r] = x[source[r]]. Its gradient gathers as well; autograd's own would add atomically."""

    @staticmethod
    def forward(ctx, x, source, row_of):
        ctx.save_for_backward(source, row_of)
        return x[source]

    @staticmethod
    def backward(ctx, drows):
        source, row_of = ctx.saved_tensors
        return Unpermute.apply(drows, source, row_of), None, None


class Unpermute(torch.autograd.Function):
    """y[t] = the sum over k of rows[row_of[t, k]], in f32."""

    @staticmethod
    def forward(ctx, rows, source, row_of):
        ctx.save_for_backward(source, row_of)
        return rows[row_of].float().sum(1).to(rows.dtype)

    @staticmethod
    def backward(ctx, dy):
        source, row_of = ctx.saved_tensors
        return Permute.apply(dy, source, row_of), None, None


def torch_layer(x, router, w_gate_up, w_down, top_k):
    experts = router.shape[0]
    scores = linear(x.float(), router.float()).softmax(-1)
    weights, indices = scores.topk(top_k)
    weights = weights / weights.sum(-1, keepdim=True)
    order = indices.flatten().argsort(stable=True)  # slots, token * top_k + k, by expert
    row_of = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=x.device))
    sizes = (indices.flatten()[:, None] == torch.arange(experts, device=x.device)).sum(0)
    ends = sizes.cumsum(0).int()
    source, row_of = order // top_k, row_of.view(indices.shape)
    rows = Permute.apply(x, source, row_of)
    gate, up = grouped_mm(rows, w_gate_up.mT, offs=ends).chunk(2, -1)
    h = silu(gate.float()) * up.float() * weights.flatten()[order][:, None]
    return Unpermute.apply(grouped_mm(h.to(x.dtype), w_down.mT, offs=ends), source, row_of)


def step_of(layer, x, router, w_gate_up, w_down, dy):
    """A call: the output and the gradients of x and of all weights."""
    def call():
        y = layer(x)
        return y.detach(), *torch.autograd.grad(y, (x, router, w_gate_up, w_down), dy)

    return call


def with_peak(call, note=""):
    """The call, with the peak of a step's memory beyond inputs and weights in its note."""
    if not torch.cuda.is_available():
        return noted(call, note)
    call()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    peak = (torch.cuda.max_memory_allocated() - before) / 2**30
    return noted(call, ", ".join(filter(None, [note, f"peak {peak:.2f} GiB"])))


def octet_step(x, top_k, dy, weights):
    import octet  # the package, from a wheel
    import octet.torch as ot
    own = octet._library.liboctet()
    own.octet_device_sources.restype = octet_c.library.octet_device_sources.restype
    digest = own.octet_device_sources(b"moe_mlp").decode()
    if digest != octet_c.device_sources("moe-mlp"):
        raise RuntimeError(f"octet.torch has device sources {digest} of moe-mlp, the library "
                           f"{octet_c.device_sources('moe-mlp')}: build both from one tree")
    router, w_gate_up, w_down = weights
    experts, features, dim = w_gate_up.shape
    with torch.device("meta"):
        layer = ot.MoE(dim, features // 2, experts, top_k, wgrad="2d", dtype=x.dtype)
    layer.router, layer.w_gate_up, layer.w_down = weights
    return with_peak(step_of(layer, x, *weights, dy), "wgrad 2d")


def torch_step(x, top_k, dy, weights, modes):
    """Compiled in the fastest of the modes."""
    torch._dynamo.reset()

    def compiled(mode):
        layer = torch.compile(torch_layer, dynamic=False, mode=mode)
        return step_of(lambda given: layer(given, *weights, top_k), x, *weights, dy)

    call = quickest({mode: compiled(mode) for mode in modes}, first_timing)
    return with_peak(call, call.note)


def snr_db(given, wanted):
    error = (given.float() - wanted.float()).square().sum().item()
    return 10 * math.log10(wanted.float().square().sum().item() / error) if error else math.inf


def judged(call):
    """The call, judged by the SNR of each output, which its note then has."""
    def same(given, wanted):
        found = {name: snr_db(octets, own) for name, own, octets in zip(OUTPUTS, given, wanted)}
        snrs = " ".join(f"{name} {snr:.1f}" for name, snr in found.items())
        call.note += f", octet's SNR (dB): {snrs}"
        print(f"  {call.note}")
        return all(found[name] >= -10 * math.log10(bound) for name, bound in BOUNDS.items())

    call.same = same
    return call


def cases(shape, compare, options, _l2_bytes, device="cuda"):
    tokens, features, dim, experts, top_k = shape
    generator = torch.Generator(device).manual_seed(1)

    def randn(*extents, scale=1.0):
        drawn = torch.randn(extents, generator=generator, dtype=torch.bfloat16, device=device)
        return drawn * scale

    x, dy = randn(tokens, dim).requires_grad_(), randn(tokens, dim)
    weights = [torch.nn.Parameter(randn(*extents, scale=extents[-1] ** -0.5)) for extents in
               ((experts, dim), (experts, 2 * features, dim), (experts, dim, features))]
    makers = {OURS: functools.partial(octet_step, x, top_k, dy, weights),
              "torch.compile": lambda: judged(torch_step(x, top_k, dy, weights,
                                                         options.compile_mode))}
    work = 3 * 2.0 * tokens * top_k * 3 * features * dim  # three products of two layers, 2F and F
    yield compare(Case(shape, "moe_mlp forward + backward", "fp8", work), makers)
