import { expect, test } from "vitest";
import type { Model } from "../lib/types";
import { aboutOf, families, firstNumber, licenceOf } from "./words";

const model = (name: string, kind: string, run = false) => ({ name, run, input: { kind } }) as Model;

test("every model is in one family, and runs are apart", () => {
  const all = [model("a", "points"), model("b", "text"), model("c", "numbers"), model("d", "text", true)];
  expect(families(all).map(({ title, models }) => [title, models.map((m) => m.name).join("")])).toEqual([
    ["Translators", "b"], ["Pointers", "ac"], ["Your runs", "d"],
  ]);
});
test("the first number is told with its name; what is no number is passed over", () => {
  expect(firstNumber({ signature: "x", bleu: 38.9604 })).toBe("39 BLEU");
  expect(firstNumber({ accuracy: 0.933 })).toBe("93.3 % right");
  expect(firstNumber({ bits_per_sequence: 0.000742 })).toBe("7e-4 bits wrong");
  expect(firstNumber({ my_loss: 1.5, x: {} })).toBe("1.5 my loss");
  expect(firstNumber({})).toBe("");
});
test("what a model is does not end in the number that a card has below", () => {
  expect(aboutOf({ about: "copies bits, and more, bits_per_sequence 7.4e-04" } as Model)).toBe("copies bits, and more");
  expect(aboutOf({ about: "English to German, for captions" } as Model)).toBe("English to German, for captions");
});
test("a licence is told once where data and weights agree, twice where not, and not at all where none is", () => {
  const free = { name: "Apache-2.0", means: "free" };
  const bound = { name: "research", means: "no trade" };
  expect(licenceOf({ licence: { data: free, weights: free } } as Model)).toEqual([free]);
  expect(licenceOf({ licence: { data: bound, weights: free } } as Model).map((each) => each.name)).toEqual(["weights: Apache-2.0", "data: research"]);
  expect(licenceOf({ licence: {} } as Model)).toEqual([]);
  expect(licenceOf({} as Model)).toEqual([]);
});
