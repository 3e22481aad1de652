#!/usr/bin/env python3
"""octet beside its peers: one process, the same data, interleaved rounds, a CSV.

    tools/peers.py [--op gemm] [--dtype fp8|bf16|f16] [--shape MxNxK ...] [-o peers.csv]
    tools/peers.py --op quantize [--shape ROWSxCOLS ...] [-o quantize_peers.csv]

liboctet runs through its C API on torch tensors, and beside it whatever is there of torch, Triton
(kernels of our own, tools/peers_triton.py), DeepGEMM, Transformer Engine and cuBLASLt (octet's own
backend). Every output is compared with octet's before anything is timed: one that differs is FAIL,
gets no time and makes the exit status 1; a library that cannot run a product says why and is left
out. A ratio is the peer's time over ours, the median over the rounds: above 1 octet is faster. Only
like is set beside like: the weight gradient that adds to f32 has rows of its own, and `wgrad 2d`,
which octet alone has, stands beside the best peer's 1x128 . 1x128 product.
"""

import argparse
import gc
import importlib
import math
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import peers_rounds  # noqa: E402
import peers_table  # noqa: E402

# The dozen shapes of docs/kernels.md.
SHAPES = {"gemm": ["4096x4096x4096", "4096x12288x4096", "8192x6144x4096", "8192x4608x3584",
                   "8192x8192x8192", "32768x4096x4096", "16384x4096x14336", "8192x8192x29568",
                   "16384x8192x28672", "8192x37888x3584", "8192x57344x8192", "8192x106496x16384"],
          "quantize": ["4096x4096", "8192x8192", "16384x8192", "8192x29568", "32768x16384"]}
LIBRARIES = {"gemm": ["cublaslt", "torch", "triton", "deep_gemm", "transformer_engine"],
             "quantize": ["torch.compile", "triton", "device copy"]}
RATE_GUESS = {"gemm": 1e15, "quantize": 3e12}  # work per second, to size a round


def parse_shape(text, op):
    columns = peers_table.SHAPE_COLUMNS[op]
    parts = text.split("x")
    if len(parts) != len(columns) or not all(p.isascii() and p.isdigit() and int(p) for p in parts):
        raise ValueError(f"--shape must be {'x'.join(columns)} with {op}, got {text}")
    return tuple(map(int, parts))


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="tools/peers.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--op", choices=SHAPES, default="gemm")
    parser.add_argument("--dtype", choices=["fp8", "bf16", "f16"],
                        help="of the operands of gemm (fp8)")
    parser.add_argument("--shape", action="append", help="as often as wanted; a dozen otherwise")
    parser.add_argument("--library", action="append", metavar="NAME",
                        help="a peer to set octet beside, as often as wanted; all otherwise")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds, at least 5")
    parser.add_argument("--max-seconds", type=float, default=math.inf,
                        help="begin no further product after so long")
    parser.add_argument("-o", "--output", metavar="CSV")
    options = parser.parse_args(arguments)
    try:
        shapes = options.shape or SHAPES[options.op]
        options.shape = [parse_shape(text, options.op) for text in shapes]
    except ValueError as error:
        parser.error(str(error))
    if options.op == "quantize" and options.dtype:
        parser.error("--dtype is of gemm: quantize reads bf16")
    for name in options.library or []:
        if name not in LIBRARIES[options.op]:
            parser.error(f"--library must be one of {', '.join(LIBRARIES[options.op])} with "
                         f"{options.op}, got {name}")
    if options.rounds < 5:
        parser.error(f"--rounds must be at least 5, got {options.rounds}")
    if not options.max_seconds > 0:
        parser.error(f"--max-seconds must be above 0, got {options.max_seconds}")
    folder = pathlib.Path(options.output or ".").parent
    if not folder.is_dir():
        parser.error(f"--output: there is no folder {folder}")
    options.dtype = options.dtype or "fp8"
    return options


def repeats(options):
    """The command of a row."""
    def command(case):
        dtype = f" --dtype {case.dtype}" if options.op == "gemm" else ""
        libraries = "".join(f" --library '{name}'" for name in options.library or [])
        return (f"tools/peers.py --op {options.op}{dtype} --shape "
                f"{peers_table.shape_text(case.shape)} --rounds {options.rounds}{libraries}")
    return command


def chosen(contenders, libraries):
    """Ours and those asked for; "torch 1d" is torch in another product."""
    return {name: make for name, make in contenders.items()
            if name == peers_rounds.OURS or not libraries or name.removesuffix(" 1d") in libraries}


class OutOfTime(Exception):
    pass


def run(options, cases_of, compare, table, clock=time.monotonic):
    """Every case of every shape into the table, until the time is up."""
    begin, unit = clock(), peers_table.RATES[options.op]

    def timed(case, contenders, *same):
        if clock() - begin > options.max_seconds:
            raise OutOfTime
        return compare(case, contenders, *same)

    try:
        for shape in options.shape:
            print(peers_table.shape_text(shape), flush=True)
            for results in cases_of(shape, timed):
                for result in results:
                    table.add(result)
                    if result.seconds:
                        print(f"  {result.case.product:20} {result.library:18} {result.rate:8.5g} "
                              f"{unit}  ratio {result.ratio:.3f}", flush=True)
            gc.collect()  # a shape's tensors are gone before the next
    except OutOfTime:
        print(f"stopped: --max-seconds {options.max_seconds:g} are over")
    print("\n".join(peers_table.summary(table.results, unit)))
    table.close()


def open_table(options, octet_c, properties, gpu):
    libraries = importlib.import_module("peers_libraries")
    versions = {name: library.version for name, library in libraries.available().items()}
    versions["torch.compile"] = libraries.torch.__version__
    versions["cublaslt"] = libraries.cublaslt_version()
    provenance = peers_table.Provenance(
        octet_c.library_path, options.op, octet_c.device_sources(options.op), properties.name,
        gpu.driver())
    return peers_table.Table(options.op, options.output, provenance, versions, repeats(options))


def main(arguments):
    options = parse_arguments(arguments)
    try:
        import octet_c
        import peers_torch
        properties, gpu = peers_torch.gpu_in_use()
        table = open_table(options, octet_c, properties, gpu)
    except (ImportError, OSError, RuntimeError) as error:
        print(f"tools/peers.py: {peers_rounds.one_line(error)}", file=sys.stderr)
        return 2
    timer = peers_torch.Timer(gpu, RATE_GUESS[options.op], as_graph=options.op == "quantize")
    operator = importlib.import_module(f"peers_{options.op}")

    def compare(case, contenders, same=peers_torch.close):
        return peers_rounds.compare(case, chosen(contenders, options.library), options.rounds, same,
                                    timer)

    def cases_of(shape, timed):
        peers_torch.torch.cuda.empty_cache()
        more = properties.L2_cache_size if options.op == "quantize" else options.dtype
        return operator.cases(shape, timed, more)

    run(options, cases_of, compare, table)
    return int(table.failed())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
