"""octet's FP8 operators and modules for PyTorch 2.10 or later, on the CPU and on NVIDIA Hopper GPUs.

    import octet.torch as ot
    ot.convert(model)        # every nn.Linear runs in FP8; train as before

The operators below the functions are ``torch.ops.octet.*``: functional, with fake kernels and FLOP formulas.
"""

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        'octet.torch needs PyTorch 2.10 or later, which is not installed: pip install "octet[torch]"', name="torch"
    ) from error

import torch.distributed

from octet.torch._activation import QuantizedActivation, quantize_activation
from octet.torch._adamw import AdamW
from octet.torch._attention import attention, merge_attention
from octet.torch._cache import cache_weights, refresh_weights
from octet.torch._cross_entropy import linear_cross_entropy
from octet.torch._gated_mlp import gated_mlp
from octet.torch._grouped_linear import check_groups, grouped_linear
from octet.torch._linear import QuantizedWeight, linear
from octet.torch._mixture import MoE
from octet.torch._modules import Linear, LinearCrossEntropy, RMSNorm, convert
from octet.torch._moe import Routing, check_indices, moe_mlp, moe_route
from octet.torch._norm import rms_norm
from octet.torch._packed import QKV, GatedMLP, pack_state_dict, split_state_dict
from octet.torch._quantize import Quantized, dequantize, quantize
from octet.torch._ring_attention import ring_attention
from octet.torch._rope import rope, rope_qkv
from octet.torch._swiglu import swiglu
from octet.torch._transformers import patch_transformers, unpatch_transformers
from octet.torch._transformers_attention import register_attention

if torch.distributed.is_available():
    from octet.torch import (  # noqa: F401
        _sharding,
        _sharding_attention,
        _sharding_experts,
        _sharding_loss,
        _sharding_rows,
    )

__all__ = [
    "QKV",
    "AdamW",
    "GatedMLP",
    "Linear",
    "LinearCrossEntropy",
    "MoE",
    "Quantized",
    "QuantizedActivation",
    "QuantizedWeight",
    "RMSNorm",
    "Routing",
    "attention",
    "cache_weights",
    "check_groups",
    "check_indices",
    "convert",
    "dequantize",
    "gated_mlp",
    "grouped_linear",
    "linear",
    "linear_cross_entropy",
    "merge_attention",
    "moe_mlp",
    "moe_route",
    "pack_state_dict",
    "patch_transformers",
    "quantize",
    "quantize_activation",
    "refresh_weights",
    "register_attention",
    "ring_attention",
    "rms_norm",
    "rope",
    "rope_qkv",
    "split_state_dict",
    "swiglu",
    "unpatch_transformers",
]
