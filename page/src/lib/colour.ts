// Weights as colours: cividis, which reads the same with and without red, and blue–orange for
// differences. What comes in is u8, the root of a weight; what goes out is a table of 256 colours.

import type { Scale } from "./types";

const CIVIDIS = [
  0x00224e, 0x002e6a, 0x1a386f, 0x32436d, 0x434e6c, 0x535a6d, 0x61656f, 0x6f7073, 0x7d7c78,
  0x8c8878, 0x9b9476, 0xaba072, 0xbcae6c, 0xcdbb63, 0xdec958, 0xf0d846, 0xfee838,
];
const DIVERGING = [0x08519c, 0x4292c6, 0x9ecae1, 0xf2f2f2, 0xfdbe85, 0xf16913, 0xa63603];
/** The smallest weight that the logarithm tells from none. */
export const LEAST = 1e-4;

export type Colour = [number, number, number];

function mixed(stops: number[], share: number): Colour {
  const place = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  const part = place - low;
  return [16, 8, 0].map((shift) => {
    const [a, b] = [stops[low], stops[low + 1]].map((stop) => (stop >> shift) & 255);
    return Math.floor(a + (b - a) * part + 0.5);
  }) as Colour;
}

export const cividis = (share: number): Colour => mixed(CIVIDIS, share);
export const diverging = (share: number): Colour => mixed(DIVERGING, (share + 1) / 2);
export const css = ([r, g, b]: Colour): string => `rgb(${r} ${g} ${b})`;

/** Where a weight stands between none and the greatest. */
export function share(weight: number, most: number, scale: Scale): number {
  const top = Math.max(most, 1e-9);
  if (scale === "linear") return weight / top;
  if (scale === "sqrt") return Math.sqrt(weight / top);
  if (weight < LEAST) return 0;
  return top <= LEAST ? 1 : Math.log(weight / LEAST) / Math.log(top / LEAST);
}

/** The weight of a byte. */
export const weightOf = (byte: number): number => (byte / 255) ** 2;

function packed([r, g, b]: Colour): number {
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/** A colour for every byte, as ImageData has it on a little-endian machine. */
export function table(most: number, scale: Scale): Uint32Array {
  return Uint32Array.from({ length: 256 }, (_, byte) =>
    packed(cividis(share(weightOf(byte), most, scale))),
  );
}

/** The same for differences: byte 128 is none, 1 and 255 are the greatest either way. */
export function differences(): Uint32Array {
  return Uint32Array.from({ length: 256 }, (_, byte) => packed(diverging((byte - 128) / 127)));
}
