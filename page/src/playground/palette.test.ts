import { expect, test } from "vitest";
import { cividis, diverging } from "../lib/colour";
import { POINTS, cellColour, inkOn, type Colour } from "./palette";

function contrast(a: Colour, ink: string): number {
  const linear = (c: number) => (c <= 10 ? c / 3295 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = a.map(linear);
  const l = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return ink === "#000" ? (l + 0.05) / 0.05 : 1.05 / (l + 0.05);
}

test("ink on any cell is at least 4.5 to 1", () => {
  for (let i = 0; i <= 100; i++)
    for (const colour of [cividis(i / 100), diverging(i / 50 - 1)])
      expect(contrast(colour, inkOn(colour))).toBeGreaterThan(4.5);
  for (const colour of POINTS) expect(contrast(colour, inkOn(colour))).toBeGreaterThan(4.5);
});

test("the ends of both maps are their ends", () => {
  expect(cellColour(3, 3, "weight")).toEqual(cividis(1));
  expect(cellColour(-3, 3, "signed")).toEqual(diverging(-1));
  expect(cellColour(0, 0, "weight")).toEqual(cividis(0));
});
