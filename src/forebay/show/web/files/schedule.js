// The plan for Slurm's queue: what runs, which job starts when, and why this one waits.

import { h, put, s, table } from "/page/dom.js";
import { poll } from "/page/link.js";
import { count, duration, moment, plural, size } from "/page/format.js";

const EVERY = 3000;
const ROWS = 40; // in the drawing
const WIDEST = 950,
  NARROWEST = 300,
  LEFT = 90,
  HIGH = 18,
  TOP = 22;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080, 43200, 525600]; // minutes between marks

/** What a reader sees of a code; the sentence beside it says the rest. */
const REASONS = {
  starts: "starts now",
  stages: "stages in",
  nodes: "needs nodes",
  space: "needs space",
  "nodes-and-space": "needs both",
  behind: "behind others",
  slurm: "Slurm's reason",
  held: "held",
  excluded: "excluded",
  "too-large": "too large",
  unclear: "unclear",
};

export function show(main) {
  const box = h("div", {});
  put(main, h("div", { class: "row bar-row" }, h("h2", {}, "Schedule")), box);
  put(box, h("p", { class: "quiet" }, "Loading …"));
  return poll(
    "/v1/page/looks/schedule",
    EVERY,
    (view) => {
      draw(box, view);
      return view.none && !view.at;
    },
    (error) => put(box, h("p", { class: "note" }, `${error.message}.`)),
  );
}

function draw(box, view) {
  if (view.none) {
    put(box, h("p", { class: "note" }, view.none));
    return;
  }
  const machine = view.machine;
  put(
    box,
    view.trouble && h("p", { class: "note bad" }, view.trouble),
    view.mode === "shadow" &&
      h("p", { class: "note" }, "Shadow mode: this is what the planner would do. It changes nothing in Slurm."),
    h(
      "p",
      { class: "quiet sum", role: "status" },
      [
        `policy ${view.policy}`,
        `plan of ${moment(view.at)}`,
        `${count(machine.free_nodes)} of ${count(machine.nodes)} ${machine.unit} free`,
        machine.pool && `${size(machine.free_space)} of ${size(machine.space)} free in ${machine.pool}`,
        plural(view.counts.running, "job runs", "jobs run"),
        plural(view.counts.planned, "job is planned", "jobs are planned"),
        view.counts.others + view.counts.deep &&
          plural(view.counts.others + view.counts.deep, "other waits", "others wait"),
      ]
        .filter(Boolean)
        .join(" · "),
    ),
    h(
      "div",
      { class: "cards" },
      h("section", { class: "card wide" }, h("h3", {}, "When"), gantt(view, box.clientWidth - 30)),
      h(
        "section",
        { class: "card wide" },
        h("h3", {}, "Planned", left(view, "planned")),
        table("Planned jobs, in the order in which they go", planned(view), view.planned, "No job waits for the planner."),
      ),
      view.others.length > 0 &&
        h(
          "section",
          { class: "card wide" },
          h("h3", {}, "Left to Slurm", left(view, "others")),
          table("Jobs that are not planned", others(view), view.others),
        ),
      h(
        "section",
        { class: "card wide" },
        h("h3", {}, "Running", left(view, "running")),
        table("Running jobs", running(view), view.running, "No job runs."),
      ),
    ),
  );
}

const left = (view, name) =>
  view.counts[name] > view[name].length && h("span", { class: "quiet" }, `, the first ${view[name].length}`);

const common = (view) => [
  ["job", (job) => h("span", { class: "mono" }, job.job)],
  ["user", (job) => job.user, "hide-narrow"],
  [view.machine.unit, (job) => count(job.nodes), "n"],
  ["space", (job) => (job.space ? size(job.space) : "–"), "n"],
];

const why = (view) => (job) =>
  h(
    "span",
    { class: "plan-why" },
    h("span", { class: job.overdue ? "badge warn" : "badge" }, job.overdue ? "overdue" : (REASONS[job.because] ?? job.because)),
    " ",
    job.sentence,
    job.raised > 0 &&
      h("span", { class: "quiet" }, ` Priority ${view.mode === "shadow" ? "would be " : ""}raised by ${count(job.raised)}.`),
    job.kept_until &&
      h("span", { class: "quiet" }, ` ${view.mode === "shadow" ? "Would be kept" : "Kept"} back until ${moment(job.kept_until)}.`),
  );

const planned = (view) => [
  ...common(view),
  ["waits", (job) => duration(job.waited), "n hide-narrow"],
  ["starts", (job) => (job.start === null ? "–" : job.start <= view.at ? "now" : moment(job.start)), "n"],
  ["why", why(view), "whole-narrow"],
];

const others = (view) => [...common(view), ["waits", (job) => duration(job.waited), "n hide-narrow"], ["why", why(view), "whole-narrow"]];

const running = (view) => [
  ...common(view),
  ["state", (job) => job.state.toLowerCase()],
  ["since", (job) => moment(job.start), "n hide-narrow"],
  ["ends by", (job) => moment(job.end_by), "n"],
];

/** Bars over time: what runs until when, and where the plan puts the first of those that wait. */
function gantt(view, room) {
  const now = view.at,
    wide = Math.max(NARROWEST, Math.min(WIDEST, room)),
    rows = [
      ...view.running.filter((job) => job.nodes > 0).map((job) => ({ ...job, end: job.end_by, runs: true })),
      ...view.planned.filter((job) => job.start !== null).map((job) => ({ ...job, end: job.start + job.walltime })),
    ].slice(0, ROWS);
  if (!rows.length) return h("p", { class: "quiet" }, "Nothing runs, and nothing is planned.");
  const last = Math.max(...rows.map((job) => Math.max(job.start, now))),
    shortest = Math.min(...rows.map((job) => job.end - Math.max(job.start, now)));
  const end = Math.max(last + Math.max(shortest, (last - now) * 0.15), now + 60);
  const x = (at) => LEFT + ((wide - LEFT - 8) * (Math.min(Math.max(at, now), end) - now)) / (end - now);
  const high = TOP + rows.length * HIGH + 4;
  const most = (wide - LEFT) / 100,
    step = 60 * (STEPS.find((minutes) => (end - now) / 60 / minutes <= most) ?? STEPS.at(-1));
  const marks = Array.from({ length: Math.floor((end - now) / step) + 1 }, (_, n) => now + n * step);
  return s(
    "svg",
    { class: "chart plan-chart", viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": "Jobs over time, from now on" },
    marks.map((at, n) => [
      s("line", { class: "grid", x1: x(at), x2: x(at), y1: TOP - 4, y2: high }),
      s(
        "text",
        { x: x(at), y: 12, "text-anchor": n === 0 ? "start" : x(at) > wide - 40 ? "end" : "middle" },
        n === 0 ? "now" : `+${duration(at - now)}`,
      ),
    ]),
    rows.map((job, row) => {
      const y = TOP + row * HIGH,
        from = x(job.start),
        length = Math.max(x(job.end) - from, 2);
      const text = `${plural(job.nodes, view.machine.unit.replace(/s$/, ""))}${job.space ? `, ${size(job.space)}` : ""}`;
      return s(
        "g",
        {},
        s("title", {}, `${job.job}, ${job.user}: ${text}${job.sentence ? `. ${job.sentence}` : ""}`),
        s("text", { x: LEFT - 6, y: y + 13, "text-anchor": "end" }, job.job.slice(0, 12)),
        s("rect", { class: job.runs ? "runs" : "waits", x: from, y: y + 3, width: length, height: HIGH - 6, rx: 2 }),
        length > 150 && s("text", { class: "inside", x: from + 6, y: y + 13 }, text),
      );
    }),
  );
}

