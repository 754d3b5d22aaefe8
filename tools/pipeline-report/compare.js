"use strict";
// Several runs in one page. Text of a run is only set as text.

const data = JSON.parse(document.getElementById("data").textContent);
const view = new View();
const $ = (id) => document.getElementById(id);
const runs = data.runs.map((run, i) => ({ ...run, colour: `run-${i % 8}`, shown: i < 8, row: data.figures.rows[i], numbers: data.figures.numbers[i] }));
let order = [...runs], sorted = null, descending = false;

function make(tag, text, ...children) {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  element.append(...children);
  return element;
}

function sortBy(column) {
  descending = sorted === column ? !descending : !data.figures.low_first[column];
  sorted = column;
  const isText = runs.every((run) => run.numbers[column] === null);
  order = [...runs].sort((a, b) => {
    const x = a.numbers[column], y = b.numbers[column];
    if (!isText && (x === null || y === null)) return (x === null) - (y === null); // entries without a number come last
    const less = isText ? a.row[column].localeCompare(b.row[column]) : x - y;
    return descending ? -less : less;
  });
  showFigures();
}

// The best value of each metric; undefined if none is better, and for the time, which is short if a run failed.
const best = data.figures.headings.map((_, column) => {
  const numbers = runs.map((run) => run.numbers[column]).filter((n) => n !== null);
  if (column < 3 || column >= data.measured - 1 || new Set(numbers).size < 2) return undefined;
  return data.figures.low_first[column] ? Math.min(...numbers) : Math.max(...numbers);
});

function showFigures() {
  const head = make("tr");
  data.figures.headings.forEach((heading, column) => {
    const button = make("button", heading.replaceAll("_", " ").replaceAll(".", ".\u200b"));  // may break after a dot
    button.addEventListener("click", () => sortBy(column));
    const th = make("th", "", button);
    th.scope = "col";
    if (column === sorted) th.setAttribute("aria-sort", descending ? "descending" : "ascending");
    if (column > 1) th.className = "n";
    head.append(th);
  });
  const rows = order.map((run) => make("tr", "", ...run.row.map((cell, column) => {
    if (column > 0) { const td = make("td", cell); if (column > 1) td.className = run.numbers[column] === best[column] ? "n best" : "n"; return td; }
    const box = make("input"), swatch = make("i");
    box.type = "checkbox";
    box.checked = run.shown;
    box.addEventListener("change", () => { run.shown = box.checked; showPlots(); });
    swatch.className = "swatch";
    swatch.style.background = `var(--${run.colour})`;
    const th = make("th", "", make("label", "", box, swatch, make("span", cell)));
    th.scope = "row";
    return th;
  })));
  $("figures").replaceChildren(make("thead", "", head), make("tbody", "", ...rows));
}

const plots = new Map();
function showPlots() {
  const names = new Set(runs.flatMap((run) => Object.keys(run.curves)));
  const rank = (name) => (name.startsWith("train.") ? 10 : 0) + (/loss/.test(name) ? 1 : 0) + (/learning_rate/.test(name) ? 5 : 0);
  for (const name of [...names].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b)).slice(0, 12)) {
    if (!plots.has(name)) {
      const canvas = make("canvas"), tip = make("div"), box = make("div", "", make("h3", name.replaceAll("_", " ").replace(".", ": ")), canvas, tip);
      box.className = "plot";
      tip.className = "tip";
      tip.hidden = true;
      canvas.tabIndex = 0;
      canvas.setAttribute("role", "img");
      $("plots").append(box);
      const plot = new Plot(canvas, view, { colour: "good", exact: !name.startsWith("train."), read: (who) => { $("reading").textContent = `Step ${view.cursor}: ` + values(who).map(([n, v]) => `${n} ${v}`).join(", "); } });
      plots.set(name, Object.assign(plot, { tip }));
    }
    const plot = plots.get(name);
    const curves = runs.filter((run) => run.shown && run.curves[name]).map((run) => ({ name: run.name, points: run.curves[name], kind: "training", colour: run.colour, stride: 1 }));
    const last = Math.max(1, ...curves.map((c) => (c.points.length ? c.points[c.points.length - 1][0] : 0)));
    plot.set(curves, 0, last);
    plot.canvas.setAttribute("aria-label", `${name}: ` + curves.map((c) => `${c.name} ${c.points.length ? formatNumber(c.points[c.points.length - 1][plot.options.exact ? 1 : 4]) : ""}`).join(", "));
  }
}
function values(plot) {
  return plot.curves.filter((c) => c.points.length).map((c) => [c.name, formatNumber(c.points[pointAt(c.points, view.cursor)][plot.options.exact ? 1 : 4])]);
}
view.listeners.push(() => {
  $("unzoom").hidden = view.zoom === null;
  for (const plot of plots.values()) {
    plot.tip.hidden = view.cursor === null || !plot.frame || plot.canvas.matches(":not(:hover):not(:focus)");
    if (plot.tip.hidden) continue;
    plot.tip.replaceChildren(make("div", `Step ${view.cursor.toLocaleString("en")}`), ...values(plot).map(([n, v]) => make("div", "", make("span", n), make("b", v))));
    const x = plot.x(view.cursor), right = x > plot.canvas.clientWidth / 2;
    plot.tip.style.left = right ? "" : `${x + 14}px`;
    plot.tip.style.right = right ? `${plot.canvas.clientWidth - x + 14}px` : "";
    plot.tip.style.top = `${plot.canvas.offsetTop + 8}px`;
  }
});
$("log-scale").addEventListener("change", (event) => { view.logarithmic = event.target.checked; view.changed("style"); });
$("unzoom").addEventListener("click", () => view.setZoom(null));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view.changed("style"));

view.raw = false;
$("count").textContent = runs.length === 1 ? "one run" : `${runs.length} runs`;
showFigures();
showPlots();
$("differences-card").hidden = data.differences.rows.length === 0;
const line = (cells, tag) => make("tr", "", ...cells.map((cell, i) => { const made = make(i === 0 ? "th" : tag, cell); if (made.tagName === "TH") made.scope = tag === "td" ? "row" : "col"; return made; }));
$("differences").replaceChildren(make("thead", "", line(data.differences.headings, "th")), make("tbody", "", ...data.differences.rows.map((row) => line(row, "td"))));
