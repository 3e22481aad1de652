// Builds the page, top to bottom.

addOverview();
addDifference();
addSummarySection();
addRoofline();
addModels();
addShapes();
addErrors();
addClocks();
addRows();
addEnvironment();
document.getElementById("foot").textContent =
    `Made by ${report.tool}, ${report.made}. Charts by Chart.js ${Chart.version}, MIT licence.`;
startTheme();
