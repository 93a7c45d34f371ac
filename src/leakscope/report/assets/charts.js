"use strict";
// Charts. Evaluating plotly blocks the page (0.6 s on a slow core), so it is done once and early: after the first
// screen, before anything interactive opens. Then charts are drawn one at a time, the nearest first, and none
// while the user moves a slider.
Object.assign(window.leakscope, (() => {
  const { unpacked, colour, onTheme, stillness, nextFrame } = window.leakscope;
  const NEAR_MS = 600, FAR_MS = 2000, LOOK_AGAIN_MS = 100; // idle time before drawing
  const PAPER_PX = 680; // width of a chart on paper
  const NARROW_NAME = 16; // letters of a name beside a narrow chart

  // ---- plotly ----
  const openings = []; // promises of work to finish first
  let plotly = null, evaluatedPlotly = null;
  async function evaluated() {
    await nextFrame();
    const buffer = await unpacked(document.getElementById("plotly").textContent);
    await Promise.all(openings);
    const script = document.createElement("script"), start = performance.now();
    script.textContent = new TextDecoder().decode(buffer); // allowed by its hash
    document.body.append(script);
    performance.measure("plotly evaluated", { start, end: performance.now() });
    await nextFrame(); // the first chart blocks as well
    evaluatedPlotly = window.Plotly;
    return window.Plotly;
  }
  const library = () => (plotly ??= evaluated());

  // ---- a figure in the page's colours ----
  function coloured(value) {
    if (typeof value === "string") return value.replace(/var\((--[\w-]+)\)/g, (_, name) => colour(name));
    if (Array.isArray(value)) return typeof value.at(-1) === "number" ? value : value.map(coloured);
    if (value && value.constructor === Object) {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, coloured(inner)]));
    }
    return value;
  }
  const isNarrow = (plot) => plot.clientWidth < 520;
  const fitting = (data, plot) => (isNarrow(plot) // there is no room for a color bar
    ? data.map((trace) => (trace.type === "heatmap" ? { ...trace, showscale: false } : trace)) : data);
  function themedLayout(data, layout, plot) {
    const axis = {
      gridcolor: colour("--grid"), linecolor: colour("--line"), zerolinecolor: colour("--line"),
      tickcolor: colour("--line"), automargin: true,
    };
    const own = coloured(layout);
    const axes = Object.keys(own).filter((key) => /^[xy]axis/.test(key));
    const narrow = isNarrow(plot), named = data.filter((trace) => trace.name && trace.showlegend !== false);
    const below = { orientation: "h", y: -0.25, yanchor: "top" };
    const themed = {
      autosize: true, height: Number(plot.dataset.height), margin: { l: 56, r: 12, t: 24, b: 48 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--ink"), size: narrow ? 11 : 13, family: getComputedStyle(document.body).fontFamily },
      hoverlabel: { bgcolor: colour("--raised"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
      legend: {}, ...own,
    };
    if (narrow && (!own.legend || named.length > 2)) themed.legend = below; // above, it would cover the chart
    for (const key of new Set(["xaxis", "yaxis", ...axes])) themed[key] = { ...axis, ...(own[key] ?? {}) };
    if (narrow && themed.yaxis.type === "category") { // long names would leave no room for the chart
      const names = [...new Set(data.flatMap((trace) => trace.y))];
      const ticktext = names.map((name) => (name.length > NARROW_NAME ? `${name.slice(0, NARROW_NAME - 5)}…${name.slice(-4)}` : name));
      Object.assign(themed.yaxis, { tickvals: names, ticktext });
    }
    return themed;
  }

  // ---- one chart ----
  const figures = new Map(); // id -> figure, once drawn or requested
  const drawn = new Set(); // ids drawn in the current theme, or about to be
  function figure(id) {
    if (!figures.has(id)) {
      figures.set(id, JSON.parse(document.querySelector(`#${CSS.escape(id)} > script.figure`).textContent));
    }
    return figures.get(id);
  }
  async function draw(id, changed) {
    if (changed) figures.set(id, changed);
    drawn.add(id);
    const { data, layout } = figure(id);
    const plots = await library();
    const plot = document.querySelector(`#${CSS.escape(id)} > .plot`);
    const options = { responsive: true, displayModeBar: false };
    return plots.react(plot, coloured(fitting(data, plot)), themedLayout(data, layout ?? {}, plot), options);
  }

  // ---- all charts of the page ----
  const charts = [...document.querySelectorAll(".chart[id]")]
    .filter((c) => c.querySelector("script.figure") && !c.closest("dialog"));
  const ids = charts.map((c) => c.id), near = new Set();
  const missing = () => ids.filter((id) => !drawn.has(id));
  const idle = () => new Promise((free) => { (window.requestIdleCallback ?? setTimeout)(free); });
  async function drawMissing() { // also the distant ones, for printing
    await settled();
    while (missing().length) {
      const next = missing().find((id) => near.has(id)) ?? missing()[0];
      await idle();
      if (stillness() > (near.has(next) ? NEAR_MS : FAR_MS)) await draw(next);
      else await new Promise((later) => { setTimeout(later, LOOK_AGAIN_MS); });
    }
  }
  async function settled() { // plotly's first chart takes longest
    await library();
    await Promise.all(missing().slice(0, 1).map((id) => draw(id)));
  }
  function forPaper() { // every chart at the width of a sheet, before the browser takes its picture
    if (!evaluatedPlotly) return;
    for (const id of ids) {
      const { data, layout } = figure(id), plot = document.querySelector(`#${CSS.escape(id)} > .plot`);
      const sized = { ...themedLayout(data, layout ?? {}, plot), autosize: false, width: PAPER_PX };
      evaluatedPlotly.react(plot, coloured(data), sized, { responsive: true, displayModeBar: false });
      const [width, height] = [PAPER_PX, Number(plot.dataset.height)];
      plot.style.setProperty("--ratio", `${width} / ${height}`);
      plot.querySelectorAll(".main-svg").forEach((svg) => svg.setAttribute("viewBox", `0 0 ${width} ${height}`));
      drawn.add(id);
    }
  }
  let atWork = null;
  const drawAll = () => { atWork ??= drawMissing().finally(() => { atWork = null; }); };
  function follow() {
    const observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) near[isIntersecting ? "add" : "delete"](target.id);
    }, { rootMargin: "400px" });
    for (const c of charts) {
      const plot = c.querySelector(".plot");
      plot.style.minHeight = `${plot.dataset.height}px`;
      observer.observe(c);
    }
    onTheme(() => { // visible charts at once, the others in turn
      const before = [...drawn];
      drawn.clear();
      before.filter((id) => near.has(id) || !ids.includes(id)).forEach((id) => draw(id));
      drawAll();
    });
    addEventListener("beforeprint", forPaper);
    addEventListener("afterprint", () => {
      document.querySelectorAll(".chart .main-svg").forEach((svg) => svg.removeAttribute("viewBox"));
      drawn.clear();
      drawAll();
    });
    addEventListener("load", drawAll);
  }
  if ("DecompressionStream" in window) follow();
  return { figure, draw, settled, opening: (promise) => openings.push(promise) };
})());
