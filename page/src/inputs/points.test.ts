import { describe, expect, it, vi } from "vitest";
import { frame, free, kept, listed, numbers, points, reach, rounded, scattered, seldom, written, type Point } from "./points";

const SQUARE = { low: [0, 0] as Point, high: [1, 1] as Point };

describe("points as one types them", () => {
  it("come back as they were", () => {
    for (const text of ["0.1,0.2 0.5,0.9", "-3,4.25 100,7 0,0", ""]) expect(written(points(text)!)).toBe(text);
  });
  it("come back also where they were scattered", () => {
    const found = scattered(50, SQUARE);
    expect(found).toHaveLength(50);
    expect(points(written(found))).toEqual(found);
  });
  it("may have lines, blanks and semicolons between them", () => {
    expect(points("0.1, 0.2; 0.5 ,0.9\n1,1")).toEqual([[0.1, 0.2], [0.5, 0.9], [1, 1]]);
  });
  it.each(["0.1", "0.1,0.2,0.3", "a,b", "0.1,", "1,2 3", "0x1,2"])("are none in %s", (text) => {
    expect(points(text)).toBeNull();
  });
});

describe("numbers as one types them", () => {
  it("come back as they were", () => {
    for (const text of ["3 1 2", "0.7 -0.1 1e-9"]) expect(listed(numbers(text)!)).toBe(text);
  });
  it("are none where there are letters", () => {
    expect(numbers("3 one 2")).toBeNull();
  });
  it("reach from 0 to 1 at least", () => {
    expect([reach([0.2, 0.4]), reach([5, 9]), reach([-2, 0.5])]).toEqual([[0, 1], [0, 9], [-2, 1]]);
  });
});

describe("the part of the plane that is shown", () => {
  it("is the unit square while all points are in it", () => {
    expect(frame([[0, 1], [0.5, 0.5]])).toEqual(SQUARE);
  });
  it("is a square with all points in it otherwise", () => {
    const { low, high } = frame([[0, 0], [100, 50]]);
    expect([low, high]).toEqual([[-10, -35], [110, 85]]);
  });
  it("keeps what is moved beyond it at its edge, in a few digits", () => {
    expect(kept([1.4, 0.123456], SQUARE)).toEqual([1, 0.123]);
    expect(rounded(123.456, 1000)).toBe(123);
  });
  it("has room for a new point away from all others", () => {
    const at = free([[0, 0], [0.1, 0.1]], SQUARE);
    expect(Math.hypot(at[0], at[1])).toBeGreaterThan(1);
  });
});

describe("what happens seldom", () => {
  it("happens at once, then once a while, and the last always", () => {
    vi.useFakeTimers();
    const seen: number[] = [];
    const tell = seldom((n: number) => seen.push(n), 150);
    for (let n = 0; n < 10; n++) tell(n);
    expect(seen).toEqual([0]);
    vi.advanceTimersByTime(150);
    expect(seen).toEqual([0, 9]);
    tell(10);
    tell.flush();
    vi.runAllTimers();
    expect(seen).toEqual([0, 9, 10]);
    vi.useRealTimers();
  });
});
