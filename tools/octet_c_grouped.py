"""Products over groups of rows and the casts that feed them (include/octet/c/grouped_gemm.h)."""

import ctypes
import itertools
import math

import torch

from octet_c import (ALIGNMENT, DTYPES, E4M3, F32, I32, MAJOR_K, MAJOR_MN, Block, Device, Operand, Plan,
                     Quantized, QuantizedTensor, Tensor, check, device_of, library, quantize_plan,
                     sized, view)

SIZES, TAIL_ZERO, OVER_ROWS, OVER_CONTRACTION = 1, 1, 1, 2
SLICE = 128  # tokens of a block of a transposed copy
TORCH_DTYPES = {number: dtype for dtype, number in DTYPES.items()}


class BatchLayout(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("dtype", ctypes.c_int32),
                ("batch", ctypes.c_int64), ("rows", ctypes.c_int64), ("cols", ctypes.c_int64),
                ("block", Block), ("pitch", ctypes.c_int64),
                ("scale_shape", ctypes.c_int64 * 3), ("scale_strides", ctypes.c_int64 * 3),
                ("scales_offset", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
                ("token_blocks", ctypes.c_int32), ("reserved0", ctypes.c_int32),
                ("reserved", ctypes.c_uint64 * 4)]


class GroupTableProblem(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("given", ctypes.c_int32),
                ("groups", ctypes.c_int64), ("rows", ctypes.c_int64),
                ("sizes_dtype", ctypes.c_int32), ("reserved0", ctypes.c_int32), ("device", Device),
                ("reserved", ctypes.c_uint64 * 4)]


class GroupTableArgs(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved0", ctypes.c_uint32),
                ("sizes", Tensor), ("table", Tensor), ("reserved", ctypes.c_uint64 * 4)]


class GroupedGemmProblem(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("over", ctypes.c_int32),
                ("groups", ctypes.c_int64), ("rows", ctypes.c_int64), ("n", ctypes.c_int64),
                ("k", ctypes.c_int64), ("a", Operand), ("b", Operand),
                ("out_dtype", ctypes.c_int32), ("accumulate", ctypes.c_int32),
                ("tail", ctypes.c_int32), ("max_multiprocessors", ctypes.c_int32),
                ("expected_rows", ctypes.c_int64), ("device", Device),
                ("reserved", ctypes.c_uint64 * 8)]


class GroupedGemmArgs(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved0", ctypes.c_uint32), ("a", Quantized),
                ("b", Quantized), ("d", Tensor), ("table", Tensor),
                ("reserved", ctypes.c_uint64 * 4)]


class Groups:
    """Rows that belong to groups: their sizes on the host, and the group table on the device."""

    def __init__(self, sizes, device):
        self.sizes, self.rows = list(sizes), sum(sizes)
        self.slices = [math.ceil(size / SLICE) for size in sizes]       # token blocks of each
        self.first = [0, *itertools.accumulate(self.sizes)]             # row
        self.first_block = [0, *itertools.accumulate(self.slices)]      # token block
        self.device = torch.device(device)
        given = torch.tensor(self.sizes, dtype=torch.int32, device=device)
        self.ends = given.cumsum(0).int()
        words = ctypes.c_int64()
        count, rows = ctypes.c_int64(len(self.sizes)), ctypes.c_int64(self.rows)
        check(library.octet_group_table_words(count, rows, ctypes.byref(words)))
        self.table = torch.zeros(words.value, dtype=torch.int32, device=device)
        problem = sized(GroupTableProblem(given=SIZES, groups=len(self.sizes), rows=self.rows,
                                          sizes_dtype=I32, device=device_of(self.table)))
        args = sized(GroupTableArgs(sizes=view(given), table=view(self.table)))
        Plan("group_table", problem, args, self.device)()

    def __len__(self):
        return len(self.sizes)

    def max_blocks(self):
        blocks = ctypes.c_int64()
        check(library.octet_max_token_blocks(ctypes.c_int64(len(self)), ctypes.c_int64(self.rows),
                                             ctypes.byref(blocks)))
        return blocks.value

    def padded_places(self):
        """Where each row is if every group begins at a multiple of 128 rows."""
        places = [torch.arange(size) + SLICE * block
                  for size, block in zip(self.sizes, self.first_block)]
        return torch.cat(places).to(self.device)

    def of_rows(self):
        """The group of each row."""
        sizes = torch.tensor(self.sizes)
        return torch.arange(len(self)).repeat_interleave(sizes).to(self.device)


def strided(memory, described):
    """The torch view of an octet tensor that lies within `memory`."""
    dtype, rank = TORCH_DTYPES[described.dtype], described.rank
    part = memory[described.data - memory.data_ptr():]
    part = part[:part.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
    return part.as_strided(tuple(described.shape[:rank]), tuple(described.strides[:rank]))


class QuantizedBatch:
    """FP8 values and scales of a batch of matrices or of token blocks; both also as torch views."""

    def __init__(self, make_layout, extents, block, device):
        self.layout, self.block = BatchLayout(), tuple(block)
        check(make_layout(*map(ctypes.c_int64, extents), E4M3, Block(*block),
                          ctypes.byref(self.layout)))
        self.memory = torch.zeros(self.layout.bytes + ALIGNMENT, dtype=torch.uint8, device=device)
        start = self.memory.data_ptr() + -self.memory.data_ptr() % ALIGNMENT
        self.view = Quantized()
        check(library.octet_make_quantized_batch_view(
            ctypes.byref(self.layout), ctypes.c_void_p(start), device_of(self.memory),
            ctypes.byref(self.view)))
        self.values = strided(self.memory, self.view.values)
        self.scales = strided(self.memory, self.view.scales)

    @classmethod
    def matrices(cls, batch, rows, cols, block, device):
        return cls(library.octet_make_quantized_batch_layout, (batch, rows, cols), block, device)

    @classmethod
    def token_blocks(cls, groups, features, block):
        return cls(library.octet_make_token_block_layout, (groups.max_blocks(), features), block,
                   groups.device)


def quantize_rows(x, groups, block, transposed_block):
    """Rows as they are, and token blocks."""
    rows, cols = x.shape
    out = QuantizedTensor(rows, cols, block, x.device)
    transposed = QuantizedBatch.token_blocks(groups, cols, transposed_block)
    quantize_plan(x, out, transposed, groups=len(groups), tail=TAIL_ZERO, table=groups.table)()
    return out, transposed


def quantize_batch(w, block):
    """Every matrix both ways."""
    batch, rows, cols = w.shape
    out = QuantizedBatch.matrices(batch, rows, cols, block, w.device)
    transposed = QuantizedBatch.matrices(batch, cols, rows, block, w.device)
    quantize_plan(w, out, transposed, batch=batch)()
    return out, transposed


def grouped_gemm_plan(a, b, d, groups, accumulate=False, backend=None):
    """d[t] = b_g a[t] for d [T, N]; d_g = a_g^T b_g for d [groups, N, K], over token blocks or plain tokens."""
    def operand(tensor):
        if isinstance(tensor, torch.Tensor):
            major = MAJOR_K if over_rows and tensor.stride(-1) == 1 else MAJOR_MN
            return sized(Operand(dtype=DTYPES[tensor.dtype], major=major, scale_dtype=F32))
        return sized(Operand(dtype=E4M3, block=tensor.view.block, major=MAJOR_K, scale_dtype=F32))

    def quantized(tensor):
        return Quantized(view(tensor)) if isinstance(tensor, torch.Tensor) else tensor.view

    over_rows = d.dim() == 2
    values = b if isinstance(b, torch.Tensor) else b.values
    n, k = values.shape[1:] if over_rows else d.shape[1:]
    problem = sized(GroupedGemmProblem(
        over=OVER_ROWS if over_rows else OVER_CONTRACTION, groups=len(groups), rows=groups.rows,
        n=n, k=k, a=operand(a), b=operand(b), out_dtype=DTYPES[d.dtype],
        accumulate=int(accumulate), tail=TAIL_ZERO, device=device_of(d)))
    args = sized(GroupedGemmArgs(a=quantized(a), b=quantized(b), d=view(d), table=view(groups.table)))
    return Plan("grouped_gemm", problem, args, d.device, backend)
