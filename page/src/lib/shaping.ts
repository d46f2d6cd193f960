// All weights of a head, as exact as they can be had at once, and fields made of them.

import { decoded, levelsOf, tiled } from "./fields";
import type { Field } from "./Matrix.svelte";
import type { Source } from "./source";
import type { MapInfo } from "./types";
import { whole } from "./whole";

/** Up to so many queries every row is fetched as it is; beyond, bytes must do. */
export const EXACT = 256;

/** The weights (Q, K) of one head. */
export async function weightsOf(source: Source, map: MapInfo, layer: number, head: number): Promise<Float32Array> {
  const [Q, K] = map.sizes;
  if (Q > EXACT) return decoded(await whole(source, map, layer, head));
  const rows = await Promise.all(Array.from({ length: Q }, (_, q) => source.row(map.id, layer, head, q)));
  const out = new Float32Array(Q * K);
  rows.forEach((row, q) => out.set(row, q * K));
  return out;
}

/** A field of bytes that are all here, or soon will be. */
export function fieldOf(id: string, sizes: [number, number], colours: Uint32Array, bytes: Promise<Uint8Array>, none = 0): Field {
  return { id, sizes, colours, levels: levelsOf(sizes), tile: async (tile) => tiled(await bytes, sizes, tile, none) };
}
