"use strict";
// Single records of the plane as text: the list of a region, and the panel of one record.
Object.assign(window.leakscope.plane, (() => {
  const { element } = window.leakscope, { rate, advantage, stationOf } = window.leakscope.plane;
  const NEVER = -1, UNKNOWN = 255;
  const percent = (value, digits = 0) => `${(100 * value).toFixed(digits)}%`;
  function svg(name, attributes, text = "") {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    made.textContent = text;
    return made;
  }

  // ---- the list of a region ----
  // region: {cell, side} is a cell of the grid; {left, right, bottom, top} is a brushed one; null is the whole plane
  function isWithin(run, t, i, region) {
    if (region === null) return true;
    if ("cell" in region) {
      const third = (value) => Math.min(region.side - 1, Math.floor(value * region.side + 1e-5));
      return third(rate(run, "fpr", t, i)) * region.side + third(rate(run, "tpr", t, i)) === region.cell;
    }
    const [x, y] = stationOf(run, t, i), { left, right, bottom, top } = region;
    return x >= left && x <= right && y >= bottom && y <= top;
  }
  // The n most exposed records at a checkpoint; ties by the mean advantage over all checkpoints.
  function mostExposed(run, t, region, search, n) {
    const wanted = search.trim().toLowerCase(), matching = [];
    for (let i = 0; i < run.records; i++) {
      if (!isWithin(run, t, i, region)) continue;
      const text = wanted && `${run.ids[i]}\n${run.labelNames[run.labels[i]]}`.toLowerCase();
      if (!wanted || text.includes(wanted)) matching.push(i);
    }
    const order = (i) => 1000 * advantage(run, t, i) + run.allAlong[i] / run.epochs.length;
    const least = Float64Array.from(matching, order).sort().at(-Math.min(n, matching.length)); // of the first n
    const top = matching.filter((i) => order(i) >= least).sort((a, b) => order(b) - order(a));
    return { total: matching.length, first: top.slice(0, n) };
  }
  function row(run, t, i) {
    const line = element("tr"), name = element("th", undefined, { scope: "row" });
    const open = element("button", run.ids[i], { type: "button", title: run.ids[i] });
    open.dataset.record = i;
    name.append(open);
    const numbers = [percent(rate(run, "fpr", t, i)), percent(rate(run, "tpr", t, i)), advantage(run, t, i).toFixed(2),
      run.first[i] === NEVER ? "never" : `epoch ${run.first[i]}`];
    line.append(name, element("td", run.labelNames[run.labels[i]]),
      ...numbers.map((text) => element("td", text, { className: "number" })));
    return line;
  }
  function countWords(run, t, total, shown) {
    if (total === 0) return `No record matches at epoch ${run.epochs[t]}.`;
    return `${total.toLocaleString("en")} record${total > 1 ? "s" : ""} at epoch ${run.epochs[t]}`
      + (shown < total ? `; the ${shown} most exposed are listed.` : ".");
  }

  // ---- one record ----
  function ratesOverTraining(run, i) {
    const at = (t) => 40 + (330 * (run.epochs[t] - run.epochs[0])) / Math.max(1, run.epochs.at(-1) - run.epochs[0]);
    const up = (value) => 100 - 85 * value;
    const picture = svg("svg", { viewBox: "0 0 440 135", role: "img", "aria-label": "FPR and TPR of the record over training" });
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
  function ratesAsTable(run, i) {
    const details = element("details"), table = element("table");
    const line = (texts, tag) => {
      const made = element("tr");
      made.append(...texts.map((text) => element(tag, text, { className: "number" })));
      return made;
    };
    table.append(line(["epoch", "FPR", "TPR", "advantage"], "th"));
    run.epochs.forEach((epoch, t) => table.append(line([epoch, percent(rate(run, "fpr", t, i)),
      percent(rate(run, "tpr", t, i)), advantage(run, t, i).toFixed(2)], "td")));
    details.append(element("summary", "Show the numbers"), table);
    return details;
  }
  function recordWords(run, i) {
    const last = run.epochs.length - 1;
    const corner = run.first[i] === NEVER ? "never in the corner." : `first in the corner at epoch ${run.first[i]}`
      + (run.finally[i] ? ", and still there at the end." : ", not there at the end.");
    const known = run.measures.map((name, m) => [name, run.hardness[m * run.records + i]]).filter(([, p]) => p !== UNKNOWN);
    const harder = known.map(([name, p]) => `${name} ${p}%`).join(", ");
    return [
      `Label ${run.labelNames[run.labels[i]]}. Advantage at the end ${advantage(run, last, i).toFixed(2)}; ${corner}`,
      ...(known.length ? [`Share of the records that are less hard, by measure: ${harder}.`] : []),
    ];
  }
  const panelOf = (run, i) => [element("h3", run.ids[i]), ...recordWords(run, i).map((text) => element("p", text)),
    ratesOverTraining(run, i), ratesAsTable(run, i)];

  return { mostExposed, row, countWords, panelOf, percent, svg };
})());
