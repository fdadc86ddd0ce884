// Small charts.

import { s } from "/page/dom.js";

const WIDE = 520,
  HIGH = 180,
  LEFT = 64,
  LOW = 24;

/** Round numbers from 0 to a little above the largest. */
function ticks(most) {
  const raw = (most || 1) / 4,
    unit = 10 ** Math.floor(Math.log10(raw)),
    step = [1, 2, 2.5, 5, 10].find((each) => each * unit >= raw) * unit;
  return Array.from({ length: Math.floor(most / step) + 2 }, (_, n) => n * step);
}

function frame(label, most, say) {
  const marks = ticks(most),
    top = marks.at(-1),
    y = (value) => HIGH - LOW - ((HIGH - LOW - 8) * value) / top;
  const chart = s(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDE} ${HIGH}`, width: "100%", role: "img", "aria-label": label },
    marks.map((mark) => [
      s("line", { class: "grid", x1: LEFT, x2: WIDE, y1: y(mark), y2: y(mark) }),
      s("text", { x: LEFT - 6, y: y(mark) + 4, "text-anchor": "end" }, say(mark)),
    ]),
  );
  return [chart, y];
}

/** Points [x, y] joined by a line. */
export function line(label, points, { sayX, sayY, steps = false }) {
  const low = Math.min(...points.map(([at]) => at)),
    high = Math.max(...points.map(([at]) => at));
  const [chart, y] = frame(label, Math.max(...points.map(([, value]) => value)), sayY);
  const x = (at) => LEFT + (WIDE - LEFT - 10) * (high > low ? (at - low) / (high - low) : 0.5);
  const path = points
    .map(([at, value], n) =>
      n === 0 ? `M${x(at)} ${y(value)}` : steps ? `H${x(at)}V${y(value)}` : `L${x(at)} ${y(value)}`,
    )
    .join("");
  chart.append(s("path", { class: "line", d: path }));
  if (points.length <= 60)
    chart.append(
      ...points.map(([at, value]) =>
        s("circle", { class: "dot", cx: x(at), cy: y(value), r: 3 }, s("title", {}, `${sayX(at)}: ${sayY(value)}`)),
      ),
    );
  const shown = high > low ? [low, (low + high) / 2, high] : [low];
  chart.append(
    ...shown.map((at, n) =>
      s(
        "text",
        { x: x(at), y: HIGH - 6, "text-anchor": n === 0 && shown.length > 1 ? "start" : n === 2 ? "end" : "middle" },
        sayX(at),
      ),
    ),
  );
  return chart;
}

/** Horizontal bars [name, value]. */
export function bars(label, rows, say) {
  const most = Math.max(...rows.map(([, value]) => value), 1e-300),
    high = 20;
  return s(
    "svg",
    {
      class: "chart",
      viewBox: `0 0 ${WIDE} ${rows.length * high + 4}`,
      width: "100%",
      role: "img",
      "aria-label": label,
    },
    rows.map(([name, value], n) => [
      s("text", { x: 150, y: n * high + 14, "text-anchor": "end" }, String(name).slice(0, 24)),
      s("rect", { class: "fill", x: 156, y: n * high + 4, width: Math.max(1, (270 * value) / most), height: high - 8 }),
      s("text", { x: 162 + (270 * value) / most, y: n * high + 14 }, say(value)),
    ]),
  );
}
