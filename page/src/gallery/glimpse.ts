// What a card of the gallery shows of a trace: a small matrix, or points and lines between them.

import type { Source } from "../lib/source";
import type { Axis, Manifest, MapInfo } from "../lib/types";
import { small, whole } from "../lib/whole";

export type Glimpse =
  | { kind: "cells"; rows: number; columns: number; bytes: Uint8Array; most: number }
  | { kind: "plane"; xy: [number, number][]; lines: [number, number][] };

const axis = (manifest: Manifest, id: string): Axis | undefined => manifest.axes.find((each) => each.id === id);

/** The head of a map that looks most narrowly: it has most to show. */
export function narrowest(map: MapInfo): [number, number] {
  let found: [number, number] = [0, 0];
  map.stats.entropy.forEach((row, layer) =>
    row.forEach((entropy, head) => {
      if (entropy < map.stats.entropy[found[0]][found[1]]) found = [layer, head];
    }),
  );
  return found;
}

/** A byte from which on a slot counts as used: a weight of a twentieth. */
const USED = 57;

/** The slots of a tape that are used at some step, in a row though the tape is round. */
export function usedSlots(bytes: Uint8Array, steps: number, slots: number): number[] {
  const used = (slot: number) => Array.from({ length: steps }, (_, t) => bytes[t * slots + (slot % slots)]).some((byte) => byte >= USED);
  // what is used begins after the longest stretch that is not
  let [length, first, longest] = [0, 0, 0];
  for (let slot = 0; slot < 2 * slots; slot++) {
    length = used(slot) ? 0 : Math.min(slots, length + 1);
    if (length > longest) [longest, first] = [length, slot + 1];
  }
  if (longest === slots) return Array.from({ length: slots }, (_, i) => i);
  return Array.from({ length: slots - longest }, (_, i) => (first + i) % slots);
}

/** A tape with time from left to right, and only the slots that are used. */
export function tape(bytes: Uint8Array, steps: number, slots: number): { rows: number; columns: number; bytes: Uint8Array } {
  const used = usedSlots(bytes, steps, slots);
  return { rows: used.length, columns: steps, bytes: Uint8Array.from({ length: used.length * steps }, (_, i) => bytes[(i % steps) * slots + used[Math.floor(i / steps)]]) };
}

/** The lines between points that a model pointed at: a way that closes, or triangles. */
export function lines(outputs: Record<string, unknown>, count: number): [number, number][] {
  const there = (list: unknown): list is number[] => Array.isArray(list) && list.every((i) => Number.isInteger(i) && i >= 0 && i < count);
  const closed = (list: number[]) => list.map((point, i): [number, number] => [point, list[(i + 1) % list.length]]);
  if (Array.isArray(outputs.triangles)) return outputs.triangles.filter(there).flatMap(closed);
  if (!there(outputs.indices)) return [];
  return outputs.task === "order" ? closed(outputs.indices).slice(0, -1) : closed(outputs.indices);
}

/** What is worth a glimpse of a trace. */
export async function glimpseOf(source: Source): Promise<Glimpse> {
  const { manifest } = source;
  const map = manifest.maps[0];
  const key = axis(manifest, map.key);
  if (key?.kind === "points") return { kind: "plane", xy: key.xy, lines: lines(manifest.outputs, key.size) };
  const [layer, head] = narrowest(map);
  const most = map.stats.max[layer][head];
  if (key?.kind === "slots" && small(map))
    return { kind: "cells", ...tape(await whole(source, map, layer, head), ...map.sizes), most };
  const [h, w] = map.thumb;
  const first = (layer * map.heads + head) * h * w;
  const bytes = (await source.thumbs(map.id)).slice(first, first + h * w);
  return { kind: "cells", rows: h, columns: w, bytes, most };
}
