"""Judges the CUDA objects of a build without a GPU and without compiling again.

    check_kernels.py [--summary] --logs FOLDER --config HEADER [--config HEADER] --budgets TABLE OBJECT...

No kernel spills or has a stack, no wgmma is serialised, every kernel has the instruction counts of
its design, the kernels are those of the configuration lists, and the number of kernels and the
compile time of each folder stay within the budgets of cmake/kernels/operators.json. --summary only
prints the numbers.
"""
import argparse
import collections
import json
import pathlib
import sys

import cubin
import design
import digest
import ptxas_log

# Budgets are seconds on an idle machine; under load, processor seconds grow by up to half.
NOISE = 1.5


def log_of(cuda_object, folder):
    """.../octet_objects.dir/ops/gemm/sm90/kernels.cu.o is recorded in ops.gemm.sm90.kernels.log."""
    path = cuda_object.as_posix().rpartition(".dir/")[2].removesuffix(".cu.o")
    return folder / f"{path.replace('/', '.')}.log"


def judge_object(cuda_object, log):
    counts = cubin.kernels(cuda_object.read_bytes())
    complaints = list(log.complaints)
    if missing := set(log.entries) - set(counts):
        complaints.append(f"not found in the object, is it compressed? {sorted(missing)}")
    if unknown := set(counts) - set(log.entries):
        complaints.append(f"not in the log, which is of another compile: {sorted(unknown)}")
    for kernel, histogram in counts.items():
        complaints += design.differences(kernel, histogram)
    return [f"{cuda_object.name}: {complaint}" for complaint in complaints]


def judge_configs(kernels, headers):
    compiled = {
        (design.groups(kernel), config) for kernel in kernels if (config := design.gemm_config(kernel))
    }
    lists = [design.listed_configs(header) for header in headers]
    listed = set().union(*lists)
    if compiled == listed and all(lists):
        return []
    return [f"configurations listed and compiled differ: {sorted(listed ^ compiled)}"]


def usage(cuda_objects, logs):
    """{folder: [kernels, seconds of one processor]}"""
    used = collections.defaultdict(lambda: [0, 0.0])
    for cuda_object, log in zip(cuda_objects, logs):
        folder = used[digest.folder_of(cuda_object)]
        folder[0] += len(log.entries)
        folder[1] += log.seconds
    return used


def summary(used):
    parts = [f"{folder} {kernels} in {seconds:.0f} s" for folder, (kernels, seconds) in sorted(used.items())]
    kernels, seconds = (sum(numbers) for numbers in zip(*used.values()))
    return f"{kernels} kernels, {seconds:.0f} s of nvcc: {', '.join(parts)}"


def judge_budgets(used, budgets):
    """Each folder within its budget, and all budgets, with planned operators, within the total."""
    complaints = []
    for folder, (kernels, seconds) in used.items():
        budget = budgets["folders"].get(folder)
        if budget is None:
            complaints.append(f"{folder} has no budget in operators.json: {kernels} kernels, {seconds:.0f} s")
            continue
        if kernels > budget["kernels"]:
            complaints.append(f"{folder}: {kernels} kernels, at most {budget['kernels']}")
        if seconds > NOISE * budget["nvcc_seconds"]:
            complaints.append(f"{folder}: {seconds:.0f} s of nvcc, at most {budget['nvcc_seconds']}")
    for what in ("kernels", "nvcc_seconds"):
        promised = sum(
            budget[what] for part in ("folders", "planned") for budget in budgets[part].values()
        )
        if promised > budgets["all"][what]:
            complaints.append(f"budgets add up to {promised} {what}, at most {budgets['all'][what]}")
    return complaints


def judge_files(cuda_objects, logs, most_seconds):
    """One long compile leaves the other cores idle."""
    return [
        f"{cuda_object.name}: {log.seconds:.0f} s of nvcc for one file, at most {most_seconds}"
        for cuda_object, log in zip(cuda_objects, logs)
        if log.seconds > NOISE * most_seconds
    ]


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
    used = usage(cuda_objects, logs)
    print(summary(used))
    if options.summary:
        return 0

    complaints = []
    for cuda_object, log in zip(cuda_objects, logs):
        complaints += judge_object(cuda_object, log)
    kernels = [kernel for log in logs for kernel in log.entries]
    complaints += judge_configs(kernels, [header.read_text() for header in options.config])
    budgets = json.loads(options.budgets.read_text())
    complaints += judge_budgets(used, budgets)
    complaints += judge_files(cuda_objects, logs, budgets["file_nvcc_seconds"])
    print("\n".join(complaints) or "no spills, no stack, no serialised wgmma, counts as designed")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
