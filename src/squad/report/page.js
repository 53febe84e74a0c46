// All numbers and texts are precomputed in the page's data; this script only looks them up and shows them.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const config = { displayModeBar: false, responsive: true };
  const drawn = new Map();

  // Replaces "@ink" and other colour names by the colours of the current scheme.
  function themed(value, style) {
    if (typeof value === "string") return value[0] === "@" ? style.getPropertyValue("--" + value.slice(1)).trim() : value;
    if (Array.isArray(value)) return value.map((item) => themed(item, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, key === "customdata" || key === "text" ? item : themed(item, style)]));
    }
    return value;
  }

  function draw(id, figure) {
    const container = document.getElementById(id);
    if (!container) return;
    drawn.set(id, figure);
    const colored = themed(figure, getComputedStyle(root));
    if (container.clientWidth < 480) {
      colored.layout.font.size = 12;
      // In a narrow figure each legend entry takes a line.
      colored.layout.height += 20 * colored.data.filter((trace) => trace.showlegend !== false).length;
      if (colored.layout.xaxis.type === "category") {
        colored.layout.xaxis.tickangle = -45;
        colored.layout.margin = { ...colored.layout.margin, b: 84 };
      }
    }
    Plotly.react(container, colored.data, colored.layout, config);
  }
  const redraw = () => drawn.forEach((figure, id) => draw(id, figure));

  for (const [name, figure] of Object.entries(data.figures)) draw("plot-" + name, figure);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => { root.classList.add("printing"); redraw(); });
  addEventListener("afterprint", () => { root.classList.remove("printing"); redraw(); });

  // ---- slider
  const slider = document.getElementById("slider");
  const risk = document.getElementById("risk");
  const fields = [...document.querySelectorAll("[data-field]")];
  const COLUMNS = 50, SIZE = 10;

  function node(name, attributes, ...children) {
    const created = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) created.setAttribute(key, value);
    created.append(...children);
    return created;
  }

  function drawSquares(model, counts) {
    const container = document.getElementById("squares" + model);
    const [accepted, wrong, referred] = counts;
    const total = accepted + wrong + referred;
    const corner = (index) => [SIZE * (index % COLUMNS), SIZE * Math.floor(index / COLUMNS)];
    const path = (first, count, mark) => Array.from({ length: count }, (_, step) => mark(...corner(first + step))).join("");
    const filled = (x, y) => `M${x + 1.5} ${y + 1.5}h7v7h-7z`;
    const empty = (x, y) => `M${x + 2} ${y + 2}h6v6h-6z`;
    const cross = (x, y) => `M${x + 2} ${y + 2}l6 6M${x + 8} ${y + 2}l-6 6`;
    const namespace = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(namespace, "svg");
    svg.setAttribute("viewBox", `0 0 ${SIZE * COLUMNS} ${SIZE * Math.ceil(total / COLUMNS)}`);
    svg.setAttribute("aria-hidden", "true");
    const parts = [["wrong", 0, wrong, cross], ["accepted", wrong, accepted, filled], ["referred", wrong + accepted, referred, empty]];
    for (const [name, first, count, mark] of parts) {
      const shape = document.createElementNS(namespace, "path");
      shape.setAttribute("class", name);
      shape.setAttribute("d", path(first, count, mark));
      svg.append(shape);
    }
    container.replaceChildren(svg);
    container.setAttribute("aria-label", `Of ${total} cases, ${accepted} are accepted and correct, ${wrong} accepted but wrong, ${referred} referred to a reviewer`);
  }

  function select(position) {
    risk.textContent = data.risks[position];
    slider.setAttribute("aria-valuetext", data.risks[position]);
    for (const field of fields) field.textContent = data.models[field.dataset.model].positions[position][field.dataset.field] ?? "";
    data.models.forEach((model, index) => drawSquares(index, model.positions[position].squares));
    const curve = data.figures.curve;
    const traces = curve.data.map((trace, index) => (trace.meta === "selected" ? index : -1)).filter((index) => index >= 0);
    traces.forEach((trace, index) => { [curve.data[trace].x, curve.data[trace].y] = data.models[index].points[position]; });
    Plotly.restyle("plot-curve", { x: traces.map((trace) => curve.data[trace].x), y: traces.map((trace) => curve.data[trace].y) }, traces);
  }
  slider.addEventListener("input", () => select(Number(slider.value)));
  select(Number(slider.value));

  // ---- cases
  function probabilityBars(classes) {
    const bars = node("div", { class: "bars" });
    for (const [name, text, probability] of classes) {
      const bar = node("span");
      bar.style.width = 100 * probability + "%";
      bars.append(node("span", { class: "name" }, name), node("span", { class: "bar", "aria-hidden": "true" }, bar), node("span", {}, text));
    }
    return bars;
  }

  function namedValues(cells) {
    const list = node("dl", { class: "facts" });
    for (const [name, value] of cells) list.append(node("dt", {}, name), node("dd", {}, value));
    return list;
  }

  function latentsFigure(model, latents) {
    const figure = structuredClone(model.latents);
    const [trace] = figure.data;
    const bins = latents.values[0].length;
    // The square root of the probability makes small probabilities visible.
    trace.z = latents.per_mille.map((row) => row.map((value) => Math.sqrt(value / 1000)));
    trace.x = Array.from({ length: bins }, (_, index) => index + 1);
    trace.y = latents.units.map((unit) => String(unit));
    trace.customdata = latents.values.map((row) => row.map((value) => value.toFixed(2)));
    trace.text = latents.per_mille.map((row) => row.map((value) => (value / 10).toFixed(1) + " %"));
    // The axis can only be labelled if all latent variables have the same values.
    const same = latents.values.every((row) => row.every((value, index) => value === latents.values[0][index]));
    const step = Math.max(1, Math.ceil(bins / 8));
    const ticks = trace.x.filter((_, index) => index % step === 0);
    figure.layout.xaxis.tickvals = same ? ticks : [1, bins];
    figure.layout.xaxis.ticktext = same ? ticks.map((tick) => latents.values[0][tick - 1].toFixed(1)) : ["lowest", "highest"];
    figure.layout.height = 80 + 15 * latents.units.length;
    figure.layout.yaxis.tickvals = trace.y;
    return figure;
  }

  function showCase(button, scroll) {
    const index = button.dataset.model;
    const model = data.models[index];
    const selected = model.cases[button.dataset.case];
    for (const other of document.querySelectorAll(`.pick[data-model="${index}"]`)) {
      other.setAttribute("aria-pressed", String(other.dataset.case === button.dataset.case));
    }
    const left = node("div");
    const image = button.querySelector("img");
    if (image) left.append(node("img", { src: image.src, alt: "The case", class: "pixels" }));
    left.append(node("p", { class: "prediction" }, `${selected.where}: predicted `, node("b", {}, selected.predicted), ", ", node("span", { class: selected.correct ? "correct" : "wrong" }, selected.correct ? "✓ correct" : "✕ true class: " + selected.truth)));
    left.append(node("p", {}, "Predicted probabilities:"), probabilityBars(selected.classes));
    if (selected.disagreement) left.append(node("p", { class: "remark" }, selected.disagreement));
    if (selected.row.length) left.append(node("p", {}, node("b", {}, "Feature values")), namedValues(selected.row));
    const right = node("div");
    const id = `latents${index}`;
    drawn.delete(id);
    if (selected.latents) {
      right.append(node("p", {}, node("b", {}, "Latent variables."), " " + selected.latents_text), node("div", { id, class: "plot", role: "img", "aria-label": selected.latents_text }));
    }
    const container = document.getElementById("case" + index);
    container.replaceChildren(left, ...(selected.latents ? [right] : []));
    button.parentElement.after(container);
    if (selected.latents) draw(id, latentsFigure(model, selected.latents));
    if (scroll && container.getBoundingClientRect().top > innerHeight - 200) container.scrollIntoView({ block: "end" });
  }
  for (const button of document.querySelectorAll(".pick")) button.addEventListener("click", () => showCase(button, true));
  data.models.forEach((_, index) => {
    const first = document.querySelector(`.pick[data-model="${index}"]`);
    if (first) showCase(first, false);
  });
  root.classList.add("ready");
})();
