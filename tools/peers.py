#!/usr/bin/env python3
"""octet beside its peers: one process, the same data, interleaved rounds, a CSV.

    tools/peers.py [--shape MxNxK ...] [--rounds 5] [-o peers.csv]

The three products of the FP8 linear layer run through liboctet's C API on torch tensors, and through
whatever of DeepGEMM and cuBLASLt (octet's own backend) is there. Every output is compared with
octet's before anything is timed; a peer that differs too much gets no time. A ratio is the peer's
time over ours, the median over the rounds: above 1 octet is faster.
"""

import argparse
import csv
import math
import pathlib
import statistics
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import octet_c  # noqa: E402

try:
    import deep_gemm
except ImportError as error:
    deep_gemm = None
    print(f"DeepGEMM is not here: {error}")

# The dozen shapes of docs/kernels.md: M, N, K.
SHAPES = [(4096, 4096, 4096), (4096, 12288, 4096), (8192, 6144, 4096), (8192, 4608, 3584),
          (8192, 8192, 8192), (32768, 4096, 4096), (16384, 4096, 14336), (8192, 8192, 29568),
          (16384, 8192, 28672), (8192, 37888, 3584), (8192, 57344, 8192), (8192, 106496, 16384)]
ROWS, SQUARES = (1, 128), (128, 128)


def both_ways(x, block, transposed_block):
    rows, cols = x.shape
    out = octet_c.QuantizedTensor(rows, cols, block)
    transposed = octet_c.QuantizedTensor(cols, rows, transposed_block)
    octet_c.quantize_plan(x, out, transposed)()
    return out, transposed


def deep_gemm_call(a, b, d, block_b):
    """DeepGEMM takes our scales as they are; its 1x128 . 1x128 kernel adds to f32 alone."""
    left, right = (a.values, a.scales), (b.values, b.scales)
    if block_b == SQUARES:
        return lambda: deep_gemm.fp8_gemm_nt(left, right, d, disable_ue8m0_cast=True)
    return lambda: deep_gemm.fp8_gemm_nt(left, right, d, c=d, recipe=(1, 1, 128),
                                         disable_ue8m0_cast=True)


def close(given, wanted):
    """Mean squared difference against the mean square: 40 dB."""
    difference = (given.float() - wanted.float()).square().mean()
    return difference.item() <= 1e-4 * wanted.float().square().mean().item()


def seconds(call, launches):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(launches):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / launches / 1e3


def time_interleaved(calls, flops, rounds):
    """Seconds of each call, round by round, after a warm-up of all."""
    launches = max(3, min(50, int(0.08 * 1.0e15 / flops)))
    for call in calls.values():
        seconds(call, launches)
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(seconds(call, launches))
    return times


def contenders(a, b, block_b, wgrad):
    """Name -> (call, output), ours first; `wgrad` also into an f32 main gradient."""
    m, n = a.values.shape[0], b.values.shape[0]
    result = {}
    out = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
    result["octet"] = (octet_c.gemm_plan(a, b, out), out)
    peer_out = torch.empty_like(out)
    try:
        result["cublaslt"] = (octet_c.gemm_plan(a, b, peer_out, backend="cublaslt"), peer_out)
    except RuntimeError as error:
        print(f"  cublaslt: {str(error).splitlines()[0]}")
    if wgrad:
        main = torch.zeros(m, n, dtype=torch.float32, device="cuda")
        result["octet f32 +="] = (octet_c.gemm_plan(a, b, main, accumulate=True), main)
    if deep_gemm:
        dtype = torch.bfloat16 if block_b == SQUARES else torch.float32
        deep_out = torch.zeros(m, n, dtype=dtype, device="cuda")
        result["deep_gemm"] = (deep_gemm_call(a, b, deep_out, block_b), deep_out)
    return result


def compare(product, shape, a, b, block_b, rounds):
    flops = 2.0 * a.values.shape[0] * b.values.shape[0] * a.values.shape[1]
    calls, rows = {}, []
    wanted = None
    for name, (call, out) in contenders(a, b, block_b, product == "wgrad 1d").items():
        try:
            call()
            torch.cuda.synchronize()
        except RuntimeError as error:
            print(f"  {name}: {str(error).splitlines()[0]}")
            continue
        wanted = out.clone() if wanted is None else wanted
        if close(out, wanted):
            calls[name] = call
        else:
            rows.append([*shape, product, name, "FAIL", "", ""])
    times = time_interleaved(calls, flops, rounds)
    for name, own in times.items():
        ratio = statistics.median(x / y for x, y in zip(own, times["octet"]))
        rate = flops / statistics.median(own) / 1e12
        rows.append([*shape, product, name, "PASS", f"{rate:.1f}", f"{ratio:.4f}"])
        print(f"  {product:9} {name:13} {rate:7.1f} TFLOPS  ratio {ratio:.3f}", flush=True)
    return rows


def products(shape, rounds):
    m, n, k = shape
    generator = torch.Generator("cuda").manual_seed(1)

    def randn(rows, cols):
        return torch.randn(rows, cols, generator=generator, device="cuda", dtype=torch.bfloat16)

    x, x_t = both_ways(randn(m, k), ROWS, ROWS)
    w, w_t = both_ways(randn(n, k), SQUARES, SQUARES)
    dy, dy_t = both_ways(randn(m, n), ROWS, ROWS)
    rows = compare("forward", shape, x, w, SQUARES, rounds)
    rows += compare("dgrad", shape, dy, w_t, SQUARES, rounds)
    rows += compare("wgrad 1d", shape, dy_t, x_t, ROWS, rounds)
    return rows


def geometric_means(rows):
    groups = {}
    for row in rows:
        if row[5] == "PASS":
            groups.setdefault((row[3], row[4]), []).append((float(row[6]), float(row[7])))
    for (product, name), values in groups.items():
        mean = [math.exp(statistics.fmean(math.log(v[i]) for v in values)) for i in (0, 1)]
        print(f"{product:9} {name:13} geomean {mean[0]:7.1f} TFLOPS  ratio {mean[1]:.3f}"
              f"  over {len(values)} shapes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", action="append", metavar="MxNxK")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", metavar="CSV")
    arguments = parser.parse_args()
    shapes = [tuple(map(int, s.split("x"))) for s in arguments.shape] if arguments.shape else SHAPES
    rows = []
    for shape in shapes:
        print("x".join(map(str, shape)), flush=True)
        rows += products(shape, arguments.rounds)
        torch.cuda.empty_cache()
    geometric_means(rows)
    if arguments.output:
        with open(arguments.output, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["M", "N", "K", "Product", "Library", "Check", "TFLOPS", "Ratio"])
            writer.writerows(rows)
    return any(row[5] == "FAIL" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
