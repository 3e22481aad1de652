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

function makeSection(id, title, lead) {
  const section = make("section", {id}, make("h2", {}, title), lead ? make("p", {class: "lead"}, lead) : null);
  document.getElementById("main").append(section);
  document.getElementById("contents").append(make("a", {href: "#" + id}, title));
  return section;
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

function percent(fraction, digits = 2) {
  return (fraction > 0 ? "+" : "") + (fraction * 100).toFixed(digits) + " %";
}

// "1 file", "2 files"
function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
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

function checkBadge(check) {
  return make("span", {class: "badge " + (check === "PASS" ? "good" : "bad")}, check);
}
