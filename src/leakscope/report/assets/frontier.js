"use strict";
// The frontier of a comparison of defences: a click on a point, or a choice in the list, shows the setting's figures.
(async () => {
  const { draw, settled, timed } = window.leakscope;
  const list = document.getElementById("frontier-setting");
  if (!list) return;
  const panels = [...document.querySelectorAll("#frontier-panels > [data-setting]")];
  const show = (at) => timed("setting", () => {
    for (const panel of panels) panel.hidden = panel.dataset.setting !== String(at);
    list.value = String(at);
  });
  list.addEventListener("change", () => show(list.value));
  await settled();
  for (const chart of document.querySelectorAll(".chart[id^='frontier-']")) {
    const plot = await draw(chart.id);
    plot.on("plotly_click", ({ points }) => show(points[0].customdata));
  }
})();
