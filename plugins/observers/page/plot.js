"use strict";
// Curves of a run on a canvas. A point is [step, mean, least, greatest, smoothed]; null where nothing was finite.

const kLarge = 1e5, kSmall = 1e-3;
const kRound = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];

// Numbers as people read them: 0.0532, 1,234, 3.2e-7.
function formatNumber(value, percent) {
  if (value === null || value === undefined || !isFinite(value)) return "not finite";
  if (percent) return (100 * value).toFixed(Math.abs(value) < 0.0995 ? 2 : 1) + " %";
  const size = Math.abs(value);
  if (size !== 0 && (size < kSmall || size >= 1e7)) return value.toExponential(2).replace(/\.?0*e\+?/, "e");
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(4)));
}

// Points with other smoothing: `memory` is the number of steps after which a value has lost 63 % of its weight; 0: none. A point
// that represents several steps counts with their mean.
function smoothed(points, memory) {
  let mean = 0, weight = 0, last = 0;
  return points.map((p) => {
    if (p[1] === null) return p;
    const keep = memory > 0 ? Math.exp(-(p[0] - last) / memory) : 0;
    mean = keep * mean + (1 - keep) * p[1];
    weight = keep * weight + (1 - keep);
    last = p[0];
    return [p[0], p[1], p[2], p[3], mean / weight];
  });
}

function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Round values between low and high, about `count` of them.
function ticksBetween(low, high, count) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((f) => f * power).find((s) => s >= raw * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step || 0);
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); ++power) {
    for (const digit of high - low < 2 ? [1, 2, 5] : [1]) {
      const at = power + Math.log10(digit);
      if (at >= low && at <= high) ticks.push(at);
    }
  }
  return ticks;
}

// Index of the last point whose step is not after `step`.
function pointAt(points, step) {
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < step) low = middle + 1; else high = middle;
  }
  if (low > 0 && Math.abs(points[low - 1][0] - step) <= Math.abs(points[low][0] - step)) return low - 1;
  return low;
}

// Shared by all plots of a page: the visible part of the run, and the step under the pointer.
class View {
  constructor() {
    this.zoom = null;    // [first, last] step; null: the whole run
    this.cursor = null;  // step
    this.raw = true;
    this.smoothing = null;  // steps; null: the run's smoothing
    this.logarithmic = false;
    this.listeners = [];
  }
  changed(what) { for (const listener of this.listeners) listener(what); }
  setZoom(zoom) { this.zoom = zoom; this.changed("zoom"); }
  setCursor(step) { if (step !== this.cursor) { this.cursor = step; this.changed("cursor"); } }
}

class Plot {
  // `element`: a <canvas> in a box that may be positioned. `colour`: the name of a CSS variable.
  constructor(canvas, view, options) {
    this.canvas = canvas;
    this.view = view;
    this.options = options;  // {title, colour, percent, small}
    this.curves = [];        // {points, kind: "training" or "validation", name, percent}
    this.bands = 0;          // steps per epoch
    this.last = 1;
    this.waiting = false;
    new ResizeObserver(() => this.redraw()).observe(canvas);
    view.listeners.push(() => this.redraw());
    if (!options.small) this.listen();
  }

  set(curves, bands, last) {
    this.curves = curves;
    this.bands = bands;
    this.last = Math.max(last, 1);
    this.redraw();
  }
  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  // ---- Positions ----

  range() {
    if (this.view.zoom && !this.options.small) return this.view.zoom;
    const end = this.bands > 0 && this.last / this.bands < 30 ? Math.ceil(this.last / this.bands) * this.bands : this.last;
    return [0, end];
  }
  visible(points) {
    const [low, high] = this.range();
    return points.filter((p) => p[0] >= low && p[0] <= high);
  }
  isLogarithmic() { return this.view.logarithmic && !this.options.percent && !this.options.small; }
  value(v) { return this.isLogarithmic() ? (v > 0 ? Math.log10(v) : null) : v; }

  // A spike of a few steps must not flatten the rest: the range covers the raw values except the outermost 1 %.
  limits() {
    const values = [], sure = [];
    for (const curve of this.curves) {
      for (const p of this.visible(curve.points)) {
        if (p[1] === null) continue;
        if (curve.kind === "validation") sure.push(p[1]);
        else { sure.push(p[4]); if (this.view.raw) values.push(p[2], p[3]); }
      }
    }
    let usable = sure.concat(values).map((v) => this.value(v)).filter((v) => v !== null && isFinite(v));
    if (usable.length === 0) return [0, 1];
    usable.sort((a, b) => a - b);
    const cut = usable.length > 200 ? Math.floor(usable.length * 0.005) : 0;
    const must = sure.map((v) => this.value(v)).filter((v) => v !== null && isFinite(v));
    let low = Math.min(usable[cut], ...must), high = Math.max(usable[usable.length - 1 - cut], ...must);
    if (this.options.percent) return [Math.max(0, low - 0.05 * (high - low || 1)), Math.min(1, high + 0.08 * (high - low || 0.1))];
    if (low >= 0 && (low < 0.15 * high || this.options.small) && !this.isLogarithmic()) low = 0;  // small ones are filled from 0
    const room = high > low ? (high - low) * 0.07 : Math.abs(high) * 0.1 || 1;
    return [low === 0 ? 0 : low - room, high + room];
  }

  // ---- Drawing ----

  colour(name) { return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(); }

  draw() {
    const box = this.canvas.getBoundingClientRect();
    if (box.width === 0) return;
    const scale = window.devicePixelRatio || 1;
    const width = Math.round(box.width * scale), height = Math.round(box.height * scale);
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    const g = this.canvas.getContext("2d");
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, box.width, box.height);
    g.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const [x0, x1] = this.range(), [y0, y1] = this.limits();
    const small = this.options.small;
    const left = small ? 2 : 62, right = small ? 6 : 14, top = 8, bottom = small ? 4 : this.bands > 0 ? 40 : 24;
    this.frame = { left, top, right: box.width - right, bottom: box.height - bottom, x0, x1, y0, y1 };
    const f = this.frame;
    this.x = (step) => f.left + (step - x0) / (x1 - x0 || 1) * (f.right - f.left);
    this.y = (v) => { const t = this.value(v); return t === null ? null : f.bottom - (t - y0) / (y1 - y0 || 1) * (f.bottom - f.top); };
    if (!small) this.drawGround(g);
    g.save();
    g.beginPath();
    g.rect(f.left - 1, f.top - 8, f.right - f.left + 12, f.bottom - f.top + 10);
    g.clip();
    for (const curve of this.curves) if (curve.kind === "training") this.drawTraining(g, curve);
    for (const curve of this.curves) if (curve.kind === "validation") this.drawValidation(g, curve);
    g.restore();
    if (!small) this.drawCursor(g);
  }

  drawGround(g) {
    const f = this.frame, muted = this.colour("muted"), line = this.colour("line");
    if (this.bands > 0) this.drawBands(g, muted);
    g.lineWidth = 1;
    g.fillStyle = muted;
    g.textAlign = "right";
    g.textBaseline = "middle";
    const logarithmic = this.isLogarithmic();
    for (const tick of logarithmic ? logTicks(f.y0, f.y1) : ticksBetween(f.y0, f.y1, 5)) {
      const y = Math.round(f.bottom - (tick - f.y0) / (f.y1 - f.y0) * (f.bottom - f.top)) + 0.5;
      g.strokeStyle = line;
      g.beginPath();
      g.moveTo(f.left, y);
      g.lineTo(f.right, y);
      g.stroke();
      const value = logarithmic ? 10 ** tick : tick;
      g.fillText(this.options.percent ? Number((100 * value).toFixed(1)) + " %" : formatNumber(value).replace(/^-?0$/, "0"), f.left - 7, y);
    }
    g.textBaseline = "top";
    g.fillText("iteration", f.left - 7, f.bottom + 7);
    const room = (f.right - f.left) / 90;
    for (const tick of ticksBetween(f.x0, f.x1, Math.max(2, Math.min(10, room)))) {
      if (tick % 1 !== 0) continue;
      const x = this.x(tick);
      g.textAlign = x > f.right - 20 ? "right" : x < f.left + 10 ? "left" : "center";
      g.fillText(tick >= kLarge ? tick / 1000 + "k" : tick.toLocaleString("en"), x, f.bottom + 7);
    }
  }

  // Every other epoch, or group of epochs, is shaded, down to the numbers below.
  drawBands(g, muted) {
    const f = this.frame, deep = f.bottom + 24;
    const wide = (f.right - f.left) / ((f.x1 - f.x0) / this.bands);
    const every = kRound.find((n) => n * wide >= 26) || 1e6;
    g.textBaseline = "top";
    for (let band = Math.floor(f.x0 / this.bands / every) * every; band * this.bands < f.x1; band += every) {
      const a = Math.max(this.x(band * this.bands), f.left), b = Math.min(this.x((band + every) * this.bands), f.right);
      if (b <= a) continue;
      if ((band / every) % 2 === 0) {
        g.fillStyle = this.colour("band");
        g.fillRect(a, f.top, b - a, f.bottom - f.top);
      }
      g.fillStyle = muted;
      g.textAlign = every === 1 ? "center" : "left";
      const text = String(band + 1), middle = every === 1 ? (a + b) / 2 : a + 3;
      if (b - a > g.measureText(text).width + 4) g.fillText(text, middle, deep);
      g.fillRect(Math.round(a), f.bottom, 1, 5);
    }
    g.fillStyle = muted;
    g.textAlign = "right";
    g.fillText("epoch", f.left - 7, deep);
  }

  path(g, points, column) {
    g.beginPath();
    let open = false;
    for (const p of points) {
      const y = p[column] === null ? null : this.y(p[column]);
      if (y === null) { open = false; continue; }
      open ? g.lineTo(this.x(p[0]), y) : g.moveTo(this.x(p[0]), y);
      open = true;
    }
  }

  drawTraining(g, curve) {
    const points = this.visible(curve.points), colour = this.colour(curve.colour || this.options.colour);
    if (points.length === 0) return;
    g.lineJoin = g.lineCap = "round";
    g.strokeStyle = g.fillStyle = colour;
    const raw = this.view.raw && !this.options.small;
    if (raw && curve.stride > 1) this.fillBetween(g, points);
    if (raw) {  // contrast of 3:1 with the ground; the smoothed curve stands out from it
      g.globalAlpha = 0.8;
      g.lineWidth = 0.75;
      this.path(g, points, 1);
      g.stroke();
      g.strokeStyle = this.colour("card");
      g.lineWidth = 5.5;
      this.path(g, points, 4);
      g.stroke();
      g.strokeStyle = colour;
    }
    g.globalAlpha = 1;
    g.lineWidth = this.options.small ? 1.75 : 2.5;
    this.path(g, points, this.options.exact ? 1 : 4);
    g.stroke();
    if (this.options.small) this.fillBelow(g, points);
    this.drawGaps(g, points, this.colour(curve.colour || "bad"));
    const end = points[points.length - 1];
    if (end[1] === null) return;
    const x = this.x(end[0]), y = this.y(end[this.options.exact ? 1 : 4]);
    g.fillStyle = colour;
    for (const [radius, alpha] of this.options.small ? [[2.5, 1]] : [[7, 0.2], [3.5, 1]]) {
      g.globalAlpha = alpha;
      g.beginPath();
      g.arc(x, y, radius, 0, 7);
      g.fill();
    }
    g.globalAlpha = 1;
  }

  // Non-finite values: a cross at the top where they begin, and a line to their end.
  drawGaps(g, points, colour) {
    const y = this.frame.top + 5;
    g.strokeStyle = colour;
    points.forEach((p, i) => {
      if (p[1] !== null || (i > 0 && points[i - 1][1] === null)) return;
      const x = this.x(p[0]), next = points.findIndex((q, k) => k > i && q[1] !== null);
      g.beginPath();
      for (const side of [-1, 1]) { g.moveTo(x - 4 * side, y - 4); g.lineTo(x + 4 * side, y + 4); }
      g.moveTo(x, y);
      g.lineTo(this.x(points[next < 0 ? points.length - 1 : next - 1][0]), y);
      g.stroke();
    });
  }

  fillBetween(g, points) {
    const whole = points.filter((p) => p[1] !== null && this.y(p[2]) !== null);
    g.globalAlpha = 0.16;
    g.beginPath();
    for (const p of whole) g.lineTo(this.x(p[0]), this.y(p[3]));
    for (const p of whole.reverse()) g.lineTo(this.x(p[0]), this.y(p[2]));
    g.fill();
  }
  fillBelow(g, points) {
    const whole = points.filter((p) => p[1] !== null), column = this.options.exact ? 1 : 4;
    if (whole.length === 0) return;
    g.globalAlpha = 0.1;
    g.beginPath();
    g.moveTo(this.x(whole[0][0]), this.frame.bottom);
    for (const p of whole) g.lineTo(this.x(p[0]), this.y(p[column]));
    g.lineTo(this.x(whole[whole.length - 1][0]), this.frame.bottom);
    g.fill();
    g.globalAlpha = 1;
  }

  drawValidation(g, curve) {
    const points = this.visible(curve.points).filter((p) => p[1] !== null && this.y(p[1]) !== null);
    g.strokeStyle = g.fillStyle = this.colour("mark");
    g.lineWidth = 1.5;
    g.setLineDash([6, 4]);
    this.path(g, points, 1);
    g.stroke();
    g.setLineDash([]);
    const apart = (this.frame.right - this.frame.left) / Math.max(points.length, 1), radius = Math.min(Math.max(apart / 3, 1.5), 4);
    for (const p of points) {
      g.beginPath();
      g.arc(this.x(p[0]), this.y(p[1]), radius, 0, 7);
      g.fillStyle = this.colour("card");
      g.fill();
      g.fillStyle = this.colour("mark");
      g.beginPath();
      g.arc(this.x(p[0]), this.y(p[1]), radius - 1, 0, 7);
      g.fill();
    }
  }

  drawCursor(g) {
    const f = this.frame, step = this.view.cursor;
    if (this.dragged) {
      g.fillStyle = this.colour("good");
      g.globalAlpha = 0.14;
      const [a, b] = this.dragged;
      g.fillRect(Math.min(a, b), f.top, Math.abs(b - a), f.bottom - f.top);
      g.globalAlpha = 1;
    }
    if (step === null || step < f.x0 || step > f.x1) return;
    const x = Math.round(this.x(step)) + 0.5;
    g.strokeStyle = this.colour("muted");
    g.globalAlpha = 0.7;
    g.lineWidth = 1;
    g.beginPath();
    g.moveTo(x, f.top);
    g.lineTo(x, f.bottom);
    g.stroke();
    g.globalAlpha = 1;
  }

  // ---- Saving ----

  // Every point of the visible curves, over the whole run.
  csv() {
    const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const rows = this.curves.flatMap((curve) => curve.points.map((p) => [quoted(curve.name), ...p.map((v) => (v === null ? "nan" : Number(v.toPrecision(6))))].join()));
    return ["curve,step,mean,least,greatest,smoothed", ...rows].join("\n") + "\n";
  }
  // Two buttons that save the visible part, named after the run and the plot.
  savers(title, run) {
    const name = `${run} ${title}`.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-");
    const button = (kind, save) => {
      const made = document.createElement("button");
      made.type = "button";
      made.className = "quiet";
      made.textContent = kind;
      made.setAttribute("aria-label", `Save ${title} as ${kind}`);
      made.addEventListener("click", save);
      return made;
    };
    return [
      button("CSV", () => download(`${name}.csv`, new Blob([this.csv()], { type: "text/csv" }))),
      button("PNG", () => this.picture(`${title} · ${run}`).toBlob((blob) => download(`${name}.png`, blob))),
    ];
  }
  picture(title) {
    const made = document.createElement("canvas"), g = made.getContext("2d"), scale = window.devicePixelRatio || 1, head = 30 * scale;
    made.width = this.canvas.width;
    made.height = this.canvas.height + head;
    g.fillStyle = this.colour("card");
    g.fillRect(0, 0, made.width, made.height);
    g.fillStyle = this.colour("ink");
    g.font = `600 ${14 * scale}px ${getComputedStyle(document.body).fontFamily}`;
    g.textBaseline = "middle";
    g.fillText(title, 8 * scale, head / 2);
    g.drawImage(this.canvas, 0, head);
    return made;
  }

  // ---- Pointing ----

  stepAt(clientX) {
    const f = this.frame, x = clientX - this.canvas.getBoundingClientRect().left;
    return f.x0 + (Math.min(Math.max(x, f.left), f.right) - f.left) / (f.right - f.left) * (f.x1 - f.x0);
  }
  training() { return this.curves.find((c) => c.kind === "training" && c.points.length > 0) || this.curves.find((c) => c.points.length > 0); }
  nearest(step) {
    const curve = this.training();
    return curve ? curve.points[pointAt(curve.points, step)][0] : null;
  }
  // [name, value as text] at a step.
  valuesAt(step) {
    const rows = [];
    for (const curve of this.curves) {
      if (curve.points.length === 0) continue;
      const p = curve.points[pointAt(curve.points, step)];
      if (curve.kind === "validation") {
        rows.push([`${curve.name}, step ${p[0].toLocaleString("en")}`, formatNumber(p[1], this.options.percent)]);
      } else {
        rows.push([curve.name, formatNumber(p[1], this.options.percent)], ["smoothed", formatNumber(p[4], this.options.percent)]);
      }
    }
    return rows;
  }

  listen() {
    const canvas = this.canvas;
    let start = null;
    canvas.addEventListener("pointermove", (event) => {
      if (!this.frame) return;
      if (start !== null) {
        const box = canvas.getBoundingClientRect();
        this.dragged = [start - box.left, event.clientX - box.left];
        this.redraw();
      }
      this.view.setCursor(this.nearest(this.stepAt(event.clientX)));
    });
    canvas.addEventListener("pointerleave", () => { if (document.activeElement !== canvas) this.view.setCursor(null); });
    canvas.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch" || event.button !== 0) return;  // a finger scrolls
      start = event.clientX;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", (event) => {
      const from = start;
      start = this.dragged = null;
      if (from === null || Math.abs(event.clientX - from) < 12) return this.redraw();
      const range = [this.stepAt(Math.min(from, event.clientX)), this.stepAt(Math.max(from, event.clientX))].map(Math.round);
      if (range[1] - range[0] >= 2) this.view.setZoom(range);
    });
    canvas.addEventListener("dblclick", () => this.view.setZoom(null));
    canvas.addEventListener("blur", () => this.view.setCursor(null));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const curve = this.training();
    if (!curve) return;
    const points = curve.points, [low, high] = this.range();
    let place = this.view.cursor === null ? points.length : pointAt(points, this.view.cursor);
    const far = Math.max(1, Math.round(points.length / 20));
    switch (event.key) {
      case "ArrowLeft": place -= event.shiftKey ? far : 1; break;
      case "ArrowRight": place += event.shiftKey ? far : 1; break;
      case "Home": place = 0; break;
      case "End": place = points.length - 1; break;
      case "+": case "=": case "-": {
        const middle = this.view.cursor === null ? (low + high) / 2 : this.view.cursor;
        const half = (high - low) * (event.key === "-" ? 1 : 0.25);
        const end = this.last;
        const range = [Math.max(0, Math.round(middle - half)), Math.min(end, Math.round(middle + half))];
        this.view.setZoom(range[0] === 0 && range[1] === end || range[1] - range[0] < 2 ? null : range);
        return event.preventDefault();
      }
      case "Escape": this.view.setZoom(null); this.view.setCursor(null); return;
      default: return;
    }
    event.preventDefault();
    place = Math.min(Math.max(place, 0), points.length - 1);
    this.view.setCursor(points[place][0]);
    this.options.read?.(this);
  }
}
