"use strict";
// Data of the vulnerability plane, and the cloud of all records drawn on a canvas.
window.leakscope.plane = (() => {
  const { array, colour } = window.leakscope;
  const LEFT = 56, TOP = 10, SIZE = 534, MARGIN = 0.06, SIDE = 600; // as in plane.html.j2
  const share = (rate) => (rate + MARGIN) / (1 + 2 * MARGIN);
  const X = (fpr) => LEFT + SIZE * share(fpr), Y = (tpr) => TOP + SIZE * (1 - share(tpr));
  const ratesAt = (x, y) => [((x - LEFT) / SIZE) * (1 + 2 * MARGIN) - MARGIN, (1 - (y - TOP) / SIZE) * (1 + 2 * MARGIN) - MARGIN];

  // ---- data of a run ----
  async function load(k, info) {
    const names = ["levels", "fpr", "tpr", "ids", "labels", "vulnerable", "first"];
    if (info.measures.length) names.push("hardness");
    const arrays = await Promise.all(names.map((name) => array(`plane${k}-${name}`)));
    const run = { ...info, ...Object.fromEntries(names.map((name, i) => [name, arrays[i].values])) };
    run.labelNames = info.labels;
    run.inCorner = info.vulnerable; // share per checkpoint; arrays[5] marks the records in the corner at the end
    run.finally = arrays[5].values;
    run.jitter = jitter(run.records, Math.max(0.004, Math.min(0.045, 0.84 / info.models)));
    run.drawn = new Float32Array(2 * run.records);
    run.allAlong = summedAdvantage(run);
    run.loudest = 0;
    return run;
  }
  function jitter(n, radius) { // deterministic: a golden-ratio spiral inside a disc
    const offsets = new Float32Array(2 * n);
    for (let i = 0; i < n; i++) {
      const r = radius * Math.sqrt(((i + 0.5) * 0.7548776662) % 1), angle = 2 * Math.PI * ((i * 0.5698402910) % 1);
      offsets[2 * i] = r * Math.cos(angle);
      offsets[2 * i + 1] = r * Math.sin(angle);
    }
    return offsets;
  }
  function summedAdvantage({ levels, fpr, tpr, records: n, epochs }) { // over the checkpoints
    const sums = new Float32Array(n);
    for (let t = 0; t < epochs.length; t++) {
      for (let i = 0, k = t * n; i < n; i++, k++) sums[i] += levels[tpr[k]] - levels[fpr[k]];
    }
    return sums;
  }
  const rate = (run, which, t, i) => run.levels[run[which][t * run.records + i]];
  const advantage = (run, t, i) => rate(run, "tpr", t, i) - rate(run, "fpr", t, i);
  const stationOf = (run, t, i) => [rate(run, "fpr", t, i) + run.jitter[2 * i], rate(run, "tpr", t, i) + run.jitter[2 * i + 1]];
  function moveAll(run, at) { // positions of the records; interpolated between two checkpoints
    const { levels, fpr, tpr, jitter: apart, drawn, records: n } = run;
    const t = Math.floor(at), f = at - t, now = t * n, next = f ? now + n : now;
    for (let i = 0; i < n; i++) {
      drawn[2 * i] = (1 - f) * levels[fpr[now + i]] + f * levels[fpr[next + i]] + apart[2 * i];
      drawn[2 * i + 1] = (1 - f) * levels[tpr[now + i]] + f * levels[tpr[next + i]] + apart[2 * i + 1];
    }
  }
  function nearestTo(run, [x, y]) { // index of the nearest record; null where none is close
    let best = null, least = 0.02 ** 2; // a fiftieth of the side
    for (let i = 0; i < run.records; i++) {
      const distance = (run.drawn[2 * i] - x) ** 2 + (run.drawn[2 * i + 1] - y) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  }

  // ---- the cloud: dots per pixel, mapped to colors ----
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
  function paint(canvas, run, at) {
    const width = Math.min(1200, Math.round(canvas.clientWidth * Math.min(2, devicePixelRatio || 1))) || SIDE;
    if (canvas.width !== width) canvas.width = canvas.height = width;
    const wanted = run.records > 20000 ? 1 : run.records > 4000 ? 1.5 : run.records > 800 ? 2.2 : 3;
    const dot = disc(Math.max(1, Math.round((wanted * width) / SIZE)), width);
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
  return { load, rate, advantage, stationOf, nearestTo, paint, X, Y, ratesAt, SIDE };
})();
