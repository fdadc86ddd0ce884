// The forwarding layer: I/O nodes now, the window and the pattern over time, and what the council learned.

import { line } from "/page/charts.js";
import { h, put, table } from "/page/dom.js";
import { LONG, ask } from "/page/link.js";
import { count, lasting, moment, plural, rate, size } from "/page/format.js";

const EVERY = 2000;

export function show(main) {
  const box = h("div", {});
  put(main, h("div", { class: "row bar-row" }, h("h2", {}, "Forwarding")), box);
  put(box, h("p", { class: "quiet" }, "Loading …"));
  let before = null,
    ended = false,
    timer = null;
  const work = async () => {
    if (!document.hidden) {
      try {
        const found = await ask("/v1/page/looks/forwarding", { patience: LONG });
        if (ended) return;
        draw(box, found, before);
        before = { at: performance.now(), nodes: new Map((found.nodes ?? []).map((node) => [node.address, node])) };
        if (found.none) return;
      } catch (error) {
        if (!ended) put(box, h("p", { class: "note" }, `${error.message}.`));
      }
    }
    if (!ended) timer = setTimeout(work, EVERY);
  };
  work();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

/** Bytes per second since the last look. */
function speed(node, before, name) {
  const old = before?.nodes.get(node.address);
  return old ? rate(Math.max(0, node[name] - old[name]) / ((performance.now() - before.at) / 1000)) : "…";
}

function draw(box, found, before) {
  if (found.none) {
    put(box, h("p", { class: "note" }, found.none));
    return;
  }
  const past = found.past,
    last = past.at(-1);
  put(
    box,
    found.troubles.map((words) => h("p", { class: "note bad" }, words)),
    h(
      "div",
      { class: "cards" },
      h(
        "section",
        { class: "card wide" },
        h("h3", {}, "I/O nodes"),
        table(
          "I/O nodes",
          [
            ["I/O node", (node) => h("span", { class: "mono" }, node.address)],
            ["read", (node) => speed(node, before, "bytes_read"), "n"],
            ["write", (node) => speed(node, before, "bytes_written"), "n"],
            ["mostly", (node) => node.operation],
            ["load", (node) => node.load.toFixed(1), "n"],
            ["queues", (node) => Object.values(node.depths).join(" · ") || "–"],
            ["clients", (node) => count(node.clients), "n"],
            ["processes", (node) => count(node.processes), "n"],
            ["files", (node) => count(node.files), "n"],
            ["mean request", (node) => size(node.mean), "n"],
            ["window", (node) => window_(1e9 * node.window_seconds), "n"],
          ],
          found.nodes,
          "No I/O node shows its metrics.",
        ),
        h("p", { class: "quiet" }, "queues: pieces that wait for each data server"),
      ),
      past.length > 1 &&
        card(
          "Window over time",
          line(
            "Window over time",
            past.filter((row) => typeof row.value === "number").map((row) => [row.time, row.value]),
            { sayX: (at) => moment(at), sayY: window_, steps: true },
          ),
        ),
      past.length > 1 &&
        card(
          "Bandwidth over time",
          line(
            "Bandwidth over time",
            past.map((row) => [row.time, row.bandwidth ?? 0]),
            { sayX: (at) => moment(at), sayY: rate },
          ),
        ),
      past.length > 0 &&
        h(
          "section",
          { class: "card wide" },
          h("h3", {}, "Detected pattern, and what followed"),
          table(
            "Patterns",
            [
              ["from", (row) => moment(row.time), "n"],
              ["pattern", (row) => row.patterns?.join(", ") || "idle"],
              ["mostly", (row) => row.operation ?? "–"],
              [last.parameter, (row) => value(row), "n"],
              ["why", (row) => row.because ?? ""],
            ],
            changes(past).slice(-12).reverse(),
          ),
        ),
      found.council &&
        card(
          "Council",
          h("p", {}, `${plural(found.council.nodes, "I/O node")}, ${plural(found.council.situations, "situation")} known`),
        ),
      found.learned &&
        h(
          "section",
          { class: "card wide" },
          h("h3", {}, `What the council learned: the best ${found.learned.parameter} by situation`),
          table(
            "What the council learned",
            [
              ["operation", (row) => row.operation],
              ["pattern", (row) => row.pattern],
              ["servers", (row) => row.servers, "n"],
              ["I/O nodes", (row) => row.io_nodes, "n"],
              ["clients", (row) => row.clients, "n"],
              ["processes", (row) => row.processes, "n"],
              [
                "best",
                (row) =>
                  row.best === null ? "–" : found.learned.parameter === "window" ? window_(row.best) : String(row.best),
                "n",
              ],
              ["rests on", (row) => `${count(Math.round(row.rewards))} s`, "n"],
            ],
            found.learned.situations,
            "Nothing yet.",
          ),
        ),
    ),
  );
}

const card = (title, ...inside) => h("section", { class: "card" }, h("h3", {}, title), ...inside);
const window_ = (nanoseconds) =>
  nanoseconds < 1e6
    ? `${Math.round(nanoseconds / 1e3)} µs`
    : nanoseconds < 1e9
      ? `${Number((nanoseconds / 1e6).toPrecision(3))} ms`
      : lasting(nanoseconds / 1e9);
const value = (row) => (row.value === null ? "–" : row.parameter === "window" ? window_(row.value) : String(row.value));

/** Only where the pattern or the decision changes. */
function changes(rows) {
  const key = (row) => `${row.patterns} ${row.operation} ${row.value}`;
  return rows.filter((row, n) => n === 0 || key(row) !== key(rows[n - 1]));
}
