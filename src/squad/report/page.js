// All numbers and texts come ready from the data in this page: here they are only looked up and shown.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const config = { displayModeBar: false, responsive: true };
  const drawn = new Map();

  // "@ink" and the like stand for the colours of the scheme in force.
  function themed(value, style) {
    if (typeof value === "string") return value[0] === "@" ? style.getPropertyValue("--" + value.slice(1)).trim() : value;
    if (Array.isArray(value)) return value.map((item) => themed(item, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, key === "customdata" || key === "text" ? item : themed(item, style)]));
    }
    return value;
  }

  function draw(id, figure) {
    const place = document.getElementById(id);
    if (!place) return;
    drawn.set(id, figure);
    const made = themed(figure, getComputedStyle(root));
    if (place.clientWidth < 480) {
      made.layout.font.size = 12;
      // The legend stands in lines below each other here.
      made.layout.height += 20 * made.data.filter((trace) => trace.showlegend !== false).length;
      if (made.layout.xaxis.type === "category") {
        made.layout.xaxis.tickangle = -45;
        made.layout.margin = { ...made.layout.margin, b: 84 };
      }
    }
    Plotly.react(place, made.data, made.layout, config);
  }
  const redraw = () => drawn.forEach((figure, id) => draw(id, figure));

  for (const [name, figure] of Object.entries(data.figures)) draw("plot-" + name, figure);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => { root.classList.add("printing"); redraw(); });
  addEventListener("afterprint", () => { root.classList.remove("printing"); redraw(); });

  // ---- the slider
  const slider = document.getElementById("slider");
  const risk = document.getElementById("risk");
  const live = [...document.querySelectorAll("[data-field]")];
  const COLUMNS = 50, SIZE = 10;

  function node(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function squares(place, counts) {
    const target = document.getElementById("squares" + place);
    const [answered, wrong, referred] = counts;
    const total = answered + wrong + referred;
    const at = (index) => [SIZE * (index % COLUMNS), SIZE * Math.floor(index / COLUMNS)];
    const path = (first, count, mark) => Array.from({ length: count }, (_, step) => mark(...at(first + step))).join("");
    const box = (x, y) => `M${x + 1.5} ${y + 1.5}h7v7h-7z`;
    const hollow = (x, y) => `M${x + 2} ${y + 2}h6v6h-6z`;
    const cross = (x, y) => `M${x + 2} ${y + 2}l6 6M${x + 8} ${y + 2}l-6 6`;
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("viewBox", `0 0 ${SIZE * COLUMNS} ${SIZE * Math.ceil(total / COLUMNS)}`);
    svg.setAttribute("aria-hidden", "true");
    const parts = [["wrong", 0, wrong, cross], ["answered", wrong, answered, box], ["referred", wrong + answered, referred, hollow]];
    for (const [name, first, count, mark] of parts) {
      const made = document.createElementNS(space, "path");
      made.setAttribute("class", name);
      made.setAttribute("d", path(first, count, mark));
      svg.append(made);
    }
    target.replaceChildren(svg);
    target.setAttribute("aria-label", `Of ${total} cases ${answered} answered and right, ${wrong} answered and wrong, ${referred} referred`);
  }

  function choose(position) {
    risk.textContent = data.risks[position];
    slider.setAttribute("aria-valuetext", data.risks[position]);
    for (const place of live) place.textContent = data.models[place.dataset.model].positions[position][place.dataset.field] ?? "";
    data.models.forEach((model, place) => squares(place, model.positions[position].squares));
    const curve = data.figures.curve;
    const traces = curve.data.map((trace, index) => (trace.meta === "choice" ? index : -1)).filter((index) => index >= 0);
    traces.forEach((index, place) => { [curve.data[index].x, curve.data[index].y] = data.models[place].points[position]; });
    Plotly.restyle("plot-curve", { x: traces.map((index) => curve.data[index].x), y: traces.map((index) => curve.data[index].y) }, traces);
  }
  slider.addEventListener("input", () => choose(Number(slider.value)));
  choose(Number(slider.value));

  // ---- cases
  function bars(classes) {
    const made = node("div", { class: "bars" });
    for (const [name, text, share] of classes) {
      const bar = node("span");
      bar.style.width = 100 * share + "%";
      made.append(node("span", { class: "name" }, name), node("span", { class: "bar", "aria-hidden": "true" }, bar), node("span", {}, text));
    }
    return made;
  }

  function rows(cells) {
    const list = node("dl", { class: "facts" });
    for (const [name, value] of cells) list.append(node("dt", {}, name), node("dd", {}, value));
    return list;
  }

  function latents(model, found) {
    const figure = structuredClone(model.latents);
    const [trace] = figure.data;
    const bins = found.values[0].length;
    // The root of the probability: small ones would hardly be seen.
    trace.z = found.per_mille.map((row) => row.map((value) => Math.sqrt(value / 1000)));
    trace.x = Array.from({ length: bins }, (_, place) => place + 1);
    trace.y = found.names.map((name) => String(name));
    trace.customdata = found.values.map((row) => row.map((value) => value.toFixed(2)));
    trace.text = found.per_mille.map((row) => row.map((value) => (value / 10).toFixed(1) + " %"));
    // One scale for all latents can be written at the axis; scales of their own cannot.
    const same = found.values.every((row) => row.every((value, place) => value === found.values[0][place]));
    const step = Math.max(1, Math.ceil(bins / 8));
    const ticks = trace.x.filter((_, place) => place % step === 0);
    figure.layout.xaxis.tickvals = same ? ticks : [1, bins];
    figure.layout.xaxis.ticktext = same ? ticks.map((tick) => found.values[0][tick - 1].toFixed(1)) : ["lowest", "highest"];
    figure.layout.height = 80 + 15 * found.names.length;
    figure.layout.yaxis.tickvals = trace.y;
    return figure;
  }

  function show(button, scroll) {
    const place = button.dataset.model;
    const model = data.models[place];
    const found = model.cases[button.dataset.case];
    for (const other of document.querySelectorAll(`.pick[data-model="${place}"]`)) {
      other.setAttribute("aria-pressed", String(other.dataset.case === button.dataset.case));
    }
    const left = node("div");
    const image = button.querySelector("img");
    if (image) left.append(node("img", { src: image.src, alt: "The case", class: "pixels" }));
    left.append(node("p", { class: "answer" }, `${found.where}: it says `, node("b", {}, found.said), ", ", node("span", { class: found.right ? "right" : "wrong" }, found.right ? "✓ which is right." : "✕ but it is " + found.truth + ".")));
    left.append(node("p", {}, "How probable it finds each class:"), bars(found.classes));
    if (found.doubt) left.append(node("p", { class: "says" }, found.doubt));
    if (found.row.length) left.append(node("p", {}, node("b", {}, "The row")), rows(found.row));
    const right = node("div");
    const id = `latents${place}`;
    drawn.delete(id);
    if (found.latents) {
      right.append(node("p", {}, node("b", {}, "What went on inside?"), " " + found.inside), node("div", { id, class: "plot", role: "img", "aria-label": found.inside }));
    }
    const target = document.getElementById("case" + place);
    target.replaceChildren(left, ...(found.latents ? [right] : []));
    button.parentElement.after(target);
    if (found.latents) draw(id, latents(model, found.latents));
    if (scroll && target.getBoundingClientRect().top > innerHeight - 200) target.scrollIntoView({ block: "end" });
  }
  for (const button of document.querySelectorAll(".pick")) button.addEventListener("click", () => show(button, true));
  data.models.forEach((_, place) => {
    const first = document.querySelector(`.pick[data-model="${place}"]`);
    if (first) show(first, false);
  });
  root.classList.add("ready");
})();
