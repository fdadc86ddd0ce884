// When grants are there: a bar each, from the last day to what is planned, in lanes by owner.

import { h, put, say, soon } from "/page/dom.js";
import { ask, now, on, world } from "/page/link.js";
import { asOf, open } from "/page/place.js";
import { SHAPES, day, lasting, moment, plural, short, size } from "/page/format.js";

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
const HOW = "Timeline of grants: arrow keys go from one to the next, Enter opens it";
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
  const words = h("p", { class: "quiet sum", role: "status" }, " ");
  put(box, words, view, tip, heard);

  async function load() {
    const at = now(),
      [back, ahead] = SPANS[span];
    from = at - back * 3600;
    until = at + ahead * 3600;
    try {
      const found = await ask(`/v1/page/timeline?begin=${from}&end=${until}${asOf("&")}`);
      bars = new Map(
        found.id.map((id, n) => [
          id,
          {
            id,
            owner: found.owner[n],
            state: found.state[n],
            begin: found.begin[n],
            end: found.end[n],
            size: found.size[n],
            job: found.job[n],
            order: found.order[n],
            silent: found.silent[n],
          },
        ]),
      );
      left = found.left_out;
      arrange();
    } catch (error) {
      say(words, `${error.message}.`);
    }
  }

  /** Lanes: in each owner's group, a bar goes to the first lane that is free. */
  function arrange() {
    const owners = new Map();
    for (const one of bars.values()) {
      if (one.state === "refused") continue;
      if (!owners.has(one.owner)) owners.set(one.owner, []);
      owners.get(one.owner).push(one);
    }
    let top = 0;
    hover = bars.get(hover?.id) ?? null;
    groups = [...owners]
      .sort(([one], [other]) => one.localeCompare(other))
      .map(([owner, own]) => {
        const ends = [];
        own.sort((one, other) => one.begin - other.begin || one.order - other.order);
        for (const one of own) {
          let free = ends.findIndex((end) => end <= one.begin);
          if (free < 0) free = ends.length;
          ends[free] = Math.max(shownEnd(one), one.begin + (until - from) / 400);
          one.lane = free;
        }
        return { owner, own, lanes: ends.length };
      });
    const lanes = groups.reduce((total, group) => total + group.lanes, 0);
    [lane, gap] = lanes > MANY ? [3, 1] : [9, 2];
    for (const group of groups) {
      group.top = top;
      group.height = HEAD + group.lanes * (lane + gap) + 4;
      top += group.height;
    }
    space.style.height = `${top + AXIS}px`;
    const refused = [...bars.values()].filter((one) => one.state === "refused").length;
    const text = bars.size
      ? `${plural(bars.size - refused, "grant")} of ${plural(groups.length, "owner")}` +
        (refused ? `, ${plural(refused, "refusal")} (not drawn)` : "")
      : "No grants in this time.";
    say(words, left ? `${text}; ${left} older ones are left out.` : text);
    canvas.setAttribute("aria-label", `${text}. All of them are in the list.`);
    draw();
  }

  const shownEnd = (one) => one.end || Math.max(now(), one.begin);

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
      for (const one of group.own) drawBar(c, one, x, top + HEAD + one.lane * (lane + gap) - 6, color);
    }
    c.restore();
    drawAxis(c, x, width, height, color, ticks);
  }

  function drawBar(c, one, x, y, color) {
    if (y + lane < AXIS || y > canvas.clientHeight) return;
    if (shownEnd(one) < from || one.begin > until) {
      one.at = null;
      return;
    }
    const begin = Math.max(LEFT, x(one.begin)),
      wide = Math.max(2, x(shownEnd(one)) - begin);
    c.globalAlpha = 1;
    if (one.state === "queued" || one.state === "asked") {
      c.strokeStyle = color("--warn");
      c.setLineDash([3, 2]);
      c.strokeRect(begin + 0.5, y + 0.5, wide - 1, lane - 1);
      c.setLineDash([]);
    } else if (one.state === "granted") {
      c.strokeStyle = color("--accent");
      c.strokeRect(begin + 0.5, y + 0.5, wide - 1, lane - 1);
    } else {
      c.fillStyle = one.state === "failed" ? color("--bad") : one.silent ? color("--warn") : color("--accent");
      c.globalAlpha = ENDED.has(one.state) && one.state !== "failed" ? 0.4 : 1;
      c.fillRect(begin, y, wide, lane);
      c.globalAlpha = 1;
      c.fillStyle = color("--surface");
      if (one.state === "failed") c.fillRect(begin, y + lane / 2 - 0.5, wide, 1);
      else if (one.silent)
        for (let left_ = begin + 4; left_ < Math.min(begin + wide, canvas.clientWidth); left_ += 5)
          c.fillRect(left_, y, 1, lane);
    }
    if (one === hover) {
      c.strokeStyle = color("--ink");
      c.strokeRect(begin - 1.5, y - 1.5, wide + 3, lane + 3);
    }
    one.at = [begin, y, wide];
  }

  /** Round times on the axis, as many as there is room for. */
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
    const own = canvas.getBoundingClientRect(),
      left_ = event.clientX - own.left,
      top = event.clientY - own.top;
    if (top < AXIS) return null;
    for (const group of groups) {
      for (const one of group.own) {
        if (
          one.at &&
          left_ >= one.at[0] - 1 &&
          left_ <= one.at[0] + one.at[2] + 1 &&
          top >= one.at[1] - 1 &&
          top <= one.at[1] + lane + 1
        )
          return one;
      }
    }
    return null;
  }

  /** Frame one, and tell of it there; nobody, if there is none. */
  function look(one, left_, top) {
    hover = one;
    tip.hidden = !one;
    canvas.classList.toggle("go", Boolean(one));
    if (one) {
      put(tip, describe(one));
      tip.style.left = `${Math.min(innerWidth - 260, left_ + 12)}px`;
      tip.style.top = `${top + 14}px`;
    }
    draw();
  }

  /** The one that a key leads to: along an owner's grants, or from owner to owner. */
  function toward(key) {
    const all = groups.flatMap((group) => group.own),
      owner = groups.findIndex((group) => group.own.includes(hover)),
      place = all.indexOf(hover);
    if (key === "ArrowRight") return all[Math.min(place + 1, all.length - 1)];
    if (key === "ArrowLeft") return all[Math.max(place - 1, 0)];
    if (key === "ArrowDown") return groups[Math.min(owner + 1, groups.length - 1)]?.own[0];
    if (key === "ArrowUp") return groups[Math.max(owner - 1, 0)]?.own[0];
    if (key === "Home") return all[0];
    return key === "End" ? all[all.length - 1] : null;
  }

  function step(event) {
    if (event.key === "Enter" && hover) open("grant", hover.id);
    const one = toward(event.key);
    if (!one) return;
    event.preventDefault();
    const group = groups.find((each) => each.own.includes(one)),
      top = group.top + HEAD + one.lane * (lane + gap);
    if (top < view.scrollTop + HEAD || top > view.scrollTop + view.clientHeight - AXIS - HEAD)
      view.scrollTop = top - view.clientHeight / 2;
    look(one, 0, 0);
    const own = canvas.getBoundingClientRect(),
      [left_, above] = one.at ?? [LEFT, AXIS];
    look(one, own.left + left_, own.top + above);
    heard.textContent = tip.innerText.replaceAll("\n", ", ");
  }

  view.addEventListener("pointermove", (event) => {
    const one = at(event);
    if (one !== hover) look(one, event.clientX, event.clientY);
  });
  view.addEventListener("pointerleave", () => look(null));
  view.addEventListener("blur", () => {
    tip.hidden = true; // whoever comes back goes on from the same grant
  });
  view.addEventListener("keydown", step);
  view.addEventListener("click", (event) => {
    const one = at(event);
    if (one) open("grant", one.id);
  });
  view.addEventListener("scroll", () => {
    for (const group of groups) for (const one of group.own) one.at = null;
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

const describe = (one) => [
  h("b", {}, `${SHAPES[one.state]} ${one.state}${one.silent ? ", silent" : ""}`),
  ` ${short(one.id)}`,
  h("br"),
  `${size(one.size)} of ${one.owner}${one.job ? `, job ${one.job}` : ""}`,
  h("br"),
  one.end
    ? `${moment(one.begin)} – ${moment(one.end)} (${lasting(one.end - one.begin)})`
    : `since ${moment(one.begin)}`,
];

function legend() {
  return h(
    "ul",
    { class: "legend", "aria-label": "Legend" },
    [
      ["held", "there"],
      ["silent", "silent"],
      ["planned", "planned"],
      ["waits", "waits"],
      ["over", "ended"],
      ["failed", "failed"],
    ].map(([kind, words]) => h("li", {}, h("i", { class: `swatch ${kind}` }), words)),
  );
}
