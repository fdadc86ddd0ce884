// Where one is, as the address tells it: #/view/part?what=is-open.

import { world } from "/page/link.js";

export const TITLES = {
  machine: "Machine",
  grants: "Grants",
  decisions: "Decisions",
  history: "History",
  forwarding: "Forwarding",
  study: "Study",
};

/** The views that there are for whoever looks. */
export function views() {
  if (world.reading?.kind === "study") return ["study"];
  if (world.reading) return ["machine", "grants", "decisions"];
  return world.who?.role === "administrator"
    ? ["machine", "grants", "decisions", "history", "forwarding"]
    : ["machine", "grants", "decisions"];
}

/** The view, what comes after it, and what is open beside it. */
export function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  return { view: views().includes(view) ? view : views()[0], rest, params: new URLSearchParams(query) };
}

/** Changes what is open beside a view, or how it is filtered; null takes a thing away. */
export function goto(changes) {
  const here = place();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") here.params.delete(name);
    else here.params.set(name, value);
  }
  const query = here.params.toString();
  location.hash = `/${[here.view, ...here.rest].join("/")}${query ? `?${query}` : ""}`;
}

/** Opens one thing beside the view. */
export const open = (kind, name) => goto({ grant: null, disk: null, node: null, [kind]: name });

/** What an address of the service needs besides, where a journal is read as of some moment. */
export const asOf = (sign = "?") => (world.reading ? `${sign}number=${world.reading.number}` : "");
