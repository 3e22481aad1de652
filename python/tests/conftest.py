"""Data and models that the tests share."""

import math
from collections import Counter
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import octet.torch as ot


def exact(rows: int, cols: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Integers that FP8 holds exactly: of magnitude 1, 2, 4 or 7, one 7 in every 1x128 and 128x1 block.

    The scale of a block with a 7 is 7 / 448, a power of two.
    """
    generator = torch.Generator().manual_seed(seed)
    choices = torch.tensor([-7, -4, -2, -1, 0, 1, 2, 4, 7], dtype=torch.float32)
    x = choices[torch.randint(len(choices), (rows, cols), generator=generator)]
    x[::128, :] = 7
    x[:, ::128] = -7
    return x.to(dtype)


def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def snr(got: Tensor, want: Tensor) -> float:
    """Signal over noise in dB; -inf of what is not finite, which no bound lets pass."""
    got, want = got.double(), want.double()
    if not (got.isfinite().all() and want.isfinite().all()):
        return -math.inf
    noise = (got - want).square().sum()
    return math.inf if noise == 0 else (10 * torch.log10(want.square().sum() / noise)).item()


def same(got: Any, want: Any) -> bool:
    """Whether two sequences of tensors have the same bits."""
    return len(got) == len(want) and all(map(torch.equal, got, want))


class Calls(TorchDispatchMode):
    """How often which operator of octet is executed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.namespace == "octet":
            self.seen[function._opname] += 1
        return function(*args, **(kwargs or {}))


def linear_inputs(x: Tensor, w: Tensor, main_grad: Tensor | None = None) -> tuple[Any, ...]:
    """The first arguments of octet::linear_forward where nothing is given in FP8."""
    return x, None, None, None, None, w, None, None, None, None, main_grad, True


PLAIN = (None, None, None, 0.0)  # and its last ones: no bias, x^T not made again


class Block(nn.Module):
    """A transformer layer of two heads."""

    def __init__(self, width: int = 128, hidden: int = 256) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, width = x.shape
        q, k, v = (t.view(batch, seq, 2, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        attention = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).reshape(batch, seq, width))
        normed = self.norm2(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class FusedBlock(nn.Module):
    """A Llama layer of the fused modules."""

    def __init__(self, dim: int = 128, hidden: int = 256, heads: int = 2, **recipe: Any) -> None:
        super().__init__()
        norm = {k: v for k, v in recipe.items() if k != "grad_format"}
        self.norm1, self.norm2 = (ot.RMSNorm(dim, quantized=True, **norm) for _ in range(2))
        self.qkv, self.out = ot.QKV(dim, heads, **recipe), ot.Linear(dim, dim, bias=False)
        self.out.recompute = recipe.get("recompute", False)
        self.mlp = ot.GatedMLP(dim, hidden, **recipe)
        self.register_buffer("cos", torch.ones(64, dim // heads // 2))
        self.register_buffer("sin", torch.zeros(64, dim // heads // 2))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = ot.rope_qkv(self.qkv(self.norm1(x)), self.qkv.heads, self.qkv.kv_heads, self.cos, self.sin)
        attention = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        y, x = self.norm2(self.out(attention.transpose(1, 2).flatten(2)), x)
        return x + self.mlp(y)


def make_model(layers: int = 1) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(*[Block() for _ in range(layers)])


def step(model, x: Tensor) -> list[Tensor]:
    """Output, gradient of x and gradients of the parameters of one pass."""
    x = x.clone().requires_grad_()
    y = model(x)
    y.float().square().mean().backward()
    owner = getattr(model, "owner", model)
    grads = [p.grad.clone() for p in owner.parameters()]
    owner.zero_grad()
    return [y.detach(), x.grad, *grads]


@pytest.fixture
def one_thread():
    """Of torch: its threads and octet's would wait for each other on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _fresh_compiler():
    yield
    torch._dynamo.reset()
