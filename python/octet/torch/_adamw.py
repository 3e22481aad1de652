"""AdamW whose step over a parameter is one kernel."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from octet.torch._cache import CachedWeight, StepCaches
from octet.torch._operators import call, ops

try:
    from torch.distributed.tensor import DTensor
except ImportError:  # a torch without distributed
    DTensor = None  # type: ignore[assignment,misc]


@torch.library.register_fake("octet::adamw_")
def _(
    w: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    master: Tensor | None,
    grad_scale: Tensor | None,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
) -> None:
    return None


@torch.library.register_fake("octet::adamw_cast_")
def _(
    w: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    master: Tensor | None,
    grad_scale: Tensor | None,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
    values: Tensor,
    scales: Tensor,
    t_values: Tensor,
    t_scales: Tensor,
    format: int,
) -> None:
    return None


class AdamW(torch.optim.Optimizer):
    """:class:`torch.optim.AdamW` with every tensor read and written once per step, and one rounding per stored value.

    The state has the names and, without master weights, the dtypes of torch's, so that a state_dict loads either way.
    Parameters are float32, float16 or bfloat16; those that are sharded (FSDP2) are updated shard by shard.
    torch.amp.GradScaler's scale is divided out in the same kernel. A CUDA graph cannot capture a step.
    Weights that :func:`cache_weights` keeps in FP8 are cast in the same kernel too.

    Args:
        params: parameters or groups of them, as of every optimizer of torch.
        lr: the learning rate; a scheduler may change it.
        betas: decay of the two moments.
        eps: added to the root of the second moment.
        weight_decay: decoupled, as in torch.optim.AdamW.
        master_weights: keeps each parameter of 16 bits in float32 as well (``state["master"]``), with float32 moments.
            The update is applied to that copy, and the parameter is the copy rounded. Whoever writes a parameter
            otherwise writes ``state["master"]`` too.
    """

    # torch.amp.GradScaler then sets grad_scale and found_inf before step, and does not write the gradients.
    _step_supports_amp_scaling = True

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        master_weights: bool = False,
    ) -> None:
        for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            if not 0 <= value < float("inf"):
                raise ValueError(f"octet: {name} must be finite and at least 0, got {value}")
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"octet: betas must be two numbers that are at least 0 and less than 1, got {betas}")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "master_weights": master_weights})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for option in ("amsgrad", "maximize"):
                if group.get(option):
                    raise ValueError(f"octet: AdamW has no {option}, and the state_dict has {option}=True")
            group.setdefault("master_weights", self.defaults["master_weights"])
        for values in self.state.values():
            if "step" in values:  # on the CPU, where the bias corrections are computed
                values["step"] = torch.as_tensor(values["step"], dtype=torch.float32, device="cpu")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state_dict of this class or of torch.optim.AdamW. Whether there are master weights is the
        optimizer's own choice; those that the state_dict does not have begin as the parameters."""
        own = [group["master_weights"] for group in self.param_groups]
        super().load_state_dict(state_dict)
        saved = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        for group, master_weights in zip(self.param_groups, own, strict=True):
            group["master_weights"] = master_weights
            for p, key in zip(group["params"], saved, strict=False):
                # torch has cast them to the dtype of the parameter
                values = {k: v for k, v in state_dict["state"].get(key, {}).items() if k in _DTYPES}
                if not _has_master(p, group):
                    self.state.get(p, {}).pop("master", None)
                    values.pop("master", None)
                for name, value in values.items():
                    self.state[p][name] = value.to(device=p.device, dtype=_DTYPES[name](p, group))

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One step for every parameter that has a gradient. Returns what the closure returns."""
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                "octet: AdamW.step cannot be captured in a CUDA graph: step number and learning rate are arguments of "
                "its kernel, and every replay would have those of the capture. Call step outside of the graph"
            )
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        caches = StepCaches(self)
        found_inf = getattr(self, "found_inf", None)
        if found_inf is not None and found_inf.item():  # GradScaler skips this step
            return loss
        scale = getattr(self, "grad_scale", None)
        factor = None if scale is None else scale.float().reciprocal().reshape(1)
        for group in self.param_groups:
            beta1, beta2 = map(float, group["betas"])
            factors = (float(group["lr"]), beta1, beta2, float(group["eps"]), float(group["weight_decay"]))
            for p in group["params"]:
                if p.grad is not None:
                    cached = caches.to_write(p)
                    self._update(p, group, factors, factor, cached)
                    torch.autograd.graph.increment_version(p)  # at once: the next one may be refused
                    if cached is not None:
                        caches.written(cached, p)
        return loss

    def _update(
        self,
        p: Tensor,
        group: dict[str, Any],
        factors: tuple[float, ...],
        grad_scale: Tensor | None,
        cached: CachedWeight | None,
    ) -> None:
        if p.grad.is_sparse:  # type: ignore[union-attr]
            raise ValueError("octet: AdamW takes no sparse gradients; torch.optim.SparseAdam does")
        state = self.state[p]
        if "step" not in state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = torch.zeros_like(p, dtype=_moments_dtype(p, group))
        if _has_master(p, group) and "master" not in state:
            state["master"] = p.detach().float()
        step = int(state["step"].item()) + 1
        master = _local(state["master"]) if _has_master(p, group) else None
        moments = _local(state["exp_avg"]), _local(state["exp_avg_sq"])
        if grad_scale is not None:
            grad_scale = grad_scale.to(p.device)
        args = _local(p), _gradient_of(p), *moments, master, grad_scale, *factors, step
        if cached is None:
            call(ops.adamw_.default, *args)
        else:
            call(ops.adamw_cast_.default, *args, *cached.weight, cached.format)  # type: ignore[misc]
        state["step"] += 1  # after the update: one that was refused did not happen


def _has_master(p: Tensor, group: dict[str, Any]) -> bool:
    return group["master_weights"] and p.dtype != torch.float32


def _moments_dtype(p: Tensor, group: dict[str, Any]) -> torch.dtype:
    """Those of torch; f16 has too few exponents for a square."""
    return torch.float32 if _has_master(p, group) or p.dtype == torch.float16 else p.dtype


_DTYPES: dict[str, Callable[[Tensor, dict[str, Any]], torch.dtype]] = {
    "exp_avg": _moments_dtype,
    "exp_avg_sq": _moments_dtype,
    "master": lambda p, group: torch.float32,
}


def _local(tensor: Tensor) -> Tensor:
    """The shard of this rank, or the tensor."""
    return tensor._local_tensor if DTensor is not None and isinstance(tensor, DTensor) else tensor.detach()


def _gradient_of(p: Tensor) -> Tensor:
    """The gradient, laid out and sharded as the parameter is."""
    g = p.grad
    if DTensor is not None and isinstance(p, DTensor) and g.placements != p.placements:  # type: ignore[union-attr]
        g = g.redistribute(p.device_mesh, p.placements)  # type: ignore[union-attr]
    w, local = _local(p), _local(g)  # type: ignore[arg-type]
    if local.stride() == w.stride():
        return local
    return torch.empty_like(w, dtype=local.dtype).copy_(local)
