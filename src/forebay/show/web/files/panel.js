// The panel beside the view: one node, one disk, or one grant with its story.

import { announce, confirmAction, facts, h, put, soon, table } from "/page/dom.js";
import { ask, findDisk, on, world } from "/page/link.js";
import { asOf, goto, open as beside } from "/page/place.js";
import { HELD, LIVE, SHAPES, duration, moment, plural, rate, share, short, size } from "/page/format.js";

let open = "",
  close = null,
  opener = null;

/** Shows the node, disk or grant in the address, if there is one. */
export function showPanel(panel, params) {
  const kind = ["grant", "disk", "node"].find((name) => params.get(name));
  const key = kind ? `${kind} ${params.get(kind)}` : "";
  if (key === open) return;
  close?.();
  close = null;
  if (!open) opener = document.activeElement;
  open = key;
  panel.hidden = !kind;
  document.body.classList.toggle("with-panel", Boolean(kind));
  if (!kind) {
    put(panel);
    opener?.focus?.();
    return;
  }
  const shut = h(
    "button",
    {
      type: "button",
      class: "plain shut",
      "aria-label": "Close details",
      onclick: () => goto({ grant: null, disk: null, node: null }),
    },
    "✕",
  );
  const box = h("div", { class: "inside" });
  put(panel, shut, box);
  close = { grant: showGrant, disk: showDisk, node: showNode }[kind](box, params.get(kind));
  panel.scrollTop = 0;
  shut.focus();
}

addEventListener("keydown", (event) => {
  if (event.key === "Escape" && open && !document.querySelector("dialog[open]"))
    goto({ grant: null, disk: null, node: null });
});

/** A state as a shape and a word, and whether one of its nodes is silent. */
export const state = (name, silent = false) => [
  h("span", { class: `st st-${name}` }, h("span", { "aria-hidden": "true" }, SHAPES[name] ?? "·"), ` ${name}`),
  silent && h("span", { class: "condition-word silent" }, ", silent"),
];

export const linkTo = (kind, name, label = name) =>
  h(
    "a",
    {
      href: "#",
      class: kind === "grant" ? "mono" : null,
      onclick: (event) => {
        event.preventDefault();
        beside(kind, name);
      },
    },
    label,
  );

const bar = (disk) =>
  h(
    "div",
    { class: "bar", role: "img", "aria-label": `${share(disk.used, disk.capacity)} used` },
    h("i", { class: "used", style: { width: `${(100 * disk.used) / (disk.capacity || 1)}%` } }),
    h("i", { class: "planned", style: { width: `${(100 * disk.planned) / (disk.capacity || 1)}%` } }),
  );

const may = () => world.who?.role === "administrator" && !world.reading;

// Disks and nodes

const STATE_WORDS = {
  open: "open for new grants",
  drained: "drained: no new grants",
  suspended: "suspended: volumes could not be made here; the service tries again",
  unseen: "inaccessible: its agent cannot read it",
  silent: "silent: its agent does not answer",
  gone: "gone: its node no longer has it",
};

function showDisk(box, key) {
  const where = h("div", {}),
    grants = h("div", {});
  put(box, where, h("h3", {}, "Grants here"), grants);
  const draw = () => drawDisk(where, key);
  const list = soon(() => drawGrants(grants, key), 1000);
  draw();
  list();
  const off = [
    on("machine", (what) => {
      draw();
      if (!what || what.disks.includes(key) || what.nodes.includes(key.split("/", 1)[0])) list();
    }),
    on("reset", list),
    on("rates", draw),
  ];
  return () => off.forEach((end) => end());
}

function drawDisk(box, key) {
  const disk = findDisk(key);
  if (!disk) {
    put(box, h("h2", {}, key), h("p", { class: "note" }, "This disk no longer exists."));
    return;
  }
  const rates = world.rates[key];
  put(
    box,
    h("h2", {}, "Disk ", h("span", { class: "mono" }, key)),
    condition(disk.state),
    bar(disk),
    facts(
      ["Because", disk.because ?? ""],
      ["Used", `${size(disk.used)} of ${size(disk.capacity)} (${share(disk.used, disk.capacity)})`],
      ["Planned", disk.planned ? size(disk.planned) : ""],
      ["Volumes", String(disk.volumes)],
      ["Tier", disk.tier],
      ["Node", linkTo("node", disk.node)],
      ["Bandwidth", `write ${rate(disk.write)}, read ${rate(disk.read)}`],
      ["In use", rates ? `write ${rate(rates[0])}, read ${rate(rates[1])}` : "its agent does not measure bandwidth"],
      ["Volumes are", [disk.kind, disk.expose !== "none" && `reached by ${disk.expose}`].filter(Boolean).join(", ")],
    ),
    may() && drainButton(disk.node, disk.name, disk.drained, key),
  );
}

function showNode(box, name) {
  const where = h("div", {}),
    grants = h("div", {});
  put(box, where, h("h3", {}, "Grants here"), grants);
  const draw = () => drawNode(where, name),
    list = soon(() => drawGrants(grants, name), 1000);
  draw();
  list();
  const mine = (what) => !what || what.nodes.includes(name) || what.disks.some((key) => key.startsWith(`${name}/`));
  const off = [
    on("machine", (what) => {
      if (mine(what)) {
        draw();
        list();
      }
    }),
    on("reset", list),
  ];
  return () => off.forEach((end) => end());
}

function drawNode(box, name) {
  const node = world.nodes.get(name);
  if (!node) {
    put(box, h("h2", {}, name), h("p", { class: "note" }, "This node no longer exists."));
    return;
  }
  put(
    box,
    h("h2", {}, "Node ", h("span", { class: "mono" }, name)),
    condition(node.silent ? "silent" : node.drained ? "drained" : "open"),
    facts(...Object.entries(node.fields).map(([key, value]) => [key, String(value)])),
    table(
      `Disks of ${name}`,
      [
        ["disk", (disk) => linkTo("disk", disk.key, disk.name)],
        ["state", (disk) => disk.state],
        ["used", (disk) => share(disk.used, disk.capacity), "n"],
        ["capacity", (disk) => size(disk.capacity), "n"],
        ["volumes", (disk) => String(disk.volumes), "n"],
      ],
      node.disks,
      "no disks",
    ),
    may() && drainButton(name, "", node.drained, name),
  );
}

const condition = (state) => h("p", { class: `condition ${state}` }, STATE_WORDS[state]);

function drainButton(node, disk, drained, what) {
  const verb = drained ? "Undrain" : "Drain";
  const consequence = drained
    ? `New grants can be placed on ${what} again.`
    : `No new grants are placed on ${what}. Existing grants stay until they end.`;
  const trouble = h("p", { class: "trouble", role: "alert" });
  const work = async () => {
    if (!(await confirmAction(`${verb} ${what}?`, consequence, verb))) return;
    try {
      await ask(`/v1/nodes/${encodeURIComponent(node)}/${verb.toLowerCase()}`, { method: "POST", body: { disk } });
      announce(`${what} is ${drained ? "open" : "drained"}.`);
    } catch (error) {
      put(trouble, `Not done: ${error.message}.`);
    }
  };
  return h(
    "div",
    {},
    h("button", { type: "button", onclick: work }, `${verb} ${disk ? "this disk" : "this node"}`),
    trouble,
  );
}

async function drawGrants(box, where) {
  try {
    const reply = await ask(`/v1/page/grants?limit=100&disk=${encodeURIComponent(where)}${asOf("&")}`);
    put(
      box,
      table(
        `Grants on ${where}`,
        [
          ["grant", (row) => linkTo("grant", row.id, short(row.id))],
          ["state", (row) => state(row.state, row.silent)],
          ["here", (row) => h("span", { title: `${size(row.size)} in all` }, size(row.here)), "n"],
          ["owner", (row) => row.user || String(row.uid)],
          ["until", (row) => moment(row.end, false), "n"],
        ],
        reply.rows,
        world.who?.role === "user" ? "none of yours" : "none",
      ),
      reply.total > 100 && h("p", { class: "quiet" }, `${reply.total} in all; the newest 100.`),
    );
  } catch (error) {
    put(box, h("p", { class: "trouble" }, `${error.message}.`));
  }
}

// A grant

function showGrant(box, id) {
  const top = h("div", {}),
    story = h("div", {});
  put(box, top, h("h3", {}, "Story"), story);
  const draw = soon(() => drawGrant(top, story, id), 300);
  draw();
  const off = [
    on("grants", (what) => {
      if (!what) draw();
      else if (what.forgotten.includes(id)) vanished(top, id, "It ended, and the time that the rules keep ended grants is over.");
      else if (what.more || what.rows.some((row) => row.id === id)) draw();
    }),
    on("machine", (what) => {
      if (what?.nodes.length) draw(); // one of its nodes may have fallen silent, or answered again
    }),
  ];
  return () => off.forEach((end) => end());
}

function vanished(top, id, why) {
  put(
    top,
    h("h2", {}, "Grant ", h("span", { class: "mono" }, short(id))),
    h(
      "p",
      { class: "note", role: "alert" },
      `This grant is no longer listed. ${why} The journal still has it; use forebay replay.`,
    ),
  );
}

async function drawGrant(top, story, id) {
  const at = asOf();
  let grant;
  try {
    grant = await ask(`/v1/grants/${encodeURIComponent(id)}${at}`);
  } catch (error) {
    if (error.code === "no-such-grant")
      vanished(
        top,
        id,
        world.reading
          ? "At this moment it was not requested yet, or already forgotten."
          : "It ended long ago, or never existed.",
      );
    else
      put(
        top,
        h("h2", {}, "Grant ", h("span", { class: "mono" }, short(id))),
        h("p", { class: "trouble", role: "alert" }, `The grant cannot be shown: ${error.message}.`),
      );
    return;
  }
  put(
    top,
    h("h2", {}, "Grant ", h("span", { class: "mono", title: id }, short(id)), " ", state(grant.state)),
    grant.because && h("p", { class: "because" }, grant.because),
    grant.marks.map((mark) => h("p", { class: "note bad" }, mark)),
    grant.staging && h("p", { class: grant.staging.state === "failed" ? "note bad" : "note" }, grant.staging.said),
    facts(
      ["Size", size(grant.size)],
      ["Owner", grant.user || `uid ${grant.uid}`],
      ["Job", grant.job],
      ["Asked", moment(grant.created)],
      ["For", duration(grant.seconds)],
      ["Place", grant.position ? `${grant.position} in the queue, retried ${plural(grant.tried, "time")}` : ""],
      ["Expected", grant.expected ? moment(grant.expected) : ""],
      ["From", grant.until ? moment(grant.start) : ""],
      ["Until", grant.until ? moment(grant.until) : ""],
      ["Tier", grant.tier],
      ["Type", grant.type === "shared" ? `shared file system, ${plural(grant.servers, "data server")}` : ""],
      ["Policy", grant.policy],
      ["Path", grant.path && h("span", { class: "mono" }, grant.path)],
      ["Id", h("span", { class: "mono wrap" }, grant.id)],
    ),
    grant.volumes.length > 0 &&
      table(
        "Volumes",
        [
          ["volume", (volume) => String(volume.number), "n"],
          ["on", (volume) => linkTo("disk", `${volume.node}/${volume.disk}`)],
          ["size", (volume) => size(volume.size), "n"],
          ["state", (volume) => [volume.state, world.nodes.get(volume.node)?.silent && ", silent"]],
          ...(grant.type === "shared" ? [["data server", (volume) => volume.settings.address ?? ""]] : []),
        ],
        grant.volumes,
      ),
    !world.reading && LIVE.includes(grant.state) && grant.state !== "releasing" && releaseButton(grant),
  );
  const answer = await ask(`/v1/grants/${encodeURIComponent(id)}/story${at}`).catch(() => null);
  if (answer) put(story, h("ol", { class: "story" }, answer.story.map(line)));
}

function line(each) {
  return h(
    "li",
    { class: each.level === "error" || each.level === "warning" ? "bad" : null },
    h("time", {}, moment(each.time)),
    h("span", { class: "whose" }, each.node || "service"),
    h("span", {}, each.text || each.what),
  );
}

function releaseButton(grant) {
  const trouble = h("p", { class: "trouble", role: "alert" });
  const held = HELD.includes(grant.state);
  const consequence =
    `Grant ${short(grant.id)} of ${grant.user || `uid ${grant.uid}`}, ${size(grant.size)}${grant.job ? `, job ${grant.job}` : ""}. ` +
    (held ? "Its data is lost." : "It leaves the queue.");
  const work = async () => {
    if (!(await confirmAction("Release this grant?", consequence, "Release"))) return;
    try {
      await ask(`/v1/grants/${encodeURIComponent(grant.id)}/release`, {
        method: "POST",
        body: { because: "released on the page" },
      });
      announce("Released.");
    } catch (error) {
      put(trouble, `Not released: ${error.message}.`);
    }
  };
  return h("div", {}, h("button", { type: "button", onclick: work }, "Release"), trouble);
}
