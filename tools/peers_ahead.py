"""Compiles DeepGEMM's kernels before anything is timed, in as many processes as there are cores.

It compiles a kernel for every N and K with nvcc when it is first called, and keeps it on disk
(~/.deep_gemm, or DG_JIT_CACHE_DIR): for a hundred layers one after the other that is longer than the
timing. Each process calls the products of its share once, so the GPU must have room for all shares.
"""

import math
import os
import subprocess
import sys
import time

from peers_cases import shape_text
from peers_rounds import Case

ACCUMULATED = "+="  # behind the extents of a product that adds to f32


def products(options, is_kept):
    """The products of DeepGEMM that will be timed, each once: ["1x2x3", "1x2x3+="]."""
    found = {}
    for (m, n, k), name in zip(options.shape, options.names):
        for product, extents, suffix in (("forward", (m, n, k), ""), ("dgrad", (m, k, n), ""),
                                         ("wgrad 1d f32 +=", (n, k, m), ACCUMULATED)):
            wanted = not options.product or product in options.product
            if wanted and not is_kept(Case((m, n, k), product, options.dtype, 0, name=name)):
                found[shape_text(extents) + suffix] = None
    return list(found)


def are_wanted(options):
    return (options.op == "gemm" and options.dtype == "fp8" and options.granularity == "blockwise"
            and "deep_gemm" in (options.library or ["deep_gemm"]))


def compile_kernels(options, is_kept, deadline, command=(sys.executable, __file__),
                    clock=time.monotonic):
    """A process that fails or is too late leaves its kernels to the run."""
    wanted, begin = products(options, is_kept) if are_wanted(options) else [], clock()
    if len(wanted) < 2:
        return
    count = min(len(wanted), os.cpu_count())
    processes = [subprocess.Popen([*command, *wanted[i::count]], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) for i in range(count)]
    try:
        for process in processes:
            left = deadline - clock()
            process.wait(None if left == math.inf else max(0, left))
    except subprocess.TimeoutExpired:
        pass
    finally:
        for process in processes:
            process.kill()  # nothing, if it has ended
            process.wait()
    failed = sum(process.returncode != 0 for process in processes)
    print(f"deep_gemm: kernels of {len(wanted)} products compiled ahead by {count} processes in "
          f"{clock() - begin:.0f} s" + (f", {failed} of which failed" if failed else ""), flush=True)


def main(texts):
    import octet_c
    import peers_libraries
    torch, library, failed = peers_libraries.torch, peers_libraries.DeepGemm(), False
    for text in texts:
        m, n, k = map(int, text.removesuffix(ACCUMULATED).split("x"))
        adds = text.endswith(ACCUMULATED)
        try:
            a = octet_c.QuantizedTensor(m, k, (1, 128))
            b = octet_c.QuantizedTensor(n, k, (1, 128) if adds else peers_libraries.SQUARES)
            library.calls([(a, b)], torch.float32 if adds else torch.bfloat16, adds, None)[0]()
            torch.cuda.synchronize()
        except Exception:  # the run has the reason in its row
            failed = True
        a = b = None
        torch.cuda.empty_cache()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
