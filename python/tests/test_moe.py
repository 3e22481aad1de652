"""ot.grouped_linear and ot.MoE: bits, gradients, compilation, checkpoints, autocast, main gradients, bad input."""

import c_api_moe
import pytest
import torch
import torch.nn.functional as F
from conftest import normal, same, snr
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import octet.torch as ot

ops = torch.ops.octet
# The parts of saved bytes that nobody writes, such as token blocks behind the last group, may differ between runs.
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")


def opcheck(operator, args):
    torch.library.opcheck(operator, args, test_utils=CHECKS)


def layer(dtype=torch.bfloat16, **options):
    torch.manual_seed(0)
    return ot.MoE(256, 96, 6, 2, dtype=dtype, **options)


def gradients(moe, x, dy):
    x = x.detach().requires_grad_()
    y = moe(x)
    return y, *torch.autograd.grad(y, [x, moe.router, moe.w_gate_up, moe.w_down], dy)


def reference(moe, x, dy, score=lambda logits: logits.softmax(-1)):
    """The same layer in f32, expert by expert."""
    x, router, w_gate_up, w_down = (
        t.detach().float().requires_grad_() for t in (x, moe.router, moe.w_gate_up, moe.w_down)
    )
    scores = score(x @ router.T)
    indices = moe.route(x.to(moe.router.dtype)).indices.long()
    weights = scores.gather(1, indices)
    weights = weights / weights.sum(-1, keepdim=True) * moe.scale
    y = torch.zeros_like(x)
    for expert in range(moe.experts):
        token, k = (indices == expert).nonzero(as_tuple=True)
        gate, up = (x[token] @ w_gate_up[expert].T).chunk(2, -1)
        h = F.silu(gate) * up * weights[token, k, None]
        y = y.index_add(0, token, h @ w_down[expert].T)
    return y, *torch.autograd.grad(y, [x, router, w_gate_up, w_down], dy.float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wgrad", ["1d", "2d"])
def test_same_bits_as_the_c_api(wgrad, dtype):
    moe = layer(dtype, wgrad=wgrad)
    x, dy = normal(150, 256, dtype=dtype), normal(150, 256, dtype=dtype, seed=1)
    leaf = x.clone().requires_grad_()
    logits = F.linear(x.float(), moe.router.float()).detach().requires_grad_()
    routing = ot.moe_route(logits, 2)
    y = moe(leaf, routing)
    got = torch.autograd.grad(y, [leaf, logits, moe.w_gate_up, moe.w_down], dy)
    weights = moe.w_gate_up.detach(), moe.w_down.detach()
    want = c_api_moe.moe_mlp(x, logits.detach(), *weights, dy, 2, wgrad_blocks=1 if wgrad == "1d" else 2)
    assert same([y.detach(), *got], want)


@pytest.mark.parametrize("score", ["softmax", "sigmoid"])
def test_gradients_are_those_of_the_formula(score):
    moe = layer(torch.float32, score=score, scale=2.5)
    x, dy = normal(300, 256), normal(300, 256, seed=1)
    function = (lambda t: t.softmax(-1)) if score == "softmax" else torch.sigmoid
    for got, want in zip(gradients(moe, x, dy), reference(moe, x, dy, function), strict=True):
        assert snr(got, want) > 20


def test_an_expert_without_tokens_has_no_gradient():
    moe = layer(selection_bias=True)
    moe.selection_bias[3] = -10
    x = normal(40, 256, dtype=torch.bfloat16)
    assert not (moe.route(x).indices == 3).any()
    *_, dw_gate_up, dw_down = gradients(moe, x, torch.ones_like(x))
    assert not dw_gate_up[3].any() and not dw_down[3].any() and dw_down[2].any()


def test_grouped_linear_is_linear_on_every_group():
    x, w = (
        normal(*s, dtype=torch.bfloat16, seed=i).requires_grad_() for i, s in enumerate([(300, 256), (4, 130, 256)])
    )
    sizes, ends = torch.tensor([100, 0, 57, 120]), torch.tensor([100, 100, 157, 277], dtype=torch.int32)
    dy = normal(300, 130, dtype=torch.bfloat16, seed=3)
    y = ot.grouped_linear(x, w, sizes)
    dx, dw = torch.autograd.grad(y, [x, w], dy)
    assert not y[277:].any() and not dx[277:].any() and not dw[1].any()
    for g, (first, last) in enumerate([(0, 100), (100, 100), (100, 157), (157, 277)]):
        if first == last:
            continue
        part, one = x[first:last].detach().requires_grad_(), w[g].detach().requires_grad_()
        alone = ot.linear(part, one)
        want = alone, *torch.autograd.grad(alone, [part, one], dy[first:last])
        assert same([y[first:last], dx[first:last], dw[g]], want)
    for given, numbers in (("ends", ends), ("offsets", torch.tensor([0, *ends.tolist()]))):
        assert torch.equal(ot.grouped_linear(x, w, numbers, given=given), y)


@pytest.mark.parametrize("wgrad", [1, 2])
def test_opcheck(wgrad):
    x, w = normal(140, 256).requires_grad_(), normal(3, 96, 256, seed=1).requires_grad_()
    sizes, recipe = torch.tensor([20, 0, 77]), (4, 5, wgrad)
    opcheck(ops.group_table.default, (sizes, 1, 140))
    opcheck(ops.group_table.default, (torch.tensor([0, 20, 20]), 3, 140))
    opcheck(ops.grouped_linear_forward.default, (x, w, sizes, None, True, 1, *recipe, True))
    opcheck(ops.grouped_linear_forward.default, (x, w.detach(), sizes, None, True, 1, *recipe, False))
    x, w = x.detach(), w.detach()
    y, table, x_t = ops.grouped_linear_forward(x, w, sizes, None, True, 1, *recipe, True)
    opcheck(ops.grouped_linear_backward.default, (y, table, x_t, w, *recipe, True, True))
    opcheck(ops.grouped_linear_backward_main_grad.default, (y, table, x_t, w, torch.zeros_like(w), True, *recipe, True))

    logits = normal(70, 8, seed=2).requires_grad_()
    options = (2, 2, 4, 2, 1, True, 1.5)
    opcheck(ops.moe_route_forward.default, (logits, torch.zeros(8), *options))
    weights, indices, scores = ops.moe_route_forward(logits.detach(), None, *options)
    opcheck(ops.moe_route_backward.default, (scores, indices, weights, scores, 1, *options))
    opcheck(ops.moe_maps.default, (indices, 8))
    row_of, source, _ = ops.moe_maps(indices, 8)
    opcheck(ops.moe_gather.default, (normal(70, 40).requires_grad_(), row_of, source))
    opcheck(ops.moe_sum.default, (normal(140, 40).requires_grad_(), row_of, source))

    x, w_gate_up, w_down = normal(70, 256), normal(8, 96, 256, seed=3), normal(8, 256, 48, seed=4)
    leaves = tuple(t.requires_grad_() for t in (x, weights, w_gate_up, w_down))
    options = (8, 0, 0, 1, *recipe)
    for save in ((True, True), (True, False)):
        opcheck(ops.moe_mlp_forward.default, (leaves[0], indices, *leaves[1:], None, None, True, *options, *save))
    x, weights, w_gate_up, w_down = (t.detach() for t in leaves)
    opcheck(
        ops.moe_mlp_forward.default, (x, indices, weights, w_gate_up, w_down, None, None, True, *options, False, False)
    )
    y, _, saved = ops.moe_mlp_forward(x, indices, weights, w_gate_up, w_down, None, None, True, *options, True, True)
    assert len(saved) == c_api_moe.saved_bytes(
        dtype=1,
        routing=0,
        tokens=70,
        f=48,
        k=256,
        experts=8,
        top_k=2,
        weights_quantized=1,
        dw_dtype=1,
        wgrad_blocks=wgrad,
    )
    for need in [(True, True), (True, False), (False, True), (False, False)]:
        opcheck(ops.moe_mlp_backward.default, (y, saved, w_gate_up, w_down, 2, *options, True, *need))
    main_grads = torch.zeros_like(w_gate_up), torch.zeros_like(w_down)
    args = (y, saved, w_gate_up, w_down, *main_grads, True, 2, *options, True, True)
    opcheck(ops.moe_mlp_backward_main_grad.default, args)


def test_compiles_to_the_same_bits():
    moe, x, dy = layer(), normal(64, 256, dtype=torch.bfloat16), normal(64, 256, dtype=torch.bfloat16, seed=1)
    want = gradients(moe, x, dy)
    compiled = torch.compile(moe, backend="aot_eager", fullgraph=True)
    x = x.requires_grad_()
    y = compiled(x)
    got = y, *torch.autograd.grad(y, [x, moe.router, moe.w_gate_up, moe.w_down], dy)
    assert same(got[:2], want[:2]) and same(got[3:], want[3:])
    assert snr(got[2], want[2]) > 100


def test_checkpointing_gives_the_same_bits():
    moe, x, dy = layer(), normal(64, 256, dtype=torch.bfloat16), normal(64, 256, dtype=torch.bfloat16, seed=1)
    want = gradients(moe, x, dy)
    x = x.requires_grad_()
    y = checkpoint(moe, x, use_reentrant=False)
    assert same([y, *torch.autograd.grad(y, [x, moe.router, moe.w_gate_up, moe.w_down], dy)], want)


def test_autocast():
    moe, x = layer(torch.float32), normal(64, 256)
    with torch.autocast("cpu", torch.bfloat16):
        y = moe(x)
    assert y.dtype is torch.bfloat16
    y.float().sum().backward()
    assert moe.w_down.grad.dtype is torch.float32 and moe.router.grad.any()
    same_choice = moe.route(x).indices
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(moe.route(x).indices, same_choice)  # the router runs in f32


def test_main_gradients():
    moe, x, dy = layer(), normal(64, 256, dtype=torch.bfloat16), normal(64, 256, dtype=torch.bfloat16, seed=1)
    moe.w_gate_up.main_grad, moe.w_down.main_grad = (torch.ones(w.shape) for w in (moe.w_gate_up, moe.w_down))
    moe(x).backward(dy)
    assert moe.w_down.grad is None and moe.router.grad is not None
    sums = moe.w_gate_up.main_grad, moe.w_down.main_grad
    exact = layer(torch.float32)
    with torch.no_grad():
        for a, b in zip(exact.parameters(), moe.parameters(), strict=True):
            a.copy_(b)
    want = gradients(exact, x.float(), dy.float())[3:]
    assert all(snr(total - 1, dw) > 20 for total, dw in zip(sums, want, strict=True))
    w = normal(3, 130, 256).requires_grad_()
    rows, main_grad = normal(90, 256, seed=1), torch.full((3, 130, 256), torch.nan)
    ot.grouped_linear(rows, w, torch.tensor([30, 0, 40]), main_grad=main_grad, accumulate=False).sum().backward()
    assert main_grad.isfinite().all() and not main_grad[1].any() and w.grad is None


def test_no_tokens():
    moe, x = layer(), torch.zeros(0, 256, dtype=torch.bfloat16)
    y, dx, d_router, dw_gate_up, dw_down = gradients(moe, x, torch.zeros_like(x))
    assert y.shape == dx.shape == (0, 256) and not dw_gate_up.any() and not dw_down.any() and not d_router.any()
    w = normal(2, 40, 256).requires_grad_()
    y = ot.grouped_linear(torch.zeros(0, 256), w, torch.tensor([0, 0]))
    assert y.shape == (0, 40) and not torch.autograd.grad(y.sum(), w)[0].any()


def test_auxiliary_losses_reach_the_router():
    moe, x = layer(), normal(64, 256, dtype=torch.bfloat16)
    routing = moe.route(x)
    routing.scores.square().sum().backward()
    assert moe.router.grad.any()
    assert torch.equal(moe(x, routing), moe(x))


def test_counts_flops():
    moe, x = layer(), normal(64, 256, dtype=torch.bfloat16).requires_grad_()
    routing = ot.moe_route(normal(64, 6), 2)
    with FlopCounterMode(display=False) as counter:
        moe(x, routing).sum().backward()
    assert counter.get_total_flops() == 3 * (2 * 64 * 2) * 3 * 96 * 256


def test_experts_of_one_rank_are_a_share_of_the_sum():
    x = normal(64, 256)
    moe = layer(torch.float32)
    routing = moe.route(x)
    whole, sizes = ot.moe_mlp(x, routing.indices, routing.weights, moe.w_gate_up, moe.w_down)
    parts = [
        ot.moe_mlp(
            x,
            routing.indices,
            routing.weights,
            moe.w_gate_up[g : g + 3],
            moe.w_down[g : g + 3],
            experts=6,
            first_expert=g,
        )
        for g in (0, 3)
    ]
    assert sizes.sum() == 128 and torch.equal(torch.cat([part[1] for part in parts]), sizes)
    assert snr(parts[0][0] + parts[1][0], whole) > 100


def test_experts_whose_tokens_have_gaps_between_them():
    """The layout of DeepEP's low-latency kernels, [experts, max tokens, hidden], as docs/pytorch.md says."""
    counts, most = torch.tensor([5, 0, 96, 33], dtype=torch.int32), 96
    gaps = torch.arange(most) >= counts[:, None]
    x = normal(4, most, 256)
    x[gaps] = torch.nan
    x.requires_grad_()
    w_gate_up, w_down = normal(4, 128, 256, seed=1).requires_grad_(), normal(4, 256, 64, seed=2).requires_grad_()
    indices = torch.where(torch.arange(most) < counts[:, None], torch.arange(4)[:, None], -1)
    y, sizes = ot.moe_mlp(x.flatten(0, 1), indices.view(-1, 1), torch.ones(4 * most, 1), w_gate_up, w_down)
    y, dy = y.view(4, most, 256), normal(4, most, 256, seed=3)
    dx, *dw = torch.autograd.grad(y, [x, w_gate_up, w_down], dy)
    assert torch.equal(sizes, counts) and not y[gaps].any() and not dx[gaps].any()
    for e, n in enumerate(counts.tolist()):
        if n == 0:
            continue
        leaves = [t.detach().requires_grad_() for t in (x[e, :n], w_gate_up[e], w_down[e])]
        alone = ot.gated_mlp(*leaves)
        want = alone, *torch.autograd.grad(alone, leaves, dy[e, :n])
        assert same([y[e, :n], dx[e, :n], *(d[e] for d in dw)], want)


def test_refuses_bad_input():
    x, w = normal(40, 256), normal(3, 64, 256)
    sizes = torch.tensor([10, 20, 10])
    with pytest.raises(ValueError, match=r"sizes must be \[3\], sizes of 3 groups, got \[4\]"):
        ot.grouped_linear(x, w, torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"given must be one of 'sizes', 'ends', 'offsets', got 'starts'"):
        ot.grouped_linear(x, w, sizes, given="starts")
    with pytest.raises(TypeError, match="sizes must be a tensor of int32 or int64"):
        ot.grouped_linear(x, w, sizes.float())
    with pytest.raises(ValueError, match=r"w must be \[experts, N, K\], got \[64, 256\]"):
        ot.grouped_linear(x, w[0], sizes)
    with pytest.raises(ValueError, match=r"x must be \[rows, K\] = \[40, 128\], got \[40, 256\]"):
        ot.grouped_linear(x, normal(3, 64, 128), sizes)
    with pytest.raises(TypeError, match="x and w must have the same dtype"):
        ot.grouped_linear(x, w.bfloat16(), sizes)
    with pytest.raises(ValueError, match="top_k must be at most the 6 experts, got 7"):
        ot.moe_route(normal(4, 6), 7)
    with pytest.raises(ValueError, match="score must be one of 'softmax', 'sigmoid', got 'relu'"):
        ot.MoE(256, 96, 6, 2, score="relu")
    with pytest.raises(ValueError, match="top_k must be 1 to the 6 experts, got 8"):
        ot.MoE(256, 96, 6, 8)
    w_gate_up, w_down, indices, weights = (
        normal(4, 96, 256),
        normal(4, 256, 48),
        torch.zeros(40, 2, dtype=torch.int64),
        normal(40, 2),
    )
    with pytest.raises(ValueError, match=r"w_down must be \[experts, K, F\] = \[4, 256, 48\], got \[4, 256, 40\]"):
        ot.moe_mlp(x, indices, weights, w_gate_up, normal(4, 256, 40))
    with pytest.raises(ValueError, match=r"weights must be \[tokens, top_k\] = \[40, 2\], got \[40, 3\]"):
        ot.moe_mlp(x, indices, normal(40, 3), w_gate_up, w_down)
    with pytest.raises(TypeError, match="indices must be a tensor of integers"):
        ot.moe_mlp(x, weights, weights, w_gate_up, w_down)
    with pytest.raises(ValueError, match="first_expert and local_experts must lie within the 5 experts, got 2 and 4"):
        ot.moe_mlp(x, indices, weights, w_gate_up, w_down, experts=5, first_expert=2)


@pytest.mark.parametrize(
    ("given", "sizes", "message"),
    [
        ("sizes", [-3, 5, 9], "the size of group 0 must be at least 0, got -3"),
        ("sizes", [30, 30, 30], "group 1 must end within the 40 rows of the buffers, the size of group 1 is 30"),
        ("ends", [20, 10, 30], "the end of group 1 must not be less than the end of group 0, got 10"),
        ("offsets", [0, 20, 10, 30], "offset 2 must not be less than offset 1, got 10"),
        ("offsets", [1, 20, 20, 30], "offset 0 must be 0, got 1"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_sizes_that_do_not_fit_raise_on_the_cpu(given, sizes, message, dtype):
    x, w, sizes = normal(40, 256), normal(3, 64, 256), torch.tensor(sizes, dtype=dtype)
    with pytest.raises(ValueError, match=f"group_table: {message}"):
        ot.grouped_linear(x, w, sizes, given=given)
    with pytest.raises(ValueError, match=f"group_table: {message}"):
        ot.check_groups(sizes, 40, given=given)


def test_sizes_of_no_rows_are_zero():
    x, w = normal(0, 256), normal(3, 64, 256)
    for dtype in (torch.int32, torch.int64):
        sizes = torch.tensor([0, 2, 0], dtype=dtype)
        with pytest.raises(ValueError, match=r"sizes\[1\] must be 0 for 0 rows, got 2"):
            ot.grouped_linear(x, w, sizes)
        with pytest.raises(ValueError, match=r"sizes\[1\] must be 0 for 0 rows, got 2"):
            ot.check_groups(sizes, 0)
        ot.check_groups(torch.zeros(3, dtype=dtype), 0)


def test_sizes_and_indices_that_fit_pass():
    ot.check_groups(torch.tensor([10, 0, 30]), 40)
    ot.check_groups(torch.tensor([10, 0, 3]), 40)  # rows behind the last group
    ot.check_groups(torch.tensor([10, 99, 30, 99])[::2], 40)  # any stride
    ot.check_groups(torch.tensor([0, 10, 10, 40]), 40, given="offsets")
    ot.check_indices(torch.tensor([[0, 3], [-1, 2]]), 4)
    ot.check_indices(torch.zeros(0, 2, dtype=torch.int32), 4)


@pytest.mark.parametrize("bad", [4, 99, -2])
def test_indices_that_are_no_expert_raise_on_the_cpu(bad):
    x, weights = normal(40, 256), normal(40, 2)
    w_gate_up, w_down = normal(4, 96, 256), normal(4, 256, 48)
    indices = torch.zeros(40, 2, dtype=torch.int64)
    indices[7, 1] = bad
    message = rf"moe_maps: indices\[7, 1\] must be -1 or an expert of 0 to 3, got {bad}"
    with pytest.raises(ValueError, match=message):
        ot.moe_mlp(x, indices, weights, w_gate_up, w_down)
    with pytest.raises(ValueError, match=message):
        ot.check_indices(indices, 4)
    with pytest.raises(RuntimeError, match=message):
        ops.moe_maps(indices, 4)
    indices[7, 1] = -1
    y, sizes = ot.moe_mlp(x, indices, weights, w_gate_up, w_down)
    assert y.isfinite().all() and sizes.tolist() == [79, 0, 0, 0]


def test_checks_refuse_to_be_compiled():
    for check, args in ((ot.check_groups, (torch.tensor([3]), 40)), (ot.check_indices, (torch.tensor([[3]]), 4))):
        with pytest.raises(Exception, match="outside of compiled code"):
            torch.compile(check, backend="eager", fullgraph=True)(*args)
