// The rates of models and of shapes: one chart each, and a list to choose what it shows.

function addModels() {
  const groups = [...groupBy(report.groups.filter((group) => group.model !== ""), (group) => [group.op, group.problem, group.device, group.backend].join("\n"))];
  if (groups.length === 0) return;
  const section = makeSection("models", "Models", "Geometric means over the layers of each model; the step is forward and backward together.");
  addChart(section, "Rates of models", groups.map(([, models]) => ({
    label: `${models[0].op} ${models[0].brief}`,
    text: `${counted(models.reduce((sum, {checks}) => sum + checks.passed, 0), "shape")} of ${counted(models.length, "model")} on ${models[0].device}, ${models[0].backend}`,
    describe: () => describeModels(models),
  })));
  section.append(makeFold("Numbers per model", counted(groups.reduce((sum, [, models]) => sum + models.length, 0), "row"), (body) => {
    for (const [, models] of groups) body.append(make("h3", {}, `${models[0].op} ${models[0].brief}`), groupTable(models));
  }));
}

function describeModels(models) {
  const unit = fittingUnit(models[0].unit, models.map(({means}) => means.step));
  const parts = Object.keys(models[0].means);
  return {
    type: "bar",
    data: {labels: models.map(({model}) => shorten(model, 24)),
           datasets: parts.map((part) => barSet(part, models.map(({means}) => means[part] * unit.factor), partColour(part)))},
    options: {interaction: {mode: "index"}, scales: {x: {grid: {display: false}}, y: valueAxis(unit.name)}},
  };
}

// The cases of a chart: rows of the same problem, shape and name, one for each contender.
function casesOf(rows) {
  return [...groupBy(rows, (row) => `${row.problem}\n${row.label}`).values()];
}

// octet against baselines or other libraries, or the parts of its step.
function shapeSets(table, cases, factor) {
  const scaled = (value) => isNumber(value) ? value * factor : null;
  if (table.isOfPeers) {
    const present = new Set(cases.flat().map((row) => row.contender));
    const contenders = contendersInOrder.filter((contender) => present.has(contender));
    return contenders.map((contender) => barSet(contender, cases.map((rows) => {
      const row = rows.find((one) => one.contender === contender);
      return row ? scaled(stepRate(row)) : null;
    }), contenderColour(contender)));
  }
  const rows = cases.map(([row]) => row);
  const baselines = distinct(rows.flatMap((row) => row.baselines.map(({name}) => name)));
  const octet = barSet("octet" + (table.rates.length > 1 ? ", step" : ""), rows.map((row) => scaled(stepRate(row))), colour("octet"));
  const others = baselines.map((name) => barSet(name, rows.map((row) => scaled(row.baselines.find((one) => one.name === name)?.rate)), contenderColour(name)));
  const parts = baselines.length > 0 ? [] : table.rates.filter((part) => part !== "step").map((part) => {
    const index = table.rates.indexOf(part);
    return pointSet("octet, " + part, rows.map((row) => scaled(row.rates[index])), partColour(part), {order: -1, pointStyle: part === "forward" ? "triangle" : "rectRot"});
  });
  return [octet, ...others, ...parts];
}

const mostBarsAcross = 12;  // cases; more of them stand upright, with the names of models below

function describeShapes(table, cases, severalProblems) {
  const unit = fittingUnit(table.unit, cases.flat().map(stepRate));
  const datasets = shapeSets(table, cases, unit.factor);
  const rows = cases.map(([row]) => row);
  const title = (items) => `${rows[items[0].dataIndex].brief}: ${shorten(rows[items[0].dataIndex].label, 60)}`;
  const upright = cases.length > mostBarsAcross;
  const lines = (row) => distinct([severalProblems ? row.brief : "", row.name, row.shape]).map((line) => shorten(line, innerWidth < 600 ? 18 : 32));
  const axis = upright ? caseAxis(rows) : {grid: {display: false}, ticks: {autoSkip: false, callback: (value, index) => lines(rows[index])}};
  const values = valueAxis(unit.name);
  return {
    type: "bar",
    data: {labels: rows.map((row) => row.label), datasets},
    options: {
      indexAxis: upright ? "x" : "y",
      interaction: {mode: "index", axis: upright ? "x" : "y", intersect: false},
      plugins: {tooltip: {callbacks: {title}}},
      scales: upright ? {x: axis, y: values} : {x: values, y: axis},
    },
  };
}

// "cublaslt 1.12× octet's time over 12 of 19 shapes"
function shapeText(table, cases) {
  const pairs = groupBy(cases.flat().flatMap((row) => row.baselines), ({name}) => name);
  const parts = [...pairs].map(([name, all]) => {
    const mean = geometricMean(all.map(({ratio}) => ratio));
    return isCopy(name) ? `octet reaches ${(mean * 100).toFixed(1)} % of copy bandwidth` : `${name} takes ${times(mean)} octet's time`;
  });
  const missing = cases.flat().filter((row) => row.check !== "PASS");
  const failures = [...groupBy(missing, (row) => row.contender)].map(([contender, rows]) => `${contender}: ${rows.length} not PASS`);
  const means = parts.length > 0 ? `${parts.join(", ")} (geometric mean over the shapes both passed)` : "";
  return distinct([table.name, counted(cases.length, "case"), means, ...failures]).join(" · ");
}

// A file with few cases is one choice, whatever their problems; others have one for each problem, and
// so have drawn layers, whose groups are never averaged together.
function shapeChoices(table) {
  const all = casesOf(table.rows);
  const problems = [...groupBy(all, ([row]) => row.brief)];
  const parts = all.length <= mostBarsAcross && !all.some(([row]) => row.isRandom) ? [[problems.length > 1 ? counted(problems.length, "problem") : problems[0][0], all]] : problems;
  return parts.filter(([, cases]) => cases.flat().length > 1).map(([name, cases]) => {
    const contenders = Math.max(...cases.map((rows) => rows.length + rows[0].baselines.length));
    return {
      label: `${table.title}: ${name} (${table.name})`,
      group: table.title,
      text: shapeText(table, cases),
      height: cases.length > mostBarsAcross ? 360 : 90 + cases.length * Math.max(contenders * 13 + 12, 38),
      describe: () => describeShapes(table, cases, parts.length === 1 && problems.length > 1),
    };
  });
}

function addShapes() {
  const choices = [...groupBy(report.tables.flatMap(shapeChoices), ({group}) => group).values()].flat();
  if (choices.length === 0) return;
  const section = makeSection("shapes", "Shapes", "The rate of every shape, beside what was timed in the same run: a baseline, other libraries, or a copy of the same bytes. A colour is the same contender everywhere on this page.");
  addChart(section, "Rates of shapes", choices);
}
