"""Hugging Face models with octet's kernels, of random weights and a few layers."""

import copy
import importlib
from collections import Counter

import pytest
import torch
from conftest import Calls, snr

import octet.torch as ot
from octet.torch import _transformers

transformers = pytest.importorskip("transformers")

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


def make(family: str, **options) -> torch.nn.Module:
    torch.manual_seed(4)
    config = transformers.AutoConfig.for_model(
        family,
        **{
            "vocab_size": 64,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "max_position_embeddings": 64,
            "pad_token_id": 0,
            **options,
        },
    )
    return transformers.AutoModelForCausalLM.from_config(config)


def tokens(batch: int = 2, length: int = 24) -> torch.Tensor:
    return torch.randint(1, 64, (batch, length), generator=torch.Generator().manual_seed(5))


def step(model, ids: torch.Tensor, **options) -> dict[str, torch.Tensor]:
    """Logits and the gradients of all parameters."""
    model.zero_grad()
    out = model(input_ids=ids, labels=ids, **options)
    out.loss.backward()
    return {"logits": out.logits.detach(), **{name: p.grad.clone() for name, p in model.named_parameters()}}


def assert_close(got: dict[str, torch.Tensor], want: dict[str, torch.Tensor], decibels: float) -> None:
    assert got.keys() == want.keys()
    for name in want:
        assert snr(got[name], want[name]) > decibels, name


def calls_of(model, **options) -> Counter:
    """How often forward and backward run which operator of octet."""
    with Calls() as calls:
        step(model, tokens(), **options)
    return calls.seen


@pytest.fixture(autouse=True)
def _unpatched():
    yield
    ot.unpatch_transformers()


@pytest.mark.parametrize("family", FAMILIES)
def test_patched_model_computes_the_same(family):
    before = make(family)
    want = step(before, tokens())
    assert not calls_of(before)
    with ot.patch_transformers(family):
        for model in (before, make(family)):  # built before and after
            assert_close(step(model, tokens()), want, 90)
        assert {"rms_norm", "rms_norm_residual", "rope", "swiglu", "swiglu_backward"} <= calls_of(before).keys()
    assert not calls_of(before)


@pytest.mark.parametrize("family", FAMILIES)
def test_positions_padding_and_generation(family):
    model = make(family).eval()
    ids = tokens()
    mask = torch.ones_like(ids)
    mask[1, :7] = 0
    positions = (mask.cumsum(-1) - 1).clamp(min=0)  # other positions in every sequence
    options = {"attention_mask": mask, "position_ids": positions}
    with torch.no_grad():
        want = model(ids, **options).logits
    generated = model.generate(ids, attention_mask=mask, max_new_tokens=5, do_sample=False)
    with ot.patch_transformers(family), torch.no_grad():
        assert snr(model(ids, **options).logits[mask.bool()], want[mask.bool()]) > 90
        again = model.generate(ids, attention_mask=mask, max_new_tokens=5, do_sample=False)
    assert torch.equal(again, generated)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("order", ["patch first", "convert first"])
def test_converted_model_trains(family, order):
    model = make(family)
    keys, ids = list(model.state_dict()), tokens()
    want = step(ot.convert(copy.deepcopy(model)), ids)
    if order == "patch first":
        ot.patch_transformers(family)
    ot.convert(model)
    ot.patch_transformers(family)
    assert list(model.state_dict()) == keys
    assert sum(isinstance(m, ot.Linear) for m in model.modules()) == 14
    assert_close(step(model, ids), want, 20)
    # Casts of their own: only the input of o_proj.
    calls = calls_of(model)
    assert calls["rms_norm_quantized"] == 4 and calls["swiglu_quantized"] == 2 and calls["linear_forward"] == 14
    assert "cast_activation" not in calls and calls["rms_norm"] == (5 if family == "qwen3" else 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        losses.append(model(input_ids=ids, labels=ids).loss)
        losses[-1].backward()
        optimizer.step()
    assert all(a > b for a, b in zip(losses, losses[1:], strict=False)) and losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("options", [{"granularity": "rowwise"}, {"granularity": "mxfp8", "mx_scale": "up"}])
def test_norms_and_activations_write_the_granularity_of_their_readers(options):
    model, ids = make("llama"), tokens()
    want = step(ot.convert(copy.deepcopy(model), **options), ids)
    with ot.patch_transformers("llama"):
        ot.convert(model, **options)
        assert_close(step(model, ids), want, 20)
        calls = calls_of(model)
        assert calls["rms_norm_quantized"] == 4 and calls["swiglu_quantized"] == 2 and "cast_activation" not in calls
        model.model.layers[0].mlp.up_proj.granularity = "tensorwise"  # readers that differ cast by themselves
        model.model.layers[0].mlp.up_proj.mx_scale = "floor"
        assert calls_of(model)["rms_norm_quantized"] == 3


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_bfloat16_is_as_close_to_float32_as_before(family):
    model = make(family)
    want = step(model, tokens())
    model.bfloat16()
    plain = step(model, tokens())
    with ot.patch_transformers(family):
        got = step(model, tokens())
    for name in want:
        assert snr(got[name], want[name]) > snr(plain[name], want[name]) - 1.5, name


def test_autocast():
    model = ot.convert(make("llama"))
    with torch.autocast("cpu", torch.bfloat16):
        want = step(model, tokens())
        ot.patch_transformers("llama")
        assert_close(step(model, tokens()), want, 15)


def test_compiles_whole():
    ot.patch_transformers("llama")
    model = ot.convert(make("llama"))
    want = step(model, tokens())
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    compiled.zero_grad()
    out = compiled(input_ids=tokens(), labels=tokens(), use_cache=False)
    out.loss.backward()
    assert_close({"logits": out.logits.detach(), **{n: p.grad for n, p in model.named_parameters()}}, want, 20)


def test_gradient_checkpointing():
    ot.patch_transformers("qwen3")
    model = ot.convert(make("qwen3")).train()
    want = step(model, tokens(), use_cache=False)
    model.gradient_checkpointing_enable()
    got = step(model, tokens(), use_cache=False)
    assert all(torch.equal(got[name], want[name]) for name in want)


def test_hooks_of_a_norm_are_called():
    ot.patch_transformers("llama")
    for model in (make("llama"), ot.convert(make("llama"))):
        want, seen = step(model, tokens()), []
        for name, module in model.named_modules():
            if name.endswith("norm"):
                module.register_forward_hook(lambda *args, seen=seen: seen.append(args[2]))
        assert_close(step(model, tokens()), want, 90)
        assert len(seen) == 5 and all(isinstance(y, torch.Tensor) for y in seen)


def test_hooks_of_a_linear_layer_see_tensors():
    """As tensor parallel needs them; the layer beside it shares no cast either."""
    ot.patch_transformers("llama")
    model, seen = ot.convert(make("llama")), []
    want = step(model, tokens())
    for layer in model.model.layers:
        for module in (layer.self_attn.k_proj, layer.mlp.up_proj, layer.mlp.down_proj):
            module.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    assert_close(step(model, tokens()), want, 90)
    assert len(seen) == 6 and all(isinstance(x, torch.Tensor) for x in seen)
    assert "rms_norm_quantized" not in calls_of(model)


def hook_kinds():
    """(name, what registers a hook that sees one module's tensors, and returns its handle)"""
    from torch.nn.modules import module as modules

    def forward(module, seen):
        return module.register_forward_hook(lambda m, args, out: seen.append(args[0]))

    def backward(module, seen):
        return module.register_full_backward_hook(lambda m, grad_in, grad_out: seen.append(grad_out[0]))

    def backward_pre(module, seen):
        return module.register_full_backward_pre_hook(lambda m, grad_out: seen.append(grad_out[0]))

    def everywhere(module, seen):
        return modules.register_module_forward_pre_hook(lambda m, args: seen.append(args[0]) if m is module else None)

    def everywhere_backward(module, seen):
        return modules.register_module_full_backward_hook(
            lambda m, grad_in, grad_out: seen.append(grad_out[0]) if m is module else None
        )

    return [forward, backward, backward_pre, everywhere, everywhere_backward]


@pytest.mark.parametrize("register", hook_kinds(), ids=lambda f: f.__name__)
@pytest.mark.parametrize("which", ["input_layernorm", "self_attn.k_proj", "mlp", "mlp.down_proj"])
def test_hooks_of_every_kind_see_tensors(which, register):
    ot.patch_transformers("llama")
    model, seen = ot.convert(make("llama", num_hidden_layers=1)), []
    want = step(model, tokens())
    handle = register(model.model.layers[0].get_submodule(which), seen)
    try:
        got = step(model, tokens())
    finally:
        handle.remove()
    assert len(seen) == 1 and isinstance(seen[0], torch.Tensor)
    assert_close(got, want, 90)


class Averaged(torch.nn.Module):
    """Mixed into an attention: looks at the values of its input."""

    def forward(self, hidden_states, *args, **kwargs):
        return super().forward(hidden_states + 0, *args, **kwargs)


def test_attention_with_other_code_gets_a_tensor():
    module = importlib.import_module("transformers.models.llama.modeling_llama")
    model = ot.convert(make("llama", num_hidden_layers=1))
    want = step(model, tokens())
    ot.patch_transformers("llama")
    attention = model.model.layers[0].self_attn
    attention.__class__ = type("AveragedAttention", (Averaged, module.LlamaAttention), {})
    assert_close(step(model, tokens()), want, 20)
    assert calls_of(model)["rms_norm_quantized"] == 1  # the MLP's


def test_attention_is_read_before_it_is_given_fp8():
    def projects(self, hidden_states):
        return self.q_proj(hidden_states).view(hidden_states.shape)

    def adds(self, hidden_states):
        return self.q_proj(hidden_states) + hidden_states

    def assigns(self, hidden_states):
        hidden_states = self.q_proj(hidden_states)
        return hidden_states.shape

    assert [_transformers._only_projects(f) for f in (projects, adds, assigns, None)] == [True, False, False, False]


def test_layers_that_were_not_converted_get_tensors():
    ot.patch_transformers("qwen2")
    model = make("qwen2")
    want = step(model, tokens())
    ot.convert(model, lambda name, module: name.endswith(("q_proj", "gate_proj")))
    assert_close(step(model, tokens()), want, 15)
    ot.convert(model, wgrad="1d")  # the others: another recipe than that of q and gate
    assert_close(step(model, tokens()), want, 15)
    assert "rms_norm_quantized" not in calls_of(model)


def test_what_octet_does_not_take_runs_as_before():
    ids = tokens()
    for model in (make("llama").double(), make("llama", hidden_act="gelu")):
        want = step(model, ids)
        with ot.patch_transformers("llama"):
            assert_close(step(model, ids), want, 90)


def test_twice_is_once_and_undone_once():
    module = importlib.import_module("transformers.models.llama.modeling_llama")
    forward, rotary = module.LlamaMLP.forward, module.apply_rotary_pos_emb
    ot.patch_transformers("llama", "llama")
    patched = module.LlamaMLP.forward
    assert patched is not forward and module.apply_rotary_pos_emb is not rotary
    with ot.patch_transformers("llama", "mistral"):
        assert module.LlamaMLP.forward is patched
    assert module.LlamaMLP.forward is patched  # the first call's, not the with's
    ot.unpatch_transformers("llama")
    ot.unpatch_transformers("llama")
    assert module.LlamaMLP.forward is forward and module.apply_rotary_pos_emb is rotary


def test_function_in_a_module_of_kernels_is_recognised(monkeypatch):
    """Where the package `kernels` is installed, the rotary function is a module."""
    module = importlib.import_module("transformers.models.qwen3.modeling_qwen3")

    def wrapped(func):
        class Func(torch.nn.Module):
            def forward(self, *args, **kwargs):
                return func(*args, **kwargs)

        return Func()

    if not isinstance(module.apply_rotary_pos_emb, torch.nn.Module):
        monkeypatch.setattr(module, "apply_rotary_pos_emb", wrapped(module.apply_rotary_pos_emb))
    with ot.patch_transformers("qwen3"):
        assert calls_of(make("qwen3"))["rope"] == 2
    assert isinstance(module.apply_rotary_pos_emb, torch.nn.Module)
    monkeypatch.setattr(module, "apply_rotary_pos_emb", wrapped(torch.sin))
    with pytest.raises(RuntimeError, match="apply_rotary_pos_emb of transformers .* wanted rotate_half, unsqueeze"):
        ot.patch_transformers("qwen3")


def test_unknown_families_and_versions_are_refused(monkeypatch):
    with pytest.raises(
        ValueError, match="octet: family must be one of 'llama', 'mistral', 'qwen2', 'qwen3', got 'gpt2'"
    ):
        ot.patch_transformers("gpt2")
    module = importlib.import_module("transformers.models.llama.modeling_llama")
    forward = module.LlamaRMSNorm.forward
    monkeypatch.setattr(module.LlamaMLP, "forward", lambda self, x: self.down_proj(self.gate_up_proj(x)))
    with pytest.raises(RuntimeError, match="LlamaMLP of transformers .* uses down_proj, gate_up_proj, wanted act_fn"):
        ot.patch_transformers("mistral", "llama")
    monkeypatch.undo()
    monkeypatch.delattr(module, "LlamaDecoderLayer")
    with pytest.raises(RuntimeError, match=f"transformers {transformers.__version__} has no LlamaDecoderLayer"):
        ot.patch_transformers("llama")
    assert module.LlamaRMSNorm.forward is forward and not _transformers._originals
