"""ot.linear_cross_entropy: against torch's own loss, gradients, what is saved, errors; on the CPU and a GPU."""

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from conftest import normal, snr
from torch.utils.flop_counter import FlopCounterMode

import octet.torch as ot

ops = torch.ops.octet
opcheck = torch.library.opcheck
HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU"))]
M, V, K = 300, 208, 136
# dB against f64, of the loss and of the gradients.
BOUNDS = {("plain", torch.float32): (120, 100), ("plain", torch.bfloat16): (50, 40), ("plain", torch.float16): (60, 40)}


def bounds(precision, dtype):
    return BOUNDS.get((precision, dtype), (30, 20))


def inputs(dtype=torch.bfloat16, device="cpu", m=M, v=V, k=K):
    """x, w and targets; every 11th token is ignored."""
    x, w = normal(m, k, dtype=dtype), (normal(v, k, seed=1) / k**0.5).to(dtype)
    target = torch.arange(m) * 7919 % v
    target[::11] = -100
    return [t.to(device) for t in (x, w, target)]


def reference(x, w, target, dloss=None, **kwargs):
    leaves = [t.detach().double().requires_grad_() for t in (x, w)]
    loss = F.cross_entropy(F.linear(*leaves), target.long(), **kwargs)
    return [loss.detach(), *torch.autograd.grad(loss, leaves, None if dloss is None else dloss.double())]


def gradients(x, w, target, dloss=None, **kwargs):
    leaves = [t.detach().requires_grad_() for t in (x, w)]
    loss = ot.linear_cross_entropy(*leaves, target, **kwargs)
    return [loss.detach(), *torch.autograd.grad(loss, leaves, dloss)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("precision", ["fp8", "plain"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_is_close_to_torch(reduction, precision, dtype, device):
    if device == "cuda" and precision == "plain" and dtype == torch.float32:
        x, w, target = inputs(dtype, device)
        with pytest.raises(ValueError, match="no implementation takes this problem"):
            ot.linear_cross_entropy(x, w, target, precision="plain")
        return
    x, w, target = inputs(dtype, device)
    dloss = normal(M, seed=5).to(device) if reduction == "none" else torch.tensor(2.5, device=device)
    got = gradients(x, w, target, dloss, reduction=reduction, precision=precision)
    want = reference(x, w, target, dloss, reduction=reduction)
    of_loss, of_gradients = bounds(precision, dtype)
    assert got[0].dtype == torch.float32 and got[0].shape == want[0].shape
    assert snr(got[0], want[0]) > of_loss
    for a, b in zip(got[1:], want[1:], strict=True):
        assert a.dtype == dtype and snr(a, b) > of_gradients
    ignored = target == -100
    assert torch.equal(got[1][ignored], torch.zeros_like(got[1][ignored]))


@pytest.mark.parametrize("wgrad", ["1d", "2d"])
def test_fp8_is_the_linear_layer_and_a_softmax(wgrad):
    """The logits are those of ot.linear, bit for bit; so are the gradients, up to the softmax's own f32."""
    x, w, target = inputs(torch.bfloat16)
    options = dict(wgrad=wgrad, grad_format="e5m2")
    loss, dx, dw = gradients(x, w, target, reduction="sum", **options)
    leaves = [t.detach().requires_grad_() for t in (x, w)]
    logits = ot.linear(*leaves, **options)
    want = F.cross_entropy(logits.float(), target, reduction="sum")
    assert abs(loss.item() / want.item() - 1) < 1e-6
    for a, b in zip((dx, dw), torch.autograd.grad(want, leaves), strict=True):
        assert snr(a, b) > 45


@pytest.mark.parametrize("device", DEVICES)
def test_any_leading_shape_and_integer(device):
    x, w, target = inputs(device=device)
    want = gradients(x, w, target)
    shaped = gradients(x.view(3, 4, 25, K), w, target.view(3, 4, 25).int())
    assert shaped[1].shape == (3, 4, 25, K)
    for a, b in zip(shaped, want, strict=True):
        assert torch.equal(a.reshape(b.shape), b)
    assert ot.linear_cross_entropy(x.view(3, 100, K), w, target.view(3, 100), reduction="none").shape == (3, 100)
    strided = x.t().contiguous().t(), w.t().contiguous().t(), torch.stack((target, target), 1)[:, 0]
    for a, b in zip(gradients(*strided), want, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("device", DEVICES)
def test_all_tokens_ignored(device):
    x, w, target = inputs(device=device)
    for reduction in ("mean", "sum", "none"):
        dloss = torch.ones(M, device=device) if reduction == "none" else None
        loss, dx, dw = gradients(x, w, torch.full_like(target, 3), dloss, ignore_index=3, reduction=reduction)
        assert loss.isnan() if reduction == "mean" else not loss.any()
        assert not dx.any() and not dw.any()


def test_no_tokens():
    w = normal(5, 128).requires_grad_()
    x = torch.empty(2, 0, 128, requires_grad=True)
    target = torch.empty(2, 0, dtype=torch.int64)
    assert ot.linear_cross_entropy(x, w, target).isnan()
    assert ot.linear_cross_entropy(x, w, target, reduction="none").shape == (2, 0)
    ot.linear_cross_entropy(x, w, target, reduction="sum").backward()
    assert torch.equal(w.grad, torch.zeros(5, 128))


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_backward_may_run_twice(reduction):
    x, w, target = inputs(torch.float32)
    x.requires_grad_(), w.requires_grad_()
    loss = ot.linear_cross_entropy(x, w, target, reduction=reduction).sum()
    once = torch.autograd.grad(loss, (x, w), retain_graph=True)
    (3 * loss).backward(retain_graph=True)
    loss.backward()
    for leaf, grad in zip((x, w), once, strict=True):
        assert snr(leaf.grad, 4 * grad) > 100 if reduction == "mean" else snr(leaf.grad, 4 * grad) > 30


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_main_grad_is_added_to(reduction, device):
    x, w, target = inputs(device=device)
    dloss = torch.full((M,), 0.5, device=device) if reduction == "none" else torch.tensor(0.5, device=device)
    _, dx, dw = gradients(x, w, target, dloss, reduction=reduction)
    main_grad = torch.full((V, K), 2.0, device=device)
    leaves = [t.detach().requires_grad_() for t in (x, w)]
    for _ in range(2):
        ot.linear_cross_entropy(*leaves, target, reduction=reduction, main_grad=main_grad).backward(dloss)
    assert leaves[1].grad is None
    assert torch.equal(leaves[0].grad, dx + dx)
    assert snr(main_grad - 2, 2 * dw.float()) > 45


@pytest.mark.parametrize("device", DEVICES)
def test_float16_gradients_have_the_scale_of_the_loss(device):
    """As a GradScaler has it: a mean of many tokens underflows in float16 unless the scale is there first."""
    x, w, target = inputs(torch.float16, device, m=2000)
    scale = torch.tensor(2.0**12, device=device)
    got, want = gradients(x, w, target, scale, precision="plain"), reference(x, w, target, scale)
    assert min(snr(a, b) for a, b in zip(got, want, strict=True)) > 50


def test_one_gradient_alone():
    x, w, target = inputs()
    _, dx, dw = gradients(x, w, target)
    for which, want in ((0, dx), (1, dw)):
        leaves = [t.detach().requires_grad_(i == which) for i, t in enumerate((x, w))]
        ot.linear_cross_entropy(*leaves, target).backward()
        assert torch.equal(leaves[which].grad, want) and leaves[1 - which].grad is None


def saved_bytes(*args, **kwargs):
    storages = {}

    def pack(t):
        storages[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        ot.linear_cross_entropy(*args, **kwargs)
    return sum(storages.values())


def test_saves_gradients_and_nothing_of_the_size_of_the_logits():
    x, w, target = inputs(m=1024, v=2048, k=64)
    assert saved_bytes(x, w, target) == 0
    x.requires_grad_(), w.requires_grad_()
    for reduction in ("mean", "sum"):
        assert saved_bytes(x, w, target, reduction=reduction) == 2 * (1024 + 2048) * 64
    assert saved_bytes(x, w, target, reduction="none") == 2 * (1024 + 2048) * 64 + 1024 * (8 + 4)


def test_weights_cast_already_give_the_same_bits():
    x, w, target = inputs()
    both = [ot.quantize(w, "128x128", transposed=t) for t in (False, True)]
    weight = ot.QuantizedWeight(*(t for q in both for t in (q.data, q.scale_data)))
    for reduction, dloss in (("mean", None), ("none", torch.ones(M))):
        want = gradients(x, w, target, dloss, reduction=reduction)
        got = gradients(x, w, target, dloss, reduction=reduction, quantized_w=weight)
        assert all(map(torch.equal, got, want))


def test_autocast():
    x, w, target = inputs(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        loss, dx, dw = gradients(x, w, target)
    want = gradients(x.bfloat16(), w.bfloat16(), target)
    assert torch.equal(loss, want[0]) and dx.dtype == dw.dtype == torch.float32
    assert torch.equal(dx, want[1].float()) and torch.equal(dw, want[2].float())


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("fp8", [False, True])
def test_operators(fp8, reduction):
    x, w, target = inputs(torch.float32, m=20, v=40, k=32)
    none, recipe = (None,) * 4, (-100, reduction, fp8, 4, 4, 1)
    x.requires_grad_(), w.requires_grad_()
    flags = [(True, True), (False, False)] if reduction else [(False, False)]
    for need in flags:
        opcheck(ops.linear_cross_entropy.default, (x, w, *none, target, None, True, *recipe, *need))
    x, w, main_grad = x.detach(), w.detach(), torch.zeros(40, 32)
    if reduction:
        opcheck(ops.linear_cross_entropy.default, (x, w, *none, target, main_grad, True, *recipe, True, True))
    _, lse, _, _ = ops.linear_cross_entropy(x, w, *none, target, None, True, *recipe, False, False)
    dloss = torch.ones(1 if reduction else 20)
    saved = (dloss, x, w, *none, target, lse)
    for need in [(True, True), (True, False), (False, True)]:
        opcheck(ops.linear_cross_entropy_backward.default, (*saved, *recipe, *need))
    for need_dx in (True, False):
        opcheck(ops.linear_cross_entropy_backward_main_grad.default, (*saved, main_grad, need_dx, *recipe, need_dx))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_compiles_into_one_graph(reduction, device):
    def step(x, w, target):
        loss = ot.linear_cross_entropy(x * 2, w, target, reduction=reduction)
        return loss.square().sum()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=True)
    for m in (64, 100):
        x, w, target = inputs(torch.float32 if device == "cpu" else torch.bfloat16, device, m=m)
        results = []
        for function in (step, compiled):
            leaves = [t.detach().requires_grad_() for t in (x, w)]
            loss = function(*leaves, target)
            results.append([loss.detach(), *torch.autograd.grad(loss, leaves)])
        assert all(map(torch.equal, *results))


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_main_grad_compiles(reduction):
    x, w, target = inputs(torch.float32)
    w.requires_grad_()
    main_grads = torch.zeros(V, K), torch.zeros(V, K)

    def step(main_grad):
        return ot.linear_cross_entropy(x, w, target, reduction=reduction, main_grad=main_grad).sum()

    step(main_grads[0]).backward()
    torch.compile(step, fullgraph=True, backend="aot_eager")(main_grads[1]).backward()
    assert torch.equal(*main_grads) and main_grads[0].any() and w.grad is None


@pytest.mark.parametrize("reduction, products", [("mean", 3), ("none", 4)])
def test_flops(reduction, products):
    x, w, target = inputs()
    x.requires_grad_(), w.requires_grad_()
    with FlopCounterMode(display=False) as counter:
        ot.linear_cross_entropy(x, w, target, reduction=reduction).sum().backward()
    assert counter.get_total_flops() == 2 * products * M * V * K


@pytest.mark.parametrize(
    "change, error, message",
    [
        (dict(reduction="max"), ValueError, "octet: reduction must be one of 'none', 'sum', 'mean', got 'max'"),
        (dict(precision="bf8"), ValueError, "octet: precision must be one of 'fp8', 'plain', got 'bf8'"),
        (dict(target=torch.zeros(M)), TypeError, "octet: target must be int64 or int32, got torch.float32"),
        (dict(target=[1]), TypeError, "octet: target must be a torch.Tensor, got list"),
        (
            dict(target=torch.zeros(7, dtype=torch.int64)),
            ValueError,
            r"octet: target must have the shape of x without its last dimension, \[300\], got \[7\]",
        ),
        (dict(w=torch.zeros(V, K)), TypeError, "octet: x and w must have the same dtype"),
        (dict(w=torch.zeros(V, 7, dtype=torch.bfloat16)), ValueError, r"w must be \[V, K\] = \[208, 136\], got"),
        (
            dict(target=torch.full((M,), V)),
            ValueError,
            r"targets must be in \[0, V\) = \[0, 208\) or ignore_index = -100, token 0 has 208",
        ),
        (dict(main_grad=torch.zeros(V, K).half()), TypeError, "octet: main_grad must be float32, got torch.float16"),
        (dict(main_grad=torch.zeros(K, V)), ValueError, r"octet: main_grad must be \[V, K\] = \[208, 136\], got"),
    ],
)
def test_refuses_bad_input(change, error, message):
    x, w, target = inputs()
    arguments = dict(x=x, w=w.requires_grad_(), target=target) | change
    with pytest.raises(error, match=message):
        ot.linear_cross_entropy(**arguments)


@pytest.fixture
def mesh():
    from torch.distributed.device_mesh import init_device_mesh

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def test_dtensors_are_gathered_but_a_split_vocabulary_is_refused(mesh):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    x, w, target = inputs()
    want = gradients(x, w, target)
    whole = [distribute_tensor(t, mesh, [Replicate()]) for t in (x, w, target)]
    for a, b in zip(gradients(*whole), want, strict=True):
        assert torch.equal(a.full_tensor(), b)
    with pytest.raises(ValueError, match="needs the whole vocabulary on every rank.*FSDP2, which gathers it"):
        ot.linear_cross_entropy(whole[0], distribute_tensor(w, mesh, [Shard(0)]), whole[2])


@pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU")
def test_peak_memory_and_graph_on_a_gpu():
    """Peak above inputs and gradients: no [tokens, vocabulary] tensor in 16 or 32 bits; and a CUDA graph's bits."""
    m, v, k = 8192, 65536, 1024
    x, w, target = inputs(device="cuda", m=m, v=v, k=k)
    x.requires_grad_(), w.requires_grad_()

    def step():
        x.grad = w.grad = None
        loss = ot.linear_cross_entropy(x, w, target)
        loss.backward()
        return loss.detach()

    step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    eager = [step().clone(), x.grad.clone(), w.grad.clone()]
    assert torch.cuda.max_memory_allocated() - before < 2 * m * v + 10 * v * k
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    graph.replay()
    torch.cuda.synchronize()
    assert all(map(torch.equal, [loss, x.grad, w.grad], eager))
