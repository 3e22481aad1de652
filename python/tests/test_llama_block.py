"""examples/llama_block.cpp and llama_block_gpu.cpp: the same block in PyTorch, by octet and in plain float32."""

import os
import subprocess
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import octet.torch as ot

EXAMPLES = os.environ.get("OCTET_EXAMPLES")
HEADS, KV_HEADS, HEAD_DIM, BATCH = 4, 2, 64, 2
WEIGHTS = ("norm1", "qkv", "projection", "norm2", "gate_up", "down")

pytestmark = pytest.mark.skipif(EXAMPLES is None, reason="OCTET_EXAMPLES is not set: ./dev torch builds the example")


@pytest.fixture(scope="module", params=("cpu", "cuda"))
def written(request, tmp_path_factory):
    """Every input, result and gradient of the C++ block, on the device that it ran on."""
    if request.param == "cuda" and not (torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)):
        pytest.skip("needs a Hopper GPU")
    path = tmp_path_factory.mktemp("block") / "block.safetensors"
    program = "octet_example_llama_block" + ("_gpu" if request.param == "cuda" else "")
    subprocess.run([Path(EXAMPLES or "") / program, path], check=True)
    return load_file(path, device=request.param)


def heads_of(qkv):
    return qkv.view(BATCH, -1, HEADS + 2 * KV_HEADS, HEAD_DIM).split((HEADS, KV_HEADS, KV_HEADS), 2)


def octet_block(w, x, residual, cos, sin):
    normed, sum1 = ot.rms_norm(x, w["norm1"], residual)
    q, k, v = heads_of(ot.linear(normed, w["qkv"], wgrad="1d"))
    out = ot.attention(*ot.rope(q, k, cos, sin), v, causal=True)
    projected = ot.linear(out.flatten(0, 1).flatten(1), w["projection"], wgrad="1d")
    normed, sum2 = ot.rms_norm(projected, w["norm2"], sum1)
    return ot.gated_mlp(normed, w["gate_up"], w["down"], wgrad="1d"), sum2


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def plain_block(w, x, residual, cos, sin):
    sum1 = x + residual
    q, k, v = heads_of(F.linear(F.rms_norm(sum1, sum1.shape[-1:], w["norm1"], 1e-6), w["qkv"]))
    q, k, v = (t.transpose(1, 2) for t in (rotated(q, cos, sin), rotated(k, cos, sin), v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)
    sum2 = sum1 + F.linear(out.flatten(2).flatten(0, 1), w["projection"])
    gate, up = F.linear(F.rms_norm(sum2, sum2.shape[-1:], w["norm2"], 1e-6), w["gate_up"]).chunk(2, -1)
    return F.linear(F.silu(gate) * up, w["down"]), sum2


def results_of(block, written, dtype):
    tensors = {
        name: t.to(dtype, copy=True).requires_grad_() for name, t in written.items() if t.dtype == torch.bfloat16
    }
    w = {name: tensors[f"w.{name}"] for name in WEIGHTS}
    y, total = block(w, tensors["x"], tensors["residual"], written["cos"], written["sin"])
    torch.autograd.backward((y, total), (tensors["dy"].detach(), tensors["dsum"].detach()))
    gradients = {f"dw.{name}": weight.grad for name, weight in w.items()}
    return {"y": y.detach(), "sum": total.detach(), "dx": tensors["x"].grad, **gradients}


def test_is_the_block_of_octet_torch_bit_for_bit(written):
    for name, result in results_of(octet_block, written, torch.bfloat16).items():
        assert torch.equal(result, written[name]), name


def test_is_the_block_in_float32_within_what_fp8_costs(written):
    for name, result in results_of(plain_block, written, torch.float32).items():
        error = (written[name].float() - result).square().sum()
        snr = 10 * torch.log10(result.square().sum() / error)
        assert snr > 20, f"{name}: {snr:.1f} dB"
