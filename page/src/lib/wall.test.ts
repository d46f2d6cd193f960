import { expect, test } from "vitest";
import type { MapInfo } from "./types";
import { ablated, draw, laidOut, moved, NUMBER, ordered, placeAt } from "./wall";

const stats = { entropy: [[2, 1, 3], [0.5, 4, 0]], max: [[1, 1, 1], [1, 1, 1]], sink: [[0.1, 0.9, 0], [0, 0.2, 0.3]] };
const map: MapInfo = {
  id: "m", query: "a", key: "a", layers: 2, heads: 3, causal: false, names: ["x.0", "x.1"], sizes: [7, 7], thumb: [7, 7], levels: 1, stats,
};
const names = (by: "depth" | "entropy" | "sink") => ordered(map, by).map(({ layer, head }) => `${layer}.${head}`).join(" ");

test("heads are sorted by depth, from the narrowest, or from the deepest sink", () => {
  expect(names("depth")).toBe("0.0 0.1 0.2 1.0 1.1 1.2");
  expect(names("entropy")).toBe("1.2 1.0 0.1 0.0 0.2 1.1");
  expect(names("sink").split(" ").slice(0, 4).join(" ")).toBe("0.1 1.2 1.1 0.0");
});
test("the middle of each head on the wall is that head, and what is beside the wall is none", () => {
  const layout = laidOut(map, "depth", 400);
  for (let i = 0; i < 6; i++) {
    const [x, y] = [(i % 3) * layout.across + layout.left + layout.w / 2, Math.floor(i / 3) * layout.down + layout.top + layout.h / 2];
    expect(placeAt(layout, 6, x, y)).toBe(i);
  }
  expect(placeAt(layout, 6, layout.left - 1, 40)).toBeNull();
  expect(placeAt(layout, 6, layout.left + 3 * layout.across + 1, 40)).toBeNull();
});
test("a wall of twelve heads fits onto a phone", () => {
  const layout = laidOut({ ...map, heads: 12 }, "depth", 340);
  expect(layout.left + 12 * layout.across).toBeLessThanOrEqual(340);
});
test("keys move by a head or a line, and stay on the wall", () => {
  expect([moved("ArrowRight", 2, 3, 6), moved("ArrowDown", 2, 3, 6), moved("ArrowDown", 4, 3, 6), moved("Home", 5, 3, 6), moved("x", 5, 3, 6)]).toEqual([3, 5, 4, 0, null]);
});
test("a head is out where an edit of its own layer names it", () => {
  const edits = [{ at: "x.1", do: "ablate" as const, heads: [2] }];
  expect(ablated(edits, map, { layer: 1, head: 2 })).toBe(true);
  expect(ablated(edits, map, { layer: 0, head: 2 })).toBe(false);
});
test("each head is drawn at its place; what is smaller than a pixel is seen by its greatest byte", () => {
  const small: MapInfo = { ...map, layers: 1, heads: 2, thumb: [4, 4] };
  const layout = { columns: 2, rows: 1, left: 1, top: 2, w: 2, h: 2, across: 4, down: 20 };
  const bytes = Uint8Array.from({ length: 32 }, (_, i) => (i === 5 ? 9 : i === 31 ? 7 : 1));
  const image = { width: 10, pixels: new Uint32Array(10 * 30) };
  draw(bytes, small, ordered(small, "depth"), layout, 1, Uint32Array.from({ length: 256 }, (_, i) => 100 + i), image);
  const at = (x: number, y: number) => image.pixels[(2 + NUMBER + y) * 10 + x];
  expect([at(1, 0), at(2, 0), at(5, 0), at(6, 1), at(0, 0), at(3, 0)]).toEqual([109, 101, 101, 107, 0, 0]);
});
