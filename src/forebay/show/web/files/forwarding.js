// The forwarding layer: I/O nodes now, the window and the pattern over time, and what the council learned.

import { line } from "/page/charts.js";
import { h, put, table } from "/page/dom.js";
import { poll } from "/page/link.js";
import { count, duration, moment, plural, rate, size } from "/page/format.js";

const EVERY = 2000;

export function show(main) {
  const box = h("div", {});
  put(main, h("div", { class: "row bar-row" }, h("h2", {}, "Forwarding")), box);
  put(box, h("p", { class: "quiet" }, "Loading …"));
  let before = null;
  return poll(
    "/v1/page/looks/forwarding",
    EVERY,
    (view) => {
      draw(box, view, before);
      before = { at: performance.now(), nodes: new Map((view.nodes ?? []).map((node) => [node.address, node])) };
      return view.none;
    },
    (error) => put(box, h("p", { class: "note" }, `${error.message}.`)),
  );
}

/** Bytes per second since the last update. */
function speed(node, before, name) {
  const old = before?.nodes.get(node.address);
  return old ? rate(Math.max(0, node[name] - old[name]) / ((performance.now() - before.at) / 1000)) : "…";
}

function draw(box, view, before) {
  if (view.none) {
    put(box, h("p", { class: "note" }, view.none));
    return;
  }
  const past = view.past,
    last = past.at(-1);
  put(
    box,
    view.troubles.map((trouble) => h("p", { class: "note bad" }, trouble)),
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
          view.nodes,
          "No I/O node answers with its metrics.",
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
      view.council &&
        card(
          "Council",
          h("p", {}, `${plural(view.council.nodes, "I/O node")}, ${plural(view.council.situations, "situation")} known`),
        ),
      view.learned &&
        h(
          "section",
          { class: "card wide" },
          h("h3", {}, `What the council learned: the best ${view.learned.parameter} by situation`),
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
                  row.best === null ? "–" : view.learned.parameter === "window" ? window_(row.best) : String(row.best),
                "n",
              ],
              ["evidence", (row) => `${count(Math.round(row.rewards))} s`, "n"],
            ],
            view.learned.situations,
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
      : duration(nanoseconds / 1e9);
const value = (row) => (row.value === null ? "–" : row.parameter === "window" ? window_(row.value) : String(row.value));

/** The rows at which the pattern or the decision changes. */
function changes(rows) {
  const key = (row) => `${row.patterns} ${row.operation} ${row.value}`;
  return rows.filter((row, n) => n === 0 || key(row) !== key(rows[n - 1]));
}
