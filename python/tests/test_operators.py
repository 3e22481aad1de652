"""torch's own checks of every operator: schema, fake kernel, autograd registration, AOT dispatch."""

from pathlib import Path

import pytest
import torch
from conftest import PLAIN, linear_inputs, normal, same

import octet.torch  # noqa: F401
from octet.torch._formats import empty_quantized

ops = torch.ops.octet
opcheck = torch.library.opcheck
DTYPES = [torch.float32, torch.bfloat16]


def x_and_w(dtype):
    return normal(40, 256, dtype=dtype).requires_grad_(), normal(130, 256, dtype=dtype, seed=1).requires_grad_()


def quantized_weight(w):
    """w and w^T in FP8, by the operator that refreshes cached weights."""
    w = w.detach()
    out = [t for turned in (False, True) for t in ops.quantize(w, 4, 128, 128, turned, False, 0.0, False)]
    buffers = [torch.zeros_like(t) for t in out]
    ops.cast_weight_(w, *buffers, 4, 1)
    assert all(map(torch.equal, buffers, out))
    return buffers


def mlp_inputs(x, w_gate_up, w_down, main_grads=(None, None)):
    none = (None,) * 4
    return x, *none, w_gate_up, *none, w_down, *none, *main_grads, True


@pytest.mark.parametrize("wgrad", [1, 2])
def test_gated_mlp(wgrad):
    x, w_gate_up = normal(40, 256).requires_grad_(), normal(96, 256, seed=1).requires_grad_()
    w_down, dy = normal(256, 48, seed=2).requires_grad_(), normal(40, 256, seed=3)
    inputs = mlp_inputs(x, w_gate_up, w_down)
    for save_h in (True, False):
        opcheck(ops.gated_mlp_forward.default, (*inputs, 4, 4, wgrad, True, True, save_h, *PLAIN[1:]))
    x, w_gate_up, w_down = (t.detach() for t in (x, w_gate_up, w_down))
    copies = ops.cast_activation(x, 4, wgrad, True)
    caches = quantized_weight(w_gate_up), quantized_weight(w_down)
    _, gate_up, *saved = ops.gated_mlp_forward(
        *mlp_inputs(x, w_gate_up, w_down), 4, 4, wgrad, True, True, True, *PLAIN[1:]
    )
    fp8 = (
        x,
        *copies,
        w_gate_up,
        *caches[0],
        w_down,
        *caches[1],
        None,
        None,
        True,
        4,
        4,
        wgrad,
        True,
        True,
        False,
        *PLAIN[1:],
    )
    opcheck(ops.gated_mlp_forward.default, fp8)
    given = (dy, gate_up, *saved, w_gate_up, *caches[0][2:], w_down, *caches[1][2:])
    plain = (dy, gate_up, *saved[:2], None, None, w_gate_up, None, None, w_down, None, None)
    for tensors in (given, plain):
        opcheck(ops.gated_mlp_backward.default, (*tensors, 4, 5, wgrad, True, True))
        main_grads = torch.zeros(96, 256), torch.zeros(256, 48)
        opcheck(ops.gated_mlp_backward_main_grad.default, (*tensors, *main_grads, True, 4, 5, wgrad, True))
        opcheck(ops.gated_mlp_backward_main_grad.default, (*tensors, *main_grads, False, 4, 5, wgrad, True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wgrad", [1, 2])
def test_linear_forward(wgrad, dtype):
    x, w = x_and_w(dtype)
    opcheck(ops.linear_forward.default, (*linear_inputs(x, w), 4, 4, wgrad, True, *PLAIN))
    opcheck(ops.linear_forward.default, (*linear_inputs(x, w.detach()), 4, 4, wgrad, False, *PLAIN))
    opcheck(
        ops.linear_forward.default, (*linear_inputs(x, w.detach(), torch.zeros(130, 256)), 4, 4, wgrad, True, *PLAIN)
    )
    given = ops.cast_activation(x.detach(), 4, wgrad, True)
    opcheck(ops.linear_forward.default, (x, *given, w, *quantized_weight(w), None, True, 4, 4, wgrad, True, *PLAIN))
    bias = normal(130, dtype=dtype, seed=2).requires_grad_()
    opcheck(ops.linear_forward.default, (*linear_inputs(x, w), 4, 4, wgrad, False, bias, x, None, 0.0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wgrad", [1, 2])
def test_linear_backward(wgrad, dtype):
    x, w = (t.detach() for t in x_and_w(dtype))
    y, x_t, x_t_scales = ops.linear_forward(*linear_inputs(x, w), 4, 4, wgrad, True, *PLAIN)
    dy = torch.ones_like(y)
    for need in [(True, True), (True, False), (False, True)]:
        opcheck(ops.linear_backward.default, (dy, x_t, x_t_scales, w, None, None, 4, 5, wgrad, *need))
    opcheck(ops.linear_backward.default, (dy, None, None, w, *quantized_weight(w)[2:], 4, 5, wgrad, True, False))
    main_grad = torch.zeros(130, 256)
    for need_dx in (True, False):
        args = (dy, x_t, x_t_scales, w, None, None, main_grad, need_dx, 4, 5, wgrad, need_dx)
        opcheck(ops.linear_backward_main_grad.default, args)


@pytest.mark.parametrize("block", [(1, -1), (-1, 1), (-1, -1), (1, 32), (32, 32)])
@pytest.mark.parametrize("transposed", [False, True])
def test_quantize_in_other_granularities(transposed, block):
    args = (normal(40, 300), 4, *block, transposed, False, 0.0, False)
    opcheck(ops.quantize.default, args)
    if block[1] == 32:
        opcheck(ops.quantize.default, (*args, 2))
    extents = (300, 40) if transposed else (40, 300)
    opcheck(ops.dequantize.default, (*ops.quantize(*args), *extents, 4, *block, 1))


@pytest.mark.parametrize("scaling", [3, 4, 5, 6, 9, 10, 11, 12, 17, 18])
def test_layers_in_other_granularities(scaling):
    x, w = x_and_w(torch.bfloat16)
    opcheck(ops.cast_activation.default, (x.detach(), 4, scaling, True))
    opcheck(ops.linear_forward.default, (*linear_inputs(x, w), 4, 5, scaling, True, *PLAIN))
    _, x_t, x_t_scales = ops.linear_forward(*linear_inputs(x, w), 4, 5, scaling, True, *PLAIN)
    dy = normal(40, 130, dtype=torch.bfloat16)
    operands = (dy, x_t.detach(), x_t_scales.detach(), w.detach(), None, None)
    opcheck(ops.linear_backward.default, (*operands, 4, 5, scaling, True, True))


@pytest.mark.parametrize("block", [(1, 128), (128, 1), (128, 128)])
@pytest.mark.parametrize("transposed", [False, True])
def test_quantize_and_dequantize(transposed, block):
    x = normal(40, 300)
    args = (x, 4, *block, transposed, False, 0.0, False)
    opcheck(ops.quantize.default, args)
    opcheck(ops.cast_activation.default, (x, 4, 2, True))
    opcheck(ops.cast_activation.default, (x, 5, 1, False))
    opcheck(ops.cast_weight_.default, (x, *quantized_weight(x), 4, 1))
    extents = (300, 40) if transposed else (40, 300)
    opcheck(ops.dequantize.default, (*ops.quantize(*args), *extents, 4, *block, 3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm(dtype):
    x, g = normal(6, 40, dtype=dtype).requires_grad_(), normal(40, seed=1).requires_grad_()
    residual = normal(6, 40, dtype=dtype, seed=2).requires_grad_()
    opcheck(ops.rms_norm.default, (x, g, 1e-6))
    opcheck(ops.rms_norm_residual.default, (x, residual, g, 1e-6))
    for h in (residual, None):
        opcheck(ops.rms_norm_quantized.default, (x, h, g, 1e-6, 4, 1, True))
    opcheck(ops.rms_norm_quantized.default, (x, None, g, 1e-6, 4, 2, False))
    for wgrad in (1, 2):
        opcheck(ops.rms_norm_transposed.default, (x.detach(), g.detach(), 1e-6, 4, wgrad))
    x, g, dy = x.detach(), g.detach(), residual.detach()
    _, rstd = ops.rms_norm(x, g, 1e-6)
    opcheck(ops.rms_norm_backward.default, (dy, x, g, rstd, 1e-6))
    opcheck(ops.rms_norm_residual_backward.default, (dy, dy, x, g, rstd, 1e-6))


@pytest.mark.parametrize("interleaved", [False, True])
def test_rope(interleaved):
    q, k = normal(2, 5, 4, 8).requires_grad_(), normal(2, 5, 2, 8, seed=1).requires_grad_()
    cos, sin = normal(5, 4, seed=2), normal(5, 4, seed=3)
    positions = torch.tensor([[4, 3, 2, 1, 0], [0, 0, 1, 1, 4]])
    qkv, dv = normal(2, 5, 64).requires_grad_(), normal(2, 5, 2, 8, seed=4)
    for rows in (None, positions):
        angles = (cos, sin, rows, interleaved)
        opcheck(ops.rope.default, (q, k, *angles))
        opcheck(ops.rope_backward.default, (q.detach(), k.detach(), *angles))
        opcheck(ops.rope_qkv.default, (qkv, 4, 2, *angles))
        opcheck(ops.rope_qkv_backward.default, (q.detach(), k.detach(), dv, *angles))


def test_swiglu():
    gate_up, up = normal(6, 40).requires_grad_(), normal(6, 40, seed=1).requires_grad_()
    for inputs in ((gate_up, None), (gate_up, up)):
        opcheck(ops.swiglu.default, inputs)
        opcheck(ops.swiglu_quantized.default, (*inputs, 4, 1, True))
        opcheck(ops.swiglu_quantized.default, (*inputs, 5, 2, False))
    opcheck(ops.swiglu_backward.default, (normal(6, 20), gate_up.detach(), None))
    opcheck(ops.swiglu_backward.default, (normal(6, 40), gate_up.detach(), up.detach()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_adamw(dtype):
    def tensors():
        w, g, m = (normal(5, 7, dtype=dtype, seed=seed) for seed in range(3))
        return w, g, m, m.abs()

    factors = (1e-3, 0.9, 0.999, 1e-8, 1e-2, 3)
    opcheck(ops.adamw_.default, (*tensors(), None, None, *factors))
    opcheck(ops.adamw_.default, (*tensors(), normal(5, 7), torch.tensor(0.5), *factors))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("format", [4, 5])
def test_adamw_cast(dtype, format):
    def tensors():
        w, g, m = (normal(130, 70, dtype=dtype, seed=seed) for seed in range(3))
        return w, g, m, m.abs()

    def copies(w):
        row, column = (empty_quantized(*shape, (128, 128), w) for shape in ((130, 70), (70, 130)))
        return [t.zero_() for t in (*row, *column)]

    factors = (1e-3, 0.9, 0.999, 1e-8, 1e-2, 3)
    for master, scale in ((None, None), (normal(130, 70), torch.tensor(0.5))):
        given, apart = tensors(), tensors()
        given_copies, wanted_copies = copies(given[0]), copies(given[0])
        masters = [None if master is None else master.clone() for _ in range(2)]
        ops.adamw_cast_(*given, masters[0], scale, *factors, *given_copies, format)
        ops.adamw_(*apart, masters[1], scale, *factors)
        ops.cast_weight_(apart[0], *wanted_copies, format, 1)
        assert same(given, apart) and same(given_copies, wanted_copies)
        assert master is None or torch.equal(*masters)
        opcheck(ops.adamw_cast_.default, (*tensors(), master, scale, *factors, *copies(given[0]), format))


def test_adamw_cast_refuses_what_is_no_matrix():
    w, g, m, v = (normal(70, 130, seed=seed).t() for seed in range(4))
    row, column = (empty_quantized(*shape, (128, 128), w) for shape in ((130, 70), (70, 130)))
    factors = (1e-3, 0.9, 0.999, 1e-8, 1e-2, 3)
    with pytest.raises(RuntimeError, match="octet: w must be a contiguous matrix that is not empty"):
        ops.adamw_cast_(w, g, m, v.abs(), None, None, *factors, *row, *column, 4)
    w, g, m, v = (t.contiguous() for t in (w, g, m, v))
    with pytest.raises(RuntimeError, match="octet: w.values must be a contiguous uint8 tensor of shape"):
        ops.adamw_cast_(w, g, m, v.abs(), None, None, *factors, *column, *row, 4)


def test_every_operator_is_checked():
    sources = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    names = {name.split("::")[1] for name in torch._C._dispatch_get_all_op_names() if name.startswith("octet::")}
    assert "linear_forward" in names
    for name in names:
        assert f"opcheck(ops.{name}.default" in sources, name


# What takes plain tensors only: AdamW calls it with the shards of a rank, cache_weights refuses DTensors.
WITHOUT_SHARDING = {"adamw_", "adamw_cast_", "cast_weight_"}


def test_every_operator_has_a_sharding_rule():
    from torch.distributed.tensor import DTensor

    rules = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
    names = {name.split("::")[1] for name in torch._C._dispatch_get_all_op_names() if name.startswith("octet::")}
    assert {name for name in names if getattr(ops, name).default not in rules} == WITHOUT_SHARDING
