// Grants: the timeline, the list, the queue with its reasons, and refusals.

import { h, put } from "/page/dom.js";
import { showList } from "/page/list.js";
import { showTimeline } from "/page/timeline.js";
import { asOf, goto } from "/page/place.js";
import { state } from "/page/panel.js";
import { HELD, STATES, duration, moment, short, size } from "/page/format.js";

const PARTS = { timeline: "Timeline", list: "All", queue: "Queue", refusals: "Refusals" };

export function show(main, here) {
  const part = PARTS[here.rest[0]] ? here.rest[0] : "timeline";
  const tabs = h(
    "div",
    { class: "tabs" },
    Object.entries(PARTS).map(([name, label]) =>
      h("a", { href: `#/grants/${name}`, "aria-current": name === part ? "true" : null }, label),
    ),
  );
  const bar = h("div", { class: "row bar-row" }, h("h2", {}, "Grants"), tabs),
    box = h("div", { class: "fill" });
  put(main, bar, box);
  return {
    timeline: () => showTimeline(bar, box),
    list: () => all(bar, box, here),
    queue: () => queue(box),
    refusals: () => refusals(box),
  }[part]();
}

const owner = (row) => row.user || String(row.uid);
const where = (row) =>
  row.disks.join(" ") + (row.parts > row.disks.length ? ` and ${row.parts - row.disks.length} more` : "");
const why = (row) =>
  row.marks.length ? row.marks.join("; ") : row.staging?.state === "running" ? row.staging.said : HELD.includes(row.state) && row.policy ? `by ${row.policy}` : row.because;
const ID = ["grant", "7.5em", (row) => h("span", { class: "mono" }, short(row.id))];
const SIZE = ["size", "6.5em", (row) => size(row.size), "n"];
const OWNER = ["owner", "10em", owner];
const JOB = ["job", "8em", (row) => row.job || "–"];
const ASKED = [SIZE, OWNER, JOB];
const FOR = ["for", "5em", (row) => duration(row.seconds), "n"];

function all(bar, box, here) {
  const params = here.params;
  const pick = h(
    "select",
    { "aria-label": "State", onchange: () => goto({ state: pick.value }) },
    [
      ["", "any state"],
      ["live", "all live grants"],
      ["ended", "all ended grants"],
      ...STATES.map((name) => [name, name]),
    ].map(([value, label]) =>
      h("option", { value, selected: value === (params.get("state") ?? "") ? true : null }, label),
    ),
  );
  const text = h("input", {
    type: "search",
    placeholder: "id, job or user",
    "aria-label": "Id, job or user",
    value: params.get("find") ?? "",
  });
  let typing = null;
  text.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => goto({ find: text.value.trim() }), 250);
  });
  bar.append(pick, text);
  const query = () => {
    const now = new URLSearchParams(location.hash.split("?")[1]);
    pick.value = now.get("state") ?? "";
    return `state=${encodeURIComponent(now.get("state") ?? "")}&text=${encodeURIComponent(now.get("find") ?? "")}${asOf("&")}`;
  };
  const columns = [
    ["state", "10em", (row) => state(row.state, row.silent)],
    ...ASKED,
    ["asked", "9em", (row) => moment(row.created), "n"],
    ["from", "9em", (row) => (row.state === "refused" ? "–" : moment(row.begin)), "n"],
    ["until", "10em", (row) => (row.state === "refused" ? "–" : moment(row.end)), "n"],
    ["on", "12em", where],
    ["why", "auto", why],
    ID,
  ];
  return showList(box, { caption: "Grants, the newest first", columns, query, empty: "No grants." });
}

function listState(box, name, caption, empty, columns) {
  return showList(box, { caption, columns: [...columns, ID], query: () => `state=${name}${asOf("&")}`, empty });
}

function queue(box) {
  return listState(box, "queued", "The queue in order, with the reason for each wait", "The queue is empty.", [
    ["place", "5em", (row) => String(row.position), "n"],
    ...ASKED,
    FOR,
    ["waiting since", "10em", (row) => moment(row.created), "n"],
    ["tried", "5em", (row) => String(row.tried), "n"],
    ["next try", "9em", (row) => moment(row.again), "n"],
    ["expected", "9em", (row) => moment(row.expected), "n"],
    ["why it waits", "auto", (row) => row.because],
  ]);
}

function refusals(box) {
  const caption = "Refusals, the newest first, with their reasons";
  return listState(box, "refused", caption, "No recent refusals.", [
    ["refused", "10em", (row) => moment(row.changed), "n"],
    ...ASKED,
    FOR,
    ["tier", "6em", (row) => row.tier || "–"],
    ["why", "auto", (row) => row.because],
  ]);
}
