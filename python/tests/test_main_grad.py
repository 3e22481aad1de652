"""Main gradients: what is added to them and when, Megatron-LM's protocol, and batches without tokens."""

import pytest
import torch
from conftest import exact, normal, snr
from torch import nn

import octet.torch as ot

ops = torch.ops.octet


def head_loss(x, w, **options):
    return ot.linear_cross_entropy(x, w, torch.arange(len(x)) % len(w), reduction="sum", **options)


def per_token(x, w, **options):
    return ot.linear_cross_entropy(x, w, torch.arange(len(x)) % len(w), reduction="none", **options).sum()


FUNCTIONS = [lambda x, w, **o: ot.linear(x, w, **o).sum(), head_loss, per_token]


def test_is_not_written_for_a_weight_without_gradient():
    """Of the operators: the functions do not hand on the main_grad of such a weight."""
    x, w, none = normal(40, 256).requires_grad_(), normal(48, 256, seed=1), (None,) * 4
    main_grad, target = torch.ones(48, 256), torch.arange(40)
    y, _, _ = ops.linear_forward(x, *none, w, *none, main_grad, True, 4, 4, 1, True, None, None, None, 0.0)
    loss, *_ = ops.linear_cross_entropy(x, w, *none, target, main_grad, True, -100, 1, True, 4, 4, 1, True, True)
    (y.sum() + loss.sum()).backward()
    assert x.grad.any() and torch.equal(main_grad, torch.ones(48, 256))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_may_be_overwritten(function):
    x, w = normal(40, 256), normal(48, 256, seed=1).requires_grad_()
    (dw,) = torch.autograd.grad(function(x, w), w)
    main_grad = torch.full((48, 256), torch.nan)
    for _ in range(2):
        function(x, w, main_grad=main_grad, accumulate=False).backward()
    assert w.grad is None and snr(main_grad, dw) > 100


def mlp(tokens=40):
    return normal(tokens, 256), normal(96, 256, seed=1).requires_grad_(), normal(256, 48, seed=2).requires_grad_()


@pytest.mark.parametrize("which", [0, 1])
def test_one_weight_of_gated_mlp(which):
    x, *weights = mlp()
    main_grads = torch.ones(96, 256), torch.ones(256, 48)
    want = torch.autograd.grad(ot.gated_mlp(x, *weights).sum(), weights[which])[0]
    weights[1 - which] = weights[1 - which].detach()
    none, options = (None,) * 4, (True, 4, 4, 2, True, True, True, None, None, 0.0)
    y, *_ = ops.gated_mlp_forward(x, *none, weights[0], *none, weights[1], *none, *main_grads, *options)
    y.sum().backward()
    assert snr(main_grads[which] - 1, want) > 90
    assert torch.equal(main_grads[1 - which], torch.ones_like(main_grads[1 - which]))


def test_gated_mlp_may_overwrite():
    x, *weights = mlp()
    want = torch.autograd.grad(ot.gated_mlp(x, *weights).sum(), weights)
    main_grads = torch.full((96, 256), torch.nan), torch.full((256, 48), torch.nan)
    ot.gated_mlp(x, *weights, main_grads=main_grads, accumulate=False).sum().backward()
    assert all(snr(a, b) > 100 for a, b in zip(main_grads, want, strict=True))


BAD = [
    (lambda t: t[:, 1:], ValueError, r"must be \[.*\] = \[\d+, \d+\], got"),
    (lambda t: t.half(), TypeError, "must be float32 or bfloat16, got float16"),
    (lambda t: t.t().contiguous().t(), ValueError, "must have contiguous rows that do not overlap"),
]


@pytest.mark.parametrize("change, kind, text", BAD)
def test_refused_in_forward(change, kind, text):
    """A backward that stops halfway would leave one of two main gradients written."""
    x, w_gate_up, w_down = mlp()
    good = torch.zeros(96, 256), torch.zeros(256, 48)
    with pytest.raises(kind, match="octet: main_grad " + text):
        ot.linear(x, w_gate_up, main_grad=change(good[0]))
    with pytest.raises(kind, match="octet: main_grad_gate_up " + text):
        ot.gated_mlp(x, w_gate_up, w_down, main_grads=(change(good[0]), good[1]))
    with pytest.raises(kind, match="octet: main_grad_down " + text):
        ot.gated_mlp(x, w_gate_up, w_down, main_grads=(good[0], change(good[1])))


def test_a_refused_backward_of_gated_mlp_writes_nothing():
    x, w_gate_up, w_down = (t.detach() for t in mlp())
    none = (None,) * 4
    options = (True, 4, 4, 1, True, True, True, None, None, 0.0)
    _, gate_up, *saved = ops.gated_mlp_forward(x, *none, w_gate_up, *none, w_down, *none, None, None, *options)
    main_grads = torch.zeros(96, 256), torch.zeros(48, 256).t()
    with pytest.raises(RuntimeError, match="octet: main_grad_down must have contiguous rows"):
        ops.gated_mlp_backward_main_grad(
            x, gate_up, *saved, w_gate_up, None, None, w_down, None, None, *main_grads, True, 4, 4, 1, True
        )
    assert not main_grads[0].any() and not main_grads[1].any()


class Model(nn.Module):
    """Every module that has a main_grad."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.mlp = ot.Linear(128, 128, bias=False), ot.GatedMLP(128, 96)
        self.qkv, self.head = ot.QKV(128, 2), ot.LinearCrossEntropy(384, 40, reduction="sum")

    def forward(self, x):
        return self.head(self.qkv(self.mlp(self.first(x))), torch.arange(len(x)) % 40)


def attached(*, megatron, **attributes):
    """The model with main gradients, and the gradients that they should get."""
    model, x = Model(), normal(20, 128)
    model(x).backward()
    want = [p.grad.clone() for p in model.parameters()]
    for p in model.parameters():
        p.grad, p.main_grad = None, torch.ones_like(p)
        if megatron:
            p.grad_added_to_main_grad = False
        for name, value in attributes.items():
            setattr(p, name, value)
    return model, x, want


@pytest.mark.parametrize("compiled", [False, True])
def test_without_megatron_there_is_no_gradient(compiled):
    model, x, want = attached(megatron=False)
    function = torch.compile(model, fullgraph=True, backend="aot_eager") if compiled else model
    for _ in range(2):
        function(x).backward()
    for p, grad in zip(model.parameters(), want, strict=True):
        assert p.grad is None and not hasattr(p, "grad_added_to_main_grad")
        assert snr(p.main_grad - 1, 2 * grad) > 80


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
def test_megatrons_hooks_find_what_they_expect(zeros, overwrite):
    model, x, want = attached(megatron=True, zero_out_wgrad=zeros, overwrite_main_grad=overwrite)
    calls = []

    def hook(p):
        """That of Megatron-LM's DistributedDataParallel with overlap_grad_reduce."""
        calls.append(p)
        assert p.grad is not None and p.grad.shape == p.shape
        if not p.grad_added_to_main_grad or p.zero_out_wgrad:
            p.main_grad.add_(p.grad)
        p.grad = None

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)
    with torch.no_grad():
        model(x)
    loss = model(x)
    assert not any(p.grad_added_to_main_grad for p in model.parameters())  # until backward has added to it
    loss.backward()
    model(x).backward()
    assert len(calls) == 2 * len(want)
    for p, grad in zip(model.parameters(), want, strict=True):
        assert p.grad_added_to_main_grad and p.grad is None
        assert snr(p.main_grad if overwrite else p.main_grad - 1, grad if overwrite else 2 * grad) > 80


def test_megatrons_parameters_in_compiled_code():
    model, x, want = attached(megatron=True)
    function = torch.compile(model, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        for p in model.parameters():
            p.grad, p.grad_added_to_main_grad = None, False
        function(x).backward()
        assert all(p.grad_added_to_main_grad and p.grad is not None for p in model.parameters())
    for p, grad in zip(model.parameters(), want, strict=True):
        assert snr(p.main_grad - 1, 2 * grad) > 80


# Without tokens.


@pytest.mark.parametrize("accumulate", [None, True, False])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("quantized", [False, True])
def test_linear_of_no_tokens(quantized, recompute, accumulate):
    x, w = torch.empty(2, 0, 128, requires_grad=True), exact(5, 128).requires_grad_()
    main_grad = torch.ones(5, 128)
    options = {} if accumulate is None else {"main_grad": main_grad, "accumulate": accumulate}
    if quantized:
        q = ot.quantize_activation(x, recompute=recompute)
        assert q.shape == (2, 0, 128) and ot.dequantize(q.row()).shape == (0, 128)
        y = ot.linear(q, w, torch.ones(5), **options)
    else:
        y = ot.linear(x, w, torch.ones(5), recompute=recompute, **options)
    assert y.shape == (2, 0, 5)
    y.sum().backward()
    assert x.grad.shape == x.shape
    assert w.grad is None if accumulate is not None else torch.equal(w.grad, torch.zeros(5, 128))
    assert torch.equal(main_grad, torch.full((5, 128), 0.0 if accumulate is False else 1.0))


@pytest.mark.parametrize("wgrad", ["1d", "2d"])
@pytest.mark.parametrize("accumulate", [None, True, False])
def test_a_block_of_no_tokens(accumulate, wgrad):
    x, g = torch.empty(0, 256, requires_grad=True), torch.ones(256, requires_grad=True)
    _, *weights = mlp()
    main_grads = torch.ones(96, 256), torch.ones(256, 48)
    y, h = ot.rms_norm(x, g, x, quantized=True, wgrad=wgrad)
    options = {} if accumulate is None else {"main_grads": main_grads, "accumulate": accumulate}
    z = ot.gated_mlp(y, *weights, **options)
    again = ot.gated_mlp(ot.rms_norm(x, g, quantized=True, recompute=True), *weights, **options)
    s = ot.linear(ot.swiglu(x, quantized=True, wgrad=wgrad), normal(7, 128))
    assert z.shape == h.shape == again.shape == (0, 256) and s.shape == (0, 7)
    (z.sum() + h.sum() + s.sum() + again.sum()).backward()
    assert x.grad.shape == (0, 256) and torch.equal(g.grad, torch.zeros(256))
    for w, main_grad in zip(weights, main_grads, strict=True):
        assert w.grad is None if accumulate is not None else not w.grad.any()
        assert torch.equal(main_grad, torch.full_like(main_grad, 0.0 if accumulate is False else 1.0))


@pytest.mark.parametrize("accumulate", [True, False])
def test_head_of_no_tokens(accumulate):
    w, main_grad = normal(5, 128).requires_grad_(), torch.ones(5, 128)
    x, target = torch.empty(0, 128, requires_grad=True), torch.empty(0, dtype=torch.int64)
    options = {"main_grad": main_grad, "accumulate": accumulate, "reduction": "sum"}
    ot.linear_cross_entropy(x, w, target, **options).backward()
    assert w.grad is None and torch.equal(main_grad, torch.full((5, 128), float(accumulate)))


def test_megatrons_hooks_run_without_tokens():
    model = Model()
    for p in model.parameters():
        p.main_grad, p.grad_added_to_main_grad = torch.zeros_like(p), False
    model(torch.empty(0, 128)).backward()
    assert all(p.grad is not None and p.grad_added_to_main_grad and not p.main_grad.any() for p in model.parameters())


def test_no_tokens_in_compiled_code():
    w = normal(5, 128).requires_grad_()
    compiled = torch.compile(lambda x: ot.linear(ot.quantize_activation(x), w), fullgraph=True, backend="aot_eager")
    y = compiled(torch.empty(0, 128))
    assert y.shape == (0, 5)
    y.sum().backward()
    assert not w.grad.any()
