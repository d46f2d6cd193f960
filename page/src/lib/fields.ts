// A head's weights as they may be shown otherwise: special keys hidden, words whole, one head less
// another. Numbers in, numbers out; `shaping.ts` asks for them.

import { share, weightOf } from "./colour";
import { TILE, tileSize, type Tile } from "./source";
import { labelsOf, visible, type Axis, type Scale } from "./types";

/** What stands in one row or column: a token, or the tokens of a word. */
export interface Group {
  label: string;
  places: number[];
}

/** How a map is shown; `id` is empty where it is shown as it is. */
export interface Shape {
  id: string;
  queries: Group[];
  keys: Group[];
  /** Whether a key, by its place in the map, is left out. */
  hidden: boolean[];
  /** What was done, in words. */
  told: string;
}

/** Larger maps are shown as they are. */
export const LARGEST = 1024;

export function decoded(bytes: Uint8Array): Float32Array {
  const weights = Float32Array.from({ length: 256 }, (_, byte) => weightOf(byte));
  return Float32Array.from(bytes, (byte) => weights[byte]);
}

/** Weights as bytes, the greatest of them as 255. */
export function encoded(weights: Float32Array, most = 1): Uint8Array {
  return Uint8Array.from(weights, (weight) => Math.min(255, Math.round(255 * Math.sqrt(weight / most))));
}

/** The tokens of each word; neighbours of one number make a word, what is part of none stands alone. */
export function groupsOf(axis: Axis, merge: boolean): Group[] {
  const labels = labelsOf(axis);
  const words = merge && axis.kind === "tokens" ? axis.words : null;
  const groups: Group[] = [];
  let last: number | null = null;
  labels.forEach((label, place) => {
    const word = words?.[place] ?? null;
    if (word !== null && word === last) groups.at(-1)!.places.push(place);
    else groups.push({ label, places: [place] });
    last = word;
  });
  if (!words) return groups;
  const names = axis.kind === "tokens" ? axis.names : null;
  groups.forEach((group, n) => {
    const joined = group.places.map((place) => labels[place]).join("");
    group.label = names?.[n] ?? (joined.trim() || joined);
  });
  return groups;
}

/** Whether any word of an axis has more than one token. */
export const hasWords = (axis: Axis): boolean =>
  axis.kind === "tokens" && axis.words !== null && groupsOf(axis, true).length < axis.size;

/** How a map of these axes is shown: `hide` may name "special" and "first", `words` joins tokens. */
export function shapeOf(query: Axis, key: Axis, how: { words: boolean; hide: string[] }): Shape {
  const small = query.size <= LARGEST && key.size <= LARGEST;
  const words = small && how.words && (hasWords(query) || hasWords(key));
  const special = new Set(small && how.hide.includes("special") && key.kind === "tokens" ? key.special : []);
  const first = small && how.hide.includes("first") && key.size > 1;
  const hidden = Array.from({ length: key.size }, (_, k) => special.has(k) || (first && k === 0));
  const told = [
    words ? "words are whole: summed over keys, averaged over queries" : "",
    special.size ? "special tokens hidden" : "",
    first ? "the first key hidden" : "",
    special.size || first ? "rows renormalised" : "",
  ].filter(Boolean);
  const id = [words ? "words" : "", special.size ? "special" : "", first ? "first" : ""].filter(Boolean).join("+");
  return { id, queries: groupsOf(query, words), keys: groupsOf(key, words), hidden, told: told.join(", ") };
}

/** The row without its hidden keys; what is left gets what they had, each in proportion. */
export function withoutKeys(row: Float32Array, hidden: boolean[]): Float32Array {
  let all = 0;
  let left = 0;
  row.forEach((weight, k) => {
    all += weight;
    if (!hidden[k]) left += weight;
  });
  const by = left > 1e-9 * all ? all / left : 0;
  return row.map((weight, k) => (hidden[k] ? 0 : weight * by));
}

/** A word is looked at as much as its tokens are together. */
export function summed(row: Float32Array, groups: Group[]): Float32Array {
  return Float32Array.from(groups, ({ places }) => places.reduce((sum, place) => sum + row[place], 0));
}

/** A word looks where its tokens look on average. */
export function averaged(rows: Float32Array[]): Float32Array {
  return Float32Array.from(rows[0], (_, k) => rows.reduce((sum, row) => sum + row[k], 0) / rows.length);
}

/** What is shown of the rows of one word, or of one token. */
export function shapedRow(rows: Float32Array[], shape: Shape): Float32Array {
  if (!shape.id) return rows[0];
  const hides = shape.hidden.includes(true);
  return averaged(rows.map((row) => summed(hides ? withoutKeys(row, shape.hidden) : row, shape.keys)));
}

/** The same of all rows, one after another. */
export function shaped(weights: Float32Array, shape: Shape): Float32Array {
  const K = shape.hidden.length;
  const width = shape.keys.length;
  const out = new Float32Array(shape.queries.length * width);
  shape.queries.forEach(({ places }, q) =>
    out.set(shapedRow(places.map((place) => weights.subarray(place * K, (place + 1) * K)), shape), q * width),
  );
  return out;
}

/** Every row in shares of its own greatest weight. */
export function byRow(weights: Float32Array, columns: number): Float32Array {
  const out = new Float32Array(weights.length);
  for (let first = 0; first < weights.length; first += columns) {
    const row = weights.subarray(first, first + columns);
    const most = row.reduce((a, b) => Math.max(a, b), 0);
    if (most > 0) out.set(row.map((weight) => weight / most), first);
  }
  return out;
}

/** One less the other, as bytes: 128 is none, 1 and 255 are `most` either way. */
export function apart(a: Float32Array, b: Float32Array, most: number, scale: Scale): Uint8Array {
  return Uint8Array.from(a, (weight, i) => {
    const by = weight - b[i];
    return 128 + Math.sign(by) * Math.round(127 * Math.min(1, share(Math.abs(by), most, scale)));
  });
}

/** The upper left part of a matrix. */
export function corner(weights: Float32Array, columns: number, [h, w]: [number, number]): Float32Array {
  const out = new Float32Array(h * w);
  for (let q = 0; q < h; q++) out.set(weights.subarray(q * columns, q * columns + w), q * w);
  return out;
}

/** A tile cut out of all bytes, pooled by 2^level to the byte that is farthest from `none`. */
export function tiled(bytes: Uint8Array, sizes: [number, number], tile: Tile, none = 0): Uint8Array {
  const [h, w] = tileSize(sizes, tile);
  const by = 2 ** tile.level;
  const out = new Uint8Array(h * w).fill(none);
  const [top, left] = [tile.row * TILE * by, tile.column * TILE * by];
  for (let q = top; q < Math.min(sizes[0], top + h * by); q++)
    for (let k = left; k < Math.min(sizes[1], left + w * by); k++) {
      const at = Math.floor((q - top) / by) * w + Math.floor((k - left) / by);
      const byte = bytes[q * sizes[1] + k];
      if (Math.abs(byte - none) > Math.abs(out[at] - none)) out[at] = byte;
    }
  return out;
}

/** How often it is halved, and once more, until one tile holds it. */
export function levelsOf(sizes: [number, number]): number {
  return 1 + Math.max(0, Math.ceil(Math.log2(Math.max(...sizes) / TILE)));
}

/** The places of the greatest weights, greatest first. */
export function best(row: ArrayLike<number>, count: number): number[] {
  return Array.from({ length: row.length }, (_, k) => k)
    .sort((a, b) => row[b] - row[a] || a - b)
    .slice(0, count);
}

/** Whether a line of tokens is read from right to left: most of its letters say so. */
export function direction(labels: string[]): "ltr" | "rtl" {
  const letters = labels.join("").match(/\p{L}/gu) ?? [];
  const back = letters.filter((letter) => /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(letter));
  return 2 * back.length > letters.length ? "rtl" : "ltr";
}

/** A table as text, a tab between columns; what stands in a cell breaks no line. */
export const tsv = (rows: (string | number)[][]): string =>
  rows.map((row) => row.map((cell) => (typeof cell === "number" ? String(cell) : visible(cell))).join("\t")).join("\n");
