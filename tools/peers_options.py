"""The command line of tools/peers.py."""

import argparse
import math
import os
import pathlib
import re
import shlex

import peers_builds
import peers_table
from peers_cases import (SHAPES, SUITES, WORDS, extents_of, random_layers, selected, shape_text,
                         suite, words_of)
from peers_rounds import OURS, ROUND_SECONDS

COMPILE_MODES = ("default", "max-autotune-no-cudagraphs")
LIBRARIES = {"gemm": ["cublaslt", "cublaslt fast", "torch", "triton", "deep_gemm", "transformer_engine"],
             "quantize": ["torch.compile", "triton", "device copy"],
             "rms-norm": ["torch eager", "torch.compile", "torch rms_norm", "octet unfused",
                          "device copy"],
             "rope": ["torch eager", "torch.compile", "device copy"],
             "rms-norm-rope": ["torch eager", "torch.compile", "device copy"],
             "gated-activation": ["torch eager", "torch.compile", "octet unfused", "device copy"],
             "grouped-gemm": ["deep_gemm", "torch bf16", "torch rowwise"],
             "moe-mlp": ["torch.compile"],
             "attention": ["torch cudnn", "torch flash"]}
COMPILED = [op for op, libraries in LIBRARIES.items() if "torch.compile" in libraries]
HEAD_DIM, KV_HEADS = 128, 8
GRANULARITIES = ("blockwise", "tensorwise", "rowwise")


def parse_shape(text, op):
    """The extents. Of attention the last, the features of a head of v, may be left out."""
    columns = peers_table.SHAPE_COLUMNS[op][:-1 if op in WORDS else None]
    parts = text.split("x")
    if op == "attention" and len(parts) == len(columns) - 1:
        parts.append(parts[-1])
    if len(parts) != len(columns) or not all(p.isascii() and p.isdigit() and int(p) for p in parts):
        raise ValueError(f"--shape must be {'x'.join(columns)} with {op}, got {text}")
    return tuple(map(int, parts))


def add_case_options(parser):
    parser.add_argument("--shape", action="append",
                        help="repeatable [default: those of docs/experiments.md]")
    parser.add_argument("--suite", choices=SUITES, help="the shapes of cases/SUITE.csv")
    parser.add_argument("--random", type=int, metavar="COUNT",
                        help="of gemm: the layers that octet bench gemm --random COUNT draws")
    parser.add_argument("--seed", type=int, help="of --random: which draw [default: 1]")
    parser.add_argument("--every", type=int, default=1, metavar="N",
                        help="every Nth of the shapes [default: 1]")
    parser.add_argument("--num-shards", type=int, default=1, metavar="N",
                        help="deal the shapes to N runs, of which this is --shard-id (from 0)")
    parser.add_argument("--shard-id", type=int, default=0, metavar="I")
    parser.add_argument("--group-sizes", action="append", choices=WORDS["grouped-gemm"][1],
                        help="how rows are spread over the groups, as octet bench draws them;\n"
                        "repeatable [default: balanced]")
    parser.add_argument("--mask", action="append", choices=WORDS["attention"][1],
                        help="of attention; repeatable [default: both]")
    parser.add_argument("--head-dim", type=int,
                        help=f"of rope and rms-norm-rope ({HEAD_DIM})")
    parser.add_argument("--kv-heads", type=int, help=f"heads of k in rope ({KV_HEADS})")


def make_parser(description):
    parser = argparse.ArgumentParser(
        prog="tools/peers.py", description=description,
        formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--op", choices=SHAPES, default="gemm")
    parser.add_argument("--dtype", choices=["fp8", "bf16", "f16"],
                        help="of the operands of gemm, or fp8 and bf16 of grouped-gemm (fp8)")
    parser.add_argument("--granularity", choices=GRANULARITIES,
                        help="of the scales of FP8 operands of gemm, and of quantize (blockwise)")
    parser.add_argument("--fast-accumulation", action="store_true",
                        help="FP8 products that stay in the tensor cores; not blockwise")
    add_case_options(parser)
    parser.add_argument("--library", action="append", metavar="NAME[=LIBRARY[:TOOLS]]",
                        help="a peer to time beside octet, or another build of octet: its name,\n"
                        "its liboctet.so and the folder tools/ of its tree [default: this one];\n"
                        "repeatable [default: every peer that is installed]")
    parser.add_argument("--product", action="append", metavar="NAME",
                        help="time only this product, e.g. dgrad; repeatable [default: all]")
    parser.add_argument("--compile-mode", action="append", choices=COMPILE_MODES,
                        help="of torch.compile; of both, without it, the faster one is taken")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds, at least 5")
    lengths = parser.add_mutually_exclusive_group()
    lengths.add_argument("--round-seconds", type=float, default=ROUND_SECONDS, metavar="S",
                         help="of a round of one contender, which settles in as long before\n"
                         f"[default: {ROUND_SECONDS:g}]")
    lengths.add_argument("--seconds-per-case", type=float, metavar="S",
                         help="of all rounds of all contenders of a product, in place of\n"
                         "--round-seconds; at least three launches are timed")
    parser.add_argument("--max-seconds", type=float, default=math.inf,
                        help="begin no further product after so long; the same command goes on")
    parser.add_argument("-o", "--output", metavar="CSV",
                        help="rows go to CSV.part as they come, and to CSV at the end; a case that\n"
                        "is there is not measured again")
    parser.add_argument("--fresh", action="store_true",
                        help="of -o: measure every case again and replace the file")
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


def words(options, parser):
    """The requested last entries of the operator's shapes; empty if its shapes have no words."""
    given = {"grouped-gemm": options.group_sizes, "attention": options.mask}
    usual = {"grouped-gemm": ["balanced"], "attention": list(WORDS["attention"][1])}
    for op, (option, _) in WORDS.items():
        if given[op] and op != options.op:
            parser.error(f"{option} goes with {op}, got it with {options.op}")
    return given.get(options.op) or usual.get(options.op, [])


def check_random(options, parser):
    if options.random is None and options.seed is not None:
        parser.error(f"--seed selects the draw of --random, got --seed {options.seed} without it")
    if options.random is None:
        return
    if options.op != "gemm" or options.shape or options.suite:
        parser.error("--random goes with gemm and without --shape and --suite, got it with "
                     f"{'--suite' if options.suite else '--shape' if options.shape else options.op}")
    if options.random < 1:
        parser.error(f"--random must be at least 1, got {options.random}")


def set_shapes(options, parser):
    """Replaces options.shape, texts, by the shapes to run; options.names: one for each, empty unless
    it is a drawn layer."""
    of_words = words(options, parser)
    check_random(options, parser)
    names = None
    if options.suite and (options.shape or SUITES[options.suite] != options.op):
        parser.error(f"--suite {options.suite} goes with {SUITES[options.suite]} and without "
                     f"--shape, got it with {options.op}")
    if options.every < 1:
        parser.error(f"--every must be at least 1, got {options.every}")
    if not 0 <= options.shard_id < options.num_shards:
        parser.error(f"--shard-id must be 0 to {options.num_shards - 1}, got {options.shard_id}")
    if options.random is not None:
        try:
            layers = random_layers(options.random, 1 if options.seed is None else options.seed)
        except ValueError as error:
            parser.error(f"--random: {error}")
        shapes, names = [shape for shape, _ in layers], [name for _, name in layers]
    elif options.suite:
        shapes = suite(options.suite, of_words)
    else:
        try:
            shapes = [parse_shape(text, options.op) for text in options.shape or SHAPES[options.op]]
        except ValueError as error:
            parser.error(str(error))
        if options.op in WORDS:
            shapes = [(*shape, word) for shape in shapes for word in of_words]
    dealt = options.every, options.num_shards, options.shard_id
    options.shape = selected(shapes, *dealt)
    options.names = selected(names or [""] * len(shapes), *dealt)


def check_libraries(options, parser):
    """Sets options.builds: those of --library that are a build of octet."""
    options.builds, known = [], LIBRARIES[options.op]
    for text in options.library or []:
        if "=" not in text and text not in known:
            parser.error(f"--library must be one of {', '.join(known)} with {options.op}, or "
                         f"NAME=LIBRARY[:TOOLS], got {text}")
        if text == "cublaslt fast" and (options.granularity == "blockwise" or options.fast_accumulation):
            given = "--fast-accumulation" if options.fast_accumulation else "blocks or unscaled operands"
            parser.error(f"--library '{text}' goes with promoted products of --granularity tensorwise or "
                         f"rowwise, got it with {given}")
        if "=" not in text:
            continue
        try:
            build = peers_builds.Build.parse(text)
        except ValueError as error:
            parser.error(str(error))
        if build.name in [OURS, *known, *(other.name for other in options.builds)]:
            parser.error(f"--library {text}: there is a {build.name} already, wanted another name")
        options.builds.append(build)


def check_granularity(options, parser):
    if options.granularity and (options.op not in ("gemm", "quantize") or options.dtype in ("bf16", "f16")):
        parser.error("--granularity goes with FP8 products of gemm, and with quantize")
    options.granularity = options.granularity or "blockwise"
    if options.fast_accumulation and (options.op != "gemm" or options.granularity == "blockwise"):
        parser.error("--fast-accumulation goes with --granularity tensorwise or rowwise of gemm")


def parse_arguments(arguments, description=None):
    parser = make_parser(description)
    options = parser.parse_args(arguments)
    set_shapes(options, parser)
    check_heads(options, parser)
    if options.op not in ("gemm", "grouped-gemm") and options.dtype:
        parser.error(f"--dtype goes with gemm and grouped-gemm: {options.op} reads bf16")
    if options.op == "grouped-gemm" and options.dtype == "f16":
        parser.error("--dtype of grouped-gemm is fp8 or bf16")
    check_granularity(options, parser)
    if options.op not in COMPILED and options.compile_mode:
        parser.error(f"--compile-mode does not go with {options.op}: no product here is compiled")
    check_libraries(options, parser)
    if options.rounds < 5:
        parser.error(f"--rounds must be at least 5, got {options.rounds}")
    if not options.round_seconds > 0:
        parser.error(f"--round-seconds must be above 0, got {options.round_seconds}")
    if options.seconds_per_case is not None and not options.seconds_per_case > 0:
        parser.error(f"--seconds-per-case must be above 0, got {options.seconds_per_case}")
    if options.fresh and not options.output:
        parser.error("--fresh goes with -o, got it without")
    if not options.max_seconds > 0:
        parser.error(f"--max-seconds must be above 0, got {options.max_seconds}")
    folder = pathlib.Path(options.output or ".").parent
    if not folder.is_dir():
        parser.error(f"--output: there is no folder {folder}")
    options.dtype = options.dtype or "fp8"
    return options


def forced_choice(environment):
    """What forces octet's choice, as `octet bench` has it in front of a command: "OCTET_GEMM_BACKEND=cpu_simd "."""
    forced = [f"{name}={shlex.quote(value)} " for name, value in sorted(environment.items())
              if re.fullmatch("OCTET_.+_BACKEND", name) and value]
    if table := environment.get("OCTET_TUNING_TABLE"):
        # One table has one text, wherever the command was given.
        forced.append(f"OCTET_TUNING_TABLE={shlex.quote(os.path.abspath(table))} ")
    return "".join(forced)


def repeats(options):
    """The command that repeats a row."""
    forced, more = forced_choice(os.environ), []
    if "rope" in options.op:
        more.append(f"--head-dim {options.head_dim}")
    if options.op == "rope":
        more.append(f"--kv-heads {options.kv_heads}")
    more.append(f"--rounds {options.rounds}")
    if options.round_seconds != ROUND_SECONDS:
        more.append(f"--round-seconds {options.round_seconds:g}")
    if options.seconds_per_case is not None:
        more.append(f"--seconds-per-case {options.seconds_per_case:g}")
    more += [f"--product '{product}'" for product in options.product or []]
    more += [f"--compile-mode {mode}" for mode in options.compile_mode or []]
    more += [f"--library '{text}'" for text in options.library or []]

    def command(case):
        named = options.op == "gemm" or options.dtype != "fp8"
        dtype = f" --dtype {options.dtype}" if named else ""
        if options.granularity != "blockwise":
            dtype += f" --granularity {options.granularity}"
        if options.fast_accumulation:
            dtype += " --fast-accumulation"
        of_words = [f"{WORDS[options.op][0]} {word}" for word in words_of(case.shape)]
        shape = shape_text(extents_of(case.shape))
        return " ".join([f"{forced}tools/peers.py --op {options.op}{dtype} --shape {shape}", *of_words,
                         *more])
    return command
