"""The products of a linear layer over groups of rows: y = x w_g^T, dx = dy w_g, dw_g = dy_g^T x_g.

Products alone: octet's operands are quantised before, and the peers' inputs are derived from them.
Groups need not be padded for octet; DeepGEMM's are, to 128 rows.
"""

import functools

import torch

import peers_grouped_libraries as grouped
import peers_libraries
from octet_c_grouped import Groups, grouped_gemm_plan, quantize_batch, quantize_rows
from peers_cases import group_sizes
from peers_rounds import OURS, Case, fastest_peer, noted

ROWS, SQUARES = (1, 128), (128, 128)
DEEP_GEMM = "deep_gemm"
TORCH = {"torch bf16": grouped.torch_bf16, "torch rowwise": grouped.torch_rowwise}


def octet_call(a, b, groups, dtype=torch.bfloat16, accumulate=False):
    rows, features, device = groups.rows, b.values.shape[1], a.values.device
    over_rows = a.values.dim() == 2
    shape = (rows, features) if over_rows else (len(groups), a.values.shape[1], features)
    d = torch.zeros(shape, dtype=dtype, device=device)
    plan = grouped_gemm_plan(a, b, d, groups, accumulate)

    def call():
        plan()
        return d

    return noted(call, f"{plan.implementation}: {plan.configuration}")


def contenders(a, b, groups, accumulate=False):
    """Name -> function that makes the call, for the libraries that have this form of product."""
    dtype = torch.float32 if accumulate else torch.bfloat16
    makers = {OURS: functools.partial(octet_call, a, b, groups, dtype, accumulate)}
    over_rows = a.values.dim() == 2
    if over_rows != accumulate and DEEP_GEMM in peers_libraries.available():
        product = grouped.deep_gemm_rows if over_rows else grouped.deep_gemm_contraction
        makers[DEEP_GEMM] = functools.partial(product, a, b, groups)
    if not accumulate:
        makers |= {name: functools.partial(make, a, b, groups) for name, make in TORCH.items()}
    return makers


def plain_call(a, b, groups, shape, dtype=torch.bfloat16, accumulate=False):
    d = torch.zeros(shape, dtype=dtype, device=a.device)
    plan = grouped_gemm_plan(a, b, d, groups, accumulate)

    def call():
        plan()
        return d

    return noted(call, f"{plan.implementation}: {plan.configuration}")


def torch_call(left, right, groups):
    return lambda: torch.nn.functional.grouped_mm(left, right, offs=groups.ends)


def plain_cases(shape, compare, device="cuda"):
    """The same products of bf16, on the tensors as they lie."""
    count, rows, n, k, spread = shape
    generator = torch.Generator(device).manual_seed(1)

    def randn(*extents):
        return torch.randn(extents, generator=generator, dtype=torch.bfloat16, device=device)

    groups = Groups(group_sizes(spread, count, rows), device)
    x, dy, w = randn(rows, k), randn(rows, n), randn(count, n, k)
    same = grouped.agree(groups)

    def compared(product, a, b, result, **more):
        case = Case(shape, product, "bf16", 2.0 * rows * n * k)
        makers = {OURS: functools.partial(plain_call, a, b, groups, result, **more)}
        over_rows, accumulate = b.dim() == 3, bool(more)
        if over_rows != accumulate and DEEP_GEMM in peers_libraries.available():
            product = grouped.deep_gemm_plain_rows if over_rows else grouped.deep_gemm_plain_contraction
            makers[DEEP_GEMM] = functools.partial(product, a, b, groups)
        if not accumulate:
            left, right = (a, b.mT) if over_rows else (a.mT, b)
            makers["torch bf16"] = functools.partial(torch_call, left, right, groups)
        return compare(case, makers, same)

    yield compared("forward", x, w, (rows, n))
    yield compared("dgrad", dy, w.mT, (rows, k))
    yield compared("wgrad", dy, x, (count, n, k))
    yield compared("wgrad f32 +=", dy, x, (count, n, k), dtype=torch.float32, accumulate=True)


def cases(shape, compare, options, _l2_bytes, device="cuda"):
    if options.dtype == "bf16":
        return plain_cases(shape, compare, device)
    return fp8_cases(shape, compare, device)


def fp8_cases(shape, compare, device="cuda"):
    """Results, one product after the other; the weight gradient in each of its forms."""
    count, rows, n, k, spread = shape
    generator = torch.Generator(device).manual_seed(1)

    def randn(*extents):
        return torch.randn(extents, generator=generator, dtype=torch.bfloat16, device=device)

    groups = Groups(group_sizes(spread, count, rows), device)
    x = randn(rows, k)
    (x_rows, x_t), (_, x_t_squares) = (quantize_rows(x, groups, ROWS, block)
                                       for block in (ROWS, SQUARES))
    dy_rows, dy_t = quantize_rows(randn(rows, n), groups, ROWS, ROWS)
    w, w_t = quantize_batch(randn(count, n, k), SQUARES)
    del x
    same = grouped.agree(groups)

    def case(product, **more):
        return Case(shape, product, "fp8", 2.0 * rows * n * k, **more)

    yield compare(case("forward"), contenders(x_rows, w, groups), same)
    yield compare(case("dgrad"), contenders(dy_rows, w_t, groups), same)
    makers, results = {}, []
    for product, accumulate in (("wgrad 1d", False), ("wgrad 1d f32 +=", True)):
        of_product = contenders(dy_t, x_t, groups, accumulate)
        timed = compare(case(product), of_product, same)
        makers |= of_product
        results += [r for r in timed if r.library in of_product]  # no other build of octet
        yield timed
    # No peer offers 128x128 blocks of x^T: ours is compared with the best of both products above.
    both = {OURS: functools.partial(octet_call, dy_t, x_t_squares, groups)}
    best = fastest_peer(results)
    name = f"{best.library} 1d" if best else ""
    if best:
        both[name] = makers[best.library]
    yield compare(case("wgrad 2d", other_data=frozenset([name])), both, same)
