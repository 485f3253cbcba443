/* What a page can do beyond being read: tables sort, timelines tell what is under the pointer and are
   enlarged together. Everything is there without it. */
"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const SVG = "http://www.w3.org/2000/svg";
  const make = (name, attributes, text) => {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  /* --- tables: a cell's data-v is what it is sorted by, else its text --- */
  const value = (row, column) => {
    const cell = row.cells[column];
    if (!cell) return "";
    if (cell.dataset.v === undefined) return cell.textContent.trim();
    return Number(cell.dataset.v);
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
    : String(a).localeCompare(String(b), "en", { numeric: true });
  const sort = (table, column) => {
    const head = table.tHead.rows[0].cells[column], body = table.tBodies[0];
    const numbers = head.classList.contains("n");
    const old = head.getAttribute("aria-sort");
    const ascending = old ? old !== "ascending" : !numbers || head.dataset.first === "up";
    const sign = ascending ? 1 : -1;
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    [...body.rows].map((row, i) => [value(row, column), i, row])
      .sort((a, b) => sign * compare(a[0], b[0]) || a[1] - b[1])
      .forEach(([, , row]) => body.append(row));
  };
  for (const table of all("table.sorts")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (!head.textContent) return;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.title = "sort by this";
      button.addEventListener("click", () => sort(table, column));
      head.replaceChildren(button);
    });
  }

  /* --- timelines --- */
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const charts = all("svg.timeline").map((svg) => {
    const d = svg.dataset, data = svg.parentElement.querySelector("script.passes");
    const number = (key) => Number(d[key]);
    const chart = {
      svg, left: number("left"), right: number("right"), top: number("top"), pitch: number("pitch"),
      height: number("height"), bottom: number("bottom"), from: number("from"), to: number("to"),
      per: number("per"), unit: d.unit, rows: null,
      views: all("svg.view", svg).map((view) => [view, view.getAttribute("viewBox")]),
      kept: all(".grid, .axis, .numbers, .peak", svg).map((group) => [group, group.innerHTML]),
      grids: all(".grid", svg).map((group) => {
        const box = group.getBBox();
        return [group, box.y, box.y + box.height];
      }),
    };
    if (data) {
      const passes = JSON.parse(data.textContent);
      chart.kinds = passes.kinds;
      chart.rows = passes.rows.map((flat) => {
        const row = [];
        for (let i = 0, at = passes.from; i < flat.length; i += 5) {
          const start = at + flat[i + 3] * passes.tick, end = start + flat[i + 4] * passes.tick;
          row.push({ kind: flat[i] >> 1, dark: flat[i] & 1, stage: flat[i + 1], mb: flat[i + 2], start, end });
          at = end;
        }
        return row;
      });
    }
    svg.classList.add("live");
    return chart;
  });
  if (charts.length === 0) return;
  const whole = [charts[0].from, charts[0].to];
  let shown = whole;

  const ns = (chart, x) => shown[0] + (x - chart.left) / (chart.right - chart.left) * (shown[1] - shown[0]);
  const place = (chart, t) => chart.left + (t - shown[0]) / (shown[1] - shown[0]) * (chart.right - chart.left);
  const time = (chart, t, range = t) => {
    if (!chart.unit) return (t / chart.per).toPrecision(5) + "";
    const units = ["ns", "\u00b5s", "ms", "s"];
    let i = 0, per = 1;
    while (i < 3 && range / per >= 1000) { per *= 1000; i++; }
    return Number((t / per).toPrecision(5)) + " " + units[i];
  };
  const nice = (range, n) => {
    const power = 10 ** Math.floor(Math.log10(range / n)), part = range / n / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
  };

  const drawTicks = (chart) => {
    const range = (shown[1] - shown[0]) / chart.per, step = nice(range, 11);
    const decimals = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)), ticks = [];
    for (let k = Math.ceil(shown[0] / chart.per / step); k * step * chart.per <= shown[1]; k++) ticks.push(k * step);
    const axis = chart.svg.querySelector(".axis");
    axis.replaceChildren(make("path", { d: `M${chart.left} ${chart.bottom}H${chart.right}`, fill: "none", class: "stroke-soft" }));
    for (const tick of ticks) {
      const x = place(chart, tick * chart.per);
      axis.append(make("text", { x, y: chart.bottom + 12, "font-size": 8, "text-anchor": "middle", class: "fill-soft" }, tick.toFixed(decimals)));
    }
    axis.append(make("text", { x: (chart.left + chart.right) / 2, y: chart.bottom + 22, "font-size": 8, "text-anchor": "middle", class: "fill-soft" },
      chart.unit ? `time (${chart.unit})` : "time"));
    for (const [group, top, bottom] of chart.grids) {
      group.replaceChildren(make("path", { fill: "none", class: "stroke-rule", "stroke-width": .5,
        d: ticks.map((tick) => `M${place(chart, tick * chart.per)} ${top}V${bottom}`).join("") }));
    }
  };
  const drawNumbers = (chart) => {
    const group = chart.svg.querySelector(".numbers");
    let n = 0;
    group.replaceChildren();
    for (const peak of all(".peak", chart.svg)) peak.replaceChildren();
    if (!chart.rows || chart.height < 8) return;
    chart.rows.forEach((row, r) => {
      for (const pass of row) {
        const x0 = Math.max(place(chart, pass.start), chart.left), x1 = Math.min(place(chart, pass.end), chart.right);
        if (x1 - x0 < 13 || pass.mb < 0 || n++ > 2000) continue;
        const x = (x0 + x1) / 2;
        group.append(make("text", { x, y: chart.top + r * chart.pitch + chart.height / 2 + 2.6, "font-size": 7.5,
          "text-anchor": "middle", fill: pass.dark ? "#141414" : "#fff" }, pass.mb));
      }
    });
  };
  const draw = (chart) => {
    if (shown === whole) {
      for (const [group, inner] of chart.kept) group.innerHTML = inner;
      for (const [view, box] of chart.views) view.setAttribute("viewBox", box);
      return;
    }
    const part = (t) => chart.left + (t - whole[0]) / (whole[1] - whole[0]) * (chart.right - chart.left);
    for (const [view, box] of chart.views) {
      const [, y, , height] = box.split(" ");
      view.setAttribute("viewBox", `${part(shown[0])} ${y} ${part(shown[1]) - part(shown[0])} ${height}`);
    }
    drawTicks(chart);
    drawNumbers(chart);
  };
  const state = document.querySelector("#shown");
  const show = (from, to) => {
    const least = (whole[1] - whole[0]) / 5000, length = Math.min(Math.max(to - from, least), whole[1] - whole[0]);
    const start = Math.min(Math.max(from, whole[0]), whole[1] - length);
    shown = length >= whole[1] - whole[0] ? whole : [start, start + length];
    charts.forEach(draw);
    if (state) state.textContent = shown === whole ? "" : `${time(charts[0], shown[0], shown[1])} to ${time(charts[0], shown[1])}`;
  };
  const zoom = (at, factor) => show(at - (at - shown[0]) * factor, at + (shown[1] - at) * factor);
  const pan = (part) => show(shown[0] + part * (shown[1] - shown[0]), shown[1] + part * (shown[1] - shown[0]));

  const point = (chart, event) => {
    const matrix = chart.svg.getScreenCTM().inverse();
    return new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
  };
  const under = (chart, p) => {
    const r = Math.floor((p.y - chart.top) / chart.pitch), row = chart.rows && chart.rows[r];
    if (!row || p.y - chart.top - r * chart.pitch > chart.height || p.x < chart.left || p.x > chart.right) return null;
    const t = ns(chart, p.x);
    let low = 0, high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row[middle].end < t) low = middle + 1; else high = middle;
    }
    return low < row.length && row[low].start <= t ? { pass: row[low], rank: r } : null;
  };
  const say = (chart, event, found) => {
    tip.hidden = !found;
    if (!found) return;
    const { pass, rank } = found;
    tip.textContent = `${chart.kinds[pass.kind]}, rank ${rank}\n` +
      (pass.stage >= 0 ? `stage ${pass.stage}` : "") + (pass.mb >= 0 ? `, micro-batch ${pass.mb}` : "") +
      `\nstart ${time(chart, pass.start)}\nduration ${time(chart, pass.end - pass.start)}`;
    const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${x}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  };
  const inside = (chart, p) => p.x >= chart.left && p.x <= chart.right && p.y <= chart.bottom;

  for (const chart of charts) {
    let drag = null, frame = null;
    chart.svg.addEventListener("pointermove", (event) => {
      const p = point(chart, event);
      if (drag !== null) {
        const x0 = Math.min(drag, p.x), x1 = Math.max(drag, p.x);
        frame = frame || chart.svg.appendChild(make("rect", { class: "select", y: chart.top }));
        frame.setAttribute("x", Math.max(x0, chart.left));
        frame.setAttribute("width", Math.max(0, Math.min(x1, chart.right) - Math.max(x0, chart.left)));
        frame.setAttribute("height", chart.bottom - chart.top);
      }
      say(chart, event, under(chart, p));
    });
    chart.svg.addEventListener("pointerleave", () => { tip.hidden = true; });
    chart.svg.addEventListener("pointerdown", (event) => {
      const p = point(chart, event);
      if (event.button !== 0 || event.pointerType === "touch" || !inside(chart, p)) return;
      drag = p.x;
      chart.svg.setPointerCapture(event.pointerId);
    });
    chart.svg.addEventListener("pointerup", (event) => {
      const p = point(chart, event), from = drag;
      drag = null;
      if (frame) frame.remove();
      frame = null;
      if (from !== null && Math.abs(p.x - from) > 4) {
        const a = ns(chart, Math.max(chart.left, Math.min(from, p.x))), b = ns(chart, Math.min(chart.right, Math.max(from, p.x)));
        show(a, b);
      }
    });
    chart.svg.addEventListener("dblclick", () => show(...whole));
    chart.svg.addEventListener("wheel", (event) => {
      const p = point(chart, event);
      const wanted = event.ctrlKey || event.metaKey || document.activeElement === chart.svg;
      if (!wanted || !inside(chart, p)) return;
      event.preventDefault();
      zoom(ns(chart, Math.max(p.x, chart.left)), Math.exp(event.deltaY * .002));
    }, { passive: false });
    chart.svg.addEventListener("keydown", (event) => {
      const middle = (shown[0] + shown[1]) / 2;
      const keys = { "+": () => zoom(middle, .5), "=": () => zoom(middle, .5), "-": () => zoom(middle, 2),
        "0": () => show(...whole), ArrowLeft: () => pan(-.25), ArrowRight: () => pan(.25), Escape: () => chart.svg.blur() };
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    chart.svg.setAttribute("tabindex", "0");
  }

  /* --- which plans are open: the first few and the baseline; all on paper --- */
  const plans = all("details.plan");
  const open = (which) => plans.forEach((plan, i) => { plan.open = which(plan, i); });
  const few = (plan, i) => i < 4 || plan.classList.contains("baseline");
  open(few);
  const graphs = all("details.graph");
  if (plans.length > 1) graphs.forEach((graph) => { graph.open = false; });
  const tools = document.querySelector("#choose");
  if (tools) {
    tools.hidden = false;
    const actions = { few: () => open(few), all: () => open(() => true), none: () => open(() => false), whole: () => show(...whole) };
    for (const button of all("button", tools)) button.addEventListener("click", actions[button.value]);
  }
  const reach = () => {
    const plan = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (plan && plan.tagName === "DETAILS") { plan.open = true; plan.scrollIntoView(); }
  };
  addEventListener("hashchange", reach);
  reach();
  let before = null;
  addEventListener("beforeprint", () => {
    before = [...plans, ...graphs].map((part) => [part, part.open]);
    for (const [part] of before) part.open = true;
  });
  addEventListener("afterprint", () => { for (const [part, was] of before || []) part.open = was; });
})();
