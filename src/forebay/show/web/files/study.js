// A finished study: its conclusions, figures and files.

import { facts, h, put } from "/page/dom.js";
import { world } from "/page/link.js";

export function show(main) {
  const study = world.reading,
    file = (name) => `/study/${encodeURIComponent(name)}`;
  put(
    main,
    h(
      "div",
      { class: "row bar-row" },
      h("h2", {}, "Study ", study.study || study.name),
      study.files.includes("report.html") &&
        h("a", { href: file("report.html"), target: "_blank", rel: "noopener" }, "The whole report"),
    ),
    h(
      "div",
      { class: "cards" },
      h(
        "section",
        { class: "card wide" },
        h("h3", {}, "Conclusions"),
        h(
          "ul",
          { class: "said" },
          study.conclusions.map((conclusion) => h("li", {}, String(conclusion))),
        ),
      ),
      study.figures.map((figure) =>
        h(
          "figure",
          { class: "card" },
          h("h3", {}, figure.title),
          h(
            "a",
            { href: file(figure.file), target: "_blank", rel: "noopener" },
            h("img", { src: file(figure.file), alt: figure.title, loading: "lazy" }),
          ),
        ),
      ),
      h(
        "section",
        { class: "card" },
        h("h3", {}, "Settings"),
        facts(
          ...Object.entries(study.settings)
            .filter(([, value]) => typeof value !== "object")
            .map(([name, value]) => [name, String(value)]),
        ),
      ),
      h(
        "section",
        { class: "card" },
        h("h3", {}, "Files"),
        h(
          "ul",
          {},
          study.files.map((name) => h("li", {}, h("a", { href: file(name), download: true }, name))),
        ),
      ),
    ),
  );
}
