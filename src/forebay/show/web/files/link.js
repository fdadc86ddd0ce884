// The page's copy of the machine's state: a snapshot, kept up to date by frames of the event stream.
//
// Every frame covers a range of the journal. If a frame begins after the known number, the page loads the snapshot
// again. It skips a frame that ends before the known number. Values are absolute, so that overlapping frames do no
// harm.

export const world = {
  number: 0,
  boot: "",
  who: null,
  nodes: new Map(),
  totals: null,
  policy: "",
  mode: "",
  rules: {},
  rates: {},
  reading: null,
  skew: 0,
};

// Milliseconds: for one answer, between tries to connect, without an event of the service, and in a hidden tab.
export const LONG = 300000; // for views of the whole history
const PATIENCE = 30000,
  LATEST = 5000,
  SILENT = 10000,
  HIDDEN = 30000,
  BEATS = 3; // missed beats before the service counts as silent

const ears = new Map();

/** Calls `work` whenever an event of that kind arrives; returns a function that stops it. */
export function on(kind, work) {
  if (!ears.has(kind)) ears.set(kind, new Set());
  ears.get(kind).add(work);
  return () => ears.get(kind).delete(work);
}

function notify(kind, what) {
  for (const work of [...(ears.get(kind) ?? [])]) work(what);
}

const NO_ANSWER = "no-answer", // the page's own code; all others are the API's
  LOGGED_OUT = ["not-logged-in", "login-ended", "bad-credential"];

class ServiceError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }

  get isLoggedOut() {
    return LOGGED_OUT.includes(this.code);
  }

  get isNoAnswer() {
    return this.code === NO_ANSWER;
  }
}

/** Calls the service. Throws a ServiceError if it refuses or does not answer within `patience` milliseconds.
 * A visitor who is not logged in gets the login form, unless the caller handles that itself (`quiet`). */
export async function ask(path, { method = "GET", body, quiet = false, patience = PATIENCE } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET" && world.who?.proof) headers["X-Forebay"] = world.who.proof;
  const signal = AbortSignal.timeout(patience);
  let answer;
  try {
    answer = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new ServiceError(NO_ANSWER, "the service does not answer");
  }
  const reply = await answer.json().catch(() => null);
  if (signal.aborted) throw new ServiceError(NO_ANSWER, "the service does not answer");
  if (answer.ok && reply !== null) return reply;
  throw refused(reply?.code ?? `status-${answer.status}`, reply?.error ?? `the service answers ${answer.status}`, quiet);
}

function refused(code, message, quiet) {
  const error = new ServiceError(code, message);
  if (error.isLoggedOut && !quiet) notify("login", error);
  return error;
}

/** Asks for a view every `pause` milliseconds while somebody can see the page, until the returned function is called.
 * `draw` returns true if the view will not change any more. */
export function poll(path, pause, draw, fail) {
  let ended = false,
    timer = null;
  const work = async () => {
    if (!document.hidden) {
      try {
        const view = await ask(path, { patience: LONG });
        if (ended || draw(view)) return;
      } catch (error) {
        if (!ended) fail(error);
      }
    }
    if (!ended) timer = setTimeout(work, pause);
  };
  work();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

/** The time that the page shows, in seconds since 1970: now, or the selected moment of a journal. */
export const now = () => world.reading?.at ?? Date.now() / 1000;

// The snapshot

let loading = null;

/** Loads the snapshot. Simultaneous calls share one request. */
export function load(quiet = false, patience = PATIENCE) {
  loading ??= ask(world.reading ? `/v1/page?number=${world.reading.number ?? ""}` : "/v1/page", { quiet, patience })
    .then((snapshot) => {
      if (!snapshot.who) throw refused(snapshot.code, snapshot.error, quiet);
      return keepSnapshot(snapshot);
    })
    .finally(() => {
      loading = null;
    });
  return loading;
}

function keepSnapshot(snapshot) {
  if (snapshot.reading) world.reading = snapshot.reading;
  if (!snapshot.nodes) return snapshot;
  world.nodes = new Map();
  snapshot.nodes.forEach(keepNode);
  world.boot = snapshot.boot;
  world.rates = snapshot.rates ?? {};
  keepHead(snapshot);
  notify("machine", null);
  notify("grants", null);
  notify("reset", null);
  return snapshot;
}

function keepHead(head) {
  world.number = head.number;
  world.totals = head.totals;
  world.policy = head.policy;
  world.mode = head.mode;
  world.rules = head.rules ?? world.rules;
  notify("totals", null);
}

/** Loads the snapshot at another number of a journal. */
export async function moveTo(number) {
  world.reading = { ...world.reading, number };
  await load();
}

// The stream

let source = null,
  again = null,
  pause = 0,
  heardAt = 0,
  silent = SILENT,
  resting = false;

/** Follows the service from now on, and reconnects if the connection is lost. */
export function follow() {
  if (world.reading) return;
  stop();
  source = new EventSource(`/v1/page/events?after=${world.number}`);
  heardAt = performance.now();
  source.addEventListener("hello", (event) => hello(JSON.parse(event.data)));
  source.addEventListener("frame", (event) => applyUpdate(JSON.parse(event.data)));
  source.addEventListener("rates", (event) => {
    heard();
    world.rates = JSON.parse(event.data).rates;
    notify("rates", null);
  });
  source.addEventListener("still", (event) => still(JSON.parse(event.data)));
  source.addEventListener("reset", () => {
    heard();
    resync();
  });
  source.addEventListener("logout", (event) => {
    stop();
    const { code, error } = JSON.parse(event.data);
    notify("login", new ServiceError(code, error));
  });
  source.onerror = lost;
}

export function stop() {
  clearTimeout(again);
  source?.close();
  source = null;
}

function heard() {
  heardAt = performance.now();
  pause = 0;
  notify("link", "live");
}

function hello(event) {
  silent = BEATS * event.beat * 1000;
  heard();
  if (event.boot !== world.boot || event.number < world.number) resync();
}

function still(event) {
  heard();
  if (event.number !== world.number) resync();
}

async function resync() {
  try {
    await load();
  } catch (error) {
    if (!error.isLoggedOut) lost();
  }
}

/** Reconnects after a lost connection, soon at first. The first call shows whether the login is still valid. */
function lost() {
  stop();
  notify("link", "lost");
  pause = Math.min(LATEST, pause ? 2 * pause : 250);
  again = setTimeout(async () => {
    try {
      await load(false, LATEST);
      follow();
    } catch (error) {
      if (!error.isLoggedOut) lost();
    }
  }, pause);
}

// A browser has few connections to one host for all its tabs, so a hidden tab closes its connection.
let hiding = null;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden)
    hiding = setTimeout(() => {
      if (source) {
        stop();
        resting = true;
      }
    }, HIDDEN);
  else if (resting) {
    resting = false;
    follow();
  }
});

setInterval(() => {
  // an open connection may be dead, and a running service may hang
  if (source && performance.now() - heardAt > silent) lost();
}, 1000);

function applyUpdate(update) {
  heard();
  if (update.number <= world.number) return;
  if (update.after > world.number) {
    resync();
    return;
  }
  const before = world.number,
    whole = update.nodes.map((node) => node.name);
  update.nodes.forEach(keepNode);
  const touched = mergeFills(update.disks);
  keepHead(update);
  if (whole.length || touched.length) notify("machine", { nodes: whole, disks: touched });
  notify("grants", { rows: update.grants, more: update.more, forgotten: update.forgotten });
  notify("lines", { lines: update.lines.filter((line) => line.n > before), whole: update.whole });
}

/** Updates how full disks are; returns the keys of those that changed. */
function mergeFills(fills) {
  const touched = [];
  for (const [key, fill] of Object.entries(fills)) {
    const disk = findDisk(key);
    if (disk && Object.keys(fill).some((name) => disk[name] !== fill[name])) {
      Object.assign(disk, fill);
      touched.push(key);
    }
  }
  return touched;
}

/** A disk by NODE/NAME, if there is one. */
export function findDisk(key) {
  const cut = key.indexOf("/");
  return world.nodes.get(key.slice(0, cut))?.disks.find((disk) => disk.name === key.slice(cut + 1));
}

/** Adds to each disk of a node its key, its node's name and its state. */
function keepNode(node) {
  for (const disk of node.disks)
    Object.assign(disk, { key: `${node.name}/${disk.name}`, node: node.name, state: diskState(node, disk) });
  world.nodes.set(node.name, node);
}

/** The first state that keeps new grants away from a disk. */
function diskState(node, disk) {
  if (!disk.there) return "gone";
  if (node.silent) return "silent";
  if (disk.unseen) return "unseen";
  if (disk.suspended) return "suspended";
  return disk.drained || node.drained ? "drained" : "open";
}

/** All disks of the machine. */
export function* disks() {
  for (const node of world.nodes.values()) yield* node.disks;
}
