"""Modules with several layers in one parameter: the projections to q, k and v, and the gated MLP.

Their state_dict has the parameters as they are, so that FSDP2, torch.distributed.checkpoint and the state of optimisers
agree about names and shards. Checkpoints with the layers apart are loaded as well, and made by split_state_dict.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from octet.torch._activation import QuantizedActivation
from octet.torch._cache import cached_weight
from octet.torch._formats import DEFAULT_WGRAD
from octet.torch._gated_mlp import gated_mlp
from octet.torch._main_grad import main_grad_of
from octet.torch._modules import Linear, Recipe


class _Packed(nn.Module):
    """Parameters that hold several layers one above the other."""

    wgrad: str
    format: str
    grad_format: str
    recompute: bool
    granularity: str
    mx_scale: str = "floor"
    fast_accumulation: bool = False

    def _parts(self) -> dict[str, dict[str, int]]:
        """For each parameter the names of its parts in other checkpoints, and their rows."""
        raise NotImplementedError

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name, parts in self._parts().items():
            _join(state_dict, prefix + name, [prefix + part for part in parts])
        super()._load_from_state_dict(state_dict, prefix, *args)


def _join(state_dict: dict[str, Any], name: str, parts: list[str]) -> None:
    if all(part in state_dict for part in parts):
        state_dict[name] = torch.cat([state_dict.pop(part) for part in parts])


class QKV(_Packed):
    """The projections to q, k and v as one product: ``[..., dim] -> [..., (heads + 2 kv_heads) head_dim]``, q | k | v.

    :func:`octet.torch.rope_qkv` takes the result apart. One ``weight``, and one ``bias`` if there is any;
    load_state_dict also takes ``q_proj.weight``, ``k_proj.weight`` and ``v_proj.weight``, which
    :func:`split_state_dict` makes.
    """

    _octet_weights = ("weight",)

    def __init__(
        self,
        dim: int,
        heads: int,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = False,
        *,
        wgrad: str = DEFAULT_WGRAD,
        format: str = "e4m3",
        grad_format: str | None = None,
        recompute: bool = False,
        granularity: str = "blockwise",
        mx_scale: str = "floor",
        fast_accumulation: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        Recipe.of(wgrad, format, grad_format, recompute, granularity, mx_scale, fast_accumulation).set(self)
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
            f"bias={self.bias is not None}, {Recipe.text_of(self)}"
        )


class GatedMLP(_Packed):
    """Llama's MLP, ``[..., dim] -> [..., dim]``: see :func:`octet.torch.gated_mlp`.

    Two weights, ``w_gate_up`` ``[2 hidden, dim]`` and ``w_down`` ``[dim, hidden]``; load_state_dict also takes
    ``gate_proj.weight``, ``up_proj.weight`` and ``down_proj.weight``, which :func:`split_state_dict` makes.
    """

    _octet_weights = ("w_gate_up", "w_down")

    def __init__(
        self,
        dim: int,
        hidden: int,
        *,
        wgrad: str = DEFAULT_WGRAD,
        format: str = "e4m3",
        grad_format: str | None = None,
        recompute: bool = False,
        granularity: str = "blockwise",
        mx_scale: str = "floor",
        fast_accumulation: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        Recipe.of(wgrad, format, grad_format, recompute, granularity, mx_scale, fast_accumulation).set(self)
        self.dim, self.hidden = dim, hidden
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
        gate_up, down = main_grad_of(self.w_gate_up), main_grad_of(self.w_down)
        if (gate_up.main_grad is None) != (down.main_grad is None) or gate_up.accumulate != down.accumulate:
            raise ValueError(
                "octet: w_gate_up and w_down must both have a main_grad, or neither, and the same overwrite_main_grad"
            )
        w_gate_up, w_down = cached_weight(self, "w_gate_up", x), cached_weight(self, "w_down", x)
        return gated_mlp(
            x,
            gate_up.weight,
            down.weight,
            wgrad=None if given else self.wgrad,
            format=None if given else self.format,
            grad_format=self.grad_format,
            granularity=self.granularity,
            mx_scale=self.mx_scale,
            fast_accumulation=self.fast_accumulation,
            recompute=self.recompute,
            main_grads=None
            if gate_up.main_grad is None or down.main_grad is None
            else (gate_up.main_grad, down.main_grad),
            accumulate=gate_up.accumulate,
            quantized_weights=None if w_gate_up is None or w_down is None else (w_gate_up, w_down),
        )

    def extra_repr(self) -> str:
        return f"dim={self.dim}, hidden={self.hidden}, {Recipe.text_of(self)}, recompute={self.recompute}"


def _packed_parameters(model: nn.Module, state_dict: dict[str, Any]) -> Iterator[tuple[str, dict[str, int]]]:
    """The keys of packed parameters in the state_dict, and the names and rows of their parts.

    torch.distributed.checkpoint leaves the name of torch.compile's wrapper out.
    """
    for prefix, module in model.named_modules():
        if not isinstance(module, _Packed):
            continue
        for name, parts in module._parts().items():
            names = [".".join(filter(None, (prefix, n))) for n in (name, *parts)]
            if not any(n in state_dict for n in names):
                names = [n.replace("_orig_mod.", "") for n in names]
            yield names[0], dict(zip(names[1:], parts.values(), strict=True))


def split_state_dict(model: nn.Module, state_dict: dict[str, Any] | None = None) -> dict[str, Any]:
    """A state_dict with the layers of :class:`QKV` and :class:`GatedMLP` apart, by the names that Hugging Face has:
    ``q_proj``, ``k_proj`` and ``v_proj``, ``gate_proj``, ``up_proj`` and ``down_proj``.

    Args:
        model: whose modules say what is packed.
        state_dict: of the model, by default ``model.state_dict()``. Packed weights that are sharded are gathered, one
            after the other: every rank calls this.
    """
    split = dict(model.state_dict() if state_dict is None else state_dict)
    for name, parts in _packed_parameters(model, split):
        if name in split:
            whole = split.pop(name)
            whole = whole.full_tensor() if hasattr(whole, "full_tensor") else whole
            split.update(zip(parts, whole.split(list(parts.values())), strict=True))
    return split


def pack_state_dict(model: nn.Module, state_dict: dict[str, Any]) -> dict[str, Any]:
    """The inverse of :func:`split_state_dict`: a state_dict with the names of the model's parameters, for
    torch.distributed.checkpoint's ``set_model_state_dict``. ``load_state_dict`` takes either."""
    packed = dict(state_dict)
    for name, parts in _packed_parameters(model, packed):
        _join(packed, name, list(parts))
    return packed
