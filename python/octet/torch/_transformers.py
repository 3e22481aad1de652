"""Hugging Face's Llama, Mistral, Qwen2 and Qwen3 with octet's norms, rotations and gated activations."""

import ast
import contextlib
import importlib
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from octet.torch._activation import QuantizedActivation, quantize_activation
from octet.torch._formats import DTYPES, number
from octet.torch._modules import Linear
from octet.torch._norm import rms_norm
from octet.torch._rope import rope
from octet.torch._swiglu import swiglu

FAMILIES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}


def _is_plain(module: nn.Module) -> bool:
    """Whether calling the module is calling its class's forward: hooks would be missed, or see what they do not know.
    FSDP and tensor parallel have hooks, and so do profilers and whoever looks at activations or gradients."""
    hooks = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )
    return not (any(hooks) or "forward" in module.__dict__ or _has_any_global_hook())


def _fp8_for(*layers: Any) -> dict[str, Any]:
    """The options with which a norm or an activation writes FP8 for all of these layers, or none."""
    if not layers or not all(isinstance(layer, Linear) and _is_plain(layer) for layer in layers):
        return {}
    names = ("wgrad", "format", "granularity", "mx_scale")
    recipes = {tuple(getattr(layer, name) for name in names) for layer in layers}
    # Under autocast the layers cast x to its dtype first.
    if len(recipes) != 1 or torch.is_autocast_enabled(layers[0].weight.device.type):
        return {}
    return {"quantized": True, **dict(zip(names, recipes.pop(), strict=True))}


def _norm(original: Callable[..., Any]) -> Callable[..., Any]:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        if hidden_states.dtype not in DTYPES:
            return original(self, hidden_states)
        return rms_norm(hidden_states, self.weight, eps=self.variance_epsilon)

    return forward


def _normed(norm: Any, x: Tensor, residual: Tensor | None, *readers: nn.Module) -> tuple[Any, Tensor]:
    """The norm of h = x + residual, in FP8 where all of its readers take that, and h; one pass if nothing watches the
    norm."""
    if not _is_plain(norm) or x.dtype not in DTYPES or (residual is not None and residual.dtype != x.dtype):
        h = x if residual is None else residual + x
        return norm(h), h
    y = rms_norm(x, norm.weight, residual, eps=norm.variance_epsilon, **_fp8_for(*readers))
    return (y, x) if residual is None else y


def _mlp(original: Callable[..., Any]) -> Callable[..., Any]:
    def forward(self: Any, x: Tensor | QuantizedActivation) -> Tensor:
        if self.config.hidden_act not in ("silu", "swish") or x.dtype not in DTYPES:
            return original(self, x)
        recipe = _fp8_for(self.gate_proj, self.up_proj)
        if recipe and not isinstance(x, QuantizedActivation):
            x = quantize_activation(x, **{name: option for name, option in recipe.items() if name != "quantized"})
        hidden = swiglu(self.gate_proj(x), self.up_proj(x), **_fp8_for(self.down_proj))
        return self.down_proj(hidden)

    forward._takes_fp8 = True  # type: ignore[attr-defined]
    return forward


def _only_projects(attention: Any) -> bool:
    """Whether the source of an attention's forward only asks hidden_states for its shape and gives it to q_proj, k_proj
    and v_proj. Then hidden_states may be a QuantizedActivation."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(attention))))
    except (OSError, TypeError, SyntaxError):
        return False
    known = {
        id(use)
        for node in ast.walk(tree)
        for use in (
            [node.value]
            if isinstance(node, ast.Attribute) and node.attr == "shape"
            else node.args
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("self.q_proj", "self.k_proj", "self.v_proj")
            else []
        )
    }
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "hidden_states"]
    return bool(uses) and all(id(use) in known and isinstance(use.ctx, ast.Load) for use in uses)


def _layer(original: Callable[..., Any], attention_forward: Any) -> Callable[..., Any]:
    """attention_forward: that of the family's attention, where it takes a QuantizedActivation."""

    def forward(
        self: Any,
        hidden_states: Tensor,
        attention_mask: Any = None,
        position_ids: Any = None,
        past_key_values: Any = None,
        use_cache: Any = False,
        **kwargs: Any,
    ) -> Tensor:
        attention, mlp = self.self_attn, self.mlp
        takes_fp8 = type(attention).forward is attention_forward and _is_plain(attention)
        readers = [attention.q_proj, attention.k_proj, attention.v_proj] if takes_fp8 else []
        x, _ = _normed(self.input_layernorm, hidden_states, None, *readers)
        attended, _ = attention(
            hidden_states=x,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            use_cache=use_cache,
            **kwargs,
        )
        takes_fp8 = getattr(type(mlp).forward, "_takes_fp8", False) and _is_plain(mlp)
        readers = [mlp.gate_proj, mlp.up_proj] if takes_fp8 else []
        x, h = _normed(self.post_attention_layernorm, attended, hidden_states, *readers)
        return h + mlp(x)

    return forward


def _rotary(original: Callable[..., Any]) -> Callable[..., Any]:
    def apply_rotary_pos_emb(
        q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *args: Any, unsqueeze_dim: int = 1, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """q [batch, heads, seq, head_dim] (heads after seq with unsqueeze_dim 2), cos [1 or batch, seq, head_dim]."""
        plain = not args and not kwargs and unsqueeze_dim in (1, 2)
        if not plain or cos.dim() != 3 or cos.shape[-1] != q.shape[-1] or q.dtype not in DTYPES or q.dtype != k.dtype:
            return original(q, k, cos, sin, *args, unsqueeze_dim=unsqueeze_dim, **kwargs)
        if unsqueeze_dim == 1:
            q, k = q.transpose(1, 2), k.transpose(1, 2)
        shape = q.shape[:2]
        if cos.shape[0] != 1:  # positions of their own for every sequence: one sequence of all tokens has them as well
            q, k, cos, sin = (t.flatten(0, 1).unsqueeze(0) for t in (q, k, cos, sin))
        q, k = (t.view(*shape, *t.shape[2:]) for t in rope(q, k, cos[0], sin[0]))
        return (q.transpose(1, 2), k.transpose(1, 2)) if unsqueeze_dim == 1 else (q, k)

    return apply_rotary_pos_emb


# What is replaced, by what, and the names that the function uses in transformers 4.57 to 5.22. A function with other
# names may compute something else, and is refused.
REPLACEMENTS: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "RMSNorm": (
        _norm,
        {"dtype", "to", "torch", "float32", "pow", "mean", "rsqrt", "variance_epsilon", "weight"},
    ),
    "MLP": (_mlp, {"down_proj", "act_fn", "gate_proj", "up_proj"}),
    "DecoderLayer": (_layer, {"input_layernorm", "self_attn", "post_attention_layernorm", "mlp"}),
    "apply_rotary_pos_emb": (_rotary, {"unsqueeze", "rotate_half"}),
}

# family -> what to restore: (owner, attribute, value)
_originals: dict[str, list[tuple[Any, str, Any]]] = {}


def _names(function: Any) -> set[str]:
    """The names that a function uses. The package `kernels` makes a module of a function, whose forward calls it."""
    if isinstance(function, nn.Module):
        function = inspect.getclosurevars(type(function).forward).nonlocals.get("func")
    function = inspect.unwrap(function) if callable(function) else None
    return set(function.__code__.co_names) if inspect.isfunction(function) else set()


def _patches(family: str) -> list[tuple[Any, str, Any]]:
    """(owner, attribute, new value) of everything that is replaced."""
    try:
        version = importlib.import_module("transformers").__version__
        module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    except ImportError as error:
        raise ImportError(f"octet: patch_transformers({family!r}) needs transformers: {error}") from error
    patches = []
    for name, (make, wanted) in REPLACEMENTS.items():
        is_class = name[0].isupper()
        full = FAMILIES[family] + name if is_class else name
        owner, attribute = (getattr(module, full, None), "forward") if is_class else (module, name)
        original = getattr(owner, attribute, None)
        if original is None:
            raise RuntimeError(f"octet: patch_transformers({family!r}): transformers {version} has no {full}")
        if (used := _names(original)) != wanted:
            raise RuntimeError(
                f"octet: patch_transformers({family!r}): {full} of transformers {version} is not what octet replaces: "
                f"it uses {', '.join(sorted(used))}, wanted {', '.join(sorted(wanted))}"
            )
        if name == "DecoderLayer":
            attention = getattr(getattr(module, f"{FAMILIES[family]}Attention", None), "forward", None)
            replacement = make(original, attention if _only_projects(attention) else None)
        else:
            replacement = make(original)
        patches.append((owner, attribute, replacement))
    return patches


def patch_transformers(*families: str) -> contextlib.ExitStack:
    """Makes Hugging Face models use octet's kernels: RMSNorm, with the residual added in the same pass, rotary
    embedding and the gated activation.

    Classes are changed, so models built before and after have them, and nothing of a model changes: parameters, hooks
    and state_dict keys stay. The linear layers are :func:`octet.torch.convert`'s; for those, norms and activations
    write FP8, once for q, k and v and once for gate and up. Call it before torch.compile. A second call does nothing.
    Inputs that octet does not take (float64, another activation) run as before, and so do modules with hooks of any
    kind. Attention whose code does more with its input than project it gets a tensor.

    Args:
        families: ``"llama"``, ``"mistral"``, ``"qwen2"``, ``"qwen3"``.

    Returns:
        a context manager: ``with ot.patch_transformers("llama"): ...`` undoes it at the end; otherwise
        :func:`unpatch_transformers` does.

    Raises:
        ImportError: transformers, or this family of it, is not installed.
        RuntimeError: this version of transformers has other code where octet would replace it; nothing is changed.
    """
    for family in families:
        number("family", family, FAMILIES)
    new = [family for family in dict.fromkeys(families) if family not in _originals]
    undo = contextlib.ExitStack()
    for family, patches in [(family, _patches(family)) for family in new]:
        _originals[family] = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
        for owner, name, value in patches:
            setattr(owner, name, value)
        undo.callback(unpatch_transformers, family)
    return undo


def unpatch_transformers(*families: str) -> None:
    """Gives Hugging Face models their own code back; without arguments those of every family."""
    for family in families:
        number("family", family, FAMILIES)
    for family in families or tuple(_originals):
        for owner, name, value in _originals.pop(family, []):
            setattr(owner, name, value)
