// What HTML and htmx cannot do: copy buttons, closed filters on a narrow screen, and a colour toggle that knows the system's scheme.
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
  const output = event.target.matches("input[type=range]") && event.target.closest("label").querySelector("output");
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
