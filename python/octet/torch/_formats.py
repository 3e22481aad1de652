"""Names of formats, blocks and dtypes, their numbers in octet's C API, and the shapes of quantised tensors."""

from typing import Any

import torch
from torch import Tensor

from octet.torch._dtensor import flattened

FORMATS = {"e4m3": 4, "e5m2": 5}
FLOAT8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
ALL = -1  # as rows or columns of a block: all of the matrix's
BLOCKS = {
    "1x128": (1, 128),
    "128x1": (128, 1),
    "128x128": (128, 128),
    "1xall": (1, ALL),
    "allx1": (ALL, 1),
    "allxall": (ALL, ALL),
    "1x32": (1, 32),
    "32x32": (32, 32),
}
BLOCK_NAMES = {block: name for name, block in BLOCKS.items()}
WGRADS = {"1d": 1, "2d": 2}
GRANULARITIES = {"blockwise": 0, "tensorwise": 1, "rowwise": 2, "mxfp8": 3}
MX_SCALES = {"floor": 0, "even": 1, "up": 2}
_KINDS = {
    ("blockwise", "1d"): 1,
    ("blockwise", "2d"): 2,
    ("tensorwise", "1d"): 3,
    ("tensorwise", "2d"): 3,
    ("rowwise", "1d"): 4,
    ("rowwise", "2d"): 4,
    ("mxfp8", "1d"): 5,
    ("mxfp8", "2d"): 6,
}
# How a layer's scales are shared, by the number that the operators call wgrad (src/torch/layer.hpp), of granularity,
# wgrad, mx_scale and fast_accumulation. tensorwise and rowwise layers have one for either wgrad.
SCALINGS = {
    **{(*shared, "floor", False): kind for shared, kind in _KINDS.items()},
    **{(*shared, "floor", True): kind + 6 for shared, kind in _KINDS.items() if kind in (3, 4)},
    **{(*shared, s, False): kind + 6 * n for shared, kind in _KINDS.items() if kind > 4 for s, n in MX_SCALES.items()},
}
_KIND_OF = {n: (n - 1) % 6 + 1 for n in SCALINGS.values()}
# The blocks of x (and dy), of w and of x^T by that number.
_WHOLE = {3: (ALL, ALL), 4: (1, ALL)}
ROW_BLOCKS = {n: _WHOLE.get(kind, (1, 128)) for n, kind in _KIND_OF.items()}
WEIGHT_BLOCKS = {n: _WHOLE.get(kind, (128, 128)) for n, kind in _KIND_OF.items()}
# (fold_mx, mx_scale) of its casts, as quantize takes them.
FOLDS = {n: (kind > 4, (n - 1) // 6 if kind > 4 else 0) for n, kind in _KIND_OF.items()}
# Over 500 steps of a Llama with 4 layers its loss is that of bf16 within 0.5 %, and its step is the faster one
# (docs/training.md).
DEFAULT_WGRAD = "2d"
WGRAD_BLOCKS = {n: (128, 128) if kind in (2, 6) else ROW_BLOCKS[n] for n, kind in _KIND_OF.items()}
DTYPES = {torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}


def number(argument: str, name: Any, table: dict[Any, Any]) -> Any:
    """table[name], or a ValueError that lists what the argument may be."""
    try:
        return table[name]
    except (KeyError, TypeError):
        choices = ", ".join(str(key) if isinstance(key, torch.dtype) else repr(key) for key in table)
        raise ValueError(f"octet: {argument} must be one of {choices}, got {name!r}") from None


def scaling_of(granularity: str, wgrad: str, mx_scale: str = "floor", fast_accumulation: bool = False) -> int:
    number("granularity", granularity, GRANULARITIES)
    number("wgrad", wgrad, WGRADS)
    number("mx_scale", mx_scale, MX_SCALES)
    number("fast_accumulation", fast_accumulation, {False: 0, True: 1})
    if fast_accumulation and granularity not in ("tensorwise", "rowwise"):
        raise ValueError(
            "octet: fast_accumulation needs granularity 'tensorwise' or 'rowwise', whose scales are applied at the end "
            f"of a product, got {granularity!r}"
        )
    if mx_scale != "floor" and granularity != "mxfp8":
        raise ValueError(f"octet: mx_scale={mx_scale!r} needs granularity 'mxfp8', got {granularity!r}")
    return SCALINGS[granularity, wgrad, mx_scale, bool(fast_accumulation)]


def formats_of(format: str | None, grad_format: str | None) -> tuple[str | None, str]:
    """The formats of x and w and of dy: "hybrid" is e4m3 with gradients in e5m2."""
    if format != "hybrid":
        return format, grad_format or "e4m3"
    if grad_format not in (None, "e5m2"):
        raise ValueError(f"octet: format='hybrid' has gradients in e5m2, got grad_format={grad_format!r}")
    return "e4m3", "e5m2"


def operand_format(format: str) -> str:
    """That of x and w, where it is given as that of a layer."""
    return "e4m3" if format == "hybrid" else format


def check_dtype(argument: str, tensor: Tensor) -> None:
    """Refuses what is not a tensor of f32, f16 or bf16."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"octet: {argument} must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.dtype not in DTYPES:
        raise TypeError(f"octet: {argument} must be float32, float16 or bfloat16, got {tensor.dtype}")


def round_up(n: Any, to: int) -> Any:
    return (n + to - 1) // to * to


def blocks_along(n: Any, block: int) -> Any:
    return 1 if block == ALL else (n + block - 1) // block


def scales_by_column(block: tuple[int, int]) -> bool:
    """Whether the scales of such blocks lie column by column."""
    return block in ((1, 128), (1, ALL), (ALL, ALL))


def is_mx(block: tuple[int, int]) -> bool:
    return block[1] == 32


def empty_quantized(rows: Any, cols: Any, block: tuple[int, int], like: Tensor) -> tuple[Tensor, Tensor]:
    """Values and scales in octet's layout (docs/numerics.md): what the operators return, for their fake kernels."""
    blocks = (blocks_along(rows, block[0]), blocks_along(cols, block[1]))
    lines, length = (blocks[1], blocks[0]) if scales_by_column(block) else blocks
    values = like.new_empty((rows, round_up(cols, 128)), dtype=torch.uint8)
    dtype = torch.uint8 if is_mx(block) else torch.float32
    return values, like.new_empty((lines, round_up(length, 4)), dtype=dtype)


def rows_of(x: Tensor) -> Tensor:
    """x as a matrix [rows, last dimension] whose columns are contiguous; a copy only where it must be."""
    flat = x if x.dim() == 2 else flattened(x)
    if flat.is_contiguous():
        return flat
    return flat if flat.stride(-1) == 1 and flat.stride(0) >= flat.shape[-1] else flat.contiguous()


def heads_of(x: Tensor) -> Tensor:
    """A copy where the last dimension is not contiguous or elements share memory, as in an expanded gradient."""
    return x if x.stride(-1) == 1 and all(s > 0 for s in x.stride()) else x.contiguous()
