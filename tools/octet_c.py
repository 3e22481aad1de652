"""liboctet through its C API (include/octet/octet.h), on torch tensors."""

import ctypes
import os
import pathlib

import torch

F32, F16, BF16, E4M3, E5M2, I32 = 1, 2, 3, 4, 5, 7
DTYPES = {torch.float32: F32, torch.float16: F16, torch.bfloat16: BF16,
          torch.float8_e4m3fn: E4M3, torch.int32: I32}
CPU, CUDA = 1, 2
MAJOR_K, MAJOR_MN = 0, 1
ALIGNMENT = 256


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("index", ctypes.c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * 6), ("strides", ctypes.c_int64 * 6), ("device", Device)]


class Block(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_int64), ("cols", ctypes.c_int64)]


NO_COPY = Block(-2, -2)


class Quantized(ctypes.Structure):
    _fields_ = [("values", Tensor), ("scales", Tensor), ("block", Block),
                ("owns_padding", ctypes.c_int32), ("reserved0", ctypes.c_int32),
                ("reserved", ctypes.c_uint64 * 4)]


class Layout(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("dtype", ctypes.c_int32),
                ("rows", ctypes.c_int64), ("cols", ctypes.c_int64), ("block", Block),
                ("pitch", ctypes.c_int64),
                ("scale_shape", ctypes.c_int64 * 2), ("scale_strides", ctypes.c_int64 * 2),
                ("scales_offset", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
                ("reserved", ctypes.c_uint64 * 4)]


class QuantizeProblem(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("input_dtype", ctypes.c_int32),
                ("rows", ctypes.c_int64), ("cols", ctypes.c_int64), ("format", ctypes.c_int32),
                ("pow2_scales", ctypes.c_int32), ("block", Block), ("transposed_block", Block),
                ("amax_floor", ctypes.c_float), ("tail", ctypes.c_int32), ("device", Device),
                ("batch", ctypes.c_int64), ("groups", ctypes.c_int64),
                ("source_rows", ctypes.c_int64), ("reserved", ctypes.c_uint64),
                ("source_top_k", ctypes.c_int64)]


class QuantizeArgs(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved0", ctypes.c_uint32),
                ("input", Tensor), ("out", Quantized), ("transposed", Quantized),
                ("reserved", ctypes.c_uint64 * 4), ("table", Tensor), ("source", Tensor)]


class Operand(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("dtype", ctypes.c_int32), ("block", Block),
                ("major", ctypes.c_int32), ("scale_dtype", ctypes.c_int32),
                ("reserved", ctypes.c_uint64 * 4)]


class GemmProblem(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("out_dtype", ctypes.c_int32), ("m", ctypes.c_int64),
                ("n", ctypes.c_int64), ("k", ctypes.c_int64), ("a", Operand), ("b", Operand),
                ("device", Device), ("accumulate", ctypes.c_int32), ("bias", ctypes.c_int32),
                ("activation", ctypes.c_int32), ("group_kind", ctypes.c_int32),
                ("group_count", ctypes.c_int64), ("determinism", ctypes.c_int32),
                ("split_k", ctypes.c_int32), ("max_multiprocessors", ctypes.c_int32),
                ("fast_accumulation", ctypes.c_int32), ("reserved", ctypes.c_uint64 * 7)]


class GemmArgs(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved0", ctypes.c_uint32), ("a", Quantized),
                ("b", Quantized), ("d", Tensor), ("bias", Tensor),
                ("group_offsets", ctypes.c_void_p), ("reserved", ctypes.c_uint64 * 4)]


class PlanOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("threads", ctypes.c_int32),
                ("backend", ctypes.c_char_p), ("configuration", ctypes.c_char_p),
                ("reserved", ctypes.c_uint64 * 3)]


def _load():
    named = os.environ.get("OCTET_LIBRARY")
    built = pathlib.Path(__file__).resolve().parent.parent / "build" / "release" / "liboctet.so"
    path = pathlib.Path(named or built)
    library = ctypes.CDLL(str(path))
    for name in ("last_error", "device_sources"):
        getattr(library, f"octet_{name}").restype = ctypes.c_char_p
    for name in ("implementation", "configuration"):
        getattr(library, f"octet_plan_{name}").restype = ctypes.c_char_p
        getattr(library, f"octet_plan_{name}").argtypes = [ctypes.c_void_p]
    library.octet_plan_workspace_bytes.restype = ctypes.c_size_t
    library.octet_plan_workspace_bytes.argtypes = [ctypes.c_void_p]
    return library, path


library, library_path = _load()


def device_sources(op):
    """The hash of the kernels of an operator, as `octet bench OP` names it."""
    return library.octet_device_sources(op.replace("-", "_").encode()).decode()


def check(status):
    if status != 0:
        raise RuntimeError(library.octet_last_error().decode())


def sized(struct):
    struct.struct_size = ctypes.sizeof(struct)
    return struct


def device_of(tensor):
    return Device(CUDA if tensor.is_cuda else CPU, tensor.device.index or 0)


def view(tensor):
    """A torch tensor as an octet tensor, with its strides."""
    result = Tensor(tensor.data_ptr(), DTYPES[tensor.dtype], tensor.dim())
    for i, (extent, stride) in enumerate(zip(tensor.shape, tensor.stride())):
        result.shape[i], result.strides[i] = extent, stride
    result.device = device_of(tensor)
    return result


class QuantizedTensor:
    """FP8 values and scales in octet's own layout; both also as torch views."""

    def __init__(self, rows, cols, block, device="cuda"):
        self.layout, self.block = Layout(), tuple(block)
        check(library.octet_make_quantized_layout(ctypes.c_int64(rows), ctypes.c_int64(cols), E4M3,
                                             Block(*block), ctypes.byref(self.layout)))
        self.memory = torch.zeros(self.layout.bytes + ALIGNMENT, dtype=torch.uint8, device=device)
        offset = -self.memory.data_ptr() % ALIGNMENT
        self.contents = self.memory[offset:offset + self.layout.bytes]
        values = self.memory[offset:].view(torch.float8_e4m3fn)
        self.values = values.as_strided((rows, cols), (self.layout.pitch, 1))
        scales = self.memory[offset + self.layout.scales_offset:]
        scales = scales[:scales.numel() // 4 * 4].view(torch.float32)
        self.scales = scales.as_strided(tuple(self.layout.scale_shape),
                                        tuple(self.layout.scale_strides))
        self.view = Quantized(view(self.values), view(self.scales), Block(*block), 1)

    def copy(self):
        """The same numbers in other memory."""
        other = QuantizedTensor(*self.values.shape, self.block, self.memory.device)
        other.contents.copy_(self.contents)
        return other

    def padded(self, rows, cols):
        """With zeros up to multiples of these extents; itself if there is nothing to pad."""
        old = tuple(self.values.shape)
        new = tuple(-(-given // multiple) * multiple for given, multiple in zip(old, (rows, cols)))
        if new == old:
            return self
        other = QuantizedTensor(*new, self.block, self.memory.device)
        for target, source in ((other.values.view(torch.uint8), self.values.view(torch.uint8)),
                               (other.scales, self.scales)):
            target[:source.shape[0], :source.shape[1]] = source
        return other


class Plan:
    def __init__(self, operator, problem, args, device, backend=None):
        self.handle = ctypes.c_void_p()
        options = sized(PlanOptions(backend=backend.encode() if backend else None))
        plan = getattr(library, f"octet_make_{operator}_plan")
        check(plan(ctypes.byref(problem), ctypes.byref(options), ctypes.byref(self.handle)))
        self.args = args
        self.function = getattr(library, f"octet_run_{operator}")
        bytes_ = library.octet_plan_workspace_bytes(self.handle)
        self.workspace = torch.empty(bytes_ + ALIGNMENT, dtype=torch.uint8, device=device)
        self.address = self.workspace.data_ptr() + -self.workspace.data_ptr() % ALIGNMENT
        self.bytes = bytes_
        self.implementation = library.octet_plan_implementation(self.handle).decode()
        self.configuration = library.octet_plan_configuration(self.handle).decode()

    def __del__(self):
        library.octet_destroy_plan(self.handle)

    def __call__(self, args=None):
        """`args`: other tensors of the same problem than those that the plan was made with."""
        on_gpu = self.workspace.is_cuda
        stream = torch.cuda.current_stream().cuda_stream if on_gpu else None
        check(self.function(self.handle, ctypes.byref(args or self.args),
                            ctypes.c_void_p(self.address),
                            ctypes.c_size_t(self.bytes), ctypes.c_void_p(stream)))


def quantize_plan(x, out=None, transposed=None, **more):
    """`more`: fields of the problem; a table of groups is given as `table`."""
    table = more.pop("table", None)
    problem = sized(QuantizeProblem(input_dtype=DTYPES[x.dtype], rows=x.shape[-2],
                                    cols=x.shape[-1], format=E4M3, block=NO_COPY,
                                    transposed_block=NO_COPY, device=device_of(x), **more))
    args = sized(QuantizeArgs(input=view(x)))
    if table is not None:
        args.table = view(table)
    if out:
        problem.block, args.out = out.view.block, out.view
    if transposed:
        problem.transposed_block, args.transposed = transposed.view.block, transposed.view
    return Plan("quantize", problem, args, x.device)


def operand(tensor):
    """The gemm operand for a QuantizedTensor or a plain matrix: extents, description, view."""
    if isinstance(tensor, QuantizedTensor):
        described = Operand(dtype=E4M3, block=tensor.view.block, major=MAJOR_K, scale_dtype=F32)
        return tensor.values.shape, sized(described), tensor.view
    major = MAJOR_K if tensor.stride(1) == 1 else MAJOR_MN
    described = Operand(dtype=DTYPES[tensor.dtype], major=major, scale_dtype=F32)
    return tensor.shape, sized(described), Quantized(view(tensor))


def gemm_args(a, b, d):
    return sized(GemmArgs(a=operand(a)[2], b=operand(b)[2], d=view(d)))


def gemm_plan(a, b, d, accumulate=False, backend=None, fast_accumulation=False):
    """d = a b^T, or d += a b^T."""
    (m, k), a_operand, _ = operand(a)
    (n, _), b_operand, _ = operand(b)
    problem = sized(GemmProblem(out_dtype=DTYPES[d.dtype], m=m, n=n, k=k, a=a_operand, b=b_operand,
                                accumulate=int(accumulate), device=device_of(d),
                                fast_accumulation=int(fast_accumulation)))
    return Plan("gemm", problem, gemm_args(a, b, d), d.device, backend)
