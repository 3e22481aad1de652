"""What tools/peers.py writes: the CSV with its provenance, and the summary at the end."""

import csv
import fcntl
import io
import math
import os
import statistics
import subprocess

import peers_kept
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
    that of the `octet` beside it, which must have the same hash of the operator. `sources_of(ran)`: the
    hash of the kernels that octet ran in a case, for all rows of it."""

    def __init__(self, library_path, op, device_sources, gpu_name, driver, sources_of):
        self.gpu_name, self.driver, self.sources_of = gpu_name, driver, sources_of
        self.commit = commit_of(tool_beside(library_path), op, device_sources)

    def origin(self, ran):
        """What a row of an earlier run must share with one of this. `ran`: the note of octet's row."""
        return {"GPU": self.gpu_name, "Device Sources": self.sources_of(ran)}

    def fields(self, result, command, ran):
        return {**self.origin(ran), "Driver": self.driver, "Commit": self.commit,
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
    """Rows go to OUTPUT.part as they come. `close` writes them to OUTPUT, behind those of an earlier
    run that they do not replace. `named`: the cases have names."""

    def __init__(self, op, path, provenance, versions, command, named=False, fresh=False):
        self.op, self.provenance, self.versions, self.command = op, provenance, versions, command
        self.rate, self.named = rate_unit(op), named
        self.columns = [*SHAPE_COLUMNS[op], *(["Case"] if named else []), "Dtype", "Product",
                        "Library", "Version", "Check", "Time (ms)", self.rate, "Ratio",
                        "Spread (%)", "GPU", "Driver", "Commit", "Device Sources", "Clock (MHz)",
                        "Power (W)", "Note", "Command"]
        self.results, self.path, self.file = [], path, None
        self.earlier, self.kept_cases = {}, 0
        if path:
            self.open(fresh)

    def open(self, fresh):
        """Locks OUTPUT.part and reads what an earlier run left in both files."""
        self.part = f"{self.path}.part"
        # Unbuffered: the rows of a case are one write, so that a kill cannot part them.
        self.file = open(self.part, "ab", buffering=0)
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.file.close()
            raise ValueError(f"-o {self.path}: another run writes to it; wanted another file") from None
        try:
            for path in (self.path, self.part):
                peers_kept.require_table(path)
            if fresh:
                self.file.truncate(0)
            else:
                peers_kept.drop_cut_case(self.part)
            self.parts = [self.part] if fresh else [self.path, self.part]
            self.earlier = self.read()
        except ValueError:
            if not os.path.getsize(self.part):
                os.remove(self.part)
            self.file.close()
            raise
        if not os.path.getsize(self.part):
            self.write([dict(zip(self.columns, self.columns))])

    def read(self):
        """Case -> its newest rows in the files."""
        return peers_kept.by_case(peers_kept.read(path, self.columns, self.op) for path in self.parts)

    def text(self, rows):
        text = io.StringIO()
        csv.DictWriter(text, self.columns, lineterminator="\n").writerows(rows)
        return text.getvalue().encode()

    def write(self, rows):
        text = self.text(rows)
        if self.file.write(text) != len(text):
            raise OSError(f"{self.part}: the disk is full")

    def beginning(self, case):
        """What is known of a row before it is measured."""
        row = dict(zip(SHAPE_COLUMNS[self.op], map(str, case.shape)))
        if self.named:
            row["Case"] = case.name
        return row | {"Dtype": case.dtype, "Product": case.product, "Command": self.command(case)}

    def version_of(self, library):
        return self.versions.get(library.removesuffix(" 1d"), "")

    def has(self, case):
        """Whether an earlier run measured the case as this one would."""
        wanted = self.beginning(case)
        rows = self.earlier.get(peers_kept.key_of(wanted))
        if not rows:
            return False
        ran = peers_kept.note_of_octet((row["Library"], row["Note"]) for row in rows)
        return peers_kept.are_done(
            rows, self.provenance.origin(ran) | {"Command": wanted["Command"]}, self.version_of)

    def keep(self, case):
        """The results that the earlier run had."""
        rows = self.earlier[peers_kept.key_of(self.beginning(case))]
        results = [peers_kept.result_of(row, case) for row in rows]
        self.results += results
        self.kept_cases += 1
        return results

    def add(self, results):
        """All results of a case."""
        self.results += results
        if self.file and results:
            ran = peers_kept.note_of_octet((result.library, result.note) for result in results)
            self.write([self.row_of(result, ran) for result in results])

    def row_of(self, result, ran):
        timed, row = bool(result.seconds), self.beginning(result.case)
        row |= {"Library": result.library, "Version": self.version_of(result.library),
                "Check": result.check,
                "Time (ms)": f"{result.median * 1e3:.6g}" if timed else "",
                self.rate: f"{result.rate:.5g}" if timed else "",
                "Ratio": number(result.ratio, ".4f"),
                "Spread (%)": f"{result.spread_percent:.3g}" if timed else "",
                "Note": result.note}
        return row | self.provenance.fields(result, row["Command"], ran)

    def close(self):
        if not self.file:
            return
        rows = [row for rows in self.read().values() for row in rows]
        new = f"{self.path}.new"
        with open(new, "wb") as file:
            file.write(self.text([dict(zip(self.columns, self.columns)), *rows]))
        os.replace(new, self.path)
        os.remove(self.part)
        self.file.close()

    def failed(self):
        return any(result.failed for result in self.results)


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def summary(results, unit):
    """Geometric means per product and library, and the worst shape: octet's slowest, or for a
    peer the one where octet does worst against it. Layers drawn at random are in two groups."""
    groups = {}
    for result in results:
        drawn = [group_of(result.case.name)] if result.case.name else []
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
