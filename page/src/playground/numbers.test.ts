import { expect, test } from "vitest";
import { bytes, counted, fixed, letter, short, whole } from "./numbers";
import { readGiven, rounded, writtenGiven } from "./play.svelte";

test("numbers have so many decimals and a true minus", () => {
  expect(fixed(-1.25, 1)).toBe("−1.3");
  expect(fixed(-0.001)).toBe("0.00");
  expect(fixed(null)).toBe("NaN");
});

test("a number of any size is short", () => {
  expect([0, 0.01234, 1.5, 12.34, 123.4].map(short)).toEqual(["0", "0.012", "1.50", "12.3", "123"]);
  expect(short(1.1e-16)).toBe("1.1 × 10⁻¹⁶");
  expect(short(-2.5e7)).toBe("−2.5 × 10⁷");
});

test("bytes and counts come in units", () => {
  expect([512, 1536, 2 ** 28].map(bytes)).toEqual(["512 bytes", "1.5 KiB", "256 MiB"]);
  expect([12, 4096, 17_179_869_184].map(counted)).toEqual(["12", "4.1 thousand", "17 billion"]);
  expect([whole(67108864), letter(2)]).toEqual(["67,108,864", "C"]);
});

test("what an address says is what was written", () => {
  const given = { query: [0.3, -1], score: "dot", heads: "1", painted: [], width: 64 };
  const params = Object.fromEntries(Object.entries(given).map(([k, v]) => [k, writtenGiven(v)]));
  expect(params.score).toBe("dot");
  expect(readGiven({ ...params, guess: "1" })).toEqual(given);
});

test("numbers are given to three decimals", () => {
  expect(rounded(0.12349)).toBe(0.123);
});
