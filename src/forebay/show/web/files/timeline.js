// The timeline of grants: a bar for each, from the last day to planned ones, in lanes by owner.

import { h, put, say, soon } from "/page/dom.js";
import { ask, now, on, world } from "/page/link.js";
import { asOf, open } from "/page/place.js";
import { SHAPES, day, duration, moment, plural, short, size } from "/page/format.js";

// Hours back, hours ahead.
const SPANS = {
  "10 min": [8 / 60, 2 / 60],
  "1 h": [0.75, 0.25],
  "6 h": [5, 1],
  "1 day": [24, 6],
  "3 days": [48, 24],
  "1 week": [120, 48],
};
const STEPS = [1 / 60, 5 / 60, 0.25, 0.5, 1, 3, 6, 12, 24]; // hours between marks of the axis
const HEAD = 18,
  AXIS = 26,
  LEFT = 96,
  MANY = 300;
const HOW = "Timeline of grants: arrow keys select a grant, Enter opens it";
const ENDED = new Set(["released", "refused", "failed", "expired"]);

export function showTimeline(bar, box) {
  let span = "1 day",
    lane = 9,
    gap = 2,
    bars = new Map(),
    left = 0,
    groups = [],
    hover = null,
    from = 0,
    until = 0;
  const pick = h(
    "select",
    {
      "aria-label": "Span of time",
      onchange: () => {
        span = pick.value;
        load();
      },
    },
    Object.keys(SPANS).map((name) => h("option", { value: name, selected: name === span ? true : null }, name)),
  );
  bar.append(pick, legend());
  const canvas = h("canvas", { class: "gantt", role: "img" }),
    space = h("div", { class: "space" }),
    tip = h("div", { class: "tip", hidden: true }),
    heard = h("p", { class: "visually-hidden", role: "status" });
  const view = h(
    "div",
    { class: "scroll tall gantt-view", tabindex: "0", role: "application", "aria-label": HOW },
    canvas,
    space,
  );
  const summary = h("p", { class: "quiet sum", role: "status" }, " ");
  put(box, summary, view, tip, heard);

  async function load() {
    const at = now(),
      [back, ahead] = SPANS[span];
    from = at - back * 3600;
    until = at + ahead * 3600;
    try {
      const reply = await ask(`/v1/page/timeline?begin=${from}&end=${until}${asOf("&")}`);
      bars = new Map(
        reply.id.map((id, n) => [
          id,
          {
            id,
            owner: reply.owner[n],
            state: reply.state[n],
            begin: reply.begin[n],
            end: reply.end[n],
            size: reply.size[n],
            job: reply.job[n],
            order: reply.order[n],
            silent: reply.silent[n],
          },
        ]),
      );
      left = reply.left_out;
      arrange();
    } catch (error) {
      say(summary, `${error.message}.`);
    }
  }

  /** Puts each bar into the first free lane of its owner's group. */
  function arrange() {
    const owners = new Map();
    for (const grant of bars.values()) {
      if (grant.state === "refused") continue;
      if (!owners.has(grant.owner)) owners.set(grant.owner, []);
      owners.get(grant.owner).push(grant);
    }
    let top = 0;
    hover = bars.get(hover?.id) ?? null;
    groups = [...owners]
      .sort(([first], [second]) => first.localeCompare(second))
      .map(([owner, grants]) => {
        const ends = [];
        grants.sort((grant, other) => grant.begin - other.begin || grant.order - other.order);
        for (const grant of grants) {
          let free = ends.findIndex((end) => end <= grant.begin);
          if (free < 0) free = ends.length;
          ends[free] = Math.max(shownEnd(grant), grant.begin + (until - from) / 400);
          grant.lane = free;
        }
        return { owner, grants, lanes: ends.length };
      });
    const lanes = groups.reduce((total, group) => total + group.lanes, 0);
    [lane, gap] = lanes > MANY ? [3, 1] : [9, 2];
    for (const group of groups) {
      group.top = top;
      group.height = HEAD + group.lanes * (lane + gap) + 4;
      top += group.height;
    }
    space.style.height = `${top + AXIS}px`;
    const refused = [...bars.values()].filter((grant) => grant.state === "refused").length;
    const text = bars.size
      ? `${plural(bars.size - refused, "grant")} of ${plural(groups.length, "owner")}` +
        (refused ? `, ${plural(refused, "refusal")} (not drawn)` : "")
      : "No grants in this time.";
    say(summary, left ? `${text}; ${left} older ones are left out.` : text);
    canvas.setAttribute("aria-label", `${text}. All of them are in the list.`);
    draw();
  }

  const shownEnd = (grant) => grant.end || Math.max(now(), grant.begin);

  function draw() {
    const width = view.clientWidth,
      height = view.clientHeight,
      ratio = devicePixelRatio || 1;
    if (!width || !height) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    canvas.style.top = `${view.scrollTop}px`;
    const c = canvas.getContext("2d"),
      style = getComputedStyle(document.documentElement),
      color = (name) => style.getPropertyValue(name).trim();
    c.scale(ratio, ratio);
    c.font = "11px system-ui, sans-serif";
    const x = (time) => LEFT + ((width - LEFT - 8) * (time - from)) / (until - from);
    const ticks = [...marks(width)];
    c.fillStyle = color("--line");
    for (const at of ticks) c.fillRect(x(at), AXIS, 1, height);
    c.save();
    c.beginPath();
    c.rect(0, AXIS, width, height - AXIS);
    c.clip();
    for (const group of groups) {
      const top = group.top - view.scrollTop + AXIS;
      if (top > height || top + group.height < AXIS) continue;
      c.fillStyle = color("--line");
      c.fillRect(0, top, width, 1);
      c.fillStyle = color("--ink");
      c.fillText(group.owner.slice(0, 14), 8, Math.max(top, AXIS) + 14);
      for (const grant of group.grants) drawBar(c, grant, x, top + HEAD + grant.lane * (lane + gap) - 6, color);
    }
    c.restore();
    drawAxis(c, x, width, height, color, ticks);
  }

  function drawBar(c, grant, x, y, color) {
    if (y + lane < AXIS || y > canvas.clientHeight) return;
    if (shownEnd(grant) < from || grant.begin > until) {
      grant.at = null;
      return;
    }
    const begin = Math.max(LEFT, x(grant.begin)),
      wide = Math.max(2, x(shownEnd(grant)) - begin);
    c.globalAlpha = 1;
    if (grant.state === "queued" || grant.state === "asked") {
      c.strokeStyle = color("--warn");
      c.setLineDash([3, 2]);
      c.strokeRect(begin + 0.5, y + 0.5, wide - 1, lane - 1);
      c.setLineDash([]);
    } else if (grant.state === "granted") {
      c.strokeStyle = color("--accent");
      c.strokeRect(begin + 0.5, y + 0.5, wide - 1, lane - 1);
    } else {
      c.fillStyle = grant.state === "failed" ? color("--bad") : grant.silent ? color("--warn") : color("--accent");
      c.globalAlpha = ENDED.has(grant.state) && grant.state !== "failed" ? 0.4 : 1;
      c.fillRect(begin, y, wide, lane);
      c.globalAlpha = 1;
      c.fillStyle = color("--surface");
      if (grant.state === "failed") c.fillRect(begin, y + lane / 2 - 0.5, wide, 1);
      else if (grant.silent)
        for (let left_ = begin + 4; left_ < Math.min(begin + wide, canvas.clientWidth); left_ += 5)
          c.fillRect(left_, y, 1, lane);
    }
    if (grant === hover) {
      c.strokeStyle = color("--ink");
      c.strokeRect(begin - 1.5, y - 1.5, wide + 3, lane + 3);
    }
    grant.at = [begin, y, wide];
  }

  /** Round times on the axis, as many as fit. */
  function* marks(width) {
    const hours = (until - from) / 3600,
      step = 3600 * (STEPS.find((each) => hours / each <= Math.max(3, (width - LEFT) / 70)) ?? 48);
    const first = new Date(from * 1000);
    first.setHours(0, 0, 0, 0);
    const midnight = first.getTime() / 1000;
    for (let n = Math.ceil((from - midnight) / step); midnight + n * step < until; n += 1) yield midnight + n * step;
  }

  function drawAxis(c, x, width, height, color, ticks) {
    c.fillStyle = color("--surface");
    c.fillRect(0, 0, width, AXIS);
    c.textAlign = "center";
    for (const at of ticks) {
      const when = new Date(at * 1000),
        midnight = when.getHours() === 0 && when.getMinutes() === 0;
      c.fillStyle = color("--line");
      c.fillRect(x(at), AXIS - 4, 1, 4);
      c.fillStyle = color("--muted");
      c.fillText(midnight ? day(when) : moment(at, false).slice(-5), x(at), 15);
    }
    const here = x(now());
    c.fillStyle = color("--ink");
    c.fillRect(here, 4, 1, height);
    c.textAlign = "left";
    c.fillText("now", here + 3, AXIS - 2);
    c.fillStyle = color("--line");
    c.fillRect(0, AXIS - 1, width, 1);
  }

  function at(event) {
    const area = canvas.getBoundingClientRect(),
      left_ = event.clientX - area.left,
      top = event.clientY - area.top;
    if (top < AXIS) return null;
    for (const group of groups) {
      for (const grant of group.grants) {
        if (
          grant.at &&
          left_ >= grant.at[0] - 1 &&
          left_ <= grant.at[0] + grant.at[2] + 1 &&
          top >= grant.at[1] - 1 &&
          top <= grant.at[1] + lane + 1
        )
          return grant;
      }
    }
    return null;
  }

  /** Highlights a grant and shows its tip; without a grant, clears both. */
  function look(grant, left_, top) {
    hover = grant;
    tip.hidden = !grant;
    canvas.classList.toggle("go", Boolean(grant));
    if (grant) {
      put(tip, describe(grant));
      tip.style.left = `${Math.min(innerWidth - 260, left_ + 12)}px`;
      tip.style.top = `${top + 14}px`;
    }
    draw();
  }

  /** The grant that a key leads to: along an owner's grants, or from owner to owner. */
  function toward(key) {
    const all = groups.flatMap((group) => group.grants),
      owner = groups.findIndex((group) => group.grants.includes(hover)),
      place = all.indexOf(hover);
    if (key === "ArrowRight") return all[Math.min(place + 1, all.length - 1)];
    if (key === "ArrowLeft") return all[Math.max(place - 1, 0)];
    if (key === "ArrowDown") return groups[Math.min(owner + 1, groups.length - 1)]?.grants[0];
    if (key === "ArrowUp") return groups[Math.max(owner - 1, 0)]?.grants[0];
    if (key === "Home") return all[0];
    return key === "End" ? all[all.length - 1] : null;
  }

  function step(event) {
    if (event.key === "Enter" && hover) open("grant", hover.id);
    const grant = toward(event.key);
    if (!grant) return;
    event.preventDefault();
    const group = groups.find((each) => each.grants.includes(grant)),
      top = group.top + HEAD + grant.lane * (lane + gap);
    if (top < view.scrollTop + HEAD || top > view.scrollTop + view.clientHeight - AXIS - HEAD)
      view.scrollTop = top - view.clientHeight / 2;
    look(grant, 0, 0);
    const area = canvas.getBoundingClientRect(),
      [left_, above] = grant.at ?? [LEFT, AXIS];
    look(grant, area.left + left_, area.top + above);
    heard.textContent = tip.innerText.replaceAll("\n", ", ");
  }

  view.addEventListener("pointermove", (event) => {
    const grant = at(event);
    if (grant !== hover) look(grant, event.clientX, event.clientY);
  });
  view.addEventListener("pointerleave", () => look(null));
  view.addEventListener("blur", () => {
    tip.hidden = true; // the selection stays for when the visitor comes back
  });
  view.addEventListener("keydown", step);
  view.addEventListener("click", (event) => {
    const grant = at(event);
    if (grant) open("grant", grant.id);
  });
  view.addEventListener("scroll", () => {
    for (const group of groups) for (const grant of group.grants) grant.at = null;
    draw();
  });
  const sized = new ResizeObserver(() => draw());
  sized.observe(view);
  document.addEventListener("lit", draw);
  const reload = soon(load, 1000),
    later = soon(load, 10000),
    calm = soon(arrange, 500);
  const off = on("grants", (what) => {
    if (!what) {
      load();
      return;
    }
    for (const row of what.rows) {
      bars.set(row.id, {
        id: row.id,
        owner: row.user || String(row.uid),
        state: row.state,
        begin: row.begin,
        end: row.end,
        size: row.size,
        job: row.job,
        order: row.order,
        silent: row.silent,
      });
    }
    for (const id of what.forgotten) bars.delete(id);
    if (what.more) later();
    else calm();
  });
  const offMachine = on("machine", (what) => {
    if (what?.nodes.length) reload(); // a node that falls silent, or answers again, arrives with its grants
  });
  const ticking = setInterval(() => {
    if (!world.reading) {
      const gone = now() - from - SPANS[span][0] * 3600;
      from += gone;
      until += gone;
      draw();
    }
  }, 5000);
  load();
  return () => {
    off();
    offMachine();
    clearInterval(ticking);
    sized.disconnect();
    document.removeEventListener("lit", draw);
  };
}

const describe = (grant) => [
  h("b", {}, `${SHAPES[grant.state]} ${grant.state}${grant.silent ? ", silent" : ""}`),
  ` ${short(grant.id)}`,
  h("br"),
  `${size(grant.size)} of ${grant.owner}${grant.job ? `, job ${grant.job}` : ""}`,
  h("br"),
  grant.end
    ? `${moment(grant.begin)} – ${moment(grant.end)} (${duration(grant.end - grant.begin)})`
    : `since ${moment(grant.begin)}`,
];

function legend() {
  return h(
    "ul",
    { class: "legend", "aria-label": "Legend" },
    [
      ["held", "active"],
      ["silent", "silent"],
      ["planned", "planned"],
      ["waits", "waits"],
      ["over", "ended"],
      ["failed", "failed"],
    ].map(([kind, meaning]) => h("li", {}, h("i", { class: `swatch ${kind}` }), meaning)),
  );
}
