// The frame of the page: navigation, the visitor, and the state of the connection.

import { announce, closeDialogs, h, put, say } from "/page/dom.js";
import { ask, disks, follow, load, moveTo, on, stop, world } from "/page/link.js";
import { showPanel } from "/page/panel.js";
import { TITLES, place, views } from "/page/place.js";
import { moment, rate, share, size } from "/page/format.js";

const LOADED = {
  machine: () => import("/page/machine.js"),
  grants: () => import("/page/grants.js"),
  decisions: () => import("/page/decisions.js"),
  history: () => import("/page/history.js"),
  forwarding: () => import("/page/forwarding.js"),
  schedule: () => import("/page/schedule.js"),
  study: () => import("/page/study.js"),
};
const at = (id) => document.getElementById(id);
let shown = "",
  leave = null,
  link = "live";

async function route() {
  if (!world.totals && world.reading?.kind !== "study") return;
  const here = place(),
    key = [here.view, ...here.rest].join("/");
  drawNav(here.view);
  if (key !== shown) {
    leave?.();
    shown = key;
    document.title = `${TITLES[here.view]} – Forebay`;
    const view = await LOADED[here.view]();
    if (key !== shown) return;
    put(at("main"));
    leave = view.show(at("main"), here) ?? null;
  } else {
    document.dispatchEvent(new CustomEvent("filtered"));
  }
  showPanel(at("panel"), here.params);
}

function drawNav(view) {
  put(
    at("nav"),
    h(
      "ul",
      {},
      views().map((name) =>
        h("li", {}, h("a", { href: `#/${name}`, "aria-current": name === view ? "page" : null }, TITLES[name])),
      ),
    ),
  );
}

// The visitor, and the colour scheme

function drawOwn() {
  const who = world.who;
  put(
    at("own"),
    who &&
      !world.reading &&
      h(
        "span",
        { class: "who", title: `uid ${who.uid}` },
        who.name || `uid ${who.uid}`,
        h("span", { class: "quiet" }, ` ${who.role}`),
      ),
    h(
      "button",
      { type: "button", class: "plain", onclick: light, "aria-label": "Light or dark", title: "Light or dark" },
      "◐",
    ),
    who?.until > 0 && h("button", { type: "button", class: "plain", onclick: logout }, "Log out"),
  );
}

function light() {
  const chosen = matchMedia(document.getElementById("dark").media).matches ? "light" : "dark";
  choose(chosen);
  try {
    localStorage.setItem("light", chosen);
  } catch {
    /* the choice lasts until the page closes */
  }
  document.dispatchEvent(new CustomEvent("lit"));
}

function choose(chosen) {
  document.getElementById("dark").media = chosen === "dark" ? "all" : "not all";
}

function lit() {
  try {
    const kept = localStorage.getItem("light");
    if (kept === "light" || kept === "dark") choose(kept);
  } catch {
    /* use the system's setting */
  }
}

async function logout() {
  await ask("/v1/logout", { method: "POST" }).catch(() => null);
  world.who = null;
  login("You have logged out.");
}

// The state of the connection

function drawState() {
  const reading = world.reading;
  if (reading) {
    put(at("state"), h("span", { class: "badge" }, reading.kind === "study" ? "a finished study" : "a journal"));
    return;
  }
  const label = { live: "live", lost: "no connection" }[link];
  put(
    at("state"),
    h(
      "span",
      { class: `link ${link}` },
      h("span", { "aria-hidden": "true" }, link === "live" ? "●" : "▲"),
      ` ${label}`,
    ),
    world.policy && h("span", { class: "quiet hide-narrow" }, "policy ", h("b", {}, world.policy)),
    world.mode === "shadow" && h("span", { class: "badge warn" }, "shadow"),
  );
}

function drawBanner() {
  const sentences = [];
  if (link === "lost")
    sentences.push("The service does not answer. The page shows the state of the last contact and keeps trying.");
  if (world.mode === "shadow") sentences.push("Shadow mode: Forebay decides and records, but changes nothing on any disk.");
  const banner = at("banner"),
    text = sentences.join(" ");
  if (banner.textContent !== text) put(banner, text && h("p", { class: link === "lost" ? "note bad" : "note" }, text));
}

function drawTotals() {
  const totals = world.totals,
    box = at("totals");
  if (!totals) return;
  box.hidden = false;
  let capacity = 0,
    used = 0,
    planned = 0;
  for (const disk of disks())
    if (disk.there) {
      capacity += disk.capacity;
      used += disk.used;
      planned += disk.planned;
    }
  const measured = Object.values(world.rates);
  const state = (name) => totals.states[name] ?? 0;
  const busy = state("granted") + state("making") + state("ready") + state("in-use") + state("releasing");
  const isUser = world.who?.role === "user";
  const cells = [
    ["Used", `${size(used)} of ${size(capacity)}`, share(used, capacity), "#/machine"],
    ["Planned", size(planned), "for later", "#/grants/timeline"],
    ...(measured.length
      ? [["Bandwidth", rate(measured.reduce((sum, [write, read]) => sum + write + read, 0)), "in use", "#/machine"]]
      : []),
    [isUser ? "Your grants" : "Grants", String(busy), "have space", "#/grants/list?state=live"],
    [
      isUser ? "You wait" : "Waiting",
      String(state("queued")),
      isUser ? `${totals.queue} in the queue` : "in the queue",
      "#/grants/queue",
    ],
    ["Refused", String(state("refused")), "recently", "#/grants/refusals"],
    ["Nodes", String(totals.nodes), attention(totals), "#/machine"],
  ];
  if (box.children.length !== cells.length) {
    put(
      box,
      cells.map(([name, , , href]) =>
        h("a", { class: "cell", href }, h("span", { class: "name" }, name), h("b", {}), h("span", { class: "quiet" })),
      ),
    );
  }
  cells.forEach(([, value, more], index) => {
    const [, number, rest] = box.children[index].children;
    say(number, value);
    say(rest, more);
  });
  box.lastChild.classList.toggle("alarm", totals.silent > 0);
}

function attention(totals) {
  const counts = [totals.silent && `${totals.silent} silent`, totals.drained && `${totals.drained} drained`].filter(
    Boolean,
  );
  return counts.join(", ") || "all answer";
}

// Moving through a journal

function drawMoments() {
  const reading = world.reading;
  if (reading?.kind !== "journal" || at("moments")) return;
  const slider = h("input", {
    type: "range",
    min: 1,
    max: reading.last,
    value: reading.number,
    id: "moment",
    oninput: () => move(Number(slider.value)),
  });
  const position = h("output", { for: "moment" });
  const step = (by) => () => {
    slider.value = Math.min(reading.last, Math.max(1, Number(slider.value) + by));
    move(Number(slider.value));
  };
  let moving = null;
  const draw = () => say(position, `event ${world.reading.number} of ${reading.last}, ${moment(world.reading.at)}`);
  const move = (number) => {
    clearTimeout(moving);
    moving = setTimeout(async () => {
      await moveTo(number);
      draw();
    }, 120);
  };
  at("banner").after(
    h(
      "section",
      { id: "moments", class: "moments", "aria-label": "Moment" },
      h("label", { for: "moment" }, "Moment"),
      h("button", { type: "button", onclick: step(-1), "aria-label": "One event back" }, "◀"),
      slider,
      h("button", { type: "button", onclick: step(1), "aria-label": "One event forward" }, "▶"),
      position,
    ),
  );
  draw();
}

// Logging in

function login(reason) {
  stop();
  const loginError = document.querySelector("form.login .trouble");
  if (loginError) {
    if (reason) say(loginError, reason);
    return;
  }
  closeDialogs();
  leave?.();
  leave = null;
  shown = "";
  world.totals = null;
  at("totals").hidden = true;
  at("panel").hidden = true;
  put(at("nav"));
  put(at("state"));
  put(at("banner"));
  drawOwn();
  document.title = "Log in – Forebay";
  const secret = h("input", {
    type: "password",
    id: "secret",
    autocomplete: "current-password",
    required: true,
    spellcheck: "false",
  });
  const trouble = h("p", { class: "trouble", role: "alert" }, reason ?? "");
  const form = h(
    "form",
    {
      class: "login",
      onsubmit: (event) => {
        event.preventDefault();
        enter(secret.value, trouble);
      },
    },
    h("h2", {}, "Log in"),
    trouble,
    h("label", { for: "secret" }, "Token"),
    secret,
    h("button", { type: "submit", class: "strong" }, "Log in"),
    h(
      "p",
      { class: "quiet" },
      "On the service's machine, ",
      h("code", {}, "forebay token login"),
      " prints a link that opens this page once, without a token. An administrator makes tokens: ",
      h("code", {}, "forebay token make NAME --role user --uid UID --out FILE"),
      ".",
    ),
  );
  put(at("main"), form);
  secret.focus();
}

async function enter(secret, trouble) {
  try {
    world.who = await ask("/v1/login", { method: "POST", quiet: true, body: { secret: secret.trim() } });
    await begin();
  } catch (error) {
    say(trouble, error.isNoAnswer ? `${sentence(error.message)} Try again.` : `Not logged in: ${error.message}.`);
  }
}

/** Logs in by a one-time link, if the address has one, and then reloads the page or says why it failed. */
async function byLink() {
  const match = /^#login=(.+)$/.exec(location.hash);
  if (!match) return false;
  history.replaceState(null, "", "/");
  try {
    await ask("/v1/login", { method: "POST", quiet: true, body: { secret: decodeURIComponent(match[1]) } });
    location.reload();
  } catch (error) {
    login(`The link is no longer valid (${error.message}). Make a new one, or paste a token.`);
  }
  return true;
}

// Start

async function begin() {
  world.who = (await load(true)).who;
  drawOwn();
  link = "live";
  drawState();
  drawBanner();
  drawMoments();
  await route();
  follow();
  performance.mark("forebay-shown");
}

async function start() {
  lit();
  drawOwn();
  if (await byLink()) return;
  try {
    await begin();
  } catch (error) {
    if (error.isLoggedOut) login(reason(error));
    else put(at("main"), h("p", { class: "note bad" }, `${sentence(error.message)} Load the page again in a moment.`));
  }
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

/** Why a visitor must log in; empty if the visitor was never logged in. */
const reason = (error) => (error.code === "not-logged-in" ? "" : sentence(error.message));

on("login", (error) => login(reason(error)));
on("link", (state) => {
  if (state !== link) {
    link = state;
    announce(state === "live" ? "Connected again." : "The service does not answer.");
  }
  drawState();
  drawBanner();
});
on("rates", drawTotals);
on("totals", () => {
  drawTotals();
  drawState();
  drawBanner();
});
addEventListener("hashchange", () => {
  closeDialogs();
  if (/^#login=/.test(location.hash)) start();
  else if (world.totals || world.reading) route();
});
start();
