// Every chart is described by a function that is called again when the theme changes, so that all
// colours follow the theme.

const charts = [];  // {canvas, describe, chart}

// Adds a card with a chart. `describe` returns the configuration for Chart.js. `size`: "", "half"
// or "third".
function addChart(parent, title, text, describe, {size = "", tall = false} = {}) {
  const canvas = make("canvas", {role: "img", "aria-label": title});
  const plot = make("div", {class: "plot" + (tall ? " tall" : "")}, canvas);
  parent.append(make("div", {class: "card " + size}, make("h3", {}, title), make("p", {class: "small"}, text), plot));
  charts.push({canvas, describe, chart: null});
}

// A half card with no neighbour takes the whole row.
function fillRow(cards) {
  let left = 0;
  for (const card of cards.children) {
    const half = card.classList.contains("half");
    if (!half && left % 2 === 1) card.previousElementSibling.classList.remove("half");
    left = half ? left + 1 : 0;
  }
  if (left % 2 === 1) cards.lastElementChild.classList.remove("half");
}

// Adds space between the legend and the plot.
const legendRoom = {
  id: "legendRoom",
  beforeInit(chart) {
    const fit = chart.legend.fit;
    chart.legend.fit = function() {
      fit.call(this);
      this.height += 10;
    };
  },
};
Chart.register(legendRoom);

function setDefaults() {
  const defaults = Chart.defaults;
  defaults.animation = false;
  defaults.maintainAspectRatio = false;
  defaults.font.family = getComputedStyle(document.body).fontFamily;
  defaults.font.size = 12;
  defaults.scale.ticks.font = {size: 11};
  defaults.color = colour("muted");
  defaults.borderColor = colour("grid");
  defaults.plugins.legend.align = "start";
  defaults.plugins.legend.labels.boxWidth = 8;
  defaults.plugins.legend.labels.boxHeight = 8;
  defaults.plugins.legend.labels.padding = 16;
  defaults.plugins.legend.labels.usePointStyle = true;
  Object.assign(defaults.plugins.tooltip, {
    backgroundColor: colour("text"),
    titleColor: colour("surface"),
    bodyColor: colour("surface"),
    padding: 10,
    cornerRadius: 8,
    usePointStyle: true,
    boxPadding: 4,
  });
}

function redrawCharts() {
  setDefaults();
  for (const entry of charts) {
    if (entry.chart) entry.chart.destroy();
    entry.chart = new Chart(entry.canvas, entry.describe());
  }
}

function series(index) {
  return colour("series-" + (index % 5 + 1));
}

function barSet(label, data, fill) {
  return {label, data, backgroundColor: fill, borderRadius: 2, maxBarThickness: 26, categoryPercentage: 0.72,
          barPercentage: 0.92, pointStyle: "rect"};
}

function pointSet(label, data, fill, more = {}) {
  return {type: "line", label, data, showLine: false, borderColor: fill, backgroundColor: fill, pointRadius: 3.5, pointBorderColor: colour("surface"),
          pointHoverRadius: 5, pointStyle: "circle", ...more};
}

function lineSet(label, data, fill) {
  return {type: "line", label, data, borderColor: fill, backgroundColor: fill, borderWidth: 1.5, pointRadius: 1.5, pointStyle: "line"};
}

// A constant level across the whole width, drawn as a dashed line.
function levelSet(label, count, value, fill) {
  return {type: "line", label, data: Array(count).fill(value), borderColor: fill, borderWidth: 1.5, borderDash: [5, 4],
          pointRadius: 0, pointHitRadius: 0, pointStyle: "line"};
}

function valueAxis(title, more = {}) {
  return {title: {display: true, text: title}, grid: {color: colour("grid"), drawBorder: false}, beginAtZero: true,
          ticks: {format: {useGrouping: false}, maxTicksLimit: 8}, ...more};
}

// Labels of cases. If there are many, only the models fit; each label is in the middle of its
// cases.
function caseAxis(rows) {
  const models = rows.map((row) => row.model);
  const middle = new Map([...groupBy(rows.keys(), (i) => models[i])].map(([model, all]) =>
      [all[Math.floor((all.length - 1) / 2)], model]));
  const byModel = rows.length > 12 && distinct(models).length > 1;
  return {
    labels: rows.map((row) => row.label),
    axis: {
      grid: {display: false},
      ticks: {
        autoSkip: !byModel,
        maxRotation: byModel ? 0 : 60,
        callback: (value, index) => byModel ? middle.get(index) ?? "" : rows[index].label,
      },
    },
  };
}
