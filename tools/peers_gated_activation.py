"""silu(gate) * up beside torch: forward and backward, each plain and to FP8 both ways.

gate and up are the halves of one tensor, as one product writes them.
"""

import functools

import torch
from torch.nn.functional import silu

import octet_c_elements
from peers_elements import Pass, Written, quantized_both_ways, randn, sets_of


def halves(tensor):
    return tensor.chunk(2, 1)


def forward(gate_up):
    gate, up = halves(gate_up)
    return (silu(gate) * up,)


def backward(dy, gate_up):
    gate, up = halves(gate_up)
    return torch.ops.aten.silu_backward(dy * up, gate), dy * silu(gate)


def forward_fp8(gate_up):
    return quantized_both_ways(*forward(gate_up))


def backward_fp8(dy, gate_up):
    return quantized_both_ways(torch.cat(backward(dy, gate_up), 1))


def octet_forward(gate_up):
    gate, up = halves(gate_up)
    y = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
    return Written(functools.partial(octet_c_elements.gated_forward_plan, gate, up, y), (y,))


def octet_backward(dy, gate_up):
    gradients = halves(torch.empty_like(gate_up))
    plan = functools.partial(octet_c_elements.gated_backward_plan, dy, *halves(gate_up), *gradients)
    return Written(plan, gradients)


def octet_forward_fp8(gate_up):
    gate, up = halves(gate_up)
    plan = functools.partial(octet_c_elements.gated_forward_plan, gate, up)
    return Written.copies(plan, *gate.shape, gate.device)


def octet_backward_fp8(dy, gate_up):
    plan = functools.partial(octet_c_elements.gated_backward_plan, dy, *halves(gate_up))
    return Written.copies(plan, *gate_up.shape, dy.device)


FORWARDS = (Pass("gated_activation forward", octet_forward, forward),
            Pass("gated_activation forward to fp8", octet_forward_fp8, forward_fp8, fp8=True))
BACKWARDS = (Pass("gated_activation backward", octet_backward, backward),
             Pass("gated_activation backward to fp8", octet_backward_fp8, backward_fp8, fp8=True))


def cases(shape, compare, options, l2_bytes, device="cuda"):
    generator = torch.Generator(device).manual_seed(1)
    rows, cols = shape
    inputs = sets_of(lambda: (randn(generator, rows, 2 * cols),), l2_bytes)
    for which in FORWARDS:
        yield which.compared(shape, inputs, compare, options.compile_mode)
    inputs = [(randn(generator, *shape), *others) for others in inputs]
    for which in BACKWARDS:
        yield which.compared(shape, inputs, compare, options.compile_mode)
