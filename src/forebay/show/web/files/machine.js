// The machine as one picture: tiers with nodes, nodes with disks, disks as bars that fill from below.

import { h, put, say, soon, table } from "/page/dom.js";
import { disks, findDisk, on, world } from "/page/link.js";
import { open } from "/page/place.js";
import { linkTo } from "/page/panel.js";
import { plural, rate, share, size } from "/page/format.js";

const MARKS = { open: "", drained: "D", suspended: "!", unseen: "?", silent: "?", gone: "×" };
const cells = new Map(); // by the disk's key
let names = [];

export function show(main, here) {
  const picture = h("div", { class: "tiers" }),
    asTable = here.rest[0] === "table";
  const filter = h("input", {
    type: "search",
    "aria-label": "Node or disk",
    placeholder: "node or disk",
    value: here.params.get("find") ?? "",
  });
  const only = h("input", { type: "checkbox", id: "only", checked: here.params.get("only") ? true : null });
  const tip = h("div", { class: "tip", hidden: true });
  put(
    main,
    h(
      "div",
      { class: "row bar-row" },
      h("h2", {}, "Machine"),
      h(
        "div",
        { class: "tabs" },
        h("a", { href: "#/machine", "aria-current": asTable ? null : "true" }, "Picture"),
        h("a", { href: "#/machine/table", "aria-current": asTable ? "true" : null }, "Table"),
      ),
      filter,
      h("label", { for: "only", class: "check" }, only, " only problems"),
      !asTable && legend(),
    ),
    picture,
    tip,
  );
  const find = () => ({ text: filter.value.trim().toLowerCase(), only: only.checked });
  const all = () => (asTable ? drawTable(picture, find()) : drawAll(picture, find()));
  const whole = soon(all, 1000);
  filter.addEventListener("input", soon(all, 150));
  only.addEventListener("change", all);
  all();
  if (!asTable) listen(picture, tip);
  const off = on("machine", (what) => {
    if (!what || asTable || find().only) whole();
    else if (what.nodes.some((name) => !world.nodes.has(name) || !names.includes(name) || changedShape(name))) whole();
    else update(what);
  });
  return () => {
    off();
    cells.clear();
  };
}

function legend() {
  return h(
    "ul",
    { class: "legend", "aria-label": "Legend" },
    h("li", {}, h("i", { class: "disk sample", style: { "--used": "60%", "--held": "60%" } }), "used"),
    h("li", {}, h("i", { class: "disk sample", style: { "--used": "0%", "--held": "60%" } }), "planned"),
    h("li", {}, h("i", { class: "disk sample full", style: { "--used": "95%", "--held": "95%" } }), "over 90 %"),
    h("li", {}, h("i", { class: "disk sample drained", style: { "--used": "0%", "--held": "0%" } }, "D"), "drained"),
    h("li", {}, h("i", { class: "disk sample suspended", style: { "--used": "0%", "--held": "0%" } }, "!"), "suspended"),
    h("li", {}, h("i", { class: "disk sample silent", style: { "--used": "0%", "--held": "0%" } }, "?"), "silent or inaccessible"),
    h("li", {}, h("i", { class: "disk sample gone", style: { "--used": "0%", "--held": "0%" } }, "×"), "gone"),
  );
}

/** Tiers with their nodes; a node with disks of several tiers is in each. */
function grouped(find) {
  const tiers = new Map();
  for (const disk of disks()) {
    if (find.text && !disk.key.toLowerCase().includes(find.text)) continue;
    if (find.only && disk.state === "open" && disk.used < 0.9 * disk.capacity) continue;
    if (!tiers.has(disk.tier)) tiers.set(disk.tier, new Map());
    const nodes = tiers.get(disk.tier);
    if (!nodes.has(disk.node)) nodes.set(disk.node, []);
    nodes.get(disk.node).push(disk);
  }
  return [...tiers].sort(([first], [second]) => first.localeCompare(second));
}

function drawAll(box, find) {
  cells.clear();
  names = [...world.nodes.keys()];
  const tiers = grouped(find);
  if (!tiers.length) {
    put(
      box,
      h(
        "p",
        { class: "note" },
        world.nodes.size ? "No disk matches." : "No storage node has registered yet. Start its agent: forebay agent FILE.",
      ),
    );
    return;
  }
  const number = [...disks()].length;
  box.classList.toggle("many", number > 240);
  box.classList.toggle("few", number <= 40);
  put(
    box,
    tiers.map(([tier, nodes]) => drawTier(tier, nodes)),
  );
  const first = box.querySelector("button.disk");
  if (first) first.tabIndex = 0;
}

function drawTier(tier, nodes) {
  const disksHere = [...nodes.values()].flat();
  return h(
    "section",
    { class: "tier", "data-tier": tier },
    h("h3", {}, tier ? `Tier ${tier}` : "No tier", h("span", { class: "quiet sum" }, sum(disksHere, nodes.size))),
    h(
      "div",
      { class: "nodes" },
      [...nodes]
        .sort(([first], [second]) => first.localeCompare(second, undefined, { numeric: true }))
        .map(([name, each]) => drawNode(name, each)),
    ),
  );
}

function sum(disksHere, nodes) {
  const there = disksHere.filter((disk) => disk.there);
  const add = (name) => there.reduce((total, disk) => total + disk[name], 0);
  return `${plural(nodes, "node")}, ${plural(disksHere.length, "disk")}, ${size(add("used"))} of ${size(add("capacity"))} used (${share(add("used"), add("capacity"))})`;
}

function drawNode(name, disksHere) {
  const node = world.nodes.get(name),
    mark = node.silent ? "silent" : node.drained ? "drained" : "";
  return h(
    "div",
    { class: `node ${mark}`, "data-node": name },
    h(
      "div",
      { class: "head" },
      h("button", { type: "button", class: "name", title: name, onclick: () => open("node", name) }, name),
      mark && h("span", { class: `badge ${mark === "silent" ? "bad" : "warn"}` }, mark),
    ),
    h(
      "div",
      { class: "disks" },
      disksHere.map((disk) => {
        const cell = h("button", { type: "button", tabindex: "-1", "data-key": disk.key });
        cells.set(disk.key, cell);
        drawDisk(cell, disk);
        return cell;
      }),
    ),
  );
}

function drawDisk(cell, disk) {
  const whole = disk.capacity || 1,
    over = disk.used >= 0.9 * whole && disk.state === "open";
  const name = `disk ${disk.state}${over ? " full" : ""}`;
  if (cell.className !== name) cell.className = name;
  cell.style.setProperty("--used", `${Math.min(100, (100 * disk.used) / whole)}%`);
  cell.style.setProperty("--held", `${Math.min(100, (100 * (disk.used + disk.planned)) / whole)}%`);
  say(cell, MARKS[disk.state]);
  cell.setAttribute("aria-label", describeDisk(disk));
}

const describeDisk = (disk) =>
  `${disk.key}: ${share(disk.used, disk.capacity)} used, ${plural(disk.volumes, "volume")}${disk.state === "open" ? "" : `, ${disk.state}`}`;

/** Whether a node's disks or mark differ from the picture. */
function changedShape(name) {
  const node = world.nodes.get(name),
    drawn = document.querySelectorAll(`.node[data-node="${CSS.escape(name)}"]`);
  const mark = node.silent ? "silent" : node.drained ? "drained" : "";
  return (
    [...drawn].some((each) => each.className.trim() !== `node ${mark}`.trim()) ||
    node.disks.some((disk) => !cells.has(disk.key))
  );
}

function update(what) {
  const keys = [
    ...what.disks,
    ...what.nodes.flatMap((name) => world.nodes.get(name).disks.map((disk) => disk.key)),
  ];
  for (const key of keys) {
    const cell = cells.get(key),
      disk = findDisk(key);
    if (cell && disk) drawDisk(cell, disk);
  }
  sums();
}

const sums = soon(() => {
  for (const [tier, nodes] of grouped({ text: "", only: false })) {
    const box = document.querySelector(`.tier[data-tier="${CSS.escape(tier)}"] .sum`);
    if (box) say(box, sum([...nodes.values()].flat(), nodes.size));
  }
}, 500);

// Pointer and keys

function listen(box, tip) {
  box.addEventListener("click", (event) => {
    const key = event.target.closest?.("button.disk")?.dataset.key;
    if (key) open("disk", key);
  });
  const over = (event) => {
    const cell = event.target.closest?.("button.disk");
    if (cell) showTip(tip, cell);
    else tip.hidden = true;
  };
  box.addEventListener("pointerover", over);
  box.addEventListener("focusin", over);
  box.addEventListener("pointerleave", () => {
    tip.hidden = true;
  });
  box.addEventListener("focusout", () => {
    tip.hidden = true;
  });
  box.addEventListener("keydown", (event) => {
    const all = [...box.querySelectorAll("button.disk")],
      at = all.indexOf(document.activeElement);
    if (at < 0) return;
    const to = {
      ArrowRight: at + 1,
      ArrowLeft: at - 1,
      Home: 0,
      End: all.length - 1,
      ArrowDown: below(all, at, 1),
      ArrowUp: below(all, at, -1),
    }[event.key];
    if (to === undefined || !all[to]) return;
    event.preventDefault();
    all[at].tabIndex = -1;
    all[to].tabIndex = 0;
    all[to].focus();
  });
}

/** The nearest disk in the row of nodes below or above. */
function below(all, at, way) {
  const start = all[at].getBoundingClientRect();
  let best = at,
    least = Infinity;
  for (let to = at + way; to >= 0 && to < all.length && Math.abs(to - at) < 400; to += way) {
    const other = all[to].getBoundingClientRect();
    if ((other.top - start.top) * way < start.height / 2) continue;
    const distance = 4 * Math.abs(other.top - start.top) + Math.abs(other.left - start.left);
    if (distance < least) {
      least = distance;
      best = to;
    }
  }
  return best;
}

function showTip(tip, cell) {
  const key = cell.dataset.key,
    disk = findDisk(key),
    rates = world.rates[key];
  if (!disk) return;
  put(
    tip,
    h("b", { class: "mono" }, key),
    h("br"),
    `${size(disk.used)} of ${size(disk.capacity)} used (${share(disk.used, disk.capacity)})`,
    h("br"),
    disk.planned ? [`${size(disk.planned)} planned`, h("br")] : null,
    `${plural(disk.volumes, "volume")}; ${disk.state}`,
    h("br"),
    rates ? `write ${rate(rates[0])}, read ${rate(rates[1])}` : `can write ${rate(disk.write)}`,
  );
  tip.hidden = false;
  const at = cell.getBoundingClientRect(),
    area = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(innerWidth - area.width - 4, at.left + at.width / 2 - area.width / 2))}px`;
  tip.style.top = `${at.top - area.height - 6 > 0 ? at.top - area.height - 6 : at.bottom + 6}px`;
}

function drawTable(box, find) {
  const rows = grouped(find).flatMap(([, nodes]) => [...nodes.values()].flat());
  put(
    box,
    table(
      "All disks",
      [
        ["tier", (disk) => disk.tier || "–"],
        ["node", (disk) => linkTo("node", disk.node)],
        ["disk", (disk) => linkTo("disk", disk.key, disk.name)],
        ["state", (disk) => h("span", { class: `condition-word ${disk.state}` }, disk.state)],
        ["used", (disk) => size(disk.used), "n"],
        ["of", (disk) => size(disk.capacity), "n"],
        ["", (disk) => share(disk.used, disk.capacity), "n"],
        ["planned", (disk) => (disk.planned ? size(disk.planned) : "–"), "n"],
        ["volumes", (disk) => String(disk.volumes), "n"],
        ["write", (disk) => rate(disk.write), "n"],
        ["read", (disk) => rate(disk.read), "n"],
      ],
      rows,
      "No disk matches.",
    ),
  );
}
