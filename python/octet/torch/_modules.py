"""nn.Linear in FP8, and the conversion of models that have some."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from octet.torch._formats import FORMATS, WGRADS, number
from octet.torch._linear import linear


class Linear(nn.Linear):
    """nn.Linear whose three products run in FP8: the same parameters, hooks and state_dict keys.

    ``[..., in_features] -> [..., out_features]``; see :func:`octet.torch.linear` for the options, which are attributes.
    If the weight has a ``main_grad`` (Megatron-LM's protocol), backward adds the weight gradient to it,
    ``weight.grad`` stays None, and ``weight.grad_added_to_main_grad`` is set.
    """

    wgrad: str = "1d"
    format: str = "e4m3"
    grad_format: str = "e4m3"

    def forward(self, x: Tensor) -> Tensor:
        main_grad = getattr(self.weight, "main_grad", None)
        if main_grad is not None and not torch.compiler.is_compiling():
            setattr(self.weight, "grad_added_to_main_grad", True)  # noqa: B010
        return linear(
            x,
            self.weight,
            self.bias,
            wgrad=self.wgrad,
            format=self.format,
            grad_format=self.grad_format,
            main_grad=main_grad,
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, wgrad={self.wgrad}, format={self.format}, grad_format={self.grad_format}"


def convert(
    model: nn.Module,
    filter: Callable[[str, nn.Linear], bool] | None = None,
    *,
    wgrad: str = "1d",
    format: str = "e4m3",
    grad_format: str = "e4m3",
) -> nn.Module:
    """Makes every nn.Linear of the model an :class:`Linear`, in place, and returns the model.

    Only the class of a module changes: parameters, hooks, optimisers that hold the parameters and state_dict keys stay.
    Subclasses of nn.Linear are left alone.

    Args:
        filter: called with the qualified name and the module; False leaves it as it is. By default everything is
            converted but a module called ``lm_head``.
    """
    number("wgrad", wgrad, WGRADS)
    number("format", format, FORMATS)
    number("grad_format", grad_format, FORMATS)
    for name, module in model.named_modules():
        if type(module) is not nn.Linear:
            continue
        if filter(name, module) if filter is not None else name.rpartition(".")[2] != "lm_head":
            module.__class__ = Linear
            for option, value in (("wgrad", wgrad), ("format", format), ("grad_format", grad_format)):
                setattr(module, option, value)
    return model
