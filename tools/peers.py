#!/usr/bin/env python3
"""octet beside its peers: one process, the same data, interleaved rounds, a CSV.

    tools/peers.py [--op gemm] [--dtype fp8|bf16|f16] [--shape MxNxK ...] [-o peers.csv]
    tools/peers.py --random COUNT [--seed S] [...]     the layers that octet bench gemm draws
    tools/peers.py --op quantize|rms-norm|gated-activation [--shape ROWSxCOLS ...] [-o peers.csv]
    tools/peers.py --op rope|rms-norm-rope [--shape BATCHxSEQxHIDDEN ...] [-o peers.csv]
    tools/peers.py --op grouped-gemm [--shape GROUPSxMxNxK ... | --suite grouped288]
    tools/peers.py --op moe-mlp [--shape TOKENSxFxKxEXPERTSxTOP_K ...]
    tools/peers.py --op attention [--shape BxSxHQxHKVxD[xDV] ... | --suite attention78]
    tools/peers.py --library before=OLD/build/release/liboctet.so:OLD/tools [...]

liboctet runs through its C API on torch tensors (moe-mlp: octet.torch, of the same build), beside
those of these peers that are installed: torch with cuDNN, Triton (kernels of our own,
tools/peers_triton.py), DeepGEMM, Transformer Engine and cuBLASLt (octet's own backend). Every
output is compared with octet's before anything is timed: one that differs is FAIL, gets no time and
makes the exit status 1; a library that cannot run a product has ERROR and the reason in its row. A
ratio is the peer's time over ours, the median over the rounds: above 1 octet is faster. Calls of
less than a millisecond are launched as a graph. The launches of gemm take sets of operands in turn
that exceed twice the L2 cache. Only like is compared with like: the weight gradient that adds to f32
has rows of its own, and `wgrad 2d`, which only octet has, is compared with the best peer's
1x128 . 1x128 product. `cublaslt fast` alone is not like: fast accumulation, beside octet's promoted
products with scales of tensors or rows. The peers' casts, padding and layouts are not timed.

With -o the same command continues a run that was stopped or killed.

octet is build/release/liboctet.so, or the library that OCTET_LIBRARY names. Another build of it is
a contender like the peers; its ratios are listed per shape at the end, with the mean and the worst.
"""

import dataclasses
import functools
import gc
import importlib
import math
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import peers_ahead  # noqa: E402
import peers_builds  # noqa: E402
import peers_cases  # noqa: E402
import peers_digests  # noqa: E402
import peers_options  # noqa: E402
import peers_rounds  # noqa: E402
import peers_table  # noqa: E402


def chosen(contenders, libraries):
    """Ours and the requested ones; "torch 1d" is torch with another product."""
    names = [peers_rounds.OURS, *(text.partition("=")[0] for text in libraries or [])]
    return {name: make for name, make in contenders.items()
            if not libraries or name.removesuffix(" 1d") in names}


class OutOfTime(Exception):
    pass


def run(options, cases_of, compare, table, deadline=math.inf, clock=time.monotonic):
    """Times every case of every shape into the table, until the clock shows the deadline."""
    unit, products = peers_table.rate_unit(options.op), set()

    def timed(name, case, contenders, *same):
        products.add(case.product)
        if options.product and case.product not in options.product:
            return []
        case = dataclasses.replace(case, name=name)
        if table.has(case):
            return table.keep(case)
        if clock() > deadline:
            raise OutOfTime
        results = compare(case, contenders, *same)
        table.add(results)
        for result in results:
            if result.seconds:
                print(f"  {result.case.product:20} {result.library:18} {result.rate:8.5g} "
                      f"{unit}  ratio {result.ratio:.3f}", flush=True)
        return results

    try:
        for shape, name in zip(options.shape, options.names):
            print(f"{peers_cases.shape_text(shape)} {name}".strip(), flush=True)
            for _ in cases_of(shape, functools.partial(timed, name)):
                pass
            gc.collect()  # frees a shape's tensors before the next
            for product in set(options.product or []) - products:
                print(f"tools/peers.py: --product must be one of {', '.join(sorted(products))}, "
                      f"got {product}", file=sys.stderr)
                sys.exit(2)
    except OutOfTime:
        print(f"stopped: --max-seconds {options.max_seconds:g} reached"
              + ("; rerun the same command to continue" if options.output else ""))
    if table.kept_cases:
        print(f"{table.kept_cases} cases already in {options.output} (--fresh measures again)")
    table.close()
    print("\n".join(peers_table.summary(table.results, unit)))
    for build in options.builds:
        print("\n".join(peers_builds.ratios(table.results, build.name)))


def open_table(options, octet_c, builds, properties, gpu):
    libraries = importlib.import_module("peers_libraries")
    versions = {name: library.version for name, library in libraries.available().items()}
    for name in ("torch.compile", "torch eager", "torch rms_norm", "torch bf16", "torch rowwise",
                 "torch flash"):
        versions[name] = libraries.torch.__version__
    versions["cublaslt"] = versions["cublaslt fast"] = libraries.cublaslt_version()
    versions["torch cudnn"] = libraries.cudnn_version()
    for name, (wrapper, _) in builds.items():
        versions[name] = f"device sources {peers_digests.of_build(options, wrapper.device_sources)}"

    def sources_of(ran):
        return octet_c.device_sources(peers_digests.digest_of(options, ran))

    # The tool beside the library names the kernels of whole operators, a row those that it ran.
    provenance = peers_table.Provenance(
        octet_c.library_path, options.op, octet_c.device_sources(options.op), properties.name,
        gpu.driver(), sources_of)
    return peers_table.Table(options.op, options.output, provenance, versions,
                             peers_options.repeats(options), any(options.names), options.fresh)


def main(arguments):
    options = peers_options.parse_arguments(arguments, __doc__)
    deadline = time.monotonic() + options.max_seconds
    try:
        import octet_c
        import peers_torch
        properties, gpu = peers_torch.gpu_in_use()
        builds = {build.name: build.load(options.op) for build in options.builds}
        table = open_table(options, octet_c, builds, properties, gpu)
    except (AttributeError, ImportError, OSError, RuntimeError, ValueError) as error:
        text = error if isinstance(error, ValueError) else peers_rounds.one_line(error)
        print(f"tools/peers.py: {text}", file=sys.stderr)
        return 2
    options.compile_mode = options.compile_mode or list(peers_options.COMPILE_MODES)
    timer = peers_torch.Timer(gpu)
    protocol = peers_rounds.Protocol(options.rounds, options.round_seconds, options.seconds_per_case)
    operator = importlib.import_module(peers_builds.operator_module(options.op))

    def compare(case, contenders, same=peers_torch.close):
        return peers_rounds.compare(case, chosen(contenders, options.library), protocol, same, timer)

    def cases_of(shape, timed):
        peers_torch.torch.cuda.empty_cache()
        more = options, properties.L2_cache_size
        return operator.cases(shape, peers_builds.beside(builds, timed, shape, *more), *more)

    try:
        if "deep_gemm" in importlib.import_module("peers_libraries").available():
            peers_ahead.compile_kernels(options, table.has, deadline)
        run(options, cases_of, compare, table, deadline)
    except KeyboardInterrupt:
        print("interrupted" + (f"; the rows are in {options.output}.part, rerun the same command to continue"
                               if options.output else ""))
        return 130
    return int(table.failed())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
