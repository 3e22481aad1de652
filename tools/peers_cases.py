"""What tools/peers.py runs: the shapes of every operator, the suites of cases/, the rows of groups.

A shape is a tuple of extents; with groups its last entry says how rows are spread over them, of
attention which keys a query sees.
"""

import csv
import os
import pathlib
import subprocess

TREE = pathlib.Path(__file__).resolve().parent.parent
CASES = TREE / "cases"

# The dozen shapes of docs/experiments.md, and those of docs/memory_bound_kernels.md.
SHAPES = {"gemm": ["4096x4096x4096", "4096x12288x4096", "8192x6144x4096", "8192x4608x3584",
                   "8192x8192x8192", "32768x4096x4096", "16384x4096x14336", "8192x8192x29568",
                   "16384x8192x28672", "8192x37888x3584", "8192x57344x8192", "8192x106496x16384"],
          "quantize": ["4096x4096", "8192x8192", "16384x8192", "8192x29568", "32768x16384"],
          "rms-norm": ["16384x4096", "8192x8192"],
          "rope": ["8x2048x4096"],
          "rms-norm-rope": ["8x2048x4096"],
          "gated-activation": ["8192x14336", "16384x28672"],
          # 512, 2048 and 8192 tokens for each expert that one of 8 ranks holds: GateUP of
          # DeepSeek-V3 and of Qwen3-30B-A3B, Down of DeepSeek-V2-Lite and of Mixtral-8x7B.
          "grouped-gemm": [f"{groups}x{groups * tokens}x{n}x{k}"
                           for groups, n, k in ((32, 4096, 7168), (8, 2048, 1408),
                                                (16, 4096, 2048), (1, 4096, 14336))
                           for tokens in (512, 2048, 8192)],
          "moe-mlp": ["8192x2048x7168x32x8"],  # 32 experts of DeepSeek-V3
          # Llama-2-7B, Llama-3.1-8B, Qwen3-30B-A3B, DeepSeek-V3
          "attention": ["2x4096x32x32x128", "1x8192x32x8x128", "1x8192x32x4x64",
                        "1x4096x128x128x192x128"]}

# The entries of shapes that are words: the option that takes them, and their values.
WORDS = {"grouped-gemm": ("--group-sizes", ("balanced", "skewed")),
         "attention": ("--mask", ("full", "causal"))}
SUITES = {"grouped288": "grouped-gemm", "attention78": "attention"}


def extents_of(shape):
    return tuple(entry for entry in shape if isinstance(entry, int))


def words_of(shape):
    return tuple(entry for entry in shape if isinstance(entry, str))


def shape_text(shape):
    """"8x4096x2048x1408 skewed": the extents as --shape takes them, then the words."""
    return " ".join(["x".join(map(str, extents_of(shape))), *words_of(shape)])


def _grouped_shape(row):
    return tuple(int(row[name]) for name in ("groups", "tokens_total", "N", "K"))


def _attention_shape(row):
    if row["seqlen_q"] != row["seqlen_kv"]:
        raise ValueError(f"case {row['test_id']}: queries and keys must be as many")
    shape = ("batch", "seqlen_q", "heads_q", "heads_kv", "head_dim_qk", "head_dim_v")
    return (*(int(row[name]) for name in shape), "causal" if row["causal"] == "True" else "full")


def suite(name, words):
    """The shapes of a suite, in the order of their TestIDs; those with one of the words."""
    rows = csv.DictReader((CASES / f"{name}.csv").read_text(encoding="utf-8").splitlines())
    if SUITES[name] == "grouped-gemm":
        return [(*_grouped_shape(row), word) for row in rows for word in words]
    return [shape for shape in map(_attention_shape, rows) if shape[-1] in words]


def tool_beside(library_path):
    return pathlib.Path(library_path).resolve().parent / "octet"


def random_layers(count, seed):
    """(shape, name) of the layers that `octet bench gemm --random COUNT --seed SEED` draws: the tool
    beside the library says which. A shape that is drawn twice is two layers."""
    tool = tool_beside(os.environ.get("OCTET_LIBRARY") or TREE / "build/release/liboctet.so")
    command = [tool, "bench", "gemm", "--random", str(count), "--seed", str(seed), "--list",
               "--device", "cpu"]
    try:
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except OSError as error:
        raise ValueError(f"the octet beside the library draws the layers: {error}") from error
    except subprocess.CalledProcessError as error:
        raise ValueError(f"{tool}: {error.stderr.strip()}") from error
    lines = (line.split("  ", 1) for line in text.splitlines())
    return [(tuple(map(int, shape.split("x"))), name) for shape, name in lines]


def group_of(name):
    """"random M<=256" of "random M<=256 3/17": results of few rows are apart from those of many."""
    return name.rpartition(" ")[0]


def selected(shapes, every, num_shards, shard_id):
    """Every Nth shape, dealt to shards as octet bench deals its cases."""
    return shapes[::every][shard_id::num_shards]


def philox(counter, key):
    """Philox-4x32-10, as src/check/data/random.hpp has it."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        left, right = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (right >> 32 ^ c1 ^ k0, right & 0xFFFFFFFF,
                          left >> 32 ^ c3 ^ k1, left & 0xFFFFFFFF)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def group_sizes(spread, groups, rows, seed=1):
    """The rows of each group, as `octet bench --group-sizes` draws them: balanced, or in proportion
    to 0.2 + 0.8 u, where the last group has the rest."""
    if spread == "balanced":
        return [rows // groups + (group < rows % groups) for group in range(groups)]
    size_stream, sample = 0x67, 2
    key = seed & 0xFFFFFFFF, seed >> 32
    weights = [0.2 + 0.8 * (philox((group, 0, size_stream, sample), key)[0] * 2.0**-32)
               for group in range(groups)]
    total = 0.0
    for weight in weights:  # left to right, not as sum() does since Python 3.12
        total += weight
    sizes = [int(rows * (weight / total)) for weight in weights]
    sizes[-1] += rows - sum(sizes)
    return sizes
