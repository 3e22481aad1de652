"""ot.cache_weights: the bits of the same model without it, whatever writes, moves or replaces the weights."""

import copy
import io

import pytest
import torch
from conftest import FusedBlock, normal, same
from torch import nn
from torch._dynamo.backends.debugging import aot_eager

import octet.torch as ot

ATTRIBUTE = "_octet_cached_weights"


def train(model, optimizer, function, steps=3):
    losses = []
    for step in range(steps):
        for micro in range(2):
            function(normal(2, 16, 128, seed=10 * step + micro)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append([p.detach().clone() for p in model.parameters()])
    return losses


@pytest.mark.parametrize("compiled", [False, True])
def test_cached_weights_change_no_bit(compiled):
    torch.manual_seed(1)
    model = nn.Sequential(FusedBlock(), ot.convert(nn.Linear(128, 128)))
    models = [model, copy.deepcopy(model)]
    results = []
    for cached, model in zip((True, False), models):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        if cached:
            assert ot.cache_weights(model, optimizer) is model
        function = torch.compile(model, backend=aot_eager, fullgraph=True) if compiled else model
        results.append(train(model, optimizer, function))
    assert all(map(same, *results))


def layer(k=128, n=64):
    model = ot.Linear(k, n, bias=False)
    model.weight = nn.Parameter(normal(n, k))  # never written: no version tells it from another new parameter
    return ot.cache_weights(model)


def write(model):
    with torch.no_grad():
        model.weight.mul_(2)


def load(model):
    model.load_state_dict({"weight": normal(64, 128, seed=5)})


def load_assigned(model):
    model.load_state_dict({"weight": normal(64, 128, seed=5)}, assign=True)


def replace(model):
    model.weight = nn.Parameter(normal(64, 128, seed=5))


def replace_shape(model):
    model.weight = nn.Parameter(normal(32, 128, seed=5))


def cast(model):
    model.to(torch.bfloat16)


def set_data(model):
    model.weight.data = normal(64, 128, seed=5)


def swap_storage(model):
    model.weight.untyped_storage().copy_(normal(64, 128, seed=5).untyped_storage())
    ot.refresh_weights(model)  # nothing of the parameter has changed


def write_data(model):
    model.weight.data.copy_(normal(64, 128, seed=5))
    ot.refresh_weights(model)


@pytest.mark.parametrize(
    "change", [write, load, load_assigned, replace, replace_shape, cast, set_data, swap_storage, write_data]
)
def test_cached_weights_follow(change):
    model = layer()
    model(normal(4, 128))
    change(model)
    x = normal(4, 128, dtype=model.weight.dtype).requires_grad_()
    y, want = model(x), ot.linear(x, model.weight)
    assert torch.equal(y, want)
    assert torch.equal(*(torch.autograd.grad(t.float().square().sum(), x)[0] for t in (y, want)))


def test_a_replaced_parameter_at_the_same_address_is_seen():
    model, x = layer(), normal(4, 128)
    memory = model.weight.detach()
    model.weight = None
    memory.copy_(normal(64, 128, seed=5))
    model.weight = nn.Parameter(memory)
    assert torch.equal(model(x), ot.linear(x, memory))


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_copies_have_caches_of_their_own(how):
    model, x = layer(), normal(4, 128)
    if how == "deepcopy":
        other = copy.deepcopy(model)
    else:
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
    write(other)
    assert torch.equal(other(x), ot.linear(x, other.weight)) and torch.equal(model(x), ot.linear(x, model.weight))
    assert not torch.equal(other(x), model(x))


def test_parameters_of_inference_mode():
    with torch.inference_mode():
        model = layer()
        x = normal(4, 128)
        assert torch.equal(model(x), ot.linear(x, model.weight))
        model.weight.mul_(2)  # counted nowhere
        ot.refresh_weights(model)
        assert torch.equal(model(x), ot.linear(x, model.weight))


def test_buffers_stay_where_they_are():
    """Compiled code and graphs know their addresses."""
    model = layer()
    before = [t.data_ptr() for t in getattr(model, ATTRIBUTE)["weight"].weight]
    for change in (write, load_assigned, cast):
        change(model)
        model(normal(4, 128, dtype=model.weight.dtype))
    assert [t.data_ptr() for t in getattr(model, ATTRIBUTE)["weight"].weight] == before


@pytest.mark.parametrize("compiled", [False, True])
def test_autocast_has_the_bits_of_the_cast_weight(compiled):
    torch.manual_seed(1)
    plain = nn.Sequential(ot.Linear(128, 64), ot.GatedMLP(64, 96))
    model = ot.cache_weights(copy.deepcopy(plain), dtype=torch.bfloat16 if compiled else None)
    function = torch.compile(model, backend=aot_eager, fullgraph=True) if compiled else model
    x = normal(4, 128)
    results = []
    for run in (plain, function):
        with torch.autocast("cpu", torch.bfloat16):
            y = run(x)
        y.float().square().sum().backward()
        results.append(y.detach())
    assert torch.equal(*results)
    assert same([p.grad for p in model.parameters()], [p.grad for p in plain.parameters()])
    assert torch.equal(model(x), plain(x))  # without autocast again


def test_the_head_is_cached_too():
    torch.manual_seed(1)
    head = ot.LinearCrossEntropy(128, 50)
    other = ot.cache_weights(copy.deepcopy(head))
    for step in range(2):
        x, target = normal(20, 128, seed=step), torch.arange(20)
        losses = [h(x, target) for h in (head, other)]
        for loss in losses:
            loss.backward()
        assert torch.equal(*losses) and torch.equal(head.weight.grad, other.weight.grad)
        write(head), write(other)
    assert torch.equal(other(x, target), head(x, target))
    given = getattr(other, ATTRIBUTE)["weight"].weight
    with torch.no_grad():
        given.values.zero_()  # it is what the head reads
    assert not torch.equal(other(x, target), head(x, target))


def test_models_without_layers_and_dtypes_are_refused():
    with pytest.raises(ValueError, match="octet: the model has no layer of octet.torch"):
        ot.cache_weights(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="octet: dtype must be one of torch.float32"):
        ot.cache_weights(ot.Linear(2, 2), dtype=torch.int8)
