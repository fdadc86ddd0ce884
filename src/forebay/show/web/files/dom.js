// Builds elements without markup: text from the service is never HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `props` are attributes, or `on...` handlers, or `style` as an object; children are elements or text. */
export function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag, props, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, item] of Object.entries(value)) element.style.setProperty(key, item);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replaces all children of an element. */
export function put(element, ...children) {
  element.replaceChildren(
    ...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** Sets text only if it differs, so that the browser does not draw it again. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A table. Columns are [head, cell of a row, class]; a cell is text or an element. */
export function table(caption, columns, rows, empty = "none") {
  if (!rows.length) return h("p", { class: "quiet" }, empty);
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      {},
      h("caption", { class: "visually-hidden" }, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map(([head, , kind]) => h("th", { scope: "col", class: kind }, head)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            columns.map(([, cell, kind]) => h("td", { class: kind }, cell(row))),
          ),
        ),
      ),
    ),
  );
}

/** A list of names and values, without those that have no value. */
export function facts(...pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs
      .filter(([, value]) => value !== "" && value !== null && value !== undefined)
      .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

/** Asks for confirmation; resolves to true only after a clear yes. */
export function confirmAction(title, text, verb) {
  return new Promise((decided) => {
    let yes = false;
    const dialog = h(
      "dialog",
      { "aria-labelledby": "asked" },
      h("h2", { id: "asked" }, title),
      h("p", {}, text),
      h(
        "div",
        { class: "row end" },
        h("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Cancel"),
        h(
          "button",
          {
            type: "button",
            class: "strong",
            onclick: () => {
              yes = true;
              dialog.close();
            },
          },
          verb,
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      decided(yes);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Answers all open questions with no, because the visitor has left the view. */
export function closeDialogs() {
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
}

/** Lets a screen reader read a text aloud; use it sparingly. */
export function announce(text) {
  say(document.getElementById("heard"), text);
}

/** A function that calls `work` soon: once for several calls, and at least `pause` milliseconds apart. */
export function soon(work, pause = 0) {
  let planned = false,
    last = -1e9;
  return () => {
    if (planned) return;
    planned = true;
    setTimeout(
      () => {
        planned = false;
        last = performance.now();
        work();
      },
      Math.max(0, last + pause - performance.now()),
    );
  };
}
