// One table of all rows, sortable by any column; the environment; the commands. Folded away.

// One unit for all rates in TFLOPS and one for all in TB/s. With a unit per table, a sorted column would read 64 (GB/s), 0.9 (TB/s).
const rowUnits = new Map([...groupBy(everyRow, ({table}) => table.unit)].map(([base, items]) =>
    [base, fittingUnit(base, items.map(({row}) => stepRate(row)))]));

// Values are in the unit that is shown, so that the order is the one that is read.
function rateColumn(part) {
  return {
    title: part[0].toUpperCase() + part.slice(1),
    number: true,
    value: ({table, row}) => {
      const rate = row.rates[table.rates.indexOf(part)];
      return isNumber(rate) ? rate * rowUnits.get(table.unit).factor : null;
    },
    text: fourDigits,
  };
}

// Title, value of a row, whether it is a number (then right-aligned), digits after the point.
const rowColumns = [
  {title: "Check", value: ({row}) => row.check},
  {title: "Operator", value: ({row}) => row.title},
  {title: "Problem", value: ({row}) => row.brief},
  {title: "Contender", value: ({row}) => row.contender},
  {title: "Case", value: ({row}) => row.name},
  {title: "Shape", value: ({row}) => row.shape},
  rateColumn("step"),
  {title: "Unit", value: ({table}) => rowUnits.get(table.unit).name},
  {title: "Ratio", number: true, digits: 3, value: ({row}) => row.ratio},
  rateColumn("forward"),
  rateColumn("backward"),
  {title: "Spread %", number: true, digits: 2, value: ({row}) => row.spreadPercent},
  {title: "Lowest SNR dB", number: true, digits: 1, value: ({row}) => row.snrs.some(isNumber) ? Math.min(...row.snrs.filter(isNumber)) : null},
  {title: "MHz", number: true, value: ({row}) => row.clock},
  {title: "W", number: true, value: ({row}) => row.power},
  {title: "File", value: ({table}) => table.name},
  {title: "Backend", value: ({row}) => row.backend},
  {title: "Note", value: ({row}) => row.note},
];

// The reason why a row did not pass stands below its check.
function checkCell(row) {
  if (row.check === "PASS") return make("td", {}, checkBadge(row.check));
  return make("td", {class: "verdict"}, checkBadge(row.check), make("div", {class: "small"}, row.note || "a gate was not met"));
}

function cellOf(column, item) {
  const value = column.value(item);
  if (column.title === "Check") return checkCell(item.row);
  if (!column.number) return textCell(value);
  if (column.text) return numberCell(column.text(value));
  return numberCell(column.digits && isNumber(value) ? value.toFixed(column.digits) : brief(value));
}

// Missing values sort last in both directions; equal ones keep their order.
function compareBy(column, direction) {
  return (a, b) => {
    const [left, right] = [column.value(a), column.value(b)];
    const [noLeft, noRight] = [left, right].map((value) => value === null || value === "");
    if (noLeft || noRight) return noLeft - noRight;
    const order = column.number ? left - right : left.localeCompare(right, "en", {numeric: true});
    return direction === "ascending" ? order : -order;
  };
}

function fillRows(parent) {
  const items = everyRow.map((item) => ({...item, element: make("tr", {}, ...rowColumns.map((column) => cellOf(column, item)))}));
  const body = make("tbody");
  const count = make("span", {class: "small"});
  const search = make("input", {type: "search", placeholder: "Filter, e.g. 405B", "aria-label": "Filter the rows"});
  let shown = items;
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const visible = shown.filter(({element}) => words.every((word) => element.textContent.toLowerCase().includes(word)));
    body.replaceChildren(...visible.map(({element}) => element));
    count.textContent = `${visible.length} of ${counted(items.length, "row")}`;
  };
  search.addEventListener("input", show);
  const heads = rowColumns.map((column) => {
    const button = make("button", {type: "button"}, column.title);
    const head = make("th", {scope: "col", ...column.number ? {class: "number"} : {}}, button);
    button.addEventListener("click", () => {
      const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", direction);
      shown = [...items].sort(compareBy(column, direction));
      show();
    });
    return head;
  });
  show();
  parent.append(make("p", {class: "lead"}, "Click a header to sort. Ratio = time of the peer or baseline / time of octet (above 1: octet is faster)."),
      make("div", {class: "tools"}, search, count),
      makeScroller(make("table", {id: "all-rows"}, make("thead", {}, make("tr", {}, ...heads)), body), "long"));
}

function addRows() {
  makeFoldedSection("rows", "Rows", `${counted(everyRow.length, "row")}, sortable`, fillRows);
}

function fillEnvironment(parent) {
  const columns = ["GPU", "Driver", "CPU", "Commit", "Device Sources", "Backend", "Configuration", "Threads", "Warmup", "Iterations", "Seed", "Throttle"];
  const rows = columns.map((column) => [column, distinctColumn(column)]).filter(([, values]) => values.length > 0);
  rows.push(["Report", [report.tool, report.made]], ["Command of the report", [report.command]]);
  if (report.skipped.length > 0) rows.push(["Ignored files", report.skipped.slice(0, 20).concat(report.skipped.length > 20 ? [`and ${report.skipped.length - 20} more`] : [])]);
  parent.append(make("div", {class: "scroll"}, make("table", {}, make("tbody", {}, ...rows.map(([name, values]) =>
      make("tr", {}, make("td", {}, name), make("td", {class: "wide"}, values.join(name === "Configuration" ? "; " : ", "))))))));
  for (const table of report.tables) {
    const commands = distinct(table.rows.map((row) => row.command));
    parent.append(makeFold(table.name, counted(commands.length, "command"), (body) => body.append(make("pre", {}, commands.join("\n")))));
  }
}

function addEnvironment() {
  makeFoldedSection("environment", "Environment", "where the rows come from, and the commands that repeat them", fillEnvironment);
}
