"""How attention runs on DTensors: sharded by sequences of the batch or, as tensor parallel does, by heads."""

from typing import Any, NamedTuple

from torch.distributed.tensor import Partial, Placement, Shard
from torch.distributed.tensor.experimental import register_sharding

from octet.torch._operators import ops
from octet.torch._sharding import WHOLE, Arguments, Rules


class _Cut(NamedTuple):
    """One sharding of a call: of q, k, v, out and their gradients, of lse, of sink, and of the sink's gradient."""

    heads: Placement
    lse: Placement
    sink: Placement
    dsink: Placement


def _cuts(given: Any) -> list[_Cut]:
    """Every rank needs whole groups of heads. Sequences with offsets are not sharded: a rank would need its own."""
    cuts, packed = [_Cut(WHOLE, WHOLE, WHOLE, WHOLE)], given.offsets_q is not None
    if not packed:
        cuts.append(_Cut(Shard(0), Shard(0), WHOLE, Partial()))
    if given.k.shape[-2] % given.k.mesh.size() == 0:
        cuts.append(_Cut(Shard(1 if packed else 2), Shard(0 if packed else 1), Shard(0), Shard(0)))
    return cuts


_INPUTS = ("q", "k", "v")
_OFFSETS = {"offsets_q": WHOLE, "offsets_kv": WHOLE}
_FORWARD, _BACKWARD = Arguments("attention_forward"), Arguments("attention_backward")


@register_sharding(ops.attention_forward.default)
def _forward(*args: Any) -> Rules:
    given = _FORWARD.bind(args)
    return [
        (
            [cut.heads, cut.lse],
            _FORWARD.placements(given, **dict.fromkeys(_INPUTS, cut.heads), sink=cut.sink, **_OFFSETS),
        )
        for cut in _cuts(given)
    ]


@register_sharding(ops.attention_backward.default)
def _backward(*args: Any) -> Rules:
    given = _BACKWARD.bind(args)
    rules: Rules = []
    for cut in _cuts(given):
        tensors = dict.fromkeys((*_INPUTS, "out", "dout"), cut.heads) | dict.fromkeys(("lse", "dlse"), cut.lse)
        dsink = WHOLE if given.sink is None else cut.dsink
        rules.append(([cut.heads] * 3 + [dsink], _BACKWARD.placements(given, **tensors, sink=cut.sink, **_OFFSETS)))
    return rules
