// Colours of lessons: points that are told apart without red and green too (Okabe & Ito 2008), and
// ink that can be read on any cell.

import { cividis, css, diverging, type Colour } from "../lib/colour";

export const POINTS: Colour[] = [
  [230, 159, 0], [86, 180, 233], [0, 158, 115], [213, 94, 0], [204, 121, 167], [240, 228, 66], [0, 114, 178], [140, 140, 140],
];

export const pointColour = (i: number): string => css(POINTS[i % POINTS.length]);

function luminance(colour: Colour): number {
  const [r, g, b] = colour.map((c) => (c <= 10 ? c / 3295 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Black or white, whichever stands out more: at least 4.5:1. */
export const inkOn = (colour: Colour): string => (luminance(colour) > 0.179 ? "#000" : "#fff");

export type Kind = "weight" | "signed";

/** The colour of a value: of a weight from 0 to most, of a signed number from −most to most. */
export function cellColour(value: number, most: number, kind: Kind): Colour {
  const share = most > 0 ? value / most : 0;
  return kind === "weight" ? cividis(share) : diverging(share);
}

export { css, type Colour };
