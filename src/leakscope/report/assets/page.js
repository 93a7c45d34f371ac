"use strict";
// Common to all pages: theme, arrays, timing, menu. Text from data is only set as textContent.
window.leakscope = (() => {
  const root = document.documentElement;

  // ---- theme: that of the system until the user chooses; print is light ----
  const themeListeners = [];
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
  let unfolded = []; // details that paper shows open
  addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("details:not([open])")];
    unfolded.forEach((details) => { details.open = true; });
    applyTheme("light");
  });
  addEventListener("afterprint", () => {
    unfolded.forEach((details) => { details.open = false; });
    applyTheme(wanted());
  });
  function element(name, text, properties = {}) {
    const made = Object.assign(document.createElement(name), properties);
    if (text !== undefined) made.textContent = text;
    return made;
  }
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  // ---- arrays: deflated base64, decoded on demand ----
  const KINDS = {
    uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array,
    uint32: Uint32Array, int32: Int32Array, float32: Float32Array, float64: Float64Array,
  };
  async function unpacked(text) {
    const letters = atob(text), bytes = new Uint8Array(letters.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i); // ten times faster than Uint8Array.from
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

  // ---- response times, in milliseconds from the input event to the next frame ----
  const nextFrame = () => new Promise((shown) => requestAnimationFrame(() => setTimeout(shown)));
  let moved = -Infinity; // time of the last interactive input
  const hold = () => { moved = performance.now(); };
  const stillness = () => performance.now() - moved;
  let began = null; // time of the input event being handled, which may precede its delivery
  for (const kind of ["keydown", "pointerdown", "pointermove"]) {
    addEventListener(kind, (event) => {
      began = event.timeStamp;
      setTimeout(() => { began = null; });
    }, { capture: true, passive: true });
  }
  async function timed(name, action) {
    hold();
    const start = Math.min(began ?? moved, moved);
    const result = await action();
    await nextFrame();
    performance.measure(name, { start, end: performance.now() });
    return result;
  }

  // ---- menu: highlights the current section ----
  function followScroll() {
    const links = new Map([...document.querySelectorAll(".top nav a")].map((a) => [a.hash.slice(1), a]));
    const sections = [...document.querySelectorAll("main > section[id]")].filter((s) => links.has(s.id));
    // The last section that begins in the upper third; none at the top, and at the end the last one,
    // which may be too short to get there.
    const current = () => (innerHeight + scrollY >= root.scrollHeight - 2 && scrollY > 0
      ? sections.at(-1)
      : sections.filter((s) => s.getBoundingClientRect().top <= innerHeight / 3).at(-1));
    function mark() {
      const link = links.get(current()?.id);
      links.forEach((other) => { if (other !== link) other.removeAttribute("aria-current"); });
      link?.setAttribute("aria-current", "true");
    }
    addEventListener("scroll", mark, { passive: true });
    addEventListener("resize", mark, { passive: true });
    mark();
  }

  applyTheme(wanted());
  if (!("DecompressionStream" in window)) document.getElementById("old-browser").hidden = false;
  followScroll();
  return { element, array, has, unpacked, colour, onTheme: (f) => themeListeners.push(f), timed, hold, stillness, nextFrame };
})();
