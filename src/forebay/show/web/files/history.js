// Past runs: applications by bytes and runs, their striping, and the health of OSTs.

import { bars, line } from "/page/charts.js";
import { facts, h, put, table } from "/page/dom.js";
import { LONG, ask } from "/page/link.js";
import { count, moment, plural, rate, size } from "/page/format.js";

export function show(main, here) {
  const app = here.params.get("app") ?? "";
  const box = h("div", {}),
    bar = h("div", { class: "row bar-row" }, h("h2", {}, "History"));
  put(main, bar, box);
  put(box, h("p", { class: "quiet" }, "Loading …"));
  const work = async () => {
    const now = new URLSearchParams(location.hash.split("?")[1]).get("app") ?? "";
    try {
      if (now) await drawApp(box, now);
      else await drawAll(box);
    } catch (error) {
      put(box, h("p", { class: "note" }, `${error.message}.`));
    }
  };
  document.addEventListener("filtered", work);
  work(app);
  return () => document.removeEventListener("filtered", work);
}

const to = (app) => h("a", { href: `#/history?app=${encodeURIComponent(app)}` }, app);
const percent = (value) => (value === null ? "–" : `${value.toFixed(1)} %`);
const binary = (bytes) =>
  bytes % 1048576 === 0 ? `${bytes / 1048576} MiB` : bytes % 1024 === 0 ? `${bytes / 1024} KiB` : `${bytes} B`;

const mounted = (ost) => ost.filesystem || "unknown";
const leftOut = (other) => `${plural(other.runs, "run")} on ${other.filesystem}`;
const over = (usage) =>
  usage.filesystems.length > 1 ? `; over all file systems: ${usage.filesystems.map(mounted).join(", ")}` : "";

async function drawAll(box) {
  const view = await ask("/v1/page/looks/history", { patience: LONG });
  if (view.none) {
    put(box, h("p", { class: "note" }, view.none));
    return;
  }
  const usage = view.usage,
    sick = view.osts.filter((ost) => ost.verdict === "sick");
  put(
    box,
    h(
      "p",
      { class: "quiet sum" },
      `${plural(usage.runs, "run")} of ${plural(usage.apps, "application")}, ${size(usage.total_bytes)}${over(usage)}`,
    ),
    h(
      "div",
      { class: "cards" },
      card(
        "Most bytes",
        bars(
          "Applications with the most bytes",
          usage.most_bytes.map((row) => [row.app, row.total_bytes]),
          size,
        ),
      ),
      card(
        "Most runs",
        bars(
          "Applications with the most runs",
          usage.most_run.map((row) => [row.app, row.runs]),
          count,
        ),
      ),
      card(
        "OSTs that a run used",
        table(
          "Stripe counts",
          [
            [
              "OSTs",
              (row) =>
                row.high === null || row.low === row.high
                  ? `${row.low}${row.high === null ? "+" : ""}`
                  : `${row.low} – ${row.high}`,
            ],
            ["runs", (row) => count(row.runs), "n"],
            ["share", (row) => percent(row.percent), "n"],
          ],
          shortened(usage.stripe_count),
          "No run recorded it.",
        ),
      ),
      card(
        "Stripe size",
        table(
          "Stripe sizes",
          [
            ["size", (row) => binary(row.stripe_size)],
            ["runs", (row) => count(row.runs), "n"],
            ["share", (row) => percent(row.percent), "n"],
          ],
          usage.stripe_size,
          "No run recorded it.",
        ),
        facts(
          ["On one OST", percent(usage.default.stripe_count_pct)],
          ["In 1 MiB stripes", percent(usage.default.stripe_size_pct)],
          ["Both defaults", percent(usage.default.both_pct)],
        ),
      ),
      h(
        "section",
        { class: "card wide" },
        h("h3", {}, "OST health"),
        h(
          "p",
          {},
          sick.length
            ? h("span", { class: "badge bad" }, `sick: ${sick.map((ost) => `${ost.ost} of ${mounted(ost)}`).join(", ")}`)
            : "no OST is sick",
        ),
        table(
          "OSTs, the worst first",
          [
            ["file system", mounted],
            ["OST", (ost) => String(ost.ost), "n"],
            ["verdict", (ost) => ost.verdict],
            ["slowness", (ost) => (ost.slowness === null ? "–" : ost.slowness.toFixed(2)), "n"],
            ["runs", (ost) => count(ost.runs), "n"],
            ["volume", (ost) => size(ost.total_bytes), "n"],
          ],
          view.osts.slice(0, 20),
          "No run recorded its OSTs.",
        ),
      ),
      h(
        "section",
        { class: "card wide" },
        h(
          "h3",
          {},
          "Applications",
          view.left_out ? h("span", { class: "quiet" }, `, the ${view.apps.length} with the most bytes`) : null,
        ),
        table(
          "Applications",
          [
            ["application", (app) => to(app.app)],
            ["runs", (app) => count(app.runs), "n"],
            ["volume", (app) => size(app.total_bytes), "n"],
            ["mean", (app) => (app.mean_perf ? rate(app.mean_perf) : "–"), "n"],
            ["best", (app) => (app.best_perf ? rate(app.best_perf) : "–"), "n"],
            [
              "best with",
              (app) =>
                app.best
                  ? `${app.best.nprocs} processes${app.best.file_stripe_count ? `, ${app.best.file_stripe_count} × ${binary(app.best.stripe_size)}` : ""}`
                  : "–",
            ],
            ["last run", (app) => moment(app.last_start_time), "n"],
          ],
          view.apps,
        ),
      ),
    ),
  );
}

/** A run's number leads to its page, which opens beside this one. */
const runs = (rows) =>
  table(
    "Runs",
    [
      [
        "run",
        (run) =>
          h("a", { href: `/v1/page/sheets/run/${run.run_id}`, target: "_blank", rel: "noopener" }, String(run.run_id)),
      ],
      ["started", (run) => moment(run.start_time)],
      ["processes", (run) => count(run.nprocs), "n"],
      ["volume", (run) => size(run.total_bytes), "n"],
      ["performance", (run) => (run.perf_by_slowest ? rate(run.perf_by_slowest) : "–"), "n"],
      ["findings", (run) => (run.findings === null ? "unknown" : run.findings.join(", ") || "none")],
    ],
    rows,
  );

/** Removes the empty bins at the end. */
const shortened = (bins) => bins.slice(0, bins.findLastIndex((bin) => bin.runs) + 1);
const card = (title, ...inside) => h("section", { class: "card" }, h("h3", {}, title), ...inside);

async function drawApp(box, app) {
  const [view, past] = await Promise.all(
    ["application", "runs"].map((name) =>
      ask(`/v1/page/looks/${name}?of=${encodeURIComponent(app)}`, { patience: LONG }),
    ),
  );
  const back = h("p", {}, h("a", { href: "#/history" }, "← all applications"));
  if (view.none) {
    put(box, back, h("p", { class: "note" }, view.none));
    return;
  }
  const advice = view.advice;
  put(
    box,
    back,
    h(
      "div",
      { class: "cards" },
      card(
        view.app,
        facts(
          ["Runs", count(view.runs)],
          ["File system", view.filesystem],
          ["Left out", view.elsewhere.map(leftOut).join(", ")],
          ["Processes", count(view.processes)],
          ["From", moment(view.first_start_time)],
          ["To", moment(view.last_start_time)],
        ),
        view.words.map((sentence) => h("p", {}, sentence)),
      ),
      card(
        "Bandwidth by OSTs, b(n)",
        view.points.length
          ? [
              line(
                "Bandwidth by OSTs",
                view.points.map((point) => [point.n, point.median]),
                { sayX: (n) => plural(Number(n.toPrecision(2)), "OST"), sayY: rate },
              ),
              table(
                "Bandwidth by OSTs",
                [
                  ["OSTs", (point) => String(point.n), "n"],
                  ["median", (point) => rate(point.median), "n"],
                  ["10 %", (point) => rate(point.p10), "n"],
                  ["90 %", (point) => rate(point.p90), "n"],
                  ["runs", (point) => count(point.runs), "n"],
                ],
                view.points,
              ),
            ]
          : h("p", { class: "quiet" }, "No run recorded its OSTs and its time."),
      ),
      card(
        "Last advice",
        advice
          ? [
              h(
                "p",
                { class: "because" },
                `${plural(advice.stripe_count, "stripe")} of ${binary(advice.stripe_size)} from OST ${advice.stripe_offset}`,
              ),
              h("p", {}, advice.because),
              facts(
                ["When", moment(advice.time)],
                ["File system", advice.filesystem],
                ["Policy", advice.policy],
                ["Phase", advice.phase],
                ["Processes", count(advice.nprocs)],
                ["Outcome", advice.outcome],
                ["On", advice.applied_to],
              ),
            ]
          : h("p", { class: "quiet" }, "No advice yet. Get some: forebay advise --app ", h("code", {}, app)),
      ),
      h(
        "section",
        { class: "card wide" },
        h(
          "h3",
          {},
          "Runs",
          past.limited ? h("span", { class: "quiet" }, `, the newest ${past.runs.length}`) : null,
        ),
        runs(past.runs ?? []),
      ),
    ),
  );
  document.title = `${app} – Forebay`;
}
