"""Hugging Face models with attn_implementation="octet", of random weights and a few layers."""

import pytest
import torch
from conftest import Calls, snr
from test_transformers import make, step, tokens

import octet.torch as ot

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True, scope="module")
def _registered():
    ot.register_attention()
    ot.register_attention()


def pair(family: str = "llama", **options):
    """The same model with octet's attention and with torch's."""
    return [make(family, attn_implementation=name, **options) for name in ("octet", "sdpa")]


def assert_close(got, want, decibels: float = 90) -> None:
    for name in want:
        assert snr(got[name], want[name]) > decibels, name


@pytest.mark.parametrize("other", ["sdpa", "eager"])
def test_two_steps_of_training(other):
    losses = []
    for name in ("octet", other):
        model, ids = make("llama", attn_implementation=name), tokens()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        losses.append([])
        with Calls() as calls:
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(input_ids=ids, labels=ids).loss
                loss.backward()
                optimizer.step()
                losses[-1].append(loss.item())
        assert calls.seen["attention_forward"] == calls.seen["attention_backward"] == (6 if name == "octet" else 0)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5) and losses[0][2] < losses[0][0]


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_gradients_are_those_of_sdpa(family):
    octets, torchs = pair(family)
    assert_close(step(octets, tokens()), step(torchs, tokens()))


@pytest.mark.parametrize("window", [2, 9, 100])
def test_sliding_windows(window):
    octets, torchs = pair("mistral", sliding_window=window)
    assert_close(step(octets, tokens()), step(torchs, tokens()))


def test_sinks_and_layers_of_both_kinds():
    config = transformers.GptOssConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        num_local_experts=2,
        num_experts_per_tok=1,
        sliding_window=8,
        pad_token_id=0,
        eos_token_id=1,
    )
    results = []
    for name in ("octet", "eager"):  # sdpa has no sinks
        torch.manual_seed(4)
        results.append(step(transformers.AutoModelForCausalLM.from_config(config, attn_implementation=name), tokens()))
    assert any("sinks" in name for name in results[0])
    assert_close(*results, 80)


def test_generation_with_a_cache():
    octets, torchs = (model.eval() for model in pair("mistral", sliding_window=6))
    ids = tokens(1, 10)
    got, want = (model.generate(ids, max_new_tokens=8, do_sample=False) for model in (octets, torchs))
    assert torch.equal(got, want)


def test_an_encoder_sees_all_keys():
    config = transformers.BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        attention_probs_dropout_prob=0.0,
        hidden_dropout_prob=0.0,
    )
    results = []
    for name in ("octet", "sdpa"):
        torch.manual_seed(4)
        model = transformers.AutoModel.from_config(config, attn_implementation=name)
        results.append(model(input_ids=tokens()).last_hidden_state)
    assert snr(*results) > 90


def test_compiles_whole():
    model = make("llama", attn_implementation="octet", num_hidden_layers=1)
    want = step(model, tokens())
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert_close({name.removeprefix("_orig_mod."): t for name, t in step(compiled, tokens()).items()}, want)


PADDED = torch.tensor([[0] * 3 + [1] * 5, [1] * 8])
PACKED = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3]] * 2)


@pytest.mark.parametrize(
    "options, why",
    [
        ({"attention_mask": PADDED}, "it has padding"),
        ({"position_ids": PACKED}, "it is neither causal nor a causal window"),
        ({"attention_mask": torch.ones(2, 1, 8, 8, dtype=torch.bool)}, "it is a tensor"),
    ],
    ids=["padding", "packed", "tensor"],
)
def test_masks_it_cannot_express_are_refused(options, why):
    model = make("llama", attn_implementation="octet", num_hidden_layers=1)
    whole = {"attention_mask": torch.ones(2, 8), "position_ids": torch.arange(8)[None]}
    model(tokens(2, 8), use_cache=False, **whole)
    with pytest.raises(ValueError, match=f"octet: attention cannot express this mask: {why}"):
        model(tokens(2, 8), use_cache=False, **options)


def test_compiled_code_refuses_the_same_masks():
    """There the mask is not known when it is asked for: packed sequences may be in any position_ids."""
    from transformers.masking_utils import create_causal_mask, create_chunked_causal_mask

    config = make("llama", attn_implementation="octet").config
    config.attention_chunk_size = 4
    x = torch.ones(2, 8, 16)

    def run(make_mask, attention_mask, position_ids):
        mask = make_mask(config, x, attention_mask, None, position_ids=position_ids)
        assert mask is None
        return x + 1

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    places = torch.arange(8)[None]
    for function in (run, compiled):
        function(create_causal_mask, torch.ones(2, 8), None)
        function(create_causal_mask, None, places)
        for bad in (
            (create_causal_mask, PADDED, None),
            (create_causal_mask, None, PACKED),
            (create_chunked_causal_mask, None, places),
        ):
            with pytest.raises((ValueError, RuntimeError), match="octet: attention cannot express this mask"):
                function(*bad)


def test_dropout_and_a_static_cache_are_refused():
    model = make("llama", attn_implementation="octet", attention_dropout=0.1)
    with pytest.raises(
        TypeError, match="octet: attention has no dropout: the weights of attention are not dropped out"
    ):
        model.train()(tokens())
    model.eval()(tokens())
    with pytest.raises(ValueError, match="the last query is not at the place of the last key, as with a StaticCache"):
        model.generate(tokens(1, 8), max_new_tokens=2, cache_implementation="static")
