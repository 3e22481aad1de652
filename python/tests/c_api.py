"""The FP8 linear layer through octet's C API, by ctypes: what octet.torch is compared with."""

import ctypes
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)

import torch
from torch import Tensor

from octet._library import liboctet

DTYPES = {torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}


class Device(Structure):
    _fields_ = [("type", c_int32), ("index", c_int32)]


class CTensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("shape", c_int64 * 6),
        ("strides", c_int64 * 6),
        ("device", Device),
    ]


class Quantized(Structure):
    _fields_ = [
        ("values", CTensor),
        ("scales", CTensor),
        ("block", c_int64 * 2),
        ("owns_padding", c_int32),
        ("reserved0", c_int32),
        ("reserved", c_uint64 * 4),
    ]


class Layout(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("dtype", c_int32),
        ("rows", c_int64),
        ("cols", c_int64),
        ("block", c_int64 * 2),
        ("pitch", c_int64),
        ("scale_shape", c_int64 * 2),
        ("scale_strides", c_int64 * 2),
        ("scales_offset", c_uint64),
        ("bytes", c_uint64),
        ("reserved", c_uint64 * 4),
    ]


class Problem(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("dtype", c_int32),
        ("m", c_int64),
        ("n", c_int64),
        ("k", c_int64),
        *[(name, c_int32) for name in ("format", "grad_format", "weights_quantized", "training", "need_dx", "need_dw")],
        *[(name, c_int32) for name in ("dw_dtype", "accumulate_dw", "wgrad_blocks")],
        ("amax_floor", c_float),
        *[(name, c_int32) for name in ("pow2_scales", "bias", "activation", "determinism")],
        ("device", Device),
        *[(name, c_int32) for name in ("dbias", "max_multiprocessors", "granularity", "fast_accumulation", "mx_scale")],
        ("reserved0", c_uint32),
        ("reserved", c_uint64 * 5),
    ]


class Saved(Structure):
    _fields_ = [("x_t", Quantized), ("w_t", Quantized), ("reserved", c_uint64 * 4)]


class SavedLayout(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved0", c_uint32),
        ("x_t", Layout),
        ("w_t", Layout),
        ("reserved", c_uint64 * 4),
    ]


class ForwardArgs(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved0", c_uint32),
        ("x", CTensor),
        ("w", CTensor),
        ("weights", Saved),  # two quantised tensors as well
        ("y", CTensor),
        ("saved", Saved),
        ("reserved", c_uint64 * 4),
    ]


class BackwardArgs(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved0", c_uint32),
        ("dy", CTensor),
        ("saved", Saved),
        ("dx", CTensor),
        ("dw", CTensor),
        ("reserved", c_uint64 * 4),
    ]


def sized(kind, **fields):
    return kind(struct_size=ctypes.sizeof(kind), **fields)


def aligned(size: int) -> Tensor:
    """Bytes that start on a 256-byte boundary, as a layout and a workspace want them."""
    memory = torch.zeros(size + 256, dtype=torch.uint8)
    start = -memory.data_ptr() % 256
    return memory[start : start + size]


def view(t: Tensor) -> CTensor:
    pad = [0] * (6 - t.dim())
    shape, strides = (c_int64 * 6)(*t.shape, *pad), (c_int64 * 6)(*t.stride(), *pad)
    return CTensor(t.data_ptr(), DTYPES[t.dtype], t.dim(), shape, strides, Device(1, 0))


def check(status: int) -> None:
    library = liboctet()
    library.octet_last_error.restype = c_char_p
    assert status == 0, library.octet_last_error().decode()


def run(name: str, problem: Problem, args: Structure) -> None:
    library, plan = liboctet(), c_void_p()
    check(getattr(library, f"octet_make_{name}_plan")(byref(problem), None, byref(plan)))
    library.octet_plan_workspace_bytes.restype = c_size_t
    library.octet_plan_workspace_bytes.argtypes = [c_void_p]
    workspace = aligned(library.octet_plan_workspace_bytes(plan))
    pointer, size = c_void_p(workspace.data_ptr()), c_size_t(workspace.numel())
    check(getattr(library, f"octet_run_{name}")(plan, byref(args), pointer, size, None))
    library.octet_destroy_plan(plan)


def linear(x: Tensor, w: Tensor, dy: Tensor, format: int, grad_format: int, wgrad: int, **options: int) -> list[Tensor]:
    """y, x^T as bytes (padding included), dx and dw. w^T is the copy that forward saves. Options are fields."""
    (m, k), n, dtype = x.shape, w.shape[0], DTYPES[x.dtype]
    problem = sized(
        Problem,
        dtype=dtype,
        m=m,
        n=n,
        k=k,
        format=format,
        grad_format=grad_format,
        training=1,
        need_dx=1,
        need_dw=1,
        dw_dtype=dtype,
        wgrad_blocks=wgrad,
        **options,
        device=Device(1, 0),
    )
    layouts, saved, memory = sized(SavedLayout), Saved(), {}
    check(liboctet().octet_make_fp8_linear_saved_layout(byref(problem), byref(layouts)))
    for name in ("x_t", "w_t"):
        layout = getattr(layouts, name)
        memory[name] = aligned(layout.bytes)
        make = liboctet().octet_make_quantized_view
        make.argtypes = [POINTER(Layout), c_void_p, Device, POINTER(Quantized)]
        check(make(byref(layout), memory[name].data_ptr(), Device(1, 0), byref(getattr(saved, name))))
    y, dx, dw = torch.empty_like(dy), torch.empty_like(x), torch.empty_like(w)
    run("fp8_linear_forward", problem, sized(ForwardArgs, x=view(x), w=view(w), y=view(y), saved=saved))
    run("fp8_linear_backward", problem, sized(BackwardArgs, dy=view(dy), saved=saved, dx=view(dx), dw=view(dw)))
    values = memory["x_t"][: k * layouts.x_t.pitch].view(k, layouts.x_t.pitch)
    return [y, values, dx, dw]
