#!/usr/bin/env python3
"""Draws docs/figures/speed.svg, octet beside its peers, from results/h200/*_peers.csv and peers12.csv.

    docs/make_chart.py            write it
    docs/make_chart.py --check    exit status 1 where the file is not what the results give

No plotting library, no font is measured, and means are decimal arithmetic: the bytes are the same
everywhere. A bar is a geometric mean over the shapes that every library of its group has; a ratio is the
geometric mean over those shapes of the column Ratio, the peer's time over octet's in the same rounds.
"""
import argparse
import collections
import csv
import decimal
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results/h200"
CHART = ROOT / "docs/figures/speed.svg"

Group = collections.namedtuple("Group", "label file product peers")
Bar = collections.namedtuple("Bar", "library speed ratio")

PRODUCTS = (
    Group(("forward", "1x128 . 128x128"), "peers12", "forward", ("deep_gemm", "cublaslt")),
    Group(("data gradient", "1x128 . 128x128"), "peers12", "dgrad", ("deep_gemm", "cublaslt")),
    Group(("weight gradient", "1x128 . 1x128"), "peers12", "wgrad 1d", ("cublaslt",)),
    Group(("weight gradient", "added to f32"), "peers12", "wgrad 1d f32 +=", ("deep_gemm", "cublaslt")),
    Group(("weight gradient", "2d: 1x128 . 128x128"), "peers12", "wgrad 2d", ("cublaslt 1d",)),
)
COMPILED = ("torch.compile",)
MEMORY_BOUND = (
    Group(("quantize", "1x128, both ways"), "quantize_peers", "1x128 + transposed", COMPILED),
    Group(("quantize", "128x128, both ways"), "quantize_peers", "128x128 + transposed", COMPILED),
    *(
        Group((op, part.replace("fp8", "FP8")), f"{op}_peers", f"{op} {part}", COMPILED)
        for op, part in (
            ("rms_norm", "forward"),
            ("rms_norm", "backward"),
            ("rms_norm", "forward to fp8"),
            ("rope", "forward"),
            ("rope", "backward"),
            ("rms_norm_rope", "forward"),
            ("rms_norm_rope", "backward"),
            ("gated_activation", "forward"),
            ("gated_activation", "backward"),
            ("gated_activation", "forward to fp8"),
            ("gated_activation", "backward to fp8"),
        )
    ),
)
COLOURS = {"octet": "octet", "cublaslt": "peer1", "cublaslt 1d": "peer1"}
NAMES = {"deep_gemm": "DeepGEMM", "cublaslt": "cuBLASLt", "cublaslt 1d": "cuBLASLt 1x128 . 1x128"}

EXTENTS = ("M", "N", "K", "Batch", "Seq", "Hidden", "Rows", "Cols")

# Pixels.
WIDTH = 1000
PANEL_LEFT = (16, 516)
LABEL_WIDTH = 132
BAR_WIDTH = 262  # of the largest speed
NAME_WIDTH = 78  # room for "torch.compile" inside a bar
TOP = 92

STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 12px; fill: #1f2328; }
.title { font-size: 15px; font-weight: 600; }
.note, .small { fill: #59636e; }
.small { font-size: 11px; }
.name { font-weight: 600; }
.inside { font-size: 10.5px; fill: #1f2328; }
.octet { fill: #d9480f; }
.inside.on-octet { fill: #ffffff; font-weight: 600; }
.ratio { font-weight: 600; }
.peer0 { fill: #b8c1cc; }
.peer1 { fill: #d5dbe1; }
.axis { stroke: #8c959f; stroke-width: 1; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .note, .small { fill: #9198a1; }
  .inside { fill: #f0f6fc; }
  .octet { fill: #e8590c; }
  .peer0 { fill: #57606a; }
  .peer1 { fill: #3d444d; }
  .axis { stroke: #6e7681; }
}
""".strip()


def rows_of(file):
    with open(RESULTS / f"{file}.csv", newline="") as stream:
        return list(csv.DictReader(stream))


def geometric_mean(values):
    with decimal.localcontext() as context:
        context.prec = 28
        return (sum(value.ln() for value in values) / len(values)).exp()


def bars(group):
    """octet's bar, then those of its peers."""
    by_library = collections.defaultdict(dict)
    for row in rows_of(group.file):
        if row["Product"] == group.product and row["Check"] == "PASS":
            shape = tuple(row[name] for name in EXTENTS if name in row)
            by_library[row["Library"]][shape] = row
    libraries = ("octet", *group.peers)
    shapes = sorted(set.intersection(*(set(by_library[library]) for library in libraries)))
    if not shapes:
        raise SystemExit(f"make_chart.py: {group.file}.csv has no {group.product} that {libraries} share")
    result = []
    for library in libraries:
        rows = [by_library[library][shape] for shape in shapes]
        column = "TFLOPS" if "TFLOPS" in rows[0] else "TB/s"
        speed, ratio = (
            geometric_mean([decimal.Decimal(row[name]) for row in rows]) for name in (column, "Ratio")
        )
        result.append(Bar(library, speed, ratio))
    return result


def text(x, y, words, css="", anchor="start"):
    css = f' class="{css}"' if css else ""
    anchor = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x}" y="{y}"{css}{anchor}>{words}</text>'


def draw_bar(bar, index, x, y, height, pixels, spelled):
    css = COLOURS.get(bar.library, "peer0")
    inside = "inside on-octet" if index == 0 else "inside"
    baseline = f"{y + height / 2 + 4:.1f}"
    if index > 0:
        spelled += f' <tspan class="ratio">{bar.ratio:.2f}x</tspan>'
    beside = x + max(pixels, NAME_WIDTH) + 6  # a name may be longer than its bar
    return [
        f'<rect class="{css}" x="{x}" y="{y:.1f}" width="{pixels:.1f}" height="{height}" rx="2"/>',
        text(x + 6, baseline, NAMES.get(bar.library, bar.library), inside),
        text(f"{beside:.1f}", baseline, spelled),
    ]


def draw_panel(left, title, note, groups, height, gap, spell):
    """Groups of bars from the top; each label stands beside its group."""
    lines = [text(left, 56, title, "title"), text(left, 74, note, "note")]
    drawn = [bars(group) for group in groups]
    largest = max(bar.speed for group in drawn for bar in group)
    x = left + LABEL_WIDTH
    y = TOP
    for group, group_bars in zip(groups, drawn):
        middle = y + len(group_bars) * (height + 1) / 2
        lines.append(text(left, f"{middle - 3:.1f}", group.label[0], "name"))
        lines.append(text(left, f"{middle + 11:.1f}", group.label[1], "small"))
        for index, bar in enumerate(group_bars):
            pixels = float(bar.speed / largest) * BAR_WIDTH
            lines += draw_bar(bar, index, x, y, height, pixels, spell(bar.speed))
            y += height + 1
        y += gap
    lines.append(f'<line class="axis" x1="{x - 0.5}" y1="{TOP - 4}" x2="{x - 0.5}" y2="{y - gap + 4:.1f}"/>')
    return lines, y - gap


def draw():
    left, left_end = draw_panel(
        PANEL_LEFT[0], "FP8 products, TFLOPS", "geometric mean of 12 shapes, operands already quantised",
        PRODUCTS, 22, 38, lambda speed: f"{speed:.0f}",
    )
    right, right_end = draw_panel(
        PANEL_LEFT[1], "Memory-bound operators, TB/s", "bf16, bytes that have to move over time",
        MEMORY_BOUND, 15, 5, lambda speed: f"{speed:.2f}",
    )
    bottom = int(max(left_end, right_end))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 44}" '
            f'width="{WIDTH}" height="{bottom + 44}" role="img" aria-label="octet beside its peers on one H200">',
            f"<style>\n{STYLE}\n</style>",
            text(PANEL_LEFT[0], 26, "octet beside its peers, one NVIDIA H200", "title"),
            *left,
            *right,
            text(
                PANEL_LEFT[0], bottom + 28,
                "Bold: octet's speed over that peer's, paired shape by shape in the same rounds. "
                "Made by docs/make_chart.py from results/h200.", "note",
            ),
            "</svg>\n",
        ]
    )


def main():
    parser = argparse.ArgumentParser(description="Draws docs/figures/speed.svg.")
    parser.add_argument("--check", action="store_true", help="change nothing, fail where it is not current")
    options = parser.parse_args()
    chart = draw()
    if not options.check:
        CHART.write_text(chart)
        return 0
    if CHART.exists() and CHART.read_text() == chart:
        print("docs/figures/speed.svg is current")
        return 0
    print("docs/figures/speed.svg is not what results/ give: run docs/make_chart.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
