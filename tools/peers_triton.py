"""The peers written in Triton: a block-scaled FP8 product and the quantiser that feeds it.

Plain kernels as one would write them in a day: pointers, one tile per program, a handful of
configurations to tune over. The operands are octet's own buffers, whose rows are padded with zeros
to multiples of 128 bytes, so the contraction needs no mask.
"""

import triton
import triton.language as tl

SLICE = tl.constexpr(128)  # elements of the contraction that share a scale

CONFIGS = [triton.Config({"TILE_M": m, "TILE_N": n, "GROUP": 8}, num_warps=warps, num_stages=stages)
           for m, n, warps, stages in [(64, 128, 4, 4), (128, 64, 4, 4), (128, 128, 4, 3),
                                       (128, 128, 8, 3), (128, 128, 8, 4), (256, 128, 8, 3)]]


@triton.autotune(configs=CONFIGS, key=["m", "n", "k", "SQUARES"])
@triton.jit
def product_kernel(a, b, d, a_scales, b_scales, m, n, k, a_pitch, b_pitch, d_pitch,
                   a_scale_pitch, b_scale_pitch, SQUARES: tl.constexpr,
                   TILE_M: tl.constexpr, TILE_N: tl.constexpr, GROUP: tl.constexpr):
    """d = a b^T. Scales of a, and of b in rows: [slice][row]; of b in squares: [row/128][slice]."""
    # Tiles in groups of GROUP rows, so that neighbours share operands in the L2 cache.
    tiles_m, tiles_n = tl.cdiv(m, TILE_M), tl.cdiv(n, TILE_N)
    index = tl.program_id(0)
    first = index // (GROUP * tiles_n) * GROUP
    height = tl.minimum(tiles_m - first, GROUP)
    tile_m = first + index % (GROUP * tiles_n) % height
    tile_n = index % (GROUP * tiles_n) // height

    rows = tile_m * TILE_M + tl.arange(0, TILE_M)
    cols = tile_n * TILE_N + tl.arange(0, TILE_N)
    # Rows beyond the edge wrap around to valid ones; their results are not stored.
    a_rows, b_rows = (rows % m).to(tl.int64), (cols % n).to(tl.int64)
    along = tl.arange(0, SLICE)
    a_tile = a + a_rows[:, None] * a_pitch + along[None, :]
    b_tile = b + b_rows[None, :] * b_pitch + along[:, None]
    a_scale = a_scales + a_rows
    if SQUARES:
        b_scale = b_scales + tile_n * TILE_N // SLICE * b_scale_pitch
    else:
        b_scale = b_scales + b_rows

    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for _ in range(tl.cdiv(k, SLICE)):
        part = tl.dot(tl.load(a_tile), tl.load(b_tile))
        if SQUARES:
            total += part * (tl.load(a_scale) * tl.load(b_scale))[:, None]
            b_scale += 1
        else:
            total += part * tl.load(a_scale)[:, None] * tl.load(b_scale)[None, :]
            b_scale += b_scale_pitch
        a_tile += SLICE
        b_tile += SLICE
        a_scale += a_scale_pitch
    places = d + rows.to(tl.int64)[:, None] * d_pitch + cols[None, :]
    tl.store(places, total.to(d.dtype.element_ty), mask=(rows < m)[:, None] & (cols < n)[None, :])


def product(a, b, d):
    """A call for d = a b^T on octet's quantised tensors; b in 1x128 or 128x128 blocks."""
    (m, k), n = a.values.shape, b.values.shape[0]
    squares = b.block == (128, 128)

    def call():
        product_kernel[lambda config: (triton.cdiv(m, config["TILE_M"]) *
                                       triton.cdiv(n, config["TILE_N"]),)](
            a.values, b.values, d, a.scales, b.scales, m, n, k, a.values.stride(0),
            b.values.stride(0), d.stride(0), a.scales.stride(1),
            b.scales.stride(0 if squares else 1), SQUARES=squares)
        return d

    return call


@triton.jit
def scale_of(amax):
    """448/amax and amax/448, as IEEE divides; 1 and 1 where a block is all zeros."""
    amax = tl.where(amax == 0.0, 448.0, tl.maximum(amax, 448.0 * 1.1754943508222875e-38))
    return tl.div_rn(amax * 0.0 + 448.0, amax), tl.div_rn(amax, amax * 0.0 + 448.0)


@triton.jit
def quantize_kernel(x, out, out_t, scales, scales_t, x_pitch, pitch, pitch_t, scale_pitch,
                    scale_pitch_t, SQUARES: tl.constexpr, SIDE: tl.constexpr):
    """Both copies of one 128x128 tile from one read; scales as product_kernel reads them."""
    tile_row, tile_col = tl.program_id(1).to(tl.int64), tl.program_id(0).to(tl.int64)
    rows = tile_row * SIDE + tl.arange(0, SIDE)
    cols = tile_col * SIDE + tl.arange(0, SIDE)
    tile = tl.load(x + rows[:, None] * x_pitch + cols[None, :]).to(tl.float32)
    size = tl.abs(tile)
    if SQUARES:
        scale, inverse = scale_of(tl.max(size))
        quantized = (tile * scale).to(tl.float8e4nv)
        quantized_t = quantized
        tl.store(scales + tile_row * scale_pitch + tile_col, inverse)
        tl.store(scales_t + tile_col * scale_pitch_t + tile_row, inverse)
    else:
        scale, inverse = scale_of(tl.max(size, 1))
        quantized = (tile * scale[:, None]).to(tl.float8e4nv)
        tl.store(scales + tile_col * scale_pitch + rows, inverse)
        scale, inverse = scale_of(tl.max(size, 0))
        quantized_t = (tile * scale[None, :]).to(tl.float8e4nv)
        tl.store(scales_t + tile_row * scale_pitch_t + cols, inverse)
    tl.store(out + rows[:, None] * pitch + cols[None, :], quantized)
    tl.store(out_t + cols[:, None] * pitch_t + rows[None, :], tl.trans(quantized_t))


def quantize(x, out, transposed, squares):
    """A call that quantises x both ways; extents must be multiples of 128."""
    rows, cols = x.shape
    if rows % 128 or cols % 128:
        raise ValueError(f"extents must be multiples of 128, got {rows}x{cols}")
    axis = 0 if squares else 1

    def call():
        quantize_kernel[(cols // 128, rows // 128)](
            x, out.values, transposed.values, out.scales, transposed.scales, x.stride(0),
            out.values.stride(0), transposed.values.stride(0), out.scales.stride(axis),
            transposed.scales.stride(axis), SQUARES=squares, SIDE=128, num_warps=8)
        return out, transposed

    return call
