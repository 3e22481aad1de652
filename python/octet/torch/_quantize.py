"""FP8 tensors and their scales: of blocks, rows, columns and whole tensors."""

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

from octet.torch._formats import (
    BLOCKS,
    DTYPES,
    FLOAT8,
    FORMATS,
    MX_SCALES,
    blocks_along,
    check_dtype,
    empty_quantized,
    is_mx,
    number,
    rows_of,
    scales_by_column,
)
from octet.torch._operators import call, ops


@torch.library.register_fake("octet::quantize")
def _(
    x: Tensor,
    format: int,
    block_rows: int,
    block_cols: int,
    transposed: bool,
    pow2_scales: bool,
    amax_floor: float,
    fold_mx: bool,
    mx_scale: int = 0,
) -> tuple[Tensor, Tensor]:
    rows, cols = (x.shape[1], x.shape[0]) if transposed else x.shape
    return empty_quantized(rows, cols, (block_rows, block_cols), x)


@torch.library.register_fake("octet::cast_weight_")
def _(w: Tensor, values: Tensor, scales: Tensor, t_values: Tensor, t_scales: Tensor, format: int, wgrad: int) -> None:
    return None


@torch.library.register_fake("octet::dequantize")
def _(
    values: Tensor,
    scales: Tensor,
    rows: int,
    cols: int,
    format: int,
    block_rows: int,
    block_cols: int,
    dtype: int,
) -> Tensor:
    return values.new_empty(rows, cols, dtype={number: torch_dtype for torch_dtype, number in DTYPES.items()}[dtype])


class Quantized:
    """A matrix ``[rows, cols]`` in FP8 with one scale per block: ``x = value * scale``.

    ``data`` and ``scale_data`` are what octet's operators read and write, padding included (docs/numerics.md);
    ``values`` and ``scales`` are views of the logical extents.
    """

    def __init__(
        self,
        data: Tensor,  # uint8 [rows, cols padded to 128]
        scale_data: Tensor,  # float32; uint8, the exponents plus 127, of mx blocks
        rows: int,
        cols: int,
        format: str,
        block: str,
    ) -> None:
        self.data, self.scale_data, self.rows, self.cols = data, scale_data, rows, cols
        self.format, self.block = format, block

    def __repr__(self) -> str:
        return f"Quantized([{self.rows}, {self.cols}], format={self.format!r}, block={self.block!r})"

    @property
    def values(self) -> Tensor:
        """``[rows, cols]``, float8_e4m3fn or float8_e5m2."""
        return self.data.view(FLOAT8[self.format])[:, : self.cols]

    @property
    def scales(self) -> Tensor:
        """``[ceil(rows / block rows), ceil(cols / block cols)]``, float32; float8_e8m0fnu of mx blocks."""
        block = BLOCKS[self.block]
        shape = (blocks_along(self.rows, block[0]), blocks_along(self.cols, block[1]))
        scales = self.scale_data.view(torch.float8_e8m0fnu) if is_mx(block) else self.scale_data
        return (scales.t() if scales_by_column(block) else scales)[: shape[0], : shape[1]]


# The scales are leaves as integers: what casts the floats of a pytree to another dtype would cast them.
def _flatten(q: Quantized) -> tuple[list[Any], Any]:
    scales = q.scale_data if q.scale_data.dtype == torch.uint8 else q.scale_data.view(torch.int32)
    return [q.data, scales], (q.rows, q.cols, q.format, q.block)


def _unflatten(leaves: Any, context: Any) -> Quantized:
    data, scales = leaves
    is_f32 = isinstance(scales, Tensor) and scales.dtype == torch.int32
    return Quantized(data, scales.view(torch.float32) if is_f32 else scales, *context)


_pytree.register_pytree_node(Quantized, _flatten, _unflatten, serialized_type_name="octet.torch.Quantized")


def quantize(
    x: Tensor,
    block: str = "1x128",
    *,
    format: str = "e4m3",
    transposed: bool = False,
    pow2_scales: bool = False,
    amax_floor: float = 0.0,
    mx_scale: str = "floor",
) -> Quantized:
    """x in FP8, with the largest magnitude of each block at the format's largest number.

    Args:
        x: ``[rows, cols]``, float32, float16 or bfloat16.
        block: that shares a scale, in the coordinates of the result: ``"1x128"``, ``"128x1"``, ``"128x128"``; a row,
            column or the tensor, ``"1xall"``, ``"allx1"``, ``"allxall"``; or an mx block with its power of two,
            ``"1x32"``, ``"32x32"``.
        format: ``"e4m3"`` or ``"e5m2"``.
        transposed: quantise x^T ``[cols, rows]``, as the weight gradient reads it.
        pow2_scales: round scales up to powers of two.
        amax_floor: smallest magnitude that a block's scale is made for, 0 to 1e18.
        mx_scale: of mx blocks, how the power of two follows from the largest magnitude: ``"floor"``, as OCP MX has it,
            ``"even"`` or ``"up"``; see :func:`octet.torch.linear`.

    Not differentiable.
    """
    check_dtype("x", x)
    block_rows, block_cols = number("block", block, BLOCKS)
    if x.dim() != 2:
        raise ValueError(f"octet: x must be a matrix [rows, cols], got {list(x.shape)}")
    data, scale_data = call(
        ops.quantize,
        rows_of(x.detach()),
        number("format", format, FORMATS),
        block_rows,
        block_cols,
        transposed,
        pow2_scales,
        amax_floor,
        False,
        number("mx_scale", mx_scale, MX_SCALES),
    )
    rows, cols = (x.shape[1], x.shape[0]) if transposed else (x.shape[0], x.shape[1])
    return Quantized(data, scale_data, rows, cols, format, block)


def dequantize(q: Quantized, dtype: torch.dtype = torch.float32) -> Tensor:
    """``value * scale``, ``[rows, cols]`` in float32, float16 or bfloat16."""
    if not isinstance(q, Quantized):
        raise TypeError(f"octet: q must be an octet.torch.Quantized, got {type(q).__name__}")
    dtype_number = number("dtype", dtype, DTYPES)
    if q.data.device != q.scale_data.device:  # a kernel would read the memory of another device
        raise ValueError(f"octet: q has values on {q.data.device} and scales on {q.scale_data.device}")
    return call(
        ops.dequantize,
        q.data,
        q.scale_data,
        q.rows,
        q.cols,
        number("format", q.format, FORMATS),
        *number("block", q.block, BLOCKS),
        dtype_number,
    )
