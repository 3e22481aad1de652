"""The command line of tools/peers.py."""

import argparse
import math
import pathlib

import peers_builds
import peers_table
from peers_rounds import OURS

COMPILE_MODES = ("default", "max-autotune-no-cudagraphs")
# The dozen shapes of docs/experiments.md, and those of docs/memory_bound_kernels.md.
SHAPES = {"gemm": ["4096x4096x4096", "4096x12288x4096", "8192x6144x4096", "8192x4608x3584",
                   "8192x8192x8192", "32768x4096x4096", "16384x4096x14336", "8192x8192x29568",
                   "16384x8192x28672", "8192x37888x3584", "8192x57344x8192", "8192x106496x16384"],
          "quantize": ["4096x4096", "8192x8192", "16384x8192", "8192x29568", "32768x16384"],
          "rms-norm": ["16384x4096", "8192x8192"],
          "rope": ["8x2048x4096"],
          "rms-norm-rope": ["8x2048x4096"],
          "gated-activation": ["8192x14336", "16384x28672"]}
LIBRARIES = {"gemm": ["cublaslt", "torch", "triton", "deep_gemm", "transformer_engine"],
             "quantize": ["torch.compile", "triton", "device copy"],
             "rms-norm": ["torch eager", "torch.compile", "torch rms_norm", "octet unfused",
                          "device copy"],
             "rope": ["torch eager", "torch.compile", "device copy"],
             "rms-norm-rope": ["torch eager", "torch.compile", "device copy"],
             "gated-activation": ["torch eager", "torch.compile", "octet unfused", "device copy"]}
HEAD_DIM, KV_HEADS = 128, 8


def parse_shape(text, op):
    columns = peers_table.SHAPE_COLUMNS[op]
    parts = text.split("x")
    if len(parts) != len(columns) or not all(p.isascii() and p.isdigit() and int(p) for p in parts):
        raise ValueError(f"--shape must be {'x'.join(columns)} with {op}, got {text}")
    return tuple(map(int, parts))


def make_parser(description):
    parser = argparse.ArgumentParser(
        prog="tools/peers.py", description=description,
        formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--op", choices=SHAPES, default="gemm")
    parser.add_argument("--dtype", choices=["fp8", "bf16", "f16"],
                        help="of the operands of gemm (fp8)")
    parser.add_argument("--shape", action="append",
                        help="repeatable [default: those of docs/experiments.md]")
    parser.add_argument("--head-dim", type=int,
                        help=f"of rope and rms-norm-rope ({HEAD_DIM})")
    parser.add_argument("--kv-heads", type=int, help=f"heads of k in rope ({KV_HEADS})")
    parser.add_argument("--library", action="append", metavar="NAME[=LIBRARY[:TOOLS]]",
                        help="a peer to time beside octet, or another build of octet: its name,\n"
                        "its liboctet.so and the folder tools/ of its tree [default: this one];\n"
                        "repeatable [default: every peer that is installed]")
    parser.add_argument("--product", action="append", metavar="NAME",
                        help="time only this product, e.g. dgrad; repeatable [default: all]")
    parser.add_argument("--compile-mode", action="append", choices=COMPILE_MODES,
                        help="of torch.compile; of both, without it, the faster one is taken")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds, at least 5")
    parser.add_argument("--max-seconds", type=float, default=math.inf,
                        help="begin no further product after so long")
    parser.add_argument("-o", "--output", metavar="CSV")
    return parser


def check_heads(options, parser):
    """Fills in head_dim and kv_heads if the operator has them."""
    rotates = "rope" in options.op
    if options.head_dim is not None and not rotates:
        parser.error(f"--head-dim goes with rope and rms-norm-rope, got it with {options.op}")
    if options.kv_heads is not None and options.op != "rope":
        parser.error(f"--kv-heads goes with rope, got it with {options.op}")
    options.head_dim = HEAD_DIM if options.head_dim is None else options.head_dim
    options.kv_heads = KV_HEADS if options.kv_heads is None else options.kv_heads
    if options.head_dim < 2 or options.head_dim % 2:
        parser.error(f"--head-dim must be even and at least 2, got {options.head_dim}")
    if options.kv_heads < 1:
        parser.error(f"--kv-heads must be at least 1, got {options.kv_heads}")
    for shape in options.shape if rotates else []:
        if shape[-1] % options.head_dim:
            parser.error(f"--shape: {shape[-1]} columns are not a whole number of heads of "
                         f"{options.head_dim}")


def check_libraries(options, parser):
    """Sets options.builds: those of --library that are a build of octet."""
    options.builds, known = [], LIBRARIES[options.op]
    for text in options.library or []:
        if "=" not in text and text not in known:
            parser.error(f"--library must be one of {', '.join(known)} with {options.op}, or "
                         f"NAME=LIBRARY[:TOOLS], got {text}")
        if "=" not in text:
            continue
        try:
            build = peers_builds.Build.parse(text)
        except ValueError as error:
            parser.error(str(error))
        if build.name in [OURS, *known, *(other.name for other in options.builds)]:
            parser.error(f"--library {text}: there is a {build.name} already, wanted another name")
        options.builds.append(build)


def parse_arguments(arguments, description=None):
    parser = make_parser(description)
    options = parser.parse_args(arguments)
    try:
        shapes = options.shape or SHAPES[options.op]
        options.shape = [parse_shape(text, options.op) for text in shapes]
    except ValueError as error:
        parser.error(str(error))
    check_heads(options, parser)
    if options.op != "gemm" and options.dtype:
        parser.error(f"--dtype goes with gemm: {options.op} reads bf16")
    if options.op == "gemm" and options.compile_mode:
        parser.error("--compile-mode does not go with gemm: no product here is compiled")
    check_libraries(options, parser)
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
    """The command that repeats a row."""
    more = []
    if "rope" in options.op:
        more.append(f"--head-dim {options.head_dim}")
    if options.op == "rope":
        more.append(f"--kv-heads {options.kv_heads}")
    more.append(f"--rounds {options.rounds}")
    more += [f"--product '{product}'" for product in options.product or []]
    more += [f"--compile-mode {mode}" for mode in options.compile_mode or []]
    more += [f"--library '{text}'" for text in options.library or []]

    def command(case):
        dtype = f" --dtype {case.dtype}" if options.op == "gemm" else ""
        return (f"tools/peers.py --op {options.op}{dtype} --shape "
                f"{peers_table.shape_text(case.shape)} {' '.join(more)}")
    return command
