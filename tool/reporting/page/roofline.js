// Roofline: throughput of octet's shapes against the measured peak of each device.

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

function rateText(base, value) {
  const unit = fittingUnit(base, [value]);
  return `${brief(value * unit.factor)} ${unit.name}`;
}

function ceilingText({compute, memory}) {
  const part = compute.table.isOfPeers ? compute.row.brief : compute.part;
  const top = `Ceilings are measured, not a data sheet's. Compute: ${rateText("TFLOPS", compute.value)} (${compute.row.contender}, ${part} of ${compute.row.shape}, ${compute.table.name}).`;
  return top + (memory
      ? ` Memory: ${rateText("TB/s", memory.value)} (copy beside ${memory.table.title} ${memory.row.shape}, ${memory.table.name}).`
      : " No file has the rate of a copy, so there is no memory ceiling.");
}

// Only octet's own operators; the charts of Shapes show other libraries.
function isUnderRoof({table, row}) {
  return !table.isOfPeers && isNumber(row.intensity) && isNumber(stepRate(row));
}

// All points are octet's: an operator has a marker, and its problems differ in shade and filling.
function pointLooks(points) {
  const markers = ["circle", "triangle", "rectRot", "rect", "star"];
  const operators = distinct(points.map(({table}) => table.title));
  const looks = new Map();
  for (const {table, row} of points) {
    const key = `${table.title} ${row.brief}`;
    if (looks.has(key)) continue;
    const index = [...looks.keys()].filter((other) => other.startsWith(table.title + " ")).length;
    const fill = colour(["octet", "variant-1", "variant-2", "variant-3"][index % 4]);
    const filling = ["full", "hollow", "outlined"][Math.floor(index / 4) % 3];
    looks.set(key, {pointStyle: markers[operators.indexOf(table.title) % markers.length],
                    backgroundColor: filling === "hollow" ? colour("surface") : fill,
                    borderColor: {full: colour("surface"), hollow: fill, outlined: colour("text")}[filling],
                    borderWidth: filling === "full" ? 1 : 1.5, pointRadius: 4.5 + index % 2});
  }
  return looks;
}

function logAxis(title, min, max) {
  return {type: "logarithmic", min, max, title: {display: true, text: title}, grid: {color: colour("grid"), drawBorder: false}, ticks: {callback: logTick}};
}

function describeRoofline(rows, {compute, memory}) {
  const points = rows.filter(isUnderRoof);
  const unit = fittingUnit("TFLOPS", points.map(({row}) => stepRate(row)));
  const top = compute.value * unit.factor;
  const xs = points.map(({row}) => row.intensity);
  const ridge = memory ? compute.value / memory.value : Math.min(...xs);
  const left = Math.min(ridge, ...xs) / 2;
  const right = Math.max(ridge, ...xs) * 1.5;
  const roof = [{x: left, y: memory ? left * memory.value * unit.factor : top}, {x: Math.max(left, ridge), y: top}, {x: right, y: top}];
  const looks = pointLooks(points);
  const sets = [...groupBy(points, ({table, row}) => `${table.title} ${row.brief}`)].map(([key, all]) =>
      ({label: shorten(key, 48), data: all.map(({row}) => ({x: row.intensity, y: stepRate(row) * unit.factor, name: row.label})), ...looks.get(key)}));
  const least = Math.min(...points.map(({row}) => stepRate(row))) * unit.factor;
  return {
    type: "scatter",
    data: {datasets: [{type: "line", label: "measured ceiling", data: roof, borderColor: colour("text"), borderWidth: 1.5, pointRadius: 0, pointHitRadius: 0, pointStyle: "line"}, ...sets]},
    options: {
      plugins: {tooltip: {callbacks: {label: ({raw}) => `${shorten(raw.name ?? "ceiling", 60)}: ${brief(raw.y)} ${unit.name} at ${brief(raw.x)} op/byte`}}},
      scales: {x: logAxis("operations per byte", left, right), y: logAxis(unit.name, Math.min(least / 1.5, top / 3), top * 1.25)},
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
      .filter(([, rows]) => rows.filter(isUnderRoof).length > 1);
  if (devices.length === 0) return;
  const texts = distinct(report.tables.filter((table) => table.intensityText && !table.isOfPeers).map((table) => `${table.title}: ${table.intensityText}`));
  const section = makeSection("roofline", "Roofline", `Throughput of each of octet's shapes against the measured peak. Operations per byte, ${texts.join("; ")}.`);
  addChart(section, "Device", devices.map(([device, rows]) => {
    const measured = ceilings(rows);
    return {label: device, text: ceilingText(measured), height: 360, describe: () => describeRoofline(rows, measured)};
  }));
}
