#!/usr/bin/env python3
"""Opens pages of `octet report` in Chromium, uses them as a reader would and measures them.

    report_page_test.py OCTET RESULTS     RESULTS: a folder with CSVs of octet bench

A script put into a copy of each page watches for errors from the first line on, uses the page and
sends what it saw to the document around it, which has a frame for each page, as wide as a desk or a
phone. Chromium prints that document. Exit status 77, which ctest reports as skipped, where there is
no Chromium.
"""
import collections
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
# Chart.js tells what a chart draws; a canvas nobody sees is still painted.
USE = """<script>
const seen = {};
function table(id) {
  const heads = [...document.querySelectorAll(`#${id} th`)];
  return (title) => {
    const index = heads.findIndex((head) => head.textContent === title);
    return {head: heads[index], cells: () => [...document.querySelectorAll(`#${id} tbody tr`)].map((row) => row.cells[index].textContent)};
  };
}
function paint(canvas) {
  const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  return new Set(pixels).size;
}
// Everything a chart can show: each choice of its list, with the values and colours of its sets.
function choices(canvas) {
  const list = canvas.closest(".card").querySelector("select");
  return (list ? [...list.options].map((option) => option.value) : [null]).map((value) => {
    if (list) {
      list.value = value;
      list.dispatchEvent(new Event("change"));
    }
    const sets = Chart.getChart(canvas).data.datasets;
    return {section: canvas.closest("section").id, label: canvas.getAttribute("aria-label"), paint: paint(canvas),
            text: canvas.closest(".card").innerText,
            sets: sets.map((set) => ({label: set.label, values: set.data.filter((one) => one !== null).length, ys: set.data.map((one) => one?.y),
                                      colour: [set.backgroundColor, set.borderColor, set.pointStyle, set.borderDash].join(" "), fill: String(set.backgroundColor)}))};
  });
}
function variables() {
  const names = ["octet", "copy", ...Array.from({length: 14}, (_, i) => `peer-${i + 1}`)];
  return names.map((name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim());
}
function measure() {
  const root = document.documentElement;
  seen.height = root.scrollHeight;
  seen.width = [root.scrollWidth, document.body.scrollWidth, innerWidth];
  seen.open = document.querySelectorAll("details[open]").length;
  seen.sections = [...document.querySelectorAll("section")].map(({id}) => id);
  seen.facts = Object.fromEntries([...document.querySelectorAll(".fact")].map((fact) => [fact.children[0].innerText, fact.children[1].innerText]));
  seen.factsClass = [...document.querySelectorAll(".fact")].map((fact) => fact.className);
  seen.tiles = [...document.querySelectorAll(".tile")].map((tile) => tile.innerText);
  seen.bars = [...document.querySelectorAll(".ratios .card")].flatMap((card) => [...card.querySelectorAll(".ratio:not(.axis)")].map((bar) => ({
    op: card.querySelector("h3").innerText, peer: bar.querySelector(".peer").innerText, ratio: bar.querySelector("b").innerText,
    note: bar.lastElementChild.innerText, fill: bar.querySelector(".dot").style.backgroundColor, line: bar.querySelector(".one") !== null,
    bottom: bar.getBoundingClientRect().bottom + scrollY})));
  seen.links = [...document.querySelectorAll("nav a")].filter((link) => link.offsetHeight > 0).length;
  seen.stepsEnd = Math.max(...[...document.querySelectorAll("#summary tbody tr")].map((row) => row.cells[1].getBoundingClientRect().right));
  seen.summary = document.querySelector("#summary").innerText;
  seen.moved = [...document.querySelectorAll("#what-moved tbody tr")].map((row) => row.innerText);
}
function use() {
  document.querySelectorAll("details").forEach(openFold);
  document.querySelectorAll("details").forEach(openFold);  // those inside the ones just filled
  seen.charts = [...document.querySelectorAll("canvas")].flatMap(choices);
  seen.widthOpen = [document.documentElement.scrollWidth, innerWidth];
  const column = table("all-rows");
  const step = column("Step");
  seen.unsorted = step.cells();
  step.head.querySelector("button").click();
  seen.ascending = step.cells();
  step.head.querySelector("button").click();
  seen.descending = step.cells();
  seen.units = column("Unit").cells();
  seen.checks = column("Check").cells();
  seen.ratios = column("Ratio").cells();
  seen.firstColumns = [...document.querySelectorAll("#all-rows th")].slice(0, 6).map((head) => head.innerText);
  const search = document.querySelector("input[type=search]");
  search.value = "hostile";
  search.dispatchEvent(new Event("input"));
  seen.found = column("Case").cells();
  const canvas = document.querySelector("canvas");
  const themes = () => [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor, Chart.getChart(canvas).options.color];
  const names = Object.keys(report.contenders);
  seen.before = themes();
  seen.light = variables();
  seen.colours = Object.fromEntries(names.map((name) => [name, {role: report.contenders[name], name: colourNames.get(name), value: contenderColour(name)}]));
  document.getElementById("theme").click();
  seen.after = themes();
  seen.dark = variables();
  document.getElementById("theme").click();
  seen.again = themes();
  seen.owned = window.owned ?? 0;
  seen.images = document.images.length;
}
addEventListener("load", () => {
  try {
    measure();
    use();
  } catch (error) {
    problems.push("the test's own script: " + error.stack);
  }
  seen.problems = problems;
  parent.postMessage(JSON.stringify({name: location.pathname.split("/").pop(), seen}), "*");
});
</script>"""
AROUND = """<!DOCTYPE html><body><script>
const all = {};
addEventListener("message", ({data}) => {
  const {name, seen} = JSON.parse(data);
  all[name] = seen;
  if (Object.keys(all).length === FRAMES) {
    document.body.append(Object.assign(document.createElement("pre"), {id: "seen", textContent: JSON.stringify(all)}));
  }
});
</script>"""


def copy_with_changes(folder, target):
    """A second run of the files: one case slower, one whose name and note are hostile, one whose
    name is very long."""
    shutil.copytree(folder, target)
    path = target / "dense84.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    rows[0]["Combined Step TFLOPS"] = str(float(rows[0]["Combined Step TFLOPS"]) / 2)
    hostile = dict(rows[1], Case="hostile " + HOSTILE, Check="FAIL", Note=HOSTILE)
    hostile.update({column: "" for column in rows[1] if "Time" in column or "TFLOPS" in column})
    rows += [hostile, dict(rows[2], Case="n" * 5000)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return rows


def write_rates_of_several_units(folder):
    """A file of casts in GB/s, one of casts in TB/s and one of products in GFLOPS, each by its median."""
    cast = "Rows,Cols,Time (ms),GB/s"
    product = "Case,M,N,K,Combined Step Time (ms),Forward TFLOPS,Backward TFLOPS,Combined Step TFLOPS"
    files = {
        "small.csv": ("quantize", cast, ["16,64,1,64"]),
        "large.csv": ("quantize", cast, ["2048,64,1,900", "4096,64,1,4000", "8192,64,1,4200"]),
        "slow.csv": ("gemm", product, ["a,16,64,64,1,0.002,0.002,0.002", "b,32,64,64,1,0.005,0.005,0.005"]),
    }
    folder.mkdir()
    for name, (op, columns, rows) in files.items():
        lines = [f"{columns},GPU,Check,Backend,Commit,Command"] + [f"{row},Test GPU,PASS,cuda_test,abc,octet bench {op}" for row in rows]
        (folder / name).write_text("\n".join(lines) + "\n")


def write_drawn_layers(folder):
    """Ratios of drawn layers: of tools/peers.py, where a peer is far behind, and of --baseline. Their
    distributions are known: {label of the choice: {label of the line: its sorted ratios}}."""
    few, many = [2.0, 0.5, 1.25, 0.98], [1.1, 0.96, 1.0]
    columns = "GPU,Check,Spread (%),Commit,Command"
    peers = [f"M,N,K,Case,Dtype,Product,Library,TFLOPS,{columns}"]
    layers = [f"Case,M,N,K,Combined Step Time (ms),Forward TFLOPS,Backward TFLOPS,Combined Step TFLOPS,Baseline,"
              f"Forward Ratio,Backward Ratio,Combined Ratio,Backend,{columns}"]
    for group, first_m, ratios in (("random M<=256", 1, few), ("random M>256", 1000, many)):
        for i, ratio in enumerate(ratios):
            case, m = f"{group} 9/{first_m + i}", first_m + i
            for library, rate in (("octet", 100), ("rival", 100 / ratio), ("slowpoke", 10)):
                peers.append(f"{m},64,64,{case},fp8,forward,{library},{rate},Test GPU,PASS,0.1,abc,tools/peers.py --op gemm")
            layers.append(f"{case},{m},64,64,1,1,1,1,rival,{ratio * 2},{ratio},{ratio * 1.5},x,Test GPU,PASS,0.1,abc,octet bench gemm --dtype fp8")
    folder.mkdir()
    (folder / "peers.csv").write_text("\n".join(peers) + "\n")
    (folder / "layers.csv").write_text("\n".join(layers) + "\n")
    # Another file has one peer only, and so no better of several.
    lone = [f"{m},64,64,random M>256 9/{m},fp8,forward,{library},{rate},Test GPU,PASS,0.1,abc,tools/peers.py --op gemm"
            for m in (2000, 2001) for library, rate in (("octet", 100), ("slowpoke", 50))]
    (folder / "lone_peers.csv").write_text("\n".join([peers[0], *lone]) + "\n")

    def of_layers(ratios):
        return {f"rival, {part}": sorted(ratio * factor for ratio in ratios)
                for part, factor in (("forward", 2), ("backward", 1), ("step", 1.5))}

    def of_peers(ratios, more=()):
        return {"rival": sorted(ratios), "slowpoke": [*more, *[10.0] * len(ratios)], "better of rival, slowpoke": sorted(ratios)}
    return {"gemm: M<=256": of_layers(few), "gemm: M>256": of_layers(many),
            "gemm vs peers: M<=256": of_peers(few), "gemm vs peers: M>256": of_peers(many, more=[2.0, 2.0])}


def check_distributions(seen, wanted):
    charts = {chart["label"].removeprefix("Ratios over the shapes: "): chart for chart in seen["charts"]
              if chart["label"].startswith("Ratios over")}
    lines = {label: {one["label"]: one["ys"] for one in chart["sets"]} for label, chart in charts.items()}
    ones = [of_chart.pop("1×", None) for of_chart in lines.values()]

    def like(a, b):
        return a.keys() == b.keys() and all(len(a[name]) == len(b[name]) and all(
            math.isclose(x, y, rel_tol=1e-6) for x, y in zip(a[name], b[name])) for name in a)
    return {
        "few and many drawn rows have charts of their own": lines.keys() == wanted.keys(),
        "few and many drawn rows have bars of their own": {bar["op"] for bar in seen["bars"]} == {"gemm random M<=256", "gemm random M>256"},
        "a distribution is the sorted ratios": lines.keys() == wanted.keys() and all(like(lines[label], wanted[label]) for label in wanted),
        "a distribution has a line at 1×": ones == [[1, 1]] * len(wanted),
        "a distribution counts what is below 1×": "rival: 4 shapes, mean 1.05×, worst 0.50×, 50 % below 1×, 25 % below 0.97×" in charts["gemm vs peers: M<=256"]["text"],
    }


def open_in_chromium(frames, folder):
    """frames: [(file name, width, height)]. What each page saw, by its file name."""
    around = folder / "around.html"
    around.write_text(AROUND.replace("FRAMES", str(len(frames))) + "".join(
        f'<iframe src="{name}" style="border:0;width:{width}px;height:{height}px"></iframe>' for name, width, height in frames))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}/profile",
               "--hide-scrollbars", "--window-size=1500,1000", "--virtual-time-budget=10000", "--dump-dom", around.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    match = re.search(r'<pre id="seen">(.*?)</pre>', result.stdout, re.DOTALL)
    if not match:
        sys.exit(f"the pages did not come to their end: {' '.join(command)}\n{result.stderr[-2000:]}")
    return json.loads(html.unescape(match[1]))


def numbers(cells):
    return [float(cell) for cell in cells if cell != "–"]


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def peer_rows(results):
    for path in sorted(pathlib.Path(results).glob("*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if "Library" in row:
                    yield path.name, row


def expected_ratios(results):
    """{(operator, peer): (1.12, "63 of 76 cases")}: the peer's time over octet's where both passed, from the CSVs: the
    ratio of the rounds in which both ran, else that of their times."""
    times, rounds, asked = {}, {}, collections.Counter()
    for name, row in peer_rows(results):
        asked[re.search(r"--op (\S+)", row["Command"])[1], row["Library"]] += 1
        if row["Check"] == "PASS":
            shape = tuple(row.get(column) for column in (
                "Groups", "Group Sizes", "M", "N", "K", "Rows", "Cols", "Batch", "Seq", "Hidden", "SeqLen", "num_head_q",
                "num_head_kv", "head_dim_qk", "head_dim_v", "Mask"))
            op = re.search(r"--op (\S+)", row["Command"])[1]
            case = name, op, row["Dtype"], row["Product"], shape, row["Library"]
            times[case] = 1 / float(row.get("TFLOPS") or row["TB/s"])
            rounds[case] = float(row.get("Ratio") or 0)
    ratios = collections.defaultdict(list)
    for (*case, library), time in times.items():
        octet = times.get((*case, "octet"))
        if octet and library not in ("octet", "device copy"):
            ratios[case[1], library].append(rounds[(*case, library)] or time / octet)
    def count(values, asked):
        if len(values) < asked:
            return f"{len(values)} of {asked} cases"
        return f"{asked} case{'s' * (asked > 1)}"

    return {key: (mean(values), count(values, asked[key])) for key, values in ratios.items()}


def expected_checks(results):
    """{"octet": Counter(PASS=355), "peers": Counter(PASS=215, ERROR=14, FAIL=4)}"""
    checks = {"octet": collections.Counter(), "peers": collections.Counter()}
    for path in pathlib.Path(results).glob("*.csv"):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if "Check" in row:
                    side = "octet" if row.get("Library", "octet").startswith("octet") else "peers"
                    checks[side][row["Check"]] += 1
    return checks


def passed_text(checks, more_passed=0, more=0):
    """"355 of 356 PASS" """
    return f"{checks['PASS'] + more_passed} of {sum(checks.values()) + more} PASS"


def check_use(seen, rows, results):
    rates = [float(row["Combined Step TFLOPS"]) for row in rows if row["Check"] == "PASS"]
    ascending, descending = numbers(seen["ascending"]), numbers(seen["descending"])
    return {
        "the score": any(f"{mean(rates):.0f} TFLOPS" in tile for tile in seen["tiles"]),
        "octet's failure is octet's": seen["facts"]["octet's checks"].startswith(
            passed_text(expected_checks(results)["octet"], 1, 2)) and "fact bad" in seen["factsClass"],
        "what moved comes first": seen["sections"][0] == "difference",
        "what moved is one table": len(seen["moved"]) == 1 and all(
            text in seen["moved"][0] for text in ("dense84.csv", "Regression", "1 slower by more than 5 %", "(+2 −0)")),
        "a click sorts": ascending == sorted(ascending) != numbers(seen["unsorted"]),
        "a second click sorts back": descending == ascending[::-1],
        "no row is lost": len(seen["ascending"]) == len(seen["unsorted"]) > len(rows),
        "rows without a rate are last": seen["ascending"][-1] == seen["descending"][-1] == "–",
        "the filter, and text stays text": seen["found"] == ["hostile " + HOSTILE],
        "nothing of a CSV is run": seen["owned"] == 0 and seen["images"] == 0,
        "the theme changes": all(a != b for a, b in zip(seen["before"], seen["after"])),
        "the theme changes back": seen["again"] == seen["before"],
    }


def colours_of_contenders(seen):
    """Every colour that a contender has in the charts of shapes and in the ratio bars."""
    colours = collections.defaultdict(set)
    for chart in seen["charts"]:
        for one in chart["sets"] if chart["section"] == "shapes" else []:
            name = one["label"].split(",")[0]
            if "," not in one["label"] or one["label"] == "octet, step":
                colours["a copy" if seen["colours"][name]["role"] == "copy" else name].add(one["fill"])
    for bar in seen["bars"]:
        name = re.fullmatch(r"var\(--(.*)\)", bar["fill"])[1]
        colours[bar["peer"]].add(next(one["value"] for one in seen["colours"].values() if one["name"] == name))
    return colours


def check_contents(seen, results):
    ratios, checks = expected_ratios(results), expected_checks(results)
    octet, peers = passed_text(checks["octet"]), passed_text(checks["peers"])
    shown = {(bar["op"], bar["peer"]): bar for bar in seen["bars"]}
    colours = colours_of_contenders(seen)
    own = seen["colours"]["octet"]["value"]
    others = [colour for name, all_of_it in colours.items() if name != "octet" for colour in all_of_it]
    errors = [text for text in seen["checks"] if text.startswith("ERROR")]
    roofline = next(chart for chart in seen["charts"] if chart["section"] == "roofline")
    return {
        "every section": ["peers", "summary", "roofline", "models", "shapes", "errors", "clocks", "rows", "environment"] == seen["sections"],
        "errors, clocks and rows are folded": seen["open"] == 0,
        "charts are painted": all(chart["paint"] > 8 for chart in seen["charts"]),
        "no chart has a single point": all(sum(one["values"] for one in chart["sets"]) > 1 for chart in seen["charts"]),
        "a contender has one colour": len(colours) >= 8 and all(len(all_of_it) == 1 for all_of_it in colours.values()),
        "two contenders have two colours": len(set(others)) == len(colours) - 1,
        "octet's colour is its own": colours["octet"] == {own} and own not in others,
        "roofline: no two series look alike": len({one["colour"] for one in roofline["sets"]}) == len(roofline["sets"]) >= 8,
        "fourteen peers would have fourteen colours, light and dark": all(len(set(seen[theme])) == 16 for theme in ("light", "dark")),
        "the ratio of every peer": len(ratios) >= 14 and all(
            shown[key]["ratio"] == (f"{value:.1f}×" if value >= 10 else f"{value:.2f}×") for key, (value, _) in ratios.items()),
        "the distribution of every problem's ratios": sum(chart["label"].startswith("Ratios over the shapes: ") for chart in seen["charts"]) >= 8,
        "a 1x line in every bar": all(bar["line"] for bar in seen["bars"]),
        "ratios count the cases in common": all(shown[key]["note"] == note for key, (_, note) in ratios.items()) and any(
            " of " in note for _, note in ratios.values()),
        "a chart of peers says the paired ratio": any(
            "cublaslt takes 1.1" in chart["text"] and "shapes both passed" in chart["text"] for chart in seen["charts"]),
        "no mean of a peer beside octet's": all(name not in seen["summary"] for name in ("cublaslt", "deep_gemm", "torch", "triton")),
        "octet's checks": seen["facts"]["octet's checks"].startswith(octet) and "fact bad" not in seen["factsClass"],
        "peers' failures are counted apart": seen["facts"]["Peers' checks"].startswith(peers) and (
            f"{checks['peers']['FAIL']} FAIL, {checks['peers']['ERROR']} ERROR" in seen["facts"]["Peers' checks"]),
        "rows of peers have a ratio": sum(cell != "–" for cell in seen["ratios"]) > 200,
        "the reason of an ERROR is beside it": len(errors) == checks["peers"]["ERROR"] > 0 and all(len(text) > len("ERROR ") + 20 for text in errors),
        "important columns first": [title.strip("↕ ") for title in seen["firstColumns"]] == ["Check", "Operator", "Problem", "Contender", "Case", "Shape"],
        "units fit": not re.search(r"\b0\.0\d", seen["summary"]),
        "the first screen has every ratio": all(bar["bottom"] < 900 for bar in seen["bars"]),
        "under 8 screens": seen["height"] < 8 * 900,
    }


def check_units(seen):
    """The page of write_rates_of_several_units."""
    return {"rates of a kind have one unit, and are sorted as they are shown": list(zip(seen["descending"], seen["units"])) == [
        ("5.000", "GFLOPS"), ("4.200", "TB/s"), ("4.000", "TB/s"), ("2.000", "GFLOPS"), ("0.9000", "TB/s"), ("0.06400", "TB/s")]}


def check_phone(seen):
    return {
        "phone: under 16 screens": seen["height"] < 13500,
        "phone: no sideways scrolling": max(seen["width"]) == seen["width"][2] == 390 and seen["widthOpen"] == [390, 390],
        "phone: section links": seen["links"] == len(seen["sections"]),
        "phone: the summary shows numbers": 0 < seen["stepsEnd"] < 390,
    }


def main():
    octet, results = sys.argv[1:]
    if not shutil.which("chromium"):
        print("skipped: there is no chromium; ./dev test installs it")
        sys.exit(77)
    outside = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        new = folder / ("a_path_without_a_place_to_break_" * 3)
        rows = copy_with_changes(pathlib.Path(results), new)
        write_rates_of_several_units(folder / "units")
        distributions = write_drawn_layers(folder / "drawn")
        inputs = {"desk.html": [results], "phone.html": [results], "desk_against.html": [new, "--against", results],
                  "phone_against.html": [new, "--against", results], "units.html": [folder / "units"],
                  "drawn.html": [folder / "drawn"]}
        frames = [(page, 390, 844) if "phone" in page else (page, 1400, 900) for page in inputs]
        for page, read in inputs.items():
            subprocess.run([octet, "report", *read, "-o", folder / page], check=True, capture_output=True)
            text = (folder / page).read_text()
            outside += re.findall(r"""(?:src|href)=["']?(?:https?:)?//[^\s>]*|@import|url\(""", text)
            (folder / page).write_text(text.replace("<head>", "<head>" + WATCH, 1).replace("</body>", USE + "</body>", 1))
        seen = open_in_chromium(frames, folder)
    problems = [f"{page}: {problem}" for page, one in seen.items() for problem in one["problems"]]
    if problems:
        sys.exit("FAILED  the page has errors:\n" + "\n".join(problems))
    checks = check_contents(seen["desk.html"], results) | check_phone(seen["phone.html"]) | check_use(
        seen["desk_against.html"], rows, results) | check_units(seen["units.html"]) | check_distributions(seen["drawn.html"], distributions)
    checks |= {"against, " + name: passed for name, passed in check_phone(seen["phone_against.html"]).items()}
    checks["no sideways scrolling at a desk"] = all(one["width"][0] <= 1400 for one in seen.values())
    checks["nothing is loaded from elsewhere"] = outside == []
    failed = [name for name, passed in checks.items() if not passed]
    for name, passed in checks.items():
        print(("ok      " if passed else "FAILED  ") + name)
    if failed:
        for one in seen.values():
            one["charts"] = [{**chart, "text": ""} for chart in one["charts"]][:3]
        sys.exit(json.dumps(seen, indent=None)[:20000])


main()
