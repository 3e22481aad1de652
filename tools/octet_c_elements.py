"""The memory-bound operators of liboctet (include/octet/c/*.h), on torch tensors."""

import ctypes

from octet_c import (BF16, DTYPES, E4M3, F32, Block, Device, Plan, Quantized, Tensor, device_of,
                     sized, view)

I32, I64 = ctypes.c_int32, ctypes.c_int64
ROTATE_HALF, NORM_ROW, SILU = 1, 1, 1
RESERVED = [("reserved", ctypes.c_uint64 * 4)]


class Fp8Output(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("enabled", I32), ("format", I32),
                ("pow2_scales", I32), ("block", Block), ("transposed_block", Block),
                ("amax_floor", ctypes.c_float), ("reserved0", I32)] + RESERVED


class Fp8Copies(ctypes.Structure):
    _fields_ = [("out", Quantized), ("transposed", Quantized)] + RESERVED


class Rotation(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("style", I32), ("rotary_dim", I64),
                ("cache_rows", I64), ("cache_dtype", I32), ("positions_dtype", I32),
                ("full_cache", I32), ("reserved0", I32)] + RESERVED


class RotationArgs(ctypes.Structure):
    _fields_ = [("cos", Tensor), ("sin", Tensor), ("positions", Tensor)] + RESERVED


def arguments(name, *fields):
    """An args struct: its size, tensors by name (or other fields), reserved space."""
    head = [("struct_size", ctypes.c_uint32), ("reserved0", ctypes.c_uint32)]
    body = [(field, Tensor) if isinstance(field, str) else field for field in fields]
    return type(name, (ctypes.Structure,), {"_fields_": head + body + RESERVED})


def problem(name, *fields):
    """A problem struct: its size, the dtype, the fields, the device, reserved space."""
    head = [("struct_size", ctypes.c_uint32), ("dtype", I32)]
    return type(name, (ctypes.Structure,),
                {"_fields_": head + list(fields) + [("device", Device)] + RESERVED})


def extents(*names):
    return [(name, I64) for name in names]


def flags(*names):
    return [(name, I32) for name in names]


HEADS = extents("batch", "seq", "q_heads", "k_heads", "head_dim")
FP8, ROTATION = ("fp8", Fp8Output), ("rotation", Rotation)
RmsNormProblem = problem(
    "RmsNormProblem", *extents("rows", "cols"), *flags("weight_dtype"), ("eps", ctypes.c_float),
    *flags("residual", "one_plus_weight", "training", "dg_dtype"), FP8)
RopeProblem = problem("RopeProblem", *HEADS, ROTATION)
RmsNormRopeProblem = problem(
    "RmsNormRopeProblem", *HEADS, *flags("norm", "weight_dtype"), ("eps", ctypes.c_float),
    *flags("one_plus_weight", "training", "dg_dtype"), ROTATION)
GatedActivationProblem = problem(
    "GatedActivationProblem", *extents("rows", "cols"), *flags("activation", "row_weight"), FP8)

COPIES, TURN = ("fp8", Fp8Copies), ("rotation", RotationArgs)
RmsNormForwardArgs = arguments("RmsNormForwardArgs", "x", "residual", "g", "y", COPIES, "sum",
                               "rstd")
RmsNormBackwardArgs = arguments("RmsNormBackwardArgs", "dy", "h", "g", "rstd", "dsum", "dx",
                                "dresidual", "dg")
RopeForwardArgs = arguments("RopeForwardArgs", "q", "k", "q_out", "k_out", TURN)
RopeBackwardArgs = arguments("RopeBackwardArgs", "dq_out", "dk_out", "dq", "dk", TURN)
RmsNormRopeForwardArgs = arguments("RmsNormRopeForwardArgs", "q", "k", "g_q", "g_k", "q_out",
                                   "k_out", "rstd_q", "rstd_k", TURN)
RmsNormRopeBackwardArgs = arguments(
    "RmsNormRopeBackwardArgs", "dq_out", "dk_out", "q", "k", "g_q", "g_k", "rstd_q", "rstd_k",
    "dq", "dk", "dg_q", "dg_k", TURN)
GatedForwardArgs = arguments("GatedForwardArgs", "gate", "up", "row_weight", "y", COPIES)
GatedBackwardArgs = arguments("GatedBackwardArgs", "dy", "gate", "up", "row_weight", "dgate",
                              "dup", COPIES, "d_row_weight")


def filled(struct, **tensors):
    """The struct with views of the torch tensors; None leaves a tensor out."""
    for name, tensor in tensors.items():
        if tensor is not None:
            setattr(struct, name, view(tensor))
    return sized(struct)


def with_copies(the_problem, args, copies):
    """Asks for the QuantizedTensors (out, transposed) in place of the plain output."""
    if copies:
        out, transposed = copies
        the_problem.fp8 = sized(Fp8Output(
            enabled=1, format=E4M3, block=out.view.block, transposed_block=transposed.view.block))
        args.fp8 = Fp8Copies(out.view, transposed.view)


def rms_norm_problem(x, g, eps):
    rows, cols = x.shape
    return sized(RmsNormProblem(dtype=DTYPES[x.dtype], rows=rows, cols=cols,
                                weight_dtype=DTYPES[g.dtype], eps=eps, training=1, dg_dtype=F32, device=device_of(x)))


def rms_norm_forward_plan(x, g, eps, y, rstd, copies=None, backend=None):
    the_problem = rms_norm_problem(x, g, eps)
    args = filled(RmsNormForwardArgs(), x=x, g=g, y=y, rstd=rstd)
    with_copies(the_problem, args, copies)
    return Plan("rms_norm_forward", the_problem, args, x.device, backend)


def rms_norm_backward_plan(dy, x, g, rstd, eps, dx, dg, backend=None):
    args = filled(RmsNormBackwardArgs(), dy=dy, h=x, g=g, rstd=rstd, dx=dx, dg=dg)
    return Plan("rms_norm_backward", rms_norm_problem(x, g, eps), args, x.device, backend)


def heads_problem(kind, q, k, **more):
    """Rotates halves of whole heads; positions are 0 ... seq - 1, caches are f32."""
    batch, seq, q_heads, head_dim = q.shape
    return sized(kind(dtype=DTYPES[q.dtype], batch=batch, seq=seq, q_heads=q_heads,
                      k_heads=0 if k is None else k.shape[2], head_dim=head_dim,
                      rotation=sized(Rotation(style=ROTATE_HALF, cache_dtype=F32)),
                      device=device_of(q), **more))


def turned(args, cos, sin):
    args.rotation = RotationArgs(view(cos), view(sin))
    return args


def rope_forward_plan(q, k, q_out, k_out, cos, sin, backend=None):
    args = turned(filled(RopeForwardArgs(), q=q, k=k, q_out=q_out, k_out=k_out), cos, sin)
    return Plan("rope_forward", heads_problem(RopeProblem, q, k), args, q.device, backend)


def rope_backward_plan(dq_out, dk_out, dq, dk, cos, sin, backend=None):
    args = turned(filled(RopeBackwardArgs(), dq_out=dq_out, dk_out=dk_out, dq=dq, dk=dk), cos, sin)
    the_problem = heads_problem(RopeProblem, dq_out, dk_out)
    return Plan("rope_backward", the_problem, args, dq_out.device, backend)


def rms_norm_rope_problem(q, eps):
    return heads_problem(RmsNormRopeProblem, q, None, norm=NORM_ROW, weight_dtype=BF16, eps=eps,
                         training=1, dg_dtype=F32)


def rms_norm_rope_forward_plan(q, g, eps, q_out, rstd, cos, sin, backend=None):
    args = turned(filled(RmsNormRopeForwardArgs(), q=q, g_q=g, q_out=q_out, rstd_q=rstd), cos, sin)
    return Plan("rms_norm_rope_forward", rms_norm_rope_problem(q, eps), args, q.device, backend)


def rms_norm_rope_backward_plan(dq_out, q, g, rstd, eps, dq, dg, cos, sin, backend=None):
    args = turned(filled(RmsNormRopeBackwardArgs(), dq_out=dq_out, q=q, g_q=g, rstd_q=rstd, dq=dq,
                         dg_q=dg), cos, sin)
    return Plan("rms_norm_rope_backward", rms_norm_rope_problem(q, eps), args, q.device, backend)


def gated_problem(gate):
    rows, cols = gate.shape
    return sized(GatedActivationProblem(dtype=DTYPES[gate.dtype], rows=rows, cols=cols,
                                        activation=SILU, device=device_of(gate)))


def gated_forward_plan(gate, up, y=None, copies=None, backend=None):
    the_problem, args = gated_problem(gate), filled(GatedForwardArgs(), gate=gate, up=up, y=y)
    with_copies(the_problem, args, copies)
    return Plan("gated_activation_forward", the_problem, args, gate.device, backend)


def gated_backward_plan(dy, gate, up, dgate=None, dup=None, copies=None, backend=None):
    the_problem = gated_problem(gate)
    args = filled(GatedBackwardArgs(), dy=dy, gate=gate, up=up, dgate=dgate, dup=dup)
    with_copies(the_problem, args, copies)
    return Plan("gated_activation_backward", the_problem, args, gate.device, backend)
