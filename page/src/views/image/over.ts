// Weights over an image: its pixels, and a veil of one pixel a place, by light or by colour.

import { cividis, share } from "../../lib/colour";
import { axisOf, type Axis, type Manifest, type MapInfo, type Scale } from "../../lib/types";

export type Grid = Extract<Axis, { kind: "grid" }>;
/** `light` dims what is not looked at; `colour` lays the colour of each weight over it. */
export type Veil = "light" | "colour";

/** The grid that a map looks at, or null where it looks at something else. */
export function gridOf(manifest: Manifest, map: MapInfo): Grid | null {
  const axis = axisOf(manifest, map.key);
  return axis.kind === "grid" ? axis : null;
}

/** An image u8 (C, Y, X) of one or three channels, as ImageData has it. */
export function pixelsOf(bytes: Uint8Array, [C, Y, X]: number[]): Uint8ClampedArray<ArrayBuffer> {
  const found = new Uint8ClampedArray(4 * Y * X);
  for (let i = 0; i < Y * X; i++)
    for (let c = 0; c < 4; c++) found[4 * i + c] = c === 3 ? 255 : bytes[C === 1 ? i : c * Y * X + i];
  return found;
}

/** A veil of the weights of one query, a pixel a place; `bare` where no image lies under it. */
export function veilOf(weights: Float32Array, most: number, scale: Scale, kind: Veil, bare: boolean): Uint8ClampedArray<ArrayBuffer> {
  const found = new Uint8ClampedArray(4 * weights.length);
  weights.forEach((weight, i) => {
    const part = Math.min(1, share(weight, most, scale));
    if (kind === "light" && !bare) found[4 * i + 3] = Math.round(215 * (1 - part));
    else found.set([...cividis(part), bare ? 255 : 150], 4 * i);
  });
  return found;
}

/** How wide and high a picture is drawn that has so much room, its places all of one shape. */
export function fitted(grid: Grid, wide: number, high: number): [number, number] {
  const [Y, X] = grid.image ? grid.image.slice(1) : [grid.rows, grid.columns];
  const factor = Math.min(wide / X, high / Y);
  return [Math.max(1, Math.round(X * factor)), Math.max(1, Math.round(Y * factor))];
}

/** One place further in a grid, and never out of it. */
export function moved(grid: Grid, place: number, down: number, across: number): number {
  const inside = (at: number, size: number) => Math.max(0, Math.min(size - 1, at));
  const [row, column] = [Math.floor(place / grid.columns), place % grid.columns];
  return inside(row + down, grid.rows) * grid.columns + inside(column + across, grid.columns);
}
