"use strict";
// The page of a run. `state` comes from the server: complete at first, then its changes. Text of the run is only set as text.

const $ = (id) => document.getElementById(id);
const token = new URLSearchParams(location.search).get("open") || "";
const kept = $("state-kept");  // in report.html: the run as it was when the file was written
const state = { run: {}, curves: new Map(), log: [], passes: [], bad_samples: [], pictures: [], tick: null, telemetry: null, end: null };
const view = new View();
let link = "connecting";  // "live", "lost", "over", "kept"
let skew = 0;             // seconds by which the run's clock is ahead of ours
let plots = [];

// ---- Making elements ----

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else if (name === "text") element.textContent = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}
function drawn(tag, attributes = {}, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
function setText(id, text) { if ($(id).textContent !== text) $(id).textContent = text; }
// If the table keeps its size, cells are reused, so that selections and screen readers stay in place.
function table(element, heads, rows) {
  const text = (cell) => (typeof cell === "string" ? cell : formatNumber(cell));
  if (element.rows.length === rows.length + 1 && element.rows[0].cells.length === heads.length) {
    [heads, ...rows].forEach((row, i) => row.forEach((cell, k) => {
      const made = element.rows[i].cells[k];
      if (made.textContent !== text(cell)) made.textContent = text(cell);
    }));
    return;
  }
  const numeric = heads.map((_, i) => rows.length > 0 && rows.every((row) => typeof row[i] !== "string"));
  const line = (cells, tag) => make("tr", {}, ...cells.map((cell, i) => {
    const made = make(tag, { text: text(cell) });
    if (numeric[i]) made.className = "n";
    if (tag === "th") made.scope = "col";
    return made;
  }));
  element.replaceChildren(make("thead", {}, line(heads, "th")), make("tbody", {}, ...rows.map((row) => line(row, "td"))));
}

// ---- Words ----

const words = (name) => name.replaceAll("_", " ");
const graphName = (graph) => (graph === "validate" ? "validation" : words(graph));
const titled = (name) => words(name).replace(/^./, (c) => c.toUpperCase());
function duration(seconds) {
  if (!(seconds >= 0)) return "–";
  const s = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
}
function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit + 1 < units.length; ++unit) count /= 1024;
  return `${count.toPrecision(3)} ${units[unit]}`;
}
const count = (n) => Math.round(n).toLocaleString("en");
const share = (part) => `${Math.round(100 * Math.min(Math.max(part, 0), 1))} %`;

// ---- Formatting ----

function take(changes) {
  for (const part of ["tick", "telemetry", "passes", "bad_samples", "pictures", "end"]) {
    if (changes[part] !== undefined) state[part] = changes[part];
  }
  if (changes.run) {
    state.run = changes.run;
    skew = changes.run.now - Date.now() / 1000;
  }
  for (const message of changes.log || []) {
    if (state.log.length === 0 || message.number > state.log[state.log.length - 1].number) state.log.push(message);
  }
  if (state.log.length > 400) state.log.splice(0, state.log.length - 400);
  for (const each of changes.curves || []) {
    const known = state.curves.get(each.name);
    const points = known ? known.points.slice(0, each.from) : [];
    for (const point of each.points) points.push(point);
    state.curves.set(each.name, { ...each, points });
  }
  showSoon(changes);
}
function forget() {
  Object.assign(state, { curves: new Map(), log: [], passes: [], bad_samples: [], pictures: [], tick: null, telemetry: null, end: null });
}

let due = null;
function showSoon(changes) {
  if (due) return void Object.assign(due, changes);
  due = { ...changes };
  requestAnimationFrame(() => {
    const parts = due;
    due = null;
    show(parts);
  });
}
function show(parts) {
  showHead();
  showSummary();
  if (parts.curves || parts.run || parts.end) showPlots();
  if (parts.telemetry) { showGraph(); showDevices(); }
  if (parts.telemetry || parts.curves) showSparks();
  if (parts.run) showSettings();
  if (parts.pictures) showPictures();
  if (parts.bad_samples || parts.end) showBadSamples();
  if (parts.log) showLog(parts.log);
}

// ---- Head ----

const kStates = {
  connecting: ["connecting", ""], live: ["running", "running"], lost: ["no connection", "lost"], gone: ["no answer", "lost"],
  kept: ["as of the last look", "lost"], finished: ["finished", "done"], stopped: ["stopped", "stopped"], failed: ["failed", "failed"],
};
function fate() {
  if (!state.end) return link;
  return state.end.error ? "failed" : state.end.stopped ? "stopped" : "finished";
}
function showHead() {
  const { name, file, folder } = state.run;
  if (name) setText("name", name);
  const short = (path) => (path || "").split("/").slice(-2).join("/");
  setText("where", [file && short(file).split("/").pop(), short(folder)].filter(Boolean).join(" · "));
  $("where").title = [file, folder].filter(Boolean).join("\n");
  const [text, kind] = kStates[fate()];
  setText("state", text);
  $("state").className = `badge ${kind}`;
  const percent = state.tick && state.tick.steps > 0 ? `${Math.floor(100 * state.tick.step / state.tick.steps)} % ` : "";
  document.title = `${state.end ? text : percent}${state.end ? ": " : ""}${name || "Millrace"} · Millrace`;
  $("actions").hidden = !token || kept !== null || link === "gone" || state.end !== null;
  for (const button of $("actions").children) button.disabled = link !== "live";
  setText("footer", kept ? "A page that Millrace has kept of a run. It needs no network." :
    token ? "" : "You may look at this run. To ask it for something, open the address printed by the run.");
}
function notice(text, kind = "") {
  $("notice").hidden = text === "";
  $("notice").className = `notice ${kind}`;
  setText("notice", text);
}

// ---- Progress and metrics ----

function lastPoint(name) {
  const curve = state.curves.get(name);
  for (let i = curve ? curve.points.length - 1 : -1; i >= 0; --i) if (curve.points[i][1] !== null) return curve.points[i];
  return null;
}
function stepNow() { return Math.max(state.end ? state.end.step : 0, state.tick ? state.tick.step : 0, 0); }
function elapsed() {
  if (state.end) return state.end.elapsed_seconds;
  if (!state.run.began) return NaN;
  return kept ? state.run.now - state.run.began : Date.now() / 1000 + skew - state.run.began;
}

function showSummary() {
  const { run, tick, end } = state;
  const step = stepNow(), steps = run.steps || 0;
  const done = steps > 0 ? Math.min(step / steps, 1) : 0;
  setText("percent", steps > 0 ? `${Math.floor(100 * done)} %` : "–");
  $("ring-done").style.strokeDashoffset = String(100 - 100 * done);
  $("ring").setAttribute("aria-valuenow", String(Math.floor(100 * done)));
  const epochs = run.epochs || 0, epoch = run.steps_per_epoch > 0 ? Math.min(Math.floor(step / run.steps_per_epoch) + 1, Math.ceil(epochs)) : 0;
  setText("epoch-of", epochs > 0 && epoch > 0 ? `epoch ${epoch}/${Number(epochs.toFixed(2))}` : "");
  setText("iteration", steps > 0 ? `${count(step)} of ${count(steps)}` : "–");
  setText("elapsed", duration(elapsed()));
  setText("since", run.began ? `began ${clock(run.began - (kept ? 0 : skew) - Date.now() / 1000)}` : "");
  const left = end ? 0 : tick ? tick.seconds_left : 0;
  setText("remaining", end ? (end.stopped || end.error ? "ended early" : "none") : left > 0 ? duration(left) : "–");
  setText("until", !end && link === "live" && left > 0 ? `until ${clock(left)}` : "");
  showFigures();
  showFacts();
  showEnd();
}
// Includes the day if it is not today.
function clock(secondsFromNow) {
  const at = new Date(Date.now() + 1000 * secondsFromNow);
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString([], { weekday: "short", day: "numeric", month: "short" })}, ${time}`;
}

// For the two plotted metrics: training's smoothed value, and validation's newest and best.
function showFigures() {
  const entries = [];
  for (const figure of plottedFigures().slice(0, 2)) {
    for (const curve of state.curves.values()) {
      const last = curve.figure === figure ? lastPoint(curve.name) : null;
      if (!last) continue;
      const training = curve.graph === state.run.graph;
      let value = training ? pointsOf(curve).findLast((p) => p[1] !== null)[4] : last[1], note = "smoothed";
      if (curve.points[curve.points.length - 1][1] === null) {
        [value, note] = [null, `behind step ${count(last[0])}`];
      } else if (!training) {
        const values = curve.points.filter((p) => p[1] !== null);
        const best = values.reduce((a, b) => ((curve.higher_is_better ? b[1] > a[1] : b[1] < a[1]) ? b : a));
        note = best === last ? "the best so far" : `best ${formatNumber(best[1], curve.percent)}, step ${count(best[0])}`;
      }
      entries.push([`${titled(training ? "training" : graphName(curve.graph))} ${words(figure)}`, formatNumber(value, curve.percent), note]);
    }
  }
  sync($("figures"), entries, ([name, value, note]) => {
    const dd = make("dd", { text: value });
    dd.append(make("small", { text: note }));
    return make("div", {}, make("dt", { text: name }), dd);
  });
}
// Replaces the children only if something differs, so that screen readers and selections stay in place.
function sync(parent, entries, build) {
  const key = JSON.stringify(entries);
  if (parent.dataset.key === key) return;
  parent.dataset.key = key;
  parent.replaceChildren(...entries.map(build));
}
const setting = (key) => ((state.run.settings || []).find(([name]) => name === key) || [])[1];
function showFacts() {
  const { run, tick, telemetry, end } = state;
  const facts = [];
  const network = setting("network.use"), batch = setting(`${run.graph}.batch.size`);
  if (network) facts.push(["Network", network.split("/").pop().replace(/\.toml$/, "")]);
  if (batch) facts.push(["Batch", batch]);
  const rate = lastPoint(`${run.graph}.learning_rate`);
  if (rate) facts.push(["Learning rate", formatNumber(rate[1])]);
  if (tick && tick.images_per_second > 0) facts.push(["Speed", `${count(tick.images_per_second)} images/s`]);
  if (telemetry && telemetry.devices.length > 0) {
    const many = telemetry.device_count, names = new Map();
    for (const { name } of telemetry.devices) names.set(name, (names.get(name) || 0) + 1);
    const named = [...names].map(([name, times]) => (times > 1 ? `${times} × ${name}` : name)).join(", ");
    facts.push([many > 1 ? "Devices" : "Device", (many > 3 ? String(many) : named) + (telemetry.ranks > 1 ? ` in ${telemetry.ranks} ranks` : "")]);
  }
  if (tick && tick.waits_for && !end) facts.push(["Waits for", tick.waits_for]);
  const bad = state.bad_samples.length > 0 ? state.bad_samples[state.bad_samples.length - 1].count : end ? end.bad_samples : 0;
  if (bad > 0) facts.push(["Bad samples", count(bad)]);
  if (run.seed !== undefined) facts.push(["Seed", String(run.seed)]);
  sync($("facts"), facts, ([name, value]) => make("div", {}, make("dt", { text: name }), make("dd", { text: value })));
}
function showEnd() {
  const { end } = state;
  $("final").hidden = !end;
  if (!end) return;
  $("final").className = `final ${fate()}`;
  const title = end.error ? "The run failed" : end.stopped ? `Stopped after step ${count(end.step)}` : "The run is done";
  const lines = [end.error, end.signal ? `by signal ${end.signal}` : "", end.weights_file ? `Weights: ${end.weights_file}` : ""].filter(Boolean);
  sync($("final"), [title, ...lines], (line) => line === title ? make("b", { text: line }) : make("div", { text: line }));
}

// Every key of the pipeline file, with its tables.
function showSettings() {
  const tables = new Map();
  for (const [key, value] of state.run.settings || []) {
    const [first, ...rest] = key.split(".");
    if (!tables.has(first)) tables.set(first, []);
    tables.get(first).push([rest.join("."), value]);
  }
  $("settings-card").hidden = tables.size === 0;
  sync($("settings"), [...tables], ([name, keys]) => make("section", {}, make("h3", { text: name }),
    make("dl", { class: "facts" }, ...keys.map(([key, value]) => make("div", {}, make("dt", { text: key }), make("dd", { text: value }))))));
}

// ---- Plots ----

// Training curves, with the smoothing chosen by the reader.
function pointsOf(curve) {
  return view.smoothing === null || curve.graph !== state.run.graph ? curve.points : smoothed(curve.points, view.smoothing);
}

// Metrics for which higher is better come first, such as accuracy; then the loss; then the rest.
function plottedFigures() {
  const named = new Map();
  for (const curve of state.curves.values()) {
    if (curve.figure === "learning_rate" || curve.figure === "images_per_second" || curve.graph === "process") continue;
    if (curve.graph !== state.run.graph && !state.curves.has(`${state.run.graph}.${curve.figure}`) && named.has(curve.figure)) continue;
    const place = named.get(curve.figure);
    const rank = curve.figure === "loss" ? 1 : curve.higher_is_better ? 0 : 2;
    const trained = curve.graph === state.run.graph ? 0 : 10;
    named.set(curve.figure, Math.min(place === undefined ? 99 : place, rank + trained));
  }
  const preferred = ["accuracy", "mean_iou", "psnr"];
  const order = (name) => (preferred.includes(name) ? preferred.indexOf(name) / 10 : 0.5);
  return [...named.keys()].sort((a, b) => named.get(a) - named.get(b) || order(a) - order(b)).slice(0, 6);
}

function plotBox(figure, index) {
  const curve = [...state.curves.values()].find((c) => c.figure === figure);
  const canvas = make("canvas", { tabindex: "0", role: "application", "aria-roledescription": "plot", "aria-label": titled(figure), "aria-describedby": "plot-keys" });
  const value = make("b");
  const tip = make("div", { class: "tip", hidden: "", "aria-hidden": "true" });
  const rows = make("table");
  const details = make("details", {}, make("summary", { text: `${titled(figure)} as a table` }), make("div", { class: "scroll" }, rows));
  const box = make("div", { class: "plot" }, make("h3", {}, make("span", { text: titled(figure) + (curve.percent ? ", %" : "") }), value), canvas, tip);
  const plot = new Plot(canvas, view, {
    colour: curve.higher_is_better ? "good" : index === 0 && plottedFigures().length === 1 ? "good" : "loss", percent: curve.percent,
    read: (who) => setText("reading", `Step ${count(view.cursor)}: ` + who.valuesAt(view.cursor).map(([name, v]) => `${name} ${v}`).join(", ")),
  });
  Object.assign(plot, { figure, box, readout: value, tip, details, rows });
  box.append(make("div", { class: "foot" }, details, ...plot.savers(titled(figure), state.run.name)));
  details.addEventListener("toggle", () => fillTable(plot));
  return plot;
}

function showPlots() {
  const figures = plottedFigures();
  if (plots.map((p) => p.figure).join() !== figures.join()) {
    view.listeners = view.listeners.filter((listener) => listener.keeps);
    plots = figures.map(plotBox);
    $("plot-list").replaceChildren(...plots.slice(0, 2).map((p) => p.box));
    $("more-list").replaceChildren(...plots.slice(2).map((p) => p.box));
    $("more-card").hidden = plots.length <= 2;
  }
  showSmoothing();
  const last = Math.max(stepNow(), ...[...state.curves.values()].map((c) => (c.points.length ? c.points[c.points.length - 1][0] : 0)));
  for (const plot of plots) {
    const curves = [...state.curves.values()].filter((c) => c.figure === plot.figure).map((c) => {
      const training = c.graph === state.run.graph;
      return { points: pointsOf(c), stride: c.stride, kind: training ? "training" : "validation", name: training ? "training" : graphName(c.graph) };
    });
    plot.set(curves, state.run.steps_per_epoch || 0, last);
    const texts = curves.filter((c) => c.points.length > 0).map((c) => {
      const p = c.points[c.points.length - 1];
      return `${c.name} ${formatNumber(c.kind === "training" ? p[4] : p[1], plot.options.percent)}`;
    });
    plot.canvas.setAttribute("aria-label", `${titled(plot.figure)} over ${count(last)} iterations. Newest values: ${texts.join(", ")}.`);
    if (plot.readout.textContent !== texts.join("   ")) plot.readout.textContent = texts.join(" · ");
    if (plot.details.open) fillTable(plot);
  }
}

// At most 60 rows, spread over the visible range, and each validation among the last 60.
function fillTable(plot) {
  const rows = [];
  for (const curve of plot.curves) {
    const points = plot.visible(curve.points), every = Math.ceil(points.length / 60) || 1;
    points.forEach((p, i) => {
      if (i % every === 0 || i === points.length - 1) {
        rows.push([p[0], curve.name, formatNumber(p[1], plot.options.percent), curve.kind === "training" ? formatNumber(p[4], plot.options.percent) : ""]);
      }
    });
  }
  rows.sort((a, b) => a[0] - b[0]);
  table(plot.rows, ["Iteration", "Of", titled(plot.figure), "Smoothed"], rows);
}

function showTips() {
  const step = view.cursor;
  for (const plot of plots) {
    plot.tip.hidden = step === null || !plot.frame || step < plot.frame.x0 || step > plot.frame.x1;
    if (plot.tip.hidden) continue;
    const rows = plot.valuesAt(step).map(([name, value]) => make("div", {}, make("span", { text: name }), make("b", { text: value })));
    plot.tip.replaceChildren(make("div", { text: `Step ${count(step)}` }), ...rows);
    const x = plot.x(step), right = x > plot.frame.right - 190;
    plot.tip.style.left = right ? "" : `${x + 14}px`;
    plot.tip.style.right = right ? `${plot.canvas.clientWidth - x + 14}px` : "";
    plot.tip.style.top = `${plot.canvas.offsetTop + 12}px`;
  }
}
const onView = (what) => {
  $("unzoom").hidden = view.zoom === null;
  if (what === "zoom") for (const plot of plots) if (plot.details.open) fillTable(plot);
  showTips();
};
onView.keeps = true;
view.listeners.push(onView);

// ---- Small curves ----

const sparks = new Map();
function showSparks() {
  const graph = state.run.graph;
  const wanted = [
    [`${graph}.images_per_second`, "Throughput", "ok", (v) => `${count(v)} images/s`, false],
    [`${graph}.learning_rate`, "Learning rate", "good", (v) => formatNumber(v), true],
    ["process.resident_bytes", "Memory of the process", "loss", bytes, true],
  ];
  for (const [name, title, colour, text, exact] of wanted) {
    const curve = state.curves.get(name), last = lastPoint(name);
    if (!last || (name === "process.resident_bytes" && last[1] === 0)) continue;
    let spark = sparks.get(name);
    if (!spark) {
      const canvas = make("canvas", { role: "img" }), value = make("b");
      $("sparks").append(make("div", {}, make("h3", {}, make("span", { text: title }), value), canvas));
      const plot = new Plot(canvas, view, { small: true, colour, exact });
      spark = { plot, value, canvas };
      sparks.set(name, spark);
    }
    spark.plot.set([{ ...curve, kind: "training" }], 0, curve.points[curve.points.length - 1][0]);
    const now = text(last[exact ? 1 : 4]);
    if (spark.value.textContent !== now) spark.value.textContent = now;
    spark.canvas.setAttribute("aria-label", `${title}, now ${now}`);
    $("machine-card").hidden = false;
  }
}

// ---- Stages and queues ----

// In data flow order: a stage comes after its inputs.
function inOrder(names, edges) {
  const level = new Map(names.map((name) => [name, 0])), place = new Map(names.map((name, i) => [name, i]));
  for (let round = 0; round < names.length; ++round) {
    let moved = false;
    for (const { from, to } of edges) {
      if (!level.has(from) || !level.has(to) || from === to) continue;
      if (level.get(to) <= level.get(from) && level.get(from) + 1 < names.length && place.get(to) > place.get(from)) {
        level.set(to, level.get(from) + 1);
        moved = true;
      }
    }
    if (!moved) break;
  }
  return [...names].sort((a, b) => level.get(a) - level.get(b) || place.get(a) - place.get(b));
}
function bottleneckOf(names) {
  const text = (state.telemetry.bottleneck || "") + " " + ((state.tick && state.tick.waits_for) || "");
  if (/^ the device/.test(text)) {
    const busy = state.telemetry.stages.filter((stage) => stage.on_device);
    return busy.length > 0 ? busy.reduce((a, b) => (b.device > a.device ? b : a)).name : undefined;
  }
  return [...names].sort((a, b) => b.length - a.length).find((name) => new RegExp(`(^|[^\\w])${name.replace(/[^\w]/g, "\\$&")}([^\\w]|$)`).test(text));
}

const kBox = { width: 116, height: 74, gapX: 34, gapY: 46 };
function showGraph() {
  const stages = new Map(state.telemetry.stages.map((stage) => [stage.name, stage]));
  $("graph-card").hidden = stages.size === 0;
  if (stages.size === 0) return;
  const edges = state.telemetry.edges, names = inOrder([...stages.keys()], edges);
  const hot = state.end ? undefined : bottleneckOf(names);
  setText("graph-title", state.end ? "Stages and queues, over the whole run" : "Stages and queues");
  setText("device-title", state.end ? "Devices, over the whole run" : "Devices");
  $("bottleneck").hidden = !(state.telemetry.bottleneck || hot) || state.end !== null;
  setText("bottleneck", state.telemetry.bottleneck ? `waits for: ${state.telemetry.bottleneck}` : hot ? `${hot} holds the others up` : "");
  const width = Math.max($("graph").clientWidth, 300);
  const fit = Math.max(1, Math.floor((width + kBox.gapX) / (kBox.width + kBox.gapX)));
  const rows = Math.ceil(names.length / fit), columns = Math.ceil(names.length / rows);
  const step = columns > 1 ? (width - 2 - kBox.width) / (columns - 1) : 0, pitch = Math.min(step, kBox.width + 130);
  const where = new Map(names.map((name, i) => [name, { x: 1 + (i % columns) * pitch, y: 4 + Math.floor(i / columns) * (kBox.height + kBox.gapY), row: Math.floor(i / columns), place: i }]));
  const deep = edges.some(({ from, to }) => where.has(from) && where.has(to) && where.get(from).row === where.get(to).row && where.get(to).place - where.get(from).place !== 1);
  const height = 8 + rows * kBox.height + (rows - 1) * kBox.gapY + (deep ? 40 : 0);
  const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${names.length} stages: ${names.join(", ")}${hot ? `; ${hot} holds the others up` : ""}. The table below has their figures.` });
  for (const edge of edges) drawEdge(svg, edge, where);
  for (const name of names) drawStage(svg, stages.get(name), where.get(name), name === hot);
  $("graph").replaceChildren(svg);
  table($("stage-table"), ["Stage", "Waits in front", "Samples", "Samples/s", "Busy threads", "Device busy"], names.map((name) => {
    const s = stages.get(name), queues = edges.filter((e) => e.to === name);
    return [name + (name === hot ? " (holds the others up)" : ""), queues.reduce((sum, e) => sum + e.level, 0), s.samples, Math.round(s.rate), Number(s.busy.toFixed(2)), share(s.device / s.instances)];
  }));
}
const measure = document.createElement("canvas").getContext("2d");
function textWidth(text) {
  measure.font = `650 12.5px ${getComputedStyle(document.body).fontFamily}`;
  return measure.measureText(text).width;
}
function shortened(text, most) { return text.length > most ? text.slice(0, most - 1) + "…" : text; }
function drawStage(svg, stage, at, hot) {
  const g = drawn("g", { class: `${stage.on_device ? "device" : ""} ${hot ? "hot" : ""}`, transform: `translate(${at.x} ${at.y})` });
  const busy = stage.on_device ? stage.device / stage.instances : stage.busy / Math.max(1, state.telemetry.data_threads || 1);
  g.append(drawn("title", {}, stage.name), drawn("rect", { class: "box", width: kBox.width, height: kBox.height, rx: 10 }));
  g.append(drawn("text", { class: "name", x: 10, y: 22 }, shortened(stage.name, 18)));
  g.lastChild.style.fontSize = `${Math.min(12.5, 12.5 * (kBox.width - 20) / textWidth(shortened(stage.name, 18)))}px`;
  const what = stage.on_device ? share(busy) : stage.busy < 0.995 ? share(stage.busy) : `×${stage.busy.toFixed(1)}`;  // threads
  g.append(drawn("text", { class: "sub", x: 10, y: 42 }, stage.samples > 0 ? `${count(stage.rate)}/s` : ""));
  g.append(drawn("text", { class: "sub end", x: kBox.width - 10, y: 42 }, what));
  g.append(drawn("rect", { class: "meter", x: 10, y: 54, width: kBox.width - 20, height: 6, rx: 3 }));
  g.append(drawn("rect", { class: "meter-done", x: 10, y: 54, width: Math.max(0, Math.min(busy, 1)) * (kBox.width - 20), height: 6, rx: 3 }));
  svg.append(g);
}
function drawEdge(svg, edge, where) {
  const a = where.get(edge.from), b = where.get(edge.to);
  if (!a || !b || a === b) return;
  let path, x, y;
  if (a.row === b.row && b.place === a.place + 1) {
    const y0 = a.y + kBox.height / 2;
    path = `M${a.x + kBox.width} ${y0}H${b.x}`;
    x = (a.x + kBox.width + b.x) / 2;
    y = y0;
  } else if (a.row === b.row) {  // over others, or back
    const low = a.y + kBox.height, x0 = a.x + kBox.width / 2 + 14, x1 = b.x + kBox.width / 2 - 14;
    path = `M${x0} ${low}C${x0} ${low + 34} ${x1} ${low + 34} ${x1} ${low}`;
    x = (x0 + x1) / 2;
    y = low + 25;
  } else {
    const x0 = a.x + kBox.width / 2, x1 = b.x + kBox.width / 2, y0 = a.row < b.row ? a.y + kBox.height : a.y, y1 = a.row < b.row ? b.y : b.y + kBox.height;
    const middle = (y0 + y1) / 2;
    path = `M${x0} ${y0}C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}`;
    x = (x0 + x1) / 2;
    y = middle;
  }
  svg.append(drawn("path", { class: a.place < b.place ? "edge" : "edge back", d: path }));
  const pill = drawn("g", { transform: `translate(${x - 15} ${y - 10})` }), full = edge.most > 0 ? edge.level / edge.most : 0;
  pill.append(drawn("title", {}, `${edge.level} wait between ${edge.from} and ${edge.to}; at most ${edge.most} so far`));
  pill.append(drawn("rect", { class: "queue", width: 30, height: 20, rx: 6 }), drawn("rect", { class: "queue-full", width: 30 * full, height: 20, rx: 6 }));
  pill.append(drawn("text", { class: "level", x: 15, y: 14 }, edge.level > 9999 ? "9k+" : String(edge.level)));
  svg.append(pill);
}

// ---- Devices ----

function showDevices() {
  const { devices, waits_for_data, waits_for_step, data_threads, io_threads } = state.telemetry;
  $("device-card").hidden = devices.length === 0;
  const rows = devices.map((device) => {
    const parts = [["compute", device.compute], ["copy", device.copy], ["communication", device.communication]];
    const bar = make("div", { class: "bar", "aria-hidden": "true" });
    for (const [name, value] of parts) {
      const piece = make("i", { class: name });
      piece.style.width = `${100 * Math.min(Math.max(value, 0), 1)}%`;
      bar.append(piece);
    }
    const text = parts.filter(([name, value]) => value > 0.005 || name === "compute").map(([name, value]) => `${name} ${share(value)}`).join(", ");
    const name = device.name + (state.telemetry.ranks > 1 ? ` · rank ${device.rank}` : "");
    return make("div", { class: "device-row" }, make("p", {}, make("b", { text: name }), make("span", { class: "muted", text: device.memory_bytes > 0 ? bytes(device.memory_bytes) : "" })), bar, make("p", { class: "muted", text }));
  });
  const all = state.telemetry.device_count;
  if (all > devices.length) rows.unshift(make("p", { class: "muted device-row", text: `Of ${all} devices the ${devices.length} that compute least:` }));
  rows.push(make("dl", { class: "facts" },
    make("div", {}, make("dt", { text: "A device waits for data" }), make("dd", { text: share(waits_for_data) })),
    make("div", {}, make("dt", { text: "A batch waits for a device" }), make("dd", { text: share(waits_for_step) })),
    make("div", {}, make("dt", { text: "Threads for data, and for reading" }), make("dd", { text: `${data_threads}, ${io_threads}` }))));
  $("devices").replaceChildren(...rows);
}

// ---- Pictures, bad samples, log ----

const keptPictures = kept ? JSON.parse($("pictures-kept").textContent) : null;
function addressOf(picture) {
  if (keptPictures) return keptPictures[picture.name];
  const query = new URLSearchParams({ version: String(picture.version) });
  if (token) query.set("open", token);
  return `pictures/${picture.name.split("/").map(encodeURIComponent).join("/")}?${query}`;
}
const pictureItems = new Map();  // by name: {item, image, version}
let enlarged = null;             // the name of the picture in the dialog
function showPictures() {
  const pictures = state.pictures.filter((p) => !keptPictures || keptPictures[p.name]);
  $("picture-card").hidden = pictures.length === 0;
  for (const [name, { item }] of pictureItems) {
    if (pictures.some((p) => p.name === name)) continue;
    item.remove();
    pictureItems.delete(name);
  }
  pictures.forEach((picture, place) => {  // existing ones keep their places and the focus
    let known = pictureItems.get(picture.name);
    if (!known) {
      known = pictureItem(picture.name);
      pictureItems.set(picture.name, known);
      $("pictures").insertBefore(known.item, $("pictures").children[place] || null);
    }
    if (known.version === picture.version) return;
    known.version = picture.version;
    known.image.src = addressOf(picture);
    if (enlarged === picture.name) $("picture-large").src = known.image.src;
  });
}
function pictureItem(name) {
  const title = titled(name.replace(/\.(png|svg)$/, "").replaceAll("/", ": "));
  const image = make("img", { alt: "", loading: "lazy", decoding: "async" });
  const button = make("button", { type: "button", "aria-label": `Enlarge ${title}` }, image, make("span", { text: title }));
  button.addEventListener("click", () => {
    enlarged = name;
    $("picture-large").src = image.src;
    $("picture-large").alt = title;
    fullSize(false);
    $("picture-dialog").showModal();
  });
  return { item: make("li", {}, button), image };
}
function showBadSamples() {
  $("bad-card").hidden = state.bad_samples.length === 0;
  if (state.bad_samples.length === 0) return;
  table($("bad-table"), ["Number", "Sample", "What is wrong", "Stage", "It was"], [...state.bad_samples].reverse().map((b) => [b.count, b.place, b.cause, b.stage, b.action]));
}
function timeText(seconds) {
  const s = Math.floor(seconds), two = (n) => String(n).padStart(2, "0");
  return (s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}` : String(Math.floor(s / 60))) + ":" + two(s % 60);
}
let logged = 0;
function showLog(messages) {
  const list = $("log"), atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 30;
  for (const message of state.log) {
    if (message.number <= logged) continue;
    logged = message.number;
    list.append(make("li", { class: message.kind }, make("time", { text: timeText(message.seconds) }), make("span", { text: message.text })));
    if (message.kind.startsWith("request ") && pending.has(message.kind.slice(8))) answered(message);
  }
  while (list.children.length > 400) list.firstChild.remove();
  if (atEnd) list.scrollTop = list.scrollHeight;
}

// ---- Requests to the run ----

const pending = new Set();
function answered(message) {
  if (message.text.startsWith("observer page asks")) return;
  pending.delete(message.kind.slice(8));
  notice(titled(message.text), / refused/.test(message.text) ? "warning" : "");
}
async function ask(what, body = "") {
  pending.add(what);
  notice(`Asked for: ${words(what)} ${body}. The run does it at the end of a step.`.replace(" .", "."));
  try {
    const reply = await fetch(`ask/${what}`, { method: "POST", body, headers: { Authorization: `Bearer ${token}` } });
    if (!reply.ok) throw new Error(await reply.text());
  } catch (error) {
    pending.delete(what);
    notice(`The run was not asked: ${error.message}`, "error");
  }
}
for (const button of document.querySelectorAll("[data-ask]")) button.addEventListener("click", () => ask(button.dataset.ask));
function confirmed(dialog, then) {
  dialog.returnValue = "no";
  dialog.addEventListener("close", () => { if (dialog.returnValue === "yes") then(); }, { once: true });
  dialog.showModal();
}
$("stop-button").addEventListener("click", () => confirmed($("stop-dialog"), () => ask("stop")));
$("rate-button").addEventListener("click", () => confirmed($("rate-dialog"), () => ask("rate_factor", String(Number($("factor").value)))));
for (const button of document.querySelectorAll("[data-factor]")) button.addEventListener("click", () => { $("factor").value = button.dataset.factor; });
$("raw").addEventListener("change", (event) => { view.raw = event.target.checked; view.changed("style"); });
$("log-scale").addEventListener("change", (event) => { view.logarithmic = event.target.checked; view.changed("style"); });
// The slider has ten steps for each power of ten. It begins at the run's own smoothing.
const smoothingOf = (place) => (place === 0 ? 0 : Math.round(10 ** (place / 10)));
$("smoothing").addEventListener("input", (event) => {
  view.smoothing = smoothingOf(Number(event.target.value));
  showPlots();
  showFigures();
});
function showSmoothing() {
  const own = [...state.curves.values()].find((c) => c.graph === state.run.graph && c.memory > 0);
  const steps = view.smoothing === null ? (own ? own.memory : 0) : view.smoothing;
  if (view.smoothing === null) $("smoothing").value = String(steps > 0 ? 10 * Math.log10(steps) : 0);
  const text = steps > 0 ? `${count(steps)} steps` : "none";
  setText("smoothing-text", text);
  $("smoothing").setAttribute("aria-valuetext", text);
}
$("unzoom").addEventListener("click", () => view.setZoom(null));

function fullSize(is) {
  $("picture-box").classList.toggle("full", is);
  $("picture-size").setAttribute("aria-pressed", String(is));
}
$("picture-size").addEventListener("click", () => fullSize(!$("picture-box").classList.contains("full")));
$("picture-dialog").addEventListener("close", () => { enlarged = null; });

// ---- The connection ----

const kSilence = 20;  // seconds; the server sends something every five
let source = null, known = null, tries = 0, retry = 0, heard = 0;

// A run is identified by its folder and start time: another one at the same address begins a new page.
function connect() {
  source = new EventSource(`events${token ? `?open=${token}` : ""}`);
  heard = Date.now();
  const on = (name, then) => source.addEventListener(name, (event) => { heard = Date.now(); then(event); });
  on("state", (event) => {
    const fresh = JSON.parse(event.data), begins = `${fresh.run.folder} ${fresh.run.began}`;
    if (known !== begins) { forget(); logged = 0; $("log").replaceChildren(); }
    known = begins;
    tries = 0;
    if (link !== "live") notice("");
    link = "live";
    take(fresh);
    showPlots();
  });
  on("change", (event) => take(JSON.parse(event.data)));
  on("alive", () => {});
  on("end", () => {
    source.close();
    link = "over";
    if (!state.end) return lost();
    showSoon({ end: state.end });
    notice(state.end.error ? `The run failed: ${state.end.error}` : state.end.stopped ? `The run was stopped after step ${count(state.end.step)}. This page stays as it is.` : "The run is done. This page stays as it is; report.html in the run's folder is the same.", state.end.error ? "error" : "");
  });
  on("error", lost);
}
function lost() {
  source.close();
  if (state.end) return;
  link = ++tries > 8 ? "gone" : "lost";
  showSoon({});
  if (link === "gone") {
    notice("The run no longer responds, and has not reported how it ended: it was killed, or the network is gone. This page retries every half minute.", "warning");
  } else if (tries > 1) {
    notice(known ? "The connection to the run is lost. Trying again…" : "The run does not respond. Trying again…", "warning");
  }
  retry = setTimeout(connect, Math.min(500 * 2 ** tries, 30000));
}
function connectNow() {
  if (link !== "lost" && link !== "gone") return;
  clearTimeout(retry);
  source.close();
  connect();
}
// After a machine slept or a tunnel died, a connection stays silent.
function watchConnection() {
  if (link === "live" && Date.now() - heard > 1000 * kSilence) lost();
  if (link === "live" && !state.end) setText("elapsed", duration(elapsed()));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { view.changed("style"); for (const { plot } of sparks.values()) plot.redraw(); });
new ResizeObserver(() => { if (state.telemetry) showGraph(); }).observe($("graph"));
if (kept) {
  link = "kept";
  take(JSON.parse(kept.textContent));
  if (!state.end) notice("This page was written while the run went on. No end is known: the run still goes on, or was killed.", "warning");
} else {
  connect();
  setInterval(watchConnection, 1000);
  addEventListener("online", connectNow);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) connectNow(); });
}
