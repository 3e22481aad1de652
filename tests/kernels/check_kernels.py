"""Judges the CUDA objects of a build without a GPU and without compiling again.

    check_kernels.py [--summary] --logs FOLDER --config HEADER OBJECT...

No kernel spills or has a stack, no wgmma is serialised, every kernel has the instructions its
design says, the kernels are those the configuration list names, and kernels and compile time stay
within their budgets. --summary only prints the two numbers.
"""
import argparse
import pathlib
import sys

import cubin
import design
import ptxas_log

MOST_KERNELS = 120
MOST_SECONDS = 240  # of one processor


def log_of(cuda_object, folder):
    """.../gemm/cuda_sm90_kernels.cu.o was recorded in gemm.cuda_sm90_kernels.log."""
    return folder / f"{cuda_object.parent.name}.{cuda_object.name.removesuffix('.cu.o')}.log"


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


def judge_configs(kernels, header):
    compiled = {config for kernel in kernels if (config := design.gemm_config(kernel))}
    listed = design.listed_configs(header)
    if compiled == listed and listed:
        return []
    return [f"configurations listed and compiled differ: {sorted(listed ^ compiled)}"]


def summary(logs):
    counts = [len(log.entries) for log in logs if log.entries]
    seconds = sum(log.seconds for log in logs)
    return f"{' + '.join(str(count) for count in counts)} kernels, {seconds:.0f} s of nvcc"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--logs", type=pathlib.Path, required=True)
    parser.add_argument("--config", type=pathlib.Path, required=True)
    parser.add_argument("objects", nargs="+", type=pathlib.Path)
    options = parser.parse_args()

    cuda_objects = [path for path in options.objects if path.name.endswith(".cu.o")]
    logs = [ptxas_log.read(log_of(path, options.logs).read_text()) for path in cuda_objects]
    print(summary(logs))
    if options.summary:
        return 0

    complaints = []
    for cuda_object, log in zip(cuda_objects, logs):
        complaints += judge_object(cuda_object, log)
    kernels = [kernel for log in logs for kernel in log.entries]
    complaints += judge_configs(kernels, options.config.read_text())
    if len(kernels) > MOST_KERNELS:
        complaints.append(f"{len(kernels)} kernels, at most {MOST_KERNELS}")
    if (seconds := sum(log.seconds for log in logs)) > MOST_SECONDS:
        complaints.append(f"{seconds:.0f} s of nvcc, at most {MOST_SECONDS}")
    print("\n".join(complaints) or "no spills, no stack, no serialised wgmma, counts as designed")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
