"""nn.Linear in FP8, the norm before it and the head with its loss, and the conversion of models that have nn.Linear."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from octet.torch._activation import QuantizedActivation
from octet.torch._cache import cached_weight
from octet.torch._cross_entropy import PRECISIONS, REDUCTIONS, linear_cross_entropy
from octet.torch._formats import DEFAULT_WGRAD, FORMATS, WGRADS, formats_of, number, operand_format, scaling_of
from octet.torch._linear import linear
from octet.torch._main_grad import main_grad_of
from octet.torch._norm import rms_norm


def check_recipe(wgrad: str, format: str, grad_format: str) -> None:
    number("wgrad", wgrad, WGRADS)
    number("format", format, FORMATS)
    number("grad_format", grad_format, FORMATS)


class Recipe(NamedTuple):
    """The options of a layer, checked: its attributes."""

    wgrad: str
    format: str
    grad_format: str
    recompute: bool
    granularity: str
    mx_scale: str
    fast_accumulation: bool

    @staticmethod
    def of(
        wgrad: str,
        format: str,
        grad_format: str | None,
        recompute: bool,
        granularity: str,
        mx_scale: str,
        fast_accumulation: bool,
    ) -> "Recipe":
        of_x, of_dy = formats_of(format, grad_format)
        assert of_x is not None
        check_recipe(wgrad, of_x, of_dy)
        scaling_of(granularity, wgrad, mx_scale, fast_accumulation)
        return Recipe(wgrad, of_x, of_dy, recompute, granularity, mx_scale, fast_accumulation)

    def set(self, module: Any) -> None:
        for name, value in self._asdict().items():
            setattr(module, name, value)

    @staticmethod
    def text_of(module: Any) -> str:
        """What extra_repr says of it."""
        shared = module.granularity
        if shared in ("blockwise", "mxfp8"):
            shared += f", wgrad={module.wgrad}"
        if module.mx_scale != "floor":
            shared += f", mx_scale={module.mx_scale}"
        if module.fast_accumulation:
            shared += ", fast_accumulation=True"
        return f"granularity={shared}, format={module.format}, grad_format={module.grad_format}"


class Linear(nn.Linear):
    """nn.Linear whose three products run in FP8: the same parameters, hooks and state_dict keys.

    ``[..., in_features] -> [..., out_features]``, also of a :class:`QuantizedActivation`; see
    :func:`octet.torch.linear` for the options, which are attributes. If the weight has a ``main_grad``, backward adds
    the weight gradient to it, and ``weight.grad`` stays None. Parameters of Megatron-LM, which have a
    ``grad_added_to_main_grad`` as well, get what its hooks expect: that attribute set, and a gradient that they drop.
    """

    _octet_weights = ("weight",)

    wgrad: str = DEFAULT_WGRAD
    format: str = "e4m3"
    grad_format: str = "e4m3"
    recompute: bool = False
    granularity: str = "blockwise"
    mx_scale: str = "floor"
    fast_accumulation: bool = False

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        wgrad: str = DEFAULT_WGRAD,
        format: str = "e4m3",
        grad_format: str | None = None,
        recompute: bool = False,
        granularity: str = "blockwise",
        mx_scale: str = "floor",
        fast_accumulation: bool = False,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        Recipe.of(wgrad, format, grad_format, recompute, granularity, mx_scale, fast_accumulation).set(self)

    def forward(self, x: Tensor | QuantizedActivation) -> Tensor:
        given = isinstance(x, QuantizedActivation)
        weight, main_grad, accumulate = main_grad_of(self.weight)
        return linear(
            x,
            weight,
            self.bias,
            wgrad=None if given else self.wgrad,
            format=None if given else self.format,
            grad_format=self.grad_format,
            granularity=self.granularity,
            mx_scale=self.mx_scale,
            fast_accumulation=self.fast_accumulation,
            recompute=self.recompute,
            main_grad=main_grad,
            accumulate=accumulate,
            quantized_w=cached_weight(self, "weight", x),
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {Recipe.text_of(self)}"


class RMSNorm(nn.RMSNorm):
    """nn.RMSNorm by octet's kernel, with the residual added on the way; see :func:`octet.torch.rms_norm`.

    ``forward(x)`` is y, ``forward(x, residual)`` is ``(y, x + residual)``. With ``quantized=True`` y is a
    :class:`QuantizedActivation`.
    """

    granularity: str = "blockwise"
    mx_scale: str = "floor"

    def __init__(
        self,
        dim: int,
        eps: float = 1e-6,
        *,
        quantized: bool = False,
        wgrad: str = DEFAULT_WGRAD,
        format: str = "e4m3",
        recompute: bool = False,
        granularity: str = "blockwise",
        mx_scale: str = "floor",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dim, eps=eps, device=device, dtype=dtype)
        format = operand_format(format)
        check_recipe(wgrad, format, format)
        scaling_of(granularity, wgrad, mx_scale)
        self.quantized, self.wgrad, self.format, self.recompute = quantized, wgrad, format, recompute
        self.granularity, self.mx_scale = granularity, mx_scale

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Any:
        return rms_norm(
            x,
            self.weight,
            residual,
            eps=1e-6 if self.eps is None else self.eps,
            quantized=self.quantized,
            wgrad=self.wgrad,
            format=self.format,
            recompute=self.recompute,
            granularity=self.granularity,
            mx_scale=self.mx_scale,
        )


class LinearCrossEntropy(nn.Module):
    """The head of a language model with its loss: see :func:`octet.torch.linear_cross_entropy`.

    ``forward(x, target)`` is the loss of the logits ``x weight^T``. One weight ``[vocabulary, dim]``, which may be an
    embedding's (``head.weight = embedding.weight``); its ``main_grad`` is used as :class:`Linear` uses it, and
    :func:`cache_weights` knows it. ``nn.functional.linear(x, head.weight)`` are the logits.
    """

    _octet_weights = ("weight",)

    def __init__(
        self,
        dim: int,
        vocabulary: int,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        precision: str = "fp8",
        wgrad: str = DEFAULT_WGRAD,
        format: str = "e4m3",
        grad_format: str = "e4m3",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_recipe(wgrad, format, grad_format)
        number("reduction", reduction, REDUCTIONS)
        number("precision", precision, PRECISIONS)
        self.dim, self.vocabulary, self.ignore_index = dim, vocabulary, ignore_index
        self.reduction, self.precision = reduction, precision
        self.wgrad, self.format, self.grad_format = wgrad, format, grad_format
        self.weight = nn.Parameter(torch.empty(vocabulary, dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        weight, main_grad, accumulate = main_grad_of(self.weight)
        return linear_cross_entropy(
            x,
            weight,
            target,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            precision=self.precision,
            wgrad=self.wgrad,
            format=self.format,
            grad_format=self.grad_format,
            main_grad=main_grad,
            accumulate=accumulate,
            quantized_w=cached_weight(self, "weight") if self.precision == "fp8" else None,
        )

    def extra_repr(self) -> str:
        return (
            f"dim={self.dim}, vocabulary={self.vocabulary}, reduction={self.reduction}, precision={self.precision}, "
            f"wgrad={self.wgrad}"
        )


def convert(
    model: nn.Module,
    filter: Callable[[str, nn.Linear], bool] | None = None,
    *,
    wgrad: str = DEFAULT_WGRAD,
    format: str = "e4m3",
    grad_format: str | None = None,
    recompute: bool = False,
    granularity: str = "blockwise",
    mx_scale: str = "floor",
    fast_accumulation: bool = False,
) -> nn.Module:
    """Makes every nn.Linear of the model an :class:`Linear`, in place, and returns the model.

    Only the class of a module changes: parameters, hooks, optimisers that hold the parameters and state_dict keys stay.
    Subclasses of nn.Linear are left alone.

    Args:
        filter: called with the qualified name and the module; False leaves it as it is. By default everything is
            converted but a module called ``lm_head``.
        wgrad, format, grad_format, recompute, granularity, mx_scale, fast_accumulation: of every layer; see
            :func:`octet.torch.linear`.

    Each layer casts its own x and keeps its own x^T, also where q, k and v read the same x. Layers that share them read
    a :class:`QuantizedActivation`, as :func:`octet.torch.patch_transformers` has it.
    """
    recipe = Recipe.of(wgrad, format, grad_format, recompute, granularity, mx_scale, fast_accumulation)
    for name, module in model.named_modules():
        if type(module) is not nn.Linear:
            continue
        if filter(name, module) if filter is not None else name.rpartition(".")[2] != "lm_head":
            module.__class__ = Linear
            recipe.set(module)
    return model
