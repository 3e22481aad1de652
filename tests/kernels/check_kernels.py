"""Judges the CUDA objects of a build without a GPU and without compiling again.

    check_kernels.py [--summary] --logs FOLDER --config HEADER [--config HEADER] --budgets TABLE OBJECT...

No kernel spills or has a stack, no wgmma is serialised, every kernel has the instruction counts of
its design, the kernels are those of the configuration lists, and the kernels and instructions of
each folder stay within the budgets of cmake/kernels/operators.json. Instructions stand for compile
time: nvcc translates 1000 to 2500 of them per second, and unlike seconds they are the same on every
machine. The seconds are printed, but judged by nobody. --summary only prints the numbers.
"""
import argparse
import collections
import dataclasses
import json
import pathlib
import sys

import cubin
import design
import digest
import ptxas_log


def log_of(cuda_object, folder):
    """.../octet_objects.dir/ops/gemm/sm90/kernels.cu.o is recorded in ops.gemm.sm90.kernels.log."""
    path = cuda_object.as_posix().rpartition(".dir/")[2].removesuffix(".cu.o")
    return folder / f"{path.replace('/', '.')}.log"


def judge_object(name, counts, log):
    complaints = list(log.complaints)
    if missing := set(log.entries) - set(counts):
        complaints.append(f"not found in the object, is it compressed? {sorted(missing)}")
    if unknown := set(counts) - set(log.entries):
        complaints.append(f"not in the log, which is of another compile: {sorted(unknown)}")
    for kernel, histogram in counts.items():
        complaints += design.differences(kernel, histogram)
    return [f"{name}: {complaint}" for complaint in complaints]


def judge_configs(kernels, headers):
    compiled = {
        (design.groups(kernel), config) for kernel in kernels if (config := design.gemm_config(kernel))
    }
    families = {family for kernel in kernels if (family := design.widths_family(kernel))}
    if (design.DTYPES["e4m3"], design.MAJORS["k"]) in families:
        compiled |= {(design.GROUPS["rows"], config) for config in design.row_widths()}
    lists = [design.listed_configs(header) for header in headers]
    listed = set().union(*lists)
    complaints = []
    if compiled != listed or not all(lists):
        complaints.append(f"configurations listed and compiled differ: {sorted(listed ^ compiled)}")
    by_sizes = set().union(*(design.listed_by_sizes(header) for header in headers))
    if families != by_sizes:
        complaints.append(f"widths by sizes listed and compiled differ: {sorted(by_sizes ^ families)}")
    return complaints


@dataclasses.dataclass
class Usage:
    kernels: int = 0
    instructions: int = 0
    seconds: float = 0.0  # of one processor


def instructions(counts):
    return sum(histogram.total() for histogram in counts.values())


def usage(cuda_objects, counts, logs):
    """{folder: Usage}"""
    used = collections.defaultdict(Usage)
    for cuda_object, counted, log in zip(cuda_objects, counts, logs):
        folder = used[digest.folder_of(cuda_object)]
        folder.kernels += len(counted)
        folder.instructions += instructions(counted)
        folder.seconds += log.seconds
    return used


def summary(used):
    parts = [f"{folder} {used[folder].kernels} in {used[folder].seconds:.0f} s" for folder in sorted(used)]
    kernels, count, seconds = (
        sum(getattr(folder, what) for folder in used.values()) for what in ("kernels", "instructions", "seconds")
    )
    return f"{kernels} kernels, {count} instructions, {seconds:.0f} s of nvcc: {', '.join(parts)}"


def judge_budgets(used, budgets):
    """Each folder within its budget, and all budgets, with planned operators, within the total."""
    complaints = []
    for folder, found in used.items():
        budget = budgets["folders"].get(folder)
        if budget is None:
            complaints.append(
                f"{folder} has no budget in operators.json: {found.kernels} kernels, {found.instructions} instructions"
            )
            continue
        complaints += [
            f"{folder}: {getattr(found, what)} {what}, at most {most}"
            for what, most in budget.items()
            if getattr(found, what) > most
        ]
    for what, most in budgets["all"].items():
        promised = sum(
            budget[what] for part in ("folders", "planned") for budget in budgets[part].values()
        )
        if promised > most:
            complaints.append(f"budgets add up to {promised} {what}, at most {most}")
    return complaints


def judge_file(name, counts, most):
    """One long compile leaves the other cores idle."""
    count = instructions(counts)
    return [f"{name}: {count} instructions in one file, at most {most}"] if count > most else []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--logs", type=pathlib.Path, required=True)
    parser.add_argument("--config", type=pathlib.Path, required=True, action="append")
    parser.add_argument("--budgets", type=pathlib.Path, required=True)
    parser.add_argument("objects", nargs="+", type=pathlib.Path)
    options = parser.parse_args()

    cuda_objects = [path for path in options.objects if path.name.endswith(".cu.o")]
    logs = [ptxas_log.read(log_of(path, options.logs).read_text()) for path in cuda_objects]
    counts = [cubin.kernels(path.read_bytes()) for path in cuda_objects]
    used = usage(cuda_objects, counts, logs)
    print(summary(used))
    if options.summary:
        return 0

    budgets = json.loads(options.budgets.read_text())
    complaints = []
    for cuda_object, counted, log in zip(cuda_objects, counts, logs):
        complaints += judge_object(cuda_object.name, counted, log)
        complaints += judge_file(cuda_object.name, counted, budgets["file_instructions"])
    kernels = [kernel for log in logs for kernel in log.entries]
    complaints += judge_configs(kernels, [header.read_text() for header in options.config])
    complaints += judge_budgets(used, budgets)
    print("\n".join(complaints) or "no spills, no stack, no serialised wgmma, counts as designed")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
