"use strict";
// Sorts and filters the workloads. Without it the page is a complete table.
(() => {
  const table = document.getElementById("table");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const byId = (id) => document.getElementById(id);
  const fields = ["q", "verdict", "namespace"];
  let texts = null;

  // textOf is read once, when somebody first looks for something.
  const textOf = (i) => {
    texts ??= rows.map((row) => Array.from(row.cells, (cell) => cell.textContent).join(" ").toLowerCase());
    return texts[i];
  };

  const filter = () => {
    const words = byId("q").value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdict = byId("verdict").value;
    const namespace = byId("namespace").value;
    let shown = 0;
    rows.forEach((row, i) => {
      const fits = (!verdict || row.dataset.v === verdict) && (!namespace || row.dataset.ns === namespace) &&
        words.every((word) => textOf(i).includes(word));
      row.hidden = !fits;
      if (fits) shown++;
    });
    byId("none").hidden = shown > 0;
    byId("shown").textContent = shown === rows.length ? `${rows.length} workloads` : `${shown} of ${rows.length} workloads`;
  };

  // The address has what is filtered by, so that a view can be handed on.
  const remember = () => {
    const query = new URLSearchParams();
    for (const id of fields) if (byId(id).value) query.set(id, byId(id).value);
    try {
      history.replaceState(null, "", query.size ? `#${query}` : location.pathname + location.search);
    } catch { /* a viewer that allows no addresses */ }
  };

  const recall = () => {
    if (!location.hash.includes("=")) return;
    const query = new URLSearchParams(location.hash.slice(1));
    for (const id of fields) byId(id).value = query.get(id) ?? "";
    filter();
    byId("workloads").scrollIntoView();
  };

  const ranks = { ready: 0, notes: 1, stays: 2 };
  const values = [
    (row) => row.cells[0].textContent,
    (row) => row.cells[1].textContent,
    (row) => row.cells[2].textContent,
    (row) => ranks[row.dataset.v] ?? 3,
    (row) => row.cells[4].children.length,
  ];
  const compare = new Intl.Collator("en", { numeric: true }).compare;

  const sort = (column, head) => {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const keyed = rows.map((row, i) => ({ row, i, value: values[column](row) }));
    keyed.sort((a, b) => {
      const order = typeof a.value === "number" ? a.value - b.value : compare(a.value, b.value);
      return (down ? -order : order) || a.i - b.i;
    });
    body.append(...keyed.map((k) => k.row));
  };

  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sort(column, head));
    head.replaceChildren(button);
  });

  const form = byId("filters");
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => { filter(); remember(); });
  form.addEventListener("reset", () => setTimeout(() => { filter(); remember(); }));
  addEventListener("hashchange", recall);
  filter();
  recall();
})();
