"""How norms, gated activations and rotations run on DTensors: norms sharded by rows, activations also by columns,
rotations by batch, sequence or head."""

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
    Rules,
    Sharding,
    copies_sharded_along_k,
    copies_sharded_along_tokens,
    may_shard,
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
    def rule(rows: Placement, copies: Copies) -> tuple[list[Placement], list[Sharding]]:
        fp8 = [*copies[:2], *(copies[2:] if save_x else [WHOLE] * 2)]
        of_sum, of_residual = (WHOLE, None) if residual is None else (rows, rows)
        return [rows, *fp8, of_sum, rows], [rows, of_residual, WHOLE, None, None, None, None]

    rules: Rules = [rule(WHOLE, WHOLE_COPIES)]
    if may_shard(x, wgrad, row=True, transposed=save_x)[1]:
        rules.append(rule(ROWS, copies_sharded_along_tokens(wgrad)))
    return rules


@register_sharding(ops.rms_norm_transposed.default)
def _norm_transposed(x: Any, g: Any, eps: float, format: int, wgrad: int) -> Rules:
    options = [None] * 3
    rules: Rules = [([WHOLE, WHOLE], [WHOLE, WHOLE, *options])]
    if may_shard(x, wgrad, row=False, transposed=True)[1]:
        copies = copies_sharded_along_tokens(wgrad)
        rules.append(([copies.t_values, copies.t_scales], [ROWS, WHOLE, *options]))
    return rules


def _gate_shardings(up: Any) -> list[Placement]:
    """gate | up in one tensor is only sharded by rows."""
    return [WHOLE, ROWS] if up is None else [WHOLE, ROWS, COLUMNS]


@register_sharding(ops.swiglu.default)
def _swiglu(gate: Any, up: Any) -> Rules:
    return [([sharding], [sharding, None if up is None else sharding]) for sharding in _gate_shardings(up)]


@register_sharding(ops.swiglu_backward.default)
def _swiglu_backward(dy: Any, gate: Any, up: Any) -> Rules:
    if up is None:
        return [([sharding, WHOLE], [sharding, sharding, None]) for sharding in _gate_shardings(up)]
    return [([sharding, sharding], [sharding, sharding, sharding]) for sharding in _gate_shardings(up)]


@register_sharding(ops.swiglu_quantized.default)
def _swiglu_quantized(gate: Any, up: Any, format: int, wgrad: int, save_x: bool) -> Rules:
    def rule(sharding: Placement, copies: Copies) -> tuple[list[Placement], list[Sharding]]:
        fp8 = [*copies[:2], *(copies[2:] if save_x else [WHOLE] * 2)]
        return [sharding, *fp8], [sharding, None if up is None else sharding, None, None, None]

    rules: Rules = [rule(WHOLE, WHOLE_COPIES)]
    shard_k, shard_tokens = may_shard(gate, wgrad, row=True, transposed=save_x)
    if shard_k and up is not None:
        rules.append(rule(COLUMNS, copies_sharded_along_k(wgrad)))
    if shard_tokens:
        rules.append(rule(ROWS, copies_sharded_along_tokens(wgrad)))
    return rules


def _position_shardings(seq: int, cos: Any, positions: Any) -> list[tuple[Placement, list[Sharding]]]:
    """Shardings of [batch, seq, ...] with those of cos, sin, positions and the last option."""
    tables: list[Sharding] = [WHOLE, WHOLE]
    if positions is not None:
        return [(sharding, [*tables, sharding, None]) for sharding in (WHOLE, Shard(0), Shard(1))]
    shardings: list[tuple[Placement, list[Sharding]]] = [
        (sharding, [*tables, None, None]) for sharding in (WHOLE, Shard(0))
    ]
    if cos.shape[0] == seq:  # otherwise a rank's first position is not that of its first row of cos
        shardings.append((Shard(1), [ROWS, ROWS, None, None]))
    return shardings


# [batch, seq, heads, head_dim] of q and of k, of either pass.
@register_sharding([ops.rope.default, ops.rope_backward.default])
def _rope(q: Any, k: Any, cos: Any, sin: Any, positions: Any, interleaved: bool) -> Rules:
    shardings = _position_shardings(q.shape[1], cos, positions)
    shardings.append((Shard(2), [WHOLE, WHOLE, None if positions is None else WHOLE, None]))
    return [([sharding, sharding], [sharding, sharding, *others]) for sharding, others in shardings]


@register_sharding(ops.rope_qkv.default)
def _rope_qkv(qkv: Any, heads: int, kv_heads: int, cos: Any, sin: Any, positions: Any, interleaved: bool) -> Rules:
    shardings = _position_shardings(qkv.shape[1], cos, positions)
    return [([sharding] * 3, [sharding, None, None, *others]) for sharding, others in shardings]


@register_sharding(ops.rope_qkv_backward.default)
def _rope_qkv_backward(dq: Any, dk: Any, dv: Any, cos: Any, sin: Any, positions: Any, interleaved: bool) -> Rules:
    return [
        ([sharding], [sharding, sharding, sharding, *others])
        for sharding, others in _position_shardings(dq.shape[1], cos, positions)
    ]
