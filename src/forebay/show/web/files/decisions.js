// The feed of decisions: what, by which policy, for which request, and why.

import { h, put, say } from "/page/dom.js";
import { ask, on, world } from "/page/link.js";
import { asOf } from "/page/place.js";
import { linkTo } from "/page/panel.js";
import { moment, plural, short, size, wish } from "/page/format.js";

const GROUPS = ["decisions", "grants", "machine", "settings"];
const MOST = 1000;

export function show(main, here) {
  const hidden = new Set((here.params.get("without") ?? "grants").split(",").filter(Boolean));
  const boxes = GROUPS.map((name) =>
    h(
      "label",
      { class: "check" },
      h("input", {
        type: "checkbox",
        checked: hidden.has(name) ? null : true,
        onchange: (event) => {
          if (event.target.checked) hidden.delete(name);
          else hidden.add(name);
          draw();
        },
      }),
      ` ${name}`,
    ),
  );
  let lines = [],
    next = 0,
    held = null;
  const hold = h(
    "button",
    {
      type: "button",
      onclick: () => {
        held = held ? null : [...lines];
        say(hold, held ? "Resume" : "Pause");
        draw();
      },
    },
    "Pause",
  );
  const list = h("ol", { class: "feed" }),
    more = h("button", { type: "button", onclick: () => older() }, "Older");
  more.hidden = true;
  const sum = h("p", { class: "quiet sum", role: "status" }, "Loading …");
  put(
    main,
    h("div", { class: "row bar-row" }, h("h2", {}, "Decisions"), ...boxes, !world.reading && hold),
    sum,
    h("div", { class: "scroll tall" }, list, more),
  );

  function draw() {
    const shown = (held ?? lines).filter((line) => line.gap || !hidden.has(line.group));
    put(list, shown.map(drawLine));
    more.hidden = next === 0;
    say(
      sum,
      held
        ? `Held; ${plural(lines.length - held.length, "newer line")}.`
        : shown.length
          ? "The newest first."
          : "No decisions yet.",
    );
  }

  const drawn = new WeakMap();
  function drawLine(line) {
    if (!drawn.has(line)) drawn.set(line, line.gap ? gap(line) : drawDecision(line));
    return drawn.get(line);
  }

  function gap(line) {
    return h(
      "li",
      { class: "gap" },
      h("button", { type: "button", onclick: () => reload() }, `Load skipped events`),
      h("span", { class: "quiet" }, ` before number ${line.n}`),
    );
  }

  async function reload() {
    lines = [];
    next = 0;
    await older();
  }

  async function older() {
    try {
      const reply = await ask(`/v1/page/decisions?limit=100&before=${next}${asOf("&")}`);
      lines = [...lines, ...reply.lines];
      next = reply.next;
      draw();
    } catch (error) {
      say(sum, `${error.message}.`);
    }
  }

  const off = [
    on("lines", (what) => {
      if (!what.lines.length) return;
      const known = lines[0]?.n ?? 0,
        fresh = what.lines.filter((line) => line.n > known);
      if (!what.whole && fresh.length) fresh.push({ gap: true, n: fresh.at(-1).n });
      lines = [...fresh, ...lines];
      if (lines.length > MOST) {
        lines = lines.slice(0, MOST);
        next = lines.at(-1).n;
      }
      draw();
    }),
    on("reset", reload),
  ];
  reload();
  return () => off.forEach((end) => end());
}

function drawDecision(line) {
  const shadow = world.mode === "shadow" && line.policy;
  const parts = line.parts ?? [];
  return h(
    "li",
    { class: line.worry ? "worry" : null, "data-kind": line.kind },
    h("div", { class: "when" }, h("time", {}, moment(line.at)), h("span", { class: "quiet n" }, `#${line.n}`)),
    h(
      "div",
      {},
      h(
        "p",
        { class: "what" },
        shadow && h("span", { class: "badge warn" }, "would have"),
        shadow && " ",
        line.text,
        line.grant && [" ", linkTo("grant", line.grant, short(line.grant))],
      ),
      line.policy && h("p", { class: "inputs" }, h("span", { class: "badge" }, line.policy), " asked: ", wish(line)),
      parts.length > 0 &&
        h(
          "p",
          { class: "inputs" },
          shadow ? "would be on " : "on ",
          parts.slice(0, 6).map(([key, bytes], index) => [index ? ", " : "", linkTo("disk", key), ` ${size(bytes)}`]),
          parts.length > 6 && ` and ${parts.length - 6} more`,
        ),
      shadow && h("p", { class: "inputs" }, "nothing was done; the job runs as it would without Forebay"),
      !line.policy && line.size !== undefined && h("p", { class: "inputs" }, wish(line)),
    ),
  );
}
