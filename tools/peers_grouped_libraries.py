"""The other libraries' products over groups, on the data of octet's FP8 operands.

Each function prepares a library's own inputs (padding, layouts of scales, casts) and returns a call
that is the product alone. Groups are octet_c_grouped.Groups; a call that needs another judge than
the others has one, `call.same`.
"""

import functools

import torch

import peers_libraries
from octet_c_grouped import SLICE
from peers_rounds import judged, noted
from peers_torch import close

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
CHUNK = 16384  # rows that are dequantised at a time


def bytes_of(values):
    """FP8 as bytes, which torch can move in every way."""
    return values.view(torch.uint8)


def agree(groups, bound=1e-4, places=None):
    """Judges every group by itself. `places`: rows of an output whose groups are padded."""
    def judge(given, wanted):
        if wanted.dim() == 3:
            pairs = zip(given, wanted)
        else:
            given = given if places is None else given[places]
            pairs = zip(given.split(groups.sizes), wanted.split(groups.sizes))
        if given.shape != wanted.shape:
            return False
        return all(close(one, other, bound) for one, other in pairs if len(one))

    return judge


def dequantized(values, scales, block):
    """A matrix in bf16, 2^-9 from what octet multiplies."""
    result = torch.empty(values.shape, dtype=BF16, device=values.device)
    rows, cols = values.shape
    for begin in range(0, rows, CHUNK):  # a multiple of 128
        part = values[begin:begin + CHUNK].float()
        factors = scales[begin // block[0]:][:-(-len(part) // block[0])]
        factors = factors.repeat_interleave(block[0], 0)[:len(part)]
        result[begin:begin + CHUNK] = part * factors.repeat_interleave(block[1], 1)[:, :cols]
    return result


def dequantized_batch(w):
    return torch.stack([dequantized(values, scales, w.block)
                        for values, scales in zip(w.values, w.scales)])


def group_of_blocks(tensor, groups, group):
    """The token blocks of one group in f32: [features, tokens], zeros behind the last token."""
    begin, end = groups.first_block[group:group + 2]
    tokens = tensor.values[begin:end].float() * tensor.scales[begin:end]
    return tokens.permute(1, 0, 2).flatten(1)


def torch_bf16(a, b, groups):
    """torch.nn.functional.grouped_mm on the same numbers in bf16."""
    if a.values.dim() == 2:
        left, right = dequantized(a.values, a.scales, a.block), dequantized_batch(b).mT
    else:
        left, right = (torch.cat([group_of_blocks(tensor, groups, g)[:, :size].to(BF16).mT
                                  for g, size in enumerate(groups.sizes)]) for tensor in (a, b))
        left = left.mT
    return lambda: torch.nn.functional.grouped_mm(left, right, offs=groups.ends)


def rowwise(matrix):
    """FP8 with one scale per row."""
    scales = matrix.float().abs().amax(-1).clamp(min=1e-12) / 448
    return (matrix / scales[..., None]).to(FP8), scales


def rowwise_blocks(tensor, groups):
    """[features, tokens], each group padded to 128 tokens, and scales [groups * features]."""
    parts = [rowwise(group_of_blocks(tensor, groups, g)) for g in range(len(groups))]
    values = torch.cat([bytes_of(values) for values, _ in parts], 1).view(FP8)
    return values, torch.cat([scales for _, scales in parts])


def torch_rowwise(a, b, groups):
    """torch._scaled_grouped_mm: another cast of the same numbers, hence 20 dB."""
    ends = groups.ends
    if a.values.dim() == 2:
        left, left_scales = rowwise(dequantized(a.values, a.scales, a.block))
        right, right_scales = rowwise(dequantized_batch(b))
        right = right.mT
    else:
        (left, left_scales), (right, right_scales) = (rowwise_blocks(t, groups) for t in (a, b))
        right = right.mT
        ends = torch.tensor(groups.first_block[1:], dtype=torch.int32, device=ends.device) * SLICE
    call = functools.partial(torch._scaled_grouped_mm, left, right, left_scales, right_scales,
                             offs=ends, out_dtype=BF16, use_fast_accum=True)
    return judged(noted(call, "fast accumulation"), agree(groups, 1e-2))


def deep_gemm():
    return peers_libraries.available()["deep_gemm"].library


def deep_gemm_rows(a, b, groups):
    """m_grouped_fp8_gemm_nt_contiguous on rows that are padded to 128 in every group."""
    library, places = deep_gemm(), groups.padded_places()
    rows, (_, n, _), device = groups.first_block[-1] * SLICE, b.values.shape, a.values.device
    values = torch.zeros(rows, a.values.shape[1], dtype=torch.uint8, device=device)
    values[places] = bytes_of(a.values)
    # Rows contiguous: the layout that its kernel reads, so that a call converts nothing.
    scales = torch.ones(a.scales.shape[1], rows, device=device).t()
    scales[places] = a.scales
    of_rows = torch.full((rows,), -1, dtype=torch.int32, device=device)
    of_rows[places] = groups.of_rows().int()
    left = values.view(FP8), scales
    right = b.values.contiguous(), b.scales.contiguous()
    d = torch.zeros(rows, n, dtype=BF16, device=device)

    def call():
        library.m_grouped_fp8_gemm_nt_contiguous(left, right, d, of_rows, disable_ue8m0_cast=True)
        return d

    return judged(call, agree(groups, places=places))


def deep_gemm_contraction(a, b, groups):
    """k_grouped_fp8_gemm_nt_contiguous, which adds to f32; it takes the sizes from the host."""
    library, blocks = deep_gemm(), groups.first_block[-1]

    def operand(tensor):
        values = bytes_of(tensor.values)
        parts = [values[begin:end].permute(1, 0, 2).flatten()  # [features, tokens] of a group
                 for begin, end in zip(groups.first_block, groups.first_block[1:])]
        return torch.cat(parts).view(FP8), tensor.scales[:blocks, :, 0].contiguous().t()

    left, right = operand(a), operand(b)
    sizes = [slices * SLICE for slices in groups.slices]
    on_device = torch.tensor(sizes, dtype=torch.int32, device=a.values.device)
    d = torch.zeros(len(groups), a.values.shape[1], b.values.shape[1], device=a.values.device)

    def call():
        library.k_grouped_fp8_gemm_nt_contiguous(left, right, d, sizes, on_device, d)
        return d

    return call


def padded(rows, groups):
    """Rows of groups with zeros behind each group, up to 128."""
    result = torch.zeros(groups.first_block[-1] * SLICE, rows.shape[1], dtype=rows.dtype, device=rows.device)
    result[groups.padded_places()] = rows
    return result


def deep_gemm_plain_rows(a, b, groups):
    """m_grouped_bf16_gemm_nt_contiguous on rows that are padded to 128 in every group."""
    library, places = deep_gemm(), groups.padded_places()
    left = padded(a, groups)
    of_rows = torch.full((len(left),), -1, dtype=torch.int32, device=a.device)
    of_rows[places] = groups.of_rows().int()
    d = torch.zeros(len(left), b.shape[1], dtype=BF16, device=a.device)

    def call():
        library.m_grouped_bf16_gemm_nt_contiguous(left, b, d, of_rows)
        return d

    return judged(call, agree(groups, places=places))


def deep_gemm_plain_contraction(a, b, groups):
    """k_grouped_bf16_gemm_tn_contiguous, which adds to f32; it takes the sizes from the host."""
    library = deep_gemm()
    left, right = padded(a, groups), padded(b, groups)
    sizes = [slices * SLICE for slices in groups.slices]
    on_device = torch.tensor(sizes, dtype=torch.int32, device=a.device)
    d = torch.zeros(len(groups), a.shape[1], b.shape[1], device=a.device)

    def call():
        library.k_grouped_bf16_gemm_tn_contiguous(left, right, d, sizes, on_device, d)
        return d

    return call
