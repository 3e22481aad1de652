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


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"format": "e5m2"},
        {"granularity": "tensorwise"},
        {"granularity": "rowwise"},
        {"granularity": "mxfp8"},
        {"granularity": "mxfp8", "mx_scale": "up"},
    ],
)
def test_cached_weights_follow_the_options_of_their_layers(options, compiled):
    """Set and set back between steps; the old FP8 would be read in a format, or with scales, that it does not have."""
    torch.manual_seed(1)
    first = nn.Sequential(ot.Linear(128, 64), ot.GatedMLP(64, 96))
    defaults = {name: getattr(first[0], name) for name in options}
    results = []
    for cached in (False, True):
        model, seen = copy.deepcopy(first), []
        optimizer = ot.AdamW(model.parameters(), lr=1e-2)
        if cached:
            ot.cache_weights(model, optimizer)
        function = torch.compile(model, backend=aot_eager, fullgraph=True) if compiled else model
        for seed, chosen in enumerate((defaults, options, options, defaults)):
            for layer in model:
                vars(layer).update(chosen)
            y = function(normal(16, 128, seed=seed))
            y.square().mean().backward()
            seen += [y.detach(), *(p.grad.clone() for p in model.parameters())]
            optimizer.step()
            optimizer.zero_grad()
            wanted = {(c.cast, c.is_fresh(w)) for w, _, c in ot._cache._caches(model)}
            assert wanted == ({(ot._cache.Cast.of(model[0]), True)} if cached else set())
        results.append(seen)
    assert same(*results)
    assert not same(results[0][:1], results[0][5:6])


@pytest.mark.parametrize("change", [{"format": "e5m2"}, {"granularity": "mxfp8"}])
def test_refresh_weights_casts_by_the_options_of_a_layer(change, monkeypatch):
    model, x = layer(), normal(4, 128)
    vars(model).update(change)
    ot.refresh_weights(model)
    casts = count_casts(monkeypatch)
    assert torch.equal(model(x), ot.linear(x, model.weight, **change)) and not casts


def test_an_activation_of_another_format_does_not_read_the_cache():
    """A layer multiplies in the format of an x in FP8."""
    model, q = layer(), ot.quantize_activation(normal(4, 128), format="e5m2")
    assert torch.equal(model(q), ot.linear(q, model.weight))


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


def cached_of(model):
    return [cached for m in model.modules() for cached in m.__dict__.get(ATTRIBUTE, {}).values()]


def states_of(model):
    return [t.clone() for cached in cached_of(model) for t in cached.weight]


def count_casts(monkeypatch):
    """The calls of refresh, which reads a weight that the optimiser has written."""
    casts = []
    refresh = ot._cache.CachedWeight.refresh
    monkeypatch.setattr(
        ot._cache.CachedWeight, "refresh", lambda self, *args: (casts.append(self), refresh(self, *args))[1]
    )
    return casts


@pytest.mark.parametrize("master_weights", [False, True])
@pytest.mark.parametrize("format", ["e4m3", "e5m2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("compiled", [False, True])
def test_adamw_writes_the_caches(compiled, dtype, format, master_weights, monkeypatch):
    """The bits of torch's path: AdamW, then a cast of what it wrote."""
    torch.manual_seed(1)
    model = nn.Sequential(ot.convert(nn.Linear(128, 200), format=format), ot.GatedMLP(200, 96, format=format)).to(dtype)
    models, states = [model, copy.deepcopy(model)], []
    casts = count_casts(monkeypatch)
    for fused, model in zip((True, False), models):
        optimizer = ot.AdamW(model.parameters(), lr=1e-2, master_weights=master_weights)
        ot.cache_weights(model, optimizer if fused else None)
        function = torch.compile(model, backend=aot_eager, fullgraph=True) if compiled else model
        casts.clear()
        for step in range(3):
            function(normal(16, 128, dtype=dtype, seed=step)).float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if not fused:
                ot.refresh_weights(model)
            states.append((step, states_of(model), [p.detach().clone() for p in model.parameters()]))
            assert all(cached.is_fresh(w) for w, _, cached in ot._cache._caches(model))
        assert not fused or not casts
    for (_, caches, weights), (_, other_caches, other_weights) in zip(states[:3], states[3:], strict=True):
        assert same(caches, other_caches) and same(weights, other_weights)


def test_adamw_and_weights_that_layers_share(monkeypatch):
    torch.manual_seed(1)
    model = nn.Sequential(ot.Linear(128, 128, bias=False), ot.Linear(128, 128, bias=False, format="e5m2"))
    model[1].weight = model[0].weight
    optimizer = ot.AdamW(model.parameters(), lr=0.1)
    assert ot.cache_weights(model, optimizer) is model
    casts = count_casts(monkeypatch)
    x = normal(4, 128)
    model(x).square().sum().backward()
    optimizer.step()
    assert casts == [getattr(model[1], ATTRIBUTE)["weight"]]  # the first was written by the step
    first = ot.linear(x, model[0].weight)
    assert torch.equal(model[0](x), first) and torch.equal(
        model[1](first), ot.linear(first, model[1].weight, format="e5m2")
    )
    assert len(casts) == 1


def test_adamw_follows_replaced_parameters():
    model = nn.Sequential(ot.Linear(128, 64, bias=False))
    x = normal(4, 128)
    optimizer = ot.AdamW(model.parameters(), lr=0.1)
    ot.cache_weights(model, optimizer)
    for shape in ((64, 128), (96, 128), (96, 128)):
        model[0].weight = nn.Parameter(normal(*shape, seed=shape[0]))
        optimizer.param_groups[0]["params"] = list(model.parameters())
        before = [t.data_ptr() for t in cached_of(model)[0].weight] if shape == (64, 128) else None
        ot.linear(x, model[0].weight).square().sum().backward()  # the cache is that of the old one
        optimizer.step()
        assert cached_of(model)[0].is_fresh(model[0].weight)
        assert before is None or [t.data_ptr() for t in cached_of(model)[0].weight] == before
        assert torch.equal(model(x), ot.linear(x, model[0].weight))


def test_adamw_leaves_what_it_cannot_write_to_the_cast_after_the_step(monkeypatch):
    """Caches of autocast's dtype, and weights without a gradient."""
    torch.manual_seed(1)
    model = nn.ModuleList(ot.Linear(128, 64, bias=False) for _ in range(3))
    optimizer = ot.AdamW(model.parameters(), lr=0.1)
    ot.cache_weights(model, optimizer)
    first, second, idle = cached_of(model)
    first.refresh(model[0].weight, first.cast, torch.bfloat16)
    casts = count_casts(monkeypatch)
    x = normal(4, 128)
    for m in model[:2]:
        ot.linear(x, m.weight).square().sum().backward()
    optimizer.step()
    assert casts == [first, idle] and second.is_fresh(model[1].weight)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model[0](x), ot.linear(x.bfloat16(), model[0].weight.bfloat16()))
    assert casts == [first, idle]
    assert torch.equal(model[1](x), ot.linear(x, model[1].weight))


def test_a_step_that_a_grad_scaler_skips_leaves_the_caches_right():
    model, x = nn.Sequential(ot.Linear(128, 64, bias=False)), normal(4, 128)
    optimizer = ot.AdamW(model.parameters(), lr=0.1)
    ot.cache_weights(model, optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for bad in (False, True, False):
        optimizer.zero_grad()
        scaler.scale(model(x).square().sum()).backward()
        if bad:
            model[0].weight.grad[0, 0] = torch.inf
        before = model[0].weight.detach().clone()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(model[0].weight, before) == bad
        assert cached_of(model)[0].is_fresh(model[0].weight)
        assert torch.equal(model(x), ot.linear(x, model[0].weight))


def test_a_refused_step_leaves_the_caches_right():
    model, x = nn.Sequential(ot.Linear(128, 64, bias=False), ot.Linear(64, 64, bias=False)), normal(4, 128)
    optimizer = ot.AdamW(model.parameters(), lr=0.1)
    ot.cache_weights(model, optimizer)
    model(x).square().sum().backward()
    optimizer.state[model[1].weight].update(
        step=torch.zeros(()), exp_avg=torch.zeros(64, 64).half(), exp_avg_sq=torch.zeros(64, 64).half()
    )
    before = states_of(model[1])
    with pytest.raises(ValueError, match="moments_dtype must be f32 or bf16"):
        optimizer.step()
    assert same(states_of(model[1]), before)
    assert torch.equal(model(x), ot.linear(ot.linear(x, model[0].weight), model[1].weight))


def test_caching_twice_casts_once(monkeypatch):
    model = nn.Sequential(ot.Linear(128, 64, bias=False))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        ot.cache_weights(model, optimizer)
    casts = count_casts(monkeypatch)
    optimizer.step()
    assert len(casts) == 1
