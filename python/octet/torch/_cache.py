"""Weights in FP8 that are cast once per step of the optimiser instead of twice per micro-batch."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from octet.torch._formats import DTYPES, FORMATS, empty_quantized, number
from octet.torch._linear import QuantizedWeight
from octet.torch._operators import call, ops

_ATTRIBUTE = "_octet_cached_weights"


def _state(w: Tensor) -> tuple[Any, ...]:
    """What changes when a parameter is written, moved or cast. Tensors of inference_mode count no writes."""
    return w.data_ptr(), w.dtype, w.device, w.shape, None if w.is_inference() else w._version


class _Cached:
    """One weight in FP8, and the parameter and its state that it was cast from."""

    def __init__(self, w: Tensor, format: str, dtype: torch.dtype) -> None:
        self.format = number("format", format, FORMATS)
        self.dtype = dtype
        self.weight: QuantizedWeight | None = None
        self._parameter: Callable[[], Tensor | None] = lambda: None
        self._state: tuple[Any, ...] = ()
        self.refresh(w)

    def refresh(self, w: Tensor, dtype: torch.dtype | None = None) -> None:
        """Casts w, after rounding it to dtype; by default to that of the last time."""
        self.dtype = dtype or self.dtype
        # Where the buffers fit they are written again: graphs and compiled code know their addresses.
        if self.weight is None or (w.device, w.shape) != self._state[2:4]:
            n, k = w.shape
            row, column = (empty_quantized(*extents, (128, 128), w) for extents in ((n, k), (k, n)))
            self.weight = QuantizedWeight(*row, *column)
        call(ops.cast_weight_, w.detach().to(self.dtype), *self.weight, self.format)
        self._parameter, self._state = weakref.ref(w), _state(w)

    def is_fresh(self, w: Tensor) -> bool:
        return self._parameter() is w and self._state == _state(w)

    def __getstate__(self) -> dict[str, Any]:
        """For copies, whose parameter is another: they cast anew."""
        return {**self.__dict__, "_parameter": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _parameter=lambda: None)


def product_dtype(w: Tensor) -> torch.dtype:
    """The dtype that a layer sees its weight in: that of autocast, where it is on."""
    device = w.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else w.dtype


def cached_weight(module: nn.Module, name: str) -> QuantizedWeight | None:
    """The module's parameter in FP8 where cache_weights has been called.

    Cast anew if the parameter is not the one, or not in the state, that was cast. Inside torch.compile nothing is cast
    anew, and a cache of another dtype than autocast's is not used.
    """
    cache = module.__dict__.get(_ATTRIBUTE)
    if cache is None:
        return None
    cached, w = cache[name], getattr(module, name)
    dtype = product_dtype(w)
    if torch.compiler.is_compiling():
        return cached.weight if cached.dtype == dtype else None
    if cached.dtype != dtype or not cached.is_fresh(w):
        cached.refresh(w, dtype)
    return cached.weight


def refresh_weights(model: nn.Module) -> None:
    """Casts the cached weights of the model again.

    Needed after writes that torch does not count: through ``p.data``, to parameters of inference_mode, and, where the
    layers run in compiled code, every write but those of the optimiser that cache_weights was given.
    """
    for module in model.modules():
        for name, cached in module.__dict__.get(_ATTRIBUTE, {}).items():
            cached.refresh(getattr(module, name))


def cache_weights(
    model: nn.Module, optimizer: torch.optim.Optimizer | None = None, *, dtype: torch.dtype | None = None
) -> nn.Module:
    """Keeps the weights of octet's layers in FP8, both ways, and casts them after every step of the optimiser.

    Two bytes per weight; forward and backward cast no weights any more, however many micro-batches a step has. Results
    do not change in a single bit. In eager mode a layer also casts its weight anew where it was written, replaced,
    moved or cast since; see :func:`refresh_weights` for the writes that nobody sees. Weights that are sharded (FSDP2,
    tensor parallel) are refused: their full form exists only while a layer runs.

    Args:
        model: with :class:`Linear`, :class:`QKV`, :class:`GatedMLP` or :class:`LinearCrossEntropy` inside.
        optimizer: its steps cast the weights again. Without one, call :func:`refresh_weights` after each step.
        dtype: that the weights are rounded to first; autocast's, where a compiled model runs under autocast. Eager
            layers find out by themselves.

    Returns:
        the model.
    """
    if dtype is not None:
        number("dtype", dtype, DTYPES)
    found = 0
    for module_name, module in model.named_modules():
        weights = {name: getattr(module, name) for name in getattr(module, "_octet_weights", ())}
        for name, w in weights.items():
            if type(w.data) is not Tensor:
                raise ValueError(
                    f"octet: {module_name}.{name} is a {type(w.data).__name__}; only plain tensors are cached"
                )
        if weights:
            format: Any = module.format
            cache = {name: _Cached(w, format, dtype or product_dtype(w)) for name, w in weights.items()}
            setattr(module, _ATTRIBUTE, cache)
            found += 1
    if found == 0:
        raise ValueError("octet: the model has no layer of octet.torch; call octet.torch.convert first")
    if optimizer is not None:

        def refresh(*_: Any) -> None:
            refresh_weights(model)

        optimizer.register_step_post_hook(refresh)
    return model
