// What HTML and htmx cannot do: copy buttons, and the colour scheme of the system in the toggle's label.
"use strict";

function prepare(root) {
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
