"use strict";
// Interaction with the vulnerability plane: slider, play, brush, one record's path. The controls are disabled
// until the page has settled (see charts.js), so that the first step is as fast as any other.
(() => {
  const root = document.getElementById("plane");
  if (!root || !("DecompressionStream" in window)) return;
  const { element, hold, nextFrame, onTheme, opening, settled, timed } = window.leakscope;
  const { load, stationOf, nearestTo, paint, X, Y, ratesAt, SIDE } = window.leakscope.plane;
  const { mostExposed, row, countWords, panelOf, percent, svg } = window.leakscope.plane;
  const ROWS = 50, STEP_MS = 500, MOVE_MS = 350;
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const about = JSON.parse(part("about").textContent);
  const canvas = part("cloud"), overlay = part("overlay");
  const state = { run: null, at: 0, region: null, brush: null, record: null, rows: ROWS, player: 0 };
  const now = () => Math.round(state.at);

  // ---- the overlay, and the list ----
  const points = (pairs) => pairs.map(([x, y]) => `${X(x).toFixed(1)},${Y(y).toFixed(1)}`).join(" ");
  function drawOverlay(run, t) {
    part("trail").setAttribute("points", points(run.centre.slice(0, t + 1)));
    const [x, y] = run.centre[t];
    Object.entries({ cx: X(x), cy: Y(y) }).forEach(([key, value]) => part("centre").setAttribute(key, value));
    const i = state.record, last = run.epochs.length - 1;
    const stations = i === null ? [] : run.epochs.map((_, k) => stationOf(run, k, i));
    const stops = i === null ? [] : [[0, "first", 6], [last, "last", 6], [t, "now", 8]];
    part("path").setAttribute("points", points(stations));
    part("stops").replaceChildren(...stops.map(([k, kind, r]) => svg("circle",
      { class: `stop ${kind}`, r, cx: X(stations[k][0]), cy: Y(stations[k][1]) })));
  }
  function describe(run, t) {
    const chance = run.chance[t], n = run.records.toLocaleString("en");
    part("now").textContent = `${run.epochs[t]} of ${run.epochs.at(-1)}: ${percent(run.inCorner[t], 1)} in the corner`
      + (chance === null ? "" : ` (${percent(chance, 1)} by chance)`) + `, ${n} records`;
    part("epoch").setAttribute("aria-valuetext", `epoch ${run.epochs[t]}`);
  }
  function list(run, t) {
    const { total, first } = mostExposed(run, t, state.region, part("search").value, state.rows);
    part("rows").replaceChildren(...first.map((i) => row(run, t, i)));
    part("count").textContent = countWords(run, t, total, first.length);
    part("more").hidden = first.length === total;
  }
  function listAgain(rows) {
    state.rows = rows;
    list(state.run, now());
  }
  function open(i) {
    const panel = part("record"), close = element("button", "Close", { type: "button", className: "close" });
    close.addEventListener("click", shut);
    panel.replaceChildren(close, ...panelOf(state.run, i));
    state.record = i;
    panel.hidden = false;
    panel.focus({ preventScroll: innerWidth > 960 });
    drawOverlay(state.run, now());
  }
  function shut() {
    state.record = null;
    part("record").hidden = true;
    drawOverlay(state.run, now());
    part("epoch").focus({ preventScroll: true });
  }

  // ---- moving ----
  function show(t) {
    state.at = t;
    part("epoch").value = t;
    paint(canvas, state.run, t);
    drawOverlay(state.run, t);
    describe(state.run, t);
    list(state.run, t);
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
    let from = now() === last ? 0 : now(), since = null;
    part("play").textContent = "❚❚ Pause";
    part("play").setAttribute("aria-pressed", "true");
    show(from);
    const frame = (time) => {
      hold();
      since ??= time;
      const moved = Math.min(1, (time - since) / MOVE_MS);
      if (time - since >= STEP_MS) {
        since = time;
        show(++from);
        if (from === last) { stop(); return; }
      } else if (!still && moved > 0 && state.at !== from + moved) {
        state.at = from + moved;
        paint(canvas, state.run, state.at);
      }
      state.player = requestAnimationFrame(frame);
    };
    state.player = requestAnimationFrame(frame);
  }

  // ---- brush and click ----
  function rates(event) {
    const box = overlay.getBoundingClientRect(), scale = SIDE / box.width;
    return ratesAt((event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
  }
  let start = null;
  function brushTo([x, y]) {
    const [x0, y0] = start.rates;
    const left = Math.min(x, x0), right = Math.max(x, x0), bottom = Math.min(y, y0), top = Math.max(y, y0);
    state.brush = { left, right, bottom, top };
    Object.entries({ x: X(left), y: Y(top), width: X(right) - X(left), height: Y(bottom) - Y(top) })
      .forEach(([name, value]) => part("brush").setAttribute(name, value));
    part("brush").removeAttribute("hidden");
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
    const nearest = start.moved ? null : nearestTo(state.run, rates(event));
    if (start.moved) {
      part("region").querySelector('[value="brush"]').hidden = false;
      part("region").value = "brush";
      regionChanged();
    } else if (nearest !== null) open(nearest);
    start = null;
  });
  function regionChanged() {
    const { value } = part("region");
    state.region = value === "" ? null : value === "brush" ? state.brush : { cell: Number(value), side: about.side };
    if (value !== "brush") part("brush").setAttribute("hidden", "");
    listAgain(ROWS);
  }

  // ---- one run at a time ----
  const loaded = new Map();
  async function choose(k) {
    stop();
    if (!loaded.has(k)) loaded.set(k, load(k, about.runs[k]));
    const run = await loaded.get(k), last = run.epochs.length - 1;
    Object.assign(state, { run, record: null, rows: ROWS });
    part("epoch").max = last;
    part("record").hidden = true;
    await timed("plane opened", () => show(last));
  }
  function allow() { // enables the controls that have an effect
    const last = state.run.epochs.length - 1;
    for (const name of ["epoch", "play"]) part(name).disabled = last === 0;
    for (const name of ["run", "region", "search"]) if (part(name)) part(name).disabled = false;
    root.dataset.state = "ready";
  }
  part("epoch").addEventListener("input", (event) => { stop(); timed("plane step", () => show(Number(event.target.value))); });
  part("play").addEventListener("click", play);
  part("region").addEventListener("change", regionChanged);
  part("search").addEventListener("input", () => listAgain(ROWS));
  part("more").addEventListener("click", () => listAgain(state.rows + 4 * ROWS));
  part("rows").addEventListener("click", (event) => {
    const button = event.target.closest("[data-record]");
    if (button) open(Number(button.dataset.record));
  });
  part("run")?.addEventListener("change", (event) => choose(Number(event.target.value)).then(allow));
  root.addEventListener("keydown", (event) => { if (event.key === "Escape" && state.record !== null) shut(); });
  for (const kind of ["pointermove", "pointerdown", "focusin"]) root.addEventListener(kind, hold, { passive: true });
  onTheme(() => state.run && paint(canvas, state.run, state.at));
  new ResizeObserver(() => state.run && paint(canvas, state.run, state.at)).observe(canvas);
  const opened = nextFrame().then(() => choose(0)); // after the first paint
  opening(opened);
  opened.then(() => settled().finally(allow));
})();
