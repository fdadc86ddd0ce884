// The current place in the page, as in the address: #/view/part?what=is-open.

import { world } from "/page/link.js";

export const TITLES = {
  machine: "Machine",
  grants: "Grants",
  decisions: "Decisions",
  history: "History",
  forwarding: "Forwarding",
  schedule: "Schedule",
  study: "Study",
};

/** The views for this visitor. */
export function views() {
  if (world.reading?.kind === "study") return ["study"];
  if (world.reading) return ["machine", "grants", "decisions"];
  return world.who?.role === "administrator"
    ? ["machine", "grants", "decisions", "schedule", "history", "forwarding"]
    : ["machine", "grants", "decisions"];
}

/** The view, what comes after it, and what is open beside it. */
export function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  return { view: views().includes(view) ? view : views()[0], rest, params: new URLSearchParams(query) };
}

/** Changes the panel or the filters of a view; null removes one. */
export function goto(changes) {
  const here = place();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") here.params.delete(name);
    else here.params.set(name, value);
  }
  const query = here.params.toString();
  location.hash = `/${[here.view, ...here.rest].join("/")}${query ? `?${query}` : ""}`;
}

/** Opens a grant, a disk or a node in the panel. */
export const open = (kind, name) => goto({ grant: null, disk: null, node: null, [kind]: name });

/** The part of a query that selects the moment of a journal; empty for a running service. */
export const asOf = (sign = "?") => (world.reading ? `${sign}number=${world.reading.number}` : "");
