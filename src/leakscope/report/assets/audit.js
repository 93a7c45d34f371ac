"use strict";
// The page of an audit: precision slider, scores of one attack at a time, table and panel of the records.
(() => {
  const { array, has, figure, draw, timed, element } = window.leakscope;
  const byId = (id) => document.getElementById(id);
  const percent = (rate, digits = 1) => `${(100 * rate).toFixed(digits)}%`;
  const fixed = (value, digits = 3) => (Number.isFinite(value) ? value.toFixed(digits) : "–");

  // ---- precision: the share of members among the records called members ----
  const prior = byId("prior");
  if (prior) {
    const precision = (tpr, fpr, share) => (share * tpr) / (share * tpr + (1 - share) * fpr);
    const update = () => {
      const share = 10 ** Number(prior.value);
      byId("prior-shown").textContent = percent(share, share < 0.001 ? 3 : share < 0.01 ? 2 : 1);
      prior.setAttribute("aria-valuetext", byId("prior-shown").textContent);
      for (const row of document.querySelectorAll("#precision-table tbody tr")) {
        const { tpr, fpr, low, high } = row.dataset;
        const value = precision(Number(tpr), Number(fpr), share);
        row.querySelector(".precision").textContent = Number.isFinite(value) ? percent(value) : "no record is called";
        const ends = [low, high].map((end) => (end === "" ? NaN : precision(Number(end), Number(fpr), share)));
        row.querySelector(".interval").textContent = ends.every(Number.isFinite) ? ends.map((e) => percent(e)).join(" to ") : "–";
      }
    };
    prior.addEventListener("input", () => timed("prior", update));
    update();
  }

  // ---- a select that chooses the visible traces of a chart ----
  for (const select of document.querySelectorAll("select[data-chart]")) {
    select.addEventListener("change", () => {
      const given = figure(select.dataset.chart);
      given.data.forEach((trace) => { trace.visible = trace.meta === select.value; });
      draw(select.dataset.chart, given);
    });
  }

  // ---- records ----
  if (!byId("records-settings")) return; // a redacted page
  const ROWS = 25;
  const settings = JSON.parse(byId("records-settings").textContent);
  const { columns } = settings;
  const values = {}; // array name -> its values
  let shown = []; // rows that pass the filters, in order
  let sorting = null; // {key, falling}; null: the order of the arrays, most exposed first
  let page = 0;

  async function load() {
    const names = columns.map((column) => column.key).concat(["advantage_low", "advantage_high", "preview_rows", "pictures", "fields"]);
    await Promise.all(names.filter(has).map(async (name) => { values[name] = (await array(name)).values; }));
    if (has("pictures")) pictureShape = (await array("pictures")).shape;
    values.preview = new Map([...(values.preview_rows ?? [])].map((row, k) => [row, k]));
    searched = columns.filter((column) => column.kind === "id" || column.kind === "text").map((column) => column.key);
    drawHead();
    wire();
    filter();
  }
  let pictureShape = null;
  let searched = [];

  function drawHead() {
    const row = element("tr");
    if (pictureShape) row.append(element("th", "image", { scope: "col" }));
    for (const column of columns) {
      const head = element("th", undefined, { scope: "col" });
      const button = element("button", column.title, { type: "button", className: "sort" });
      button.addEventListener("click", () => sortBy(column));
      head.dataset.key = column.key;
      head.dataset.title = column.title; // on paper
      head.append(button);
      row.append(head);
    }
    if (values.fields) row.append(element("th", "distinctive fields", { scope: "col" }));
    document.querySelector("#records-table thead").replaceChildren(row);
  }
  function sortBy(column) {
    const again = sorting?.key === column.key;
    const falling = again ? !sorting.falling : column.kind !== "id" && column.kind !== "text" && column.kind !== "code";
    sorting = { key: column.key, falling };
    filter();
  }
  function compared(column) {
    const list = values[column.key];
    if (column.kind === "code") return (a, b) => list[a] - list[b];
    if (column.kind === "id" || column.kind === "text") return (a, b) => (list[a] < list[b] ? -1 : list[a] > list[b] ? 1 : 0);
    return (a, b) => {
      const gone = Number.isNaN(list[a]) - Number.isNaN(list[b]);
      return gone || (Number.isNaN(list[a]) ? 0 : list[a] - list[b]);
    };
  }
  function filter() {
    const text = byId("records-search").value.trim().toLowerCase();
    const choices = [...document.querySelectorAll("[data-filter]")].filter((s) => s.value !== "")
      .map((s) => [values[s.dataset.filter], Number(s.value)]);
    const exposed = byId("records-exposed")?.checked;
    shown = [];
    for (let row = 0; row < settings.records; row += 1) {
      if (exposed && values.exposed[row] !== 1) continue;
      if (choices.some(([codes, wanted]) => codes[row] !== wanted)) continue;
      if (text && !matches(row, text)) continue;
      shown.push(row);
    }
    if (sorting) {
      const order = compared(columns.find((column) => column.key === sorting.key));
      shown.sort(sorting.falling ? (a, b) => order(b, a) || a - b : (a, b) => order(a, b) || a - b);
    }
    for (const head of document.querySelectorAll("#records-table th[data-key]")) {
      const mine = sorting?.key === head.dataset.key;
      head.setAttribute("aria-sort", mine ? (sorting.falling ? "descending" : "ascending") : "none");
    }
    page = 0;
    drawRows();
  }
  function matches(row, text) {
    if (searched.some((key) => values[key][row].toLowerCase().includes(text))) return true;
    return columns.some((column) => column.kind === "code" && column.names[values[column.key][row]].toLowerCase().includes(text));
  }
  function drawRows() {
    const first = page * ROWS;
    const rows = shown.slice(first, first + ROWS).map(drawRow);
    document.querySelector("#records-table tbody").replaceChildren(...rows);
    byId("records-count").textContent = `${shown.length.toLocaleString("en")} of ${settings.records.toLocaleString("en")} ${settings.many}`;
    byId("records-page").textContent = shown.length ? `${(first + 1).toLocaleString("en")} to ${Math.min(first + ROWS, shown.length).toLocaleString("en")}` : "nothing matches";
    byId("records-previous").disabled = page === 0;
    byId("records-next").disabled = first + ROWS >= shown.length;
  }
  function drawRow(row) {
    const line = element("tr");
    line.dataset.row = row;
    if (pictureShape) line.append(looks(row));
    for (const column of columns) {
      const cell = column.kind === "id" ? element("th", undefined, { scope: "row" }) : element("td");
      if (column.kind === "id") cell.append(opener(row));
      else if (column.kind === "risk") cell.append(riskBar(row));
      else fillCell(cell, column, row);
      line.append(cell);
    }
    if (values.fields) line.append(looks(row));
    line.addEventListener("click", () => openRecord(row));
    return line;
  }
  function opener(row) {
    const button = element("button", values.id[row], { type: "button", className: "link clip", dir: "auto", title: values.id[row].slice(0, 300) });
    button.addEventListener("click", (event) => { event.stopPropagation(); openRecord(row); });
    return button;
  }
  const asText = (column, row) => {
    const value = values[column.key][row];
    if (column.kind === "code") return column.names[value];
    if (column.kind === "flag") return Number.isNaN(value) ? "not resolvable" : value ? "yes" : "no";
    return column.kind === "number" ? fixed(value) : value;
  };
  function fillCell(cell, column, row) {
    const text = asText(column, row);
    if (column.kind === "number") cell.className = "number";
    cell.append(element("span", text, { className: "clip", dir: "auto", title: text.slice(0, 300) }));
  }
  function riskBar(row) {
    const [value, low, high] = ["advantage", "advantage_low", "advantage_high"].map((key) => values[key][row]);
    const bar = element("span", undefined, { className: "risk" });
    const place = (risk) => `${Math.min(Math.max(100 * risk, 0), 100)}%`;
    const track = element("span", undefined, { className: "track" });
    const interval = element("span", undefined, { className: "interval" });
    interval.style.left = place(low);
    interval.style.width = `calc(${place(high)} - ${place(low)})`;
    const mark = element("span", undefined, { className: "mark" });
    mark.style.left = place(value);
    track.append(interval, mark);
    const words = Number.isNaN(value) ? "–" : `${fixed(value, 2)} (${fixed(low, 2)} to ${fixed(high, 2)})`;
    bar.append(track, element("span", words, { className: "words" }));
    return bar;
  }
  function looks(row) {
    const cell = element("td", undefined, { className: "look" });
    const at = values.preview.get(row);
    if (at === undefined) return cell;
    if (pictureShape) cell.append(paint(element("canvas"), at));
    else cell.append(element("span", values.fields[at], { className: "fields", dir: "auto" }));
    return cell;
  }
  function paint(canvas, at) {
    const [, height, width, channels] = pictureShape;
    canvas.width = width;
    canvas.height = height;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "image of the record");
    const image = new ImageData(width, height);
    const start = at * height * width * channels;
    for (let pixel = 0; pixel < height * width; pixel += 1) {
      for (let c = 0; c < 3; c += 1) {
        image.data[4 * pixel + c] = values.pictures[start + pixel * channels + (channels === 1 ? 0 : c)];
      }
      image.data[4 * pixel + 3] = 255;
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }
  function wire() {
    byId("records-search").addEventListener("input", () => timed("search", filter));
    document.querySelectorAll("[data-filter], #records-exposed").forEach((c) => c.addEventListener("change", filter));
    byId("records-previous").addEventListener("click", () => { page -= 1; drawRows(); });
    byId("records-next").addEventListener("click", () => { page += 1; drawRows(); });
    const panel = byId("record");
    byId("record-close").addEventListener("click", () => panel.close());
    panel.addEventListener("click", (event) => { if (event.target === panel) panel.close(); });
  }

  // ---- one record ----
  async function openRecord(row) {
    byId("record-id").textContent = values.id[row];
    showLooks(row);
    byId("record-facts").replaceChildren(...(await factsOf(row)).map(([name, value]) => {
      const pair = element("div");
      pair.append(element("dt", name), element("dd", value, { dir: "auto" }));
      return pair;
    }));
    const detailed = row < settings.detailed;
    byId("record-details").hidden = !detailed;
    byId("record-undetailed").hidden = detailed || settings.detailed === 0;
    byId("record-training").hidden = !has("paths");
    if (!byId("record").open) byId("record").showModal();
    if (detailed) await drawAnswers(row);
  }
  function showLooks(row) {
    const at = values.preview.get(row);
    const canvas = byId("record-picture");
    canvas.hidden = at === undefined || !pictureShape;
    if (!canvas.hidden) paint(canvas, at);
    byId("record-fields").textContent = at !== undefined && values.fields ? values.fields[at] : "";
  }
  async function factsOf(row) {
    const facts = [];
    for (const column of columns) {
      if (column.kind === "risk") {
        const [tpr, fpr, nIn, nOut] = await Promise.all(["tpr", "fpr", "n_in", "n_out"].map(array));
        facts.push(["risk", `${fixed(values.advantage[row], 2)} (95% interval ${fixed(values.advantage_low[row], 2)} to ${fixed(values.advantage_high[row], 2)})`]);
        facts.push(["recognized", `by ${percent(tpr.values[row], 0)} of ${nIn.values[row]} models trained on it, ${percent(fpr.values[row], 0)} of ${nOut.values[row]} others`]);
      } else if (column.kind !== "id") {
        facts.push([column.title, asText(column, row)]);
      }
    }
    for (const name of settings.others) facts.push([name.replaceAll("_", " "), fixed((await array(`other:${name}`)).values[row])]);
    return facts;
  }
  async function drawAnswers(row) {
    const [outputs, inMask] = await Promise.all(["outputs", "in_mask"].map(array));
    const n = settings.models;
    const bytes = inMask.shape[1];
    const sides = [[], []];
    for (let model = 0; model < n; model += 1) {
      const isIn = (inMask.values[row * bytes + (model >> 3)] >> (model & 7)) & 1;
      sides[isIn ? 0 : 1].push(outputs.values[row * n + model]);
    }
    const names = ["trained on it", "others"];
    await draw("record-strip", {
      data: sides.map((side, k) => ({
        x: side, y: side.map((_, at) => k + 0.5 * (((at * 0.618) % 1) - 0.5)), mode: "markers", type: "scatter", name: `${names[k]} (${side.length})`,
        marker: { color: `var(--c${k})`, size: 7, opacity: 0.75 }, hovertemplate: `%{x:.2f}<extra>${names[k]}</extra>`,
      })),
      layout: {
        xaxis: { title: { text: `${settings.signal.replaceAll("_", " ")} at the last checkpoint` } },
        yaxis: { tickvals: [0, 1], ticktext: names, range: [1.6, -0.6], showgrid: false, zeroline: false }, showlegend: false,
      },
    });
    if (has("paths")) await drawPath(row);
  }
  async function drawPath(row) {
    const paths = await array("paths");
    const size = paths.shape[1] * 2;
    const at = (side) => settings.epochs.map((_, k) => paths.values[row * size + 2 * k + side]);
    await draw("record-path", {
      data: ["models trained on it", "other models"].map((name, side) => ({
        x: settings.epochs, y: at(side), name, mode: "lines+markers", line: { color: `var(--c${side})` },
      })),
      layout: {
        xaxis: { title: { text: "epoch" } }, yaxis: { title: { text: `mean ${settings.signal.replaceAll("_", " ")}` } },
        legend: { orientation: "h", y: 1.15 },
      },
    });
  }

  if ("DecompressionStream" in window) load();
})();
