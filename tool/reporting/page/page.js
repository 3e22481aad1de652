"use strict";
// The data, and small functions that the rest of the page uses. No data becomes HTML: elements are
// created one by one, and their text is set as text.

const report = JSON.parse(document.getElementById("data").textContent);

// make("td", {class: "number"}, "12.3"): text and elements as children.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function addSection(id, title, ...children) {
  const section = make("section", {id}, ...children);
  document.getElementById("main").append(section);
  document.getElementById("contents").append(make("a", {href: "#" + id}, title));
  return section;
}

function makeSection(id, title, lead) {
  return addSection(id, title, make("h2", {}, title), lead ? make("p", {class: "lead"}, lead) : null);
}

// A part that stays folded until a reader opens it, and is filled only then.
function makeFold(title, note, fill) {
  const body = make("div", {class: "folded"});
  const fold = make("details", {}, make("summary", {}, title, make("span", {class: "small"}, note)), body);
  fold.fill = () => {
    if (body.childElementCount === 0) fill(body);
  };
  fold.addEventListener("toggle", () => {
    if (fold.open) fold.fill();
  });
  return fold;
}

function makeFoldedSection(id, title, note, fill) {
  addSection(id, title, makeFold(make("h2", {}, title), note, fill)).classList.add("fold");
}

function openFold(fold) {
  fold.open = true;
  fold.fill?.();
}

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// Four digits are enough for a reader.
function brief(value) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return value.toFixed(0);
  return String(Number(value.toPrecision(4)));
}

// With the zeros at the end, so that the points of a column stand below each other.
function fourDigits(value) {
  if (!isNumber(value)) return "–";
  return Math.abs(value) >= 1000 ? value.toFixed(0) : value.toPrecision(4);
}

function percent(fraction, digits = 2) {
  return (fraction > 0 ? "+" : "") + (fraction * 100).toFixed(digits) + " %";
}

// "1.12×", "23.2×"
function times(ratio) {
  return isNumber(ratio) ? (ratio >= 10 ? ratio.toFixed(1) : ratio.toFixed(2)) + "×" : "–";
}

// "1 file", "2 files"
function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

// Canvas text does not wrap.
function shorten(text, most = 36) {
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

// The unit in which the median of the values has digits before the point: {name, factor}.
function fittingUnit(base, values) {
  const sizes = values.filter((value) => isNumber(value) && value > 0).sort((a, b) => a - b);
  const middle = sizes[Math.floor(sizes.length / 2)] ?? 1;
  const [name, ...smaller] = {"TFLOPS": ["TFLOPS", "GFLOPS", "MFLOPS"], "TB/s": ["TB/s", "GB/s", "MB/s"]}[base] ?? [base];
  let unit = {name, factor: 1};
  for (const next of smaller) {
    if (middle * unit.factor < 1) unit = {name: next, factor: unit.factor * 1000};
  }
  return unit;
}

function distinct(values) {
  return [...new Set(values.filter((value) => value !== "" && value !== null && value !== undefined))];
}

// A map from key to list, with keys in order of first appearance.
function groupBy(list, key) {
  const groups = new Map();
  for (const item of list) {
    if (!groups.has(key(item))) groups.set(key(item), []);
    groups.get(key(item)).push(item);
  }
  return groups;
}

function geometricMean(values) {
  return Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
}

function stepRate(row) {
  return row.check === "PASS" ? row.rates[row.rates.length - 1] : null;
}

// {table, row} of every row.
const everyRow = report.tables.flatMap((table) => table.rows.map((row) => ({table, row})));

// The distinct values of a column over all files that have it.
function distinctColumn(column) {
  return distinct(report.tables.flatMap((table) => {
    const index = table.header.indexOf(column);
    return index < 0 ? [] : table.fields.map((fields) => fields[index]);
  }));
}

function checkBadge(check) {
  return make("span", {class: "badge " + (check === "PASS" ? "good" : "bad")}, check);
}

// "all PASS", "4 FAIL, 14 ERROR"
function checksText({failed, errors}) {
  return [failed > 0 ? `${failed} FAIL` : "", errors > 0 ? `${errors} ERROR` : ""].filter(Boolean).join(", ") || "all PASS";
}

// Rows of cells below a head. `heads`: {title, number}. A table wider than its place scrolls, and
// its right edge says so.
function makeTable(heads, rows, attributes = {}) {
  const head = make("tr", {}, ...heads.map(({title, number}) => make("th", {scope: "col", ...number ? {class: "number"} : {}}, title)));
  return makeScroller(make("table", attributes, make("thead", {}, head), make("tbody", {}, ...rows)));
}

function makeScroller(table, more = "") {
  const inner = make("div", {class: "scroll " + more, tabindex: "0"}, table);
  const outer = make("div", {class: "scroller"}, inner);
  const update = () => outer.classList.toggle("more", inner.scrollLeft + inner.clientWidth < inner.scrollWidth - 2);
  inner.addEventListener("scroll", update);
  new ResizeObserver(update).observe(inner);
  return outer;
}

// Text that may be long breaks into lines; short text stays in one.
function textCell(text, kind = "") {
  return make("td", {class: kind + (text.length > 28 ? " wrap" : "")}, text);
}

function numberCell(text, kind = "") {
  return make("td", {class: "number " + kind}, text);
}

// A number with its unit, which is set back.
function rateCell(value, unit, kind = "") {
  if (!isNumber(value)) return numberCell("–", kind);
  return make("td", {class: "number " + kind}, fourDigits(value * unit.factor), make("span", {class: "unit"}, unit.name));
}
