"""What --bench, --profile and --host-time of train_llama.py measure.

--bench: the precisions share one set of weights and moments, and take turns in rounds that begin with another one each.
A turn begins with --settle seconds of steps that are not timed: a chip at its power limit remembers what ran before.
--profile: the time of every kernel of two steps, by family. --host-time: what the host pays to launch.

Tables go to --out: train_bench.csv, train_profile.csv, train_host.csv. The rows of one command stay together under
their Run; the same command replaces them.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import hashlib
import json
import re
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from llama_model import Contender, Llama, Recipe, Shape, build, prepare
from train_llama import FOLDER, Data, Machine, command, make_optimizer, train_step, write_csv

import octet
import octet.torch as ot

sys.path.append(str(FOLDER.parent / "tools"))
from nvml import Gpu  # noqa: E402

BASELINES = ("bf16", "fp8_rowwise", "fp8_rowwise-fast")


@dataclass(eq=False)
class Entrant:
    """A contender and what was measured of it."""

    contender: Contender
    model: Llama
    rounds: list[float] = field(default_factory=list)  # median ms of a step, one per round
    clocks: list[float] = field(default_factory=list)
    powers: list[float] = field(default_factory=list)
    peak_gb: float = 0.0
    cache_gb: float = 0.0  # of weights kept in FP8
    layer_host_us: float = 0.0
    layer_us: float = 0.0

    @property
    def name(self) -> str:
        return self.contender.name

    @property
    def step_ms(self) -> float:
        return statistics.median(self.rounds)


def measure(contenders: list[Contender], shape: Shape, data: Data, args: argparse.Namespace, machine: Machine) -> None:
    """Runs what the flags ask for."""
    if machine.ranks > 1:
        raise ValueError("octet: --bench, --profile and --host-time run in one process, not under torchrun")
    args.out.mkdir(parents=True, exist_ok=True)
    # Every precision compiles its own graphs of the same functions: a layer without and with a residual, and the head.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 4 * len(contenders))
    entrants = enter(contenders, shape, args, machine)
    optimizers = shared_optimizers(entrants, args)
    inputs = [data.batches(number, 0, args, machine) for number in range(args.round_steps)]  # on the device by now

    def step(entrant: Entrant, number: int) -> None:
        train_step(entrant.model, optimizers[entrant], inputs[number % len(inputs)], args.clip)

    for entrant in entrants:
        begin = time.perf_counter()
        if args.cache_weights and entrant.contender.recipe.precision == "octet":
            before = allocated_gb(machine)
            ot.cache_weights(entrant.model, optimizers[entrant])
            entrant.cache_gb = max(allocated_gb(machine) - before, 1e-9)
        for number in range(2):
            step(entrant, number)
        machine.synchronize()
        machine.say(f"{entrant.name}: two steps and compiling in {time.perf_counter() - begin:.1f} s")
        machine.release()
    table = Table(shape, data, args, machine)
    if args.bench:
        for number in range(args.rounds):
            first = number % len(entrants)
            for entrant in entrants[first:] + entrants[:first]:
                others_gb = sum(other.cache_gb for other in entrants if other is not entrant)
                turn(entrant, number, step, others_gb, args, machine)
    if args.bench or args.host_time:
        for entrant in entrants:
            entrant.layer_host_us, entrant.layer_us = layer_times(entrant.model, args, machine)
    if args.bench:
        report_bench(entrants, table)
    if args.host_time:
        report_host(entrants, table)
    if args.profile:
        report_profile({entrant: profile(step, entrant, shape, machine) for entrant in entrants}, table)


def enter(contenders: list[Contender], shape: Shape, args: argparse.Namespace, machine: Machine) -> list[Entrant]:
    """The first model holds the weights; the others are made without memory and take its parameters."""
    entrants: list[Entrant] = []
    for contender in contenders:
        if not entrants:
            model = build(shape, contender.recipe, args.seq, machine.device, args.seed)
        else:
            with torch.device("meta"):
                model = Llama(shape, contender.recipe, args.seq)
            model.share(entrants[0].model)
        entrants.append(Entrant(contender, prepare(model, args.compile, sharded=False)))
    return entrants


def shared_optimizers(entrants: list[Entrant], args: argparse.Namespace) -> dict[Entrant, torch.optim.Optimizer]:
    """One for each entrant, so that its steps cast its own cached weights only; all of them have the same moments, and
    those of one kind the same state."""
    model = entrants[0].model
    optimizers = {entrant: make_optimizer(model, entrant.contender.optimizer, args) for entrant in entrants}
    for p in model.parameters():
        moments = {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        # torch's kernel reads the step on the device
        states = {
            kind: {"step": torch.zeros((), device=device), **moments}
            for kind, device in (("torch", p.device), ("octet", "cpu"))
        }
        for entrant, optimizer in optimizers.items():
            optimizer.state[p] = states[entrant.contender.optimizer]
    return optimizers


def allocated_gb(machine: Machine) -> float:
    return torch.cuda.memory_allocated() / 1e9 if machine.device.type == "cuda" else 0.0


def gpu_in_use(machine: Machine) -> Gpu | None:
    if machine.device.type != "cuda":
        return None
    return Gpu(f"GPU-{torch.cuda.get_device_properties(machine.device).uuid}")


class Marks:
    """Points in time on the GPU's clock, or the host's where there is none."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.marks = machine, []

    def add(self) -> None:
        if self.machine.device.type == "cuda":
            self.marks.append(torch.cuda.Event(enable_timing=True))
            self.marks[-1].record()
        else:
            self.marks.append(time.perf_counter())

    def intervals_ms(self) -> list[float]:
        self.machine.synchronize()
        pairs = zip(self.marks, self.marks[1:], strict=False)
        if self.machine.device.type == "cuda":
            return [a.elapsed_time(b) for a, b in pairs]
        return [(b - a) * 1e3 for a, b in pairs]


def turn(
    entrant: Entrant, number: int, step: Callable, others_gb: float, args: argparse.Namespace, machine: Machine
) -> None:
    """One contender's part of a round. others_gb is memory that it would not need alone."""
    gpu = gpu_in_use(machine)
    if entrant.cache_gb:
        ot.refresh_weights(entrant.model)  # the others' optimiser steps have changed them
    begin, settled = time.perf_counter(), 0
    while settled == 0 or time.perf_counter() - begin < args.settle:
        step(entrant, settled)
        machine.synchronize()
        settled += 1
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    marks = Marks(machine)
    marks.add()
    for index in range(args.round_steps):
        step(entrant, index)
        marks.add()
        if gpu:  # the GPU is still busy with what was launched
            entrant.clocks.append(gpu.clock_mhz() or 0)
            entrant.powers.append(gpu.power_w() or 0)
    times = marks.intervals_ms()
    entrant.rounds.append(statistics.median(times))
    entrant.peak_gb = max(entrant.peak_gb, machine.peak_gb() - others_gb)
    machine.say(
        f"round {number + 1}  {entrant.name:22} {entrant.rounds[-1]:9.2f} ms per step, {min(times):.2f} to"
        f" {max(times):.2f}, {settled} before, peak {entrant.peak_gb:.1f} GB"
    )
    machine.release()


def layer_times(model: Llama, args: argparse.Namespace, machine: Machine, repeats: int = 20) -> tuple[float, float]:
    """Microseconds of the second layer, forward and backward: to launch it, and to run it."""
    shape, layer = model.shape, model.layers[min(1, len(model.layers) - 1)]
    size, options = (args.batch, args.seq, shape.dim), {"device": machine.device, "dtype": torch.bfloat16}
    x, residual = (torch.randn(size, **options).requires_grad_() for _ in range(2))
    dy = torch.randn(size, **options) * 1e-3
    host, whole = [], []
    for _ in range(repeats + 3):
        machine.synchronize()
        begin = time.perf_counter()
        y, stream = layer(x, residual, model.cos, model.sin)
        torch.autograd.backward((y, stream), (dy, dy))
        host.append(time.perf_counter() - begin)
        machine.synchronize()
        whole.append(time.perf_counter() - begin)
        x.grad = residual.grad = None
        layer.zero_grad()
    return statistics.median(host[3:]) * 1e6, statistics.median(whole[3:]) * 1e6


def eager_linear_times(shape: Shape, args: argparse.Namespace, machine: Machine) -> dict[str, float]:
    """Microseconds of host time of one eager forward with gradients on, in one loop with F.linear."""
    options = {"device": machine.device, "dtype": torch.bfloat16}
    x = torch.randn(args.batch * args.seq, shape.dim, **options).requires_grad_()
    w = torch.randn(shape.dim, shape.dim, **options).requires_grad_()
    row, column = (ot.quantize(w, "128x128", transposed=transposed) for transposed in (False, True))
    cached = ot.QuantizedWeight(row.data, row.scale_data, column.data, column.scale_data)
    calls = {
        "F.linear": lambda: F.linear(x, w),
        "ot.linear": lambda: ot.linear(x, w),
        "ot.linear, weights cached": lambda: ot.linear(x, w, quantized_w=cached),
    }
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(30):
        for name, call in calls.items():
            machine.synchronize()
            begin = time.perf_counter()
            for _ in range(10):
                call()
            times[name].append((time.perf_counter() - begin) / 10)
    return {name: statistics.median(values) * 1e6 for name, values in times.items()}


# Kernels by family. The compiler names its kernels after the operators that it fused, in alphabetical order: such a
# kernel belongs to the first family of its list, so that one which casts is a cast whatever else it does.
FUSED = {
    "head and loss": r"softmax|nll_loss|cross_entropy|logsumexp",
    "casts": r"amax|float8|quantize",
    "activations": r"silu|sigmoid|gelu",
    "norms": r"norm|rsqrt|_pow_",
    "rotations": r"_(cat|rope|rotate)(_|$)",
    "residuals": r"fused_add(_|$)",
    "scales": r"_scaled_mm",  # a product's result times the scales of its operands
    "copies": r"copy|clone|fill|transpose",
}
LIBRARY = {
    "attention": r"sdpa|flash|fmha|attention",
    "optimiser": r"adam|multi_tensor",
    "head and loss": r"softmax|nll_loss|cross_entropy|loss_",
    # What is left of triton_* here are the templates of products.
    "products": r"nvjet|cutlass|gemm|xmma|cublas|splitk|^triton_|(^|:)(add)?b?mm$|(^|:)_scaled_mm$|^linear_",
    "casts": r"quantize|cast|amax",
    "rotations": r"rotate|rope",
    "activations": r"gated|swiglu|silu",
    "norms": r"norm|partial_sums",
    "copies": r"memcpy|memset|copy|clone|fill|transpose",
}
COUNTED_AS = {"residuals": "norms", "scales": "casts"}
FAMILIES = ["products", "casts", "norms", "rotations", "activations", "attention"]
FAMILIES += ["head and loss", "optimiser", "copies", "other"]


def family_of(kernel: str, operator: str, shapes: list, vocab: int) -> str:
    """Of a kernel, by its name; products with the vocabulary among the sizes of their operator are the head's."""
    # Of octet's kernels the name alone: their arguments and parameters name other things.
    ours = re.search(r"octet::(?:\w+::|\(anonymous namespace\)::)*(\w+)", kernel)
    name = ours[1] if ours else kernel
    compiled = re.match(r"(triton|cpp)_(?!tem_|mm_)", name)
    patterns = FUSED if compiled else LIBRARY
    found = next((family for family, pattern in patterns.items() if re.search(pattern, name, re.IGNORECASE)), "other")
    found = COUNTED_AS.get(found, found)
    with_vocabulary = any(isinstance(size, list | tuple) and vocab in size for size in shapes)
    if "cross_entropy" in operator or (with_vocabulary and found in ("products", "casts", "copies")):
        return "head and loss"
    return found


def profile(step: Callable, entrant: Entrant, shape: Shape, machine: Machine, steps: int = 2) -> dict[str, float]:
    """Milliseconds per step by family."""
    on_gpu = machine.device.type == "cuda"
    activities = [torch.profiler.ProfilerActivity.CPU]
    if on_gpu:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    step(entrant, 0)
    machine.synchronize()
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        for number in range(steps):
            step(entrant, 1 + number)
        machine.synchronize()
    events = profiler.events()
    rows = gpu_rows(events) if on_gpu else [(e.name, e.name, e.input_shapes, e.self_cpu_time_total) for e in events]
    families: dict[str, float] = defaultdict(float)
    kernels: dict[tuple[str, str], float] = defaultdict(float)
    for kernel, operator, shapes, us in rows:
        family = family_of(kernel, operator, shapes or [], shape.vocab)
        families[family] += us / 1e3 / steps
        kernels[family, kernel[:90]] += us / 1e3 / steps
    machine.say(f"{entrant.name}: the longest kernels")
    for (family, kernel), ms in sorted(kernels.items(), key=lambda item: -item[1])[:25]:
        machine.say(f"  {ms:8.3f} ms  {family:14} {kernel}")
    machine.release()
    return families


def gpu_rows(events: list) -> list[tuple[str, str, list, float]]:
    """(kernel, operator that launched it, its shapes, us); what has no operator has a name alone."""
    # Ranges on the GPU's timeline are no kernels.
    ranges = r"Optimizer\.|Torch-Compiled|## Call|ProfilerStep|CompiledFunction"
    left: dict[str, float] = defaultdict(float)
    for event in events:
        on_gpu = event.device_type == torch.autograd.DeviceType.CUDA
        if on_gpu and not getattr(event, "is_user_annotation", False) and not re.match(ranges, event.name):
            left[event.name] += event.self_device_time_total
    rows = []
    for event in events:
        for kernel in event.kernels:
            if kernel.duration <= left.get(kernel.name, 0.0) * 1.001:
                left[kernel.name] -= kernel.duration
                rows.append((kernel.name, event.name, event.input_shapes, kernel.duration))
    return rows + [(name, "", [], us) for name, us in left.items() if us > 0]


class Table:
    """The columns that all rows of a command have, and where the rows go."""

    def __init__(self, shape: Shape, data: Data, args: argparse.Namespace, machine: Machine) -> None:
        self.shape, self.args, self.machine = shape, args, machine
        sizes = {name.replace("_", " ").title(): size for name, size in asdict(shape).items()}
        flags = "batch seq micro_batches compile checkpointing attention clip head fused_loss cache_weights recompute"
        given = {name.replace("_", " ").title(): getattr(args, name) for name in flags.split()}
        settings = {"Model": args.model, **sizes, **given, "Data": data.digest}
        self.run = {"Run": digest([settings, args.precision]), **settings}
        gpu = gpu_in_use(machine)
        version = subprocess.run([sys.executable, "-m", "octet", "--version"], capture_output=True, text=True).stdout
        commit = re.search(r"\((\S+)\)", version)
        self.origin = {
            "GPU": machine.name if gpu else "none",
            "Driver": gpu.driver() if gpu else "",
            "Torch": torch.__version__,
            "Commit": commit[1] if commit else "",
            "Command": command(args),
        }

    def row(self, contender: Contender | None, figures: dict) -> dict:
        """The figures of a contender, or of no contender, with their origin."""
        what = {"Precision": contender.name if contender else ""}
        if contender:
            what["Attention"] = contender.recipe.attention
        kernels = {"Kernels": kernels_of(contender) if contender else ""}
        return {**self.run, **what, **figures, **kernels, **self.origin}

    def write(self, name: str, rows: list[dict], shown: list[str]) -> None:
        widths = {column: max(len(column), *(len(str(row[column])) for row in rows)) for column in shown}
        for row in ({column: column for column in shown}, *rows):
            self.machine.say("  ".join(f"{row[column]!s:>{widths[column]}}" for column in shown))
        merge(self.args.out / name, rows)
        self.machine.say(f"written: {self.args.out / name}")


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]


def merge(path: Path, rows: list[dict]) -> None:
    """Into the file, in place of the rows of the same run. Old rows keep their text."""
    old = []
    if path.exists():
        with path.open(newline="") as file:
            old = list(csv.DictReader(file))
    if old and list(old[0]) != list(rows[0]):
        raise ValueError(f"octet: {path} has other columns; give another --out or remove it")
    write_csv(path, [row for row in old if row["Run"] != rows[0]["Run"]] + rows)


def layer_kernels(recipe: Recipe) -> list[str]:
    if recipe.granularity == "blockwise":
        return ["fp8_linear", "gated_mlp", "rms_norm"]
    kind = "mx" if recipe.granularity == "mxfp8" else "fast" if recipe.fast_accumulation else "whole"
    return [f"fp8_linear_{kind}", f"gated_mlp_{kind}", "rms_norm_lines"]


def kernels_of(contender: Contender) -> str:
    """OPERATOR:DIGEST of what a step runs of octet's kernels, as `octet doctor` prints them."""
    operators = ["adamw"] if contender.optimizer == "octet" else []
    if contender.recipe.precision == "octet":
        operators += ["linear_cross_entropy", "rope", *layer_kernels(contender.recipe)]
    elif contender.recipe.precision == "bf16" and contender.recipe.head == "fp8":
        operators += ["fp8_linear"]
    if contender.recipe.attention == "octet":
        operators += ["attention"]
    function = ctypes.CDLL(str(octet.library_path())).octet_device_sources
    function.restype = ctypes.c_char_p
    digests = {operator: function(operator.encode()).decode() for operator in operators}
    return " ".join(f"{operator}:{found}" for operator, found in digests.items() if found)


def baseline_of(entrant: Entrant, entrants: list[Entrant], precision: str) -> Entrant | None:
    """The entrant with this precision, with the same optimiser and attention if there are several."""
    named = [other for other in entrants if other.name.partition("+")[0] == precision]
    mine = entrant.contender

    def differs(other: Entrant) -> tuple[bool, bool]:
        return other.contender.optimizer != mine.optimizer, other.contender.recipe.attention != mine.recipe.attention

    return min(named, key=differs, default=None)


def report_bench(entrants: list[Entrant], table: Table) -> None:
    """A ratio is the baseline's Step (ms) over the row's; both are medians over the rounds."""
    args, rows = table.args, []
    for entrant in entrants:
        bases = {precision: baseline_of(entrant, entrants, precision) for precision in BASELINES}
        ratios = {f"To {name}": f"{base.step_ms / entrant.step_ms:.4f}" if base else "" for name, base in bases.items()}
        tokens_per_s = args.micro_batches * args.batch * args.seq / entrant.step_ms * 1e3
        figures = {
            "Tokens/s": f"{tokens_per_s:.1f}",
            "Step (ms)": f"{entrant.step_ms:.3f}",
            "Spread (%)": f"{100 * (max(entrant.rounds) - min(entrant.rounds)) / entrant.step_ms:.2f}",
            "Model TFLOP/s": f"{tokens_per_s * table.shape.flops_per_token(args.seq) / 1e12:.2f}",
            **ratios,
            "Baselines": ", ".join(f"{base.name} {base.step_ms:.3f} ms" for base in bases.values() if base),
            "Peak (GB)": f"{entrant.peak_gb:.2f}",
            "Layer Host (us)": f"{entrant.layer_host_us:.0f}",
            "Layer (us)": f"{entrant.layer_us:.0f}",
            "Rounds (ms)": " ".join(f"{ms:.3f}" for ms in entrant.rounds),
            "Settle (s)": args.settle,
            "Steps": args.round_steps,
            "Clock (MHz)": f"{statistics.median(entrant.clocks):.0f}" if entrant.clocks else "",
            "Power (W)": f"{statistics.mean(entrant.powers):.0f}" if entrant.powers else "",
        }
        rows.append(table.row(entrant.contender, figures))
    shown = ["Precision", "Tokens/s", "Step (ms)", "Spread (%)", "Model TFLOP/s", *(f"To {name}" for name in BASELINES)]
    table.write("train_bench.csv", rows, [*shown, "Peak (GB)", "Layer Host (us)", "Layer (us)"])
    for entrant in entrants:
        for base in filter(None, (baseline_of(entrant, entrants, precision) for precision in BASELINES)):
            if base is not entrant:
                by_round = [b / a for a, b in zip(entrant.rounds, base.rounds, strict=True)]
                ratio = f"{base.step_ms / entrant.step_ms:.4f}x, by round {min(by_round):.4f} to {max(by_round):.4f}"
                table.machine.say(f"{entrant.name} to {base.name}: {ratio}")


def report_host(entrants: list[Entrant], table: Table) -> None:
    """The layers, then eager linears with their ratio to F.linear."""
    rows = []
    for entrant in entrants:
        host, whole = f"{entrant.layer_host_us:.1f}", f"{entrant.layer_us:.1f}"
        figures = {"Quantity": "layer forward + backward", "Host (us)": host, "Whole (us)": whole, "To F.linear": ""}
        rows.append(table.row(entrant.contender, figures))
    eager = eager_linear_times(table.shape, table.args, table.machine)
    for name, us in eager.items():
        quantity, ratio = f"{name}: forward, eager, grad on", f"{us / eager['F.linear']:.3f}"
        figures = {"Quantity": quantity, "Host (us)": f"{us:.1f}", "Whole (us)": "", "To F.linear": ratio}
        rows.append(table.row(None, figures))
    table.write("train_host.csv", rows, ["Precision", "Quantity", "Host (us)", "Whole (us)", "To F.linear"])


def report_profile(families: dict[Entrant, dict[str, float]], table: Table) -> None:
    rows = []
    for entrant, found in families.items():
        figures = {f"{family} (ms)": f"{found.get(family, 0.0):.2f}" for family in FAMILIES}
        figures["all (ms)"] = f"{sum(found.values()):.2f}"
        rows.append(table.row(entrant.contender, figures))
    table.write("train_profile.csv", rows, ["Precision", *(f"{family} (ms)" for family in (*FAMILIES, "all"))])
