"""Names of formats, blocks and dtypes, their numbers in octet's C API, and the shapes of quantised tensors."""

from typing import Any

import torch
from torch import Tensor

from octet.torch._dtensor import flattened

FORMATS = {"e4m3": 4, "e5m2": 5}
FLOAT8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
BLOCKS = {"1x128": (1, 128), "128x1": (128, 1), "128x128": (128, 128)}
WGRADS = {"1d": 1, "2d": 2}
# Over 500 steps of a Llama with 4 layers its loss is that of bf16 within 0.5 %, and its step is the faster one
# (docs/training.md).
DEFAULT_WGRAD = "2d"
WGRAD_BLOCKS = {1: (1, 128), 2: (128, 128)}
DTYPES = {torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}


def number(argument: str, name: Any, table: dict[Any, Any]) -> Any:
    """table[name], or a ValueError that lists what the argument may be."""
    try:
        return table[name]
    except (KeyError, TypeError):
        choices = ", ".join(str(key) if isinstance(key, torch.dtype) else repr(key) for key in table)
        raise ValueError(f"octet: {argument} must be one of {choices}, got {name!r}") from None


def check_dtype(argument: str, tensor: Tensor) -> None:
    """Refuses what is not a tensor of f32, f16 or bf16."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"octet: {argument} must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.dtype not in DTYPES:
        raise TypeError(f"octet: {argument} must be float32, float16 or bfloat16, got {tensor.dtype}")


def round_up(n: Any, to: int) -> Any:
    return (n + to - 1) // to * to


def empty_quantized(rows: Any, cols: Any, block: tuple[int, int], like: Tensor) -> tuple[Tensor, Tensor]:
    """Values and scales in octet's layout (docs/numerics.md): what the operators return, for their fake kernels."""
    blocks = ((rows + block[0] - 1) // block[0], (cols + block[1] - 1) // block[1])
    # Scales of 1x128 blocks lie column by column.
    lines, length = (blocks[1], blocks[0]) if block == (1, 128) else blocks
    values = like.new_empty((rows, round_up(cols, 128)), dtype=torch.uint8)
    return values, like.new_empty((lines, round_up(length, 4)), dtype=torch.float32)


def rows_of(x: Tensor) -> Tensor:
    """x as a matrix [rows, last dimension] whose columns are contiguous; a copy only where it must be."""
    flat = x if x.dim() == 2 else flattened(x)
    if flat.is_contiguous():
        return flat
    return flat if flat.stride(-1) == 1 and flat.stride(0) >= flat.shape[-1] else flat.contiguous()


def heads_of(x: Tensor) -> Tensor:
    """A copy where the last dimension is not contiguous or elements share memory, as in an expanded gradient."""
    return x if x.stride(-1) == 1 and all(s > 0 for s in x.stride()) else x.contiguous()
