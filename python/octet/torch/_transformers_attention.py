"""octet's attention in Hugging Face models: attn_implementation="octet"."""

import importlib
import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor

from octet.torch._attention import attention

NAME = "octet"
USE_ANOTHER = 'use attn_implementation="sdpa" for it'


def _message(why: str) -> str:
    return f"octet: attention cannot express this mask: {why}; {USE_ANOTHER}"


def _refuse(why: str) -> NoReturn:
    raise ValueError(_message(why))


def _require(holds: Tensor, why: str) -> None:
    """Refuses a mask by its values. Compiled code cannot read them: there the check is part of the graph, and raises
    RuntimeError."""
    if torch.compiler.is_compiling():
        torch._assert_async(holds, _message(why))
    elif not holds:
        _refuse(why)


def _edges_are_causal(see: Callable[..., Any], batch: int, queries: Tensor, first: int, window: int | None) -> Tensor:
    """Whether a query of every sequence sees the keys at both edges of a causal mask, or of a window of so many keys,
    and none beyond. Other masks of transformers (packed sequences, chunks, blocks of an image) differ there."""
    sequences = torch.arange(batch, device=queries.device)[:, None]
    heads = torch.zeros_like(sequences)
    begins = torch.full_like(queries, first) if window is None else (queries - window + 1).clamp(min=first)

    def seen(keys: Tensor, wanted: bool) -> Tensor:
        """Where the keys are there, they must be seen, or not."""
        outside = (keys < first) | (keys > queries[-1])
        inside = keys.clamp(first).minimum(queries[-1])
        return (outside | (see(sequences, heads, queries, inside) == wanted)).all()

    edges = [seen(begins, True), seen(begins - 1, False), seen(queries, True), seen(queries + 1, False)]
    edges.append(seen((queries - 1).maximum(begins), True))
    return torch.stack(edges).all()


def octet_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: Tensor | None = None,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    use_vmap: bool = False,
    device: Any = "cpu",
    **kwargs: Any,
) -> None:
    """What transformers calls once per pass for the mask of its layers: no tensor, or ValueError where the mask is not
    one of octet's (causal, a window before each query, all keys)."""
    if attention_mask is not None:
        _require(attention_mask.all(), "it has padding")
    if use_vmap or mask_function is None:
        _refuse("the model has a mask function of its own")
    if allow_is_bidirectional_skip and local_size is None:
        return
    if isinstance(q_offset, Tensor) or q_offset + q_length != kv_offset + kv_length:
        _refuse("the last query is not at the place of the last key, as with a StaticCache")
    if not allow_is_causal_skip or local_size is not None:  # otherwise it is the plain causal one
        queries = torch.arange(q_length, device=device) + q_offset
        holds = _edges_are_causal(mask_function, batch_size, queries, kv_offset, local_size)
        _require(holds, "it is neither causal nor a causal window (packed sequences, chunks or blocks)")


def octet_attention_forward(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """query ``[batch, heads, seq, dim]`` to ``[batch, seq, heads, dim]``."""
    if attention_mask is not None:
        _refuse("it is a tensor")
    for name in ("position_bias", "cache", "cu_seq_lens_q", "cu_seq_lens_k", "block_table"):
        if kwargs.get(name) is not None:
            raise ValueError(f"octet: attention in transformers takes no {name}; {USE_ANOTHER}")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if sliding_window is not None and not causal:
        _refuse("a window on both sides")
    q, k, v = (t.transpose(1, 2) for t in (query, key, value))
    window = None if sliding_window is None else (sliding_window - 1, 0)
    options: dict[str, Any] = {"dropout": dropout, "softcap": softcap}  # refused, where a model has them
    return attention(q, k, v, causal=bool(causal), window=window, scale=scaling, sink=s_aux, **options), None


def register_attention() -> None:
    """Makes ``attn_implementation="octet"`` known to Hugging Face's transformers (5 or later).

        ot.register_attention()
        model = LlamaForCausalLM.from_pretrained(name, attn_implementation="octet")

    Any model that takes its attention from transformers' AttentionInterface can have it: causal or bidirectional, with
    grouped heads, sliding windows and sinks, in training and in generation with a growing cache. Masks that octet
    cannot express are refused with ValueError when the model runs (in compiled code RuntimeError): padding, packed
    sequences, chunks, tensors. So are dropout and softcap. A second call does nothing.

    Raises:
        ImportError: transformers is not installed.
        RuntimeError: this version of transformers makes its masks otherwise.
    """
    try:
        transformers = importlib.import_module("transformers")
        masking = importlib.import_module("transformers.masking_utils")
    except ImportError as error:
        raise ImportError(f"octet: register_attention needs transformers 5 or later: {error}") from error
    if not {"q_length", "q_offset"} <= inspect.signature(masking.sdpa_mask).parameters.keys():
        raise RuntimeError(
            f"octet: register_attention needs transformers 5 or later, whose masks are made otherwise than those of "
            f"{transformers.__version__}"
        )
    transformers.AttentionInterface.register(NAME, octet_attention_forward)
    masking.AttentionMaskInterface.register(NAME, octet_mask)
