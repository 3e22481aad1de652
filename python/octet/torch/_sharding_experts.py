"""The operators of mixtures of experts on DTensors.

Tokens may be sharded where they are routed. The other operators see all rows of all groups: DTensor gathers what they
take. Experts on several ranks are not sharded tensors: MoE exchanges tokens over a process group.
"""

from typing import Any

from torch.distributed.tensor import Placement
from torch.distributed.tensor.experimental import register_sharding

from octet.torch._operators import ops
from octet.torch._sharding import ROWS, WHOLE, Arguments, Rules, where_main_grad_is

_ROUTE, _ROUTE_BACKWARD = Arguments("moe_route_forward"), Arguments("moe_route_backward")


@register_sharding(ops.moe_route_forward.default)
def _route(*args: Any) -> Rules:
    given = _ROUTE.bind(args)
    return [([p] * 3, _ROUTE.placements(given, logits=p, bias=WHOLE)) for p in (WHOLE, ROWS)]


@register_sharding(ops.moe_route_backward.default)
def _route_backward(*args: Any) -> Rules:
    given = _ROUTE_BACKWARD.bind(args)

    def rule(p: Placement) -> tuple[list[Placement], list[Any]]:
        return [p], _ROUTE_BACKWARD.placements(given, scores=p, indices=p, dweights=p, dscores=p)

    return [rule(WHOLE), rule(ROWS)]


def _register_whole(name: str, results: int, tensors: tuple[str, ...], main_grads: tuple[str, ...] = ()) -> None:
    arguments = Arguments(name)

    @register_sharding(getattr(ops, name).default)
    def _(*args: Any) -> Rules:
        given = arguments.bind(args)
        whole = dict.fromkeys((*tensors, *main_grads), WHOLE)
        rules: Rules = [([WHOLE] * results, arguments.placements(given, **whole))]
        return where_main_grad_is(rules, name, given, *main_grads)


_register_whole("moe_maps", 3, ("indices",))
_register_whole("moe_gather", 1, ("x", "row_of", "source"))
_register_whole("moe_sum", 1, ("rows", "row_of", "source"))
_register_whole("group_table", 1, ("sizes",))
_register_whole("grouped_linear_forward", 3, ("x", "w", "sizes"), ("main_grad",))
_register_whole("grouped_linear_backward", 2, ("dy", "table", "x_t", "w"))
_register_whole("grouped_linear_backward_main_grad", 1, ("dy", "table", "x_t", "w"), ("main_grad",))
_MAIN_GRADS = ("main_grad_gate_up", "main_grad_down")
_register_whole("moe_mlp_forward", 3, ("x", "indices", "weights", "w_gate_up", "w_down"), _MAIN_GRADS)
_register_whole("moe_mlp_backward", 4, ("dy", "saved", "w_gate_up", "w_down"))
_register_whole("moe_mlp_backward_main_grad", 2, ("dy", "saved", "w_gate_up", "w_down"), _MAIN_GRADS)
