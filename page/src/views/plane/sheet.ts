// Where points lie on the paper, and where their names fit between lines and other names.

import type { Task } from "./pointing";

export interface Sheet {
  wide: number;
  high: number;
  x(value: number): number;
  y(value: number): number;
  /** Round numbers along each side. */
  across: number[];
  up: number[];
}

/** A few round numbers from one to another. */
export function round(low: number, high: number, most = 5, whole = false): number[] {
  const span = high - low;
  if (!(span > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(span / most));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((s) => span / s <= most && (!whole || Number.isInteger(s))) ?? Math.max(1, Math.ceil(span / most));
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * span; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

/** Of the form of its points, unless they are almost on a line or numbers over their places. */
export function sheet(xy: [number, number][], task: Task, wide: number): Sheet {
  const [left, bottom, around] = [34, 22, 26];
  let [x0, x1] = ends(xy.map((p) => p[0]));
  let [y0, y1] = ends(xy.map((p) => p[1]));
  if (task === "order" && y0 > 0 && y0 < y1 - y0) y0 = 0;
  const most = Math.max(x1 - x0, y1 - y0) || 1;
  const [w, h] = [x1 - x0 || most, y1 - y0 || most];
  const even = task !== "order" && h / w >= 1 / 8 && h / w <= 8;
  const form = even ? Math.min(1.05, Math.max(0.6, h / w)) : 0.7;
  const side = wide - left - 2;
  const high = side * form;
  let [sx, sy] = [(side - 2 * around) / w, (high - 2 * around) / h];
  if (even) sx = sy = Math.min(sx, sy);
  const [mx, my] = [(x0 + x1) / 2, (y0 + y1) / 2];
  [x0, x1] = [mx - side / sx / 2, mx + side / sx / 2];
  [y0, y1] = [my - high / sy / 2, my + high / sy / 2];
  return {
    wide,
    high: high + bottom + 2,
    x: (value) => left + (value - x0) * sx,
    y: (value) => 1 + (y1 - value) * sy,
    across: round(x0, x1, 5, task === "order"),
    up: round(y0, y1, 5),
  };
}

const ends = (values: number[]): [number, number] => [Math.min(...values), Math.max(...values)];

/** A name that wants to stand beside its point; one that must is never left out. */
export interface Name {
  x: number;
  y: number;
  wide: number;
  high: number;
  far: number;
  must: boolean;
}
type Box = [number, number, number, number];
export type Line = [number, number, number, number, number];

/** Where the middle of each name goes, or null where there is no room for it. */
export function beside(names: Name[], dots: [number, number, number][], lines: Line[], wide: number, high: number): ([number, number] | null)[] {
  const taken: Box[] = [];
  return names.map((name) => {
    let [best, least]: [[number, number] | null, number] = [null, Infinity];
    for (const [i, [dx, dy]] of AROUND.entries()) {
      const cx = name.x + dx * (name.far + 3 + name.wide / 2);
      const cy = name.y + dy * (name.far + 1 + name.high / 2);
      const box: Box = [cx - name.wide / 2, cy - name.high / 2, cx + name.wide / 2, cy + name.high / 2];
      const cost = 0.05 * i + badness(box, taken, dots, lines, wide, high);
      if (cost < least) [best, least] = [[cx, cy], cost];
    }
    if (!best || (!name.must && least >= 3)) return null;
    taken.push([best[0] - name.wide / 2, best[1] - name.high / 2, best[0] + name.wide / 2, best[1] + name.high / 2]);
    return best;
  });
}

const AROUND: [number, number][] = [[1, 0], [-1, 0], [0, -1], [0, 1], [0.85, -0.85], [-0.85, -0.85], [0.85, 0.85], [-0.85, 0.85]];

function badness([l, t, r, b]: Box, taken: Box[], dots: [number, number, number][], lines: Line[], wide: number, high: number): number {
  let cost = 0;
  if (l < 34 || t < 1 || r > wide - 1 || b > high - 23) cost += 20;
  for (const [L, T, R, B] of taken) if (l < R && L < r && t < B && T < b) cost += 6;
  for (const [x, y, far] of dots) if (x + far > l && x - far < r && y + far > t && y - far < b) cost += 3;
  for (const [x0, y0, x1, y1, weight] of lines) if (crosses(l, t, r, b, x0, y0, x1, y1)) cost += weight;
  return cost;
}

/** Whether a line goes through a box: what is left of it, cut at each side. */
function crosses(l: number, t: number, r: number, b: number, x0: number, y0: number, x1: number, y1: number): boolean {
  let [from, to] = [0, 1];
  for (const [p, q] of [[x0 - x1, x0 - l], [x1 - x0, r - x0], [y0 - y1, y0 - t], [y1 - y0, b - y0]]) {
    if (p === 0) {
      if (q < 0) return false;
    } else if (p < 0) from = Math.max(from, q / p);
    else to = Math.min(to, q / p);
    if (from > to) return false;
  }
  return true;
}
