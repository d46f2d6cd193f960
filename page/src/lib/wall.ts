// The heads of a map in an order, and where each of them stands on a wall.

import type { Edit, MapInfo } from "./types";

export type Order = "depth" | "entropy" | "sink";

export interface Head {
  layer: number;
  head: number;
}

/** By depth as they are in the model; by entropy the narrowest first; by sink the deepest first. */
export function ordered(map: MapInfo, by: Order): Head[] {
  const all = Array.from({ length: map.layers * map.heads }, (_, i) => ({ layer: Math.floor(i / map.heads), head: i % map.heads }));
  if (by === "depth") return all;
  const of = (stats: number[][]) => (each: Head) => stats[each.layer][each.head];
  const number = by === "entropy" ? of(map.stats.entropy) : (each: Head) => -of(map.stats.sink)(each);
  return all.sort((a, b) => number(a) - number(b));
}

export interface Layout {
  columns: number;
  rows: number;
  left: number;
  top: number;
  /** Of a head, without its number and the gap. */
  w: number;
  h: number;
  /** From one head to the next. */
  across: number;
  down: number;
}

const GAP = 6;
/** What the number of a head needs above it. */
export const NUMBER = 14;
const LEAST = 44;
const MOST = 104;

/** Where heads stand on a wall so wide; a wall by depth has a column for each head, any other wraps. */
export function laidOut(map: MapInfo, by: Order, wide: number): Layout {
  const grid = by === "depth";
  const [left, top] = grid ? [30, 18] : [0, 0];
  const count = map.layers * map.heads;
  const fits = Math.max(1, Math.floor((wide - left) / (LEAST + GAP)));
  const columns = grid ? map.heads : Math.min(fits, Math.ceil(Math.sqrt(1.5 * count)));
  const across = Math.min(MOST + GAP, Math.floor((wide - left) / columns));
  const w = Math.max(4, across - GAP);
  const [Q, K] = map.sizes;
  const h = Math.round(w * Math.max(0.4, Math.min(1.6, Q / K)));
  return { columns, rows: Math.ceil(count / columns), left, top, w, h, across, down: h + GAP + NUMBER };
}

/** The place in the order that a point of the wall belongs to, or null. */
export function placeAt(layout: Layout, count: number, x: number, y: number): number | null {
  const [column, row] = [Math.floor((x - layout.left) / layout.across), Math.floor((y - layout.top) / layout.down)];
  const place = row * layout.columns + column;
  return column >= 0 && column < layout.columns && row >= 0 && place < count ? place : null;
}

/** Where the keys lead from a place, as in text: left and right go on at the next line. */
export function moved(key: string, place: number, columns: number, count: number): number | null {
  const by: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  if (!(key in by)) return null;
  const next = place + by[key];
  return next >= 0 && next < count ? next : place;
}

/** Whether an edit has put out a head. */
export function ablated(edits: Edit[], map: MapInfo, { layer, head }: Head): boolean {
  return edits.some((edit) => edit.do === "ablate" && edit.at === map.names[layer] && edit.heads?.includes(head));
}

/** The first cell that falls onto each of so many pixels; a cell falls onto one where cells are smaller. */
function starts(size: number, pixels: number): Int32Array {
  return Int32Array.from({ length: pixels + 1 }, (_, i) => Math.floor((i * size) / pixels));
}

/** Rows of bytes made so wide or narrow: a byte is repeated, or the greatest of some is taken. */
function pooled(bytes: Uint8Array, from: number, width: number, high: number, at: Int32Array, out: Uint8Array): void {
  const wide = at.length - 1;
  for (let y = 0, to = 0, row = from; y < high; y++, row += width)
    for (let x = 0; x < wide; x++) {
      let most = bytes[row + at[x]];
      for (let k = at[x] + 1; k < at[x + 1]; k++) if (bytes[row + k] > most) most = bytes[row + k];
      out[to++] = most;
    }
}

/** The heads drawn into an image so wide, a colour for each byte; where cells are smaller than a
 *  pixel the greatest of them is seen, as everywhere. */
export function draw(bytes: Uint8Array, map: MapInfo, order: Head[], layout: Layout, ratio: number, colours: Uint32Array, image: { width: number; pixels: Uint32Array }): void {
  const [h, w] = map.thumb;
  const rows = starts(h, Math.round(layout.h * ratio));
  const columns = starts(w, Math.round(layout.w * ratio));
  const wide = columns.length - 1;
  const narrow = new Uint8Array(h * wide);
  order.forEach(({ layer, head }, place) => {
    pooled(bytes, (layer * map.heads + head) * h * w, w, h, columns, narrow);
    const left = Math.round((layout.left + (place % layout.columns) * layout.across) * ratio);
    const top = Math.round((layout.top + Math.floor(place / layout.columns) * layout.down + NUMBER) * ratio);
    coloured(narrow, wide, rows, colours, image.pixels, top * image.width + left, image.width);
  });
}

/** The same for rows, with a colour for each byte, into a larger image from one of its pixels on. */
function coloured(narrow: Uint8Array, wide: number, at: Int32Array, colours: Uint32Array, pixels: Uint32Array, from: number, width: number): void {
  for (let y = 0; y < at.length - 1; y++)
    for (let x = 0; x < wide; x++) {
      let most = narrow[at[y] * wide + x];
      for (let q = at[y] + 1; q < at[y + 1]; q++) if (narrow[q * wide + x] > most) most = narrow[q * wide + x];
      pixels[from + y * width + x] = colours[most];
    }
}
