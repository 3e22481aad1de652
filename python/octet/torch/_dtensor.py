"""Matrices of DTensors. torch flattens [batch, seq, C] where it is sharded along its first dimension, and evenly; newer
versions have a strided sharding for the others. What not every version flattens is gathered first, or moved to the
front."""

from collections.abc import Callable
from typing import Any

import torch.distributed
from torch import Tensor

if torch.distributed.is_available():
    from torch.distributed.tensor import DTensor, Replicate, Shard

    DTENSORS: tuple[Any, ...] = (DTensor,)
else:
    DTENSORS = ()


def _first(shape: Any) -> int:
    """The first dimension that has more than one element."""
    return next((i for i, size in enumerate(shape) if size != 1), 0)


def _flattens(x: Any, placement: Any, ranks: int) -> bool:
    """Whether [..., C] with this placement can be made [rows, C] without moving data."""
    if not isinstance(placement, Shard) or placement.dim == x.dim() - 1:
        return True
    return placement.dim <= _first(x.shape) and x.shape[placement.dim] % ranks == 0


def _gathered(x: Any) -> Any:
    """x, whole along the dimensions that stand in the way of flattening it."""
    mesh = x.device_mesh
    placements = [
        placement if _flattens(x, placement, mesh.size(i)) else Replicate()  # along this dimension of the mesh
        for i, placement in enumerate(x.placements)
    ]
    return x if placements == list(x.placements) else x.redistribute(placements=placements)


class _Shaped(torch.autograd.Function):
    """y.view(shape), whose gradient may be sharded in any way."""

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


def inner_shard_dim(x: Any) -> int | None:
    """The dimension that a DTensor ``[..., C]`` is sharded along, if it is one alone and torch does not flatten it."""
    if not isinstance(x, DTENSORS) or x.dim() < 3:
        return None
    dims = {p.dim for p in x.placements if isinstance(p, Shard) and p.dim != x.dim() - 1}
    return dims.pop() if len(dims) == 1 and not dims <= {0, _first(x.shape)} else None


def with_dim_in_front(dim: int, function: Callable[..., Any], *tensors: Tensor) -> Any:
    """A function that works on rows and returns a tensor or a tuple, of tensors whose dimension dim is moved to the
    front and back: nothing is gathered, for a copy of each tensor."""
    results = function(*(t.movedim(dim, 0) for t in tensors))
    return tuple(y.movedim(0, dim) for y in results) if isinstance(results, tuple) else results.movedim(0, dim)
