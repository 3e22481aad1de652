"""ot.MoE with its experts on two gloo processes: the bits of one process, and what --bench of the example prints."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "moe_expert_parallel.py"


def run(*options: str, ranks: int = 2) -> str:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), EXAMPLE]
    # One thread: torch's own products, those of the router, are then the same for any number of tokens.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--tokens", "131", "--dim", "136", "--hidden", "72", "--top-k", "3", "--wgrad", "2d"),
        ("--tokens", "1", "--top-k", "1", "--experts", "16"),  # most experts have no tokens, a rank perhaps none
    ],
)
def test_two_processes_have_the_bits_of_one(options):
    assert "2 ranks: nothing differs" in run(*options)


def test_the_benchmark_prints_its_rates():
    number = r"\d+\.\d+"
    line = rf"2 ranks, 0 GPUs, 64 tokens each: layer {number} ms, dispatch {number} GB/s, combine {number} GB/s"
    assert re.search(line, run("--bench", "--tokens", "64", "--steps", "2"))
