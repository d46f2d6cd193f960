// Lines between tokens: arcs over one sentence, ribbons between two.

import type { Box } from "./Line.svelte";

/** Between longer sentences ribbons are a thicket. */
export const RIBBONS = 200;

const middle = (box: Box) => box.x + box.w / 2;
const n = (x: number) => Math.round(x * 10) / 10;

/** How high an arc between two tokens of one line is. */
export function rise(a: Box, b: Box, most: number): number {
  return Math.min(most, 16 + 0.42 * Math.abs(middle(a) - middle(b)));
}

/** An arc from one token to another above the line whose upper edge is at `y`; a loop to itself. */
export function arc(a: Box, b: Box, y: number, most: number): string {
  const [from, to] = [middle(a), middle(b)];
  if (a === b) return `M${n(from - 6)} ${n(y)}c-10 -26 22 -26 12 0`;
  // a cubic rises to three quarters of its handles
  const top = y - rise(a, b, most) / 0.75;
  return `M${n(from)} ${n(y)}C${n(from)} ${n(top)} ${n(to)} ${n(top)} ${n(to)} ${n(y)}`;
}

/** A ribbon from the lower edge of a token to the upper edge of one below it. */
export function across(top: Box, bottom: Box): string {
  const [x1, y1, x2, y2] = [middle(top), top.y + top.h, middle(bottom), bottom.y];
  const half = (y1 + y2) / 2;
  return `M${n(x1)} ${n(y1)}C${n(x1)} ${n(half)} ${n(x2)} ${n(half)} ${n(x2)} ${n(y2)}`;
}

/** A ribbon from the right edge of a token to the left edge of one beside it. */
export function along(left: Box, right: Box): string {
  const [x1, y1, x2, y2] = [left.x + left.w, left.y + left.h / 2, right.x, right.y + right.h / 2];
  const half = (x1 + x2) / 2;
  return `M${n(x1)} ${n(y1)}C${n(half)} ${n(y1)} ${n(half)} ${n(y2)} ${n(x2)} ${n(y2)}`;
}

export interface Ribbon {
  q: number;
  k: number;
  weight: number;
}

/** The ribbons of weights (Q, K): of at least `least`, of queries up to `last`, the strongest last. */
export function ribbonsOf(weights: Float32Array, columns: number, least: number, last: number, most = 1500): Ribbon[] {
  const found: Ribbon[] = [];
  const rows = Math.min(weights.length / columns, last + 1);
  for (let q = 0; q < rows; q++)
    for (let k = 0; k < columns; k++) {
      const weight = weights[q * columns + k];
      if (weight >= least) found.push({ q, k, weight });
    }
  return found.sort((a, b) => a.weight - b.weight).slice(-most);
}
