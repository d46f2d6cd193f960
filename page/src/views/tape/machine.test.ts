import { describe, expect, it } from "vitest";
import { first, jump, shifts, signed, used, wrong } from "./machine";

const bytes = (...weights: number[]) => Uint8Array.from(weights, (p) => Math.round(255 * Math.sqrt(p)));

describe("slots that are used", () => {
  it("are those with a hundredth or more, and their neighbours", () => {
    expect(used([bytes(0, 0, 0, 1, 0, 0, 0, 0.005)], 8, 1)).toEqual([2, 3, 4]);
  });
  it("stay in one piece where they go over the end of the ring", () => {
    expect(used([bytes(1, 0, 0, 0, 0, 0, 0, 0)], 8, 2)).toEqual([6, 7, 0, 1, 2]);
  });
  it("are all of them where no weight is large", () => {
    expect(used([bytes(0.001, 0.001, 0.001)], 3)).toEqual([0, 1, 2]);
  });
  it("count in every row and in every matrix", () => {
    expect(used([bytes(0, 1, 0, 0, 0, 0, 0, 0), bytes(0, 0, 0, 0, 0, 1, 0, 0)], 8, 0)).toEqual([1, 5]);
  });
});

describe("a head", () => {
  it("jumps where what is gated is farthest from the weights before", () => {
    const weights = bytes(1, 0, 0, 0, 1, 0, 1, 0, 0);
    const gated = bytes(1, 0, 0, 1, 0, 0, 0.9, 0.1, 0);
    expect(jump(gated, weights, 3)).toBe(2);
  });
  it("is at its only step where there is one", () => {
    expect(jump(bytes(1, 0), bytes(1, 0), 2)).toBe(0);
  });
});

describe("bits", () => {
  it("are wrong only where an answer is asked for", () => {
    const said = Float32Array.of(0.9, 0.9, 0.2, 0.7);
    expect(wrong(said, Float32Array.of(0, 0, 1, 1), ["01", "→ 01"])).toEqual([[1, 0]]);
  });
});

describe("steps that are shown", () => {
  it("stand around the chosen one, and never beyond the ends", () => {
    expect([first(0, 100, 10), first(50, 100, 10), first(99, 100, 10)]).toEqual([0, 45, 90]);
    expect(first(3, 5, 10)).toBe(0);
  });
});

describe("shifts", () => {
  it("go as far to either side", () => {
    expect(shifts(3).map(signed)).toEqual(["−1", "0", "+1"]);
  });
});
