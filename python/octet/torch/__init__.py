"""octet's FP8 operators and modules for PyTorch 2.10 or later, on the CPU and on NVIDIA Hopper GPUs.

    import octet.torch as ot
    ot.convert(model)        # every nn.Linear runs in FP8; train as before

The operators below the functions are ``torch.ops.octet.*``: functional, with fake kernels and FLOP formulas.
"""

import torch.distributed

from octet.torch._linear import linear
from octet.torch._modules import Linear, convert
from octet.torch._norm import rms_norm
from octet.torch._quantize import Quantized, dequantize, quantize
from octet.torch._rope import rope
from octet.torch._swiglu import swiglu

if torch.distributed.is_available():
    from octet.torch import _sharding  # noqa: F401

__all__ = [
    "Linear",
    "Quantized",
    "convert",
    "dequantize",
    "linear",
    "quantize",
    "rms_norm",
    "rope",
    "swiglu",
]
