"""The dual quantiser beside torch.compile, Triton and a device copy of as many bytes."""

import math

import torch

import octet_c
import peers_libraries
from peers_rounds import OURS, Case, sets_beyond
from peers_torch import COPY, close, device_copy, quickest_compiled, rotating

ALL = -1
BLOCKS = {"blockwise": {"1x128 + transposed": (1, 128), "128x128 + transposed": (128, 128)},
          "rowwise": {"1xall + transposed": (1, ALL)},
          "tensorwise": {"allxall + transposed": (ALL, ALL)}}


def extents(block, x):
    """Of the blocks in numbers."""
    return tuple(whole if extent == ALL else extent for extent, whole in zip(block, x.shape))


def blocked(x, block):
    """[rows, cols] as [row blocks, rows, column blocks, columns]."""
    block = extents(block, x)
    return x.unflatten(1, (-1, block[1])).unflatten(0, (-1, block[0]))


def torch_quantize(x, block):
    """Values [rows, cols] and scales, in code as one would write it for torch.compile."""
    blocks = blocked(x.float(), block)
    amax = blocks.abs().amax((1, 3), keepdim=True)
    amax = torch.where(amax == 0, 448.0, amax.clamp(min=448 * 2.0**-126))
    values = (blocks * (torch.full_like(amax, 448.0) / amax)).to(torch.float8_e4m3fn)
    return values.reshape(x.shape), (amax / 448.0).squeeze((1, 3))


def torch_both(x, block):
    values_t, scales_t = torch_quantize(x.t(), block)
    return *torch_quantize(x, block), values_t.contiguous(), scales_t


def dequantized(values, scales, block):
    return (blocked(values.float(), block) * scales[:, None, :, None]).reshape(values.shape)


def same(block, bound=1e-3):
    """Compares (values, scales, transposed values, transposed scales) after dequantisation.
    Compiled code divides less exactly, so a value may round the other way: 30 dB, not 40."""
    def judge(given, wanted):
        return all(close(dequantized(*given[i:i + 2], block), dequantized(*wanted[i:i + 2], block),
                         bound)
                   for i in (0, 2))
    return judge


def octet_outputs(x, block):
    rows, cols = x.shape
    return (octet_c.QuantizedTensor(rows, cols, block, x.device),
            octet_c.QuantizedTensor(cols, rows, block, x.device))


def four(out, transposed):
    return out.values, out.scales, transposed.values, transposed.scales


def octet_call(x, block):
    out, transposed = octet_outputs(x, block)
    plan = octet_c.quantize_plan(x, out, transposed)

    def call():
        plan()
        return four(out, transposed)

    return call


def triton_call(x, block):
    library = peers_libraries.available()["triton"]
    out, transposed = octet_outputs(x, block)
    quantize = library.kernels.quantize(x, out, transposed, block == (128, 128))
    return lambda: four(*quantize())


def bytes_moved(shape, block):
    """bf16 in, two FP8 copies and their scales out, each counted once; where a scale needs more than a
    part of a row, the input is read in two passes."""
    rows, cols = shape
    scales = sum(math.ceil(r / (r if block[0] == ALL else block[0])) *
                 math.ceil(c / (c if block[1] == ALL else block[1]))
                 for r, c in ((rows, cols), (cols, rows)))
    passes = 2 if ALL in block else 1
    return rows * cols * (2 * passes + 1 + 1) + 4 * scales


def contenders(inputs, block, modes):
    def each(call):
        return lambda: rotating([call(x, block) for x in inputs])

    makers = {OURS: each(octet_call),
              "torch.compile": lambda: quickest_compiled(
                  torch_both, [(x, block) for x in inputs], modes)}
    if "triton" in peers_libraries.available() and ALL not in block:
        makers["triton"] = each(triton_call)
    moved = bytes_moved(inputs[0].shape, block)
    return makers | {COPY: lambda: device_copy(moved, inputs[0].device, inputs)}


def cases(shape, compare, options, l2_bytes, device="cuda"):
    generator = torch.Generator(device).manual_seed(1)
    sets = sets_beyond(2 * math.prod(shape), l2_bytes)
    inputs = [torch.randn(shape, generator=generator, dtype=torch.bfloat16, device=device)
              for _ in range(sets)]
    for product, block in BLOCKS[options.granularity].items():
        case = Case(shape, product, "bf16", bytes_moved(shape, block), frozenset([COPY]))
        yield compare(case, contenders(inputs, block, options.compile_mode), same(block))
