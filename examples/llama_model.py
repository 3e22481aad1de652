"""Llama in three precisions that share names and shapes of parameters: one set of weights runs in any of them.

    bf16         torch operators, which torch.compile fuses
    fp8_rowwise  the same with torchao's "rowwise" recipe in the linear layers, through torch._scaled_mm
    octet        octet.torch: FP8 products, and octet's norms, rotations and activations

A layer takes and returns two tensors whose sum is the residual stream, so that the sum is made inside the next norm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import octet.torch as ot

EPS = 1e-5


@dataclass(frozen=True)
class Shape:
    """The sizes of a model, named as in Llama's papers."""

    layers: int
    dim: int
    hidden: int
    heads: int
    kv_heads: int
    vocab: int
    rope_theta: float = 500_000.0

    def __post_init__(self) -> None:
        for name in ("layers", "dim", "hidden", "heads", "kv_heads", "vocab"):
            if getattr(self, name) < 1:
                raise ValueError(f"octet: {name} must be at least 1, got {getattr(self, name)}")
        if self.dim % self.heads or self.dim // self.heads % 2:
            raise ValueError(f"octet: dim must be heads x an even head_dim, got dim {self.dim}, heads {self.heads}")
        if self.heads % self.kv_heads:
            raise ValueError(f"octet: heads must be a multiple of kv_heads, got {self.heads} and {self.kv_heads}")

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads

    @property
    def product_parameters(self) -> int:
        """Weights that take part in products: all matrices but the embedding, which is a lookup."""
        attention = self.dim * (2 * self.dim + 2 * self.kv_heads * self.head_dim)
        return self.layers * (attention + 3 * self.dim * self.hidden) + self.dim * self.vocab

    def flops_per_token(self, seq: int) -> int:
        """Of one training step: 6 N, and the two products of causal attention, forward once and backward twice."""
        return 6 * self.product_parameters + 6 * self.layers * self.dim * seq


SHAPES = {
    "llama3-8b": Shape(layers=32, dim=4096, hidden=14336, heads=32, kv_heads=8, vocab=128256),
    "tiny": Shape(layers=2, dim=192, hidden=512, heads=4, kv_heads=2, vocab=256),
}


@dataclass(frozen=True)
class Recipe:
    """How a model computes; the flags of train_llama.py have the same names."""

    precision: str = "bf16"
    wgrad: str = "2d"
    granularity: str = "blockwise"
    fast_accumulation: bool = False  # of octet
    head: str = "bf16"
    fused_loss: bool = True
    fast_accum: str = "forward"  # of fp8_rowwise
    recompute: bool = False
    checkpointing: bool = False
    attention: str = "cudnn"


PRECISIONS = {
    "bf16": Recipe("bf16"),
    "fp8_rowwise": Recipe("fp8_rowwise"),
    "fp8_rowwise-fast": Recipe("fp8_rowwise", fast_accum="all"),
    "octet": Recipe("octet"),
    "octet-1d": Recipe("octet", wgrad="1d"),
    "octet-2d": Recipe("octet"),
    "octet-tensorwise": Recipe("octet", granularity="tensorwise"),
    "octet-rowwise": Recipe("octet", granularity="rowwise"),
    "octet-tensorwise-fast": Recipe("octet", granularity="tensorwise", fast_accumulation=True),
    "octet-rowwise-fast": Recipe("octet", granularity="rowwise", fast_accumulation=True),
    "octet-mxfp8": Recipe("octet", granularity="mxfp8"),
}


@dataclass(frozen=True)
class Contender:
    """One entry of --precision."""

    name: str
    recipe: Recipe
    order: int  # of the data
    optimizer: str  # "torch", or "octet" with +adamw


def parse_contender(name: str, args: Any) -> Contender:
    """``NAME[+adamw][+attention][@ORDER]``; the other settings are flags."""
    spec, at, order = name.partition("@")
    precision, *parts = spec.split("+")
    if precision not in PRECISIONS or not {*parts} <= {"adamw", "attention"}:
        choices = f"{', '.join(PRECISIONS)}, with or without +adamw, +attention and @ORDER"
        raise ValueError(f"octet: --precision must be of {choices}, got {name!r}")
    if at and not order.isdecimal():
        raise ValueError(f"octet: the order of the data in --precision must be a number, got {name!r}")
    flags = {key: getattr(args, key) for key in ("head", "fused_loss", "recompute", "checkpointing", "attention")}
    if "attention" in parts:
        flags["attention"] = "octet"
    recipe = PRECISIONS[precision]
    if recipe.precision == "octet" and recipe.granularity == "blockwise":  # it names no other
        flags["granularity"] = args.granularity
    recipe = replace(recipe, **flags)
    return Contender(name, recipe, int(order or 0), "octet" if "adamw" in parts else "torch")


# torchao's recipe "rowwise", written anew. Every operand is e4m3 with one scale per row along the summed dimension,
# rounded down to a power of two. Forward runs with fast accumulation. dx and dw do not; their products have no scales,
# and the result is scaled by rows and columns afterwards, because the rowwise kernel of _scaled_mm was slow that way.

E4M3_MAX = torch.finfo(torch.float8_e4m3fn).max


def cast_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """``[R, C]`` to e4m3 ``[R, C]``, row-major, and the factor ``[R, 1]`` that undoes the scale."""
    amax = x.abs().amax(dim=1, keepdim=True).float()
    scale = E4M3_MAX / amax.clamp(min=1e-12)
    scale = (scale.view(torch.int32) & 0x7F800000).view(torch.float32)  # the exponent alone: a power of two
    values = (x.float() * scale).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    return values.contiguous(), scale.reciprocal()


def rowwise_product(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor], dtype: torch.dtype, fast: bool) -> Tensor:
    """``a b^T`` of two casts ``[M, K]`` and ``[N, K]``; emulated in f32 on a CPU."""
    (a_values, a_factor), (b_values, b_factor) = a, b
    if not a_values.is_cuda:
        return ((a_values.float() * a_factor) @ (b_values.float() * b_factor).t()).to(dtype)
    if fast:
        factors = a_factor, b_factor.t()
        return torch._scaled_mm(a_values, b_values.t(), *factors, out_dtype=dtype, use_fast_accum=True)
    one = a_factor.new_ones(())
    y = torch._scaled_mm(a_values, b_values.t(), one, one, out_dtype=dtype, use_fast_accum=False)
    return (y * (a_factor * b_factor.t())).to(dtype)


class RowwiseLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, fast_accum: str) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.fast = fast_accum == "all"
        return rowwise_product(cast_rows(x), cast_rows(w), x.dtype, fast=True)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, None]:
        x, w = ctx.saved_tensors
        dx = rowwise_product(cast_rows(dy), cast_rows(w.t()), dy.dtype, ctx.fast)
        dw = rowwise_product(cast_rows(dy.t()), cast_rows(x.t()), dy.dtype, ctx.fast)
        return dx, dw, None


def rowwise_linear(x: Tensor, w: Tensor, fast_accum: str = "forward") -> Tensor:
    """``x w^T``, x ``[..., K]`` and w ``[N, K]``."""
    return RowwiseLinear.apply(x.reshape(-1, x.shape[-1]), w, fast_accum).view(*x.shape[:-1], w.shape[0])


def attention(q: Tensor, k: Tensor, v: Tensor, recipe: Recipe) -> Tensor:
    """Causal, with grouped heads: ``[batch, seq, heads, head_dim]`` to ``[batch, seq, heads * head_dim]``."""
    if recipe.attention == "octet":
        return ot.attention(q, k, v, causal=True).flatten(2)
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
    return y.transpose(1, 2).flatten(2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """``[batch, seq, heads, head_dim]`` by its positions, in f32."""
    first, second = x.float().chunk(2, dim=-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


class GatedMLP(nn.Module):
    """Llama's MLP: w_gate_up ``[2 hidden, dim]`` holds two projections, w_down is ``[dim, hidden]``."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.w_gate_up = nn.Parameter(torch.empty(2 * hidden, dim))
        self.w_down = nn.Parameter(torch.empty(dim, hidden))


class Layer(nn.Module):
    """One transformer layer of torch operators; q, k and v are one product, gate and up another."""

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        self.shape, self.recipe = shape, recipe
        self.attention_norm = nn.RMSNorm(shape.dim, EPS)
        self.qkv = nn.Linear(shape.dim, (shape.heads + 2 * shape.kv_heads) * shape.head_dim, bias=False)
        self.out = nn.Linear(shape.dim, shape.dim, bias=False)
        self.mlp_norm = nn.RMSNorm(shape.dim, EPS)
        self.mlp = GatedMLP(shape.dim, shape.hidden)

    def linear(self, x: Tensor, w: Tensor) -> Tensor:
        return F.linear(x, w)

    def forward(self, x: Tensor, residual: Tensor | None, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """x and residual ``[batch, seq, dim]``, or no residual in the first layer; cos, sin ``[seq, head_dim / 2]``."""
        heads, kv_heads = self.shape.heads, self.shape.kv_heads
        residual = x if residual is None else x + residual
        qkv = self.linear(self.attention_norm(residual), self.qkv.weight).unflatten(-1, (-1, self.shape.head_dim))
        q, k, v = qkv.split((heads, kv_heads, kv_heads), dim=2)
        x = self.linear(attention(rotate(q, cos, sin), rotate(k, cos, sin), v, self.recipe), self.out.weight)

        residual = x + residual
        gate, up = self.linear(self.mlp_norm(residual), self.mlp.w_gate_up).chunk(2, dim=-1)
        return self.linear(F.silu(gate) * up, self.mlp.w_down), residual


class RowwiseLayer(Layer):
    def linear(self, x: Tensor, w: Tensor) -> Tensor:
        return rowwise_linear(x, w, self.recipe.fast_accum)


class OctetLayer(nn.Module):
    """The same layer of octet's modules. The norms write FP8 only, which the projections read."""

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        self.recipe, self.heads, self.kv_heads = recipe, shape.heads, shape.kv_heads
        cast = {"wgrad": recipe.wgrad, "recompute": recipe.recompute, "granularity": recipe.granularity}
        layer = {**cast, "fast_accumulation": recipe.fast_accumulation}
        self.attention_norm = ot.RMSNorm(shape.dim, EPS, quantized=True, **cast)
        self.qkv = ot.QKV(shape.dim, shape.heads, shape.kv_heads, **layer)
        self.out = ot.Linear(shape.dim, shape.dim, bias=False, **layer)
        self.mlp_norm = ot.RMSNorm(shape.dim, EPS, quantized=True, **cast)
        self.mlp = ot.GatedMLP(shape.dim, shape.hidden, **layer)

    def forward(self, x: Tensor, residual: Tensor | None, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        if residual is None:
            normed, residual = self.attention_norm(x), x
        else:
            normed, residual = self.attention_norm(x, residual)
        q, k, v = ot.rope_qkv(self.qkv(normed), self.heads, self.kv_heads, cos, sin)
        x = self.out(attention(q, k, v, self.recipe))

        normed, residual = self.mlp_norm(x, residual)
        return self.mlp(normed), residual


class Head(nn.Module):
    """The last norm, the projection to the vocabulary and the mean loss."""

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        self.norm = nn.RMSNorm(shape.dim, EPS)
        self.weight = nn.Parameter(torch.empty(shape.vocab, shape.dim))

    def logits(self, normed: Tensor) -> Tensor:
        if self.recipe.head == "bf16":
            return F.linear(normed, self.weight)
        if self.recipe.precision == "fp8_rowwise":
            return rowwise_linear(normed, self.weight, self.recipe.fast_accum)
        recipe = self.recipe
        shared = {"granularity": recipe.granularity, "fast_accumulation": recipe.fast_accumulation}
        return ot.linear(normed, self.weight, wgrad=recipe.wgrad, **shared)

    def forward(self, x: Tensor, residual: Tensor, targets: Tensor) -> Tensor:
        """x and residual ``[batch, seq, dim]``, targets ``[batch, seq]`` to a f32 scalar."""
        normed = self.norm(x + residual)
        return F.cross_entropy(self.logits(normed).flatten(0, 1).float(), targets.flatten())


class OctetHead(Head):
    """No tensor of all logits; where the recipe has no fused loss, the head of the others."""

    def forward(self, x: Tensor, residual: Tensor, targets: Tensor) -> Tensor:
        if not self.recipe.fused_loss:
            return super().forward(x, residual, targets)
        normed, _ = ot.rms_norm(x, self.norm.weight, residual, eps=EPS)
        precision = "fp8" if self.recipe.head == "fp8" else "plain"
        return ot.linear_cross_entropy(normed, self.weight, targets, precision=precision, wgrad=self.recipe.wgrad)


LAYERS = {"bf16": Layer, "fp8_rowwise": RowwiseLayer, "octet": OctetLayer}
HEADS = {"bf16": Head, "fp8_rowwise": Head, "octet": OctetHead}


class Llama(nn.Module):
    """Tokens ``[batch, seq]`` and the tokens that follow them to the mean loss, a f32 scalar."""

    def __init__(self, shape: Shape, recipe: Recipe, seq: int) -> None:
        super().__init__()
        self.shape, self.recipe = shape, recipe
        self.embedding = nn.Embedding(shape.vocab, shape.dim)
        self.layers = nn.ModuleList(LAYERS[recipe.precision](shape, recipe) for _ in range(shape.layers))
        self.head = HEADS[recipe.precision](shape, recipe)
        for name in ("cos", "sin"):
            self.register_buffer(name, torch.empty(seq, shape.head_dim // 2, dtype=torch.float32), persistent=False)

    def initialize(self, seed: int) -> None:
        """The same weights for every precision. The products that end in the residual stream start smaller."""
        generator = torch.Generator(self.cos.device).manual_seed(seed)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 1:
                nn.init.ones_(parameter)
                continue
            ends = name.endswith(("out.weight", "mlp.w_down"))
            std = 0.02 / (2 * self.shape.layers) ** 0.5 if ends else 0.02
            nn.init.normal_(parameter, std=std, generator=generator)
        # Angles from f64: at position 8192 the f32 product is off by up to 5e-4.
        pairs = torch.arange(0, self.shape.head_dim, 2, dtype=torch.float64) / self.shape.head_dim
        angles = torch.outer(torch.arange(len(self.cos), dtype=torch.float64), self.shape.rope_theta**-pairs)
        self.cos.copy_(angles.cos())
        self.sin.copy_(angles.sin())

    def share(self, other: Llama) -> None:
        """Takes the parameters and tables of another model of the same shape: both train the same weights."""
        for mine, theirs in zip(self.modules(), other.modules(), strict=True):
            mine._parameters.update(theirs._parameters)
            mine._buffers.update(theirs._buffers)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x, residual = self.embedding(tokens), None
        for layer in self.layers:
            if self.recipe.checkpointing:
                x, residual = checkpoint(layer, x, residual, self.cos, self.sin, use_reentrant=False)
            else:
                x, residual = layer(x, residual, self.cos, self.sin)
        return self.head(x, residual, targets)


def build(shape: Shape, recipe: Recipe, seq: int, device: torch.device, seed: int) -> Llama:
    """A model with bf16 parameters on the device."""
    with torch.device("meta"):
        model = Llama(shape, recipe, seq)
    model = model.bfloat16()
    for name in ("cos", "sin"):  # stay f32
        setattr(model, name, getattr(model, name).float())
    model.to_empty(device=device)
    model.initialize(seed)
    return model


def prepare(model: Llama, compile: str, sharded: bool) -> Llama:
    """Shards the model over the ranks of torchrun, and compiles it."""
    if sharded:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy(reduce_dtype=torch.float32)
        for layer in model.layers:
            fully_shard(layer, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
    if compile == "model":
        model.compile()
    elif compile == "blocks":
        # All layers run the graph of the first two: one without a residual, one with.
        for part in (*model.layers, model.head):
            part.compile(fullgraph=True)
    return model
