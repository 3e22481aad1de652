// Builds the page, top to bottom.

startTheme();
addOverview();
addDifference();
addRatios();
addSummary();
addRoofline();
addModels();
addShapes();
addErrors();
addClocks();
addRows();
addEnvironment();
document.getElementById("foot").textContent =
    `Made by ${report.tool}, ${report.made}. Charts by Chart.js ${Chart.version}, MIT licence.`;

// A link to a folded section opens it.
function openTarget() {
  const section = document.getElementById(location.hash.slice(1));
  if (section?.classList.contains("fold")) openFold(section.firstElementChild);
}
document.getElementById("contents").addEventListener("click", () => setTimeout(openTarget));
addEventListener("hashchange", openTarget);
openTarget();
