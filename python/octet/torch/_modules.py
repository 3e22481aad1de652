"""Modules in FP8: nn.Linear and the pieces of a transformer block, and the conversion of models that have nn.Linear."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from octet.torch._activation import QuantizedActivation
from octet.torch._cache import cached_weight
from octet.torch._formats import FORMATS, WGRADS, number
from octet.torch._gated_mlp import gated_mlp
from octet.torch._linear import linear
from octet.torch._norm import rms_norm


def _check_recipe(wgrad: str, format: str, grad_format: str) -> None:
    number("wgrad", wgrad, WGRADS)
    number("format", format, FORMATS)
    number("grad_format", grad_format, FORMATS)


def _main_grad(weight: Tensor) -> Tensor | None:
    """The weight's main_grad, and a note for Megatron-LM that backward adds to it."""
    main_grad = getattr(weight, "main_grad", None)
    if main_grad is not None:  # torch.compile replays it at every call
        setattr(weight, "grad_added_to_main_grad", True)  # noqa: B010
    return main_grad


class Linear(nn.Linear):
    """nn.Linear whose three products run in FP8: the same parameters, hooks and state_dict keys.

    ``[..., in_features] -> [..., out_features]``, also of a :class:`QuantizedActivation`; see
    :func:`octet.torch.linear` for the options, which are attributes. If the weight has a ``main_grad`` (Megatron-LM's
    protocol), backward adds the weight gradient to it, ``weight.grad`` stays None, and
    ``weight.grad_added_to_main_grad`` is set.
    """

    wgrad: str = "1d"
    format: str = "e4m3"
    grad_format: str = "e4m3"
    recompute: bool = False

    def forward(self, x: Tensor | QuantizedActivation) -> Tensor:
        given = isinstance(x, QuantizedActivation)
        return linear(
            x,
            self.weight,
            self.bias,
            wgrad=None if given else self.wgrad,
            format=None if given else self.format,
            grad_format=self.grad_format,
            recompute=self.recompute,
            main_grad=_main_grad(self.weight),
            quantized_w=cached_weight(self, "weight"),
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, wgrad={self.wgrad}, format={self.format}, grad_format={self.grad_format}"


class RMSNorm(nn.RMSNorm):
    """nn.RMSNorm by octet's kernel, with the residual added on the way; see :func:`octet.torch.rms_norm`.

    ``forward(x)`` is y, ``forward(x, residual)`` is ``(y, x + residual)``. With ``quantized=True`` y is a
    :class:`QuantizedActivation`.
    """

    def __init__(
        self,
        dim: int,
        eps: float = 1e-6,
        *,
        quantized: bool = False,
        wgrad: str = "1d",
        format: str = "e4m3",
        recompute: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dim, eps=eps, device=device, dtype=dtype)
        _check_recipe(wgrad, format, format)
        self.quantized, self.wgrad, self.format, self.recompute = quantized, wgrad, format, recompute

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Any:
        return rms_norm(
            x,
            self.weight,
            residual,
            eps=self.eps,
            quantized=self.quantized,
            wgrad=self.wgrad,
            format=self.format,
            recompute=self.recompute,
        )


class _Packed(nn.Module):
    """Parameters that hold several layers one above the other; the state_dict has each under its own name."""

    wgrad: str
    format: str
    grad_format: str

    def _parts(self) -> dict[str, dict[str, int]]:
        """For each parameter the names and rows of its parts."""
        raise NotImplementedError

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, parts in self._parts().items():
            whole = destination.pop(prefix + name)
            for part, rows in zip(parts, whole.split(list(parts.values())), strict=True):
                destination[prefix + part] = rows

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name, parts in self._parts().items():
            names = [prefix + part for part in parts]
            if all(key in state_dict for key in names):
                state_dict[prefix + name] = torch.cat([state_dict.pop(key) for key in names])
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _set_recipe(self, wgrad: str, format: str, grad_format: str) -> None:
        _check_recipe(wgrad, format, grad_format)
        self.wgrad, self.format, self.grad_format = wgrad, format, grad_format


class QKV(_Packed):
    """The projections to q, k and v as one product: ``[..., dim] -> [..., (heads + 2 kv_heads) head_dim]``, q | k | v.

    :func:`octet.torch.rope_qkv` takes the result apart. One weight, ``weight``; the state_dict has ``q_proj.weight``,
    ``k_proj.weight`` and ``v_proj.weight``.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = False,
        *,
        wgrad: str = "1d",
        format: str = "e4m3",
        grad_format: str = "e4m3",
        recompute: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self._set_recipe(wgrad, format, grad_format)
        self.recompute = recompute
        kv_heads = heads if kv_heads is None else kv_heads
        if head_dim is None:
            if dim % heads != 0:
                raise ValueError(
                    f"octet: dim must be a multiple of heads where head_dim is not given, got {dim}, {heads}"
                )
            head_dim = dim // heads
        self.dim, self.heads, self.kv_heads, self.head_dim = dim, heads, kv_heads, head_dim
        rows = (heads + 2 * kv_heads) * head_dim
        self.weight = nn.Parameter(torch.empty(rows, dim, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(rows, device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def _parts(self) -> dict[str, dict[str, int]]:
        rows = {"q": self.heads, "k": self.kv_heads, "v": self.kv_heads}
        names = ["weight"] if self.bias is None else ["weight", "bias"]
        return {name: {f"{p}_proj.{name}": count * self.head_dim for p, count in rows.items()} for name in names}

    forward = Linear.forward

    def extra_repr(self) -> str:
        return (
            f"dim={self.dim}, heads={self.heads}, kv_heads={self.kv_heads}, head_dim={self.head_dim}, "
            f"bias={self.bias is not None}, wgrad={self.wgrad}"
        )


class GatedMLP(_Packed):
    """Llama's MLP, ``[..., dim] -> [..., dim]``: see :func:`octet.torch.gated_mlp`.

    Two weights, ``w_gate_up`` ``[2 hidden, dim]`` and ``w_down`` ``[dim, hidden]``; the state_dict has
    ``gate_proj.weight``, ``up_proj.weight`` and ``down_proj.weight``.
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        *,
        wgrad: str = "1d",
        format: str = "e4m3",
        grad_format: str = "e4m3",
        recompute: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self._set_recipe(wgrad, format, grad_format)
        self.dim, self.hidden, self.recompute = dim, hidden, recompute
        self.w_gate_up = nn.Parameter(torch.empty(2 * hidden, dim, device=device, dtype=dtype))
        self.w_down = nn.Parameter(torch.empty(dim, hidden, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.kaiming_uniform_(self.w_gate_up, a=math.sqrt(5))
        nn.init.kaiming_uniform_(self.w_down, a=math.sqrt(5))

    def _parts(self) -> dict[str, dict[str, int]]:
        gate_up = {"gate_proj.weight": self.hidden, "up_proj.weight": self.hidden}
        return {"w_gate_up": gate_up, "w_down": {"down_proj.weight": self.dim}}

    def forward(self, x: Tensor | QuantizedActivation) -> Tensor:
        given = isinstance(x, QuantizedActivation)
        main_grads = _main_grad(self.w_gate_up), _main_grad(self.w_down)
        if (main_grads[0] is None) != (main_grads[1] is None):
            raise ValueError("octet: w_gate_up and w_down must both have a main_grad, or neither")
        cached = cached_weight(self, "w_gate_up"), cached_weight(self, "w_down")
        return gated_mlp(
            x,
            self.w_gate_up,
            self.w_down,
            wgrad=None if given else self.wgrad,
            format=None if given else self.format,
            grad_format=self.grad_format,
            recompute=self.recompute,
            main_grads=None if main_grads[0] is None else main_grads,
            quantized_weights=None if cached[0] is None else cached,
        )

    def extra_repr(self) -> str:
        return f"dim={self.dim}, hidden={self.hidden}, wgrad={self.wgrad}, recompute={self.recompute}"


def convert(
    model: nn.Module,
    filter: Callable[[str, nn.Linear], bool] | None = None,
    *,
    wgrad: str = "1d",
    format: str = "e4m3",
    grad_format: str = "e4m3",
) -> nn.Module:
    """Makes every nn.Linear of the model an :class:`Linear`, in place, and returns the model.

    Only the class of a module changes: parameters, hooks, optimisers that hold the parameters and state_dict keys stay.
    Subclasses of nn.Linear are left alone.

    Args:
        filter: called with the qualified name and the module; False leaves it as it is. By default everything is
            converted but a module called ``lm_head``.
    """
    _check_recipe(wgrad, format, grad_format)
    for name, module in model.named_modules():
        if type(module) is not nn.Linear:
            continue
        if filter(name, module) if filter is not None else name.rpartition(".")[2] != "lm_head":
            module.__class__ = Linear
            for option, value in (("wgrad", wgrad), ("format", format), ("grad_format", grad_format)):
                setattr(module, option, value)
    return model
