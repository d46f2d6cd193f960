import { expect, test } from "vitest";
import type { Source } from "../lib/source";
import { glimpseOf, lines, narrowest, tape, usedSlots } from "./glimpse";

const stats = { entropy: [[2, 1], [0.5, 3]], max: [[0.1, 0.2], [0.3, 0.4]], sink: [[0, 0], [0, 0]] };
const map = { id: "m", query: "t", key: "x", layers: 2, heads: 2, causal: false, names: [], sizes: [2, 3], thumb: [2, 3], levels: 1, stats };
function source(key: object, outputs: object = {}): Source {
  const thumbs = Uint8Array.from({ length: 24 }, (_, i) => i);
  const manifest = { maps: [map], axes: [{ id: "t", kind: "steps", size: 2, labels: ["a", "b"] }, key], outputs };
  return { manifest, thumbs: async () => thumbs } as unknown as Source;
}

test("the head of least entropy is shown", () => {
  expect(narrowest(map as never)).toEqual([1, 0]);
});
test("the used slots of a round tape stand in a row, across its end too", () => {
  const bytes = Uint8Array.of(255, 0, 0, 0, 99, 0, 20, 0, 0, 90);
  expect(usedSlots(bytes, 2, 5)).toEqual([4, 0]);
  expect(usedSlots(new Uint8Array(10), 2, 5)).toEqual([0, 1, 2, 3, 4]);
  expect(tape(bytes, 2, 5)).toEqual({ rows: 2, columns: 2, bytes: Uint8Array.of(99, 90, 255, 0) });
});
test("a glimpse of words is their narrowest head", async () => {
  const words = await glimpseOf(source({ id: "x", kind: "tokens", size: 3, labels: ["a", "b", "c"] }));
  expect(words).toEqual({ kind: "cells", rows: 2, columns: 3, bytes: Uint8Array.of(12, 13, 14, 15, 16, 17), most: 0.3 });
});
test("a glimpse of points has the way that was pointed out, closed", async () => {
  const xy = [[0, 0], [1, 0], [1, 1]];
  const plane = await glimpseOf(source({ id: "x", kind: "points", size: 3, xy }, { task: "hull", indices: [0, 2, 1] }));
  expect(plane).toEqual({ kind: "plane", xy, lines: [[0, 2], [2, 1], [1, 0]] });
});
test("triangles are closed one by one, an order is not, and points that are not there have no lines", () => {
  expect(lines({ triangles: [[0, 1, 2]] }, 3)).toEqual([[0, 1], [1, 2], [2, 0]]);
  expect(lines({ task: "order", indices: [1, 0] }, 2)).toEqual([[1, 0]]);
  expect(lines({ indices: [0, 9] }, 3)).toEqual([]);
});
