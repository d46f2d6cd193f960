// A trace read as points that are pointed at one by one: a tour, a hull, triangles, an order.

import { weightOf } from "../../lib/colour";
import type { Manifest, MapInfo } from "../../lib/types";

export type Task = "tour" | "hull" | "triangles" | "order";
const TASKS: Task[] = ["tour", "hull", "triangles", "order"];
/** A point that is less probable gets no line of the fan. */
export const LEAST = 0.01;

/** A line of the answer, and the step that drew it. */
export interface Edge {
  start: number;
  end: number;
  step: number;
}

export interface Pointing {
  task: Task;
  map: MapInfo;
  xy: [number, number][];
  labels: string[];
  /** The point of each step; where there is one fewer, the last step ends the answer. */
  indices: number[];
}

/** The first map from steps to points. */
export function pointer(manifest: Manifest): MapInfo | undefined {
  const kind = (id: string) => manifest.axes.find((axis) => axis.id === id)?.kind;
  return manifest.maps.find((map) => kind(map.query) === "steps" && kind(map.key) === "points");
}

/** What a trace points at, or null where it is none of points that are pointed at. */
export function pointing(manifest: Manifest): Pointing | null {
  const map = pointer(manifest);
  const { task, indices } = manifest.outputs;
  if (!map || !TASKS.includes(task as Task) || !Array.isArray(indices)) return null;
  const points = manifest.axes.find((axis) => axis.id === map.key);
  const steps = manifest.axes.find((axis) => axis.id === map.query);
  if (points?.kind !== "points" || steps?.kind !== "steps") return null;
  const given = indices.flat() as unknown[];
  const there = given.every((i) => Number.isInteger(i) && (i as number) >= 0 && (i as number) < points.size);
  if (!there || given.length > steps.size || given.length < steps.size - 1) return null;
  return { task: task as Task, map, xy: points.xy, labels: steps.labels, indices: given as number[] };
}

/** The corners of every whole triangle. */
export function triangles({ task, indices }: Pointing): number[][] {
  if (task !== "triangles") return [];
  return Array.from({ length: Math.floor(indices.length / 3) }, (_, i) => indices.slice(3 * i, 3 * i + 3));
}

/** The lines of the answer; the one that closes a tour or a hull comes after all points. */
export function edges(found: Pointing): Edge[] {
  const { task, indices } = found;
  const sides = [[0, 1, 1], [1, 2, 2], [2, 0, 2]];
  const made = task === "triangles"
    ? triangles(found).flatMap((corners, k) => sides.map(([a, b, step]) => ({ start: corners[a], end: corners[b], step: 3 * k + step })))
    : indices.slice(1).map((end, i) => ({ start: indices[i], end, step: i + 1 }));
  if ((task === "tour" || task === "hull") && indices.length > 2)
    made.push({ start: indices[indices.length - 1], end: indices[0], step: indices.length });
  return made.filter((edge) => edge.start !== edge.end);
}

/** How probable the end is: what a row lacks of one, unless it is no more than rounding. */
export function ending(row: ArrayLike<number>): number {
  const rest = 1 - Array.from(row).reduce((a, b) => a + b, 0);
  return rest < 0.01 ? 0 : rest;
}

const surprise = (p: number) => (p > 0 ? -p * Math.log(p) : 0);

/** The step that was least sure where to point, by bytes (T, N). */
export function unsure(bytes: Uint8Array, N: number): number {
  let [best, most] = [0, -1];
  for (let t = 0; t * N < bytes.length; t++) {
    const row = Float64Array.from(bytes.subarray(t * N, (t + 1) * N), weightOf);
    const here = row.reduce((sum, p) => sum + surprise(p), surprise(ending(row)));
    if (here > most + 1e-9) [best, most] = [t, here];
  }
  return best;
}

/** The points of the matrix: as first pointed at, then others that were ever probable. */
export function columns(found: Pointing, bytes: Uint8Array): number[] {
  const N = found.xy.length;
  const likely = new Set<number>();
  for (let i = 0; i < bytes.length; i++) if (weightOf(bytes[i]) >= LEAST) likely.add(i % N);
  const order = [...new Set([...found.indices, ...[...likely].sort((a, b) => a - b)])];
  return order.length ? order : found.xy.map((_, i) => i);
}

/** A share of one in words: <1 %, 62 %. */
export const percent = (share: number): string => (share < 0.01 ? "<1 %" : `${Math.round(100 * share)} %`);

/** The places of the most probable, the first first. */
export function likeliest(row: ArrayLike<number>, count: number): number[] {
  const order = Array.from({ length: row.length }, (_, i) => i).filter((i) => row[i] >= LEAST);
  return order.sort((a, b) => row[b] - row[a]).slice(0, count);
}

/** What an answer is worth: the numbers of its outputs, with words for the names we know. */
export function worth(outputs: Manifest["outputs"]): [string, string][] {
  const names: Record<string, string> = {
    length: "length", optimal: "shortest", gap: "above the shortest", two_opt: "after 2-opt", proved: "proved shortest",
    bound: "none is shorter than", area: "area", hull_area: "area of the hull", correct: "right", coverage: "triangles found",
  };
  const said = (name: string, value: unknown): string => {
    if (typeof value === "boolean") return value ? "yes" : "no";
    const number = value as number;
    return name === "gap" || name === "coverage" ? `${(100 * number).toFixed(1)} %` : String(Number(number.toPrecision(5)));
  };
  return Object.entries(outputs)
    .filter(([, value]) => typeof value === "number" || typeof value === "boolean")
    .map(([name, value]) => [names[name] ?? name.replace(/_/g, " "), said(name, value)]);
}
