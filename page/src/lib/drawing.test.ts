import { expect, test } from "vitest";
import { cividis, share } from "./colour";
import { escaped, hex, matrixSvg, pixels, type Drawn } from "./drawing";

const drawn = (Q: number, K: number, weights: number[]): Drawn => ({
  title: "a </text><script>",
  about: "made & kept",
  queries: Array.from({ length: Q }, (_, i) => `q${i}`),
  keys: Array.from({ length: K }, (_, i) => `k${i}`),
  weights: Float32Array.from(weights),
  scale: "linear",
});
const breadth = (text: string) => 7 * text.length;
const picture = () => "data:image/png;base64,AAAA";

test("every cell has the colour and the number of its weight", () => {
  const text = matrixSvg(drawn(1, 3, [0, 0.5, 1]), breadth, picture);
  const cells = [...text.matchAll(/fill="(#\w+)"><title>(.*?)<\/title>/g)].map((found) => found.slice(1));
  expect(cells).toEqual([["#00224e", "q0 → k0: 0"], ["#7d7c78", "q0 → k1: 0.5"], ["#fee838", "q0 → k2: 1"]]);
});

test("nothing that a label says becomes an element", () => {
  const given = { ...drawn(1, 1, [1]), queries: ['</title><script>alert("1")</script>'] };
  const text = matrixSvg(given, breadth, picture);
  expect(text).not.toMatch(/<script/);
  expect(escaped('<a href="&">')).toBe("&lt;a href=&quot;&amp;&quot;&gt;");
});

test("cells beyond 4,096 are one picture of a pixel a cell", () => {
  const many = matrixSvg(drawn(64, 65, Array(64 * 65).fill(0.01)), breadth, picture);
  expect(many.match(/<rect/g)!.length).toBe(1 + 48);
  expect(many).toContain('href="data:image/png;base64,AAAA"');
  expect(matrixSvg(drawn(64, 64, Array(4096).fill(0.01)), breadth, picture).match(/<rect/g)!.length).toBe(1 + 48 + 4096);
});

test("the pixels of a picture are those colours", () => {
  expect([...pixels(Float32Array.from([0, 0.25, 1]), "sqrt")]).toEqual([0, 0x22, 0x4e, 255, ...cividis(0.5), 255, 0xfe, 0xe8, 0x38, 255]);
  expect(hex(cividis(share(0.01, 1, "log")))).toBe("#7d7c78");
});
