// The headline tiles, and the table that `octet summarize` prints.

function addTile(parent, what, value, unit, note, kind = "") {
  const words = typeof value !== "string" || !/^[-+–\d]/.test(value);
  parent.append(make("div", {class: "tile " + kind},
      make("div", {class: "what"}, what),
      make("div", {class: "value" + (words ? " words" : "")}, value, unit ? make("span", {class: "unit"}, " " + unit) : null),
      make("div", {class: "small"}, note)));
}

// The headline group of every operator: the one with the most shapes. Other libraries measured next
// to octet get no score.
function headlineGroups() {
  const whole = report.groups.filter((group) => group.model === "" && isNumber(group.means.step));
  const rivals = new Set(report.tables.filter((table) => table.backendIsKey).map((table) => table.op));
  return [...groupBy(whole.filter((group) => !rivals.has(group.op)), (group) => group.op).values()]
      .map((groups) => groups.reduce((best, group) => group.passed > best.passed ? group : best));
}

function addTiles(parent) {
  const tiles = make("div", {class: "tiles"});
  for (const group of headlineGroups()) {
    addTile(tiles, group.op + " score", brief(group.means.step), group.unit,
            `geometric mean over ${group.passed} shapes, ${group.problem}`);
  }
  const passed = everyRow.filter(({row}) => row.check === "PASS").length;
  const all = passed === everyRow.length;
  addTile(tiles, "Checks", String(passed), `of ${everyRow.length} PASS`,
          all ? "every row passed its gates before it was timed" : `${everyRow.length - passed} did not pass and have no times`,
          all ? "good" : "bad");
  const devices = distinct(everyRow.map(({row}) => row.device));
  addTile(tiles, devices.length > 1 ? "Devices" : "Device", devices.join(", "), "", counted(report.tables.length, "result file"));
  const commits = distinctColumn("Commit");
  addTile(tiles, commits.length > 1 ? "Commits" : "Commit", make("span", {class: "mono"}, commits.join(", ")), "",
          "device sources " + (distinctColumn("Device Sources").join(", ") || "not told"));
  parent.append(tiles);
}

// The distinct values of a column over all files that have it.
function distinctColumn(column) {
  return distinct(report.tables.flatMap((table) => {
    const index = table.header.indexOf(column);
    return index < 0 ? [] : table.fields.map((fields) => fields[index]);
  }));
}

// The device is named only if there are several.
function where(group) {
  const several = distinct(report.groups.map(({device}) => device)).length > 1;
  return several ? `${group.backend}, ${group.device}` : group.backend;
}

function groupCells(group) {
  const count = group.passed + group.failed + group.errors;
  const cells = group.model === ""
      ? [make("td", {}, group.op), make("td", {class: "wrap"}, group.problem), make("td", {class: "wrap"}, where(group))]
      : [make("td"), make("td", {class: "sub"}, group.model), make("td")];
  for (const value of [count, group.passed, group.failed, group.errors]) {
    cells.push(make("td", {class: "number"}, String(value)));
  }
  for (const title of ["forward", "backward", "step"]) {
    cells.push(make("td", {class: "number"}, brief(group.means[title])));
  }
  return [...cells, make("td", {}, group.unit)];
}

function addSummary(parent) {
  const heads = ["Operator", "Problem", "Backend", "Shapes", "PASS", "FAIL", "ERROR", "Forward", "Backward", "Step", ""];
  const head = make("tr", {}, ...heads.map((text, i) => make("th", i >= 3 && i < 10 ? {class: "number"} : {}, text)));
  const body = report.groups.map((group) => make("tr", {}, ...groupCells(group)));
  parent.append(make("div", {class: "scroll"}, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body))));
}

function addOverview() {
  const devices = distinct(everyRow.map(({row}) => row.device)).join(", ");
  document.title = `octet report: ${devices}`;
  document.getElementById("main").append(
      make("h1", {id: "overview"}, `Results on ${devices}`),
      make("p", {class: "lead"}, `From ${report.folder}, ${report.made}. Rates are geometric means over the shapes that passed; a row that did not is counted and never averaged.`));
  addTiles(document.getElementById("main"));
}

function addSummarySection() {
  addSummary(makeSection("summary", "Summary", "Per operator, problem, device and backend, over all files; per model where there are several."));
}
