import { expect, test } from "vitest";
import type { Edit, Manifest, MapInfo, Model } from "../lib/types";
import { alike, askedBy, farthest, instead, sharedBy, wordsApart } from "./differing";

const tokens = (...labels: string[]) => ({ id: "k", kind: "tokens", size: labels.length, labels, words: null, special: [], names: null });
const manifest = (key: object) => ({ axes: [key] }) as unknown as Manifest;
const map = (rows: number) => ({ key: "k", sizes: [rows, 3] }) as unknown as MapInfo;

test("maps of one shape are compared whole, without a word", () => {
  const one = manifest(tokens("a", "b", "c"));
  expect(sharedBy(one, map(5), one, map(5))).toEqual({ sizes: [5, 3], said: "" });
});
test("rows that exist in both are compared, and it is said", () => {
  const one = manifest(tokens("a", "b", "c"));
  const found = sharedBy(one, map(5), one, map(7));
  expect(found.sizes).toEqual([5, 3]);
  expect(found.said).toBe("A has 5 rows and B has 7: the first 5 are compared.");
});
test("keys are compared as far as they are the same, and not at all where none is", () => {
  const [a, b, c] = [manifest(tokens("a", "b", "c")), manifest(tokens("a", "x")), manifest(tokens("y"))];
  expect(sharedBy(a, map(5), b, map(5))).toEqual({ sizes: [5, 1], said: "Only the first 1 key is the same in both." });
  expect(sharedBy(a, map(5), c, map(5)).sizes).toBeNull();
  expect(alike(["a", "b"], ["a", "b", "c"])).toBe(2);
});
test("other kinds of keys, or another number of slots, are not compared", () => {
  const [a, b] = [{ id: "k", kind: "slots", size: 128 }, { id: "k", kind: "slots", size: 64 }];
  expect(sharedBy(manifest(a), map(5), manifest(b), map(5)).said).toBe("A looks at 128 slots, B at 64.");
  expect(sharedBy(manifest(a), map(5), manifest(tokens("a")), map(5)).sizes).toBeNull();
});
test("words that differ are found though others were put in before them", () => {
  const [a, b] = wordsApart("Ein Kind isst Brot .", "Ein kleines Kind trinkt .");
  expect(a.filter((word) => !word.same).map((word) => word.text)).toEqual(["isst", "Brot"]);
  expect(b.filter((word) => !word.same).map((word) => word.text)).toEqual(["kleines", "trinkt"]);
  expect(b.map((word) => word.text).join(" ")).toBe("Ein kleines Kind trinkt .");
});
test("the cells farthest apart come first, and equal ones not at all", () => {
  const found = farthest(Float32Array.of(0.5, 0.5, 1, 0), Float32Array.of(0.5, 0.25, 0, 1), 2, 3);
  expect(found.map(({ q, k }) => [q, k])).toEqual([[1, 0], [1, 1], [0, 1]]);
  expect(found[2]).toMatchObject({ a: 0.5, b: 0.25 });
});
test("a side is asked only the options that its model has, whole numbers as numbers", () => {
  const model = { name: "m", input: { options: [{ name: "beam", kind: "whole", default: 1 }, { name: "prefix", kind: "text", default: "" }] } } as unknown as Model;
  expect(askedBy(model, "x", { "o.beam": "5", "o.other": "1" }, [])).toEqual({ model: "m", input: "x", options: { beam: 5 }, edits: [] });
});
test("an edit takes the place of those of its kind in the same attentions", () => {
  const edits: Edit[] = [{ at: "a", do: "heat", temperature: 2 }, { at: "b", do: "heat", temperature: 4 }, { at: "a", do: "score", score: "dot" }];
  expect(instead(edits, ["a"], { do: "heat", temperature: 0.5 }, false)).toEqual([edits[1], edits[2], { at: "a", do: "heat", temperature: 0.5 }]);
  expect(instead(edits, ["a", "b"], { do: "heat" }, true)).toEqual([edits[2]]);
});
