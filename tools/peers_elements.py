"""What the comparisons of the memory-bound operators share: inputs, contenders, equality.

Peers are torch code as one would write it, run as it is ("torch eager") and by torch.compile, in
the faster of the requested modes. A device copy of as many bytes runs in the same rounds.
"""

import dataclasses
import functools
from collections.abc import Callable

import torch

import octet_c
import peers_quantize
from peers_rounds import OURS, Case, LeftOut, noted, sets_beyond
from peers_torch import COPY, close, device_copy, quickest_compiled, rotating

UNFUSED = "octet unfused"
EPS = 1e-6
ROWS = (1, 128)  # the blocks of FP8 copies

# Compiled code does not round to bf16 between operator and cast, so more values round the other way
# than with a separate cast: up to 1.6e-3 of a row's energy was measured, whereas eager code equals
# octet in every bit.
same_fp8 = peers_quantize.same(ROWS, 5e-3)


def bytes_of(*tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def randn(generator, *shape):
    return torch.randn(shape, generator=generator, dtype=torch.bfloat16, device=generator.device)


def sets_of(make, l2_bytes):
    """Enough sets of inputs to exceed twice the L2 cache."""
    first = make()
    return [first] + [make() for _ in range(1, sets_beyond(bytes_of(*first), l2_bytes))]


def quantized_both_ways(x):
    """The cast that torch.compile gets in place of a fused one."""
    return peers_quantize.torch_both(x, ROWS)


def matrix(tensor):
    """Heads [batch, seq, heads, dim] as [batch * seq, heads * dim]."""
    return tensor.flatten(2).flatten(0, 1) if tensor.dim() == 4 else tensor


def close_vector(given, wanted, bound=1e-4):
    """40 dB over all elements: a sum over many rows may be near zero in one of them."""
    error = (given.float() - wanted.float()).square().sum()
    return bool(error <= bound * wanted.float().square().sum())


def same(given, wanted):
    """Whether every tensor of a tuple agrees."""
    def agree(one, other):
        judge = close_vector if one.dim() == 1 else close
        return one.shape == other.shape and judge(matrix(one), matrix(other))

    return len(given) == len(wanted) and all(map(agree, given, wanted))


@dataclasses.dataclass
class Written:
    """The outputs of octet for one set of inputs; `plan(backend=None)` makes the plan."""
    plan: Callable
    tensors: tuple        # all outputs, to count the bytes
    shown: tuple = None   # those that peers write too; None: all

    @classmethod
    def copies(cls, make_plan, rows, cols, device, *others):
        """Two FP8 copies of [rows, cols], which make_plan takes as `copies`."""
        out = octet_c.QuantizedTensor(rows, cols, ROWS, device)
        transposed = octet_c.QuantizedTensor(cols, rows, ROWS, device)
        parts = peers_quantize.four(out, transposed)
        return cls(functools.partial(make_plan, copies=(out, transposed)), (*parts, *others), parts)

    def call(self, backend=None):
        plan = self.plan()
        if backend:
            if plan.implementation == backend:
                raise LeftOut("this is what octet itself chooses here")
            plan = self.plan(backend=backend)

        def run():  # holds self and so every tensor whose address the plan has
            plan()
            return self.shown or self.tensors

        return noted(run, f"{plan.implementation}: {plan.configuration}")


@dataclasses.dataclass
class Pass:
    """One pass of one operator, as octet and torch run it on a set of inputs."""
    product: str
    written: Callable     # takes the inputs
    torch_code: Callable  # the same; runs once and returns a tuple
    fp8: bool = False
    others: dict = dataclasses.field(default_factory=dict)  # further peers, as torch_code

    def contenders(self, sets, moved, modes):
        def octet(backend=None):
            return lambda: rotating([self.written(*inputs).call(backend) for inputs in sets])

        def plain(code):
            return lambda: rotating([functools.partial(code, *inputs) for inputs in sets])

        makers = {OURS: octet()}
        if self.fp8:
            makers[UNFUSED] = octet("unfused")
        else:
            makers["torch eager"] = plain(self.torch_code)
        makers["torch.compile"] = lambda: quickest_compiled(self.torch_code, sets, modes)
        makers |= {name: plain(code) for name, code in self.others.items()}
        return makers | {COPY: lambda: device_copy(moved, sets[0][0].device, sets)}

    def compared(self, shape, sets, compare, modes):
        moved = bytes_of(*sets[0], *self.written(*sets[0]).tensors)
        case = Case(shape, self.product, "bf16", moved, frozenset([COPY]))
        return compare(case, self.contenders(sets, moved, modes), same_fp8 if self.fp8 else same)
