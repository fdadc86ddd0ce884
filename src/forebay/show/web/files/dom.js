// Elements without markup: whatever comes from the service is text, never HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `props` are attributes, or `on...` handlers, or `style` as an object; children are elements or text. */
export function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** The same in a picture. */
export function s(tag, props, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, own] of Object.entries(value)) element.style.setProperty(key, own);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Puts children in the place of all that an element has. */
export function put(element, ...children) {
  element.replaceChildren(
    ...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** Sets text only where it differs, so that nothing is drawn again for nothing. */
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

/** Facts as a list of names and values; those without a value are left out. */
export function facts(...pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs
      .filter(([, value]) => value !== "" && value !== null && value !== undefined)
      .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

/** Asks whether something is to be done; it is done only after a clear yes. */
export function confirmed(title, words, verb) {
  return new Promise((decided) => {
    let yes = false;
    const dialog = h(
      "dialog",
      { "aria-labelledby": "asked" },
      h("h2", { id: "asked" }, title),
      h("p", {}, words),
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

/** Answers all that is asked with no: whoever goes elsewhere has not said yes. */
export function closeDialogs() {
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
}

/** Tells a screen reader; sparingly. */
export function aloud(words) {
  say(document.getElementById("heard"), words);
}

/** Calls a function soon, once, however often it is asked for; at least `pause` milliseconds apart. */
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
