// SPDX-License-Identifier: Apache-2.0
"use strict";
// Sorts a table by the column whose heading is chosen. Cells without a value stay at the end. A
// number is sorted by its data-order, or by what it reads as: "1 234", "1.5 % of bandwidth".
for (const table of document.querySelectorAll("table.sortable")) {
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
