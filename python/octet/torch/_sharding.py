"""How the FP8 layers run on DTensors: tensor and sequence parallel models need no code of their own.

A linear layer may be sharded along N (column-wise), along K (row-wise) or along the tokens. Each rank quantises its own
part, so shards that are no multiple of 128 change which elements share a scale. Quantised tensors are padded: they are
sharded only where the padded parts of the ranks make the whole, so that any redistribution of them is right. Elsewhere
DTensor gathers the operand first.
"""

from types import SimpleNamespace
from typing import Any, NamedTuple

from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from octet.torch._formats import ALL, ROW_BLOCKS, WGRAD_BLOCKS
from octet.torch._operators import ops, positions

Sharding = Placement | None  # None: not a tensor
Rules = list[tuple[list[Placement], list[Sharding]]]  # placements of the results, and of the arguments

# Tensors whose first dimension is sharded, whose second is, and whole ones.
ROWS, COLUMNS, WHOLE = Shard(0), Shard(1), Replicate()


class Arguments:
    """The arguments of an operator by the names of its schema."""

    def __init__(self, operator: str) -> None:
        self._at = positions(operator)

    def bind(self, args: tuple[Any, ...]) -> Any:
        return SimpleNamespace(**dict(zip(self._at, args, strict=True)))

    def placements(self, given: Any, **shardings: Sharding) -> list[Sharding]:
        """In the order of the schema. Arguments that are None, and those that are not named, have no placement."""
        assert shardings.keys() <= self._at.keys(), shardings
        return [None if getattr(given, name) is None else shardings.get(name) for name in self._at]


class Copies(NamedTuple):
    """How the two FP8 copies of an activation [tokens, K] are sharded."""

    values: Placement
    scales: Placement
    t_values: Placement
    t_scales: Placement

    def as_x(self) -> dict[str, Sharding]:
        """As arguments of a layer that takes x in FP8."""
        return dict(zip(("x_values", "x_scales", "x_t", "x_t_scales"), self, strict=True))


WHOLE_COPIES = Copies(WHOLE, WHOLE, WHOLE, WHOLE)


def is_1d(wgrad: int) -> bool:
    """Whether x^T has 1x128 blocks."""
    return WGRAD_BLOCKS[wgrad] == (1, 128)


def copies_sharded_along_k(wgrad: int) -> Copies:
    """1x128 scales lie column by column, 128x128 scales row by row."""
    return Copies(COLUMNS, ROWS, ROWS, COLUMNS if is_1d(wgrad) else ROWS)


def copies_sharded_along_tokens(wgrad: int) -> Copies:
    return Copies(ROWS, COLUMNS, COLUMNS, ROWS if is_1d(wgrad) else COLUMNS)


def may_shard(x: Any, wgrad: int, *, row: bool, transposed: bool, shape: Any = None) -> tuple[bool, bool]:
    """Whether K may be sharded, and whether the tokens may, where the row copy of x [tokens, K] is kept, the transposed
    one or both. Lines of values are padded to 128 elements, lines of scales to 4. A scale that a whole row or tensor
    shares cannot be put together from those of the ranks: DTensor gathers x there."""
    if ROW_BLOCKS[wgrad][1] == ALL:
        return False, False
    tokens, k = x.shape if shape is None else shape
    unit_k, unit_tokens = 1, 1
    if row:
        unit_k, unit_tokens = 128, 4
    if transposed:
        unit_k, unit_tokens = max(unit_k, 4 if is_1d(wgrad) else 128), 128 if is_1d(wgrad) else 512
    ranks = x.mesh.size()
    return k % (unit_k * ranks) == 0, tokens % (unit_tokens * ranks) == 0


def where_main_grad_is(rules: Rules, operator: str, given: Any, *names: str) -> Rules:
    """The rules that take main_grad as it is sharded: a redistributed copy would get the sum instead of it."""
    for name in names:
        main_grad, argument = getattr(given, name), positions(operator)[name]
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
                f"octet: main_grad must be sharded as the weight's gradient is, got {main_grad.placements[0]}, "
                f"wanted one of {', '.join(wanted)}"
            )
    return rules


@register_sharding(ops.quantize.default)
def _quantize(x: Any, *options: Any) -> Rules:
    return [([WHOLE, WHOLE], [WHOLE, *[None] * len(options)])]


@register_sharding(ops.dequantize.default)
def _dequantize(values: Any, scales: Any, *options: Any) -> Rules:
    return [([WHOLE], [WHOLE, WHOLE, *[None] * len(options)])]


@register_sharding(ops.cast_activation.default)
def _cast_activation(x: Any, format: int, wgrad: int, save_x: bool) -> Rules:
    def rule(sharding: Placement, copies: Copies) -> tuple[list[Placement], list[Sharding]]:
        return [*copies[:2], *(copies[2:] if save_x else [WHOLE] * 2)], [sharding, None, None, None]

    rules: Rules = [rule(WHOLE, WHOLE_COPIES)]
    shard_k, shard_tokens = may_shard(x, wgrad, row=True, transposed=save_x)
    if shard_k:
        rules.append(rule(COLUMNS, copies_sharded_along_k(wgrad)))
    if shard_tokens:
        rules.append(rule(ROWS, copies_sharded_along_tokens(wgrad)))
    return rules


_LINEAR = Arguments("linear_forward")


@register_sharding(ops.linear_forward.default)
def _forward(*args: Any) -> Rules:
    given = _LINEAR.bind(args)
    makes_x_t = given.save_x and given.x_values is None

    def rule(y: Placement, x: Placement, copies: Copies, w: Placement, dw: Placement) -> Any:
        fp8_w = dict.fromkeys(("w_values", "w_scales", "w_t", "w_t_scales"), WHOLE)
        inputs = _LINEAR.placements(given, x=x, w=w, main_grad=dw, **copies.as_x(), **fp8_w)
        return [y, *(copies[2:] if makes_x_t else [WHOLE] * 2)], inputs

    rules: Rules = [rule(WHOLE, WHOLE, WHOLE_COPIES, WHOLE, WHOLE)]
    if given.w_values is None:
        rules.append(rule(COLUMNS, WHOLE, WHOLE_COPIES, ROWS, ROWS))  # N
        transposed = makes_x_t or given.x_t is not None
        shard_k, shard_tokens = may_shard(given.x, given.wgrad, row=given.x_values is not None, transposed=transposed)
        if shard_k:
            rules.append(rule(Partial(), COLUMNS, copies_sharded_along_k(given.wgrad), COLUMNS, COLUMNS))
        if shard_tokens:
            rules.append(rule(ROWS, ROWS, copies_sharded_along_tokens(given.wgrad), WHOLE, Partial()))
    return where_main_grad_is(rules, "linear_forward", given, "main_grad")


class _Gradients(NamedTuple):
    """A rule of a backward pass."""

    dx: Placement
    dw: Placement
    operands: dict[str, Sharding]


def _linear_gradients(given: Any, need_dw: bool) -> list[_Gradients]:
    def operands(dy: Placement, copies: Copies, w: Placement) -> dict[str, Sharding]:
        x_t, x_t_scales = copies[2:] if need_dw else (WHOLE, WHOLE)
        return {"dy": dy, "x_t": x_t, "x_t_scales": x_t_scales, "w": w, "w_t": WHOLE, "w_t_scales": WHOLE}

    rules = [_Gradients(WHOLE, WHOLE, operands(WHOLE, WHOLE_COPIES, WHOLE))]
    if given.w_t is None:
        rules.append(_Gradients(Partial(), ROWS, operands(COLUMNS, WHOLE_COPIES, ROWS)))  # N
        shape = (given.dy.shape[0], given.w.shape[1])
        shard_k, shard_tokens = may_shard(given.dy, given.wgrad, row=False, transposed=need_dw, shape=shape)
        if shard_k:
            along_k = operands(WHOLE, copies_sharded_along_k(given.wgrad), COLUMNS)
            rules.append(_Gradients(COLUMNS, COLUMNS, along_k))
        if shard_tokens:
            along_tokens = operands(ROWS, copies_sharded_along_tokens(given.wgrad), WHOLE)
            rules.append(_Gradients(ROWS, Partial(), along_tokens))
    return rules


_LINEAR_BACKWARD = Arguments("linear_backward")
_LINEAR_BACKWARD_MAIN_GRAD = Arguments("linear_backward_main_grad")


@register_sharding(ops.linear_backward.default)
def _backward(*args: Any) -> Rules:
    given = _LINEAR_BACKWARD.bind(args)
    return [
        (
            [rule.dx if given.need_dx else WHOLE, rule.dw if given.need_dw else WHOLE],
            _LINEAR_BACKWARD.placements(given, **rule.operands),
        )
        for rule in _linear_gradients(given, given.need_dw)
    ]


@register_sharding(ops.linear_backward_main_grad.default)
def _backward_main_grad(*args: Any) -> Rules:
    given = _LINEAR_BACKWARD_MAIN_GRAD.bind(args)
    rules: Rules = [
        (
            [rule.dx if given.need_dx else WHOLE],
            _LINEAR_BACKWARD_MAIN_GRAD.placements(given, main_grad=rule.dw, **rule.operands),
        )
        for rule in _linear_gradients(given, True)
    ]
    return where_main_grad_is(rules, "linear_backward_main_grad", given, "main_grad")


_GATED_MLP = Arguments("gated_mlp_forward")
_FP8_WEIGHTS = [f"w_{w}_{copy}" for w in ("gate_up", "down") for copy in ("values", "scales", "t", "t_scales")]


# gate and up share a matrix, so the hidden features of gated_mlp cannot be sharded: only its tokens.
@register_sharding(ops.gated_mlp_forward.default)
def _gated_mlp(*args: Any) -> Rules:
    given = _GATED_MLP.bind(args)
    makes_x_t = given.save_x and given.x_values is None

    def rule(tokens: Placement, copies: Copies, dw: Placement) -> tuple[list[Placement], list[Sharding]]:
        outputs = [tokens, tokens if given.save else WHOLE]
        for made in (makes_x_t, given.save_h):
            outputs += copies[2:] if made else [WHOLE] * 2
        weights = dict.fromkeys(("w_gate_up", "w_down", *_FP8_WEIGHTS), WHOLE)
        sums = dict.fromkeys(("main_grad_gate_up", "main_grad_down"), dw)
        return outputs, _GATED_MLP.placements(given, x=tokens, **copies.as_x(), **weights, **sums)

    rules: Rules = [rule(WHOLE, WHOLE_COPIES, WHOLE)]
    transposed = makes_x_t or given.save_h or given.x_t is not None
    if may_shard(given.x, given.wgrad, row=given.x_values is not None, transposed=transposed)[1]:
        rules.append(rule(ROWS, copies_sharded_along_tokens(given.wgrad), Partial()))
    return where_main_grad_is(rules, "gated_mlp_forward", given, "main_grad_gate_up", "main_grad_down")


def _gated_mlp_gradients(given: Any) -> list[_Gradients]:
    weights = ("w_gate_up", "w_gate_up_t", "w_gate_up_t_scales", "w_down", "w_down_t", "w_down_t_scales")

    def operands(tokens: Placement, copies: Copies) -> dict[str, Sharding]:
        saved = {f"{name}_t": copies.t_values for name in "xh"} | {f"{name}_t_scales": copies.t_scales for name in "xh"}
        return {"dy": tokens, "gate_up": tokens, **saved, **dict.fromkeys(weights, WHOLE)}

    rules = [_Gradients(WHOLE, WHOLE, operands(WHOLE, WHOLE_COPIES))]
    transposed = given.x_t is not None or given.h_t is not None
    if may_shard(given.dy, given.wgrad, row=False, transposed=transposed)[1]:
        rules.append(_Gradients(ROWS, Partial(), operands(ROWS, copies_sharded_along_tokens(given.wgrad))))
    return rules


_GATED_MLP_BACKWARD = Arguments("gated_mlp_backward")
_GATED_MLP_BACKWARD_MAIN_GRAD = Arguments("gated_mlp_backward_main_grad")


@register_sharding(ops.gated_mlp_backward.default)
def _gated_mlp_backward(*args: Any) -> Rules:
    given = _GATED_MLP_BACKWARD.bind(args)
    return [
        (
            [rule.dx if given.need_dx else WHOLE, *[rule.dw if given.need_dw else WHOLE] * 2],
            _GATED_MLP_BACKWARD.placements(given, **rule.operands),
        )
        for rule in _gated_mlp_gradients(given)
    ]


@register_sharding(ops.gated_mlp_backward_main_grad.default)
def _gated_mlp_backward_main_grad(*args: Any) -> Rules:
    given, names = _GATED_MLP_BACKWARD_MAIN_GRAD.bind(args), ("main_grad_gate_up", "main_grad_down")
    rules: Rules = [
        (
            [rule.dx if given.need_dx else WHOLE],
            _GATED_MLP_BACKWARD_MAIN_GRAD.placements(given, **rule.operands, **dict.fromkeys(names, rule.dw)),
        )
        for rule in _gated_mlp_gradients(given)
    ]
    return where_main_grad_is(rules, "gated_mlp_backward_main_grad", given, *names)
