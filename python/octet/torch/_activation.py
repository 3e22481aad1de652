"""Activations in FP8, both ways, for the layers that read them: one cast of x for several products."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree

from octet.torch._formats import (
    BLOCK_NAMES,
    DEFAULT_WGRAD,
    FOLDS,
    FORMATS,
    ROW_BLOCKS,
    SCALINGS,
    WGRAD_BLOCKS,
    check_dtype,
    empty_quantized,
    number,
    operand_format,
    rows_of,
    scaling_of,
)
from octet.torch._operators import call, is_plain, ops
from octet.torch._quantize import Quantized


def empty_copies(x: Tensor, format: int, wgrad: int, save_x: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Row and transposed copy of x [rows, cols]: what the operators return, for their fake kernels."""
    rows, cols = x.shape
    row = empty_quantized(rows, cols, ROW_BLOCKS[wgrad], x)
    if not save_x:
        return *row, x.new_empty(0, dtype=torch.uint8), x.new_empty(0, dtype=torch.float32)
    return *row, *empty_quantized(cols, rows, WGRAD_BLOCKS[wgrad], x)


def empty_carrier(shape: Any, like: Tensor) -> Tensor:
    """The tensor through which gradients flow where a result exists in FP8 only; one element in memory."""
    return like.new_empty_strided(tuple(shape), (0, 0))


@torch.library.register_fake("octet::cast_activation")
def _(x: Tensor, format: int, wgrad: int, save_x: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return empty_copies(x, format, wgrad, save_x)


class Source(NamedTuple):
    """What backward makes x^T of again: x itself, or the input of the norm whose result x is."""

    x: Tensor | None
    g: Tensor | None
    eps: float

    def transposed(self, format: int, wgrad: int) -> tuple[Tensor, Tensor]:
        """Values and scales of x^T."""
        assert self.x is not None
        if self.g is not None:
            return ops.rms_norm_transposed(self.x, self.g, self.eps, format, wgrad)
        return ops.quantize(self.x, format, *WGRAD_BLOCKS[wgrad], True, False, 0.0, *FOLDS[wgrad])


def no_source() -> Source:
    """Not a constant: torch.compile with dynamic shapes would make an input of its float."""
    return Source(None, None, 0.0)


_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


class Bits(NamedTuple):
    """A tensor of floats as integers, which nobody casts to another dtype and through which no gradient flows."""

    integers: Tensor
    dtype: torch.dtype

    def floats(self) -> Tensor:
        return self.integers.view(self.dtype)


def _bits(t: Tensor) -> Bits:
    return Bits(t.detach().view(_INTEGERS[t.element_size()]), t.dtype)


class _OtherDtype(torch.autograd.Function):
    """A carrier in another dtype. Its values are not read: one element in memory, whatever the carrier has."""

    @staticmethod
    def forward(ctx: Any, carrier: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.dtype = carrier.dtype
        return carrier.new_zeros((1, 1), dtype=dtype).expand(carrier.shape)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return dy.to(ctx.dtype), None


@dataclass(frozen=True, eq=False)
class QuantizedActivation:
    """An activation ``[..., K]`` in FP8: with scales along K for forward, and transposed for the weight gradient.

    Made by :func:`quantize_activation`, or by :func:`rms_norm` and :func:`swiglu` with ``quantized=True``; read by
    :func:`linear`, :func:`gated_mlp` and the modules, any number of times. Gradients flow through it. A layer whose
    weight has another dtype reads it as it is; the result has the weight's.

    FSDP2 looks into dataclasses for tensors that need its hooks, and casts the floats it finds where mixed precision
    is on. So scales are integers here; the carrier alone is a float.
    """

    carrier: Tensor  # [rows, K] in the activation's dtype: shape and gradient; its values are not read
    values: Tensor  # uint8, with scales: the matrix [rows, K]
    scale_bits: Bits
    t_values: Tensor  # uint8, with t_scales: its transpose [K, rows]; shape [0] if it was made without gradients
    t_scale_bits: Bits
    shape: torch.Size
    format: str
    wgrad: str
    source_bits: tuple[Bits, Bits | None, float] | None = None  # see source
    granularity: str = "blockwise"
    mx_scale: str = "floor"

    @staticmethod
    def make(
        carrier: Tensor,
        copies: Any,
        shape: torch.Size,
        format: str,
        wgrad: str,
        source: Source | None = None,
        granularity: str = "blockwise",
        mx_scale: str = "floor",
    ) -> "QuantizedActivation":
        """Of the four tensors of an operator: values, scales, t_values, t_scales."""
        values, scales, t_values, t_scales = copies
        kept = None
        if source is not None and source.x is not None:
            kept = (_bits(source.x), None if source.g is None else _bits(source.g), source.eps)
        return QuantizedActivation(
            carrier, values, _bits(scales), t_values, _bits(t_scales), shape, format, wgrad, kept, granularity, mx_scale
        )

    @property
    def scales(self) -> Tensor:
        return self.scale_bits.floats()

    @property
    def t_scales(self) -> Tensor:
        return self.t_scale_bits.floats()

    @property
    def source(self) -> Source | None:
        """What the transpose is made of in backward where it is not kept."""
        if self.source_bits is None:
            return None
        x, g, eps = self.source_bits
        return Source(x.floats(), None if g is None else g.floats(), eps)

    @property
    def dtype(self) -> torch.dtype:
        return self.carrier.dtype

    @property
    def device(self) -> torch.device:
        return self.carrier.device

    def to(self, dtype: torch.dtype) -> "QuantizedActivation":
        """The same bits with another dtype: that of the results of the layers that read them."""
        if dtype == self.dtype:
            return self
        carrier = _OtherDtype.apply(self.carrier, dtype) if is_plain(self.carrier) else self.carrier.to(dtype)
        bits = (self.values, self.scale_bits, self.t_values, self.t_scale_bits)
        shape, format, wgrad, shared = self.shape, self.format, self.wgrad, (self.granularity, self.mx_scale)
        return QuantizedActivation(carrier, *bits, shape, format, wgrad, self.source_bits, *shared)

    def row(self) -> Quantized:
        """The matrix that forward reads, ``[rows, K]``: in 1x128 blocks, with a scale per row or one for all."""
        rows, cols = self.carrier.shape
        block = ROW_BLOCKS[scaling_of(self.granularity, self.wgrad)]
        return Quantized(self.values, self.scales, rows, cols, self.format, BLOCK_NAMES[block])

    def transposed(self) -> Quantized | None:
        """What the weight gradient reads, ``[K, rows]``: in 1x128 blocks or, with wgrad "2d", 128x128 ones; with a
        scale per row or one for all."""
        if self.t_values.dim() != 2:
            return None
        rows, cols = self.carrier.shape
        block = WGRAD_BLOCKS[scaling_of(self.granularity, self.wgrad)]
        return Quantized(self.t_values, self.t_scales, cols, rows, self.format, BLOCK_NAMES[block])


# For the FSDP2 of older versions of torch, torch.export and others, which look into pytrees.
def _flatten(q: QuantizedActivation) -> tuple[list[Any], Any]:
    x, g, eps = (None, None, None) if q.source_bits is None else q.source_bits
    bits = (q.scale_bits, q.t_scale_bits, x, g)
    leaves = [q.carrier, q.values, q.t_values, *(None if b is None else b.integers for b in bits)]
    dtypes = tuple(None if b is None else b.dtype for b in bits)
    return leaves, (dtypes, eps, tuple(q.shape), q.format, q.wgrad, q.granularity, q.mx_scale)


def _unflatten(leaves: Any, context: Any) -> QuantizedActivation:
    carrier, values, t_values, *integers = leaves
    dtypes, eps, shape, format, wgrad, *shared = context
    bits: list[Any] = [None if d is None else Bits(t, d) for t, d in zip(integers, dtypes, strict=True)]
    scales, t_scales, x, g = bits
    source = None if eps is None else (x, g, eps)
    copies = (values, scales, t_values, t_scales)
    return QuantizedActivation(carrier, *copies, torch.Size(shape), format, wgrad, source, *shared)


_pytree.register_pytree_node(
    QuantizedActivation, _flatten, _unflatten, serialized_type_name="octet.torch.QuantizedActivation"
)


_RECIPES = {(format, *shared): (FORMATS[format], n) for format in FORMATS for shared, n in SCALINGS.items()}


def recipe_of(
    format: str,
    wgrad: str,
    granularity: str = "blockwise",
    mx_scale: str = "floor",
    fast_accumulation: bool = False,
) -> tuple[int, int]:
    """The numbers of the operators."""
    recipe = (format, granularity, wgrad, mx_scale, fast_accumulation)
    if recipe in _RECIPES:
        return _RECIPES[recipe]
    return number("format", format, FORMATS), scaling_of(*recipe[1:])


def quantize_activation(
    x: Tensor,
    *,
    wgrad: str = DEFAULT_WGRAD,
    format: str = "e4m3",
    recompute: bool = False,
    granularity: str = "blockwise",
    mx_scale: str = "floor",
) -> QuantizedActivation:
    """x in FP8, both ways in one launch, for several layers that read it. Differentiable.

    Args:
        x: ``[..., K]``, float32, float16 or bfloat16.
        wgrad: blocks of the transposed copy, ``"1d"`` or ``"2d"``; see :func:`octet.torch.linear`.
        format: ``"e4m3"`` or ``"e5m2"``; ``"hybrid"``, as layers have it, is e4m3 here.
        recompute: keep x and cast x^T in backward, once per layer. Saves memory where something else keeps x as well.
        granularity, mx_scale: those of the layers; see :func:`octet.torch.linear`.

    Without gradients (``torch.no_grad``) no transposed copy is made.
    """
    check_dtype("x", x)
    if x.dim() == 0 or x.shape[-1] == 0:
        raise ValueError(f"octet: x must be [..., K] with K at least 1, got {list(x.shape)}")
    flat = rows_of(x)
    recompute = recompute and is_plain(x)
    save_x = torch.is_grad_enabled() and not recompute
    format = operand_format(format)
    recipe = recipe_of(format, wgrad, granularity, mx_scale)
    copies = call(ops.cast_activation, flat.detach(), *recipe, save_x)
    source = Source(flat, None, 0.0) if recompute and torch.is_grad_enabled() else None
    return QuantizedActivation.make(flat, copies, x.shape, format, wgrad, source, granularity, mx_scale)
