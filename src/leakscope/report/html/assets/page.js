"use strict";
// What every page shares: theme, arrays, charts. Text from data is only ever set as textContent.
window.leakscope = (() => {
  const root = document.documentElement;
  const themeListeners = [];
  const timings = {};

  // ---- theme: the system's until somebody chooses ----
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  let chosen = null;

  function applyTheme(theme) {
    if (root.dataset.theme === theme) return;
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    themeListeners.forEach((listener) => listener(theme));
  }
  const wanted = () => chosen ?? (prefersDark.matches ? "dark" : "light");
  prefersDark.addEventListener("change", () => applyTheme(wanted()));
  button.addEventListener("click", () => {
    chosen = wanted() === "dark" ? "light" : "dark";
    applyTheme(chosen);
  });
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  // ---- arrays: base64, deflated; unpacked when asked for ----
  const KINDS = {
    uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array,
    uint32: Uint32Array, int32: Int32Array, float32: Float32Array, float64: Float64Array,
  };
  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  }
  async function read(element) {
    const { kind, shape, low, step } = element.dataset;
    const buffer = await unpacked(element.textContent);
    let values = kind === "text" ? JSON.parse(new TextDecoder().decode(buffer)) : new KINDS[kind](buffer);
    if (Number(step)) values = dequantised(values, Number(low), Number(step));
    return { values, shape: shape.split(",").map(Number) };
  }
  function dequantised(codes, low, step) {
    const missing = codes.BYTES_PER_ELEMENT === 1 ? 255 : 65535;
    return Float32Array.from(codes, (code) => (code === missing ? NaN : low + step * code));
  }
  const promised = new Map();
  function array(name) {
    if (!promised.has(name)) {
      const element = [...document.querySelectorAll("script.array")].find((s) => s.dataset.name === name);
      if (!element) return Promise.reject(new Error(`no array ${name} in this page`));
      promised.set(name, read(element));
    }
    return promised.get(name);
  }
  const has = (name) => [...document.querySelectorAll("script.array")].some((s) => s.dataset.name === name);

  // ---- charts: plotly is unpacked after the first paint, a chart is drawn when it comes near ----
  let plotly = null;
  function loadPlotly() {
    plotly ??= unpacked(document.getElementById("plotly").textContent).then((buffer) => {
      const script = document.createElement("script");
      script.textContent = new TextDecoder().decode(buffer); // the policy knows its hash
      document.body.append(script);
      return window.Plotly;
    });
    return plotly;
  }
  function coloured(value) {
    if (typeof value === "string") return value.replace(/var\((--[\w-]+)\)/g, (_, name) => colour(name));
    if (Array.isArray(value)) return typeof value.at(-1) === "number" ? value : value.map(coloured);
    if (value && value.constructor === Object) {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, coloured(inner)]));
    }
    return value;
  }
  function themedLayout(layout, plot) {
    const axis = {
      gridcolor: colour("--grid"), linecolor: colour("--line"), zerolinecolor: colour("--line"),
      tickcolor: colour("--line"), automargin: true,
    };
    const own = coloured(layout);
    const axes = Object.keys(own).filter((key) => /^[xy]axis/.test(key));
    const narrow = plot.clientWidth < 520;
    const themed = {
      autosize: true, height: Number(plot.dataset.height), margin: { l: 56, r: 12, t: 24, b: 48 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--ink"), size: narrow ? 11 : 13, family: getComputedStyle(document.body).fontFamily },
      hoverlabel: { bgcolor: colour("--raised"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
      legend: narrow ? { orientation: "h", y: -0.25 } : {},
      ...own,
    };
    for (const key of new Set(["xaxis", "yaxis", ...axes])) themed[key] = { ...axis, ...(own[key] ?? {}) };
    return themed;
  }
  const figures = new Map(); // id -> figure as given, once drawn or asked for
  const drawn = new Set();
  function figure(id) {
    if (!figures.has(id)) {
      figures.set(id, JSON.parse(document.querySelector(`#${CSS.escape(id)} > script.figure`).textContent));
    }
    return figures.get(id);
  }
  async function draw(id, changed) {
    if (changed) figures.set(id, changed);
    const { data, layout } = figure(id);
    const library = await loadPlotly();
    const plot = document.querySelector(`#${CSS.escape(id)} > .plot`);
    drawn.add(id);
    const options = { responsive: true, displayModeBar: false };
    return library.react(plot, coloured(data), themedLayout(layout ?? {}, plot), options);
  }
  function drawWhenNear() {
    const charts = [...document.querySelectorAll(".chart[id]")]
      .filter((c) => c.querySelector("script.figure") && !c.closest("dialog"));
    charts.forEach((c) => { c.querySelector(".plot").style.minHeight = `${c.querySelector(".plot").dataset.height}px`; });
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries.filter((e) => e.isIntersecting)) {
        observer.unobserve(entry.target);
        if (!drawn.has(entry.target.id)) draw(entry.target.id);
      }
    }, { rootMargin: "400px" });
    charts.forEach((c) => observer.observe(c));
    return charts.map((c) => c.id);
  }
  const redrawAll = () => [...drawn].forEach((id) => draw(id));

  // ---- measured by the page itself: from an action to the frame that shows it, in milliseconds ----
  let acted = -Infinity; // when somebody last did something that is timed
  async function timed(name, action) {
    const start = (acted = performance.now());
    const result = await action();
    await new Promise((shown) => requestAnimationFrame(() => setTimeout(shown)));
    timings[name] = performance.now() - start;
    return result;
  }

  // ---- menu: where the reader is ----
  function followScroll() {
    const links = new Map([...document.querySelectorAll(".top nav a")].map((a) => [a.hash.slice(1), a]));
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries.filter((e) => e.isIntersecting)) {
        links.forEach((link) => link.removeAttribute("aria-current"));
        links.get(entry.target.id)?.setAttribute("aria-current", "true");
      }
    }, { rootMargin: "-20% 0px -70% 0px" });
    document.querySelectorAll("main > section[id]").forEach((section) => observer.observe(section));
  }

  // ---- paper: light, and every chart drawn ----
  let ids = [];
  addEventListener("beforeprint", () => {
    applyTheme("light");
    ids.filter((id) => !drawn.has(id)).forEach((id) => draw(id));
  });
  addEventListener("afterprint", () => applyTheme(wanted()));

  themeListeners.push(redrawAll);
  applyTheme(wanted());
  if (!("DecompressionStream" in window)) {
    document.getElementById("old-browser").hidden = false;
  } else {
    ids = drawWhenNear();
    // Those far away are drawn when there is nothing else to do, so that printing finds them.
    const idle = window.requestIdleCallback ?? ((f) => setTimeout(f, 50));
    const drawNext = () => {
      const next = ids.find((id) => !drawn.has(id));
      if (performance.now() - acted < 1000) setTimeout(drawNext, 500); // somebody moves a slider: not now
      else if (next) draw(next).then(() => idle(drawNext));
    };
    addEventListener("load", () => setTimeout(() => idle(drawNext), 500));
  }
  followScroll();
  return { array, has, figure, draw, colour, onTheme: (f) => themeListeners.push(f), timed, timings };
})();
