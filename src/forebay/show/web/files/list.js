// A table of any length: it draws only visible rows, and loads only their pages.

import { h, put, say, soon } from "/page/dom.js";
import { ask, on } from "/page/link.js";
import { open } from "/page/place.js";
import { count } from "/page/format.js";

const HEIGHT = 30,
  PAGE = 200,
  SPARE = 8;

/** Shows the grants of `query()`. Columns are [head, width, cell of a row, class]. */
export function showList(box, { caption, columns, query, empty }) {
  let pages = new Map(),
    total = null,
    currentQuery = query(),
    stamp = 0;
  const above = h("tr", { class: "space", "aria-hidden": "true" }, h("td", { colspan: columns.length })),
    below = above.cloneNode(true);
  const body = h("tbody", {}),
    sum = h("p", { class: "quiet sum", role: "status" }, " ");
  const sheet = h(
    "table",
    { class: "long" },
    h("caption", { class: "visually-hidden" }, caption),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        columns.map(([head, width, , kind]) => h("th", { scope: "col", class: kind, style: { width } }, head)),
      ),
    ),
    body,
  );
  const view = h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": caption }, sheet);
  put(box, sum, view);

  async function page(number) {
    if (pages.has(number)) return;
    pages.set(number, null);
    const started = stamp;
    try {
      const reply = await ask(`/v1/page/grants?${currentQuery}&offset=${number * PAGE}&limit=${PAGE}`);
      if (started !== stamp) return;
      total = reply.total;
      pages.set(number, reply.rows);
      draw();
    } catch (error) {
      if (started === stamp) {
        pages.delete(number);
        say(sum, `${error.message}.`);
      }
    }
  }

  function draw() {
    if (total === null) {
      page(0);
      return;
    }
    say(sum, total ? `${count(total)} ${total === 1 ? "grant" : "grants"}` : empty);
    view.hidden = total === 0;
    sheet.setAttribute("aria-rowcount", total + 1);
    const first = Math.max(0, Math.floor(view.scrollTop / HEIGHT) - SPARE);
    const last = Math.min(total, Math.ceil((view.scrollTop + view.clientHeight) / HEIGHT) + SPARE);
    for (let number = Math.floor(first / PAGE); number * PAGE < last; number += 1) page(number);
    above.firstChild.style.height = `${first * HEIGHT}px`;
    below.firstChild.style.height = `${Math.max(0, total - last) * HEIGHT}px`;
    const rows = [above];
    for (let at = first; at < last; at += 1) rows.push(drawRow(pages.get(Math.floor(at / PAGE))?.[at % PAGE], at));
    put(body, rows, below);
  }

  const drawn = new WeakMap();
  function drawRow(row, at) {
    if (!row) return h("tr", { class: "wait" }, h("td", { colspan: columns.length }, "…"));
    if (!drawn.has(row)) {
      const go = () => open("grant", row.id);
      drawn.set(
        row,
        h(
          "tr",
          {
            tabindex: "0",
            class: "go",
            "data-grant": row.id,
            onclick: go,
            onkeydown: (event) => {
              if (event.key === "Enter") go();
            },
          },
          columns.map(([, , cell, kind]) => {
            const content = cell(row);
            return h(
              "td",
              { class: kind, title: typeof content === "string" && content.length > 12 ? content : null },
              content,
            );
          }),
        ),
      );
    }
    const element = drawn.get(row);
    element.setAttribute("aria-rowindex", at + 2);
    return element;
  }

  /** Loads the visible pages again, and shows the old rows meanwhile. */
  async function refresh() {
    stamp += 1;
    const started = stamp,
      first = Math.floor(view.scrollTop / HEIGHT / PAGE),
      last = Math.floor((view.scrollTop + view.clientHeight) / HEIGHT / PAGE);
    const fresh = new Map();
    try {
      for (let number = first; number <= last; number += 1) {
        const reply = await ask(`/v1/page/grants?${currentQuery}&offset=${number * PAGE}&limit=${PAGE}`);
        if (started !== stamp) return;
        total = reply.total;
        fresh.set(number, reply.rows);
      }
      pages = fresh;
      draw();
    } catch {
      /* no connection; the next frame tries again */
    }
  }

  const calm = soon(refresh, 400),
    busy = soon(refresh, 2500);
  const again = () => {
    currentQuery = query();
    pages = new Map();
    total = null;
    stamp += 1;
    view.scrollTop = 0;
    draw();
  };
  view.addEventListener("scroll", soon(draw, 16));
  document.addEventListener("filtered", filtered);
  function filtered() {
    if (query() !== currentQuery) again();
  }
  const sized = new ResizeObserver(soon(draw, 50));
  sized.observe(view);
  const off = [
    on("grants", (what) => {
      if (!what) {
        currentQuery = query();
        refresh();
      } else if (what.more || view.scrollTop > 4000) busy();
      else calm();
    }),
    on("machine", (what) => {
      if (what?.nodes.length) calm(); // a node that falls silent, or answers again, arrives with its grants
    }),
  ];
  draw();
  return () => {
    off.forEach((end) => end());
    sized.disconnect();
    stamp += 1;
    document.removeEventListener("filtered", filtered);
  };
}
