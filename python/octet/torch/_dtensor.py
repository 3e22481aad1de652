"""Matrices of DTensors. torch flattens [batch, seq, C] where it is cut along its first dimension, and evenly; newer
versions have a strided cut for the others. What not every version flattens is gathered first, or moved to the front."""

from collections.abc import Callable
from typing import Any

import torch.distributed
from torch import Tensor

if torch.distributed.is_available():
    from torch.distributed.tensor import DTensor, Replicate, Shard

    DTENSORS: tuple[type, ...] = (DTensor,)
else:
    DTENSORS = ()


def _first(shape: Any) -> int:
    """The first dimension that has more than one element."""
    return next((i for i, size in enumerate(shape) if size != 1), 0)


def _flattens(x: Any, cut: Any, ranks: int) -> bool:
    """Whether [..., C] with this cut can be made [rows, C] without moving data."""
    if not isinstance(cut, Shard) or cut.dim == x.dim() - 1:
        return True
    return cut.dim <= _first(x.shape) and x.shape[cut.dim] % ranks == 0


def _gathered(x: Any) -> Any:
    """x, whole along the dimensions that stand in the way of flattening it."""
    mesh = x.device_mesh
    placements = [
        cut if _flattens(x, cut, mesh.size(i)) else Replicate()  # along this dimension of the mesh
        for i, cut in enumerate(x.placements)
    ]
    return x if placements == list(x.placements) else x.redistribute(placements=placements)


class _Shaped(torch.autograd.Function):
    """y.view(shape), whose gradient may be cut in any way."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, shape: Any) -> Tensor:
        return y.view(shape)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return flattened(dy), None


def flattened(x: Tensor) -> Tensor:
    """``[..., C]`` as ``[rows, C]``."""
    if isinstance(x, DTENSORS):
        x = _gathered(x)
    return x.reshape(-1, x.shape[-1])


def shaped(y: Tensor, shape: Any) -> Tensor:
    """``[rows, C]`` as ``shape``, the inverse of flattened."""
    return _Shaped.apply(y, shape) if isinstance(y, DTENSORS) else y.view(shape)


def inner_cut(x: Tensor) -> int | None:
    """The dimension that a DTensor ``[..., C]`` is cut along, if it is the only one and torch does not flatten it."""
    if not isinstance(x, DTENSORS) or x.dim() < 3:
        return None
    cuts = {cut.dim for cut in x.placements if isinstance(cut, Shard) and cut.dim != x.dim() - 1}
    return cuts.pop() if len(cuts) == 1 and not cuts <= {0, _first(x.shape)} else None


def with_cut_in_front(dim: int, function: Callable[..., Any], *tensors: Tensor) -> Any:
    """A function that works on rows and returns a tensor or a tuple, of tensors whose dimension dim is moved to the
    front and back: nothing is gathered, for a copy of each tensor."""
    results = function(*(t.movedim(dim, 0) for t in tensors))
    return tuple(y.movedim(0, dim) for y in results) if isinstance(results, tuple) else results.movedim(0, dim)
