// Everything is drawn when the page is written; this script moves the slider, computes costs and reads off the curve.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;

  // ---- slider
  const slider = document.getElementById("slider");
  const risk = document.getElementById("risk");
  const fields = [...document.querySelectorAll("[data-field]")];
  const COLUMNS = 50, SIZE = 10;

  // As in page/operating_point.py.
  function drawSquares(model, [correct, wrong, referred]) {
    const container = document.getElementById("squares" + model);
    const path = (first, count, margin, mark) => Array.from({ length: count }, (_, step) => {
      const [row, column] = [Math.floor((first + step) / COLUMNS), (first + step) % COLUMNS];
      return `M${SIZE * column + margin} ${SIZE * row + margin}${mark}`;
    }).join("");
    const draw = (name, ...what) => container.querySelector("." + name).setAttribute("d", path(...what));
    draw("wrong", 0, wrong, 2, "l6 6m0-6l-6 6");
    draw("accepted", wrong, correct, 1.5, "h7v7h-7z");
    draw("referred", wrong + correct, referred, 2, "h6v6h-6z");
    const total = (correct + wrong + referred).toLocaleString("en-US");
    container.setAttribute("aria-label", `Of ${total} cases, ${correct} are accepted and correct, ${wrong} accepted but wrong, ${referred} referred to a reviewer`);
  }

  function select(position) {
    risk.textContent = data.risks[position];
    slider.setAttribute("aria-valuetext", data.risks[position]);
    for (const field of fields) field.textContent = data.models[field.dataset.model].positions[position][field.dataset.field] ?? "";
    data.models.forEach((model, index) => {
      drawSquares(index, model.positions[position].squares);
      const ring = document.querySelector(`[data-ring="${index}"]`);
      const point = model.points[position];
      ring.hidden = !point;
      if (point) [ring.style.left, ring.style.bottom] = point.map((fraction) => 100 * fraction + "%");
    });
  }
  if (slider) {
    slider.addEventListener("input", () => select(Number(slider.value)));
    select(Number(slider.value)); // a browser may restore an earlier position
  }

  // ---- costs
  const inputs = ["error-cost", "referral-cost"].map((name) => document.getElementById(name));

  // As cost_text in page/costs.py.
  function costText(cost) {
    if (cost >= 99.95) return Math.floor(cost + 0.5).toLocaleString("en-US");
    return String(Number(cost.toFixed(cost >= 9.995 ? 1 : 2)));
  }

  const problem = document.getElementById("cost-problem");
  function showCosts() {
    const [error, referral] = inputs.map((input) => Number(input.value.replace(",", ".")));
    const valid = inputs.every((input) => input.checkValidity());
    problem.hidden = valid;
    problem.textContent = valid ? "" : "Fill in two numbers below 1,000,000,000, such as 2.5. What is shown below is for the last valid ones.";
    if (!valid) return;
    data.models.forEach((model, index) => {
      const cost = ([accepted, wrong]) => 1000 * (error * wrong + referral * (model.used - accepted)) / model.used;
      let best = model.frontier[0];
      for (const point of model.frontier) if (error * point[1] - referral * point[0] < error * best[1] - referral * best[0]) best = point;
      document.querySelector(`[data-best="${index}"]`).textContent = best[2];
      const policies = [best, ...model.policies];
      const largest = Math.max(...policies.map(cost), 1e-12);
      document.querySelectorAll(`[data-costs="${index}"] tbody tr`).forEach((row, line) => {
        const policy = policies[line];
        const [accepted, wrong] = policy;
        const put = (name, text) => { row.querySelector("." + name).textContent = text; };
        put("accepted", accepted.toLocaleString("en-US"));
        put("wrong", wrong.toLocaleString("en-US"));
        put("referred", (model.used - accepted).toLocaleString("en-US"));
        put("cost", costText(cost(policy)));
        row.querySelector(".fraction-bar span").style.width = 100 * cost(policy) / largest + "%";
      });
    });
  }
  for (const input of inputs) input.addEventListener("input", showCosts);
  showCosts();

  // ---- the curve, read off at the pointer
  const area = document.querySelector("#plot-curve .inset");
  const readout = document.getElementById("readout");
  const HINT = "Point at the curve, or tap it, to read it off.";
  readout.textContent = HINT;
  area.parentElement.addEventListener("pointermove", (event) => {
    const box = area.getBoundingClientRect();
    const coverage = (event.clientX - box.left) / box.width;
    readout.textContent = data.models.map((model) => {
      let nearest = 0;
      model.coverage.forEach((value, index) => { if (Math.abs(value - coverage) < Math.abs(model.coverage[nearest] - coverage)) nearest = index; });
      return (data.models.length > 1 ? model.name + ": " : "") + model.readings[nearest];
    }).join("; ") + ".";
  });
  area.parentElement.addEventListener("pointerleave", () => { readout.textContent = HINT; });

  // ---- printing: folds are printed open, single cases as the reader left them
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not(.pick):not([open])")];
    for (const fold of opened) fold.open = true;
  });
  addEventListener("afterprint", () => { for (const fold of opened) fold.open = false; });
  root.classList.add("ready");
})();
