// Light and dark themes. The system's choice applies until the switch is used; print is always
// light.

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

// The current value of a CSS variable: colour("series-1").
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}
