"use strict";
// The vulnerability plane: a cloud of all records on a canvas, a slider over checkpoints, a brush, one
// record's way. Positions come from typed arrays; text from data is only ever set as textContent.
(() => {
  const root = document.getElementById("plane");
  if (!root || !("DecompressionStream" in window)) return;
  const { array, colour, onTheme, timed } = window.leakscope;
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const about = JSON.parse(part("about").textContent);
  const canvas = part("cloud"), overlay = part("overlay");
  const LEFT = 56, TOP = 10, SIZE = 534, MARGIN = 0.06; // as in plane.html.j2
  const ROWS = 50, NEVER = -1, UNKNOWN = 255, STEP_MS = 500, MOVE_MS = 350;
  const share = (rate) => (rate + MARGIN) / (1 + 2 * MARGIN);
  const X = (fpr) => LEFT + SIZE * share(fpr), Y = (tpr) => TOP + SIZE * (1 - share(tpr));
  const percent = (value, digits = 0) => `${(100 * value).toFixed(digits)}%`;
  const state = { run: null, at: 0, region: null, brush: null, record: null, rows: ROWS, player: 0 };

  // ---- a run's numbers ----
  const loaded = new Map();
  async function load(k) {
    const info = about.runs[k];
    const names = ["levels", "fpr", "tpr", "ids", "labels", "vulnerable", "first"];
    if (info.measures.length) names.push("hardness");
    const found = await Promise.all(names.map((name) => array(`plane${k}-${name}`)));
    const run = { ...info, ...Object.fromEntries(names.map((name, i) => [name, found[i].values])) };
    run.labelNames = info.labels;
    run.inCorner = info.vulnerable; // shares over checkpoints; found[5] says which records at the end
    run.finally = found[5].values;
    run.jitter = jitter(run.records, Math.max(0.004, Math.min(0.045, 0.84 / info.models)));
    run.drawn = new Float32Array(2 * run.records);
    run.typical = meanAdvantage(run);
    run.loudest = 0;
    return run;
  }
  function jitter(n, radius) { // the same every time: a golden-ratio spiral inside a disc
    const offsets = new Float32Array(2 * n);
    for (let i = 0; i < n; i++) {
      const r = radius * Math.sqrt(((i + 0.5) * 0.7548776662) % 1), angle = 2 * Math.PI * ((i * 0.5698402910) % 1);
      offsets[2 * i] = r * Math.cos(angle);
      offsets[2 * i + 1] = r * Math.sin(angle);
    }
    return offsets;
  }
  const rate = (run, which, t, i) => run.levels[run[which][t * run.records + i]];
  const advantage = (run, t, i) => rate(run, "tpr", t, i) - rate(run, "fpr", t, i);
  function meanAdvantage(run) {
    const sums = new Float32Array(run.records);
    for (let t = 0; t < run.epochs.length; t++) for (let i = 0; i < run.records; i++) sums[i] += advantage(run, t, i);
    return sums;
  }
  const stationOf = (run, t, i) => [rate(run, "fpr", t, i) + run.jitter[2 * i], rate(run, "tpr", t, i) + run.jitter[2 * i + 1]];
  function moveAll(run, at) { // where each record is drawn, between two checkpoints while it moves
    const { levels, fpr, tpr, jitter: apart, drawn, records: n } = run;
    const t = Math.floor(at), f = at - t, now = t * n, next = f ? now + n : now;
    for (let i = 0; i < n; i++) {
      drawn[2 * i] = (1 - f) * levels[fpr[now + i]] + f * levels[fpr[next + i]] + apart[2 * i];
      drawn[2 * i + 1] = (1 - f) * levels[tpr[now + i]] + f * levels[tpr[next + i]] + apart[2 * i + 1];
    }
  }

  // ---- the cloud: dots are counted a pixel, counts become colours ----
  function disc(radius, width) {
    if (radius === 1) return [0, 1, width, width + 1];
    const offsets = [];
    for (let dy = -radius; dy <= radius; dy++) for (let dx = -radius; dx <= radius; dx++) {
      if (dx * dx + dy * dy <= radius * (radius + 0.8)) offsets.push(dy * width + dx);
    }
    return offsets;
  }
  function counted(run, width, dot) {
    const all = new Uint16Array(width * width), finally_ = new Uint16Array(width * width);
    const reach = width - 9; // a dot never leaves the picture
    for (let i = 0; i < run.records; i++) {
      const x = Math.round(width * share(run.drawn[2 * i])), y = Math.round(width * (1 - share(run.drawn[2 * i + 1])));
      const centre = Math.min(reach, Math.max(8, y)) * width + Math.min(reach, Math.max(8, x));
      for (let k = 0; k < dot.length; k++) {
        all[centre + dot[k]]++;
        finally_[centre + dot[k]] += run.finally[i];
      }
    }
    return { all, finally_ };
  }
  const rgb = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
  function paint(run, at) {
    const width = Math.min(1200, Math.round(canvas.clientWidth * Math.min(2, devicePixelRatio || 1))) || 600;
    if (canvas.width !== width) canvas.width = canvas.height = width;
    const wanted = run.records > 20000 ? 1 : run.records > 4000 ? 1.5 : run.records > 800 ? 2.2 : 3;
    const dot = disc(Math.max(1, Math.round((wanted * width) / 534)), width);
    moveAll(run, at);
    const { all, finally_ } = counted(run, width, dot);
    run.loudest ||= Math.max(3, all.reduce((most, n) => Math.max(most, n), 0) / 2);
    const context = canvas.getContext("2d"), picture = context.createImageData(width, width);
    const [other, vulnerable] = [rgb(colour("--c0")), rgb(colour("--c1"))], pixels = picture.data;
    for (let p = 0; p < all.length; p++) {
      if (!all[p]) continue;
      const mix = finally_[p] / all[p], strength = Math.min(1, Math.log1p(all[p]) / Math.log1p(run.loudest));
      for (let c = 0; c < 3; c++) pixels[4 * p + c] = other[c] + mix * (vulnerable[c] - other[c]);
      pixels[4 * p + 3] = 70 + 185 * strength;
    }
    context.putImageData(picture, 0, 0);
  }

  // ---- what lies over the cloud ----
  const points = (pairs) => pairs.map(([x, y]) => `${X(x).toFixed(1)},${Y(y).toFixed(1)}`).join(" ");
  function place(element, [x, y]) {
    element.setAttribute("cx", X(x));
    element.setAttribute("cy", Y(y));
  }
  function svg(name, attributes, text = "") {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
    element.textContent = text;
    return element;
  }
  function drawOverlay(run, t) {
    part("trail").setAttribute("points", points(run.centre.slice(0, t + 1)));
    place(part("centre"), run.centre[t]);
    const i = state.record, way = part("path"), stops = part("stops");
    stops.replaceChildren();
    way.setAttribute("points", "");
    if (i === null) return;
    const stations = run.epochs.map((_, k) => stationOf(run, k, i));
    way.setAttribute("points", points(stations));
    for (const [k, kind, r] of [[0, "first", 6], [run.epochs.length - 1, "last", 6], [t, "now", 8]]) {
      const stop = svg("circle", { class: `stop ${kind}`, r });
      place(stop, stations[k]);
      stops.append(stop);
    }
  }
  function say(run, t) {
    const chance = run.chance[t], n = run.records.toLocaleString("en");
    part("now").textContent = `${run.epochs[t]} of ${run.epochs.at(-1)}: ${percent(run.inCorner[t], 1)} in the corner`
      + (chance === null ? "" : ` (${percent(chance, 1)} by chance)`) + `, ${n} records shown`;
    part("epoch").setAttribute("aria-valuetext", `epoch ${run.epochs[t]}`);
  }

  // ---- the list of a region ----
  function inCell(run, t, i, cell) {
    const third = (value) => Math.min(about.side - 1, Math.floor(value * about.side + 1e-5));
    return third(rate(run, "fpr", t, i)) * about.side + third(rate(run, "tpr", t, i)) === cell;
  }
  function isWithin(run, t, i) {
    if (state.region === null) return true;
    if (state.region !== "brush") return inCell(run, t, i, state.region);
    const [x, y] = stationOf(run, t, i), { left, right, bottom, top } = state.brush;
    return x >= left && x <= right && y >= bottom && y <= top;
  }
  function chosen(run, t) { // most exposed now first; of equals, the one exposed most all along
    const wanted = part("search").value.trim().toLowerCase(), found = [];
    for (let i = 0; i < run.records; i++) {
      if (!isWithin(run, t, i)) continue;
      const text = wanted && `${run.ids[i]}\n${run.labelNames[run.labels[i]]}`.toLowerCase();
      if (!wanted || text.includes(wanted)) found.push(i);
    }
    const order = (i) => 1000 * advantage(run, t, i) + run.typical[i] / run.epochs.length;
    const least = Float64Array.from(found, order).sort().at(-Math.min(state.rows, found.length)); // of those shown
    const top = found.filter((i) => order(i) >= least).sort((a, b) => order(b) - order(a));
    return { total: found.length, first: top.slice(0, state.rows) };
  }
  function cell(text, kind) {
    const element = document.createElement("td");
    element.className = kind;
    element.textContent = text;
    return element;
  }
  function row(run, t, i) {
    const line = document.createElement("tr"), name = document.createElement("th");
    const open = document.createElement("button");
    Object.assign(open, { type: "button", textContent: run.ids[i], title: run.ids[i] });
    open.dataset.record = i;
    name.scope = "row";
    name.append(open);
    const since = run.first[i] === NEVER ? "never" : `epoch ${run.first[i]}`;
    const rates = ["fpr", "tpr"].map((which) => percent(rate(run, which, t, i)));
    line.append(name, cell(run.labelNames[run.labels[i]], ""), ...rates.map((text) => cell(text, "number")),
      cell(advantage(run, t, i).toFixed(2), "number"), cell(since, "number"));
    return line;
  }
  function list(run, t) {
    const { total, first } = chosen(run, t);
    part("rows").replaceChildren(...first.map((i) => row(run, t, i)));
    const n = total.toLocaleString("en"), shown = first.length;
    part("count").textContent = total === 0 ? `No record there at epoch ${run.epochs[t]}.`
      : `${n} record${total > 1 ? "s" : ""} there at epoch ${run.epochs[t]}`
        + (shown < total ? `; the ${shown} most exposed are listed.` : ".");
    part("more").hidden = shown === total;
  }

  // ---- one record's way ----
  function ways(run, i) {
    const at = (t) => 40 + (330 * (run.epochs[t] - run.epochs[0])) / Math.max(1, run.epochs.at(-1) - run.epochs[0]);
    const up = (value) => 100 - 85 * value;
    const picture = svg("svg", { viewBox: "0 0 440 135", role: "img", "aria-label": "Its rates over training" });
    for (const [value, text] of [[0, "0%"], [0.5, "50%"], [1, "100%"]]) {
      picture.append(svg("path", { class: "rule", d: `M40 ${up(value)}H370` }));
      picture.append(svg("text", { x: 34, y: up(value) + 4, "text-anchor": "end" }, text));
    }
    for (const [which, words, hue] of [["tpr", "TPR", "--c1"], ["fpr", "FPR", "--c0"]]) {
      const line = run.epochs.map((_, t) => `${at(t).toFixed(1)},${up(rate(run, which, t, i)).toFixed(1)}`);
      picture.append(svg("polyline", { class: "line", style: `stroke:var(${hue})`, points: line.join(" ") }));
      if (line.length === 1) {
        const [cx, cy] = line[0].split(",");
        picture.append(svg("circle", { cx, cy, r: 4, style: `fill:var(${hue})` }));
      }
      const end = up(rate(run, which, run.epochs.length - 1, i)) + (which === "tpr" ? 0 : 9);
      picture.append(svg("text", { x: 376, y: end, style: `fill:var(${hue})` }, words));
    }
    picture.append(svg("text", { x: 40, y: 125, "text-anchor": "middle" }, run.epochs[0]));
    picture.append(svg("text", { x: 370, y: 125, "text-anchor": "middle" }, `epoch ${run.epochs.at(-1)}`));
    return picture;
  }
  function numbers(run, i) {
    const details = document.createElement("details"), table = document.createElement("table");
    const summary = document.createElement("summary");
    summary.textContent = "The numbers as a table";
    const line = (texts, tag) => {
      const element = document.createElement("tr");
      element.append(...texts.map((text) => Object.assign(document.createElement(tag), { textContent: text, className: "number" })));
      return element;
    };
    table.append(line(["epoch", "FPR", "TPR", "advantage"], "th"));
    run.epochs.forEach((epoch, t) => table.append(line([epoch, percent(rate(run, "fpr", t, i)),
      percent(rate(run, "tpr", t, i)), advantage(run, t, i).toFixed(2)], "td")));
    details.append(summary, table);
    return details;
  }
  function hardnessWords(run, i) {
    const known = run.measures.map((name, m) => [name, run.hardness[m * run.records + i]]).filter(([, p]) => p !== UNKNOWN);
    return known.length ? `Harder than so many of the records, by ${known.map(([name, p]) => `${name} ${p}%`).join(", ")}.` : "";
  }
  function open(i) {
    const run = state.run, panel = part("record"), last = run.epochs.length - 1;
    state.record = i;
    const texts = [
      `Label ${run.labelNames[run.labels[i]]}. Advantage at the end ${advantage(run, last, i).toFixed(2)}; `
        + (run.first[i] === NEVER ? "never in the corner." : `first in the corner at epoch ${run.first[i]}`
          + (run.finally[i] ? ", and there at the end." : ", not there at the end.")),
      hardnessWords(run, i),
    ];
    const close = Object.assign(document.createElement("button"), { type: "button", textContent: "Close", className: "close" });
    close.addEventListener("click", shut);
    panel.replaceChildren(close, Object.assign(document.createElement("h3"), { textContent: run.ids[i] }),
      ...texts.filter(Boolean).map((text) => Object.assign(document.createElement("p"), { textContent: text })),
      ways(run, i), numbers(run, i));
    panel.hidden = false;
    panel.focus({ preventScroll: innerWidth > 960 });
    drawOverlay(run, Math.round(state.at));
  }
  function shut() {
    state.record = null;
    part("record").hidden = true;
    drawOverlay(state.run, Math.round(state.at));
    part("epoch").focus({ preventScroll: true });
  }

  // ---- moving ----
  function show(t) {
    state.at = t;
    part("epoch").value = t;
    paint(state.run, t);
    drawOverlay(state.run, t);
    say(state.run, t);
    list(state.run, t);
  }
  async function step(t) {
    await timed("plane step", () => show(t));
    const { timings } = window.leakscope;
    timings["slowest plane step"] = Math.max(timings["slowest plane step"] ?? 0, timings["plane step"]);
  }
  function stop() {
    cancelAnimationFrame(state.player);
    state.player = 0;
    part("play").textContent = "▶ Play";
    part("play").setAttribute("aria-pressed", "false");
  }
  function play() {
    if (state.player) { stop(); return; }
    const last = state.run.epochs.length - 1, still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    let from = Math.round(state.at) === last ? 0 : Math.round(state.at), since = null;
    part("play").textContent = "❚❚ Pause";
    part("play").setAttribute("aria-pressed", "true");
    show(from);
    const frame = (now) => {
      since ??= now;
      const moved = (now - since) / MOVE_MS;
      if (now - since >= STEP_MS) {
        since = now;
        show(++from);
        if (from === last) { stop(); return; }
      } else if (!still && moved > 0 && moved < 1) {
        state.at = from + moved;
        paint(state.run, state.at);
      } else if (moved >= 1 && state.at !== from + 1 && !still) {
        state.at = from + 1;
        paint(state.run, state.at);
      }
      state.player = requestAnimationFrame(frame);
    };
    state.player = requestAnimationFrame(frame);
  }

  // ---- brush and click ----
  function rates(event) {
    const box = overlay.getBoundingClientRect(), scale = 600 / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    return [((x - LEFT) / SIZE) * (1 + 2 * MARGIN) - MARGIN, (1 - (y - TOP) / SIZE) * (1 + 2 * MARGIN) - MARGIN];
  }
  let start = null;
  function brushTo([x, y]) {
    const [x0, y0] = start.rates, frame = part("brush");
    state.brush = { left: Math.min(x, x0), right: Math.max(x, x0), bottom: Math.min(y, y0), top: Math.max(y, y0) };
    const { left, right, bottom, top } = state.brush;
    Object.entries({ x: X(left), y: Y(top), width: X(right) - X(left), height: Y(bottom) - Y(top) })
      .forEach(([name, value]) => frame.setAttribute(name, value));
    frame.removeAttribute("hidden");
  }
  overlay.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !state.run) return;
    start = { rates: rates(event), x: event.clientX, y: event.clientY, moved: false };
    overlay.setPointerCapture(event.pointerId);
  });
  overlay.addEventListener("pointermove", (event) => {
    if (!start) return;
    start.moved ||= Math.hypot(event.clientX - start.x, event.clientY - start.y) > 4;
    if (start.moved) brushTo(rates(event));
  });
  overlay.addEventListener("pointercancel", () => { start = null; });
  overlay.addEventListener("pointerup", (event) => {
    if (!start) return;
    if (start.moved) {
      const option = part("region").querySelector('[value="brush"]');
      option.hidden = false;
      part("region").value = "brush";
      regionChanged();
    } else {
      const nearest = nearestTo(rates(event));
      if (nearest !== null) open(nearest);
    }
    start = null;
  });
  function nearestTo([x, y]) {
    let best = null, least = 0.02 ** 2; // a fiftieth of the side
    for (let i = 0; i < state.run.records; i++) {
      const distance = (state.run.drawn[2 * i] - x) ** 2 + (state.run.drawn[2 * i + 1] - y) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  }
  function regionChanged() {
    const value = part("region").value;
    state.region = value === "" ? null : value === "brush" ? "brush" : Number(value);
    if (state.region !== "brush") part("brush").setAttribute("hidden", "");
    state.rows = ROWS;
    list(state.run, Math.round(state.at));
  }

  // ---- a run at a time ----
  async function choose(k) {
    stop();
    if (!loaded.has(k)) loaded.set(k, load(k));
    const run = await loaded.get(k);
    Object.assign(state, { run, record: null, rows: ROWS });
    const last = run.epochs.length - 1;
    Object.assign(part("epoch"), { max: last, disabled: last === 0 });
    part("play").disabled = last === 0;
    part("record").hidden = true;
    await timed("plane opened", () => show(last));
    root.dataset.state = "ready";
  }
  part("epoch").addEventListener("input", (event) => { stop(); step(Number(event.target.value)); });
  part("play").addEventListener("click", play);
  part("region").addEventListener("change", regionChanged);
  part("search").addEventListener("input", () => { state.rows = ROWS; list(state.run, Math.round(state.at)); });
  part("more").addEventListener("click", () => { state.rows += 4 * ROWS; list(state.run, Math.round(state.at)); });
  part("rows").addEventListener("click", (event) => {
    const button = event.target.closest("[data-record]");
    if (button) open(Number(button.dataset.record));
  });
  part("run")?.addEventListener("change", (event) => choose(Number(event.target.value)));
  root.addEventListener("keydown", (event) => { if (event.key === "Escape" && state.record !== null) shut(); });
  onTheme(() => state.run && paint(state.run, state.at));
  new ResizeObserver(() => state.run && paint(state.run, state.at)).observe(canvas);
  requestAnimationFrame(() => setTimeout(() => choose(0))); // after the first paint
})();
