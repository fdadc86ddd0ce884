// Formats sizes, times and states for people.

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];

/** Bytes with three digits: 1.25 TB. */
export function size(bytes) {
  let value = Math.abs(bytes),
    unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${bytes < 0 ? "−" : ""}${value.toFixed(digits)} ${UNITS[unit]}`;
}

export const rate = (bytes) => `${size(bytes)}/s`;
export const count = (number) => Number(number).toLocaleString("en-US");

/** A share of a whole; 100 % only if it is the whole. */
export function share(part, whole) {
  if (!(whole > 0)) return "–";
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 1) return "< 1 %";
  return `${percent >= 99.5 && percent < 100 ? 99 : Math.round(percent)} %`;
}

/** A duration, rounded. */
export function duration(seconds) {
  for (const [length, unit] of [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
  ]) {
    if (Math.abs(seconds) >= length * (unit === "min" ? 2 : 1)) return `${Number((seconds / length).toPrecision(3))} ${unit}`;
  }
  return `${Math.abs(seconds) < 60 ? Number(seconds.toPrecision(2)) : Math.round(seconds)} s`;
}

const two = (number) => String(number).padStart(2, "0");

/** The time of day of seconds since 1970, with the date if it is not today. */
export function moment(seconds, precise = true) {
  if (!seconds || !Number.isFinite(seconds)) return "–";
  const at = new Date(seconds * 1000),
    now = new Date();
  const time = `${two(at.getHours())}:${two(at.getMinutes())}${precise ? `:${two(at.getSeconds())}` : ""}`;
  const same =
    at.getFullYear() === now.getFullYear() && at.getMonth() === now.getMonth() && at.getDate() === now.getDate();
  return same ? time : `${day(at, now)} ${time.slice(0, 5)}`;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function day(at, now = new Date()) {
  const year = at.getFullYear() === now.getFullYear() ? "" : ` ${at.getFullYear()}`;
  return `${MONTHS[at.getMonth()]} ${at.getDate()}${year}`;
}

/** Each state has a shape beside its word, so that it is readable without colours. */
export const SHAPES = {
  asked: "·",
  queued: "◔",
  granted: "◇",
  making: "◈",
  ready: "◆",
  "in-use": "●",
  releasing: "◌",
  released: "○",
  refused: "✕",
  failed: "▲",
  expired: "⊘",
};
export const STATES = Object.keys(SHAPES);
export const LIVE = ["asked", "queued", "granted", "making", "ready", "in-use", "releasing"];
export const HELD = ["granted", "making", "ready", "in-use", "releasing"];

/** The first characters of an id, enough for people. */
export const short = (id) => id.slice(0, 8);

export const plural = (number, word, more = `${word}s`) => `${count(number)} ${number === 1 ? word : more}`;

/** A request in words. */
export function wish(line) {
  if (line.size === undefined) return "";
  const wants = Object.entries(line.wants ?? {})
    .filter(([name, value]) => name !== "expose" || value !== "none")
    .map(([name, value]) => `${name} ${value}`);
  return [
    `${size(line.size)} for ${duration(line.seconds)}`,
    ...wants,
    `by ${line.owner}`,
    line.job && `job ${line.job}`,
  ]
    .filter(Boolean)
    .join(", ");
}
