import { expect, test } from "vitest";
import { Embedded, half, inByte, packedFrom, packedIn, pooled, tileOf, type Packed } from "./embedded";
import type { Manifest } from "./types";

async function gzip(given: BlobPart): Promise<Uint8Array> {
  const stream = new Blob([given]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
const zipped = async (array: ArrayBufferView<ArrayBuffer>) => btoa(String.fromCharCode(...(await gzip(array))));

/** Two heads of two queries and three keys, a series of two columns and an image of two pixels. */
async function packed(): Promise<Packed> {
  const axes = [
    { id: "q", kind: "slots", size: 2 },
    { id: "k", kind: "grid", size: 3, rows: 1, columns: 3, image: [1, 1, 2] },
  ];
  const map = { id: "m", query: "q", key: "k", layers: 1, heads: 2, sizes: [2, 3], thumb: [2, 3], levels: 1, names: [] };
  const weights = new Float32Array([0, 0.25, 0.75, 1, 0, 0, 0.5, 0.5, 0, 0.1, 0.2, 0.7]);
  return {
    manifest: { axes, maps: [map], series: [{ id: "s", axis: "q", columns: 2 }] } as unknown as Manifest,
    place: {},
    arrays: {
      "maps.m": { dtype: "f4", data: await zipped(weights) },
      "series.s": { dtype: "f4", data: await zipped(new Float32Array([1, -2, 3, 4.5])) },
      "images.k": { dtype: "u1", data: await zipped(new Uint8Array([7, 255])) },
    },
  };
}

test("a weight in a byte is 255 times its root, rounded", () => {
  expect([0, 0.25, 0.01, 1, 1.0005, 1e-7].map(inByte)).toEqual([0, 128, 26, 255, 255, 0]);
});

test("a half is rounded to the even side, as torch does", () => {
  // 127.5 and 128.5, and between them what is no half
  expect([0.25, (126.5 / 255) ** 2].map(inByte)).toEqual([128, 126]);
  expect(inByte((127.4 / 255) ** 2)).toBe(127);
});

test("the bins of a thumbnail differ by one in size and keep the greatest", () => {
  const line = Float32Array.from([5, 1, 2, 4, 3]);
  expect([...pooled(line, [1, 5], [1, 2])]).toEqual([5, 4]);
  expect([...pooled(line, [5, 1], [3, 1])]).toEqual([5, 4, 3]);
  expect([...pooled(line, [1, 5], [1, 5])]).toEqual([5, 1, 2, 4, 3]);
});

test("a tile of a higher level keeps the greatest of each square, at the edge too", () => {
  const weights = Float32Array.from([0, 0.01, 0.04, 0.09, 0, 0.16, 1, 0, 0.25]);
  expect([...tileOf(weights, [3, 3], { level: 1, row: 0, column: 0 })]).toEqual([76, 102, 255, 128]);
  expect([...tileOf(weights, [3, 3], { level: 0, row: 0, column: 0 })]).toEqual([0, 26, 51, 76, 0, 102, 255, 0, 128]);
});

test("a tile beyond the first begins where the first ends", () => {
  const weights = new Float32Array(513);
  weights[512] = 1;
  expect([...tileOf(weights, [1, 513], { level: 0, row: 0, column: 1 })]).toEqual([255]);
  expect(tileOf(weights, [1, 513], { level: 1, row: 0, column: 0 }).length).toBe(257);
});

test("sixteen bits are the numbers of IEEE 754", () => {
  expect([0x3c00, 0x3555, 0x0001, 0x8000, 0xc000].map(half)).toEqual([1, 0.333251953125, 2 ** -24, -0, -2]);
});

test("rows, cells, series and images are what was packed", async () => {
  const source = new Embedded(await packed());
  expect([...(await source.row("m", 0, 1, 1))]).toEqual([0.1, 0.2, 0.7].map(Math.fround));
  expect([...(await source.cells("m", 0, 0, { level: 0, row: 0, column: 0 }))]).toEqual([0, 128, 221, 255, 0, 0]);
  expect([...(await source.thumbs("m"))].slice(6, 8)).toEqual([180, 180]);
  expect([...(await source.series("s"))]).toEqual([1, -2, 3, 4.5]);
  expect([...(await source.image("k"))]).toEqual([7, 255]);
});

test("weights in half the bits are read as whole numbers", async () => {
  const data = await packed();
  const bits = Uint16Array.from([0, 0x3400, 0x3a00, 0x3c00, 0, 0, 0x3800, 0x3800, 0, 0x2e66, 0x3266, 0x399a]);
  data.arrays["maps.m"] = { dtype: "f2", data: await zipped(bits) };
  expect([...(await new Embedded(data).row("m", 0, 0, 0))]).toEqual([0, 0.25, 0.75]);
});

test("an array of another length is refused", async () => {
  const data = await packed();
  data.arrays["maps.m"].data = await zipped(new Float32Array(11));
  await expect(new Embedded(data).row("m", 0, 0, 0)).rejects.toThrow("Expected 48 bytes of maps.m, got 44.");
  delete data.arrays["series.s"];
  await expect(new Embedded(data).series("s")).rejects.toThrow("The data of this page has no series.s.");
});

test("data that is none is refused in a sentence", () => {
  for (const text of ["", "null", "[]", '{"manifest": 3}', '{"arrays": {}}'])
    expect(() => packedIn(text)).toThrow("The data of this page is damaged.");
});

test("a notebook hands over the same data zipped", async () => {
  const bytes = await gzip(JSON.stringify(await packed()));
  const found = await packedFrom(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  expect(found).toEqual(await packed());
});
