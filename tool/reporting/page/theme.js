// Light and dark themes, and the colours of contenders. The system's choice applies until the switch
// is used; print is always light, with the parts that are open.

const themeKey = "octet-report-theme";

function storedTheme() {
  try {
    return localStorage.getItem(themeKey);
  } catch {
    return null;  // a file opened from disk may have no storage
  }
}

function currentTheme() {
  return document.documentElement.dataset.theme;
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = theme === "dark" ? "Light theme" : "Dark theme";
  redrawCharts();
}

function startTheme() {
  const preferred = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  setTheme(storedTheme() ?? preferred);
  document.getElementById("theme").addEventListener("click", () => {
    setTheme(currentTheme() === "dark" ? "light" : "dark");
    try {
      localStorage.setItem(themeKey, currentTheme());
    } catch {
      // No storage: the choice lasts only as long as the page.
    }
  });
  let onScreen = currentTheme();
  addEventListener("beforeprint", () => {
    onScreen = currentTheme();
    setTheme("light");
  });
  addEventListener("afterprint", () => setTheme(onScreen));
}

// The current value of a CSS variable: colour("octet").
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

// The CSS variable of every contender, dealt by name once for the whole page. octet's own is nobody
// else's; its variants have shades of it, and a copy, which is no contender, is grey.
const colourNames = (() => {
  const most = {variant: 3, peer: 14};
  const dealt = {variant: 0, peer: 0};
  const names = new Map();
  for (const [contender, role] of Object.entries(report.contenders)) {
    names.set(contender, role in most ? `${role}-${dealt[role]++ % most[role] + 1}` : role);
  }
  return names;
})();

// octet first, then the others as they appear in the files.
const contendersInOrder = [...colourNames.keys()].sort((a, b) => (b === "octet") - (a === "octet"));

function contenderColour(contender) {
  return colour(colourNames.get(contender));
}

// The parts of octet's step, in shades of its colour.
function partColour(part) {
  return colour({step: "octet", forward: "variant-1", backward: "variant-2"}[part] ?? "octet");
}
