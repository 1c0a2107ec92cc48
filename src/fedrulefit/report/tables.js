
// The page's tables: long ones are folded, rules are sorted and filtered; and light and dark.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);

  // ---- long tables -------------------------------------------------------

  document.documentElement.classList.add("live"); // without a program nothing is hidden
  for (const button of document.querySelectorAll(".more")) {
    const table = byId(button.dataset.table);
    const late = table.querySelector(".late");
    button.hidden = !late;
    button.addEventListener("click", () => {
      table.classList.add("all");
      button.hidden = true;
      const next = late.querySelector("th");
      next.tabIndex = -1;
      next.focus({ preventScroll: true });
      count();
    });
  }

  // On paper nothing can be opened: all of it is there, and afterwards as before.
  let closed = [], short = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    short = [...document.querySelectorAll("table.long:not(.all)")];
    for (const folded of closed) folded.open = true;
    for (const part of short) part.classList.add("all");
    count();
  });
  addEventListener("afterprint", () => {
    for (const folded of closed) folded.open = false;
    for (const part of short) part.classList.remove("all");
    count();
  });

  // ---- sorting and filtering the rules -------------------------------------

  const table = byId("rules-table"), filter = byId("filter");
  const rows = table ? [...table.tBodies[0].rows] : [];

  function filterRows() {
    const words = byId("f-text").value.trim().toLowerCase();
    const direction = byId("f-direction").value, level = byId("f-level") ? byId("f-level").value : "";
    const support = Number(byId("f-support").value) || 0;
    const importance = Number(byId("f-importance").value) || 0;
    let shown = 0;
    for (const row of rows) {
      const fits = (!level || row.dataset.level === level) && (!words || row.cells[0].textContent.toLowerCase().includes(words)) &&
        (!direction || row.dataset.direction === direction) &&
        (!support || Number(row.dataset.support) >= support) &&
        Number(row.dataset.importance) >= importance;
      row.hidden = !fits;
      row.classList.toggle("late", fits && ++shown > Number(table.dataset.first));
    }
    const all = table.classList.contains("all");
    document.querySelector('.more[data-table="rules-table"]').hidden = all || shown <= Number(table.dataset.first);
    count();
  }

  function count() {
    if (!table) return;
    const fit = rows.filter((row) => !row.hidden).length;
    const seen = table.classList.contains("all") ? fit : Math.min(fit, Number(table.dataset.first));
    byId("rules-count").textContent = fit ? seen + " of " + rows.length + " shown." : "No rule fits the filter.";
  }

  function sortRows(head) {
    const key = head.dataset.key;
    const up = head.getAttribute("aria-sort") === "descending" || (key === "words" && head.getAttribute("aria-sort") !== "ascending");
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    byId("rules-order").textContent = "by " + head.firstChild.textContent.toLowerCase() + (up ? ", upwards" : ", downwards");
    const value = key === "words"
      ? (row) => row.cells[0].textContent
      : (row) => Number(row.dataset[key]);
    const compare = key === "words"
      ? (a, b) => value(a).localeCompare(value(b))
      : (a, b) => value(a) - value(b);
    rows.sort((a, b) => (up ? compare(a, b) : compare(b, a)));
    table.tBodies[0].append(...rows);
    filterRows();
  }

  if (table) {
    filter.hidden = false;
    filter.addEventListener("input", filterRows);
    filter.addEventListener("submit", (event) => event.preventDefault());
    for (const head of table.tHead.rows[0].cells) {
      // A browser repeats no table head that holds a button: on paper it is text.
      const button = document.createElement("button"), words = document.createElement("span");
      button.textContent = words.textContent = head.textContent;
      words.className = "paper";
      button.type = "button";
      button.addEventListener("click", () => sortRows(head));
      head.replaceChildren(button, words);
    }
    count();
  }

  // ---- light and dark ----------------------------------------------------

  const theme = byId("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { theme.textContent = isDark() ? "Light colours" : "Dark colours"; };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  prefersDark.addEventListener("change", nameTheme);
  nameTheme();
})();
