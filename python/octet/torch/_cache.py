"""Weights in FP8 that are cast once per step of the optimiser instead of twice per micro-batch."""

import weakref
from collections.abc import Callable, Container
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from octet.torch._activation import QuantizedActivation
from octet.torch._formats import (
    DEFAULT_WGRAD,
    DTYPES,
    FORMATS,
    WEIGHT_BLOCKS,
    empty_quantized,
    formats_of,
    number,
    scaling_of,
)
from octet.torch._linear import QuantizedWeight
from octet.torch._operators import call, ops

_ATTRIBUTE = "_octet_cached_weights"
_MODELS, _WRITTEN = "_octet_cached_models", "_octet_written_caches"  # of an optimiser


def _state(w: Tensor) -> tuple[Any, ...]:
    """What changes when a parameter is written, moved or cast. Tensors of inference_mode count no writes."""
    return w.data_ptr(), w.dtype, w.device, w.shape, None if w.is_inference() else w._version


class Cast(NamedTuple):
    """How a layer casts its weights: its attributes as they are."""

    format: str
    granularity: str
    mx_scale: str

    @staticmethod
    def of(module: nn.Module) -> "Cast":
        format: Any = module.format
        return Cast(format, getattr(module, "granularity", "blockwise"), getattr(module, "mx_scale", "floor"))


class CachedWeight:
    """One weight in FP8, how it was cast, and the parameter and its state that it was cast from."""

    cast: Cast
    format: int  # the numbers of what cast says
    scaling: int

    def __init__(self, w: Tensor, cast: Cast, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.weight: QuantizedWeight | None = None
        self._parameter: Callable[[], Tensor | None] = lambda: None
        self._state: tuple[Any, ...] = ()
        self.refresh(w, cast)

    def refresh(self, w: Tensor, cast: Cast, dtype: torch.dtype | None = None) -> None:
        """Casts w, after rounding it to dtype; by default to that of the last time."""
        dtype = dtype or self.dtype
        format = number("format", formats_of(cast.format, None)[0], FORMATS)
        scaling = scaling_of(cast.granularity, DEFAULT_WGRAD, cast.mx_scale)
        block = WEIGHT_BLOCKS[scaling]
        weight = self.weight
        # Where the buffers fit they are written again: graphs and compiled code know their addresses.
        if weight is None or block != WEIGHT_BLOCKS[self.scaling] or (w.device, w.shape) != self._state[2:4]:
            n, k = w.shape
            row, column = (empty_quantized(*extents, block, w) for extents in ((n, k), (k, n)))
            weight = QuantizedWeight(*row, *column)
        call(ops.cast_weight_, w.detach().to(dtype), *weight, format, scaling)
        self.weight, self.cast, self.dtype, self.format, self.scaling = weight, cast, dtype, format, scaling
        self.mark_fresh(w)

    def mark_fresh(self, w: Tensor) -> None:
        """The buffers have w as it is now."""
        self._parameter, self._state = weakref.ref(w), _state(w)

    def fits(self, w: Tensor, cast: Cast) -> bool:
        """Whether a kernel that writes w can write the buffers too: it has scales of 128x128 blocks."""
        return (
            self.weight is not None
            and self.cast == cast
            and self.scaling == scaling_of("blockwise", DEFAULT_WGRAD)
            and (w.dtype, w.device, w.shape) == (self.dtype, *self._state[2:4])
            and type(w.data) is Tensor
            and w.is_contiguous()
            and w.numel() > 0
        )

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


def cached_weight(module: nn.Module, name: str, x: Any = None) -> QuantizedWeight | None:
    """The module's parameter in FP8 where cache_weights has been called.

    None for an x in FP8 of another format than the layer's: the layer takes its format from such an x.

    Cast anew if the parameter is not the one, or not in the state, that was cast, or if the layer's format or scales
    are others now. Inside torch.compile nothing is cast anew, and a cache of another format, of other scales or of
    another dtype than autocast's is not used.
    """
    cache = module.__dict__.get(_ATTRIBUTE)
    if cache is None:
        return None
    if isinstance(x, QuantizedActivation) and x.format != module.format:
        return None
    cached, w = cache[name], getattr(module, name)
    cast, dtype = Cast.of(module), product_dtype(w)
    fits = cached.dtype == dtype and cached.cast == cast
    if torch.compiler.is_compiling():
        return cached.weight if fits else None
    if not fits or not cached.is_fresh(w):
        cached.refresh(w, cast, dtype)
    return cached.weight


def refresh_weights(model: nn.Module) -> None:
    """Casts the cached weights of the model again.

    Needed after writes that torch does not count: through ``p.data``, to parameters of inference_mode, and, where the
    layers run in compiled code, every write but those of the optimiser that cache_weights was given.
    """
    _refresh(model, ())


def _refresh(model: nn.Module, written: Container[CachedWeight]) -> None:
    """Casts what is not in `written`."""
    for w, cast, cached in _caches(model):
        if cached not in written:
            cached.refresh(w, cast)


def _caches(model: nn.Module) -> list[tuple[Tensor, Cast, CachedWeight]]:
    """Every cached weight, how its layer casts it now, and its cache."""
    return [
        (getattr(module, name), Cast.of(module), cached)
        for module in model.modules()
        for name, cached in module.__dict__.get(_ATTRIBUTE, {}).items()
    ]


class StepCaches:
    """The caches that one step of an optimiser writes as it writes the parameters.

    What it does not write is cast after the step: further caches of a parameter that several layers share, caches of
    another dtype, parameters without a gradient.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._written: set[CachedWeight] = set()
        setattr(optimizer, _WRITTEN, self._written)
        # The first that fits; found anew in every step, because parameters may be replaced in between.
        self._of: dict[Tensor, CachedWeight] = {}
        for model in getattr(optimizer, _MODELS, ()):
            for w, cast, cached in _caches(model):
                if w not in self._of and cached.fits(w, cast):
                    self._of[w] = cached

    def to_write(self, w: Tensor) -> CachedWeight | None:
        return self._of.get(w)

    def written(self, cached: CachedWeight, w: Tensor) -> None:
        cached.mark_fresh(w)
        self._written.add(cached)


def cache_weights(
    model: nn.Module, optimizer: torch.optim.Optimizer | None = None, *, dtype: torch.dtype | None = None
) -> nn.Module:
    """Keeps the weights of octet's layers in FP8, both ways, and casts them in every step of the optimiser.

    Two bytes per weight; forward and backward cast no weights any more, however many micro-batches a step has. Results
    do not change in a single bit. In eager mode a layer also casts its weight anew where it was written, replaced,
    moved or cast since, or where the layer's format, granularity or mx_scale is another; compiled code then casts it in
    every pass until :func:`refresh_weights` or the next step. See :func:`refresh_weights` for the writes that nobody
    sees. Weights that are sharded (FSDP2, tensor parallel) are refused: their full form exists only while a layer runs.

    Args:
        model: with :class:`Linear`, :class:`QKV`, :class:`GatedMLP` or :class:`LinearCrossEntropy` inside.
        optimizer: its steps cast the weights again: :class:`AdamW` of octet in the kernel that writes them, which
            saves reading them once more; others when they are done. Without one, call :func:`refresh_weights` after
            each step.
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
            cast = Cast.of(module)
            cache = {name: CachedWeight(w, cast, dtype or product_dtype(w)) for name, w in weights.items()}
            setattr(module, _ATTRIBUTE, cache)
            found += 1
    if found == 0:
        raise ValueError("octet: the model has no layer of octet.torch; call octet.torch.convert first")
    if optimizer is not None:
        models = optimizer.__dict__.setdefault(_MODELS, [])
        if not any(known is model for known in models):
            models.append(model)
            optimizer.register_step_post_hook(lambda stepped, *_: _refresh(model, getattr(stepped, _WRITTEN, ())))
    return model
