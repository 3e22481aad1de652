"""The other libraries tools/peers.py knows: which form of product each has, and how it is called.

Each is a class with `takes(a, b, accumulate)` and `calls(sets, dtype, accumulate, sources)`: a call
per set of operands, which runs the product once and returns its output; they share one output.
Operands are octet_c.QuantizedTensor or, unquantised, plain matrices; `sources` are the unquantised
operands and Transformer Engine's name of their layout. A missing library is reported once.
"""

import ctypes
import dataclasses
import functools
import importlib
import inspect

import torch

import octet_c
from peers_rounds import noted, one_line

SQUARES = (128, 128)


def quantised(tensor):
    return isinstance(tensor, octet_c.QuantizedTensor)


def device_of(tensor):
    return tensor.values.device if quantised(tensor) else tensor.device


def output(a, b, dtype):
    (m, _), n = octet_c.operand(a)[0], octet_c.operand(b)[0][0]
    return torch.zeros(m, n, dtype=dtype, device=device_of(a))


@dataclasses.dataclass(frozen=True)
class Multiples:
    """What a library wants the extents of a product of FP8 to be multiples of. Ragged operands are
    padded with zeros for it, which is not timed, and its output is the part that was asked for."""
    m: int = 1
    n: int = 1
    k: int = 1

    def padded(self, a, b):
        return a.padded(self.m, self.k), b.padded(self.n, self.k)

    @staticmethod
    def note(given, padded):
        """For the row: what was multiplied, if it was not what was given."""
        (m, k), (n, _) = (operand.values.shape for operand in padded)
        same = all(one is other for one, other in zip(given, padded))
        return "" if same else f"padded to {m}x{n}x{k}"


# As src/ops/gemm/cublaslt.cpp has them.
CUBLASLT = Multiples(8, 8, 16)


class Torch:
    """torch.nn.functional.scaled_mm, and torch.mm for unquantised operands. With a scale per tensor or
    per row it wants N and K in sixteens."""
    END_SCALED = Multiples(n=16, k=16)

    def __init__(self):
        self.version = torch.__version__

    def takes(self, a, b, accumulate):
        return not (quantised(a) and accumulate)

    def calls(self, sets, dtype, accumulate, _sources):
        if quantised(sets[0][0]):
            return [self.scaled(a, b, dtype) for a, b in sets]
        out = output(*sets[0], dtype)
        return [self.plain(a, b, out, accumulate) for a, b in sets]

    @staticmethod
    def plain(a, b, out, accumulate):
        dtype, right = out.dtype, b.t()
        if accumulate:
            return lambda: torch.addmm(out, a, right, out_dtype=dtype, out=out)
        return lambda: torch.mm(a, right, out=out)

    @staticmethod
    def scaled(a, b, dtype):
        from torch.nn.functional import ScalingType, scaled_mm
        left = a.scales.t().contiguous().t()  # rows contiguous, and no padding between slices
        right, recipe = b.scales.t().contiguous().t(), ScalingType.BlockWise1x128
        if b.block == SQUARES:
            # [contraction/128 padded to 4, rows/128], contraction contiguous: our memory as it is.
            pitch, blocks = b.scales.stride(0), b.scales.shape[0]
            right = b.scales.as_strided((pitch, blocks), (1, pitch))
            recipe = ScalingType.BlockWise128x128
        return lambda: scaled_mm(a.values, b.values.t(), left, ScalingType.BlockWise1x128, right,
                                 recipe, output_dtype=dtype)

    def end_scaled(self, given_a, given_b, dtype, fast):
        """A scale per tensor or per row, fast accumulation as asked."""
        a, b = self.END_SCALED.padded(given_a, given_b)
        n, whole = given_b.values.shape[0], a.block == (-1, -1)
        # Newer versions want a stride of 1 where a dimension has one entry, too.
        left = a.scales.reshape(()) if whole else a.scales.flatten()[:, None]
        right = b.scales.reshape(()) if whole else b.scales.flatten()[None]
        # It takes no gaps between rows.
        a_values, b_values = a.values.contiguous(), b.values.contiguous()

        def call():
            return torch._scaled_mm(a_values, b_values.t(), scale_a=left, scale_b=right, out_dtype=dtype,
                                    use_fast_accum=fast)[:, :n]

        return noted(call, Multiples.note((given_a, given_b), (a, b)))


class Triton:
    """Our own plain kernel, tools/peers_triton.py."""

    def __init__(self):
        self.kernels = importlib.import_module("peers_triton")
        self.version = importlib.import_module("triton").__version__

    def takes(self, a, b, accumulate):
        return quantised(a) and not accumulate

    def calls(self, sets, dtype, _accumulate, _sources):
        out = output(*sets[0], dtype)
        return [self.kernels.product(a, b, out) for a, b in sets]


class DeepGemm:
    """Takes our scales as they are; its 1x128 . 1x128 kernel only adds to f32. That one takes K for
    the pitch of its operands (sm90_fp8_gemm_1d1d.hpp), and our pitch is a multiple of 128. The other
    one traps unless N is a multiple of 8 (sm90_fp8_gemm_1d2d.cuh), which ends the CUDA context. Rows of
    both outputs must begin at 16 bytes."""
    WITH_SQUARES, WITH_ROWS = Multiples(n=8), Multiples(n=8, k=128)

    def __init__(self):
        self.library = importlib.import_module("deep_gemm")
        self.version = getattr(self.library, "__version__", "")

    def takes(self, a, b, accumulate):
        return quantised(a) and accumulate == (b.block != SQUARES)

    def calls(self, sets, dtype, accumulate, _sources):
        (m, _), (n, _) = (operand.values.shape for operand in sets[0])
        wanted = self.WITH_ROWS if accumulate else self.WITH_SQUARES
        padded = [wanted.padded(a, b) for a, b in sets]
        out = output(*padded[0], dtype)
        more = {"c": out, "recipe": (1, 1, 128)} if accumulate else {}

        def call_of(a, b):
            # It refuses scales of squares in padded rows, as octet has them.
            scales = b.scales.contiguous() if b.block == SQUARES else b.scales
            left, right = (a.values, a.scales), (b.values, scales)

            def call():
                self.library.fp8_gemm_nt(left, right, out, disable_ue8m0_cast=True, **more)
                return out[:m, :n]

            return noted(call, wanted.note(sets[0], padded[0]))

        return [call_of(a, b) for a, b in padded]


class TransformerEngine:
    """general_gemm on its own Float8Block tensors, quantised from the same sources."""

    def __init__(self):
        engine = importlib.import_module("transformer_engine.pytorch")
        extensions = importlib.import_module("transformer_engine.pytorch.cpp_extensions")
        self.types = importlib.import_module("transformer_engine_torch").DType
        blocks = importlib.import_module(
            "transformer_engine.pytorch.tensor.float8_blockwise_tensor")
        self.quantizer, self.gemm = blocks.Float8BlockQuantizer, extensions.general_gemm
        self.version = getattr(importlib.import_module("transformer_engine"), "__version__", "")
        # Older versions need a workspace.
        self.more = {}
        if "workspace" in inspect.signature(self.gemm).parameters:
            self.more["workspace"] = torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
        del engine  # imported only for its side effects

    def takes(self, a, b, accumulate):
        return quantised(a)

    def quantize(self, tensor, block):
        return self.quantizer(self.types.kFloat8E4M3, rowwise=True, columnwise=True,
                              amax_epsilon=0.0, force_pow_2_scales=False,
                              block_scaling_dim=2 if block == SQUARES else 1)(tensor)

    def calls(self, sets, dtype, accumulate, sources):
        left_source, right_source, layout = sources
        out = output(*sets[0], dtype)

        def call_of(a, b):
            left, right = self.quantize(left_source, a.block), self.quantize(right_source, b.block)

            def call():
                # Its products are column-major: the right operand comes first.
                self.gemm(right, left, out_dtype=dtype, out=out, layout=layout,
                          accumulate=accumulate, use_split_accumulator=True, **self.more)
                return out

            return call

        return [call_of(a, b) for a, b in sets]


def cublaslt_version():
    """Version of the library that octet's backend loads, as 13.1.0; empty if there is none."""
    for name in ("libcublasLt.so.13", "libcublasLt.so.12"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.cublasLtGetVersion.restype = ctypes.c_size_t
        digits = library.cublasLtGetVersion()
        return f"{digits // 10000}.{digits // 100 % 100}.{digits % 100}"
    return ""


def cudnn_version():
    """Of the library that torch loads, as 9.19.0; empty if there is none."""
    digits = torch.backends.cudnn.version()
    return f"{digits // 10000}.{digits // 100 % 100}.{digits % 100}" if digits else ""


LIBRARIES = {"torch": Torch, "triton": Triton, "deep_gemm": DeepGemm,
             "transformer_engine": TransformerEngine}


@functools.cache
def available():
    """Name -> library, for those that are installed."""
    found = {}
    for name, library in LIBRARIES.items():
        try:
            found[name] = library()
        except Exception as error:  # an import may fail in any way
            print(f"{name} cannot be imported: {one_line(error)}")
    return found
