"""Mixtures of experts as differentiable functions: routing, and the experts of tokens whose choices are known."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from octet.torch._formats import DEFAULT_WGRAD, DTYPES, FORMATS, WGRADS, check_dtype, number, rows_of
from octet.torch._grouped_linear import aligned, check_experts, table_words, token_block_bytes
from octet.torch._linear import autocast
from octet.torch._operators import call, differentiable, ops, positions

SCORES = {"softmax": 1, "sigmoid": 2}  # octet_route_score
GROUP_SCORES = {"best": 1, "best_two": 2}  # octet_expert_group_score
ACTIVATIONS = {"silu": 1, "gelu_tanh": 2, "gelu_erf": 3, "relu_squared": 4}  # octet_gate_activation


class Routing(NamedTuple):
    """The experts of every token, as :func:`moe_route` chose them."""

    weights: Tensor  # [tokens, top_k], f32; differentiable
    indices: Tensor  # [tokens, top_k], int32
    scores: Tensor  # [tokens, experts], f32, for auxiliary losses; differentiable


@torch.library.register_fake("octet::moe_route_forward")
def _(logits: Tensor, bias: Tensor | None, top_k: int, *options: Any) -> tuple[Tensor, Tensor, Tensor]:
    tokens, experts = logits.shape
    weights = logits.new_empty(tokens, top_k, dtype=torch.float32)
    return weights, weights.new_empty(tokens, top_k, dtype=torch.int32), weights.new_empty(tokens, experts)


@torch.library.register_fake("octet::moe_route_backward")
def _(scores: Tensor, indices: Tensor, dweights: Tensor, dscores: Tensor | None, dtype: int, *options: Any) -> Tensor:
    return scores.new_empty(scores.shape, dtype={n: t for t, n in DTYPES.items()}[dtype])


def _route_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    logits, _, *ctx.options = inputs
    ctx.dtype = DTYPES[logits.dtype]
    ctx.save_for_backward(output[2], output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _route_backward(ctx: Any, dweights: Tensor | None, _: None, dscores: Tensor | None) -> tuple[Tensor | None, ...]:
    if dweights is None and dscores is None:
        return (None,)
    scores, indices = ctx.saved_tensors
    dweights = scores.new_zeros(indices.shape) if dweights is None else rows_of(dweights)
    dscores = None if dscores is None else rows_of(dscores)
    return (ops.moe_route_backward(scores, indices, dweights, dscores, ctx.dtype, *ctx.options),)


_route = differentiable("moe_route_forward", ("logits",), _route_setup, _route_backward)


def moe_route(
    logits: Tensor,
    top_k: int,
    *,
    score: str = "softmax",
    bias: Tensor | None = None,
    expert_groups: int = 1,
    top_groups: int = 1,
    group_score: str = "best_two",
    normalize: bool = True,
    scale: float = 1.0,
) -> Routing:
    """The top_k experts of every token and their weights, in f32; octet/ops/moe_route.hpp has the formulas.

    Args:
        logits: ``[tokens, experts]``, at most 1024 experts.
        score: ``"softmax"`` over the experts, or ``"sigmoid"`` of each.
        bias: ``[experts]``, f32, added to the scores for the choice only.
        expert_groups, top_groups, group_score: only experts of the best top_groups of as many groups are chosen; a
            group's score is its ``"best"``, or the sum of its ``"best_two"``.
        normalize: the weights of a token are divided by their sum.
        scale: of the weights.
    """
    check_dtype("logits", logits)
    if logits.dim() != 2:
        raise ValueError(f"octet: logits must be [tokens, experts], got {list(logits.shape)}")
    if bias is not None:
        bias = bias.detach().float().contiguous()
    options = (
        top_k,
        number("score", score, SCORES),
        expert_groups,
        top_groups,
        number("group_score", group_score, GROUP_SCORES),
        bool(normalize),
        float(scale),
    )
    return Routing(*_route(rows_of(logits), bias, *options))


@torch.library.register_fake("octet::moe_maps")
def _(indices: Tensor, experts: int) -> tuple[Tensor, Tensor, Tensor]:
    row_of = indices.new_empty(indices.shape, dtype=torch.int32)
    slots = indices.shape[0] * indices.shape[1]
    return row_of, row_of.new_empty(1 if slots == 0 else slots), row_of.new_empty(experts)


@torch.library.register_fake("octet::moe_gather")
def _(x: Tensor, row_of: Tensor, source: Tensor) -> Tensor:
    return x.new_empty(source.shape[0], x.shape[1])


@torch.library.register_fake("octet::moe_sum")
def _(rows: Tensor, row_of: Tensor, source: Tensor) -> Tensor:
    return rows.new_empty(row_of.shape[0], rows.shape[1])


def _keep_maps(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])
    ctx.set_materialize_grads(False)


def _gather_backward(ctx: Any, d: Tensor | None) -> tuple[Tensor | None]:
    return (None if d is None else ops.moe_sum(rows_of(d), *ctx.saved_tensors),)


def _sum_backward(ctx: Any, d: Tensor | None) -> tuple[Tensor | None]:
    return (None if d is None else ops.moe_gather(rows_of(d), *ctx.saved_tensors),)


# rows[r] = x[source[r] // top_k], and out[t] = the sum over k of rows[row_of[t, k]], in f32 and rounded once. The maps
# are those of ops.moe_maps, and each function is the gradient of the other.
gather_rows = differentiable("moe_gather", ("x",), _keep_maps, _gather_backward)
sum_rows = differentiable("moe_sum", ("rows",), _keep_maps, _sum_backward)


_AT = positions("moe_mlp_forward")
_FIRST_OPTION, _SAVE = _AT["experts"], _AT["save"]


def saved_bytes(x: Tensor, top_k: Any, w_down: Tensor, wgrad: int, save_dw: bool) -> Any:
    """What octet_moe_mlp_saved_bytes says, for tokens whose experts are given and weights that are not saved."""
    tokens, (experts, k, f) = x.shape[0], w_down.shape
    rows = tokens * top_k
    pieces = [4 * rows, 4 * rows, 4 * experts, 4 * table_words(experts, rows), 64, 4 * rows]  # maps and row weights
    size = sum(aligned(piece) for piece in pieces) + aligned(2 * rows * f * x.element_size())  # gate | up
    if save_dw:
        size = size + token_block_bytes(experts, rows, k, wgrad) + token_block_bytes(experts, rows, f, wgrad)
    return size


@torch.library.register_fake("octet::moe_mlp_forward")
def _(
    x: Tensor, indices: Tensor, weights: Tensor, w_gate_up: Tensor, w_down: Tensor, *options: Any
) -> tuple[Tensor, ...]:
    *_, wgrad, save, save_dw = options
    torch._check(
        x.shape[1] == w_gate_up.shape[2] and w_gate_up.shape[1] == 2 * w_down.shape[2],
        lambda: (
            f"octet: x [tokens, K], w_gate_up [experts, 2 F, K] and w_down [experts, K, F] do not fit: "
            f"{x.shape}, {w_gate_up.shape}, {w_down.shape}"
        ),
    )
    size = saved_bytes(x, indices.shape[1], w_down, wgrad, save_dw) if save and x.shape[0] != 0 else 0
    return x.new_empty(x.shape), x.new_empty(w_down.shape[0], dtype=torch.int32), x.new_empty(size, dtype=torch.uint8)


@torch.library.register_fake("octet::moe_mlp_backward")
def _(dy: Tensor, saved: Tensor, w_gate_up: Tensor, w_down: Tensor, top_k: int, *options: Any) -> tuple[Tensor, ...]:
    need_dx, need_dw = options[-2:]
    return (
        dy.new_empty(dy.shape if need_dx else 0),
        dy.new_empty(dy.shape[0], top_k, dtype=torch.float32),
        dy.new_empty(w_gate_up.shape if need_dw else 0),
        dy.new_empty(w_down.shape if need_dw else 0),
    )


_AT_MAIN_GRAD = positions("moe_mlp_backward_main_grad")


@torch.library.register_fake("octet::moe_mlp_backward_main_grad")
def _(dy: Tensor, *args: Any) -> tuple[Tensor, Tensor]:
    top_k = args[_AT_MAIN_GRAD["top_k"] - 1]
    return dy.new_empty(dy.shape if args[-1] else 0), dy.new_empty(dy.shape[0], top_k, dtype=torch.float32)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    _, sizes, saved = output
    # Not saved: another micro-batch may add to them in between.
    *ctx.main_grads, ctx.accumulate = inputs[_AT["main_grad_gate_up"] : _FIRST_OPTION]
    ctx.top_k = inputs[_AT["indices"]].shape[1]
    ctx.options = inputs[_FIRST_OPTION:_SAVE]
    ctx.saved, ctx.saved_dw = inputs[_SAVE:]
    ctx.save_for_backward(saved, inputs[_AT["w_gate_up"]], inputs[_AT["w_down"]])
    ctx.mark_non_differentiable(sizes, saved)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, dy: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    need_dx, need_p, need_gate_up, need_down = ctx.needs
    need_dw = need_gate_up or need_down
    if dy is None or not (need_dx or need_p or need_dw):
        return None, None, None, None
    dw_gate_up = dw_down = None
    if not ctx.saved:
        raise RuntimeError("octet: backward needs moe_mlp_forward with save=True")
    operands = (rows_of(dy), *ctx.saved_tensors)
    options = (ctx.top_k, *ctx.options, ctx.saved_dw, need_dx)
    if need_dw and ctx.main_grads[0] is not None:
        # The gradient of one weight alone may be asked for; that of the other is computed, and dropped.
        wanted = zip(ctx.main_grads, (need_gate_up, need_down))
        sums = [main_grad if need else torch.zeros_like(main_grad) for main_grad, need in wanted]
        dx, dweights = ops.moe_mlp_backward_main_grad(*operands, *sums, ctx.accumulate, *options)
    else:
        dx, dweights, dw_gate_up, dw_down = ops.moe_mlp_backward(*operands, *options, need_dw)
    wanted = zip((dx, dweights, dw_gate_up, dw_down), ctx.needs)
    return tuple(gradient if need else None for gradient, need in wanted)


_forward = differentiable("moe_mlp_forward", ("x", "weights", "w_gate_up", "w_down"), _setup, _backward)


@register_flop_formula(ops.moe_mlp_forward)
def _forward_flops(x_shape: Any, indices_shape: Any, *args: Any, **kwargs: Any) -> int:
    """Of every slot, also of those whose expert is elsewhere: the indices are not read."""
    _, k, f = args[_AT["w_down"] - 2]
    return 2 * x_shape[0] * indices_shape[1] * 3 * f * k


@register_flop_formula([ops.moe_mlp_backward, ops.moe_mlp_backward_main_grad])
def _backward_flops(dy_shape: Any, saved: Any, w_gate_up: Any, w_down_shape: Any, *args: Any, **kwargs: Any) -> int:
    _, k, f = w_down_shape
    fresh = not isinstance(args[0], (tuple, list, torch.Size))  # no shapes of main gradients
    top_k = args[0] if fresh else args[3]
    need_dx, need_dw = args[-2:] if fresh else (args[-1], True)
    return 2 * dy_shape[0] * top_k * f * k * (1 + 2 * need_dx + 3 * need_dw)


def check_indices(indices: Tensor, experts: int) -> None:
    """Raises ValueError, naming the first, if an index of ``[tokens, top_k]`` is neither -1 nor one of the experts.

    On CUDA it copies them to the host and waits for the device, so it is for debugging. Not for compiled code.
    """
    if torch.compiler.is_compiling():
        raise RuntimeError("octet: check_indices reads indices on the host; call it outside of compiled code")
    call(ops.moe_maps, indices.cpu().contiguous(), experts)


def moe_mlp(
    x: Tensor,
    indices: Tensor,
    weights: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    *,
    experts: int | None = None,
    first_expert: int = 0,
    capacity: int = 0,
    activation: str = "silu",
    wgrad: str = DEFAULT_WGRAD,
    format: str = "e4m3",
    grad_format: str = "e4m3",
    main_grads: tuple[Tensor, Tensor] | None = None,
    accumulate: bool = True,
) -> tuple[Tensor, Tensor]:
    """The sum over a token's experts of ``(act(x Wg^T) * (x Wu^T) * weight) Wd^T``, all products in block-scaled FP8.

    The weight multiplies before the last product. Tokens are gathered by the cast of x, and no copy of them is made in
    16 bits; how many tokens an expert has is never read by the host. Each expert has the bits of a dense layer on its
    own tokens, in the order of the tokens.

    Args:
        x: ``[tokens, K]``.
        indices: ``[tokens, top_k]``, integers: experts, or -1 for none. Experts that are not here add nothing. Other
            numbers raise ValueError on the CPU and count as -1 on CUDA: see :func:`check_indices`.
        weights: ``[tokens, top_k]``, f32; differentiable.
        w_gate_up: ``[experts here, 2 F, K]``, Wg above Wu.
        w_down: ``[experts here, K, F]``.
        experts: of the whole mixture, where not all are here; first_expert is the first of those here.
        capacity: tokens of an expert at most; those that come later are dropped. 0: any number.
        activation: ``"silu"``, ``"gelu_tanh"``, ``"gelu_erf"`` or ``"relu_squared"``.
        wgrad, format, grad_format: as in :func:`linear`.
        main_grads, accumulate: of w_gate_up and w_down, as in :func:`linear`.

    Returns:
        y ``[tokens, K]`` in the dtype of x, and the number of tokens of each expert here, int32.

    Saved for backward: gate | up in the dtype of x, x^T and h^T in FP8, the maps, and the weights themselves.
    """
    check_dtype("x", x)
    x, w_gate_up, w_down = autocast(x, w_gate_up, w_down)
    check_experts(x, {"w_gate_up": w_gate_up, "w_down": w_down})
    if x.dim() != 2:
        raise ValueError(f"octet: x must be [tokens, K], got {list(x.shape)}")
    if not isinstance(indices, Tensor) or indices.is_floating_point() or indices.dim() != 2:
        raise TypeError("octet: indices must be a tensor of integers, [tokens, top_k]")
    needs = (w_gate_up.requires_grad, w_down.requires_grad)
    if needs[0] != needs[1]:
        raise ValueError("octet: w_gate_up and w_down must both require gradients, or neither")
    grad = torch.is_grad_enabled()
    need_dw = grad and needs[0]
    save = grad and (needs[0] or x.requires_grad or weights.requires_grad)
    y, sizes, _ = _forward(
        rows_of(x),
        indices.to(torch.int32).contiguous(),
        weights.float().contiguous(),
        w_gate_up.contiguous(),
        w_down.contiguous(),
        *(main_grads if main_grads is not None and need_dw else (None, None)),
        accumulate,
        w_gate_up.shape[0] if experts is None else experts,
        first_expert,
        capacity,
        number("activation", activation, ACTIVATIONS),
        number("format", format, FORMATS),
        number("grad_format", grad_format, FORMATS),
        number("wgrad", wgrad, WGRADS),
        save,
        need_dw,
    )
    return y, sizes
