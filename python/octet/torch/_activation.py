"""Activations in FP8, both ways, for the layers that read them: one cast of x for several products."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from octet.torch._formats import FORMATS, WGRAD_BLOCKS, WGRADS, check_dtype, empty_quantized, number, rows_of
from octet.torch._operators import call, is_plain, ops
from octet.torch._quantize import Quantized


def empty_copies(x: Tensor, format: int, wgrad: int, save_x: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Row and transposed copy of x [rows, cols]: what the operators return, for their fake kernels."""
    rows, cols = x.shape
    row = empty_quantized(rows, cols, (1, 128), x)
    if not save_x:
        return *row, x.new_empty(0, dtype=torch.uint8), x.new_empty(0, dtype=torch.float32)
    return *row, *empty_quantized(cols, rows, WGRAD_BLOCKS[wgrad], x)


def empty_carrier(rows: int, cols: int, like: Tensor) -> Tensor:
    """The tensor through which gradients flow where a result exists in FP8 only; one element in memory."""
    return like.new_empty_strided((rows, cols), (0, 0))


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
        return ops.quantize(self.x, format, *WGRAD_BLOCKS[wgrad], True, False, 0.0)


def no_source() -> Source:
    """Not a constant: torch.compile with dynamic shapes would make an input of its float."""
    return Source(None, None, 0.0)


@dataclass(frozen=True, eq=False)
class QuantizedActivation:
    """An activation ``[..., K]`` in FP8: in 1x128 blocks for forward, and transposed for the weight gradient.

    Made by :func:`quantize_activation`, or by :func:`rms_norm` and :func:`swiglu` with ``quantized=True``; read by
    :func:`linear`, :func:`gated_mlp` and the modules, any number of times. Gradients flow through it.
    """

    carrier: Tensor  # [rows, K] in the activation's dtype: shape and gradient; its values are not read
    values: Tensor  # uint8, with scales: the matrix [rows, K]
    scales: Tensor
    t_values: Tensor  # uint8, with t_scales: its transpose [K, rows]; shape [0] if it was made without gradients
    t_scales: Tensor
    shape: torch.Size
    format: str
    wgrad: str
    source: "Source | None" = None  # what the transpose is made of in backward where it is not kept

    @property
    def dtype(self) -> torch.dtype:
        return self.carrier.dtype

    @property
    def device(self) -> torch.device:
        return self.carrier.device

    def row(self) -> Quantized:
        """The matrix that forward reads, ``[rows, K]`` in 1x128 blocks."""
        return Quantized(self.values, self.scales, *self.carrier.shape, self.format, "1x128")

    def transposed(self) -> Quantized | None:
        """What the weight gradient reads, ``[K, rows]`` in 1x128 or, with wgrad "2d", 128x128 blocks."""
        if self.t_values.dim() != 2:
            return None
        rows, cols = self.carrier.shape
        block = "1x128" if self.wgrad == "1d" else "128x128"
        return Quantized(self.t_values, self.t_scales, cols, rows, self.format, block)


def recipe_of(format: str, wgrad: str) -> tuple[int, int]:
    """The numbers of the operators."""
    return number("format", format, FORMATS), number("wgrad", wgrad, WGRADS)


def quantize_activation(
    x: Tensor, *, wgrad: str = "1d", format: str = "e4m3", recompute: bool = False
) -> QuantizedActivation:
    """x in FP8, both ways in one launch, for several layers that read it. Differentiable.

    Args:
        x: ``[..., K]``, float32, float16 or bfloat16.
        wgrad: blocks of the transposed copy, ``"1d"`` or ``"2d"``; see :func:`octet.torch.linear`.
        format: ``"e4m3"`` or ``"e5m2"``.
        recompute: keep x and cast x^T in backward, once per layer. Saves memory where something else keeps x as well.

    Without gradients (``torch.no_grad``) no transposed copy is made.
    """
    check_dtype("x", x)
    if x.dim() == 0 or x.numel() == 0:
        raise ValueError(f"octet: x must be [..., K] with at least one element, got {list(x.shape)}")
    flat = rows_of(x)
    recompute = recompute and is_plain(x)
    save_x = torch.is_grad_enabled() and not recompute
    copies = call(ops.cast_activation, flat.detach(), *recipe_of(format, wgrad), save_x)
    source = Source(flat, None, 0.0) if recompute and torch.is_grad_enabled() else None
    return QuantizedActivation(flat, *copies, x.shape, format, wgrad, source)
