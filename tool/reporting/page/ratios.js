// octet beside its peers: a bar per operator and peer, over the cases that both passed. The bars are
// elements and not a chart, so that their numbers are text.

const longestBar = 2.5;  // times octet; a longer bar is cut, and its end says so

function alongBar(ratio) {
  return Math.min(ratio / longestBar, 1) * 100 + "%";
}

function ratioNote(one) {
  const rows = one.checks.passed + one.checks.failed + one.checks.errors;
  const cases = rows > one.cases ? `${one.cases} of ${counted(rows, "case")}` : counted(one.cases, "case");
  return isNumber(one.mean) ? cases : `none of ${counted(rows, "case")} in common`;
}

function ratioBar(one) {
  const known = isNumber(one.mean);
  const colourName = `var(--${colourNames.get(one.peer)})`;
  const track = make("div", {class: "track"}, make("div", {class: "one"}));
  if (known) {
    track.prepend(make("div", {class: "fill" + (one.mean > longestBar ? " beyond" : ""), style: `width: ${alongBar(one.mean)}; background-color: ${colourName}`}));
    if (one.cases > 1 && one.worst < longestBar) {
      track.append(make("div", {class: "range", style: `left: ${alongBar(one.worst)}; right: calc(100% - ${alongBar(one.best)})`}));
    }
  }
  const failures = one.checks.failed + one.checks.errors > 0 ? ` · ${one.peer}: ${checksText(one.checks)}` : "";
  return make("div", {class: "ratio", title: known ? `${one.peer} takes ${times(one.mean)} octet's time, worst ${times(one.worst)}, best ${times(one.best)}${failures}` : failures.slice(3)},
      make("span", {class: "peer"}, make("span", {class: "dot", style: `background-color: ${colourName}`}), one.peer),
      track, make("b", {}, times(one.mean)), make("span", {class: "small"}, ratioNote(one)));
}

function ratioAxis() {
  const marks = [0, 1, 2].map((value) => make("span", {style: `left: ${alongBar(value)}`}, value === 1 ? "1×" : value + "×"));
  return make("div", {class: "ratio axis", "aria-hidden": "true"}, make("span"), make("div", {class: "marks"}, ...marks), make("span"), make("span"));
}

function isCopy(contender) {
  return report.contenders[contender] === "copy";
}

// The better of several peers has no rows, and so no checks, of its own.
function hasChecks({checks: {passed, failed, errors}}) {
  return passed + failed + errors > 0;
}

function ratioTable(ratios) {
  const heads = [{title: "Operator"}, {title: "Peer"}, {title: "Ratio", number: true}, {title: "Worst", number: true},
                 {title: "Best", number: true}, {title: "Below 0.97×", number: true}, {title: "Shapes in common", number: true}, {title: "Peer's checks"}];
  return makeTable(heads, ratios.map((one) => make("tr", {},
      make("td", {class: "what"}, make("b", {}, one.op), " ", make("span", {class: "small"}, one.brief)), textCell(one.peer),
      numberCell(times(one.mean), "strong"), numberCell(times(one.worst)), numberCell(times(one.best)),
      numberCell(isNumber(one.behind) ? (100 * one.behind).toFixed(0) + " %" : "–"), numberCell(String(one.cases)),
      make("td", {class: one.checks.failed + one.checks.errors > 0 ? "bad-text" : "small"}, hasChecks(one) ? checksText(one.checks) : "–"))), {class: "groups"});
}

function addRatios() {
  const shown = report.ratiosByOperator.filter((one) => !isCopy(one.peer));
  if (shown.length === 0) return;
  const section = makeSection("peers", "Beside its peers",
      "Peer's time / octet's time over the cases both passed, geometric mean; beyond the 1× line octet is faster. Thin line: worst to best case.");
  const cards = make("div", {class: "ratios"});
  for (const [title, all] of groupBy(shown, ({op, brief, device}) => [op, brief, severalDevices ? `on ${device}` : ""].filter(Boolean).join(" "))) {
    cards.append(make("div", {class: "card"}, make("h3", {}, title), ...all.map(ratioBar), ratioAxis()));
  }
  const byProblem = report.ratiosByProblem.filter((one) => !isCopy(one.peer));
  section.append(cards);
  addDistribution(section);
  section.append(makeFold("Problem by problem", counted(byProblem.length, "row"), (body) => body.append(ratioTable(byProblem))));
}
