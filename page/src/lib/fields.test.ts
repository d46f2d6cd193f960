import { describe, expect, test } from "vitest";
import * as fields from "./fields";
import { TILE } from "./source";
import type { Axis } from "./types";

const row = (...weights: number[]) => Float32Array.from(weights);
const close = (found: Float32Array, wanted: number[]) => {
  expect(found.length).toBe(wanted.length);
  wanted.forEach((w, i) => expect(found[i]).toBeCloseTo(w, 6));
};
const tokens = (labels: string[], more: object = {}): Axis => ({
  id: "a", kind: "tokens", size: labels.length, labels, words: null, special: [], names: null, ...more,
});
const pieces = tokens(["gr", "een", " app", "le", "</s>"], { words: [0, 0, 1, 1, null], special: [4] });

describe("bytes", () => {
  test("a byte is decoded to the square of its share, and encoded back to itself", () => {
    close(fields.decoded(Uint8Array.of(0, 51, 255)), [0, 0.04, 1]);
    const all = Uint8Array.from({ length: 256 }, (_, i) => i);
    expect(fields.encoded(fields.decoded(all))).toEqual(all);
  });
  test("pooling keeps the greatest byte of each square, at odd edges too", () => {
    const found = fields.tiled(Uint8Array.of(1, 9, 3, 4, 5, 6, 7, 8, 2), [3, 3], { level: 1, row: 0, column: 0 });
    expect([...found]).toEqual([9, 6, 8, 2]);
  });
  test("pooling differences keeps what is farthest from none, either way", () => {
    const found = fields.tiled(Uint8Array.of(128, 100, 140, 129), [2, 2], { level: 1, row: 0, column: 0 }, 128);
    expect([...found]).toEqual([100]);
  });
  test("a tile at the edge is cut out, and is as small as what is left", () => {
    const sizes: [number, number] = [3, TILE + 2];
    const bytes = Uint8Array.from({ length: 3 * (TILE + 2) }, (_, i) => (i % (TILE + 2)) % 251);
    expect([...fields.tiled(bytes, sizes, { level: 0, row: 0, column: 1 })]).toEqual([10, 11, 10, 11, 10, 11]);
  });
  test("a head is halved until a tile of 512 holds it", () => {
    expect([1, 512, 513, 1024, 1025].map((n) => fields.levelsOf([n, 7]))).toEqual([1, 1, 2, 2, 3]);
  });
});

describe("shapes", () => {
  test("neighbours of one number make a word, what is part of none stands alone", () => {
    const groups = fields.groupsOf(pieces, true);
    expect(groups.map((g) => g.label)).toEqual(["green", "apple", "</s>"]);
    expect(groups.map((g) => g.places)).toEqual([[0, 1], [2, 3], [4]]);
    expect(fields.groupsOf(pieces, false)).toHaveLength(5);
  });
  test("words that have names are called by them", () => {
    const named = tokens(["a", "b"], { words: [3, 3], names: ["Ab"] });
    expect(fields.groupsOf(named, true)).toEqual([{ label: "Ab", places: [0, 1] }]);
  });
  test("what a hidden key had goes to the others in proportion", () => {
    close(fields.withoutKeys(row(0.8, 0.15, 0.05), [true, false, false]), [0, 0.75, 0.25]);
  });
  test("a row that read only hidden keys, or nothing, is zero", () => {
    close(fields.withoutKeys(row(1, 0), [true, false]), [0, 0]);
    close(fields.withoutKeys(row(0, 0), [true, false]), [0, 0]);
  });
  test("words are summed over keys and averaged over queries, so rows still sum to one", () => {
    const shape = fields.shapeOf(pieces, pieces, { words: true, hide: [] });
    const rows = [row(0.1, 0.2, 0.3, 0.2, 0.2), row(0.5, 0.1, 0.1, 0.1, 0.2)];
    close(fields.shapedRow(rows, shape), [0.45, 0.35, 0.2]);
  });
  test("special keys are hidden before words are joined", () => {
    const shape = fields.shapeOf(pieces, pieces, { words: true, hide: ["special"] });
    close(fields.shapedRow([row(0.1, 0.1, 0.1, 0.1, 0.6)], shape), [0.5, 0.5, 0]);
    expect(shape.told).toContain("renormalised");
  });
  test("a whole matrix is shaped row by row", () => {
    const axis = tokens(["a", "b", "c"], { words: [0, 0, 1] });
    const shape = fields.shapeOf(axis, axis, { words: true, hide: ["first"] });
    close(fields.shaped(row(0.5, 0.5, 0, 0, 0.5, 0.5, 1, 0, 0), shape), [0.75, 0.25, 0, 0]);
  });
  test("a map as it is has no id, and one over 1,024 stays as it is", () => {
    expect(fields.shapeOf(pieces, pieces, { words: false, hide: [] }).id).toBe("");
    const long = tokens(Array(1025).fill("a"), { words: Array(1025).fill(0), special: [3] });
    expect(fields.shapeOf(long, long, { words: true, hide: ["special", "first"] }).id).toBe("");
  });
});

test("by row, the greatest of each row is one, and an empty row stays empty", () => {
  close(fields.byRow(row(0.2, 0.4, 0, 0), 2), [0.5, 1, 0, 0]);
});
test("a difference of none is byte 128, and signs go either way alike", () => {
  const found = fields.apart(row(0.5, 0.9, 0.1), row(0.5, 0.1, 0.9), 0.8, "linear");
  expect([...found]).toEqual([128, 255, 1]);
  expect([...fields.apart(row(0.2), row(0), 0.8, "sqrt")]).toEqual([128 + 64]);
});
test("a corner is cut out of wider rows", () => {
  close(fields.corner(row(1, 2, 3, 4, 5, 6), 3, [2, 2]), [1, 2, 4, 5]);
});
test("the best keys come greatest first, and in order where they are equal", () => {
  expect(fields.best([0.1, 0.4, 0.4, 0.05], 3)).toEqual([1, 2, 0]);
});
test("Hebrew and Arabic are read from right to left, though they begin with a sign", () => {
  expect(fields.direction(["<s>", "hi"])).toBe("ltr");
  expect(fields.direction(["<s>", "مرحبا", "«you»"])).toBe("rtl");
});
test("a tab or a new line in a token breaks no table", () => {
  expect(fields.tsv([["a\tb", 0.5], ["c\n", 1]])).toBe("a⇥b\t0.5\nc↵\t1");
});
