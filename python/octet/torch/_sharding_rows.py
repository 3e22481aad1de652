"""How norms, gated activations and rotations run on DTensors: norms cut by rows, activations also by columns, rotations
by batch, sequence or head."""

from typing import Any

from torch.distributed.tensor import Partial, Placement, Shard
from torch.distributed.tensor.experimental import register_sharding

from octet.torch._operators import ops
from octet.torch._sharding import (
    COLUMNS,
    ROWS,
    WHOLE,
    WHOLE_COPIES,
    Copies,
    Cut,
    Rules,
    copies_cut_along_k,
    copies_cut_along_tokens,
    may_cut,
)


@register_sharding(ops.rms_norm.default)
def _norm(x: Any, g: Any, eps: float) -> Rules:
    return [([rows] * 2, [rows, WHOLE, None]) for rows in (WHOLE, ROWS)]


@register_sharding(ops.rms_norm_residual.default)
def _norm_residual(x: Any, residual: Any, g: Any, eps: float) -> Rules:
    return [([rows] * 3, [rows, rows, WHOLE, None]) for rows in (WHOLE, ROWS)]


@register_sharding(ops.rms_norm_backward.default)
def _norm_backward(dy: Any, x: Any, g: Any, rstd: Any, eps: float) -> Rules:
    return [([rows, dg], [rows, rows, WHOLE, rows, None]) for rows, dg in ((WHOLE, WHOLE), (ROWS, Partial()))]


@register_sharding(ops.rms_norm_residual_backward.default)
def _norm_residual_backward(dy: Any, dsum: Any, sum: Any, g: Any, rstd: Any, eps: float) -> Rules:
    return [([rows, dg], [rows, rows, rows, WHOLE, rows, None]) for rows, dg in ((WHOLE, WHOLE), (ROWS, Partial()))]


@register_sharding(ops.rms_norm_quantized.default)
def _norm_quantized(x: Any, residual: Any, g: Any, eps: float, format: int, wgrad: int, save_x: bool) -> Rules:
    def rule(rows: Placement, copies: Copies) -> tuple[list[Placement], list[Cut]]:
        fp8 = [*copies[:2], *(copies[2:] if save_x else [WHOLE] * 2)]
        sum_cut, residual_cut = (WHOLE, None) if residual is None else (rows, rows)
        return [rows, *fp8, sum_cut, rows], [rows, residual_cut, WHOLE, None, None, None, None]

    rules: Rules = [rule(WHOLE, WHOLE_COPIES)]
    if may_cut(x, wgrad, row=True, transposed=save_x)[1]:
        rules.append(rule(ROWS, copies_cut_along_tokens(wgrad)))
    return rules


def _gate_cuts(up: Any) -> list[Placement]:
    """gate | up in one tensor is only cut by rows."""
    return [WHOLE, ROWS] if up is None else [WHOLE, ROWS, COLUMNS]


@register_sharding(ops.swiglu.default)
def _swiglu(gate: Any, up: Any) -> Rules:
    return [([cut], [cut, None if up is None else cut]) for cut in _gate_cuts(up)]


@register_sharding(ops.swiglu_backward.default)
def _swiglu_backward(dy: Any, gate: Any, up: Any) -> Rules:
    if up is None:
        return [([cut, WHOLE], [cut, cut, None]) for cut in _gate_cuts(up)]
    return [([cut, cut], [cut, cut, cut]) for cut in _gate_cuts(up)]


@register_sharding(ops.swiglu_quantized.default)
def _swiglu_quantized(gate: Any, up: Any, format: int, wgrad: int, save_x: bool) -> Rules:
    def rule(cut: Placement, copies: Copies) -> tuple[list[Placement], list[Cut]]:
        fp8 = [*copies[:2], *(copies[2:] if save_x else [WHOLE] * 2)]
        return [cut, *fp8], [cut, None if up is None else cut, None, None, None]

    rules: Rules = [rule(WHOLE, WHOLE_COPIES)]
    cut_k, cut_tokens = may_cut(gate, wgrad, row=True, transposed=save_x)
    if cut_k and up is not None:
        rules.append(rule(COLUMNS, copies_cut_along_k(wgrad)))
    if cut_tokens:
        rules.append(rule(ROWS, copies_cut_along_tokens(wgrad)))
    return rules


def _position_cuts(seq: int, cos: Any, positions: Any) -> list[tuple[Placement, list[Cut]]]:
    """Cuts of [batch, seq, ...] with those of cos, sin, positions and the last option."""
    tables: list[Cut] = [WHOLE, WHOLE]
    if positions is not None:
        return [(cut, [*tables, cut, None]) for cut in (WHOLE, Shard(0), Shard(1))]
    cuts: list[tuple[Placement, list[Cut]]] = [(cut, [*tables, None, None]) for cut in (WHOLE, Shard(0))]
    if cos.shape[0] == seq:  # otherwise a rank's first position is not that of its first row of cos
        cuts.append((Shard(1), [ROWS, ROWS, None, None]))
    return cuts


# [batch, seq, heads, head_dim] of q and of k, of either pass.
@register_sharding([ops.rope.default, ops.rope_backward.default])
def _rope(q: Any, k: Any, cos: Any, sin: Any, positions: Any, interleaved: bool) -> Rules:
    cuts = _position_cuts(q.shape[1], cos, positions)
    cuts.append((Shard(2), [WHOLE, WHOLE, None if positions is None else WHOLE, None]))
    return [([cut, cut], [cut, cut, *others]) for cut, others in cuts]


@register_sharding(ops.rope_qkv.default)
def _rope_qkv(qkv: Any, heads: int, kv_heads: int, cos: Any, sin: Any, positions: Any, interleaved: bool) -> Rules:
    cuts = _position_cuts(qkv.shape[1], cos, positions)
    return [([cut] * 3, [cut, None, None, *others]) for cut, others in cuts]


@register_sharding(ops.rope_qkv_backward.default)
def _rope_qkv_backward(dq: Any, dk: Any, dv: Any, cos: Any, sin: Any, positions: Any, interleaved: bool) -> Rules:
    return [([cut], [cut, cut, cut, *others]) for cut, others in _position_cuts(dq.shape[1], cos, positions)]
