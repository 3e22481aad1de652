// The ratios to peers over the shapes, sorted: where a line crosses 1×, octet is behind for the shapes
// on its left. A mean does not show them.

// {label, colour, ratios: [{ratio, shape}]} of each peer, and of the better of several; of octet's own
// rows also of the parts of a step. A copy is a bound and no peer.
function ratioSeries(rows, isOfPeers) {
  const series = new Map();
  const add = (label, colour, ratio, shape) => {
    if (!series.has(label)) series.set(label, {label, colour, ratios: []});
    series.get(label).ratios.push({ratio, shape});
  };
  const addPart = (peer, part, ratio, shape) => isOfPeers
    ? add(peer, () => contenderColour(peer), ratio, shape)
    : add(`${peer}, ${part}`, () => partColour(part), ratio, shape);
  for (const row of rows) {
    for (const {name, ratio, parts} of row.baselines) {
      for (const [part, of] of Object.entries(parts)) addPart(name, part, of, row.label);
      addPart(name, "step", ratio, row.label);
    }
  }
  // Behind all peers.
  for (const {better, label} of rows) {
    if (isOfPeers && better) add(better.name, () => colour("octet"), better.ratio, label);
  }
  for (const {ratios} of series.values()) ratios.sort((a, b) => a.ratio - b.ratio);
  return [...series.values()].filter(({ratios}) => ratios.length >= fewestRatios);
}

const fewestRatios = 3;  // fewer are no distribution
const highestRatio = 2;  // of the axis, where there are lower ones as well

function shareBelow(ratios, bound) {
  return (100 * ratios.filter(({ratio}) => ratio < bound).length / ratios.length).toFixed(0) + " %";
}

// "deep_gemm: 44 shapes, mean 1.04×, worst 0.81×, 25 % below 1×, 11 % below 0.97×"
function seriesText({label, ratios}) {
  return `${label}: ${counted(ratios.length, "shape")}, mean ${times(geometricMean(ratios.map(({ratio}) => ratio)))}, worst ${times(ratios[0].ratio)}, ` +
      `${shareBelow(ratios, 1)} below 1×, ${shareBelow(ratios, 0.97)} below 0.97×`;
}

function describeDistribution(series) {
  const all = series.flatMap(({ratios}) => ratios.map(({ratio}) => ratio));
  // A peer that is many times slower leaves no room for what is near 1×.
  const isCut = Math.max(...all) > highestRatio && Math.min(...all) < highestRatio;
  const sets = series.map(({label, colour, ratios}) => lineSet(label, ratios.map(({ratio, shape}, i) =>
      ({x: 100 * (i + 0.5) / ratios.length, y: ratio, shape})), colour(), {pointRadius: 2, pointStyle: "circle"}));
  const one = {...levelSet("1×", 2, 1, colour("muted")), data: [{x: 0, y: 1}, {x: 100, y: 1}]};
  const title = `peer's time / octet's${isCut ? `, cut at ${times(highestRatio)}` : ""}`;
  return {
    type: "scatter",
    data: {datasets: [...sets, one]},
    options: {
      plugins: {tooltip: {callbacks: {label: ({dataset, raw}) => `${dataset.label}: ${brief(raw.y)}×, ${shorten(raw.shape ?? "", 60)}`}}},
      scales: {
        x: {type: "linear", min: 0, max: 100, title: {display: true, text: "% of the shapes, from worst to best"}, grid: {display: false}},
        y: valueAxis(title, {beginAtZero: false, suggestedMin: 0.95, suggestedMax: 1.05, ...isCut ? {max: highestRatio} : {}}),
      },
    },
  };
}

// One choice per operator and problem, so that layers of few rows, drawn at random, are apart from
// those of many.
function addDistribution(parent) {
  const groups = groupBy(everyRow, ({table, row}) => [table.title, row.problem, row.device].join("\n"));
  const choices = [...groups.values()].flatMap((all) => {
    const {table, row} = all[0];
    const rows = all.map((one) => ({...one.row, baselines: one.row.baselines.filter(({name}) => !isCopy(name))}));
    const series = ratioSeries(rows, table.isOfPeers);
    if (series.length === 0) return [];
    return [{label: `${table.title}: ${row.brief}${severalDevices ? ` on ${row.device}` : ""}`, group: table.title,
             text: series.map(seriesText).join(" · "), height: 340, describe: () => describeDistribution(series)}];
  });
  if (choices.length > 0) addChart(parent, "Ratios over the shapes", choices);
}
