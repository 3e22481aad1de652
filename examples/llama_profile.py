"""Where the time of a step goes: kernels by family, from torch.profiler."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

import torch
from llama_model import Shape
from llama_training import Machine

# The first pattern that is found in a kernel's name says its family. The compiler names its kernels after the
# operators it fused: one that casts is a cast, whatever else it does.
FAMILIES = {
    "attention": r"sdpa|flash|fmha|attention",
    "optimiser": r"adam|multi_tensor",
    "other": r"embedding",
    "head and loss": r"softmax|nll_loss|cross_entropy|logsumexp|loss",
    "products": r"gemm|nvjet|cutlass|xmma|cublas|splitk|scaled_mm|(^|:)(add)?b?mm$|linear",
    "casts": r"quantize|float8|amax",
    "rotations": r"rotate|rope|(^|_|:)cat(_|$)",
    "activations": r"gated|swiglu|silu|sigmoid",
    "norms": r"norm|rsqrt|partial_sums|pow_|fused_add",
    "copies": r"memcpy|memset|copy|clone|fill|transpose",
}
# In the order of the tables.
FAMILIES_SHOWN = ["products", "casts", "norms", "rotations", "activations", "attention"]
FAMILIES_SHOWN += ["head and loss", "optimiser", "copies", "other"]


def family_of(kernel: str, operator: str, shapes: list, vocab: int) -> str:
    """Of a kernel, by its name; products with the vocabulary among the sizes of their operator are the head's."""
    # Of octet's kernels the name alone: their arguments and parameters name other things.
    ours = re.search(r"octet::(?:\w+::|\(anonymous namespace\)::)*(\w+)", kernel)
    name = ours[1] if ours else kernel
    found = next((family for family, pattern in FAMILIES.items() if re.search(pattern, name, re.IGNORECASE)), "other")
    with_vocabulary = any(isinstance(size, list | tuple) and vocab in size for size in shapes)
    if "cross_entropy" in operator or (with_vocabulary and found in ("products", "casts", "copies")):
        return "head and loss"
    return found


def profile(step: Callable[[int], None], shape: Shape, machine: Machine, steps: int = 2) -> dict[str, float]:
    """Milliseconds per step by family."""
    on_gpu = machine.device.type == "cuda"
    activities = [torch.profiler.ProfilerActivity.CPU]
    if on_gpu:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    step(0)
    machine.synchronize()
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        for number in range(steps):
            step(1 + number)
        machine.synchronize()
    events = profiler.events()
    rows = gpu_rows(events) if on_gpu else [(e.name, e.name, e.input_shapes, e.self_cpu_time_total) for e in events]
    families: dict[str, float] = defaultdict(float)
    kernels: dict[tuple[str, str], float] = defaultdict(float)
    for kernel, operator, shapes, us in rows:
        family = family_of(kernel, operator, shapes or [], shape.vocab)
        families[family] += us / 1e3 / steps
        kernels[family, kernel[:90]] += us / 1e3 / steps
    for (family, kernel), ms in sorted(kernels.items(), key=lambda item: -item[1])[:25]:
        machine.say(f"  {ms:8.3f} ms  {family:14} {kernel}")
    return dict(families)


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
