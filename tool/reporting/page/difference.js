// The difference from another run, judged as `octet compare` does: one table of what moved, then the
// cases of each file, folded.

function scoreChange(pair) {
  return pair.scoreAfter / pair.scoreBefore - 1;
}

function tone(delta, noise) {
  if (!isNumber(delta) || Math.abs(delta) <= noise) return "";
  return delta < 0 ? "bad-text" : "good-text";
}

function isFaster(pair) {
  return scoreChange(pair) > (pair.scoreNoise ?? 0);
}

function verdictBadge(pair) {
  if (pair.verdict === "regression") return make("span", {class: "badge bad"}, "Regression");
  if (pair.verdict === "none") return make("span", {class: "badge quiet"}, "No verdict");
  return isFaster(pair) ? make("span", {class: "badge good"}, "Faster") : make("span", {class: "badge quiet"}, "No regression");
}

function pairRow(pair) {
  const unit = fittingUnit(pair.unit, [pair.scoreBefore, pair.scoreAfter]);
  const change = scoreChange(pair);
  const reason = pair.verdict === "none" ? "other settings: " + pair.reason : pair.reason;
  const cases = pair.changes.length + (pair.onlyOld.length + pair.onlyNew.length > 0 ? ` (+${pair.onlyNew.length} −${pair.onlyOld.length})` : "");
  return make("tr", {},
      make("td", {class: "what"}, make("b", {}, pair.title), " ", make("span", {class: "small"}, pair.file)),
      make("td", {class: "verdict"}, verdictBadge(pair), reason ? make("div", {class: "small"}, reason) : null),
      numberCell(isNumber(change) ? percent(change) : "–", tone(change, pair.scoreNoise ?? 0)),
      rateCell(pair.scoreBefore, unit), rateCell(pair.scoreAfter, unit), numberCell(((pair.scoreNoise ?? 0) * 100).toFixed(2) + " %"),
      numberCell(String(pair.lost), pair.lost > 0 ? "bad-text" : ""), numberCell(String(pair.broken), pair.broken > 0 ? "bad-text" : ""), numberCell(String(cases)));
}

function deltaColour(change) {
  if (Math.abs(change.delta) <= change.noise) return colour("faint");
  return colour(change.delta < 0 ? "bad" : "good");
}

function describeChanges(changes) {
  return {
    type: "bar",
    data: {labels: changes.map((change) => shorten(change.label)),
           datasets: [{...barSet("change of the step", changes.map((change) => change.delta * 100), changes.map(deltaColour)), maxBarThickness: 18}]},
    options: {
      plugins: {legend: {display: false},
                tooltip: {callbacks: {label: ({dataIndex}) => `${percent(changes[dataIndex].delta)}, noise ${(changes[dataIndex].noise * 100).toFixed(2)} %`}}},
      scales: {x: {grid: {display: false}, ticks: {display: false}}, y: valueAxis("change, %", {suggestedMin: -2, suggestedMax: 2})},
    },
  };
}

function changeRow(change, unit) {
  const check = change.checkBefore === change.checkAfter ? change.checkAfter : `${change.checkBefore} → ${change.checkAfter}`;
  const timed = change.before !== null && change.after !== null;
  return make("tr", {}, textCell(change.label), numberCell(timed ? percent(change.delta) : "–", timed ? tone(change.delta, change.noise) : ""),
      numberCell(change.after === null ? "–" : (change.noise * 100).toFixed(2) + " %"), rateCell(change.before, unit), rateCell(change.after, unit),
      make("td", {class: change.checkAfter === "PASS" ? "" : "bad-text"}, check), textCell(change.problem, "small"), textCell(change.backend, "small"));
}

// Changed checks first, then the five largest changes beyond the noise in each direction and all
// beyond the threshold.
function notable(changes) {
  const checks = changes.filter((change) => change.checkBefore !== change.checkAfter);
  const moved = changes.filter((change) => change.checkBefore === change.checkAfter && Math.abs(change.delta) > change.noise);
  return [...checks, ...moved.filter((change, i) => i < 5 || i >= moved.length - 5 || change.delta < -report.threshold)];
}

function addPair(section, pair) {
  const rows = notable(pair.changes);
  if (rows.length === 0) return;
  const timed = pair.changes.filter((change) => change.before !== null && change.after !== null);
  const unit = fittingUnit(pair.unit, timed.map(({after}) => after));
  section.append(makeFold(`${pair.title}, ${pair.file}`, `${counted(rows.length, "case")} to look at`, (body) => {
    if (timed.filter((change) => change.delta !== 0).length > 1) {
      addChart(body, "Changes", [{label: "Change of the step, worst first", text: "Grey: within the spread of the two rows, so no change.", height: 220, describe: () => describeChanges(timed)}]);
    }
    const heads = [{title: "Case"}, {title: "Change", number: true}, {title: "Noise", number: true}, {title: "Before", number: true}, {title: "After", number: true},
                   {title: "Check"}, {title: "Problem"}, {title: "Backend"}];
    body.append(makeTable(heads, rows.map((one) => changeRow(one, unit))));
  }));
}

function hasMoved(pair) {
  return ["regression", "none"].includes(pair.verdict) || isFaster(pair) || notable(pair.changes).length > 0 || pair.onlyOld.length + pair.onlyNew.length > 0;
}

function pairTable(pairs, attributes = {}) {
  const heads = [{title: "File"}, {title: "Verdict"}, {title: "Change", number: true}, {title: "Before", number: true}, {title: "After", number: true},
                 {title: "Noise", number: true}, {title: "Lost", number: true}, {title: "Broken", number: true}, {title: "Cases", number: true}];
  return makeTable(heads, pairs.map(pairRow), {class: "groups", ...attributes});
}

function addDifference() {
  if (!report.against) return;
  const {folder, pairs, unpaired} = report.against;
  const lost = pairs.filter((pair) => pair.verdict === "regression").length;
  const section = makeSection("difference", "What moved", `${report.folder} against ${folder}, files of the same name: ${lost > 0 ? `${counted(lost, "file")} of ${pairs.length} with a regression` : "no regression"}. Lost: cases slower by more than ${report.threshold * 100} % and their noise. Broken: no longer PASS.`);
  const moved = pairs.filter(hasMoved).sort((a, b) => (b.verdict === "regression") - (a.verdict === "regression") || Math.abs(scoreChange(b)) - Math.abs(scoreChange(a)) || 0);
  const still = pairs.filter((pair) => !hasMoved(pair));
  if (moved.length > 0) section.append(pairTable(moved, {id: "what-moved"}));
  else section.append(make("p", {}, "Nothing moved beyond its noise."));
  for (const pair of moved) addPair(section, pair);
  if (still.length > 0) section.append(makeFold("Without a change", counted(still.length, "file"), (body) => body.append(pairTable(still))));
  if (unpaired.length > 0) section.append(make("p", {class: "small"}, "Only in one of the two: " + unpaired.join(", ")));
}
