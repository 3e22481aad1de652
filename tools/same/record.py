#!/usr/bin/env python3
"""Records what a redesign must not change, so that compare.py can compare two trees.

    record.py BUILD_DIR SOURCE_DIR OUT_DIR [--only PART,...] [--programs DIR] [--results DIR]
              [--device cuda] [--ctest-log FILE]
    compare.py OUT_BEFORE OUT_AFTER

Use it before and after:

    cmake --preset release && ninja -C build/release && ninja -C build/release octet_same_choices octet_same_outputs
    tools/same/record.py build/release . /tmp/before
    ... the redesign ...
    tools/same/record.py build/release . /tmp/after --results results-of-before/h200
    tools/same/compare.py /tmp/before /tmp/after

Every part is a text file in OUT_DIR, one fact per line:

    kernels   SHA-256 of the code of every compiled kernel, with the folder of its operator. Names are
              left out. Needs a build with CUDA, no GPU.
    choices   implementation, configuration and workspace of the products of cases/dense84.csv and of
              2,000 random products, on a pretended H200.
    outputs   SHA-256 of every output of every operator and pass over 200 random problems, on the CPU.
              --device cuda runs the same problems on the GPU; a machine with this folder, the program
              octet_same_outputs and python3 is enough.
    reports   stdout of octet summarize, compare, ops --markdown and the data of octet report, of the
              results in --results (default: SOURCE_DIR/results/h200).
    headers   the CSV columns of every octet bench, their cells that are not measured, and JSON keys.
    tests     test cases per test program, and how many ran and were skipped in a ctest log
              (default: BUILD_DIR/Testing/Temporary/LastTest.log).

If a redesign renames what choices.cpp or outputs*.cpp call, adapt those calls; what is printed must
not change. --programs names a folder with the two programs if they were built by hand.
"""
import argparse
import csv
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PARTS = ("kernels", "choices", "outputs", "reports", "headers", "tests")

# Small calls that together have every kind of row.
BENCH_CALLS = (
    "gemm --dtype fp8 --granularity blockwise --shape 64x96x128",
    "gemm --dtype fp8 --granularity blockwise --shape 64x96x128 --wgrad-blocks 2d --dw f32 --accumulate-dw",
    "gemm --dtype fp8 --granularity blockwise --shape 64x96x128 --prequantized",
    "gemm --dtype bf16 --shape 64x96x128",
    "gemm --dtype bf16 --shape 64x96x128 --baseline openblas",
    "quantize --shape 64x96",
    "rms-norm --shape 64x96",
    "rms-norm --shape 64x96 --residual --fp8 e4m3",
    "rope --shape 1x16x256 --head-dim 64 --kv-heads 2",
    "rms-norm-rope --shape 1x16x256 --head-dim 64 --kv-heads 2",
    "gated-activation --shape 64x96",
    "gated-activation --shape 64x96 --fp8 e5m2 --row-weight",
    "gated-mlp --shape 64x96x128",
    "gated-mlp --shape 64x96x128 --down --dtype bf16",
)
# Columns that are measured, or that name the build and the machine.
MEASURED = re.compile(
    r"Time|TFLOPS|GB/s|Ratio|Spread|Iterations|Warmup|Note|Commit|Device Sources|CPU$|Clock|Power"
    r"|Temperature|Throttle|Command|Speedup|Unfused .*ms"
)


def record_kernels(options):
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "cmake" / "kernels"))
    import cubin
    import digest

    lines = []
    for cuda_object in options.build.rglob("*.cu.o"):
        folder = digest.folder_of(cuda_object)
        for code in cubin.code(cuda_object.read_bytes()).values():
            lines.append(f"{folder} {hashlib.sha256(code).hexdigest()} {len(code)} bytes")
    if not lines:
        raise SystemExit(f"record.py: no CUDA objects under {options.build}; --only leaves kernels out")
    return sorted(lines)


def record_choices(options):
    program = options.programs / "octet_same_choices"
    output = subprocess.run(
        [program, options.source / "cases" / "dense84.csv"], check=True, capture_output=True, text=True
    )
    return output.stdout.splitlines()


def read_records(stream):
    """The records that octet_same_outputs writes, one after the other."""
    while line := stream.readline():
        op, index, problem, tensor, kind, size = line.decode().rstrip("\n").split("\t")
        data = stream.read(int(size))
        if len(data) != int(size):
            raise SystemExit(f"record.py: the record of {op} {index} {tensor} is cut short")
        yield f"{op} {index} [{problem}] {tensor}", kind, data


def record_outputs(options):
    program = options.programs / "octet_same_outputs"
    lines = []
    with subprocess.Popen([program, "--device", options.device], stdout=subprocess.PIPE) as process:
        for key, kind, data in read_records(process.stdout):
            value = data.decode() if kind == "text" else hashlib.sha256(data).hexdigest()
            lines.append(f"{key}: {value}")
    if process.returncode != 0 or not lines:
        raise SystemExit(f"record.py: {program} ended with {process.returncode}")
    return lines


def octet(options, *words, folder):
    """Exit status and stdout, and whether there is any stderr, whose wording may change."""
    environment = {**os.environ, "OCTET_HISTORY": "none", "COLUMNS": "200", "OCTET_NUM_THREADS": "2"}
    result = subprocess.run(
        [options.build / "octet", *words], cwd=folder, capture_output=True, text=True, env=environment
    )
    lines = [f"status {result.returncode}"] + (["stderr has text"] if result.stderr.strip() else [])
    return lines + result.stdout.splitlines()


def report_data(options, results, folder):
    with tempfile.TemporaryDirectory() as scratch:
        page = pathlib.Path(scratch) / "report.html"
        octet(options, "report", results, "-o", str(page), folder=folder)
        text = page.read_text()
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    data = json.loads(found[1].replace("<\\/", "</"))
    for of_this_run in ("tool", "made", "command"):
        data.pop(of_this_run, None)
    return json.dumps(data, indent=1, sort_keys=True).splitlines()


def record_reports(options):
    folder = options.results.resolve().parents[1]
    results = str(options.results.resolve().relative_to(folder))
    lines = []

    def add(title, text):
        lines.extend(f"{title}: {line.rstrip()}" for line in text)

    add("summarize", octet(options, "summarize", results, folder=folder))
    add("ops", octet(options, "ops", "--markdown", folder=folder))
    add("report", report_data(options, results, folder))
    by_header = {}
    for file in sorted(options.results.glob("*.csv")):
        by_header.setdefault(file.read_text().split("\n", 1)[0], []).append(file.name)
    for names in by_header.values():
        for old in names:
            for new in names:
                words = ("compare", f"{results}/{old}", f"{results}/{new}")
                add(f"compare {old} {new}", octet(options, *words, folder=folder))
    return lines


def bench_lines(options, call):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        words = f"bench {call} --device cpu --max-seconds 60 --seconds-per-case 0.05 --iters 5 --seed 1".split()
        octet(options, *words, "-o", "rows.csv", "--json", "rows.json", folder=folder)
        if not (folder / "rows.csv").exists():
            return [f"{call}: wrote no rows"]
        with open(folder / "rows.csv", newline="") as file:
            header, *rows = csv.reader(file)
        document = json.loads((folder / "rows.json").read_text())
    lines = [f"{call}: columns {','.join(header)}", f"{call}: {len(rows)} rows"]
    for row in rows:
        kept = [f"{name}={cell}" for name, cell in zip(header, row) if not MEASURED.search(name)]
        lines.append(f"{call}: {'; '.join(kept)}")
    return lines + [f"{call}: JSON {key}" for key in json_keys(document)]


def json_keys(value, path=""):
    if isinstance(value, dict):
        return [key for name in value for key in json_keys(value[name], f"{path}.{name}")]
    if isinstance(value, list):
        return sorted({key for element in value for key in json_keys(element, f"{path}[]")})
    return [path]


def record_headers(options):
    return [line for call in BENCH_CALLS for line in bench_lines(options, call)]


def count_listed(text):
    """Test cases in the output of --gtest_list_tests, where they are indented."""
    return sum(line.startswith("  ") for line in text.splitlines())


def count_run(log):
    """(test, cases run, cases skipped) of every googletest program in a ctest log."""
    counts = []
    for part in re.split(r"^\d+/\d+ Testing: ", log, flags=re.MULTILINE)[1:]:
        name = part.split("\n", 1)[0]
        ran = re.search(r"^\[=+\] (\d+) tests? from .* ran\.", part, re.MULTILINE)
        skipped = re.search(r"^\[  SKIPPED \] (\d+) test", part, re.MULTILINE)
        if ran:
            counts.append((name, int(ran[1]), int(skipped[1]) if skipped else 0))
    return counts


def record_tests(options):
    lines = []
    for program in sorted(options.build.glob("octet_*_tests")):
        listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True)
        lines.append(f"{program.name}: {count_listed(listed.stdout)} test cases")
    log = options.ctest_log or options.build / "Testing" / "Temporary" / "LastTest.log"
    if log.exists():
        for name, ran, skipped in sorted(count_run(log.read_text(errors="replace"))):
            lines.append(f"ctest {name}: {ran} ran, {skipped} of them skipped")
    else:
        lines.append("no ctest log")
    return lines


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--programs", type=pathlib.Path, help="[default: BUILD_DIR]")
    parser.add_argument("--results", type=pathlib.Path, help="[default: SOURCE_DIR/results/h200]")
    parser.add_argument("--device", default="cpu", help="of the outputs [default: cpu]")
    parser.add_argument("--ctest-log", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.programs = (options.programs or options.build).resolve()
    options.results = options.results or options.source / "results" / "h200"

    options.out.mkdir(parents=True, exist_ok=True)
    for part in options.only.split(","):
        if part not in PARTS:
            parser.error(f"unknown part {part}; there are {', '.join(PARTS)}")
        lines = globals()[f"record_{part}"](options)
        name = f"outputs_{options.device}" if part == "outputs" else part
        (options.out / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
        print(f"{name}: {len(lines)} lines", flush=True)


if __name__ == "__main__":
    main()
