"""The products of a linear layer, and who can compute them: y = x w^T, dx = dy w, dw = dy^T x.

The launches of every contender take sets of operands in turn, which hold the same numbers and
exceed twice the L2 cache together, as in octet bench: otherwise small operands would stay in it.
"""

import functools

import torch

import octet_c
import peers_libraries
from peers_rounds import OURS, Case, LeftOut, fastest_peer, judged, noted, sets_beyond
from peers_torch import close, rotating

ROWS, SQUARES = (1, 128), (128, 128)
ALL = -1
END_SCALED = {"tensorwise": (ALL, ALL), "rowwise": (1, ALL)}
CUBLASLT_FAST = "cublaslt fast"
UNQUANTISED = {"bf16": torch.bfloat16, "f16": torch.float16}
# Each set is a call, views and a description of its own for each contender. Only operands of less
# than 100 KB would need more of them: 50 MB of L2, twice, in 1024 parts.
MOST_SETS = 1024


def close_to_fast(given, wanted):
    """30 dB: sums of fast accumulation keep about 14 bits, and their error grows with the contraction
    (53 dB at 4096, 46 at 28672, docs/numerics.md; the longest of SHAPES is 106496)."""
    return close(given, wanted, 1e-3)


def operand_sets(touched_bytes, l2_bytes):
    return min(MOST_SETS, sets_beyond(touched_bytes, l2_bytes))


def bytes_of(operand):
    return operand.layout.bytes if peers_libraries.quantised(operand) else operand.nbytes


def copy_of(operand):
    return operand.copy() if peers_libraries.quantised(operand) else operand.clone()


class Operands:
    """a and b, and copies of both, which are made when they are first needed."""

    def __init__(self, a, b, l2_bytes):
        self.a, self.b = a, b
        self.count = operand_sets(bytes_of(a) + bytes_of(b), l2_bytes)

    @functools.cached_property
    def sets(self):
        return [(self.a, self.b), *((copy_of(self.a), copy_of(self.b)) for _ in range(1, self.count))]


def both_ways(x, block, transposed_block):
    rows, cols = x.shape
    out = octet_c.QuantizedTensor(rows, cols, block, x.device)
    transposed = octet_c.QuantizedTensor(cols, rows, transposed_block, x.device)
    octet_c.quantize_plan(x, out, transposed)()
    return out, transposed


def calls_of(plan, sets, out, m, n, note):
    """A call that runs the plan on the sets in turn. Its output is the first m rows and n columns."""
    def call_of(a, b):
        args = octet_c.gemm_args(a, b, out)

        def call():
            plan(args)
            return out[:m, :n]

        call.operands = a, b  # args has only their addresses
        return noted(call, note)

    return rotating([call_of(a, b) for a, b in sets])


def octet_call(operands, dtype, accumulate=False, fast=False):
    """By octet's choice."""
    out = peers_libraries.output(operands.a, operands.b, dtype)
    plan = octet_c.gemm_plan(operands.a, operands.b, out, accumulate, fast_accumulation=fast)
    return calls_of(plan, operands.sets, out, *out.shape, f"{plan.implementation}: {plan.configuration}")


def cublaslt_call(operands, dtype, accumulate=False, fast=False, octet_fast=False):
    """By octet's backend of that name, which gets ragged operands padded. `octet_fast`: whether the
    call of octet beside it has fast accumulation."""
    is_fp8 = peers_libraries.quantised(operands.a)
    if is_fp8 and operands.a.block == END_SCALED["rowwise"] and dtype != torch.bfloat16:
        raise LeftOut("cuBLASLt gives bf16 of scales of rows, not f32")
    out = peers_libraries.output(operands.a, operands.b, dtype)
    m, n = out.shape
    if fast == octet_fast:
        chosen = octet_c.gemm_plan(operands.a, operands.b, out, accumulate, fast_accumulation=fast)
        if chosen.implementation == "cublaslt":
            raise LeftOut("this is what octet itself chooses here")
    sets, note = operands.sets, ""
    if is_fp8:
        sets = [peers_libraries.CUBLASLT.padded(a, b) for a, b in sets]
        note = peers_libraries.Multiples.note((operands.a, operands.b), sets[0])
        out = peers_libraries.output(*sets[0], dtype)
    plan = octet_c.gemm_plan(*sets[0], out, accumulate, "cublaslt", fast)
    return calls_of(plan, sets, out, m, n, note)


def contenders(operands, dtype, accumulate=False, sources=None):
    """Name -> function that makes the call, for the libraries that have exactly this form."""
    def of_library(library):
        return lambda: rotating(library.calls(operands.sets, dtype, accumulate, sources))

    makers = {OURS: functools.partial(octet_call, operands, dtype, accumulate),
              "cublaslt": functools.partial(cublaslt_call, operands, dtype, accumulate)}
    return makers | {name: of_library(library)
                     for name, library in peers_libraries.available().items()
                     if library.takes(operands.a, operands.b, accumulate)}


def randn(rows, cols, dtype, generator):
    return torch.randn(rows, cols, generator=generator, dtype=dtype, device=generator.device)


def fp8_cases(shape, compare, generator, l2_bytes):
    """Results, one product after the other; the weight gradient in each of its forms."""
    m, n, k = shape
    x, w, dy = (randn(*extents, torch.bfloat16, generator) for extents in ((m, k), (n, k), (m, n)))
    x_rows, x_t = both_ways(x, ROWS, ROWS)
    w_squares, w_t = both_ways(w, SQUARES, SQUARES)
    dy_rows, dy_t = both_ways(dy, ROWS, ROWS)
    bf16 = torch.bfloat16

    def case(product, operands, **more):
        return Case(shape, product, "fp8", 2.0 * m * n * k, sets=operands.count, **more)

    operands = Operands(x_rows, w_squares, l2_bytes)
    yield compare(case("forward", operands), contenders(operands, bf16, sources=(x, w, "TN")))
    operands = Operands(dy_rows, w_t, l2_bytes)
    yield compare(case("dgrad", operands), contenders(operands, bf16, sources=(dy, w, "NN")))
    operands = Operands(dy_t, x_t, l2_bytes)
    rows = contenders(operands, bf16, sources=(dy, x, "NT"))
    results = compare(case("wgrad 1d", operands), rows)
    yield results
    yield compare(case("wgrad 1d f32 +=", operands),
                  contenders(operands, torch.float32, accumulate=True, sources=(dy, x, "NT")))
    # No peer offers 128x128 blocks of x^T: ours is compared with the best of the product above.
    _, x_t_squares = both_ways(x, ROWS, SQUARES)
    operands = Operands(dy_t, x_t_squares, l2_bytes)
    both = {OURS: functools.partial(octet_call, operands, bf16)}
    best = fastest_peer(r for r in results if r.library in rows)  # no other build of octet
    name = f"{best.library} 1d" if best else ""
    if best:
        both[name] = rows[best.library]
    yield compare(case("wgrad 2d", operands, other_data=frozenset([name])), both)


def end_scaled_cases(shape, options, compare, generator, l2_bytes):
    """Products with a scale per tensor or per row. A promoted one is beside cuBLASLt's promoted one and
    beside the one with fast accumulation, which peers take for forward products."""
    m, n, k = shape
    block, fast = END_SCALED[options.granularity], options.fast_accumulation
    x, w, dy = (randn(*extents, torch.bfloat16, generator) for extents in ((m, k), (n, k), (m, n)))
    x_rows, x_t = both_ways(x, block, block)
    w_rows, w_t = both_ways(w, block, block)
    dy_rows, dy_t = both_ways(dy, block, block)

    def compared(product, a, b, out=torch.bfloat16, accumulate=False):
        operands = Operands(a, b, l2_bytes)
        case = Case(shape, product, f"fp8 {options.granularity}" + (" fast" if fast else ""), 2.0 * m * n * k,
                    sets=operands.count)
        makers = {OURS: functools.partial(octet_call, operands, out, accumulate, fast),
                  "cublaslt": functools.partial(cublaslt_call, operands, out, accumulate, fast, fast)}
        if not fast:
            makers[CUBLASLT_FAST] = lambda: judged(cublaslt_call(operands, out, accumulate, True), close_to_fast)
        library = peers_libraries.available().get("torch")
        if library and not accumulate:
            makers["torch"] = lambda: rotating([library.end_scaled(*one, out, fast)
                                                for one in operands.sets])
        return compare(case, makers, close_to_fast if fast else close)

    yield compared("forward", x_rows, w_rows)
    yield compared("dgrad", dy_rows, w_t)
    yield compared("wgrad", dy_t, x_t)
    yield compared("wgrad f32 +=", dy_t, x_t, torch.float32, True)


def plain_cases(shape, dtype_name, compare, generator, l2_bytes):
    m, n, k = shape
    dtype = UNQUANTISED[dtype_name]
    x, w, dy = (randn(*extents, dtype, generator) for extents in ((m, k), (n, k), (m, n)))

    def compared(product, a, b, out=dtype, accumulate=False):
        operands = Operands(a, b, l2_bytes)
        case = Case(shape, product, dtype_name, 2.0 * m * n * k, sets=operands.count)
        return compare(case, contenders(operands, out, accumulate))

    yield compared("forward", x, w)
    yield compared("dgrad", dy, w.t())
    yield compared("wgrad", dy.t(), x.t())
    yield compared("wgrad f32 +=", dy.t(), x.t(), torch.float32, True)


def cases(shape, compare, options, l2_bytes, device="cuda"):
    generator = torch.Generator(device).manual_seed(1)
    if options.dtype == "fp8":
        if options.granularity != "blockwise":
            return end_scaled_cases(shape, options, compare, generator, l2_bytes)
        return fp8_cases(shape, compare, generator, l2_bytes)
    return plain_cases(shape, options.dtype, compare, generator, l2_bytes)
