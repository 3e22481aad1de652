"""FSDP2, tensor, sequence and context parallel, and every operator on DTensors, as two gloo processes on the CPU."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

# The smallest signal over noise of any gradient, in dB; inf: the same bits. Ranks of FSDP do the arithmetic of one
# process; the parts of a layer on DTensors are quantised in blocks of their own.
WANTED = {
    "fsdp": math.inf,
    "fsdp-compiled": 20,
    "fsdp-bf16": 20,
    "fsdp-tensorwise": math.inf,
    "fsdp-rowwise": math.inf,
    "fsdp-mxfp8": math.inf,
    "fsdp-mxfp8-up": math.inf,
    "layer-tensorwise": 20,
    "layer-rowwise": 20,
    "layer-mxfp8": 20,
    "layer-rowwise-fast": 20,
    "layer-mxfp8-up": 20,
    "tp-rowwise": 18,
    "layer-1d": 20,
    "layer-2d": 20,
    "tp": 18,
    "tp-2d": 18,
    "tp-compiled": 18,
    "sp": 18,
    "sp-compiled": 18,
    "main_grad-1d": 20,
    "main_grad-2d": 20,
    "elements": 120,
    "adamw": float("inf"),
    "fused-1d": 20,
    "fused-2d": 20,
    "fused-rowwise": 20,
    "fused-mxfp8-up": 20,
    "groups": math.inf,
    "groups-bf16": 20,
    "checkpoint": math.inf,
    "head-plain": 90,
    "head-fp8": 20,
    "ring": 100,
    "ring-causal": 100,
    "ring-bf16": 44,
    "ring-bf16-causal": 44,
    "attention": 120,
    "attention-offsets": 120,
}


@pytest.fixture(scope="module")
def results() -> dict[str, float]:
    worker = Path(__file__).with_name("distributed.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", worker, *WANTED]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("result ")]  # gloo prints as well
    return {mode: float(value) for _, mode, value in lines}


@pytest.mark.parametrize("mode", WANTED)
def test_gradients_are_those_of_one_process(mode, results):
    assert results[mode] >= WANTED[mode]
