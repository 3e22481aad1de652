"""Trains Llama from random weights in bf16, in rowwise FP8 or with octet, and measures it.

    python examples/train_llama.py                                       # tiny, on text of this tree, on any machine
    python examples/train_llama.py --model llama3-8b --layers 4 --precision octet --data corpus/tokens.bin
    torchrun --nproc-per-node 8 examples/train_llama.py --model llama3-8b --precision octet --data corpus/tokens.bin
    python examples/train_llama.py --model llama3-8b --precision bf16,fp8_rowwise,octet --bench

Several precisions are trained one after the other from the same weights, and drawn into one plot; with --bench they
take turns on one set of weights and are timed. docs/training.md has the rest. llama_model.py is the model,
llama_training.py data and steps, llama_bench.py what --bench, --profile and --host-time do.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

# Contenders of different memory use take turns: without this the allocator's pieces of one do not fit the next.
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

import torch
import torch.distributed as dist
from llama_model import SHAPES, Recipe, Shape, build
from llama_training import (
    ROOT,
    Batches,
    Contender,
    Data,
    Machine,
    describe,
    make_optimizer,
    prepare,
    read_csv,
    train_step,
    write_csv,
)

import octet.torch as ot

VARIANTS = {"bf16": ("",), "fp8_rowwise": ("", "fast"), "octet": ("", "1d", "2d")}


def parse_contender(name: str, args: argparse.Namespace) -> Contender:
    spec, _, order = name.partition("@")
    spec, plus, optimizer = spec.partition("+")
    precision, _, variant = spec.partition("-")
    if variant not in VARIANTS.get(precision, ()) or optimizer != ("adamw" if plus else ""):
        choices = ", ".join("-".join(filter(None, (key, value))) for key in VARIANTS for value in VARIANTS[key])
        raise ValueError(
            f"octet: --precision must be of {choices}, each with or without +adamw and @ORDER, got {name!r}"
        )
    if order and not order.isdecimal():
        raise ValueError(f"octet: the order of the data in --precision must be a number, got {name!r}")
    recipe = Recipe(
        precision=precision,
        wgrad=variant if precision == "octet" and variant else args.wgrad,
        head=args.head,
        fused_loss=args.fused_loss,
        fast_accum="all" if variant == "fast" else "forward",
        recompute=args.recompute,
        checkpointing=args.checkpointing,
    )
    return Contender(name, recipe, int(order or 0), "octet" if plus else "torch")


def learning_rate(step: int, args: argparse.Namespace) -> float:
    """A linear warm-up, then a cosine down to a tenth."""
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    progress = (step - args.warmup) / max(1, args.steps - args.warmup)
    return args.lr * (0.55 + 0.45 * math.cos(math.pi * min(1.0, progress)))


def train(contender: Contender, shape: Shape, data: Data, args: argparse.Namespace, machine: Machine) -> list[dict]:
    """One run; a row per step."""
    model = prepare(build(shape, contender.recipe, args.seq, machine.device, args.seed), args, machine)
    optimizer = make_optimizer(model, contender.optimizer, args)
    if args.cache_weights and contender.recipe.precision == "octet":
        ot.cache_weights(model, optimizer)
    batches = Batches(data, args, machine)
    flops = shape.flops_per_token(args.seq) / machine.ranks
    rows: list[dict] = []
    for step in range(args.steps):
        begin = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args)
        loss = machine.mean(train_step(model, optimizer, batches(step, contender.order), args.clip))
        seconds = time.perf_counter() - begin
        if not math.isfinite(loss):
            raise FloatingPointError(f"octet: the loss of {contender.name} is {loss} in step {step + 1}")
        rate = batches.tokens / seconds
        rows.append(
            {
                "step": step + 1,
                "tokens": (step + 1) * batches.tokens,
                "loss": round(loss, 6),
                "lr": f"{learning_rate(step, args):.4g}",
                "step_ms": round(seconds * 1e3, 3),
                "tokens_per_s": round(rate, 1),
                "model_tflops": round(rate * flops / 1e12, 3),
                "peak_gb": round(machine.peak_gb(), 2),
            }
        )
        if step == 0 or (step + 1) % args.log_every == 0 or step + 1 == args.steps:
            machine.say(progress(contender.name, rows[-1], args.steps))
    return rows


def progress(name: str, row: dict, steps: int) -> str:
    return (
        f"{name}  step {row['step']:>4}/{steps}  loss {row['loss']:.4f}  {row['tokens_per_s'] / 1e3:7.2f} k tokens/s"
        f"  {row['model_tflops']:6.1f} model TFLOP/s  {row['peak_gb']:5.1f} GB"
    )


def summary(name: str, rows: list[dict], args: argparse.Namespace) -> dict:
    """The mean loss of the last steps, and medians without the first steps, which compile."""
    settled = rows[min(5, len(rows) - 1) :]
    last = rows[-args.last :]
    return {
        "precision": name,
        "steps": len(rows),
        "mean_loss_of_last": round(statistics.mean(row["loss"] for row in last), 6),
        "last": len(last),
        "step_ms": statistics.median(row["step_ms"] for row in settled),
        "tokens_per_s": statistics.median(row["tokens_per_s"] for row in settled),
        "model_tflops": statistics.median(row["model_tflops"] for row in settled),
        "peak_gb": rows[-1]["peak_gb"],
    }


def plot_losses(runs: dict[str, list[dict]], path: Path, say: Any) -> None:
    try:
        import matplotlib
    except ImportError:
        say("no plot: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (whole, end) = pyplot.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for name, rows in runs.items():
        tail = rows[len(rows) // 2 :]
        for axis, part in ((whole, rows), (end, tail)):
            losses = [row["loss"] for row in part]
            # The mean over 20 steps: single steps differ by more than the precisions do.
            means = [statistics.mean(losses[max(0, i - 19) : i + 1]) for i in range(len(losses))]
            axis.plot([row["step"] for row in part], means, label=name, linewidth=1)
    whole.set(xlabel="step", ylabel="loss, mean of up to 20 steps", title="all steps")
    end.set(xlabel="step", title="second half")
    whole.legend()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    say(f"plot: {path}")


def train_all(contenders: list[Contender], shape: Shape, data: Data, args: argparse.Namespace, machine: Machine) -> int:
    """Every contender from the same weights; finished runs with the same settings are kept. How many are missing."""
    # What a run's numbers depend on. The precision is in the name of its file.
    irrelevant = ("given", "precision", "out", "max_seconds", "log_every", "last", "fresh")
    settings = {key: value for key, value in vars(args).items() if key not in irrelevant}
    origin = {key: value for key, value in describe(args, machine).items() if key != "Command"}
    runs, begin, longest, missing = {}, time.perf_counter(), 0.0, []
    for contender in contenders:
        path = args.out / f"{contender.name}.csv"
        note = path.with_suffix(".json")
        described = {**settings, **dataclasses.asdict(contender.recipe), "order": contender.order, **origin}
        if path.exists() and note.exists() and not args.fresh:
            rows = read_csv(path)
            if len(rows) == args.steps and json.loads(note.read_text()) == json.loads(json.dumps(described)):
                machine.say(f"{contender.name}: {path} is complete; kept")
                runs[contender.name] = rows
                continue
        if args.max_seconds and time.perf_counter() - begin + longest > args.max_seconds:
            missing.append(contender.name)
            continue
        started = time.perf_counter()
        rows = train(contender, shape, data, args, machine)
        longest = max(longest, time.perf_counter() - started)
        runs[contender.name] = rows
        if machine.rank == 0:
            write_csv(path, rows)
            note.write_text(json.dumps(described, indent=1) + "\n")
        torch._dynamo.reset()
        if machine.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
    if machine.rank == 0 and runs:
        table = [summary(name, rows, args) for name, rows in runs.items()]
        for row in table:
            print("  ".join(f"{key} {value}" for key, value in row.items()))
        write_csv(args.out / "train_summary.csv", [{**row, **describe(args, machine)} for row in table])
        steps = range(args.steps)
        joint = [{"step": i + 1, **{name: rows[i]["loss"] for name, rows in runs.items()}} for i in steps]
        write_csv(args.out / "train_loss.csv", joint)
        plot_losses(runs, args.out / "train_loss.png", machine.say)
    if missing:
        machine.say(f"not started (--max-seconds reached): {', '.join(missing)}; rerun the same command to continue")
    return len(missing)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    model = parser.add_argument_group("model")
    model.add_argument("--model", choices=SHAPES, default="tiny", help="sizes that the next flags change [tiny]")
    for name in ("layers", "dim", "hidden", "heads", "kv-heads", "vocab"):
        model.add_argument(f"--{name}", type=int)
    model.add_argument("--precision", default="bf16", help="comma list of bf16, fp8_rowwise[-fast], octet[-1d|-2d]")
    model.add_argument("--wgrad", choices=("1d", "2d"), default="1d", help="of octet: blocks of x^T [1d]")
    model.add_argument("--head", choices=("bf16", "fp8"), default="bf16", help="products of the head [bf16]")
    model.add_argument("--fused-loss", action=argparse.BooleanOptionalAction, default=True, help="of octet's head")
    model.add_argument("--cache-weights", action="store_true", help="of octet: weights cast once per step")
    model.add_argument("--recompute", action="store_true", help="of octet: transposes in FP8 made again in backward")

    run = parser.add_argument_group("training")
    run.add_argument("--data", help="tokens.bin of make_corpus.py, random, or tree: this tree's docs, as bytes")
    run.add_argument("--seq", type=int, help="tokens per sequence [tiny: 128, else 8192]")
    run.add_argument("--batch", type=int, help="sequences per micro-batch and rank [tiny: 8, else 1]")
    run.add_argument("--micro-batches", type=int, default=1, help="per step [1]")
    run.add_argument("--steps", type=int, default=100)
    run.add_argument("--lr", type=float, help="[tiny: 1e-3, else 3e-4]")
    run.add_argument("--warmup", type=int, default=10, help="steps of growing learning rate [10]")
    run.add_argument("--clip", type=float, help="largest norm of the gradient, 0: none [1; 0 with --bench]")
    run.add_argument("--seed", type=int, default=0, help="of weights and data [0]")
    run.add_argument("--compile", choices=("off", "blocks", "model"), help="[blocks on a GPU, off on a CPU]")
    run.add_argument("--checkpointing", action="store_true", help="keep only the inputs of each layer")
    run.add_argument("--attention", choices=("cudnn", "any"), default="cudnn", help="SDPA on a GPU [cudnn]")

    output = parser.add_argument_group("output")
    output.add_argument("--out", type=Path, default=ROOT / "build" / "train", help="folder of CSVs and plots")
    output.add_argument("--log-every", type=int, default=10)
    output.add_argument("--last", type=int, default=50, help="steps whose mean loss the summary has [50]")
    output.add_argument("--max-seconds", type=float, default=0, help="start no run that would take longer [0: none]")
    output.add_argument("--fresh", action="store_true", help="repeat finished runs")

    bench = parser.add_argument_group("measurement (llama_bench.py)")
    bench.add_argument("--bench", action="store_true", help="time the precisions in turns on one set of weights")
    bench.add_argument("--profile", action="store_true", help="time on the GPU by kernel family")
    bench.add_argument("--host-time", action="store_true", help="host time of a layer and of eager linears")
    bench.add_argument("--rounds", type=int, default=3)
    bench.add_argument("--round-warmup", type=int, default=4, help="steps of each round before the timed ones [4]")
    bench.add_argument("--round-steps", type=int, default=10, help="timed steps of a round [10]")
    args = parser.parse_args(argv)
    args.given = sys.argv[1:] if argv is None else argv

    tiny = args.model == "tiny"
    for name, small, large in (("seq", 128, 8192), ("batch", 8, 1), ("lr", 1e-3, 3e-4), ("data", "tree", "random")):
        if getattr(args, name) is None:
            setattr(args, name, small if tiny else large)
    if args.clip is None:
        args.clip = 0.0 if args.bench or args.profile or args.host_time else 1.0
    if args.compile is None:
        args.compile = "blocks" if torch.cuda.is_available() else "off"
    for name in ("seq", "batch", "micro_batches", "steps", "log_every", "last", "rounds", "round_steps"):
        if getattr(args, name) < 1:
            raise ValueError(f"octet: --{name.replace('_', '-')} must be at least 1, got {getattr(args, name)}")
    return args


def shape_of(args: argparse.Namespace) -> Shape:
    given = {name: getattr(args, name) for name in ("layers", "dim", "hidden", "heads", "kv_heads", "vocab")}
    return dataclasses.replace(SHAPES[args.model], **{key: value for key, value in given.items() if value is not None})


def plan(argv: list[str] | None) -> tuple[argparse.Namespace, Shape, list[Contender], Data]:
    """What the flags ask for; ValueError or OSError where they cannot be followed."""
    args = parse(argv)
    shape = shape_of(args)
    contenders = [parse_contender(name.strip(), args) for name in args.precision.split(",")]
    return args, shape, contenders, Data(args.data, shape.vocab, args.seq, args.seed)


def run(args: argparse.Namespace, shape: Shape, contenders: list[Contender], data: Data) -> int:
    """0, or 3 where runs are missing."""
    machine = Machine.find()
    if machine.device.type == "cuda" and args.attention == "cudnn":
        # One backend alone: a refusal is an error, not a slow run.
        for switch, on in (("cudnn", True), ("flash", False), ("mem_efficient", False), ("math", False)):
            getattr(torch.backends.cuda, f"enable_{switch}_sdp")(on)
    total = f"{shape.product_parameters / 1e9:.3f} G weights in products"
    machine.say(f"{args.model}: {shape}, {total}, {machine.ranks} rank(s) on {machine.device.type}")
    try:
        if args.bench or args.profile or args.host_time:
            from llama_bench import measure

            measure(contenders, shape, data, args, machine)
            return 0
        return 3 if train_all(contenders, shape, data, args, machine) else 0
    finally:
        if machine.ranks > 1:
            dist.destroy_process_group()


if __name__ == "__main__":
    try:
        planned = plan(None)
    except (ValueError, OSError) as error:
        raise SystemExit(str(error)) from None
    raise SystemExit(run(*planned))
