import { describe, expect, it } from "vitest";
import { beside, round, sheet } from "./sheet";

describe("the paper", () => {
  it("has round numbers along its sides", () => {
    expect(round(-0.1, 1.1)).toEqual([0, 0.25, 0.5, 0.75, 1]);
    expect(round(0, 3.2, 5, true)).toEqual([0, 1, 2, 3]);
  });
  it("keeps distances alike in both directions", () => {
    const { x, y } = sheet([[0, 0], [10, 5]], "tour", 400);
    expect(x(1) - x(0)).toBeCloseTo(y(0) - y(1));
  });
  it("puts a name where neither points nor lines are", () => {
    const name = { x: 100, y: 100, wide: 20, high: 10, far: 5, must: false };
    const [free] = beside([name], [[100, 100, 5]], [], 300, 300);
    expect(free![0]).toBeGreaterThan(100);
    const [left] = beside([name], [[100, 100, 5]], [[105, 100, 200, 100, 1]], 300, 300);
    expect(left![0]).toBeLessThan(100);
  });
  it("leaves a name out where there is no room, unless it must be there", () => {
    const name = { x: 100, y: 100, wide: 20, high: 10, far: 5, must: false };
    const crowd = Array.from({ length: 400 }, (_, i): [number, number, number] => [50 + 5 * (i % 20), 50 + 5 * Math.floor(i / 20), 4]);
    expect(beside([name], crowd, [], 300, 300)).toEqual([null]);
    expect(beside([{ ...name, must: true }], crowd, [], 300, 300)[0]).not.toBeNull();
  });
});
