// How good and how steady the measurements are: signal-to-noise ratios, clock and power. Folded away.

function addErrors() {
  const tables = report.tables.filter((table) => table.rows.filter((row) => row.snrs.some(isNumber)).length > 1);
  if (tables.length === 0) return;
  const choices = tables.flatMap((table) => {
    const used = table.snrs.map((snr, i) => ({...snr, i})).filter(({i}) => table.rows.some((row) => isNumber(row.snrs[i])));
    return [...groupBy(used, (snr) => snr.gate)].map(([gate, columns]) => {
      const least = Math.min(...columns.flatMap(({i}) => table.rows.map((row) => row.snrs[i]).filter(isNumber)));
      return {label: `${table.title}: ${gate} (${table.name})`, group: table.title, least: least - columns[0].bound,
              text: `lowest ${least.toFixed(1)} dB, gate ${columns[0].bound} dB`, describe: () => describeErrors(table.rows, gate, columns)};
    });
  });
  const closest = choices.reduce((best, one) => one.least < best.least ? one : best);
  makeFoldedSection("errors", "Errors", `signal-to-noise ratios; the closest to its gate is ${closest.least.toFixed(1)} dB above it`, (body) => {
    body.append(make("p", {class: "lead"}, "Signal-to-noise ratios, higher is better. G1 is against the product of the unquantised inputs, G2 of the dequantised operands, G4 of 16- and 32-bit operands, E1 against the operator in f64. The dashed line is what the gate asks of e4m3 and 16-bit results; G1 asks 20 dB where an operand is e5m2."));
    addChart(body, "Signal-to-noise ratios", choices);
  });
}

// The outputs of octet, told apart by shade and dash.
function describeErrors(rows, gate, columns) {
  const bound = columns[0].bound;
  const sets = columns.map(({column, i}, index) =>
      lineSet(column.replace(` ${gate} SNR (dB)`, "").replace(" SNR (dB)", ""), rows.map((row) => row.snrs[i]), colour(["octet", "variant-1", "variant-2"][index % 3]),
              {borderDash: [[], [6, 3], [2, 2]][index % 3], pointStyle: ["circle", "triangle", "rect"][index % 3], pointRadius: 2.5}));
  return {
    type: "line",
    data: {labels: rows.map((row) => row.label), datasets: [...sets, levelSet(`gate ${gate}`, rows.length, bound, colour("bad"))]},
    options: {interaction: {mode: "index", intersect: false}, scales: {x: caseAxis(rows), y: valueAxis("dB", {beginAtZero: false, suggestedMin: bound - 1, suggestedMax: bound + 6})}},
  };
}

function addClocks() {
  const tables = report.tables.filter((table) => table.rows.filter((row) => isNumber(row.clock)).length > 1);
  if (tables.length === 0) return;
  makeFoldedSection("clocks", "Clock and power", `${counted(tables.length, "file")}, row by row`, (body) => {
    body.append(make("p", {class: "lead"}, "The median clock and the mean power while each row was timed."));
    addChart(body, "Clock and power", tables.map((table) => ({
      label: `${table.title} (${table.name})`, text: counted(table.rows.length, "row"), describe: () => describeClocks(table.rows)})));
  });
}

function describeClocks(rows) {
  const hasPower = rows.some((row) => isNumber(row.power));
  const sets = [lineSet("clock, MHz", rows.map((row) => row.clock), colour("text"))];
  if (hasPower) sets.push(lineSet("power, W", rows.map((row) => row.power), colour("faint"), {yAxisID: "power", borderDash: [5, 3]}));
  return {
    type: "line",
    data: {labels: rows.map((row) => row.label), datasets: sets},
    options: {
      interaction: {mode: "index", intersect: false},
      scales: {x: caseAxis(rows), y: valueAxis("MHz"), ...hasPower ? {power: valueAxis("W", {position: "right", grid: {display: false}})} : {}},
    },
  };
}
