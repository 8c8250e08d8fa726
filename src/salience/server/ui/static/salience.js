// What HTML and htmx cannot do: copy buttons, closed filters on a narrow screen, charts that a pointer reads, and a colour toggle that knows the system's scheme.
"use strict";

const narrow = matchMedia("(max-width: 60rem)");

function prepare(root) {
  for (const facet of root.querySelectorAll(".facet")) {
    if (narrow.matches && !facet.querySelector(".chosen")) facet.open = false;
  }
  const theme = root.querySelector("[data-theme-link]");
  if (theme && !document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches) {
    theme.href = theme.dataset.other;
    theme.querySelector("[data-name]").textContent = "Light";
  }
  for (const button of root.querySelectorAll("[data-copy]")) {
    button.hidden = !navigator.clipboard;
  }
  for (const field of root.querySelectorAll("select[data-submit], input[data-submit]")) {
    field.addEventListener("change", () => field.form.requestSubmit());
  }
  for (const place of root.querySelectorAll("[data-plot]")) draw(place);
}

// Lines over days in the place of the chart of the server, whose colours they have; a pointer reads the values.
function draw(place) {
  if (!window.uPlot) return;
  const { x, series } = JSON.parse(place.dataset.plot);
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const axis = { stroke: colour("soft"), grid: { stroke: colour("rule"), width: 1 }, ticks: { show: false } };
  const options = {
    width: place.clientWidth, height: 200, legend: { live: true },
    scales: { x: { time: false }, y: { range: [0, 1.02] } },
    axes: [{ ...axis, values: (_, days) => days.map((day) => `${day} d`) }, { ...axis, size: 40 }],
    series: [
      { label: "Day", value: (_, day) => (day === null ? "–" : day.toFixed(1)) },
      ...series.map(({ label }, index) => ({ label, stroke: colour(`s${index % 8}`), width: 1.5, value: (_, part) => (part === null ? "–" : part.toFixed(2)) })),
    ],
  };
  place.replaceChildren();
  const plot = new uPlot(options, [x, ...series.map(({ values }) => values)], place);
  new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: 200 })).observe(place);
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const before = button.textContent;
  await navigator.clipboard.writeText(button.closest(".code").querySelector("code").textContent);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
});

document.addEventListener("DOMContentLoaded", () => prepare(document));
document.addEventListener("htmx:load", (event) => prepare(event.detail.elt));

// Sliders show their value while they move, and a form leaves out what is as the profile has it.
document.addEventListener("input", (event) => {
  const output = event.target.matches("input[type=range]") && event.target.closest("label")?.querySelector("output");
  if (output) output.value = Number(event.target.value).toFixed(2);
});
document.addEventListener("formdata", (event) => {
  if (!("trim" in event.target.dataset)) return;
  for (const field of event.target.elements) {
    const isOwn = field.dataset.default !== undefined && Number(field.value) === Number(field.dataset.default);
    if (field.name && (isOwn || field.value === "")) event.formData.delete(field.name);
  }
  if (![...event.formData.keys()].some((name) => name.startsWith("w_"))) event.formData.delete("sliders");
});

// The graph: Cytoscape draws what the list says; a focused link of the list marks its node, and a click on a node opens it.
document.addEventListener("DOMContentLoaded", () => {
  const canvas = document.querySelector("[data-graph]");
  if (!canvas || typeof cytoscape !== "function") return;
  canvas.hidden = false;
  const { nodes, edges } = JSON.parse(canvas.dataset.graph);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const kinds = { memory: "--s0", entity: "--s1", session: "--s2", more: "--s7" };
  const arrows = ["replaces", "sums_up"];
  const graph = cytoscape({
    container: canvas,
    elements: [
      ...nodes.map(({ x, y, ...data }) => ({ data, position: { x, y } })),
      ...edges.map((data) => ({ data: { ...data, label: arrows.includes(data.kind) ? data.kind.replace("_", " ") : "" } })),
    ],
    layout: { name: "preset", fit: true, padding: 40 },
    userZoomingEnabled: false, autoungrabify: true, boxSelectionEnabled: false,
    style: [
      { selector: "node", style: {
        "background-color": (node) => colour(kinds[node.data("kind")]), width: (node) => (node.data("hop") ? 16 : 26), height: (node) => (node.data("hop") ? 16 : 26),
        shape: (node) => ({ entity: "round-rectangle", session: "diamond", more: "ellipse" }[node.data("kind")] || "ellipse"),
        label: "data(label)", color: colour("--ink"), "font-size": 14, "font-family": "sans-serif", "text-wrap": "wrap", "text-max-width": 130, "text-valign": "bottom", "text-margin-y": 5,
        "text-background-color": colour("--paper"), "text-background-opacity": 0.85, "text-background-padding": 2, "min-zoomed-font-size": 7 } },
      { selector: "edge", style: {
        width: 1.5, "line-color": colour("--rule-strong"), "curve-style": "bezier", label: "data(label)", color: colour("--soft"), "font-size": 12,
        "text-background-color": colour("--paper"), "text-background-opacity": 0.85, "target-arrow-color": colour("--rule-strong"), "target-arrow-shape": (edge) => (edge.data("label") ? "triangle" : "none") } },
      { selector: 'edge[kind = "names"], edge[kind = "session"]', style: { opacity: 0.6, width: 1 } },
      { selector: ".marked", style: { "border-width": 4, "border-color": colour("--accent") } },
    ],
  });
  if (narrow.matches) {
    graph.fit(graph.nodes().filter((node) => node.data("hop") < 2), 40);
    if (graph.zoom() < 0.5) { graph.zoom(0.5); graph.center(graph.nodes()[0]); }
  }
  graph.on("tap", "node", (event) => { location.href = event.target.data("url"); });
  for (const name of ["focusin", "mouseover"]) {
    document.querySelector(".graph-list").addEventListener(name, (event) => {
      const link = event.target.closest("[data-node]");
      graph.nodes().removeClass("marked");
      if (link) graph.getElementById(link.dataset.node).addClass("marked");
    });
  }
});
