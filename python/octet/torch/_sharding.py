"""How the FP8 linear layer runs on DTensors: tensor parallel models need no code of their own.

A layer may be cut along N (column-wise), along K (row-wise) or along the tokens. Each rank quantises its own part, so a
cut that is no multiple of 128 changes which elements share a scale. x^T and its scales are padded: K and the tokens are
cut only where the padded parts of the ranks make the whole, so that any redistribution of them is right. Elsewhere
DTensor gathers the operand first.
"""

from typing import Any

from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from octet.torch._operators import ops

Rules = list[tuple[list[Placement], list[Placement | None]]]

# Tensors whose first dimension is cut, whose second is, and whole ones.
ROWS, COLUMNS, WHOLE = Shard(0), Shard(1), Replicate()


def _scales_of_x_t(wgrad: int) -> tuple[Shard, Shard]:
    """The dimensions of x^T's scales that K and the tokens cut: 1x128 scales lie column by column."""
    return (COLUMNS, ROWS) if wgrad == 1 else (ROWS, COLUMNS)


def _cuts(tokens: int, k: int, wgrad: int, ranks: int) -> tuple[bool, bool]:
    """Whether K may be cut, and whether the tokens may. Values of x^T [K, tokens] are padded to 128 tokens, lines of
    scales to 4: of K rows with 1x128 blocks, of 4 blocks of 128 tokens with 128x128 blocks."""
    unit_k, unit_tokens = (4, 128) if wgrad == 1 else (128, 512)
    return k % (unit_k * ranks) == 0, tokens % (unit_tokens * ranks) == 0


@register_sharding(ops.linear_forward.default)
def _forward(x: Any, *args: Any) -> Rules:
    x_values, w_values, main_grad, wgrad, save_x = args[0], args[5], args[9], args[12], args[13]
    by_k, by_tokens = _scales_of_x_t(wgrad)

    def saved(values: Placement, scales: Placement) -> list[Placement]:
        return [values, scales] if save_x else [WHOLE, WHOLE]

    def inputs(x_cut: Placement, w_cut: Placement) -> list[Placement | None]:
        """x, its four FP8 tensors, w, its four FP8 tensors, main_grad, and four options."""
        x_fp8 = [None] * 4 if x_values is None else [WHOLE, WHOLE, *([None] * 2 if args[2] is None else [WHOLE] * 2)]
        w_fp8 = [None] * 4 if w_values is None else [WHOLE] * 4
        return [x_cut, *x_fp8, w_cut, *w_fp8, None if main_grad is None else w_cut, *[None] * 4]

    rules: Rules = [([WHOLE, *saved(WHOLE, WHOLE)], inputs(WHOLE, WHOLE))]
    if w_values is not None:
        return rules
    rules.append(([COLUMNS, *saved(WHOLE, WHOLE)], inputs(WHOLE, ROWS)))  # N
    if x_values is not None:
        return rules
    cut_k, cut_tokens = _cuts(x.shape[0], x.shape[1], wgrad, x.mesh.size())
    if cut_k or not save_x:
        rules.append(([Partial(), *saved(ROWS, by_k)], inputs(COLUMNS, COLUMNS)))
    if (cut_tokens or not save_x) and main_grad is None:
        rules.append(([ROWS, *saved(COLUMNS, by_tokens)], inputs(ROWS, WHOLE)))
    return rules


@register_sharding(ops.linear_backward.default)
def _backward(
    dy: Any,
    x_t: Any,
    x_t_scales: Any,
    w: Any,
    w_t: Any,
    w_t_scales: Any,
    format: int,
    grad_format: int,
    wgrad: int,
    need_dx: bool,
    need_dw: bool,
) -> Rules:
    by_k, by_tokens = _scales_of_x_t(wgrad)
    w_t_whole = [None] * 2 if w_t is None else [WHOLE] * 2
    options = [*w_t_whole, *[None] * 5]

    def saved(values: Placement, scales: Placement) -> list[Placement | None]:
        if x_t is None:
            return [None, None]
        return [values, scales] if need_dw else [WHOLE, WHOLE]

    def gradients(dx: Placement, dw: Placement) -> list[Placement]:
        return [dx if need_dx else WHOLE, dw if need_dw else WHOLE]

    rules: Rules = [
        (gradients(WHOLE, WHOLE), [WHOLE, *saved(WHOLE, WHOLE), WHOLE, *options]),
    ]
    if w_t is not None:
        return rules
    rules.append((gradients(Partial(), ROWS), [COLUMNS, *saved(WHOLE, WHOLE), ROWS, *options]))  # N
    cut_k, cut_tokens = _cuts(dy.shape[0], w.shape[1], wgrad, dy.mesh.size())
    if cut_k or not need_dw:
        rules.append((gradients(COLUMNS, COLUMNS), [WHOLE, *saved(ROWS, by_k), COLUMNS, *options]))
    if cut_tokens or not need_dw:
        rules.append((gradients(ROWS, Partial()), [ROWS, *saved(COLUMNS, by_tokens), WHOLE, *options]))
    return rules
