// One table of all rows, sortable by any column; the environment; the commands.

// Title, value of a row, whether it is a number (then right-aligned), digits after the point.
const rowColumns = [
  {title: "Operator", value: ({table}) => table.op},
  {title: "Case", value: ({row}) => row.name},
  {title: "Shape", value: ({row}) => row.shape},
  {title: "Check", value: ({row}) => row.check},
  ...["forward", "backward", "step"].map((part) => ({
    title: part[0].toUpperCase() + part.slice(1),
    number: true,
    value: ({table, row}) => row.rates[table.rates.indexOf(part)] ?? null,
  })),
  {title: "Unit", value: ({table}) => table.unit},
  {title: "Ratio", number: true, digits: 3, value: ({row}) => row.baselines[0]?.ratio ?? null},
  {title: "Spread %", number: true, digits: 2, value: ({row}) => row.spreadPercent},
  {title: "Lowest SNR dB", number: true, digits: 1, value: ({row}) => row.snrs.some(isNumber) ? Math.min(...row.snrs.filter(isNumber)) : null},
  {title: "MHz", number: true, value: ({row}) => row.clock},
  {title: "W", number: true, value: ({row}) => row.power},
  {title: "Problem", value: ({row}) => row.problem},
  {title: "Backend", value: ({row}) => row.backend},
  {title: "File", value: ({table}) => table.name},
  {title: "Note", value: ({row}) => row.note},
];

function cellOf(column, item) {
  const value = column.value(item);
  if (column.title === "Check") return make("td", {}, checkBadge(value));
  if (!column.number) return make("td", {}, value);
  const text = column.digits && isNumber(value) ? value.toFixed(column.digits) : brief(value);
  return make("td", {class: "number"}, text);
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

function addRows() {
  const section = makeSection("rows", "Rows", "Every row of every file. A header sorts by its column; the ratio is a baseline's time over ours, above 1 we are faster.");
  const items = everyRow.map((item) => ({...item, element: make("tr", {}, ...rowColumns.map((column) => cellOf(column, item)))}));
  const body = make("tbody");
  const count = make("span", {class: "small"});
  const search = make("input", {type: "search", placeholder: "Filter, as 405B or noisy", "aria-label": "Filter the rows"});
  let shown = items;
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const visible = shown.filter(({element}) => words.every((word) => element.textContent.toLowerCase().includes(word)));
    body.replaceChildren(...visible.map(({element}) => element));
    count.textContent = `${visible.length} of ${items.length} rows`;
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
  section.append(make("div", {class: "tools"}, search, count),
      make("div", {class: "scroll long"}, make("table", {id: "all-rows"}, make("thead", {}, make("tr", {}, ...heads)), body)));
}

function addEnvironment() {
  const section = makeSection("environment", "Environment", "What the rows say of where they come from, and the exact commands that repeat them.");
  const columns = ["GPU", "CPU", "Commit", "Device Sources", "Backend", "Configuration", "Threads", "Warmup", "Iterations", "Seed", "Throttle"];
  const rows = columns.map((column) => [column, distinctColumn(column)]).filter(([, values]) => values.length > 0);
  rows.push(["Report", [report.tool, report.made]], ["Command of the report", [report.command]]);
  if (report.skipped.length > 0) rows.push(["Skipped files", report.skipped]);
  section.append(make("div", {class: "scroll"}, make("table", {}, make("tbody", {}, ...rows.map(([name, values]) =>
      make("tr", {}, make("td", {}, name), make("td", {class: "wide"}, values.join(name === "Configuration" ? "; " : ", "))))))), make("p"));
  for (const table of report.tables) {
    const commands = distinct(table.rows.map((row) => row.command));
    section.append(make("details", {}, make("summary", {}, `${table.name}: ${counted(commands.length, "command")}`),
        make("pre", {}, commands.join("\n"))));
  }
}
