// The figures: roofline, models, shapes, errors, clocks.

// The highest of {value, row, table, ...}; null for an empty list.
function highest(candidates) {
  return candidates.reduce((best, one) => best === null || one.value > best.value ? one : best, null);
}

// Measured ceilings of a device: the best rate of a product, and the fastest copy next to a
// memory-bound operator.
function ceilings(rows) {
  const compute = highest(rows.filter(({table, row}) => table.unit === "TFLOPS" && row.check === "PASS")
      .flatMap(({table, row}) => row.rates.map((value, i) => ({value, table, row, part: table.rates[i]}))));
  const memory = highest(rows.filter(({table}) => table.hasCeiling)
      .flatMap(({table, row}) => row.baselines.slice(0, 1).map(({rate}) => ({value: rate, table, row}))));
  return {compute, memory};
}

function ceilingText({compute, memory}) {
  const part = compute.part === "step" ? compute.row.problem : compute.part;
  const top = `Compute ceiling: the best rate of a product in these files, ${brief(compute.value)} TFLOPS (${compute.row.backend}, ${part} of ${compute.row.shape}, ${compute.table.name}).`;
  return top + (memory
      ? ` Memory ceiling: the fastest device copy beside ${memory.table.op}, ${brief(memory.value)} TB/s (${memory.row.shape}, ${memory.table.name}).`
      : " No file has the rate of a device copy, so there is no memory ceiling.") + " Ceilings are measured, not a data sheet's.";
}

// Only octet's own operators; the charts of Shapes compare them with other libraries.
function isUnderRoof({table, row}) {
  return !table.backendIsKey && isNumber(row.intensity) && isNumber(stepRate(row));
}

function describeRoofline(rows, {compute, memory}) {
  const points = rows.filter(isUnderRoof);
  const xs = points.map(({row}) => row.intensity);
  const ridge = memory ? compute.value / memory.value : Math.min(...xs);
  const left = Math.min(ridge, ...xs) / 2;
  const right = Math.max(ridge, ...xs) * 1.5;
  const roof = [{x: Math.max(left, ridge), y: compute.value}, {x: right, y: compute.value}];
  if (memory) roof.unshift({x: left, y: left * memory.value});
  else roof.unshift({x: left, y: compute.value});
  const sets = [...groupBy(points, ({table, row}) => `${table.op} ${row.problem}`)]
      .map(([label, all], i) => ({label, data: all.map(({row}) => ({x: row.intensity, y: stepRate(row), name: row.label})),
                                  backgroundColor: series(i), borderColor: colour("surface"), pointRadius: 4.5}));
  const least = Math.min(...points.map(({row}) => stepRate(row)));
  return {
    type: "scatter",
    data: {datasets: [{type: "line", label: "ceiling", data: roof, borderColor: colour("text"), borderWidth: 1.5, pointRadius: 0, pointHitRadius: 0, pointStyle: "line"}, ...sets]},
    options: {
      plugins: {tooltip: {callbacks: {label: ({raw}) => `${raw.name ?? "ceiling"}: ${brief(raw.y)} TFLOPS at ${brief(raw.x)} op/byte`}}},
      scales: {
        x: {type: "logarithmic", min: left, max: right, title: {display: true, text: "operations per byte"}, grid: {color: colour("grid"), drawBorder: false}, ticks: {callback: logTick}},
        y: {type: "logarithmic", min: Math.min(least / 1.5, compute.value / 3), max: compute.value * 1.25, title: {display: true, text: "TFLOPS"}, grid: {color: colour("grid"), drawBorder: false}, ticks: {callback: (value) => Number(value.toPrecision(1)) === value ? brief(value) : ""}},
      },
    },
  };
}

// Ticks at 1, 2 and 5 times every power of ten.
function logTick(value) {
  const digit = Number(value.toExponential()[0]);
  return Math.abs(Math.log10(value / digit) % 1) < 1e-9 && [1, 2, 5].includes(digit) ? brief(value) : "";
}

function addRoofline() {
  const devices = [...groupBy(everyRow, ({row}) => row.device)]
      .filter(([, rows]) => rows.some(isUnderRoof));
  if (devices.length === 0) return;
  const texts = distinct(report.tables.filter((table) => table.intensityText && !table.backendIsKey).map((table) => `${table.op}: ${table.intensityText}`));
  const section = makeSection("roofline", "Roofline", "Where every shape lies under what the device was measured to do. Operations per byte, " + texts.join("; ") + ".");
  const cards = make("div", {class: "cards"});
  section.append(cards);
  for (const [device, rows] of devices) {
    const measured = ceilings(rows);
    addChart(cards, device, ceilingText(measured), () => describeRoofline(rows, measured), {tall: true});
  }
}

function addModels() {
  const groups = [...groupBy(report.groups.filter((group) => group.model !== ""), (group) => `${group.op} ${group.problem} on ${group.device}, ${group.backend}`)];
  if (groups.length === 0) return;
  const cards = make("div", {class: "cards"});
  makeSection("models", "Models", "Geometric means over the layers of each model; the step is forward and backward together.").append(cards);
  for (const [title, models] of groups) {
    const parts = Object.keys(models[0].means);
    addChart(cards, title, `${models.reduce((sum, model) => sum + model.passed, 0)} shapes of ${models.length} models`, () => ({
      type: "bar",
      data: {labels: models.map((model) => model.model), datasets: parts.map((part, i) => barSet(part, models.map((model) => model.means[part]), partColour(part, i)))},
      options: {scales: {x: {grid: {display: false}}, y: valueAxis(models[0].unit)}},
    }));
  }
}

function partColour(part, index) {
  return {step: series(0), forward: series(1), backward: series(2)}[part] ?? series(index);
}

// Other libraries keep their colours from chart to chart.
const rivals = distinct(everyRow.filter(({table}) => table.backendIsKey).map(({row}) => row.backend));

// One chart per file and problem: octet against baselines, libraries side by side, or the parts of
// the step.
function shapeSets(table, rows, shapes) {
  const at = (all, value) => shapes.map((label) => {
    const row = all.find((one) => one.label === label);
    return row ? value(row) : null;
  });
  if (table.backendIsKey) {
    return [...groupBy(rows, (row) => row.backend)].map(([backend, all]) => barSet(backend, at(all, stepRate), series(rivals.indexOf(backend))));
  }
  const baselines = distinct(rows.flatMap((row) => row.baselines.map(({name}) => name)));
  const parts = baselines.length > 0 ? [] : table.rates.filter((part) => part !== "step");
  const sets = [barSet(parts.length > 0 ? "step" : "octet", rows.map(stepRate), series(0) + (parts.length > 0 ? "99" : ""))];
  for (const [i, name] of baselines.entries()) {
    sets.push(barSet(name, rows.map((row) => row.baselines.find((one) => one.name === name)?.rate ?? null), i === 0 ? colour("faint") : series(i + 1)));
  }
  for (const part of parts) {
    const index = table.rates.indexOf(part);
    sets.push(pointSet(part, rows.map((row) => row.rates[index] ?? null), partColour(part, index), {order: -1}));
  }
  return sets;
}

function shapeText(table, rows) {
  const ratios = rows.flatMap((row) => row.baselines);
  const parts = [...groupBy(ratios, ({name}) => name)].map(([name, all]) =>
      `${geometricMean(all.map(({ratio}) => ratio)).toFixed(3)} × ${name} (geometric mean)`);
  return [table.name, `${rows.length} rows`, ...parts].join(" · ");
}

function addShapes() {
  const cards = make("div", {class: "cards"});
  makeSection("shapes", "Shapes", "The rate of every shape, beside what was timed in the same run: a baseline, other libraries, or a copy of the same bytes.").append(cards);
  for (const table of report.tables) {
    for (const [problem, rows] of groupBy(table.rows, (row) => row.problem)) {
      const first = [...groupBy(rows, (row) => row.label).values()].map((all) => all[0]);
      const {labels, axis} = caseAxis(table.backendIsKey ? first : rows);
      const size = labels.length <= 8 ? "half" : "";
      addChart(cards, `${table.op} ${problem}`, shapeText(table, rows), () => ({
        type: "bar",
        data: {labels, datasets: shapeSets(table, rows, labels)},
        options: {interaction: {mode: "index"}, scales: {x: axis, y: valueAxis(table.unit)}},
      }), {size});
    }
  }
  fillRow(cards);
}

function addErrors() {
  const tables = report.tables.filter((table) => table.rows.some((row) => row.snrs.some(isNumber)));
  if (tables.length === 0) return;
  const cards = make("div", {class: "cards"});
  makeSection("errors", "Errors", "Signal-to-noise ratios, higher is better. G1 is against the product of the unquantised inputs, G2 of the dequantised operands, G4 of 16- and 32-bit operands. The dashed line, where bars begin, is what the gate asks of e4m3 and 16-bit results; G1 asks 20 dB where an operand is e5m2.").append(cards);
  for (const table of tables) {
    const used = table.snrs.map((snr, i) => ({...snr, i})).filter(({i}) => table.rows.some((row) => isNumber(row.snrs[i])));
    for (const [gate, columns] of groupBy(used, (snr) => snr.gate)) {
      const least = Math.min(...columns.flatMap(({i}) => table.rows.map((row) => row.snrs[i]).filter(isNumber)));
      addChart(cards, `${gate}, ${table.name}`, `lowest ${least.toFixed(1)} dB, gate ${columns[0].bound} dB`,
               () => describeErrors(table.rows, gate, columns), {size: table.rows.length <= 24 ? "half" : ""});
    }
  }
  fillRow(cards);
}

// Bars start at the gate, so their height is the margin. Many rows are drawn as lines.
function describeErrors(rows, gate, columns) {
  const {labels, axis} = caseAxis(rows);
  const bound = columns[0].bound;
  const sets = columns.map(({column, i}, index) => {
    const label = column.replace(` ${gate} SNR (dB)`, "");
    const values = rows.map((row) => row.snrs[i]);
    return rows.length > 24 ? lineSet(label, values, series(index)) : {...barSet(label, values, series(index)), base: bound, order: 1};
  });
  return {
    type: "bar",
    data: {labels, datasets: [...sets, levelSet(`gate ${gate}`, labels.length, bound, colour("bad"))]},
    options: {interaction: {mode: "index", intersect: false}, scales: {x: axis, y: valueAxis("dB", {beginAtZero: false, suggestedMin: bound - 1, suggestedMax: bound + 6})}},
  };
}

function addClocks() {
  const tables = report.tables.filter((table) => table.rows.some((row) => isNumber(row.clock)));
  if (tables.length === 0) return;
  const cards = make("div", {class: "cards"});
  makeSection("clocks", "Clock and power", "Over the run, row by row: the median clock and the mean power while each was timed.").append(cards);
  for (const table of tables) {
    const {labels, axis} = caseAxis(table.rows);
    const hasPower = table.rows.some((row) => isNumber(row.power));
    addChart(cards, `${table.op}, ${table.name}`, `${labels.length} rows`, () => ({
      type: "line",
      data: {labels, datasets: [lineSet("clock, MHz", table.rows.map((row) => row.clock), series(0)),
                                ...hasPower ? [{...lineSet("power, W", table.rows.map((row) => row.power), series(1)), yAxisID: "power"}] : []]},
      options: {
        interaction: {mode: "index", intersect: false},
        scales: {x: axis, y: valueAxis("MHz"), ...hasPower ? {power: valueAxis("W", {position: "right", grid: {display: false}})} : {}},
      },
    }), {size: tables.length > 1 && labels.length <= 24 ? "half" : ""});
  }
  fillRow(cards);
}
