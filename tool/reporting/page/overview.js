// What was measured on what, octet's scores, and the rates that `octet summarize` prints.

function addFact(parent, what, value, note, kind = "") {
  parent.append(make("div", {class: "fact " + kind}, make("dt", {}, what), make("dd", {}, value, make("span", {class: "small"}, note))));
}

const severalDevices = distinct(everyRow.map(({row}) => row.device)).length > 1;

// "1980 MHz" and "1455 to 1980 MHz while timed": the median and the range.
function clockFact(parent) {
  const clocks = everyRow.map(({row}) => row.clock).filter(isNumber).sort((a, b) => a - b);
  if (clocks.length === 0) return;
  const powers = everyRow.map(({row}) => row.power).filter(isNumber);
  const power = powers.length > 0 ? `, up to ${Math.max(...powers).toFixed(0)} W` : "";
  const [least, most] = [clocks[0], clocks[clocks.length - 1]].map(brief);
  addFact(parent, "Clock while timed", `${brief(clocks[Math.floor(clocks.length / 2)])} MHz`,
          (least === most ? "in every row" : `median; ${least} to ${most} MHz`) + power);
}

function checkFacts(parent) {
  const {octet, peers} = report.checks;
  const sum = ({passed, failed, errors}) => passed + failed + errors;
  const allPassed = octet.passed === sum(octet);
  addFact(parent, "octet's checks", `${octet.passed} of ${sum(octet)} PASS`,
          allPassed ? "checked against a reference before timing" : `${checksText(octet)}: no times, left out of every mean`, allPassed ? "good" : "bad");
  if (sum(peers) === 0) return;
  addFact(parent, "Peers' checks", `${peers.passed} of ${sum(peers)} PASS`,
          peers.passed === sum(peers) ? "the same checks" : `${checksText(peers)}: rows of other libraries, left out of every ratio`);
}

function addOverview() {
  const devices = distinct(everyRow.map(({row}) => row.device));
  document.title = `octet report: ${devices.join(", ")}`;
  document.getElementById("main").append(make("h1", {id: "overview"}, `octet on ${devices.join(", ")}`));
  const facts = make("dl", {class: "facts"});
  const shapes = distinct(everyRow.map(({row}) => row.shape)).length;
  const drivers = distinctColumn("Driver");
  addFact(facts, "Device", devices.join(", "), drivers.length > 0 ? "driver " + drivers.join(", ") : distinctColumn("Threads").map((count) => counted(Number(count), "thread")).join(", "));
  addFact(facts, "Measured", counted(shapes, "shape"), `${counted(everyRow.length, "row")} in ${counted(report.tables.length, "file")} of ${report.folder}`);
  checkFacts(facts);
  clockFact(facts);
  const commits = distinctColumn("Commit");
  addFact(facts, commits.length > 1 ? "Commits" : "Commit", make("span", {class: "mono"}, commits[0]?.slice(0, 10) ?? "–"),
          (commits.length > 1 ? `and ${commits.length - 1} more; ` : "") + `page made ${report.made}`);
  document.getElementById("main").append(facts);
}

// The group with the most shapes that passed, per operator and device.
function headlineGroups() {
  const whole = report.groups.filter((group) => group.model === "" && isNumber(group.means.step));
  return [...groupBy(whole, (group) => `${group.op} ${group.device}`).values()]
      .map((groups) => groups.reduce((best, group) => group.checks.passed > best.checks.passed ? group : best));
}

function addScores(parent) {
  const tiles = make("div", {class: "tiles"});
  for (const group of headlineGroups()) {
    const unit = fittingUnit(group.unit, [group.means.step]);
    const share = isNumber(group.copyShare) ? `${(group.copyShare * 100).toFixed(0)} % of copy, ` : "";
    tiles.append(make("div", {class: "tile"},
        make("div", {class: "what"}, group.op + (severalDevices ? `, ${group.device}` : "")),
        make("div", {class: "value"}, brief(group.means.step * unit.factor), make("span", {class: "unit"}, " " + unit.name)),
        make("div", {class: "small"}, `${counted(group.checks.passed, "shape")}, ${share}${group.brief}`)));
  }
  parent.append(tiles);
}

function groupRow(group, unit) {
  const name = group.model === ""
      ? make("td", {class: "what"}, make("b", {}, group.op), " ", make("span", {class: "small", title: group.problem}, group.brief))
      : make("td", {class: "what"}, group.model);
  const mean = (part) => isNumber(group.means[part]) ? fourDigits(group.means[part] * unit.factor) : "–";
  const {passed, failed, errors} = group.checks;
  return make("tr", {}, name, rateCell(group.means.step, unit, "strong"), numberCell(mean("forward")), numberCell(mean("backward")),
      numberCell(isNumber(group.copyShare) ? (group.copyShare * 100).toFixed(1) + " %" : "–"), numberCell(String(passed + failed + errors)),
      make("td", {class: failed + errors > 0 ? "bad-text" : "small"}, checksText(group.checks)), textCell(group.backend, "small"),
      severalDevices ? textCell(group.device, "small") : null);
}

// One unit per operator and device, so that its rows can be compared by eye.
function groupTable(groups) {
  const heads = [{title: "Operator"}, {title: "Step", number: true}, {title: "Forward", number: true}, {title: "Backward", number: true},
                 {title: "Of copy", number: true}, {title: "Shapes", number: true}, {title: "Checks"}, {title: "Backend"}, ...severalDevices ? [{title: "Device"}] : []];
  const units = new Map([...groupBy(groups, ({op, device}) => op + device)].map(([key, all]) => [key, fittingUnit(all[0].unit, all.map(({means}) => means.step))]));
  return makeTable(heads, groups.map((group) => groupRow(group, units.get(group.op + group.device))), {class: "groups"});
}

function addSummary() {
  const whole = report.groups.filter((group) => group.model === "");
  if (whole.length === 0) return;
  const section = makeSection("summary", "Scores", "Score: the geometric mean of octet's step, forward and backward together, over the shapes that are PASS. Of copy: the share of copy bandwidth.");
  addScores(section);
  section.append(groupTable(whole));
}
