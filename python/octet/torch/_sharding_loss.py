"""How the head with its loss runs on DTensors: with the whole vocabulary on every rank, and the tokens sharded where
the loss is a sum or one per token. A mean divides by the number of all tokens that count, which no rank knows alone."""

from typing import Any

from torch.distributed.tensor import Partial, Placement
from torch.distributed.tensor.experimental import register_sharding

from octet.torch._cross_entropy import REDUCTIONS
from octet.torch._operators import ops
from octet.torch._sharding import ROWS, WHOLE, Arguments, Rules, Sharding, where_main_grad_is

_FORWARD = Arguments("linear_cross_entropy")
_BACKWARD = Arguments("linear_cross_entropy_backward")
_BACKWARD_MAIN_GRAD = Arguments("linear_cross_entropy_backward_main_grad")
_WEIGHTS: dict[str, Sharding] = dict.fromkeys(("w", "w_values", "w_scales", "w_t", "w_t_scales"), WHOLE)


def _shardings_of_tokens(given: Any) -> list[tuple[Placement, Placement, Placement]]:
    """Placements of what has a row per token, of the loss and of what is a sum over tokens."""
    shardings: list[tuple[Placement, Placement, Placement]] = [(WHOLE, WHOLE, WHOLE)]
    if given.reduction != REDUCTIONS["mean"] and given.x.shape[0] % given.x.mesh.size() == 0:
        per_token = given.reduction == REDUCTIONS["none"]
        shardings.append((ROWS, ROWS if per_token else Partial(), Partial()))
    return shardings


@register_sharding(ops.linear_cross_entropy.default)
def _forward(*args: Any) -> Rules:
    given = _FORWARD.bind(args)
    rules: Rules = []
    for rows, loss, total in _shardings_of_tokens(given):
        outputs = [loss, rows, rows if given.need_dx else WHOLE, total if given.need_dw else WHOLE]
        rules.append((outputs, _FORWARD.placements(given, x=rows, target=rows, main_grad=total, **_WEIGHTS)))
    return where_main_grad_is(rules, "linear_cross_entropy", given, "main_grad")


def _operands(rows: Placement, given: Any) -> dict[str, Sharding]:
    dloss = rows if given.reduction == REDUCTIONS["none"] else WHOLE
    return {"dloss": dloss, "x": rows, "target": rows, "lse": rows, **_WEIGHTS}


@register_sharding(ops.linear_cross_entropy_backward.default)
def _backward(*args: Any) -> Rules:
    given = _BACKWARD.bind(args)
    return [
        (
            [rows if given.need_dx else WHOLE, total if given.need_dw else WHOLE],
            _BACKWARD.placements(given, **_operands(rows, given)),
        )
        for rows, _, total in _shardings_of_tokens(given)
    ]


@register_sharding(ops.linear_cross_entropy_backward_main_grad.default)
def _backward_main_grad(*args: Any) -> Rules:
    given = _BACKWARD_MAIN_GRAD.bind(args)
    rules: Rules = [
        (
            [rows if given.need_dx else WHOLE],
            _BACKWARD_MAIN_GRAD.placements(given, main_grad=total, **_operands(rows, given)),
        )
        for rows, _, total in _shardings_of_tokens(given)
    ]
    return where_main_grad_is(rules, "linear_cross_entropy_backward_main_grad", given, "main_grad")
