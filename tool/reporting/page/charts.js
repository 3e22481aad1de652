// Every chart is described by a function that is called again when the theme or the choice changes,
// so that all colours follow the theme.

const charts = [];  // {canvas, describe, chart}

function drawChart(entry) {
  entry.chart?.destroy();
  entry.chart = new Chart(entry.canvas, entry.describe());
}

function redrawCharts() {
  setDefaults();
  charts.forEach(drawChart);
}

// Adds a card with one chart. `choices`: {label, group, text, height, describe}; `describe` returns
// the configuration for Chart.js. A list chooses among several; `title` is the card's heading.
function addChart(parent, title, choices) {
  const canvas = make("canvas", {role: "img", "aria-label": title});
  const plot = make("div", {class: "plot"}, canvas);
  const text = make("p", {class: "small"});
  const entry = {canvas, describe: null, chart: null};
  const show = (choice) => {
    text.textContent = choice.text;
    plot.style.height = (choice.height ?? 300) + "px";
    canvas.setAttribute("aria-label", `${title}: ${choice.label}`);
    entry.describe = choice.describe;
    drawChart(entry);
  };
  const head = make("div", {class: "head"}, make("h3", {}, choices.length > 1 ? title : choices[0].label));
  if (choices.length > 1) head.append(makeChooser(title, choices, show));
  parent.append(make("div", {class: "card"}, head, text, plot));
  charts.push(entry);
  show(choices[0]);
}

// A list of the choices by group, with a button to each side for the neighbours.
function makeChooser(title, choices, show) {
  const list = make("select", {"aria-label": `What to show in ${title}`});
  for (const [group, all] of groupBy([...choices.keys()], (i) => choices[i].group ?? "")) {
    const options = all.map((i) => make("option", {value: i}, shorten(choices[i].label, 80)));
    if (group === "") list.append(...options);
    else list.append(make("optgroup", {label: shorten(group, 60)}, ...options));
  }
  list.value = "0";
  list.addEventListener("change", () => show(choices[Number(list.value)]));
  const step = (by, text, label) => {
    const button = make("button", {type: "button", class: "button", "aria-label": label}, text);
    button.addEventListener("click", () => {
      list.value = String((Number(list.value) + by + choices.length) % choices.length);
      show(choices[Number(list.value)]);
    });
    return button;
  };
  return make("div", {class: "chooser"}, step(-1, "‹", "Previous"), list, step(1, "›", "Next"));
}

// Adds space between the legend and the plot.
Chart.register({
  id: "legendRoom",
  beforeInit(chart) {
    const fit = chart.legend.fit;
    chart.legend.fit = function() {
      fit.call(this);
      this.height += 10;
    };
  },
});

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

function barSet(label, data, fill) {
  return {label, data, backgroundColor: fill, borderRadius: 2, maxBarThickness: 26, categoryPercentage: 0.78,
          barPercentage: 0.94, pointStyle: "rect"};
}

function pointSet(label, data, fill, more = {}) {
  return {type: "line", label, data, showLine: false, borderColor: fill, backgroundColor: fill, pointRadius: 3.5, pointBorderColor: colour("surface"),
          pointHoverRadius: 5, pointStyle: "circle", ...more};
}

function lineSet(label, data, fill, more = {}) {
  return {type: "line", label, data, borderColor: fill, backgroundColor: fill, borderWidth: 1.5, pointRadius: 1.5, pointStyle: "line", ...more};
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

// An axis of many cases has room for the names of models only; each is in the middle of its cases.
function caseAxis(rows) {
  const models = rows.map((row) => row.model);
  const middle = new Map([...groupBy(rows.keys(), (i) => models[i])].map(([model, all]) =>
      [all[Math.floor((all.length - 1) / 2)], model]));
  const byModel = distinct(models).length > 1;
  const turn = innerWidth < 1000 || distinct(models).length > 8 ? 90 : 0;
  return {
    grid: {display: false},
    ticks: {
      autoSkip: !byModel,
      minRotation: byModel ? turn : 0,
      maxRotation: byModel ? turn : 90,
      callback: (value, index) => shorten(byModel ? middle.get(index) ?? "" : rows[index].label, 24),
    },
  };
}
