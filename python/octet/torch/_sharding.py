"""How the FP8 layers run on DTensors: tensor and sequence parallel models need no code of their own.

A linear layer may be cut along N (column-wise), along K (row-wise) or along the tokens. Each rank quantises its own
part, so a cut that is no multiple of 128 changes which elements share a scale. Quantised tensors are padded: they are
cut only where the padded parts of the ranks make the whole, so that any redistribution of them is right. Elsewhere
DTensor gathers the operand first.
"""

from typing import Any, NamedTuple

from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from octet.torch._operators import ops

Cut = Placement | None  # None: not a tensor
Rules = list[tuple[list[Placement], list[Cut]]]

# Tensors whose first dimension is cut, whose second is, and whole ones.
ROWS, COLUMNS, WHOLE = Shard(0), Shard(1), Replicate()


class Copies(NamedTuple):
    """How the two FP8 copies of an activation [tokens, K] are cut."""

    values: Placement
    scales: Placement
    t_values: Placement
    t_scales: Placement


WHOLE_COPIES = Copies(WHOLE, WHOLE, WHOLE, WHOLE)


def copies_cut_along_k(wgrad: int) -> Copies:
    """1x128 scales lie column by column, 128x128 scales row by row."""
    return Copies(COLUMNS, ROWS, ROWS, COLUMNS if wgrad == 1 else ROWS)


def copies_cut_along_tokens(wgrad: int) -> Copies:
    return Copies(ROWS, COLUMNS, COLUMNS, ROWS if wgrad == 1 else COLUMNS)


def may_cut(x: Any, wgrad: int, *, row: bool, transposed: bool, shape: Any = None) -> tuple[bool, bool]:
    """Whether K may be cut, and whether the tokens may, where the row copy of x [tokens, K] is kept, the transposed one
    or both. Lines of values are padded to 128 elements, lines of scales to 4."""
    tokens, k = x.shape if shape is None else shape
    unit_k, unit_tokens = 1, 1
    if row:
        unit_k, unit_tokens = 128, 4
    if transposed:
        unit_k, unit_tokens = max(unit_k, 4 if wgrad == 1 else 128), 128 if wgrad == 1 else 512
    ranks = x.mesh.size()
    return k % (unit_k * ranks) == 0, tokens % (unit_tokens * ranks) == 0


def _kept(rules: Rules, main_grads: dict[int, Any]) -> Rules:
    """The rules that take main_grad as it is cut: a redistributed copy would get the sum instead of it."""
    for argument, main_grad in main_grads.items():
        if main_grad is None:
            continue
        if main_grad.mesh.ndim != 1:
            raise NotImplementedError(
                f"octet: main_grad on DTensors needs a mesh of one dimension, got {main_grad.mesh}"
            )
        wanted = dict.fromkeys(str(inputs[argument]) for _, inputs in rules)
        rules = [rule for rule in rules if rule[1][argument] == main_grad.placements[0]]
        if not rules:
            raise ValueError(
                f"octet: main_grad must be cut as the weight's gradient is, got {main_grad.placements[0]}, "
                f"wanted one of {', '.join(wanted)}"
            )
    return rules


@register_sharding(ops.quantize.default)
def _quantize(x: Any, *options: Any) -> Rules:
    return [([WHOLE, WHOLE], [WHOLE, *[None] * 6])]


@register_sharding(ops.dequantize.default)
def _dequantize(values: Any, scales: Any, *options: Any) -> Rules:
    return [([WHOLE], [WHOLE, WHOLE, *[None] * 6])]


@register_sharding(ops.cast_activation.default)
def _cast_activation(x: Any, format: int, wgrad: int, save_x: bool) -> Rules:
    def rule(cut: Placement, copies: Copies) -> tuple[list[Placement], list[Cut]]:
        return [*copies[:2], *(copies[2:] if save_x else [WHOLE] * 2)], [cut, None, None, None]

    rules: Rules = [rule(WHOLE, WHOLE_COPIES)]
    cut_k, cut_tokens = may_cut(x, wgrad, row=True, transposed=save_x)
    if cut_k:
        rules.append(rule(COLUMNS, copies_cut_along_k(wgrad)))
    if cut_tokens:
        rules.append(rule(ROWS, copies_cut_along_tokens(wgrad)))
    return rules


@register_sharding(ops.linear_forward.default)
def _forward(x: Any, *args: Any) -> Rules:
    x_values, x_t, w_values, main_grad, wgrad, save_x = args[0], args[2], args[5], args[9], args[12], args[13]
    makes_x_t = save_x and x_values is None

    def rule(y: Placement, x_cut: Placement, copies: Copies, w_cut: Placement, dw: Placement) -> Any:
        given = [None] * 4 if x_values is None else [*copies[:2], *([None] * 2 if x_t is None else copies[2:])]
        weights = [w_cut, *[None if w_values is None else WHOLE] * 4, None if main_grad is None else dw]
        return [y, *(copies[2:] if makes_x_t else [WHOLE] * 2)], [x_cut, *given, *weights, *[None] * 8]

    rules: Rules = [rule(WHOLE, WHOLE, WHOLE_COPIES, WHOLE, WHOLE)]
    if w_values is None:
        rules.append(rule(COLUMNS, WHOLE, WHOLE_COPIES, ROWS, ROWS))  # N
        transposed = makes_x_t or x_t is not None
        cut_k, cut_tokens = may_cut(x, wgrad, row=x_values is not None, transposed=transposed)
        if cut_k:
            rules.append(rule(Partial(), COLUMNS, copies_cut_along_k(wgrad), COLUMNS, COLUMNS))
        if cut_tokens:
            rules.append(rule(ROWS, ROWS, copies_cut_along_tokens(wgrad), WHOLE, Partial()))
    return _kept(rules, {10: main_grad})


def _backward_rules(dy: Any, x_t: Any, w: Any, w_t: Any, wgrad: int, need_dw: bool) -> list[tuple[Any, ...]]:
    """(cut of dx, of dw, [dy, x_t, x_t_scales, w, w_t, w_t_scales]) of linear_backward."""

    def operands(dy_cut: Placement, copies: Copies, w_cut: Placement) -> list[Cut]:
        saved = [None] * 2 if x_t is None else copies[2:] if need_dw else [WHOLE] * 2
        return [dy_cut, *saved, w_cut, *[None if w_t is None else WHOLE] * 2]

    rules: list[tuple[Any, ...]] = [(WHOLE, WHOLE, operands(WHOLE, WHOLE_COPIES, WHOLE))]
    if w_t is None:
        rules.append((Partial(), ROWS, operands(COLUMNS, WHOLE_COPIES, ROWS)))  # N
        cut_k, cut_tokens = may_cut(dy, wgrad, row=False, transposed=need_dw, shape=(dy.shape[0], w.shape[1]))
        if cut_k:
            rules.append((COLUMNS, COLUMNS, operands(WHOLE, copies_cut_along_k(wgrad), COLUMNS)))
        if cut_tokens:
            rules.append((ROWS, Partial(), operands(ROWS, copies_cut_along_tokens(wgrad), WHOLE)))
    return rules


@register_sharding(ops.linear_backward.default)
def _backward(dy: Any, x_t: Any, x_t_scales: Any, w: Any, w_t: Any, w_t_scales: Any, *options: Any) -> Rules:
    _, _, wgrad, need_dx, need_dw = options
    return [
        ([dx if need_dx else WHOLE, dw if need_dw else WHOLE], [*operands, *[None] * 5])
        for dx, dw, operands in _backward_rules(dy, x_t, w, w_t, wgrad, need_dw)
    ]


@register_sharding(ops.linear_backward_main_grad.default)
def _backward_main_grad(
    dy: Any, x_t: Any, x_t_scales: Any, w: Any, w_t: Any, w_t_scales: Any, main_grad: Any, *options: Any
) -> Rules:
    _, _, wgrad, need_dx = options
    rules: Rules = [
        ([dx if need_dx else WHOLE], [*operands, dw, *[None] * 4])
        for dx, dw, operands in _backward_rules(dy, x_t, w, w_t, wgrad, True)
    ]
    return _kept(rules, {6: main_grad})


# gate and up share a matrix, so the hidden features of gated_mlp cannot be cut: only its tokens.
@register_sharding(ops.gated_mlp_forward.default)
def _gated_mlp(x: Any, *args: Any) -> Rules:
    x_values, x_t, main_grads, (wgrad, save, save_x, save_h) = args[0], args[2], args[14:16], args[18:22]
    makes_x_t = save_x and x_values is None

    def rule(tokens: Placement, copies: Copies, dw: Placement) -> tuple[list[Placement], list[Cut]]:
        given = [None] * 4 if x_values is None else [*copies[:2], *([None] * 2 if x_t is None else copies[2:])]
        weights = [None if arg is None else WHOLE for arg in args[4:14]]
        outputs = [tokens, tokens if save else WHOLE]
        for made in (makes_x_t, save_h):
            outputs += copies[2:] if made else [WHOLE] * 2
        sums = [None if arg is None else dw for arg in main_grads]
        return outputs, [tokens, *given, *weights, *sums, *[None] * 9]

    rules: Rules = [rule(WHOLE, WHOLE_COPIES, WHOLE)]
    transposed = makes_x_t or save_h or x_t is not None
    if may_cut(x, wgrad, row=x_values is not None, transposed=transposed)[1]:
        rules.append(rule(ROWS, copies_cut_along_tokens(wgrad), Partial()))
    return _kept(rules, {15: main_grads[0], 16: main_grads[1]})


def _gated_mlp_backward_rules(args: tuple[Any, ...], wgrad: int) -> list[tuple[Any, ...]]:
    """(cut of dx, of both dw, the twelve operands) of gated_mlp_backward."""
    dy, x_t, h_t = args[0], args[2], args[4]
    weights = [None if arg is None else WHOLE for arg in args[6:12]]

    def operands(tokens: Placement, copies: Copies) -> list[Cut]:
        saved = [cut for arg in (x_t, h_t) for cut in ([None] * 2 if arg is None else copies[2:])]
        return [tokens, tokens, *saved, *weights]

    rules: list[tuple[Any, ...]] = [(WHOLE, WHOLE, operands(WHOLE, WHOLE_COPIES))]
    if may_cut(dy, wgrad, row=False, transposed=x_t is not None or h_t is not None)[1]:
        rules.append((ROWS, Partial(), operands(ROWS, copies_cut_along_tokens(wgrad))))
    return rules


@register_sharding(ops.gated_mlp_backward.default)
def _gated_mlp_backward(*args: Any) -> Rules:
    wgrad, need_dx, need_dw = args[14:]
    return [
        ([dx if need_dx else WHOLE, *[dw if need_dw else WHOLE] * 2], [*operands, *[None] * 5])
        for dx, dw, operands in _gated_mlp_backward_rules(args, wgrad)
    ]


@register_sharding(ops.gated_mlp_backward_main_grad.default)
def _gated_mlp_backward_main_grad(*args: Any) -> Rules:
    wgrad, need_dx = args[16:]
    rules: Rules = [
        ([dx if need_dx else WHOLE], [*operands, dw, dw, *[None] * 4])
        for dx, dw, operands in _gated_mlp_backward_rules(args, wgrad)
    ]
    return _kept(rules, {12: args[12], 13: args[13]})
