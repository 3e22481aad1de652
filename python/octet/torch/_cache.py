"""Weights in FP8 that are cast once per step of the optimiser instead of twice per micro-batch."""

from typing import Any

import torch
from torch import Tensor, nn

from octet.torch._formats import FORMATS, empty_quantized, number
from octet.torch._linear import QuantizedWeight
from octet.torch._operators import call, ops

# The parameters of a module that can be cached, by the name of its class.
_PARAMETERS = {"Linear": ("weight",), "QKV": ("weight",), "GatedMLP": ("w_gate_up", "w_down")}
_ATTRIBUTE = "_octet_cached_weights"


class _Cached:
    """One weight in FP8, and the version of the parameter that it was cast from."""

    def __init__(self, w: Tensor, format: str) -> None:
        n, k = w.shape
        row, column = (empty_quantized(*extents, (128, 128), w) for extents in ((n, k), (k, n)))
        self.weight = QuantizedWeight(*row, *column)
        self.format = number("format", format, FORMATS)
        self.version = -1
        self.refresh(w)

    def refresh(self, w: Tensor) -> None:
        if w.device != self.weight.values.device:
            raise ValueError(
                f"octet: the weight is on {w.device} and its cache on {self.weight.values.device}; "
                "call cache_weights after the model has been moved"
            )
        call(ops.cast_weight_, w.detach(), *self.weight, self.format)
        self.version = w._version


def cached_weight(module: nn.Module, name: str) -> QuantizedWeight | None:
    """The module's parameter in FP8 where cache_weights has been called. Cast anew if the parameter was written since;
    inside torch.compile only the optimiser's hook and refresh_weights do that."""
    cache = module.__dict__.get(_ATTRIBUTE)
    if cache is None:
        return None
    cached = cache[name]
    if not torch.compiler.is_compiling():
        w = getattr(module, name)
        if w._version != cached.version:
            cached.refresh(w)
    return cached.weight


def refresh_weights(model: nn.Module) -> None:
    """Casts the cached weights of the model again: after they were written other than by the optimiser."""
    for module in model.modules():
        for name, cached in module.__dict__.get(_ATTRIBUTE, {}).items():
            cached.refresh(getattr(module, name))


def cache_weights(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> nn.Module:
    """Keeps the weights of octet's layers in FP8, both ways, and casts them after every step of the optimiser.

    Two bytes per weight; forward and backward cast no weights any more, however many micro-batches a step has. Call it
    when the model is on its device. Results do not change in a single bit. Weights that are sharded (FSDP2, tensor
    parallel) are refused: their full form exists only while a layer runs.

    Args:
        model: with :class:`Linear`, :class:`QKV` or :class:`GatedMLP` inside.
        optimizer: its steps cast the weights again. Without one, call :func:`refresh_weights` after each step.

    Returns:
        the model.
    """
    found = 0
    for module_name, module in model.named_modules():
        names = next((_PARAMETERS[c.__name__] for c in type(module).__mro__ if _is_layer(c)), ())
        weights = {name: getattr(module, name) for name in names}
        for name, w in weights.items():
            if type(w.data) is not Tensor:
                raise ValueError(
                    f"octet: {module_name}.{name} is a {type(w.data).__name__}; only plain tensors are cached"
                )
        if weights:
            setattr(module, _ATTRIBUTE, {name: _Cached(w, module.format) for name, w in weights.items()})
            found += 1
    if found == 0:
        raise ValueError("octet: the model has no layer of octet.torch; call octet.torch.convert first")
    if optimizer is not None:

        def refresh(*_: Any) -> None:
            refresh_weights(model)

        optimizer.register_step_post_hook(refresh)
    return model


def _is_layer(cls: type) -> bool:
    return cls.__module__ == "octet.torch._modules" and cls.__name__ in _PARAMETERS
