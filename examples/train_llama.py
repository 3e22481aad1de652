"""Trains Llama from random weights in bf16, in rowwise FP8 or with octet.

    python examples/train_llama.py                                         # tiny, on its own sources, on any machine
    python examples/train_llama.py --precision bf16,fp8_rowwise,octet-2d   # three runs from the same weights, one plot
    python examples/train_llama.py --model llama3-8b --layers 4 --precision octet-2d --data corpus/tokens.bin
    torchrun --nproc-per-node 8 examples/train_llama.py --model llama3-8b --precision octet-2d --data corpus/tokens.bin

--precision is a comma list of NAME[+adamw][+attention][@ORDER]. NAME is one of

    bf16               torch operators
    fp8_rowwise        torchao's rowwise recipe: fast accumulation in forward
    fp8_rowwise-fast   the same with fast accumulation in all three products
    octet-1d, octet-2d octet.torch, x^T for the weight gradient in 1x128 or 128x128 blocks; octet is octet-2d
    octet-tensorwise, octet-rowwise, octet-mxfp8
                       octet.torch with that granularity in its linear layers; the fused head stays blockwise
    octet-tensorwise-fast, octet-rowwise-fast
                       the same with fast accumulation in all three products

+adamw steps with octet.torch.AdamW instead of torch's fused AdamW. +attention is --attention octet for this run alone:
octet-2d,octet-2d+attention are one step without and with octet.torch.attention.

@ORDER, a number, reads the data in another order: bf16,bf16@1 are two bf16 runs whose losses differ by chance alone.
All runs of a list begin with the same weights.

The model is llama_model.py. --bench, --profile and --host-time measure instead of training: llama_bench.py, which takes
no part otherwise. docs/training.md has the rest.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import functools
import gc
import hashlib
import json
import math
import os
import re
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Runs of different memory use follow each other: without this the allocator's pieces of one do not fit the next.
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

import torch
import torch.distributed as dist
from llama_model import SHAPES, Contender, Shape, build, parse_contender, prepare
from torch import Tensor, nn

import octet
import octet.torch as ot

FOLDER = Path(__file__).resolve().parent
NOWHERE = Path(os.devnull)  # where ranks other than 0 write
Row = dict[str, float]


@dataclasses.dataclass
class Machine:
    """Where this process computes, and its place among the ranks."""

    device: torch.device
    rank: int
    ranks: int

    @classmethod
    def find(cls) -> Machine:
        torchrun = {"WORLD_SIZE": 1, "RANK": 0, "LOCAL_RANK": 0}
        ranks, rank, local = (int(os.environ.get(name, value)) for name, value in torchrun.items())
        device = torch.device("cpu")
        if torch.cuda.is_available():
            device = torch.device("cuda", local)
            torch.cuda.set_device(device)
        if ranks > 1:
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(device, rank, ranks)

    @property
    def name(self) -> str:
        return torch.cuda.get_device_name() if self.device.type == "cuda" else "cpu"

    def say(self, line: str) -> None:
        if self.rank == 0:
            print(line, flush=True)

    def agree(self, choice: Any) -> Any:
        """What rank 0 chose: files and clocks of the others may say something else."""
        choices = [choice]
        if self.ranks > 1:
            dist.broadcast_object_list(choices, src=0)
        return choices[0]

    def mean(self, value: Tensor) -> float:
        if self.ranks > 1:
            dist.all_reduce(value)
        return value.item() / self.ranks

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def release(self) -> None:
        """Gives cached memory back, so that what follows does not start among the pieces of what was."""
        self.synchronize()
        gc.collect()  # models are cycles
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def peak_gb(self) -> float:
        """The most memory that tensors have taken since the last reset; 0 on a CPU."""
        return torch.cuda.max_memory_allocated() / 1e9 if self.device.type == "cuda" else 0.0


class Data:
    """Sequences of seq + 1 tokens. What a step reads depends on seed, order and step alone: not on the precision, nor
    on how many ranks or micro-batches it is cut into."""

    def __init__(self, source: str, vocab: int, seq: int, seed: int) -> None:
        self.vocab, self.seq, self.seed = vocab, seq, seed
        self.digest = "random"
        if source == "random":
            self.tokens = None
            return
        paths = sorted(FOLDER.glob("*.py")) if source == "sources" else [Path(source)]
        if not paths[0].is_file():
            raise FileNotFoundError(f"octet: --data must be random, sources or a file, got {source!r}")
        if source.endswith(".bin"):  # int16 holds the bits: few of torch's operators take uint16
            self.tokens = torch.from_file(source, size=paths[0].stat().st_size // 2, dtype=torch.int16)
        else:
            text = b"".join(path.read_bytes() for path in paths)
            self.tokens = torch.frombuffer(bytearray(text or b"\0"), dtype=torch.uint8)
        if len(self.tokens) < seq + 2:
            raise ValueError(f"octet: {source} has {len(self.tokens)} tokens, --seq {seq} needs {seq + 2}")
        largest, digest = 0, hashlib.sha256()
        for part in self.tokens.split(1 << 24):
            largest = max(largest, int(self._ids(part).max()))
            digest.update(part.numpy())
        if largest >= vocab:
            raise ValueError(f"octet: {source} has token {largest}, --vocab must be above it, got {vocab}")
        self.digest = digest.hexdigest()[:16]

    @staticmethod
    def _ids(part: Tensor) -> Tensor:
        return part.to(torch.int64) & 0xFFFF

    def sequences(self, step: int, order: int, count: int) -> Tensor:
        """``[count, seq + 1]``, int64."""
        generator = torch.Generator().manual_seed((self.seed * 1009 + order) * 1_000_003 + step)
        if self.tokens is None:
            return torch.randint(self.vocab, (count, self.seq + 1), generator=generator)
        begins = torch.randint(len(self.tokens) - self.seq - 1, (count,), generator=generator).tolist()
        return torch.stack([self._ids(self.tokens[begin : begin + self.seq + 1]) for begin in begins])

    def batches(self, step: int, order: int, args: argparse.Namespace, machine: Machine) -> list[Tensor]:
        """The micro-batches of this rank, ``[batch, seq + 1]`` each, on its device."""
        count = args.micro_batches * args.batch
        mine = self.sequences(step, order, count * machine.ranks)[machine.rank * count :][:count]
        if machine.device.type == "cuda":
            mine = mine.pin_memory()  # otherwise the copy waits for the step before
        return list(mine.to(machine.device, non_blocking=True).split(args.batch))


def make_optimizer(model: nn.Module, kind: str, args: argparse.Namespace) -> torch.optim.Optimizer:
    """AdamW in one kernel, torch's or octet's; weights in bf16, so moments too."""
    options = {"lr": args.lr, "betas": (0.9, 0.95), "weight_decay": 0.1}
    if kind == "octet":
        return ot.AdamW(model.parameters(), **options)
    return torch.optim.AdamW(model.parameters(), **options, fused=True)


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, parts: list[Tensor], clip: float) -> Tensor:
    """One optimiser step over micro-batches ``[batch, seq + 1]``; the mean loss, not read back."""
    total = torch.zeros((), device=parts[0].device)
    for part in parts:
        loss = model(part[:, :-1].contiguous(), part[:, 1:].contiguous()) / len(parts)
        loss.backward()
        total += loss.detach()
    if clip > 0:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    optimizer.zero_grad()
    return total


def learning_rate(step: int, args: argparse.Namespace) -> float:
    """A linear warm-up, then a cosine down to a tenth."""
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    progress = (step - args.warmup) / max(1, args.steps - args.warmup)
    return args.lr * (0.55 + 0.45 * math.cos(math.pi * min(1.0, progress)))


def train(contender: Contender, shape: Shape, data: Data, args: argparse.Namespace, machine: Machine) -> Iterator[Row]:
    """One run; a row per step. A loss that is not finite ends it."""
    model = build(shape, contender.recipe, args.seq, machine.device, args.seed)
    model = prepare(model, args.compile, sharded=machine.ranks > 1)
    optimizer = make_optimizer(model, contender.optimizer, args)
    if args.cache_weights and contender.recipe.precision == "octet":
        ot.cache_weights(model, optimizer)
    tokens = args.micro_batches * args.batch * args.seq * machine.ranks  # of a step
    flops = shape.flops_per_token(args.seq) / machine.ranks
    for step in range(args.steps):
        begin = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args)
        parts = data.batches(step, contender.order, args, machine)
        loss = machine.mean(train_step(model, optimizer, parts, args.clip))
        seconds = time.perf_counter() - begin
        rate, peak = tokens / seconds, machine.peak_gb()
        tflops = rate * flops / 1e12
        if step == 0 or (step + 1) % args.log_every == 0 or step + 1 == args.steps:
            speed = f"{rate / 1e3:7.2f} k tokens/s  {tflops:6.1f} model TFLOP/s  {peak:5.1f} GB"
            machine.say(f"{contender.name}  step {step + 1:>4}/{args.steps}  loss {loss:.4f}  {speed}")
        yield {
            "step": step + 1,
            "tokens": (step + 1) * tokens,
            "loss": round(loss, 6),
            "lr": float(f"{learning_rate(step, args):.4g}"),
            "step_ms": round(seconds * 1e3, 3),
            "tokens_per_s": round(rate, 1),
            "model_tflops": round(tflops, 3),
            "peak_gb": round(peak, 2),
        }
        if not math.isfinite(loss):
            return


# Several runs, and what is left of them on disk


@dataclasses.dataclass
class Record:
    """A run on disk: NAME.csv has its steps, NAME.json what they depend on and how the run ended."""

    rows: list[Row]
    state: str = ""  # "finished", or why it failed; "begun" or nothing: not whole
    seconds: float = 0.0  # that the whole run takes; 0 where nothing is known

    @classmethod
    def find(cls, path: Path, key: dict[str, Any]) -> Record:
        """What is there of a run with this key."""
        try:
            note = json.loads(path.with_suffix(".json").read_text())
            with path.open(newline="") as file:
                rows = [{name: float(text) for name, text in row.items()} for row in csv.DictReader(file)]
        except (OSError, ValueError, TypeError):  # nothing, or torn
            return cls([])
        if not rows or note.get("key") != json.loads(json.dumps(key)):
            return cls([])
        estimate = statistics.median(row["step_ms"] for row in rows) * key["steps"] / 1e3
        return cls(rows, note["state"], note.get("seconds", estimate))

    @classmethod
    def make(cls, path: Path, key: dict[str, Any], rows: Iterator[Row]) -> Record:
        """Writes every row as it comes: a run that ends badly keeps its curve."""
        begin, record = time.perf_counter(), cls([], "begun")
        note = path if path == NOWHERE else path.with_suffix(".json")
        note.write_text(json.dumps({"state": "begun", "key": key}))
        with path.open("w", newline="") as file:
            for row in rows:
                writer = csv.DictWriter(file, row, lineterminator="\n")
                if not record.rows:
                    writer.writeheader()
                writer.writerow(row)
                file.flush()
                record.rows.append(row)
        record.seconds = round(time.perf_counter() - begin, 3)
        bad = not math.isfinite(row["loss"])
        record.state = f"failed: the loss is {row['loss']} in step {row['step']}" if bad else "finished"
        note.write_text(json.dumps({"state": record.state, "seconds": record.seconds, "key": key}, indent=1) + "\n")
        return record


@functools.cache
def code_digest() -> str:
    """Of this example and of octet as it is installed."""
    paths = [FOLDER / "train_llama.py", FOLDER / "llama_model.py", *Path(octet.__file__).parent.rglob("*.py")]
    digest = hashlib.sha256()
    for path in sorted({*paths, *octet.library_path().parent.glob("*.so*")}):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def key_of(contender: Contender, shape: Shape, data: Data, args: argparse.Namespace, machine: Machine) -> dict:
    """All that the numbers of a run depend on."""
    flags = "seq batch micro_batches steps lr warmup clip seed compile attention cache_weights"
    settings = {name: getattr(args, name) for name in flags.split()}
    run = {**dataclasses.asdict(contender.recipe), "order": contender.order, "optimizer": contender.optimizer}
    place = {"ranks": machine.ranks, "device": machine.name, "torch": torch.__version__}
    digests = {"data_digest": data.digest, "code_digest": code_digest()}
    return {**dataclasses.asdict(shape), **settings, **run, **place, **digests}


def train_all(contenders: list[Contender], shape: Shape, data: Data, args: argparse.Namespace, machine: Machine) -> int:
    """Every contender from the same weights; runs that are on disk with the same key are kept. The exit status."""
    begin, missing, runs = time.perf_counter(), [], {}
    if machine.rank == 0:
        args.out.mkdir(parents=True, exist_ok=True)
    keys = {contender.name: key_of(contender, shape, data, args, machine) for contender in contenders}
    found = machine.agree({name: Record.find(args.out / f"{name}.csv", key) for name, key in keys.items()})
    longest = max(record.seconds for record in found.values())
    for contender in contenders:
        name, old = contender.name, found[contender.name]
        path = args.out / f"{name}.csv" if machine.rank == 0 else NOWHERE
        if old.state not in ("", "begun") and not args.fresh:
            machine.say(f"{name}: {path} has the whole run, {old.state}; kept")
            runs[name] = old
            continue
        end = time.perf_counter() - begin + (old.seconds or longest)
        if machine.agree(0 < args.max_seconds < end):
            missing.append(name)
            continue
        runs[name] = Record.make(path, keys[name], train(contender, shape, data, args, machine))
        longest = max(longest, runs[name].seconds)
        torch._dynamo.reset()
        machine.release()
    if machine.rank == 0 and runs:
        summarize(runs, keys, args)
        plot_losses({name: record.rows for name, record in runs.items()}, args.out / "train_loss.png", machine.say)
    failed = [f"{name} {record.state}" for name, record in runs.items() if record.state != "finished"]
    if missing:
        failed.append(f"not started (--max-seconds reached): {', '.join(missing)}; rerun the same command to continue")
    for line in failed:
        machine.say(line)
    return 3 if missing else int(bool(failed))


def write_csv(path: Path, rows: list[dict]) -> None:
    """Whole or not at all."""
    temporary = path.with_suffix(".csv.tmp")
    with temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    temporary.replace(path)


def command(args: argparse.Namespace) -> str:
    """That repeats a row anywhere: without --out."""
    return re.sub(r" --out[ =]\S+", "", shlex.join(["python", "examples/train_llama.py", *args.given]))


def baseline_of(keys: dict[str, dict]) -> str:
    """What a list is compared with: octet's blockwise layers, or the first entry where there are none."""
    blockwise = (n for n, k in keys.items() if (k["precision"], k["granularity"]) == ("octet", "blockwise"))
    return next(blockwise, next(iter(keys)))


def comparison(table: list[Row], baseline: str, last: int) -> str:
    """Tokens per second and loss of every entry, beside those of the baseline."""
    head = ("precision", "tokens/s", f"to {baseline}", f"loss of the last {last}", f"to {baseline}")
    lines = [head]
    for row in table:
        speed, loss = row["speed_to_baseline"], row["loss_to_baseline_percent"]
        figures = f"{row['tokens_per_s']:,.0f}", f"{speed:.3f}x", f"{row['mean_loss_of_last']:.4f}", f"{loss:+.2f} %"
        lines.append((row["precision"], *figures))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join([n.ljust(w), *map(str.rjust, rest, ws)]) for n, *rest in lines for w, *ws in [widths])


def summarize(runs: dict[str, Record], keys: dict[str, dict], args: argparse.Namespace) -> None:
    """train_summary.csv: the mean loss of the last steps, and medians without the first steps, which compile; each
    beside that of the baseline, as the table on the screen."""
    table = []
    for name, record in runs.items():
        settled, last = record.rows[min(5, len(record.rows) - 1) :], record.rows[-args.last :]
        row = {"precision": name, "steps": len(record.rows), "state": record.state, "last": len(last)}
        row["mean_loss_of_last"] = round(statistics.fmean(row["loss"] for row in last), 6)
        for column in ("step_ms", "tokens_per_s", "model_tflops"):
            row[column] = statistics.median(row[column] for row in settled)
        row["peak_gb"] = record.rows[-1]["peak_gb"]
        print("  ".join(f"{key} {value}" for key, value in row.items()))
        table.append(row)
    baseline = baseline_of({name: keys[name] for name in runs})
    base = next(row for row in table if row["precision"] == baseline)
    for row in table:
        row["baseline"] = baseline
        row["speed_to_baseline"] = round(row["tokens_per_s"] / base["tokens_per_s"], 4)
        ratio = row["mean_loss_of_last"] / base["mean_loss_of_last"]
        row["loss_to_baseline_percent"] = round(100 * (ratio - 1), 4)
    print(comparison(table, baseline, args.last))
    for row in table:
        key = keys[row["precision"]]
        row |= {column: key[column] for column in ("device", "torch", "data_digest", "code_digest")}
        row["command"] = command(args)
    write_csv(args.out / "train_summary.csv", table)
    losses = {name: [row["loss"] for row in record.rows] for name, record in runs.items()}
    steps = range(max(map(len, losses.values())))
    joint = [{"step": i + 1, **{name: v[i] if i < len(v) else "" for name, v in losses.items()}} for i in steps]
    write_csv(args.out / "train_loss.csv", joint)


def plot_losses(runs: dict[str, list[dict]], path: Path, say: Callable[[str], None]) -> None:
    """train_loss.png, all steps and the second half."""
    try:
        import matplotlib
    except ImportError:
        say("no plot: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (whole, end) = pyplot.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for name, rows in runs.items():
        losses = [row["loss"] for row in rows]
        # The mean over 20 steps: single steps differ by more than the precisions do.
        means = [statistics.fmean(losses[max(0, i - 19) : i + 1]) for i in range(len(losses))]
        for axis, first in ((whole, 0), (end, len(rows) // 2)):
            axis.plot([row["step"] for row in rows[first:]], means[first:], label=name, linewidth=1)
    whole.set(xlabel="step", ylabel="loss, mean of up to 20 steps", title="all steps")
    end.set(xlabel="step", title="second half")
    whole.legend()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    say(f"plot: {path}")


# Flags


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    model = parser.add_argument_group("model")
    model.add_argument("--model", choices=SHAPES, default="tiny", help="sizes that the next flags change [tiny]")
    for name in ("layers", "dim", "hidden", "heads", "kv-heads", "vocab"):
        model.add_argument(f"--{name}", type=int)
    model.add_argument("--precision", default="bf16", help="comma list of NAME[+...][@ORDER], see above [bf16]")
    model.add_argument("--head", choices=("bf16", "fp8"), default="bf16", help="products of the head [bf16]")
    choices = ("blockwise", "tensorwise", "rowwise", "mxfp8")
    what = "of octet, octet-1d and octet-2d in --precision: how scales are shared"
    model.add_argument("--granularity", choices=choices, default="blockwise", help=f"{what} [blockwise]")
    what = "octet's head as that of the others: logits whole, norm and loss by torch"
    model.add_argument("--no-fused-loss", dest="fused_loss", action="store_false", help=what)
    model.add_argument("--cache-weights", action="store_true", help="of octet: weights cast once per step")
    model.add_argument("--recompute", action="store_true", help="of octet: transposes in FP8 made again in backward")

    run = parser.add_argument_group("training")
    what = "16-bit tokens in a .bin file, bytes of another file or of sources (this folder's *.py), or random"
    run.add_argument("--data", help=f"{what} [tiny: sources, else random]")
    run.add_argument("--seq", type=int, help="tokens per sequence [tiny: 128, else 8192]")
    run.add_argument("--batch", type=int, help="sequences per micro-batch and rank [tiny: 8, else 1]")
    run.add_argument("--micro-batches", type=int, default=1, help="per step [1]")
    run.add_argument("--steps", type=int, default=100, help="[100]")
    run.add_argument("--lr", type=float, help="[tiny: 1e-3, else 3e-4]")
    run.add_argument("--warmup", type=int, default=10, help="steps of growing learning rate [10]")
    run.add_argument("--clip", type=float, help="largest norm of the gradient, 0: none [1; 0 where it measures]")
    run.add_argument("--seed", type=int, default=0, help="of weights and data [0]")
    run.add_argument("--compile", choices=("off", "blocks", "model"), help="[blocks on a GPU, off on a CPU]")
    run.add_argument("--checkpointing", action="store_true", help="keep only the inputs of each layer")
    what = "cudnn or any, what SDPA runs on a GPU; or octet, octet.torch.attention instead of it"
    run.add_argument("--attention", choices=("cudnn", "any", "octet"), default="cudnn", help=f"{what} [cudnn]")

    output = parser.add_argument_group("output")
    output.add_argument("--out", type=Path, default=Path("build/train"), help="folder of CSVs and plots [build/train]")
    output.add_argument("--log-every", type=int, default=10, help="steps per line [10]")
    output.add_argument("--last", type=int, default=50, help="steps whose mean loss the summary has [50]")
    output.add_argument("--max-seconds", type=float, default=0, help="start no run that would take longer [0: none]")
    output.add_argument("--fresh", action="store_true", help="repeat finished runs")

    bench = parser.add_argument_group("measurement (llama_bench.py)")
    bench.add_argument("--bench", action="store_true", help="time the precisions in turns on one set of weights")
    bench.add_argument("--profile", action="store_true", help="time on the GPU by kernel family")
    bench.add_argument("--host-time", action="store_true", help="host time of a layer and of eager linears")
    bench.add_argument("--rounds", type=int, default=3, help="turns of each precision [3]")
    bench.add_argument("--settle", type=float, help="seconds of each turn before the timed steps [GPU: 2, CPU: 0]")
    bench.add_argument("--round-steps", type=int, default=10, help="timed steps of a turn [10]")
    args = parser.parse_args(argv)
    args.given = sys.argv[1:] if argv is None else argv

    tiny, gpu = args.model == "tiny", torch.cuda.is_available()
    args.measure = args.bench or args.profile or args.host_time
    for name, value in {
        "seq": 128 if tiny else 8192,
        "batch": 8 if tiny else 1,
        "lr": 1e-3 if tiny else 3e-4,
        "data": "sources" if tiny else "random",
        "clip": 0.0 if args.measure else 1.0,
        "compile": "blocks" if gpu else "off",
        "settle": 2.0 if gpu else 0.0,
    }.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    for name in ("seq", "batch", "micro_batches", "steps", "log_every", "last", "rounds", "round_steps"):
        if getattr(args, name) < 1:
            raise ValueError(f"octet: --{name.replace('_', '-')} must be at least 1, got {getattr(args, name)}")
    return args


def plan(argv: list[str] | None) -> tuple[argparse.Namespace, Shape, list[Contender], Data]:
    """What the flags ask for; ValueError or OSError where they cannot be followed."""
    args = parse(argv)
    given = {name: getattr(args, name) for name in ("layers", "dim", "hidden", "heads", "kv_heads", "vocab")}
    sizes = {key: value for key, value in given.items() if value is not None}
    shape = dataclasses.replace(SHAPES[args.model], **sizes)
    names = [name.strip() for name in args.precision.split(",")]
    if len({*names}) < len(names):
        raise ValueError(f"octet: --precision has a name twice, got {args.precision!r}; NAME@1 is another run of NAME")
    contenders = [parse_contender(name, args) for name in names]
    return args, shape, contenders, Data(args.data, shape.vocab, args.seq, args.seed)


def run(args: argparse.Namespace, shape: Shape, contenders: list[Contender], data: Data) -> int:
    """The exit status: 0, 3 where runs were not started, else 1 where some failed."""
    machine = Machine.find()
    if machine.device.type == "cuda" and args.attention == "cudnn":
        # One backend alone: a refusal is an error, not a slow run.
        for switch, on in (("cudnn", True), ("flash", False), ("mem_efficient", False), ("math", False)):
            getattr(torch.backends.cuda, f"enable_{switch}_sdp")(on)
    total = f"{shape.product_parameters / 1e9:.3f} G weights in products"
    machine.say(f"{args.model}: {shape}, {total}, {machine.ranks} rank(s) on {machine.device.type}")
    try:
        if not args.measure:
            return train_all(contenders, shape, data, args, machine)
        from llama_bench import measure

        measure(contenders, shape, data, args, machine)
        return 0
    finally:
        if machine.ranks > 1:
            dist.destroy_process_group()


def main() -> int:
    try:
        planned = plan(None)
    except (ValueError, OSError) as error:
        raise SystemExit(str(error)) from None
    return run(*planned)


if __name__ == "__main__":
    import train_llama  # by its name, as llama_bench.py imports it: one copy of every class

    raise SystemExit(train_llama.main())
