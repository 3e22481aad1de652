"""The products of a linear layer, and who can compute them: y = x w^T, dx = dy w, dw = dy^T x."""

import functools

import torch

import octet_c
import peers_libraries
from peers_rounds import OURS, Case, LeftOut, fastest_peer

ROWS, SQUARES = (1, 128), (128, 128)
ALL = -1
END_SCALED = {"tensorwise": (ALL, ALL), "rowwise": (1, ALL)}
UNQUANTISED = {"bf16": torch.bfloat16, "f16": torch.float16}


def both_ways(x, block, transposed_block):
    rows, cols = x.shape
    out = octet_c.QuantizedTensor(rows, cols, block, x.device)
    transposed = octet_c.QuantizedTensor(cols, rows, transposed_block, x.device)
    octet_c.quantize_plan(x, out, transposed)()
    return out, transposed


def octet_call(a, b, dtype, accumulate=False, backend=None, fast=False):
    out = peers_libraries.output(a, b, dtype)
    plan = octet_c.gemm_plan(a, b, out, accumulate, fast_accumulation=fast)
    if plan.implementation == backend:
        raise LeftOut("this is what octet itself chooses here")
    if backend:
        plan = octet_c.gemm_plan(a, b, out, accumulate, backend, fast)

    def call():
        plan()
        return out

    return call


def contenders(a, b, dtype, accumulate=False, sources=None):
    """Name -> function that makes the call, for the libraries that have exactly this form."""
    makers = {OURS: functools.partial(octet_call, a, b, dtype, accumulate),
              "cublaslt": functools.partial(octet_call, a, b, dtype, accumulate, "cublaslt")}
    for name, library in peers_libraries.available().items():
        if library.takes(a, b, accumulate):
            makers[name] = functools.partial(library.call, a, b, dtype, accumulate, sources)
    return makers


def randn(rows, cols, dtype, generator):
    return torch.randn(rows, cols, generator=generator, dtype=dtype, device=generator.device)


def fp8_cases(shape, compare, generator):
    """Results, one product after the other; the weight gradient in each of its forms."""
    m, n, k = shape
    x, w, dy = (randn(*extents, torch.bfloat16, generator) for extents in ((m, k), (n, k), (m, n)))
    x_rows, x_t = both_ways(x, ROWS, ROWS)
    w_squares, w_t = both_ways(w, SQUARES, SQUARES)
    dy_rows, dy_t = both_ways(dy, ROWS, ROWS)
    bf16 = torch.bfloat16

    def case(product, **more):
        return Case(shape, product, "fp8", 2.0 * m * n * k, **more)

    yield compare(case("forward"), contenders(x_rows, w_squares, bf16, sources=(x, w, "TN")))
    yield compare(case("dgrad"), contenders(dy_rows, w_t, bf16, sources=(dy, w, "NN")))
    rows = contenders(dy_t, x_t, bf16, sources=(dy, x, "NT"))
    results = compare(case("wgrad 1d"), rows)
    yield results
    yield compare(case("wgrad 1d f32 +="),
                  contenders(dy_t, x_t, torch.float32, accumulate=True, sources=(dy, x, "NT")))
    # No peer offers 128x128 blocks of x^T: ours is compared with the best of the product above.
    _, x_t_squares = both_ways(x, ROWS, SQUARES)
    both = {OURS: functools.partial(octet_call, dy_t, x_t_squares, bf16)}
    best = fastest_peer(r for r in results if r.library in rows)  # no other build of octet
    name = f"{best.library} 1d" if best else ""
    if best:
        both[name] = rows[best.library]
    yield compare(case("wgrad 2d", other_data=frozenset([name])), both)


def end_scaled_cases(shape, options, compare, generator):
    """Products with a scale per tensor or per row. torch's is cuBLASLt's; that it rounds otherwise is judged by
    octet check."""
    m, n, k = shape
    block, fast = END_SCALED[options.granularity], options.fast_accumulation
    x, w, dy = (randn(*extents, torch.bfloat16, generator) for extents in ((m, k), (n, k), (m, n)))
    x_rows, x_t = both_ways(x, block, block)
    w_rows, w_t = both_ways(w, block, block)
    dy_rows, dy_t = both_ways(dy, block, block)

    def compared(product, a, b, out=torch.bfloat16, accumulate=False):
        case = Case(shape, product, f"fp8 {options.granularity}" + (" fast" if fast else ""), 2.0 * m * n * k,
                    other_data=frozenset(["torch", "cublaslt"]))
        makers = {OURS: functools.partial(octet_call, a, b, out, accumulate, None, fast),
                  "cublaslt": functools.partial(octet_call, a, b, out, accumulate, "cublaslt", fast)}
        library = peers_libraries.available().get("torch")
        if library and not accumulate:
            makers["torch"] = functools.partial(library.end_scaled, a, b, out, fast)
        return compare(case, makers)

    yield compared("forward", x_rows, w_rows)
    yield compared("dgrad", dy_rows, w_t)
    yield compared("wgrad", dy_t, x_t)
    yield compared("wgrad f32 +=", dy_t, x_t, torch.float32, True)


def plain_cases(shape, dtype_name, compare, generator):
    m, n, k = shape
    dtype = UNQUANTISED[dtype_name]
    x, w, dy = (randn(*extents, dtype, generator) for extents in ((m, k), (n, k), (m, n)))

    def compared(product, a, b, out=dtype, accumulate=False):
        case = Case(shape, product, dtype_name, 2.0 * m * n * k)
        return compare(case, contenders(a, b, out, accumulate))

    yield compared("forward", x, w)
    yield compared("dgrad", dy, w.t())
    yield compared("wgrad", dy.t(), x.t())
    yield compared("wgrad f32 +=", dy.t(), x.t(), torch.float32, True)


def cases(shape, compare, options, _l2_bytes, device="cuda"):
    generator = torch.Generator(device).manual_seed(1)
    if options.dtype == "fp8":
        if options.granularity != "blockwise":
            return end_scaled_cases(shape, options, compare, generator)
        return fp8_cases(shape, compare, generator)
    return plain_cases(shape, options.dtype, compare, generator)
