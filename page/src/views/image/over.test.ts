import { expect, test } from "vitest";
import type { Manifest, MapInfo } from "../../lib/types";
import { fitted, gridOf, moved, pixelsOf, veilOf, type Grid } from "./over";

const grid: Grid = { id: "image", kind: "grid", size: 6, rows: 2, columns: 3, image: [3, 20, 30] };

test("channels that come first become the pixels of a canvas", () => {
  expect([...pixelsOf(Uint8Array.from([1, 2, 11, 12, 21, 22]), [3, 1, 2])]).toEqual([1, 11, 21, 255, 2, 12, 22, 255]);
  expect([...pixelsOf(Uint8Array.from([1, 2]), [1, 2, 1])]).toEqual([1, 1, 1, 255, 2, 2, 2, 255]);
});

test("light is full where the greatest weight is, and dim where none is", () => {
  const veil = veilOf(Float32Array.from([0, 0.25, 0.5]), 0.5, "linear", "light", false);
  expect([...veil]).toEqual([0, 0, 0, 215, 0, 0, 0, 108, 0, 0, 0, 0]);
});

test("colours are those of the matrix, and cover all where there is no image", () => {
  const weights = Float32Array.from([0, 1]);
  expect([...veilOf(weights, 1, "linear", "colour", false)]).toEqual([0, 0x22, 0x4e, 150, 0xfe, 0xe8, 0x38, 150]);
  expect([...veilOf(weights, 1, "sqrt", "light", true)]).toEqual([0, 0x22, 0x4e, 255, 0xfe, 0xe8, 0x38, 255]);
});

test("an image keeps its shape in the room it has", () => {
  expect(fitted(grid, 300, 1000)).toEqual([300, 200]);
  expect(fitted(grid, 300, 100)).toEqual([150, 100]);
  expect(fitted({ ...grid, image: null }, 90, 90)).toEqual([90, 60]);
});

test("the keys move by rows and columns and stay inside", () => {
  expect([moved(grid, 0, 1, 0), moved(grid, 3, 0, 2), moved(grid, 5, 1, 1), moved(grid, 0, -1, -1)]).toEqual([3, 5, 5, 0]);
});

test("a map is over an image where its keys are a grid", () => {
  const manifest = { axes: [grid, { id: "words", kind: "steps", size: 1, labels: ["a"] }] } as unknown as Manifest;
  expect(gridOf(manifest, { key: "image" } as MapInfo)).toBe(grid);
  expect(gridOf(manifest, { key: "words" } as MapInfo)).toBeNull();
});
