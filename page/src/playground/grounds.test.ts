import { expect, test } from "vitest";
import { diverging } from "../lib/colour";
import { finer, heights, regions } from "./grounds";
import { POINTS } from "./palette";

test("what lies between is on a straight line", () => {
  expect([...finer([0, 4, 8, 12], 2, 4)].slice(0, 5)).toEqual([0, 1, 2, 3, 4]);
  expect(finer([0, 4, 8, 12], 2, 4)[12]).toBe(6);
  expect(finer([0, 4, 8, 12], 2, 4).at(-1)).toBe(12);
});

test("a region has the colour of the key that is read most", () => {
  const ground = regions([[1, 0], [1, 0], [0, 1], [0, 1]], 2);
  expect(ground.side).toBe(5);
  expect([...ground.colours.slice(0, 4)]).toEqual([...POINTS[0], 255]);
  expect([...ground.colours.slice(-4)]).toEqual([...POINTS[1], 255]);
  expect(ground.colours[4 * 12 + 3]).toBe(25);
});

test("heights go in steps from the lowest to the highest", () => {
  const ground = heights([-2, 2, -2, 2], 2);
  expect([...ground.colours.slice(0, 3)]).toEqual(diverging(-1));
  expect([...ground.colours.slice(-4, -1)]).toEqual(diverging(1));
});
