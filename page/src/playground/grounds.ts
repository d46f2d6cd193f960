// Fields of numbers as the ground of a plane, finer than they were computed.

import { diverging } from "../lib/colour";
import type { Ground } from "./Plane.svelte";
import { POINTS } from "./palette";

const TIMES = 4;

/** Numbers between those of a square, by straight lines: side n becomes (n − 1) · 4 + 1. */
export function finer(values: ArrayLike<number>, side: number, times = TIMES): Float32Array {
  const wide = (side - 1) * times + 1;
  const found = new Float32Array(wide * wide);
  for (let y = 0; y < wide; y++) {
    const top = Math.min(side - 2, Math.floor(y / times));
    const down = y / times - top;
    for (let x = 0; x < wide; x++) {
      const left = Math.min(side - 2, Math.floor(x / times));
      const right = x / times - left;
      const at = top * side + left;
      const above = values[at] + right * (values[at + 1] - values[at]);
      const below = values[at + side] + right * (values[at + side + 1] - values[at + side]);
      found[y * wide + x] = above + down * (below - above);
    }
  }
  return found;
}

/** Where each key is read most, in its colour; the fainter, the closer the next one is. */
export function regions(shares: number[][], side: number): Ground {
  const fields = shares[0].map((_, k) => finer(shares.map((row) => row[k]), side));
  const wide = (side - 1) * TIMES + 1;
  const colours = new Uint8ClampedArray(4 * wide * wide);
  for (let i = 0; i < wide * wide; i++) {
    let [best, first, second] = [0, -1, -1];
    fields.forEach((field, k) => {
      if (field[i] > first) [best, first, second] = [k, field[i], first];
      else if (field[i] > second) second = field[i];
    });
    colours.set([...POINTS[best], 25 + 230 * (first - Math.max(0, second))], 4 * i);
  }
  return { side: wide, colours };
}

/** A score in steps, like a map of heights: orange above zero, blue below. */
export function heights(scores: number[], side: number, steps = 8): Ground {
  const top = Math.max(1e-6, ...scores.map(Math.abs));
  const fine = finer(scores, side);
  const colours = new Uint8ClampedArray(4 * fine.length);
  fine.forEach((score, i) => {
    const level = Math.round((steps * score) / top) / steps;
    colours.set([...diverging(level), 255], 4 * i);
  });
  return { side: (side - 1) * TIMES + 1, colours };
}
