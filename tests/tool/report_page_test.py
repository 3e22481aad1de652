#!/usr/bin/env python3
"""Opens a page of `octet report` in Chromium and uses it: charts, sorting, filter, theme.

    report_page_test.py OCTET RESULTS     RESULTS: a folder with CSVs of octet bench

A script put into a copy of the page watches for errors from the first line on, uses the page as a
reader would and leaves what it saw in the document, which Chromium prints. Exit status 77, which
ctest reports as skipped, where there is no Chromium.
"""
import csv
import html
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HOSTILE = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 1'>"
WATCH = """<script>
window.problems = [];
addEventListener("error", (event) => problems.push(String(event.message || event.type)), true);
addEventListener("unhandledrejection", (event) => problems.push(String(event.reason)));
for (const level of ["error", "warn"]) console[level] = (...words) => problems.push(words.join(" "));
</script>"""
USE = """<script>
const seen = {};
function column(title) {
  const heads = [...document.querySelectorAll("#all-rows th")];
  const index = heads.findIndex((head) => head.textContent === title);
  return {head: heads[index], cells: () => [...document.querySelectorAll("#all-rows tbody tr")].map((row) => row.cells[index].textContent)};
}
// Charts of a window nobody sees are still painted: pixels of more than a few colours.
function colours(canvas) {
  const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  return new Set(pixels).size;
}
addEventListener("load", () => {
  try {
    const canvases = [...document.querySelectorAll("canvas")];
    seen.charts = canvases.map((canvas) => ({title: canvas.getAttribute("aria-label"), colours: colours(canvas)}));
    seen.points = canvases.map((canvas) => Chart.getChart(canvas).data.datasets.reduce((sum, set) => sum + set.data.length, 0));
    seen.sections = [...document.querySelectorAll("section h2")].map((head) => head.textContent);
    seen.tiles = [...document.querySelectorAll(".tile")].map((tile) => tile.innerText);
    const step = column("Step");
    seen.unsorted = step.cells();
    step.head.querySelector("button").click();
    seen.ascending = step.cells();
    step.head.querySelector("button").click();
    seen.descending = step.cells();
    const search = document.querySelector("input[type=search]");
    search.value = "hostile";
    search.dispatchEvent(new Event("input"));
    seen.found = column("Case").cells();
    const themes = () => [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor, Chart.getChart(canvases[0]).options.color];
    seen.before = themes();
    document.getElementById("theme").click();
    seen.after = themes();
    document.getElementById("theme").click();
    seen.again = themes();
    seen.owned = window.owned ?? 0;
    seen.images = document.images.length;
  } catch (error) {
    problems.push("the test's own script: " + error.stack);
  }
  seen.problems = problems;
  document.body.append(Object.assign(document.createElement("pre"), {id: "seen", textContent: JSON.stringify(seen)}));
});
</script>"""


def copy_with_changes(folder, target):
    """A second run of the files: one case slower, one whose name and note are hostile."""
    shutil.copytree(folder, target)
    path = target / "dense84.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    rows[0]["Combined Step TFLOPS"] = str(float(rows[0]["Combined Step TFLOPS"]) / 2)
    hostile = dict(rows[1], Case="hostile " + HOSTILE, Check="FAIL", Note=HOSTILE)
    hostile.update({column: "" for column in rows[1] if "Time" in column or "TFLOPS" in column})
    rows.append(hostile)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return rows


def open_in_chromium(page, folder):
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}/profile",
               "--window-size=1300,900", "--virtual-time-budget=10000", "--dump-dom", page.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    match = re.search(r'<pre id="seen">(.*?)</pre>', result.stdout, re.DOTALL)
    if not match:
        sys.exit(f"the page did not come to its end: {' '.join(command)}\n{result.stderr[-2000:]}")
    return json.loads(html.unescape(match[1]))


def numbers(cells):
    return [float(cell) for cell in cells if cell != "–"]


def check(seen, rows):
    rates = [float(row["Combined Step TFLOPS"]) for row in rows if row["Check"] == "PASS"]
    score = math.exp(sum(map(math.log, rates)) / len(rates))
    ascending, descending = numbers(seen["ascending"]), numbers(seen["descending"])
    return {
        "every section": {"Difference", "Summary", "Roofline", "Models", "Shapes", "Errors",
                          "Clock and power", "Rows", "Environment"} <= set(seen["sections"]),
        "charts": len(seen["charts"]) >= 10,
        "charts are painted": all(chart["colours"] > 8 for chart in seen["charts"]),
        "charts have data": all(count > 0 for count in seen["points"]),
        "the score": any(f"{score:.0f} TFLOPS" in tile for tile in seen["tiles"]),
        "the regression": any("Regression" in tile for tile in seen["tiles"]),
        "a click sorts": ascending == sorted(ascending) != numbers(seen["unsorted"]),
        "a second click sorts back": descending == ascending[::-1],
        "no row is lost": len(seen["ascending"]) == len(seen["unsorted"]) > len(rows),
        "rows without a rate are last": seen["ascending"][-1] == seen["descending"][-1] == "–",
        "the filter, and text stays text": seen["found"] == ["hostile " + HOSTILE],
        "nothing of a CSV is run": seen["owned"] == 0 and seen["images"] == 0,
        "the theme changes": all(a != b for a, b in zip(seen["before"], seen["after"])),
        "the theme changes back": seen["again"] == seen["before"],
    }


def main():
    octet, results = sys.argv[1:]
    if not shutil.which("chromium"):
        print("skipped: there is no chromium; ./dev test installs it")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rows = copy_with_changes(pathlib.Path(results), folder / "new")
        page = folder / "report.html"
        subprocess.run([octet, "report", folder / "new", "--against", results, "-o", page], check=True)
        text = page.read_text()
        outside = re.findall(r"""(?:src|href)=["']?(?:https?:)?//[^\s>]*|@import|url\(""", text)
        text = text.replace("<head>", "<head>" + WATCH, 1).replace("</body>", USE + "</body>", 1)
        page.write_text(text)
        seen = open_in_chromium(page, folder)
    if seen["problems"]:
        sys.exit("FAILED  the page has errors:\n" + "\n".join(seen["problems"]))
    checks = check(seen, rows)
    checks["nothing is loaded from elsewhere"] = outside == []
    failed = [name for name, passed in checks.items() if not passed]
    for name, passed in checks.items():
        print(("ok      " if passed else "FAILED  ") + name)
    if failed:
        sys.exit(json.dumps(seen, indent=1))


main()
