// SPDX-License-Identifier: Apache-2.0
"use strict";
// Sorts a table by the column whose heading is chosen. Cells without a value stay at the end. A
// number is sorted by its data-order, or by what it reads as: "1 234", "1.5 % of bandwidth".
function sortable(table) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const key = (row) => {
      const cell = row.cells[column];
      const order = cell.dataset.order;
      if (order === undefined && cell.classList.contains("n")) {
        const value = parseFloat(cell.textContent.replace(/\s/g, "").replace("\u2212", "-"));
        return Number.isNaN(value) ? null : value;
      }
      if (order === undefined) {
        return (cell.dataset.sort ?? cell.textContent).trim().toLowerCase();
      }
      return order === "" ? null : Number(order);
    };
    const sort = () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
      rows.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null);
        const difference = a < b ? -1 : a > b ? 1 : 0;
        return down ? -difference : difference;
      });
      table.tBodies[0].append(...rows.map(([, row]) => row));
    };
    heading.tabIndex = 0;
    heading.scope = "col";
    heading.addEventListener("click", sort);
    heading.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        sort();
      }
    });
  });
}
document.querySelectorAll("table.sortable").forEach(sortable);

// Parts of a report that are folded away, and the later or large pictures of a section, come packed (plots/pack.py). They are unpacked one after
// the other when the page stands, so that it opens at once and searching it still finds all.
async function unpack(script) {
  const place = script.parentElement;
  try {
    const bytes = Uint8Array.from(atob(script.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    script.insertAdjacentHTML("afterend", await new Response(stream).text());
    script.remove();
    place.querySelectorAll("table.sortable").forEach(sortable);
  } catch (error) {
    script.insertAdjacentText("afterend", `Cannot be unfolded (${error}); it is in the result files next to this page.`);
  }
}
// What a link leads to can be in a part that had not been unpacked when it was followed, or below one.
const linked = () => (location.hash.includes("%") ? null : document.getElementById(location.hash.slice(1)));
function reveal() {
  const target = linked();
  if (!target) return;
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  // A section's heading stands in the fold that it is all about.
  const own = target.querySelector(":scope > details.fold");
  if (own) own.open = true;
  target.scrollIntoView();
}
const shown = () => new Promise((done) => { setTimeout(done, 0); });
globalThis.unpacked = (async () => {
  await new Promise((done) => { addEventListener("load", done, { once: true }); });
  for (const script of document.querySelectorAll("script.packed")) {
    await shown();
    await unpack(script);
  }
  reveal();
})();
addEventListener("hashchange", () => { globalThis.unpacked.then(reveal); });
// The same link again changes no address; its fold may have been closed since.
addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='#']");
  if (link && link.hash === location.hash) globalThis.unpacked.then(reveal);
});
