// A trace read as a machine with a memory: which slots matter, when its head jumps, what is wrong.

import { weightOf } from "../../lib/colour";
import { asked } from "../../lib/steps";
import type { Manifest } from "../../lib/types";

export const STAGES = ["content", "gated", "shifted", "sharpened"] as const;
export const KINDS = ["read", "write"] as const;
export type Kind = (typeof KINDS)[number];
/** A slot that gets less than this everywhere is left out. */
export const LEAST = 0.01;

/** The ids of the maps that a head of this kind went through, the last under its bare name. */
export const mapsOf = (kind: Kind): string[] => [`${kind}.content`, `${kind}.gated`, `${kind}.shifted`, kind];
const ORDERS = ["strength", "gate", "shift", "sharpness"];

/** Whether a trace has all that a tape shows. */
export function isMachine(manifest: Manifest): boolean {
  const read = manifest.maps.find((map) => map.id === "read");
  if (!read || manifest.axes.find((axis) => axis.id === read.key)?.kind !== "slots") return false;
  const maps = new Set(manifest.maps.filter((m) => m.query === read.query && m.key === read.key).map((m) => m.id));
  const series = new Set(manifest.series.filter((s) => s.axis === read.query).map((s) => s.id));
  return KINDS.every(
    (kind) => mapsOf(kind).every((id) => maps.has(id)) && ORDERS.every((of) => series.has(`${kind}.${of}`)),
  ) && series.has("memory");
}

/** The slots that get `LEAST` or more in any of these bytes (…, N), and `margin` on each side.
 *
 * Slots are a ring: those that go over its end are kept in one piece, so 126, 127, 0, 1. Where no
 * weight is so large, all are kept. */
export function used(weights: Uint8Array[], N: number, margin = 2): number[] {
  const large = new Array<boolean>(N).fill(false);
  for (const bytes of weights)
    for (let i = 0; i < bytes.length; i++) if (weightOf(bytes[i]) >= LEAST) large[i % N] = true;
  if (!large.includes(true)) return large.map((_, i) => i);
  const near = large.map((_, i) => {
    for (let by = -margin; by <= margin; by++) if (large[(((i + by) % N) + N) % N]) return true;
    return false;
  });
  const kept = near.flatMap((is, i) => (is ? [i] : []));
  const gap = near.indexOf(false);
  if (gap < 0 || !near[0] || !near[N - 1]) return kept;
  return [...kept.filter((i) => i > gap), ...kept.filter((i) => i < gap)];
}

/** The step at which content moved a head most; what shifting moves does not count.
 *
 * Before it is shifted a head is g · content + (1 − g) · before: how far that is from before is
 * the share of the weight that was found by content somewhere else. */
export function jump(gated: Uint8Array, weights: Uint8Array, N: number): number {
  let [best, far] = [0, -1];
  for (let t = 1; t * N < weights.length; t++) {
    let moved = 0;
    for (let i = 0; i < N; i++) moved += Math.abs(weightOf(gated[t * N + i]) - weightOf(weights[(t - 1) * N + i]));
    if (moved > far + 1e-9) [best, far] = [t, moved];
  }
  return best;
}

/** The steps and channels at which a bit is asked for and another one was said. */
export function wrong(outputs: Float32Array, targets: Float32Array, labels: string[]): [number, number][] {
  const width = outputs.length / labels.length;
  return labels.flatMap((label, t) =>
    asked(label)
      ? Array.from({ length: width }, (_, c) => c)
          .filter((c) => outputs[t * width + c] > 0.5 !== targets[t * width + c] > 0.5)
          .map((c): [number, number] => [t, c])
      : [],
  );
}

/** Numbers as bits, in a row. */
export const bitsOf = (values: Float32Array): string => Array.from(values, (x) => (x > 0.5 ? "1" : "0")).join("");

/** The first of `room` steps that are shown around the chosen one, where not all are. */
export function first(step: number, count: number, room: number): number {
  return Math.max(0, Math.min(count - room, step - Math.floor(room / 2)));
}

/** By how many slots each number of a shift moves: the middle one by none. */
export const shifts = (size: number): number[] => Array.from({ length: size }, (_, i) => i - Math.floor(size / 2));
export const signed = (by: number): string => (by > 0 ? `+${by}` : by < 0 ? `−${-by}` : "0");
