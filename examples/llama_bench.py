"""What train_llama.py measures: --bench, --profile and --host-time.

--bench: the precisions share one set of weights and one optimiser, and take turns in rounds. Every turn begins with
steps that are not timed: a chip at its power limit remembers what ran before. Steps are timed on the GPU's clock.
--profile: the time of every kernel of two steps, by family; llama_profile.py. --host-time: what the host pays to
launch.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from llama_model import Llama, Shape, build
from llama_profile import FAMILIES_SHOWN, profile
from llama_training import (
    Batches,
    Contender,
    Data,
    Gpu,
    Machine,
    describe,
    make_optimizer,
    prepare,
    read_csv,
    train_step,
    write_csv,
)

import octet.torch as ot


@dataclass
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
    families: dict[str, float] = field(default_factory=dict)


def measure(contenders: list[Contender], shape: Shape, data: Data, args: argparse.Namespace, machine: Machine) -> None:
    """Runs what the flags ask for; one row per contender in train_bench.csv, train_profile.csv and train_host.csv."""
    if machine.ranks > 1:
        raise ValueError("octet: --bench, --profile and --host-time run in one process, not under torchrun")
    entrants = enter(contenders, shape, args, machine)
    base = entrants[0].model
    optimizers, batches = shared_optimizers(base, entrants, args), Batches(data, args, machine)

    # On the device before anything is timed.
    inputs = [batches(number) for number in range(args.round_warmup + args.round_steps)]

    def step(entrant: Entrant, number: int) -> None:
        train_step(entrant.model, optimizers[entrant.contender.optimizer], inputs[number % len(inputs)], args.clip)
        if entrant.cache_gb:
            ot.refresh_weights(entrant.model)

    for entrant in entrants:
        begin = time.perf_counter()
        if args.cache_weights and entrant.contender.recipe.precision == "octet":
            before = machine.allocated_gb()
            ot.cache_weights(entrant.model)
            entrant.cache_gb = max(machine.allocated_gb() - before, 1e-9)
        for number in range(2):
            step(entrant, number)
        machine.synchronize()
        machine.say(f"{entrant.contender.name}: two steps and compiling in {time.perf_counter() - begin:.1f} s")
        release(machine)
    origin = describe(args, machine)
    if args.bench:
        for number in range(args.rounds):
            for entrant in entrants:
                others = sum(other.cache_gb for other in entrants if other is not entrant)
                turn(entrant, number, step, others, args, machine)
    if args.bench or args.host_time:
        for entrant in entrants:
            entrant.layer_host_us, entrant.layer_us = layer_times(entrant.model, args, machine)
    if args.bench:
        report_bench(entrants, shape, batches.tokens, args, machine, origin)
    if args.host_time:
        report_host(entrants, shape, args, machine, origin)
    if args.profile:
        for entrant in entrants:
            entrant.families = profile(lambda number, entrant=entrant: step(entrant, number), shape, machine)
            release(machine)
        report_profile(entrants, shape, args, machine, origin)


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
        entrants.append(Entrant(contender, prepare(model, args, machine)))
    return entrants


def shared_optimizers(model: Llama, entrants: list[Entrant], args: argparse.Namespace) -> dict:
    """Of every kind that an entrant has; all of them have the same moments."""
    kinds = dict.fromkeys(entrant.contender.optimizer for entrant in entrants)
    optimizers = {kind: make_optimizer(model, kind, args) for kind in kinds}
    moments = {p: (torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()}
    for kind, optimizer in optimizers.items():
        for p, (first, second) in moments.items():
            step = torch.zeros((), device=p.device if kind == "torch" else "cpu")  # torch's kernel reads it there
            optimizer.state[p].update(step=step, exp_avg=first, exp_avg_sq=second)
    return optimizers


def release(machine: Machine) -> None:
    """Gives cached memory back, so that the next contender does not start among the pieces of this one."""
    machine.synchronize()
    if machine.device.type == "cuda":
        torch.cuda.empty_cache()


class Marks:
    """Points in time on the GPU's clock, or the host's where there is none."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.marks = machine, []

    def add(self) -> None:
        if self.machine.device.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
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
    gpu = Gpu() if machine.device.type == "cuda" else None
    if entrant.cache_gb:
        ot.refresh_weights(entrant.model)  # the others' optimiser steps have changed them
    for index in range(args.round_warmup):
        step(entrant, index)
    machine.synchronize()
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    marks = Marks(machine)
    marks.add()
    for index in range(args.round_steps):
        step(entrant, args.round_warmup + index)
        marks.add()
        if gpu:  # the GPU is still busy with what was launched
            entrant.clocks.append(gpu.clock_mhz() or 0)
            entrant.powers.append(gpu.power_w() or 0)
    times = marks.intervals_ms()
    entrant.rounds.append(statistics.median(times))
    entrant.peak_gb = max(entrant.peak_gb, machine.peak_gb() - others_gb)
    spread = 100 * (max(times) - min(times)) / statistics.median(times)
    machine.say(
        f"round {number + 1}  {entrant.contender.name:14} {entrant.rounds[-1]:9.2f} ms per step, {spread:.1f} % apart,"
        f" peak {entrant.peak_gb:.1f} GB"
    )
    release(machine)


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
    """Microseconds of host time of one eager forward with gradients on, ot.linear and F.linear in the same loop."""
    options = {"device": machine.device, "dtype": torch.bfloat16}
    x = torch.randn(args.batch * args.seq, shape.dim, **options).requires_grad_()
    w = torch.randn(shape.dim, shape.dim, **options).requires_grad_()
    calls = {"F.linear": lambda: F.linear(x, w), "ot.linear": lambda: ot.linear(x, w, wgrad=args.wgrad)}
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(30):
        for name, call in calls.items():
            machine.synchronize()
            begin = time.perf_counter()
            for _ in range(10):
                call()
            times[name].append((time.perf_counter() - begin) / 10)
    return {name: statistics.median(values) * 1e6 for name, values in times.items()}


def case(entrant: Entrant, shape: Shape, args: argparse.Namespace) -> dict:
    """What identifies a row."""
    recipe = entrant.contender.recipe
    return {
        "Model": args.model,
        "Layers": shape.layers,
        "Batch": args.batch,
        "Seq": args.seq,
        "Micro-Batches": args.micro_batches,
        "Compile": args.compile,
        "Checkpointing": "yes" if recipe.checkpointing else "no",
        "Precision": recipe.precision,
        "Wgrad": recipe.wgrad if recipe.precision == "octet" else "",
        "Fast Accum": recipe.fast_accum if recipe.precision == "fp8_rowwise" else "",
        "Head": recipe.head,
        "Cached Weights": "yes" if entrant.cache_gb else "no",
        "Optimizer": entrant.contender.optimizer,
        "Recompute": "yes" if recipe.recompute and recipe.precision == "octet" else "no",
    }


def ratio(entrant: Entrant, entrants: list[Entrant], precision: str) -> str:
    """Speed over that of the first entrant with this precision: the median over the rounds."""
    base = next((e for e in entrants if e.contender.recipe.precision == precision), None)
    if base is None:
        return ""
    return f"{statistics.median(b / a for a, b in zip(entrant.rounds, base.rounds, strict=True)):.4f}"


def report_bench(
    entrants: list[Entrant], shape: Shape, tokens: int, args: argparse.Namespace, machine: Machine, origin: dict
) -> None:
    rows = []
    for entrant in entrants:
        ms = statistics.median(entrant.rounds)
        rate = tokens / ms * 1e3
        rows.append(
            {
                **case(entrant, shape, args),
                "Tokens/s": f"{rate:.1f}",
                "Step (ms)": f"{ms:.3f}",
                "Spread (%)": f"{100 * (max(entrant.rounds) - min(entrant.rounds)) / ms:.2f}",
                "Model TFLOP/s": f"{rate * shape.flops_per_token(args.seq) / 1e12:.2f}",
                "To bf16": ratio(entrant, entrants, "bf16"),
                "To fp8_rowwise": ratio(entrant, entrants, "fp8_rowwise"),
                "Peak (GB)": f"{entrant.peak_gb:.2f}",
                "Layer Host (us)": f"{entrant.layer_host_us:.0f}",
                "Layer (us)": f"{entrant.layer_us:.0f}",
                "Rounds": args.rounds,
                "Steps": args.round_steps,
                "Clock (MHz)": f"{statistics.median(entrant.clocks):.0f}" if entrant.clocks else "",
                "Power (W)": f"{statistics.mean(entrant.powers):.0f}" if entrant.powers else "",
                **origin,
            }
        )
    shown = (
        "Precision",
        "Wgrad",
        "Fast Accum",
        "Head",
        "Tokens/s",
        "Step (ms)",
        "Spread (%)",
        "Model TFLOP/s",
        "To bf16",
    )
    show(rows, [*shown, "To fp8_rowwise", "Peak (GB)", "Layer Host (us)", "Layer (us)"], machine)
    merge(args.out / "train_bench.csv", rows, len(case(entrants[0], shape, args)), machine)


def report_host(
    entrants: list[Entrant], shape: Shape, args: argparse.Namespace, machine: Machine, origin: dict
) -> None:
    eager = eager_linear_times(shape, args, machine)
    what = f"layer forward + backward, compile {args.compile}"
    rows = [
        {
            **case(entrant, shape, args),
            "Quantity": what,
            "Host (us)": f"{entrant.layer_host_us:.1f}",
            "Whole (us)": f"{entrant.layer_us:.1f}",
            **origin,
        }
        for entrant in entrants
    ]
    for name, us in eager.items():
        empty = dict.fromkeys(case(entrants[0], shape, args), "")
        known = {"Model": args.model, "Batch": args.batch, "Seq": args.seq}
        quantity = f"{name} forward, eager, grad on"
        rows.append({**empty, **known, "Quantity": quantity, "Host (us)": f"{us:.1f}", "Whole (us)": "", **origin})
    show(rows, ["Precision", "Wgrad", "Quantity", "Host (us)", "Whole (us)"], machine)
    merge(args.out / "train_host.csv", rows, len(case(entrants[0], shape, args)) + 1, machine)


def report_profile(
    entrants: list[Entrant], shape: Shape, args: argparse.Namespace, machine: Machine, origin: dict
) -> None:
    rows = []
    for entrant in entrants:
        row = {**case(entrant, shape, args)}
        for family in FAMILIES_SHOWN:
            row[f"{family} (ms)"] = f"{entrant.families.get(family, 0.0):.2f}"
        rows.append({**row, "all (ms)": f"{sum(entrant.families.values()):.2f}", **origin})
    for family in [*FAMILIES_SHOWN, "all"]:
        machine.say(f"{family:14}" + "".join(f"{row[f'{family} (ms)']:>12}" for row in rows))
    machine.say(f"{'ms per step':14}" + "".join(f"{entrant.contender.name:>12}" for entrant in entrants))
    merge(args.out / "train_profile.csv", rows, len(case(entrants[0], shape, args)), machine)


def show(rows: list[dict], columns: list[str], machine: Machine) -> None:
    widths = {column: max(len(column), *(len(str(row[column])) for row in rows)) for column in columns}
    for row in ({column: column for column in columns}, *rows):
        machine.say("  ".join(f"{row[column]!s:>{widths[column]}}" for column in columns))


def merge(path: Path, rows: list[dict], keys: int, machine: Machine) -> None:
    """Into the file, in place of rows whose first columns are the same."""
    names = list(rows[0])[:keys]

    def key(row: dict) -> tuple[str, ...]:
        return tuple(str(row[name]) for name in names)

    old: list[dict] = read_csv(path) if path.exists() else []
    if old and list(old[0]) != list(rows[0]):
        raise ValueError(f"octet: {path} has other columns; give another --out or remove it")
    measured = {key(row) for row in rows}
    write_csv(path, [row for row in old if key(row) not in measured] + rows)
    machine.say(f"written: {path}")
