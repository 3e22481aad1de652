"""What training and benchmark of train_llama.py share: data, ranks, one optimiser step, tables."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from llama_model import Llama, Recipe
from torch import Tensor, nn

import octet.torch as ot
from octet._library import folder

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools"))
from nvml import Gpu  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Contender:
    """One of --precision: ``PRECISION[-VARIANT][+adamw][@ORDER]``; ORDER is another order of the data."""

    name: str
    recipe: Recipe
    order: int
    optimizer: str  # torch.optim.AdamW or, with +adamw, octet.torch.AdamW


class Data:
    """Sequences of seq + 1 tokens. What a step reads depends on seed, order and step alone: not on the precision, nor
    on how many ranks or micro-batches it is cut into."""

    def __init__(self, source: str, vocab: int, seq: int, seed: int) -> None:
        self.vocab, self.seq, self.seed = vocab, seq, seed
        self.tokens = None
        if source == "tree":
            pages = sorted((ROOT / "docs").glob("*.md"))
            if not pages:
                raise FileNotFoundError(f"octet: --data tree reads {ROOT / 'docs'}/*.md, and there are none")
            text = b"".join(page.read_bytes() for page in pages)
            self.tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        elif source != "random":
            path = Path(source)
            if not path.is_file():
                raise FileNotFoundError(f"octet: --data must be random, tree or a file of tokens, got {source!r}")
            # int16 holds the bits: few of torch's operators take uint16.
            self.tokens = torch.from_file(source, size=path.stat().st_size // 2, dtype=torch.int16)
        if self.tokens is None:
            return
        if len(self.tokens) < seq + 2:
            raise ValueError(f"octet: {source} has {len(self.tokens)} tokens, --seq {seq} needs {seq + 2}")
        largest = max(int(self._ids(part).max()) for part in self.tokens.split(1 << 24))
        if largest >= vocab:
            raise ValueError(f"octet: {source} has token {largest}, --vocab must be above it, got {vocab}")

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


class Batches:
    """The micro-batches of this rank, on its device."""

    def __init__(self, data: Data, args: argparse.Namespace, machine: Machine) -> None:
        self.data, self.machine = data, machine
        self.micro_batches, self.batch = args.micro_batches, args.batch

    @property
    def tokens(self) -> int:
        """Of one step, over all ranks."""
        return self.micro_batches * self.batch * self.data.seq * self.machine.ranks

    def __call__(self, step: int, order: int = 0) -> list[Tensor]:
        count = self.micro_batches * self.batch
        whole = self.data.sequences(step, order, count * self.machine.ranks)
        mine = whole[self.machine.rank * count :][:count]
        if self.machine.device.type == "cuda":
            mine = mine.pin_memory()  # otherwise the copy waits for the step before
        return list(mine.to(self.machine.device, non_blocking=True).split(self.batch))


@dataclasses.dataclass
class Machine:
    """Where this process computes, and its place among the ranks."""

    device: torch.device
    rank: int
    ranks: int

    @classmethod
    def find(cls) -> Machine:
        ranks = int(os.environ.get("WORLD_SIZE", 1))
        rank = int(os.environ.get("RANK", 0))
        device = torch.device("cpu")
        if torch.cuda.is_available():
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            torch.cuda.set_device(device)
        if ranks > 1:
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(device, rank, ranks)

    def say(self, line: str) -> None:
        if self.rank == 0:
            print(line, flush=True)

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def peak_gb(self) -> float:
        """The most memory that tensors have taken since the last reset; 0 on a CPU."""
        return torch.cuda.max_memory_allocated() / 1e9 if self.device.type == "cuda" else 0.0

    def allocated_gb(self) -> float:
        return torch.cuda.memory_allocated() / 1e9 if self.device.type == "cuda" else 0.0

    def mean(self, value: Tensor) -> float:
        if self.ranks > 1:
            dist.all_reduce(value)
        return value.item() / self.ranks


def prepare(model: Llama, args: argparse.Namespace, machine: Machine) -> Llama:
    """Shards the model over the ranks and compiles it."""
    if machine.ranks > 1:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy(reduce_dtype=torch.float32)
        for layer in model.layers:
            fully_shard(layer, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
    if args.compile == "model":
        model.compile()
    elif args.compile == "blocks":
        # All layers run the graph of the first two: one without a residual, one with.
        for part in (*model.layers, model.head):
            part.compile(fullgraph=True)
    return model


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


def write_csv(path: Path, rows: list[dict]) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".csv.tmp")
    with temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    temporary.replace(path)


def read_csv(path: Path) -> list[dict]:
    """Rows with numbers where there are some."""

    def value(text: str) -> Any:
        try:
            return float(text) if "." in text or "e" in text else int(text)
        except ValueError:
            return text

    with path.open(newline="") as file:
        return [{key: value(text) for key, text in row.items()} for row in csv.DictReader(file)]


def describe(args: argparse.Namespace, machine: Machine) -> dict[str, str]:
    """The origin of every row."""
    gpu = Gpu() if machine.device.type == "cuda" else None
    tool = folder() / "bin" / "octet"
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool.exists() else ""
    commit = re.search(r"\((\S+)\)", version)
    return {
        "GPU": torch.cuda.get_device_name() if gpu else "none",
        "Driver": gpu.driver() if gpu else "",
        "Torch": torch.__version__,
        "Commit": commit[1] if commit else "",
        "Command": shlex.join(["python", "examples/train_llama.py", *args.given]),
    }
