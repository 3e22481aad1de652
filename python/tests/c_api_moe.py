"""moe_mlp with routing through octet's C API, by ctypes: what octet.torch.MoE is compared with."""

from ctypes import Structure, byref, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p

import torch
from c_api import CTensor, Device, Quantized, aligned, check, run, sized, view
from torch import Tensor

from octet._library import liboctet

DTYPES = {torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}
LONGS = "tokens f k experts top_k first_expert local_experts rows capacity"


class Problem(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("dtype", c_int32),
        *[(name, c_int64) for name in LONGS.split()],
        *[(name, c_int32) for name in ("routing", "logits_dtype", "score", "bias")],
        ("expert_groups", c_int64),
        ("top_groups", c_int64),
        ("group_score", c_int32),
        ("normalize", c_int32),
        ("scale", c_float),
        *[(name, c_int32) for name in ("activation", "format", "grad_format", "weights_quantized", "training")],
        *[(name, c_int32) for name in ("need_dx", "need_dw", "dw_dtype", "accumulate_dw", "wgrad_blocks")],
        ("amax_floor", c_float),
        ("pow2_scales", c_int32),
        ("max_multiprocessors", c_int32),
        ("expected_rows", c_int64),
        ("device", Device),
        ("reserved", c_uint64 * 8),
    ]


class Pair(Structure):
    _fields_ = [("w", Quantized), ("w_t", Quantized), ("reserved", c_uint64 * 4)]


class Weights(Structure):
    _fields_ = [("gate_up", Pair), ("down", Pair), ("reserved", c_uint64 * 4)]


class Saved(Structure):
    _fields_ = [
        *[(name, CTensor) for name in "scores indices row_of source sizes table status row_weight gate_up".split()],
        *[(name, Quantized) for name in "x_t w_gate_up_t h_t w_down_t".split()],
        ("reserved", c_uint64 * 4),
    ]


class ForwardArgs(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved0", c_uint32),
        *[(name, CTensor) for name in "x logits bias indices weights w_gate_up w_down".split()],
        ("experts", Weights),
        ("y", CTensor),
        ("saved", Saved),
        ("reserved", c_uint64 * 4),
    ]


class BackwardArgs(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved0", c_uint32),
        ("dy", CTensor),
        ("dscores", CTensor),
        ("saved", Saved),
        *[(name, CTensor) for name in "dx dlogits dweights dw_gate_up dw_down".split()],
        ("reserved", c_uint64 * 4),
    ]


def saved_bytes(**fields: int) -> int:
    size = c_uint64()
    check(liboctet().octet_moe_mlp_saved_bytes(byref(problem_of(**fields)), byref(size)))
    return size.value


def problem_of(**fields):
    usual = {
        "routing": 1,
        "logits_dtype": 1,
        "score": 1,
        "expert_groups": 1,
        "top_groups": 1,
        "group_score": 2,
        "normalize": 1,
        "scale": 1,
        "activation": 1,
        "format": 4,
        "grad_format": 4,
        "training": 1,
        "need_dx": 1,
        "need_dw": 1,
        "wgrad_blocks": 1,
        "device": Device(1, 0),
    }
    return sized(Problem, **(usual | fields))


def moe_mlp(x: Tensor, logits: Tensor, w_gate_up: Tensor, w_down: Tensor, dy: Tensor, top_k: int, **options):
    """y, dx, dlogits, dw_gate_up and dw_down."""
    library = liboctet()
    experts, k, f = w_down.shape
    dtype = DTYPES[x.dtype]
    problem = problem_of(
        dtype=dtype, dw_dtype=dtype, tokens=x.shape[0], f=f, k=k, experts=experts, top_k=top_k, **options
    )
    size = c_uint64()
    check(library.octet_moe_mlp_saved_bytes(byref(problem), byref(size)))
    memory, saved = aligned(size.value), Saved()
    check(library.octet_view_moe_mlp_saved(byref(problem), c_void_p(memory.data_ptr()), byref(saved)))
    y, dx, dlogits = torch.empty_like(x), torch.empty_like(x), torch.empty_like(logits)
    dw = torch.empty_like(w_gate_up), torch.empty_like(w_down)
    forward = sized(ForwardArgs, x=view(x), logits=view(logits), y=view(y), saved=saved)
    forward.w_gate_up, forward.w_down = view(w_gate_up), view(w_down)
    run("moe_mlp_forward", problem, forward)
    backward = sized(BackwardArgs, dy=view(dy), saved=saved, dx=view(dx), dlogits=view(dlogits))
    backward.dw_gate_up, backward.dw_down = view(dw[0]), view(dw[1])
    run("moe_mlp_backward", problem, backward)
    return y, dx, dlogits, *dw
