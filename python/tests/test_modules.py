"""ot.Linear and ot.convert with the rest of torch: compile, checkpointing, autocast, state_dict and copies."""

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from conftest import Calls, exact, make_model, normal, same, snr, step
from torch import nn
from torch._dynamo.backends.debugging import aot_eager
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import octet.torch as ot

ops = torch.ops.octet


class Wrapped:
    """A callable around a model whose parameters `step` looks at."""

    def __init__(self, function, owner):
        self.function, self.owner = function, owner

    def __call__(self, x):
        return self.function(x)


def test_convert_swaps_the_class_alone():
    model = nn.ModuleDict({"block": make_model()[0], "lm_head": nn.Linear(128, 10)})
    before = {name: id(p) for name, p in model.named_parameters()}
    called = []
    model["block"].qkv.register_forward_hook(lambda *_: called.append(1))
    assert ot.convert(model, wgrad="2d") is model
    assert {name: id(p) for name, p in model.named_parameters()} == before
    assert type(model["lm_head"]) is nn.Linear
    assert sum(isinstance(m, ot.Linear) for m in model.modules()) == 5
    assert model["block"].qkv.wgrad == "2d" and "wgrad=2d" in repr(model["block"].qkv)
    model["block"](normal(1, 4, 128))
    assert called == [1]


def test_convert_takes_a_filter_and_the_model_itself():
    model = ot.convert(make_model(2), lambda name, module: name.startswith("1.") and module.bias is None)
    assert [n for n, m in model.named_modules() if isinstance(m, ot.Linear)] == ["1.qkv", "1.gate", "1.up", "1.down"]
    assert type(ot.convert(nn.Linear(2, 2))) is ot.Linear
    with pytest.raises(ValueError, match="octet: wgrad must be one of"):
        ot.convert(model, wgrad="1D")


def test_converted_model_is_close():
    model, x = make_model(2), normal(2, 32, 128)
    for a, b in zip(step(ot.convert(copy.deepcopy(model)), x), step(model, x), strict=True):
        assert snr(a, b) > 20


@pytest.mark.parametrize("wgrad", ["1d", "2d"])
def test_converted_model_trains(wgrad):
    """Learns to predict the next of 16 tokens in a fixed sequence; plain torch gets there as well."""
    losses = {}
    tokens = torch.randint(16, (4, 33), generator=torch.Generator().manual_seed(3))
    for name in ("torch", "octet"):
        torch.manual_seed(2)
        model = nn.Sequential(nn.Embedding(16, 128), make_model()[0], nn.Linear(128, 16))
        if name == "octet":
            ot.convert(model, wgrad=wgrad)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        losses[name] = []
        for _ in range(25):
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[name].append(loss.item())
    assert losses["octet"][-1] < 1.0
    # Later the loss oscillates, in either precision.
    assert losses["octet"][10] == pytest.approx(losses["torch"][10], rel=0.02)


def test_compiles_whole():
    model, x = ot.convert(make_model()), normal(2, 32, 128)
    want = step(model, x)
    compiled = Wrapped(torch.compile(model, fullgraph=True, backend="aot_eager"), model)
    for a, b in zip(step(compiled, x), want, strict=True):
        assert snr(a, b) > 25  # torch's own parts may be decomposed
    layer = ot.Linear(128, 40)
    compiled = Wrapped(torch.compile(layer, fullgraph=True, backend="aot_eager"), layer)
    assert same(step(compiled, x), step(layer, x))


def test_compiles_with_inductor():
    model, x = ot.convert(make_model()), normal(2, 32, 128)
    want = step(model, x)
    for a, b in zip(step(Wrapped(torch.compile(model, fullgraph=True), model), x), want, strict=True):
        assert snr(a, b) > 20


@pytest.mark.parametrize("wgrad, count", [("1d", 2), ("2d", 1)])
def test_one_graph_for_every_length_beyond_a_block(wgrad, count):
    """torch specialises sizes of 1: in 1x128 blocks x^T of at most 128 tokens has one line of scales, and a graph of
    its own."""
    layer = ot.Linear(128, 40, wgrad=wgrad)
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return aot_eager(graph, inputs)

    compiled = Wrapped(torch.compile(layer, fullgraph=True, backend=backend, dynamic=True), layer)
    for length in (64, 72, 100, 129, 300, 1000):
        x = normal(2, length, 128)
        assert same(step(compiled, x), step(layer, x))
    assert len(graphs) == count


def test_functions_compile_with_dynamic_shapes():
    def block(x, g, w):
        y, h = ot.rms_norm(x, g, x)
        z = ot.swiglu(ot.linear(y, w))
        q = ot.quantize(z)
        return z, h, ot.dequantize(q)

    compiled = torch.compile(block, fullgraph=True, backend="aot_eager", dynamic=True)
    g, w = normal(128, seed=1), normal(256, 128, seed=2)
    for rows in (3, 130):
        x = normal(rows, 128)
        assert same(compiled(x, g, w), block(x, g, w))


def test_refusal_while_compiling_names_the_shapes():
    compiled = torch.compile(ot.linear, fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="must have the same number of columns"):
        compiled(exact(4, 128), exact(4, 64))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(reentrant):
    model, x = ot.convert(make_model(2)), normal(2, 32, 128)
    want = step(model, x)
    assert same(step(Wrapped(lambda x: checkpoint(model, x, use_reentrant=reentrant), model), x), want)


@pytest.mark.parametrize("save, executed", [(True, 10), (False, 20)])
def test_selective_checkpoint_saves_the_layers(save, executed):
    model, x = ot.convert(make_model(2)), normal(2, 32, 128)
    want = step(model, x)

    def policy(ctx, op, *args, **kwargs):
        saved = save and op is ops.linear_forward.default
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    def run(x):
        context = lambda: create_selective_checkpoint_contexts(policy)  # noqa: E731
        return checkpoint(model, x, use_reentrant=False, context_fn=context)

    with Calls() as calls:  # below the mode that answers from what was saved: sees what is executed
        assert same(step(Wrapped(run, model), x), want)
    assert calls.seen["linear_forward"] == executed


@pytest.mark.parametrize("compiled", [False, True])
def test_autocast(compiled):
    layer, x = ot.Linear(128, 40), normal(6, 128)
    function = torch.compile(layer, fullgraph=True, backend="aot_eager") if compiled else layer
    with torch.autocast("cpu", torch.bfloat16):
        y = function(x)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert layer.weight.grad.dtype == layer.bias.grad.dtype == torch.float32
    assert torch.equal(y, ot.linear(x.bfloat16(), layer.weight.bfloat16(), layer.bias))


def test_state_dict_and_copies():
    model, x = make_model(), normal(2, 8, 128)
    converted = ot.convert(copy.deepcopy(model))
    assert list(converted.state_dict()) == list(model.state_dict())
    converted.load_state_dict(model.state_dict(), strict=True)
    model.load_state_dict(converted.state_dict(), strict=True)
    want = step(converted, x)
    assert same(step(copy.deepcopy(converted), x), want)
    file = io.BytesIO()
    torch.save(converted, file)
    file.seek(0)
    assert same(step(torch.load(file, weights_only=False), x), want)


def test_save_on_cpu():
    model, x = ot.convert(make_model()), normal(2, 32, 128)
    want = step(model, x)
    with torch.autograd.graph.save_on_cpu():
        assert same(step(model, x), want)


def test_saved_tensors_may_move():
    """Whoever packs saved tensors may give them back at another address."""
    model, x = ot.convert(make_model()), normal(2, 32, 128)
    want = step(model, x)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t.clone()):
        assert same(step(model, x), want)


def test_inference_and_no_grad():
    layer, x = ot.Linear(128, 40), normal(6, 128)
    want = layer(x).detach()
    with torch.inference_mode():
        assert torch.equal(layer(x), want)
    with torch.no_grad():
        assert torch.equal(layer(x), want)


def test_export():
    layer, x = ot.Linear(128, 40), normal(6, 128)
    length = torch.export.Dim("length", min=2, max=64)
    program = torch.export.export(layer, (x,), dynamic_shapes={"x": {0: length}})
    with torch.no_grad():
        for rows in (6, 31):
            x = normal(rows, 128)
            assert torch.equal(program.module()(x), layer(x))


def test_options_of_a_layer():
    options = {"wgrad": "2d", "format": "e4m3", "grad_format": "e5m2", "recompute": True}
    layer = ot.Linear(128, 40, False, **options)
    assert {name: getattr(layer, name) for name in options} == options and layer.bias is None
    converted = ot.convert(nn.Linear(128, 40, bias=False), **options)
    assert {name: getattr(converted, name) for name in options} == options
    converted.load_state_dict(layer.state_dict())
    x = normal(6, 128)
    assert same(step(layer, x), step(converted, x))
    assert ot.Linear(128, 40, device="meta", dtype=torch.bfloat16).weight.is_meta
    with pytest.raises(ValueError, match="octet: grad_format must be one of"):
        ot.Linear(128, 40, grad_format="e3m4")
