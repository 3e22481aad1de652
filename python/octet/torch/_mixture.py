"""The feed-forward half of a layer as a mixture of experts, in one process or with its experts on several ranks."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from octet.torch._dtensor import DTENSORS
from octet.torch._formats import DEFAULT_WGRAD, number
from octet.torch._main_grad import main_grad_of
from octet.torch._modules import check_recipe
from octet.torch._moe import ACTIVATIONS, GROUP_SCORES, SCORES, Routing, moe_mlp, moe_route


class MoE(nn.Module):
    """``[..., dim] -> [..., dim]``: every token goes to top_k of many gated MLPs, all products in block-scaled FP8.

    Args:
        dim, hidden: features of a token, and between the two products of an expert.
        experts, top_k: of the mixture, and of a token.
        score, expert_groups, top_groups, group_score, normalize, scale: of the choice; see :func:`moe_route`.
        selection_bias: a buffer ``selection_bias`` ``[experts]`` in f32 is added to the scores for the choice only;
            whoever balances the experts writes it.
        capacity: tokens of an expert at most; 0: any number.
        activation: of the experts; see :func:`moe_mlp`.
        wgrad, format, grad_format: as in :func:`linear`.
        group: a process group over whose ranks the experts are spread, ``experts / ranks`` on each. Every rank has the
            tokens of its own, and all of them call forward. None: all experts are here.

    Parameters: ``router`` ``[experts, dim]``, which is multiplied in f32, and the experts that are here,
    ``w_gate_up`` ``[experts here, 2 hidden, dim]`` and ``w_down`` ``[experts here, dim, hidden]``. Main gradients of
    the experts are used as :class:`Linear` uses them.

    For auxiliary losses, choose first: ``routing = moe.route(x); y = moe(x, routing)``. ``routing.scores`` has
    gradients, and ``routing.indices`` says how many tokens each expert got.
    """

    selection_bias: Tensor | None

    def __init__(
        self,
        dim: int,
        hidden: int,
        experts: int,
        top_k: int,
        *,
        score: str = "softmax",
        selection_bias: bool = False,
        expert_groups: int = 1,
        top_groups: int = 1,
        group_score: str = "best_two",
        normalize: bool = True,
        scale: float = 1.0,
        capacity: int = 0,
        activation: str = "silu",
        wgrad: str = DEFAULT_WGRAD,
        format: str = "e4m3",
        grad_format: str = "e4m3",
        group: Any = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_recipe(wgrad, format, grad_format)
        for argument, given, table in (
            ("score", score, SCORES),
            ("group_score", group_score, GROUP_SCORES),
            ("activation", activation, ACTIVATIONS),
        ):
            number(argument, given, table)
        if not 1 <= top_k <= experts:
            raise ValueError(f"octet: top_k must be 1 to the {experts} experts, got {top_k}")
        ranks = 1 if group is None else torch.distributed.get_world_size(group)
        if experts % ranks != 0:
            raise ValueError(f"octet: experts must be a multiple of the {ranks} ranks of the group, got {experts}")
        if capacity != 0 and group is not None:
            raise ValueError(
                "octet: capacity cannot be given with a group: a rank does not see all tokens of an expert"
            )
        self.dim, self.hidden, self.experts, self.top_k = dim, hidden, experts, top_k
        self.score, self.expert_groups, self.top_groups = score, expert_groups, top_groups
        self.group_score, self.normalize, self.scale = group_score, normalize, scale
        self.capacity, self.activation, self.group = capacity, activation, group
        self.wgrad, self.format, self.grad_format = wgrad, format, grad_format
        here = experts // ranks
        self.router = nn.Parameter(torch.empty(experts, dim, device=device, dtype=dtype))
        self.w_gate_up = nn.Parameter(torch.empty(here, 2 * hidden, dim, device=device, dtype=dtype))
        self.w_down = nn.Parameter(torch.empty(here, dim, hidden, device=device, dtype=dtype))
        bias = torch.zeros(experts, device=device, dtype=torch.float32) if selection_bias else None
        self.register_buffer("selection_bias", bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (self.router, self.w_gate_up, self.w_down):
            bound = 1 / math.sqrt(weight.shape[-1])  # as nn.Linear
            nn.init.uniform_(weight, -bound, bound)
        if self.selection_bias is not None:
            nn.init.zeros_(self.selection_bias)

    def route(self, x: Tensor) -> Routing:
        """The experts of the tokens of x, all its dimensions but the last flattened to one."""
        flat = x.reshape(-1, self.dim)
        with torch.autocast(x.device.type, enabled=False):
            logits = nn.functional.linear(flat.float(), self.router.float())
        return moe_route(
            logits,
            self.top_k,
            score=self.score,
            bias=self.selection_bias,
            expert_groups=self.expert_groups,
            top_groups=self.top_groups,
            group_score=self.group_score,
            normalize=self.normalize,
            scale=self.scale,
        )

    def forward(self, x: Tensor, routing: Routing | None = None) -> Tensor:
        if isinstance(x, DTENSORS):
            raise TypeError(
                "octet: MoE takes the tokens of this rank as a plain tensor, got a DTensor; experts are "
                "spread over ranks by group="
            )
        routing = self.route(x) if routing is None else routing
        flat = x.reshape(-1, self.dim)
        w_gate_up, *gate_up = main_grad_of(self.w_gate_up)
        w_down, *down = main_grad_of(self.w_down)
        options: dict[str, Any] = {"activation": self.activation, "wgrad": self.wgrad}
        options |= {"format": self.format, "grad_format": self.grad_format}
        if gate_up[0] is not None and down[0] is not None:
            options |= {"main_grads": (gate_up[0], down[0]), "accumulate": gate_up[1]}
        if self.group is not None:
            from octet.torch._expert_parallel import expert_parallel_mlp

            y = expert_parallel_mlp(flat, routing, w_gate_up, w_down, experts=self.experts, group=self.group, **options)
        else:
            y, _ = moe_mlp(flat, routing.indices, routing.weights, w_gate_up, w_down, capacity=self.capacity, **options)
        return y.view(*x.shape[:-1], self.dim)

    def extra_repr(self) -> str:
        here = self.w_gate_up.shape[0]
        return (
            f"dim={self.dim}, hidden={self.hidden}, experts={self.experts}, top_k={self.top_k}, score={self.score}, "
            f"wgrad={self.wgrad}" + (f", experts_here={here}" if here != self.experts else "")
        )
