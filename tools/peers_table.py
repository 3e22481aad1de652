"""What tools/peers.py writes: the CSV with its provenance, and the summary at the end."""

import csv
import math
import os
import statistics
import subprocess

from peers_cases import group_of, shape_text, tool_beside, words_of
from peers_rounds import OURS

MATRIX, HEADS = ["Rows", "Cols"], ["Batch", "Seq", "Hidden"]
SHAPE_COLUMNS = {"gemm": ["M", "N", "K"], "quantize": MATRIX, "rms-norm": MATRIX, "rope": HEADS,
                 "rms-norm-rope": HEADS, "gated-activation": MATRIX,
                 "grouped-gemm": ["Groups", "M", "N", "K", "Group Sizes"],
                 "moe-mlp": ["Tokens", "F", "K", "Experts", "Top K"],
                 "attention": ["Batch", "SeqLen", "num_head_q", "num_head_kv", "head_dim_qk",
                               "head_dim_v", "Mask"]}
COMPUTE_BOUND = ("gemm", "grouped-gemm", "moe-mlp", "attention")


def rate_unit(op):
    return "TFLOPS" if op in COMPUTE_BOUND else "TB/s"


class Provenance:
    """The origin of every row. The hash of the device sources is the library's own; the commit is
    that of the `octet` beside it, which must have the same hash."""

    def __init__(self, library_path, op, device_sources, gpu_name, driver):
        self.gpu_name, self.driver, self.device_sources = gpu_name, driver, device_sources
        self.commit = commit_of(tool_beside(library_path), op, device_sources)

    def fields(self, result, command):
        return {"GPU": self.gpu_name, "Driver": self.driver, "Commit": self.commit,
                "Device Sources": self.device_sources,
                "Clock (MHz)": number(result.clock_mhz, ".0f"),
                "Power (W)": number(result.power_w, ".1f"), "Command": command}


def commit_of(tool, op, device_sources):
    """From what `octet doctor` prints: "octet  octet 0.1.0 (COMMIT)" and
    "device sources  HASH OP OP ...", without a hash where an operator has no kernels."""
    try:
        text = subprocess.run([tool, "doctor"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError(f"no commit from the octet beside the library: {error}") from error
    lines = [line.split() for line in text.splitlines()]
    hashes = [words[2] if op in words[3:] else "" for words in lines
              if words[:2] == ["device", "sources"] and op in words[2:]]
    commits = [words[-1].strip("()") for words in lines if words[:2] == ["octet", "octet"]]
    if hashes != [device_sources] or len(commits) != 1:
        raise RuntimeError(f"liboctet has device sources {device_sources} of {op}, the octet beside it "
                           f"{' '.join(hashes) or 'none'}: build both from one tree")
    return commits[0]


def number(value, form):
    return "" if value is None else format(value, form)


class Table:
    """Rows go to OUTPUT.part as they come; `close` renames it to OUTPUT. `names`: shape -> name of
    the layers that were drawn at random, if any."""

    def __init__(self, op, path, provenance, versions, command, names=None):
        self.names = names or {}
        self.op, self.provenance, self.versions, self.command = op, provenance, versions, command
        self.rate = rate_unit(op)
        self.columns = [*SHAPE_COLUMNS[op], *(["Case"] if self.names else []), "Dtype", "Product", "Library", "Version", "Check",
                        "Time (ms)", self.rate, "Ratio", "Spread (%)", "GPU", "Driver", "Commit",
                        "Device Sources", "Clock (MHz)", "Power (W)", "Note", "Command"]
        self.results, self.path, self.file = [], path, None
        if path:
            self.file = open(f"{path}.part", "w", newline="", encoding="utf-8")
            self.writer = csv.DictWriter(self.file, self.columns, lineterminator="\n")
            self.writer.writeheader()
            self.file.flush()

    def add(self, result):
        self.results.append(result)
        if not self.file:
            return
        case, timed = result.case, bool(result.seconds)
        row = dict(zip(SHAPE_COLUMNS[self.op], case.shape))
        if self.names:
            row["Case"] = self.names[case.shape]
        row |= {"Dtype": case.dtype, "Product": case.product, "Library": result.library,
                "Version": self.versions.get(result.library.removesuffix(" 1d"), ""),
                "Check": result.check,
                "Time (ms)": f"{result.median * 1e3:.6g}" if timed else "",
                self.rate: f"{result.rate:.5g}" if timed else "",
                "Ratio": number(result.ratio, ".4f"),
                "Spread (%)": f"{result.spread_percent:.3g}" if timed else "",
                "Note": result.note}
        row |= self.provenance.fields(result, self.command(case))
        self.writer.writerow(row)
        self.file.flush()

    def close(self):
        if self.file:
            self.file.close()
            os.replace(f"{self.path}.part", self.path)

    def failed(self):
        return any(result.failed for result in self.results)


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def summary(results, unit, names=None):
    """Geometric means per product and library, and the worst shape: octet's slowest, or for a
    peer the one where octet does worst against it. Layers drawn at random are in two groups."""
    groups, names = {}, names or {}
    for result in results:
        drawn = [group_of(names[result.case.shape])] if names else []
        product = " ".join([result.case.product, *words_of(result.case.shape), *drawn])
        groups.setdefault((result.case.dtype, product, result.library), []).append(result)
    wide = max([26, *(len(f"{dtype} {product}") for dtype, product, _ in groups)])
    lines = [f"{'product':{wide}} {'library':18} {unit:>8} {'ratio':>7}  shapes  worst shape"]
    for (dtype, product, library), group in groups.items():
        passed = [r for r in group if r.check == "PASS"]
        name = f"{dtype} {product}"
        counted = f"{len(passed)} of {len(group)}"
        if not passed:
            lines.append(f"{name:{wide}} {library:18} {'':8} {'':7}  {counted}")
            continue
        rate = geometric_mean([r.rate for r in passed])
        ratio = geometric_mean([r.ratio for r in passed])
        worst = min(passed, key=lambda r: r.rate if library == OURS else r.ratio)
        of_worst = f"{worst.rate:.5g} {unit}" if library == OURS else f"ratio {worst.ratio:.3f}"
        lines.append(f"{name:{wide}} {library:18} {rate:8.5g} {ratio:7.3f}  {counted:6}  "
                     f"{shape_text(worst.case.shape)}, {of_worst}")
    return lines
