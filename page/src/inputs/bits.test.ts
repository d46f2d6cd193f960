import { describe, expect, it } from "vitest";
import { anew, cleared, longer, parsed, shorter, trouble, turned, written, type Form } from "./bits";

const COPY: Form = { width: 8, vectors: { least: 1, most: 100 }, count: null, items: null, weights: null };
const REPEAT: Form = { ...COPY, vectors: { least: 1, most: 20 }, count: { least: 1, most: 20 } };
const RECALL: Form = { ...COPY, width: 6, vectors: { least: 3, most: 3 }, items: { least: 2, most: 20 } };
const NGRAMS: Form = { ...COPY, width: 1, vectors: { least: 1, most: 500 } };
const SORT: Form = { ...COPY, vectors: { least: 1, most: 20 }, weights: { least: -1, most: 1 } };
const A = "101010 111000 110011";
const B = "000111 010101 111111";
const EACH: [string, Form, string][] = [
  ["copy", COPY, "01101001 11110000"],
  ["repeat copy", REPEAT, "01101001 11110000 x 3"],
  ["recall", RECALL, `${A} | ${B} ? ${A}`],
  ["n-grams", NGRAMS, "0110100110"],
  ["sort", SORT, "01101001:0.5 11110000:-0.2 00111100:0"],
];

describe("a text of bits", () => {
  it.each(EACH)("comes back as it was: %s", (_, form, text) => {
    expect(written(parsed(text, form)!, form)).toBe(text);
  });
  it.each(EACH)("comes back also where it was drawn: %s", (_, form, text) => {
    let state = 7;
    const random = () => (state = (state * 16807) % 2147483647) / 2147483647;
    const typed = longer(anew(parsed(text, form)!, form, random), form, random);
    expect(parsed(written(typed, form), form)).toEqual(typed);
  });
  it("may have commas or nothing between its vectors", () => {
    expect(parsed("01101001,11110000", COPY)).toEqual(parsed("0110100111110000", COPY));
  });
  it.each([
    ["a bit too few", "0110100", COPY],
    ["nothing", " ", COPY],
    ["no count", "01101001", REPEAT],
    ["a count of none", "01101001 x 0", REPEAT],
    ["an item that is not there", `${A} | ${B} ? ${A.replace("1", "0")}`, RECALL],
    ["no question", `${A} | ${B}`, RECALL],
    ["no priority", "01101001 11110000:0.2", SORT],
    ["letters", "0110a001", COPY],
  ])("is none with %s", (_, text, form) => {
    expect(parsed(text as string, form as Form)).toBeNull();
  });
});

describe("vectors", () => {
  it("turn a bit and no other", () => {
    expect(written(turned(parsed("00000000 11111111", COPY)!, 1, 2), COPY)).toBe("00000000 11011111");
  });
  it("go with all of their item", () => {
    const typed = parsed(`${A} | ${B} | ${"000000 000000 000000"} ? ${B}`, RECALL)!;
    expect(written(shorter(typed, RECALL, 1), RECALL)).toBe(`${B} | 000000 000000 000000 ? ${B}`);
  });
  it("never become fewer or more than there may be", () => {
    const two = parsed(`${A} | ${B} ? ${A}`, RECALL)!;
    expect(shorter(two, RECALL, 0)).toBe(two);
    const full = parsed("01".repeat(80), { ...REPEAT, count: null })!;
    expect(longer(full, REPEAT)).toBe(full);
  });
  it("lose their priority together with themselves", () => {
    const typed = parsed("01101001:0.5 11110000:-0.2", SORT)!;
    expect(written(shorter(typed, SORT, 0), SORT)).toBe("11110000:-0.2");
  });
  it("are zeros once they are cleared", () => {
    expect(written(cleared(parsed("01101001 1111 0000", { ...COPY, width: 4 })!, COPY), COPY)).toBe("00000000");
  });
});

describe("what the model would refuse", () => {
  it("is told: the item that is asked about comes twice", () => {
    expect(trouble(parsed(`${A} | ${A} | ${B} ? ${A}`, RECALL)!, RECALL)).toContain("once");
  });
  it("is told: the last item is asked about", () => {
    expect(trouble(parsed(`${A} | ${B} ? ${B}`, RECALL)!, RECALL)).toContain("last");
  });
  it("is nothing where all is well", () => {
    for (const [, form, text] of EACH) expect(trouble(parsed(text, form)!, form)).toBe("");
  });
});
