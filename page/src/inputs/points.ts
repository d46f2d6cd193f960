// Points of the plane, or numbers, as one would type them, and back: `0.1,0.2 0.5,0.9`, `3 1 2`.

export type Point = [number, number];

/** What part of the plane is shown. */
export interface Frame {
  low: Point;
  high: Point;
}

const words = (text: string): string[] => text.split(/\s+/).filter(Boolean);
/** A number of a few digits, without a tail that no hand has set. */
export const rounded = (x: number, span = 1): number => {
  const digits = Math.max(0, Math.min(12, 3 - Math.floor(Math.log10(Math.max(span, 1e-9)))));
  return Number(x.toFixed(digits)) || 0;
};

/** The points of a text, or null where it has another form. */
export function points(text: string): Point[] | null {
  const found = words(text.replace(/;/g, " ").replace(/\s*,\s*/g, ",")).map((word) => word.split(","));
  if (!found.every((pair) => pair.length === 2 && pair.every(isNumber))) return null;
  return found.map(([x, y]) => [Number(x), Number(y)]);
}

/** The numbers of a text, or null where it has another form. */
export function numbers(text: string): number[] | null {
  const found = words(text.replace(/[,;]/g, " "));
  return found.every(isNumber) ? found.map(Number) : null;
}

const isNumber = (word: string): boolean => /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(word);

export const written = (points: Point[]): string => points.map(([x, y]) => `${x},${y}`).join(" ");
export const listed = (numbers: number[]): string => numbers.join(" ");

/** The unit square where all points are in it, or else all of them and a tenth around. */
export function frame(points: Point[]): Frame {
  if (points.every((p) => p.every((x) => x >= 0 && x <= 1))) return { low: [0, 0], high: [1, 1] };
  const low = [0, 1].map((i) => Math.min(...points.map((p) => p[i])));
  const high = [0, 1].map((i) => Math.max(...points.map((p) => p[i])));
  const span = Math.max(high[0] - low[0], high[1] - low[1]) || 1;
  const middle = [0, 1].map((i) => (low[i] + high[i]) / 2);
  return { low: middle.map((m) => m - 0.6 * span) as Point, high: middle.map((m) => m + 0.6 * span) as Point };
}

/** From where to where numbers go: at least from 0 to 1. */
export function reach(numbers: number[]): [number, number] {
  return [Math.min(0, ...numbers), Math.max(numbers.every((x) => x <= 1) ? 1 : 0, ...numbers)];
}

/** A point moved, and kept where it can be seen. */
export function kept([x, y]: Point, { low, high }: Frame): Point {
  const inside = (value: number, i: number) => rounded(Math.max(low[i], Math.min(high[i], value)), high[i] - low[i]);
  return [inside(x, 0), inside(y, 1)];
}

/** So many points of a frame, none where another is. */
export function scattered(count: number, within: Frame, random: () => number = Math.random): Point[] {
  const found: Point[] = [];
  const seen = new Set<string>();
  for (let tries = 0; found.length < count && tries < 20 * count; tries++) {
    const place = within.low.map((low, i) => low + (within.high[i] - low) * (0.03 + 0.94 * random())) as Point;
    const point = kept(place, within);
    if (seen.has(String(point))) continue;
    seen.add(String(point));
    found.push(point);
  }
  return found;
}

/** Where a new point may go: the place farthest from all others, of some that are tried. */
export function free(points: Point[], within: Frame): Point {
  let [best, far] = [kept(within.low.map((l, i) => (l + within.high[i]) / 2) as Point, within), -1];
  for (let i = 1; i < 100; i++) {
    const at = within.low.map((l, d) => l + ((within.high[d] - l) * (d ? Math.floor(i / 10) + 0.5 : (i % 10) + 0.5)) / 10) as Point;
    const near = Math.min(Infinity, ...points.map((p) => Math.hypot(p[0] - at[0], p[1] - at[1])));
    if (near !== Infinity && near > far) [best, far] = [kept(at, within), near];
  }
  return best;
}

/** Calls at most once in so many milliseconds; the last call always comes through. */
export function seldom<T>(act: (value: T) => void, pause: number): { (value: T): void; flush(): void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let waiting: { value: T } | undefined;
  const go = () => {
    timer = undefined;
    if (!waiting) return;
    const { value } = waiting;
    waiting = undefined;
    act(value);
    timer = setTimeout(go, pause);
  };
  const call = (value: T) => {
    waiting = { value };
    if (timer === undefined) go();
  };
  call.flush = () => {
    clearTimeout(timer);
    go();
  };
  return call;
}
