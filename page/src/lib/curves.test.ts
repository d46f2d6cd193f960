import { expect, test } from "vitest";
import { across, along, arc, ribbonsOf, rise } from "./curves";

const box = (x: number, y = 0) => ({ x, y, w: 10, h: 20 });

test("an arc begins and ends in the middle of its tokens, and a farther one rises higher", () => {
  const path = arc(box(0), box(100), 50, 200);
  expect(path.startsWith("M5 50C5 ")).toBe(true);
  expect(path.endsWith(" 105 50")).toBe(true);
  expect(rise(box(0), box(100), 200)).toBeGreaterThan(rise(box(0), box(40), 200));
  expect(rise(box(0), box(9000), 200)).toBe(200);
});
test("a token that reads itself has a loop", () => {
  const one = box(30);
  expect(arc(one, one, 50, 200)).toBe("M29 50c-10 -26 22 -26 12 0");
});
test("a ribbon goes from lower to upper edge, or from right to left edge", () => {
  expect(across(box(0), box(40, 100))).toBe("M5 20C5 60 45 60 45 100");
  expect(along(box(0), box(40, 100))).toBe("M10 10C25 10 25 110 40 110");
});
test("ribbons are those strong enough, up to the step, the strongest on top", () => {
  const weights = Float32Array.of(0.5, 0.04, 0.46, 0.25, 0.75, 0, 1, 0, 0);
  expect(ribbonsOf(weights, 3, 0.05, 1).map(({ q, k }) => [q, k])).toEqual([[1, 0], [0, 2], [0, 0], [1, 1]]);
  expect(ribbonsOf(weights, 3, 0.05, 2, 2).map(({ q, k }) => [q, k])).toEqual([[1, 1], [2, 0]]);
});
