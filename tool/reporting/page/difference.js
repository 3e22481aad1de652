// The difference from another run, judged as `octet compare` does.

function verdict(pair) {
  const reasons = [];
  if (pair.scoreFell) reasons.push("the score fell beyond the noise");
  if (pair.lost > 0) reasons.push(`${pair.lost} slower by more than ${report.threshold * 100} %`);
  if (pair.broken > 0) reasons.push(`${pair.broken} no longer PASS`);
  return reasons.join(", ") || "nothing is slower beyond its noise and the threshold";
}

function deltaColour(change) {
  if (Math.abs(change.delta) <= change.noise) return colour("series-5");
  return colour(change.delta < 0 ? "bad" : "good");
}

function describeChanges(pair) {
  const changes = pair.changes.filter((change) => change.before !== null && change.after !== null);
  return {
    type: "bar",
    data: {labels: changes.map((change) => change.label),
           datasets: [{...barSet("change of the step", changes.map((change) => change.delta * 100), changes.map(deltaColour)), maxBarThickness: 18}]},
    options: {
      plugins: {legend: {display: false},
                tooltip: {callbacks: {label: ({dataIndex}) => `${percent(changes[dataIndex].delta)}, noise ${(changes[dataIndex].noise * 100).toFixed(2)} %`}}},
      scales: {x: {grid: {display: false}, ticks: {display: changes.length <= 24}}, y: valueAxis("change, %", {suggestedMin: -2, suggestedMax: 2})},
    },
  };
}

function changeRow(change, unit) {
  const moved = Math.abs(change.delta) > change.noise;
  const tone = !moved ? "" : change.delta < 0 ? " bad-text" : " good-text";
  const check = change.checkBefore === change.checkAfter ? change.checkAfter : `${change.checkBefore} → ${change.checkAfter}`;
  return make("tr", {}, make("td", {}, change.label), make("td", {}, change.problem), make("td", {}, check),
      make("td", {class: "number"}, brief(change.before)), make("td", {class: "number"}, brief(change.after)), make("td", {}, unit),
      make("td", {class: "number" + tone}, change.before !== null && change.after !== null ? percent(change.delta) : "–"),
      make("td", {class: "number"}, change.after === null ? "–" : (change.noise * 100).toFixed(2) + " %"));
}

// Changed checks first, then the five largest changes beyond the noise in each direction and all
// beyond the threshold.
function notable(changes) {
  const checks = changes.filter((change) => change.checkBefore !== change.checkAfter);
  const moved = changes.filter((change) => change.checkBefore === change.checkAfter && Math.abs(change.delta) > change.noise);
  return [...checks, ...moved.filter((change, i) => i < 5 || i >= moved.length - 5 || change.delta < -report.threshold)];
}

function addPair(section, pair) {
  const tiles = make("div", {class: "tiles"});
  const change = pair.scoreAfter / pair.scoreBefore - 1;
  addTile(tiles, `${pair.op} score`, `${brief(pair.scoreBefore)} → ${brief(pair.scoreAfter)}`, pair.unit, `${pair.before} → ${pair.after}`);
  addTile(tiles, "Change", isNumber(pair.scoreBefore) ? percent(change) : "–", "", `noise ${((pair.scoreNoise ?? 0) * 100).toFixed(2)} %`);
  addTile(tiles, "Verdict", pair.regression ? "Regression" : "No regression", "", verdict(pair), pair.regression ? "bad" : "good");
  addTile(tiles, "Cases", String(pair.changes.length), "in both", `${pair.onlyOld.length} only before, ${pair.onlyNew.length} only now`);
  section.append(tiles);
  const cards = make("div", {class: "cards"});
  section.append(cards);
  addChart(cards, "Change of the step, worst first", "Grey: no change, it is within the spread of the two rows.", () => describeChanges(pair));
  const rows = notable(pair.changes);
  if (rows.length === 0) return;
  const heads = ["Case", "Problem", "Check", "Before", "After", "", "Change", "Noise"];
  section.append(make("p"), make("div", {class: "scroll"}, make("table", {},
      make("thead", {}, make("tr", {}, ...heads.map((text, i) => make("th", [3, 4, 6, 7].includes(i) ? {class: "number"} : {}, text)))),
      make("tbody", {}, ...rows.map((one) => changeRow(one, pair.unit))))));
}

function addDifference() {
  if (!report.against) return;
  const section = makeSection("difference", "Difference", `${report.folder} against ${report.against.folder}: the rate of the step, files of the same name.`);
  for (const pair of report.against.pairs) addPair(section, pair);
  if (report.against.unpaired.length > 0) {
    section.append(make("p", {class: "small"}, "Nothing to compare with: " + report.against.unpaired.join(", ")));
  }
}
