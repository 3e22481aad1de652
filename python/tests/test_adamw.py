"""ot.AdamW against torch.optim.AdamW: updates, state_dicts, groups, closures, schedulers, hooks."""

import copy

import pytest
import torch
from conftest import normal
from torch import nn

import octet.torch as ot

SHAPES = [(5, 7), (130,), (), (3, 4, 5, 2), (0, 4)]
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


def random(shape, dtype, seed):
    return normal(1, *shape, dtype=dtype, seed=seed)[0]


def parameters(dtype=F32):
    return [nn.Parameter(random(shape, dtype, i)) for i, shape in enumerate(SHAPES)]


def give_gradients(params, step):
    for i, p in enumerate(params):
        p.grad = random(p.shape, p.dtype, 100 * step + i)


def train(optimizer, params, steps=range(5)):
    for step in steps:
        give_gradients(params, step)
        optimizer.step()
    return params


def assert_close(got, want, roundings):
    """Equal but for a number of roundings of the dtype, each relative to the largest element."""
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        if a.numel():
            error = (a.double() - b.double()).abs().max()
            assert error <= roundings * torch.finfo(a.dtype).eps * b.double().abs().max(), error


OPTIONS = {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_equals_torch_within_rounding(dtype):
    ours, theirs = parameters(dtype), parameters(dtype)
    own, other = ot.AdamW(ours, **OPTIONS), torch.optim.AdamW(theirs, **OPTIONS)
    train(own, ours), train(other, theirs)
    assert_close(ours, theirs, roundings=8)
    for p, q in zip(ours, theirs, strict=True):
        assert set(own.state[p]) == set(other.state[q]) == {"step", "exp_avg", "exp_avg_sq"}
        for name in ("exp_avg", "exp_avg_sq"):
            assert_close([own.state[p][name]], [other.state[q][name]], roundings=8)
        assert torch.equal(own.state[p]["step"], other.state[q]["step"])


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_master_weights_are_the_f32_run_rounded(dtype):
    rounded, exact = parameters(dtype), parameters(dtype)
    exact = [nn.Parameter(p.detach().float()) for p in exact]
    own, other = ot.AdamW(rounded, master_weights=True, **OPTIONS), ot.AdamW(exact, **OPTIONS)
    for step in range(5):
        give_gradients(rounded, step)
        for p, q in zip(rounded, exact, strict=True):
            q.grad = p.grad.float()
        own.step(), other.step()
    for p, q in zip(rounded, exact, strict=True):
        assert own.state[p]["exp_avg"].dtype == F32
        assert torch.equal(own.state[p]["master"], q) and torch.equal(p, q.to(dtype))


def test_small_updates_are_kept_by_master_weights_only():
    start = torch.ones(64, dtype=BF16)
    plain, kept = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    own = ot.AdamW([plain], lr=1e-4, weight_decay=0), ot.AdamW([kept], lr=1e-4, weight_decay=0, master_weights=True)
    for _ in range(60):
        for p, optimizer in zip((plain, kept), own, strict=True):
            p.grad = torch.ones_like(p)
            optimizer.step()
    assert torch.equal(plain, start)
    assert torch.allclose(kept.float(), torch.full((64,), 1 - 60e-4), atol=4e-3) and (kept < 1).all()


def continued(first, second, dtype, **options):
    """Four steps with one class, and one more with another that has its state_dict."""
    params = parameters(dtype)
    optimizer = first(params, **OPTIONS)
    train(optimizer, params, range(4))
    after = [nn.Parameter(p.detach().clone()) for p in params]
    loaded = second(after, **options)
    loaded.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert loaded.param_groups[0]["lr"] == OPTIONS["lr"]
    train(loaded, after, [4])
    return after, loaded


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_state_dicts_load_either_way(dtype):
    want = train(torch.optim.AdamW(params := parameters(dtype), **OPTIONS), params)
    for pair in ((ot.AdamW, torch.optim.AdamW), (torch.optim.AdamW, ot.AdamW), (ot.AdamW, ot.AdamW)):
        after, loaded = continued(*pair, dtype)
        assert_close(after, want, roundings=8)
        assert loaded.state[after[0]]["step"] == 5
    fused, _ = continued(lambda p, **o: torch.optim.AdamW(p, fused=True, **o), ot.AdamW, dtype)
    assert_close(fused, want, roundings=8)


def test_a_state_dict_keeps_master_weights_and_their_moments_in_f32():
    params = parameters(BF16)
    optimizer = ot.AdamW(params, master_weights=True, **OPTIONS)
    train(optimizer, params, range(4))
    after = [nn.Parameter(p.detach().clone()) for p in params]
    loaded = ot.AdamW(after, master_weights=True)
    loaded.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(optimizer, params, [4]), train(loaded, after, [4])
    for p, q in zip(params, after, strict=True):
        assert torch.equal(p, q)
        for name, value in optimizer.state[p].items():
            assert value.dtype == F32 and torch.equal(value, loaded.state[q][name]), name
    copied = copy.deepcopy(optimizer)
    assert copied.param_groups[0]["master_weights"] is True


def test_master_weights_begin_as_the_parameters_where_torch_saved():
    after, loaded = continued(torch.optim.AdamW, ot.AdamW, BF16, master_weights=True)
    state = loaded.state[after[0]]
    assert state["master"].dtype == F32 and state["exp_avg"].dtype == F32
    assert torch.equal(state["master"].to(BF16), after[0])


def test_amsgrad_and_maximize_are_refused():
    params = parameters()
    for option in ("amsgrad", "maximize"):
        other = torch.optim.AdamW(params, **{option: True})
        with pytest.raises(ValueError, match=f"octet: AdamW has no {option}"):
            ot.AdamW(params).load_state_dict(other.state_dict())


def test_groups_have_their_own_options():
    results = []
    for optimizer in (ot.AdamW, torch.optim.AdamW):
        params = parameters()
        groups = [{"params": params[:2], "weight_decay": 0.5}, {"params": params[2:], "lr": 0.1, "betas": (0.5, 0.6)}]
        results.append(train(optimizer(groups, lr=0.01), params))
    assert_close(*results, roundings=8)


def test_schedulers_change_the_rate():
    results = []
    for make in (ot.AdamW, torch.optim.AdamW):
        params = parameters()
        optimizer = make(params, lr=0.1)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
        for step in range(5):
            train(optimizer, params, [step])
            schedule.step()
        results.append(params)
    assert_close(*results, roundings=16)


def test_closure_and_gradients_that_are_missing():
    p, idle = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    optimizer = ot.AdamW([p, idle])

    def closure():
        assert torch.is_grad_enabled()
        optimizer.zero_grad()
        loss = p.square().sum()
        loss.backward()
        return loss

    version = p._version
    assert optimizer.step(closure) == 3 and optimizer.step(closure) < 3
    assert p._version > version and torch.equal(idle, torch.ones(3)) and idle not in optimizer.state


@pytest.mark.parametrize("unscale", [False, True])
def test_a_grad_scaler_has_its_scale_divided_out(unscale):
    params, plain = parameters(), parameters()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    own, other = ot.AdamW(params, **OPTIONS), ot.AdamW(plain, **OPTIONS)
    scaler.scale(torch.ones(()))  # makes the scale
    for step in range(3):
        give_gradients(plain, step), give_gradients(params, step)
        for p in params:
            p.grad.mul_(4)
        scaled = [p.grad.clone() for p in params]
        if unscale:
            scaler.unscale_(own)
        scaler.step(own), other.step()
        scaler.update()
        assert unscale or all(map(torch.equal, scaled, (p.grad for p in params)))
    assert all(map(torch.equal, params, plain))
    before = [p.detach().clone() for p in params]
    give_gradients(params, 4)
    params[0].grad[0, 0] = torch.inf
    scaler.step(own)
    assert all(map(torch.equal, params, before)) and own.state[params[0]]["step"] == 3
    assert not hasattr(own, "found_inf") and not hasattr(own, "grad_scale")


def test_a_capture_is_refused(monkeypatch):
    p = nn.Parameter(torch.ones(3))
    p.grad = torch.ones(3)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="octet: AdamW.step cannot be captured in a CUDA graph: step number"):
        ot.AdamW([p]).step()
    assert torch.equal(p, torch.ones(3))


def test_versions_of_what_was_written_before_a_refusal():
    good, bad = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3, dtype=torch.float64))
    good.grad, bad.grad = torch.ones(3), torch.ones_like(bad)
    version = good._version
    with pytest.raises(TypeError, match="octet: w must be float32"):
        ot.AdamW([good, bad]).step()
    assert not torch.equal(good, torch.ones(3)) and good._version > version and bad._version == 0


def test_cached_weights_follow_the_step():
    torch.manual_seed(0)
    model = nn.Sequential(ot.Linear(128, 128, bias=False))
    plain = copy.deepcopy(model)
    x = normal(4, 128)
    for layers in (model, plain):
        optimizer = ot.AdamW(layers.parameters(), lr=0.1)
        if layers is model:
            ot.cache_weights(layers, optimizer)
        layers(x).square().sum().backward()
        optimizer.step()
    assert torch.equal(model(x), plain(x))


def test_layouts():
    want = normal(4, 6, 5, 3)
    dense, other = (nn.Parameter(want.clone()) for _ in range(2))
    cut = nn.Parameter(want.clone().to(memory_format=torch.channels_last))
    optimizer = ot.AdamW([dense, cut, other])
    gradient = normal(4, 6, 5, 3, seed=9)
    dense.grad, cut.grad, other.grad = (
        gradient.clone(),
        gradient.clone(),
        gradient.to(memory_format=torch.channels_last),
    )
    optimizer.step()
    assert torch.equal(dense, cut) and torch.equal(dense, other) and not torch.equal(dense, want)


def test_bad_input():
    p = nn.Parameter(torch.ones(4, 2))
    for name, value in (("lr", -1.0), ("eps", float("nan")), ("weight_decay", float("inf"))):
        with pytest.raises(ValueError, match=f"octet: {name} must be finite and at least 0, got"):
            ot.AdamW([p], **{name: value})
    with pytest.raises(ValueError, match=r"octet: betas must be two numbers .* got \(0.9, 1.0\)"):
        ot.AdamW([p], betas=(0.9, 1.0))
    p.grad = torch.ones(4, 2).to_sparse()
    with pytest.raises(ValueError, match="octet: AdamW takes no sparse gradients"):
        ot.AdamW([p]).step()
    gapped = nn.Parameter(torch.ones(4, 4)[:, :2])
    gapped.grad = torch.ones(4, 2)
    with pytest.raises(ValueError, match="octet: w must be dense"):
        ot.AdamW([gapped]).step()
    odd = nn.Parameter(torch.ones(3, dtype=torch.float64))
    odd.grad = torch.ones_like(odd)
    optimizer = ot.AdamW([odd])
    with pytest.raises(TypeError, match="octet: w must be float32, float16 or bfloat16"):
        optimizer.step()
    assert optimizer.state[odd]["step"] == 0
    w, g = torch.ones(4), torch.ones(4)
    adamw, factors = torch.ops.octet.adamw_, (1e-3, 0.9, 0.999, 1e-8, 0.0)
    for args, message in (
        ((w, torch.ones(5), g, g, None, None, *factors, 1), "g must have the shape of w"),
        ((w, g, g.half(), g.half(), None, None, *factors, 1), "moments_dtype must be f32 or bf16, got f16"),
        ((w, w, w.clone(), w.clone(), None, None, *factors, 1), "output w overlaps g"),
        ((w, g, w.clone(), w.clone(), None, None, *factors, 0), "step must be at least 1, got 0"),
    ):
        with pytest.raises(RuntimeError, match=message):
            adamw(*args)
    assert torch.equal(w, torch.ones(4))
