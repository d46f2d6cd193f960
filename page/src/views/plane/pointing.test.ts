import { describe, expect, it } from "vitest";
import type { Manifest } from "../../lib/types";
import { columns, edges, ending, likeliest, percent, pointing, triangles, unsure, worth, type Pointing, type Task } from "./pointing";

const bytes = (...weights: number[]) => Uint8Array.from(weights, (p) => Math.round(255 * Math.sqrt(p)));
const found = (task: Task, indices: number[], N = 4): Pointing => ({
  task, indices, labels: indices.map((i) => `→ ${i}`), xy: Array.from({ length: N }, (_, i) => [i, i * i]), map: {} as Pointing["map"],
});

describe("the lines of an answer", () => {
  it("close a tour after all points", () => {
    expect(edges(found("tour", [2, 0, 1])).map(({ start, end, step }) => [start, end, step])).toEqual([[2, 0, 1], [0, 1, 2], [1, 2, 3]]);
  });
  it("leave an order open", () => {
    expect(edges(found("order", [2, 0, 1]))).toHaveLength(2);
  });
  it("close each triangle at its third corner", () => {
    const answer = found("triangles", [0, 1, 2, 1, 2, 3]);
    expect(triangles(answer)).toEqual([[0, 1, 2], [1, 2, 3]]);
    expect(edges(answer).map((edge) => edge.step)).toEqual([1, 2, 2, 4, 5, 5]);
  });
});

describe("a step", () => {
  it("ends with what its row lacks of one, if that is more than rounding", () => {
    expect(ending([0.5, 0.25])).toBe(0.25);
    expect(ending([0.5, 0.495])).toBe(0);
  });
  it("is the least sure where its weights are most alike", () => {
    expect(unsure(bytes(1, 0, 0, 0.5, 0.5, 0, 0.9, 0.1, 0), 3)).toBe(1);
  });
  it("has its likeliest points first, and none below a hundredth", () => {
    expect(likeliest([0.2, 0.7, 0.005, 0.095], 3)).toEqual([1, 0, 3]);
  });
});

describe("the matrix", () => {
  it("has points as first pointed at, then others that were ever probable", () => {
    expect(columns(found("hull", [3, 1]), bytes(0.02, 0, 0, 0.98, 0, 1, 0, 0))).toEqual([3, 1, 0]);
  });
});

describe("a trace", () => {
  const manifest = (indices: unknown) =>
    ({
      outputs: { task: "tour", indices },
      axes: [{ id: "steps", kind: "steps", size: 2, labels: ["a", "b"] }, { id: "points", kind: "points", size: 2, xy: [[0, 0], [1, 1]] }],
      maps: [{ id: "reading", query: "points", key: "points" }, { id: "pointer", query: "steps", key: "points" }],
    }) as unknown as Manifest;
  it("points by its map from steps to points", () => {
    expect(pointing(manifest([1, 0]))?.map.id).toBe("pointer");
    expect(pointing(manifest([[1], [0]]))?.indices).toEqual([1, 0]);
  });
  it("is none where its answer has points that are not there", () => {
    for (const wrong of [[2, 0], [0.5, 0], "01", [], undefined]) expect(pointing(manifest(wrong))).toBeNull();
  });
  it("says what it is worth in words", () => {
    expect(worth({ length: 2.123456, gap: 0.0123, correct: true, text: "0 1", optimal: null, two_opt: 2 })).toEqual([
      ["length", "2.1235"], ["above the shortest", "1.2 %"], ["right", "yes"], ["after 2-opt", "2"],
    ]);
  });
});

describe("shares", () => {
  it("are told in whole percent", () => {
    expect([0.004, 0.01, 0.624, 1].map(percent)).toEqual(["<1 %", "1 %", "62 %", "100 %"]);
  });
});
