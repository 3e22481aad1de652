"""Attention of liboctet (include/octet/c/attention.h), on tensors [batch, seq, heads, dim]."""

import ctypes

from octet_c import DTYPES, Device, Plan, Tensor, device_of, sized, view
from octet_c_elements import RESERVED, arguments, extents, filled, flags

TOP_LEFT, NO_WINDOW = 2, -1
WORKSPACE_LIMIT = 1 << 30


class AttentionProblem(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("dtype", ctypes.c_int32),
                *extents("batch", "seq_q", "seq_kv", "heads_q", "heads_kv", "dim_qk", "dim_v",
                         "left", "right"),
                *flags("align", "out_dtype"), ("scale", ctypes.c_float),
                *flags("sink", "offsets_dtype", "reserved0"), *extents("total_q", "total_kv"),
                ("workspace_limit", ctypes.c_uint64), ("device", Device)] + RESERVED


class AttentionInputs(ctypes.Structure):
    _fields_ = [(name, Tensor) for name in ("q", "k", "v", "sink", "offsets_q", "offsets_kv")]
    _fields_ += RESERVED


INPUTS = ("inputs", AttentionInputs)
ForwardArgs = arguments("AttentionForwardArgs", INPUTS, "out", "lse")
BackwardArgs = arguments("AttentionBackwardArgs", INPUTS, "out", "lse", "dout", "dlse", "dq", "dk",
                         "dv", "dsink")


def attention_problem(q, k, v, causal):
    batch, seq_q, heads_q, dim = q.shape
    return sized(AttentionProblem(
        dtype=DTYPES[q.dtype], batch=batch, seq_q=seq_q, seq_kv=k.shape[1], heads_q=heads_q,
        heads_kv=k.shape[2], dim_qk=dim, dim_v=v.shape[3], left=NO_WINDOW,
        right=0 if causal else NO_WINDOW, align=TOP_LEFT, workspace_limit=WORKSPACE_LIMIT,
        device=device_of(q)))


def with_inputs(args, q, k, v, **tensors):
    args.inputs = AttentionInputs(view(q), view(k), view(v))
    return filled(args, **tensors)


def forward_plan(q, k, v, causal, out, lse, backend=None):
    args = with_inputs(ForwardArgs(), q, k, v, out=out, lse=lse)
    return Plan("attention_forward", attention_problem(q, k, v, causal), args, q.device, backend)


def backward_plan(q, k, v, causal, out, lse, dout, dq, dk, dv, backend=None):
    args = with_inputs(BackwardArgs(), q, k, v, out=out, lse=lse, dout=dout, dq=dq, dk=dk, dv=dv)
    return Plan("attention_backward", attention_problem(q, k, v, causal), args, q.device, backend)
