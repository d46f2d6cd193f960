// A model in words: which family it belongs to, what it takes, how good it is.

import type { Model } from "../lib/types";

export interface Family {
  title: string;
  about: string;
  models: Model[];
}

const FAMILIES: [string, string, (model: Model) => boolean][] = [
  ["Translators", "They write a sentence word by word, and look back at the one they were given.", (m) => m.input.kind === "text"],
  ["Turing machines", "They write to a memory and find it again: by what it says, or by where it is.", (m) => m.input.kind === "bits"],
  ["Pointers", "Their answer is their input: at each step they point at one of its places.", () => true],
];

/** Models by family, each in one; what somebody trained here comes last. */
export function families(models: Model[]): Family[] {
  const rest = models.filter((model) => !model.run);
  const found = FAMILIES.map(([title, about, holds]): Family => {
    const mine = rest.filter(holds);
    for (const model of mine) rest.splice(rest.indexOf(model), 1);
    return { title, about, models: mine };
  });
  found.push({ title: "Your runs", about: "Models that were trained on this machine.", models: models.filter((model) => model.run) });
  return found.filter((family) => family.models.length);
}

/** What a model is, without the number that a list puts behind it: a card has it below. */
export const aboutOf = (model: Model): string => model.about.replace(/, \w+ -?[\d.]+(e-?\d+)?$/, "");

export const TAKES: Record<Model["input"]["kind"], string> = {
  text: "a sentence",
  bits: "bits",
  points: "points",
  numbers: "numbers",
};

const NAMES: Record<string, string> = {
  bleu: "BLEU",
  bleu_lc_tok: "BLEU",
  chrf: "chrF",
  perfect: "without a mistake",
  bits_per_sequence: "bits wrong",
  accuracy: "right",
  length: "length",
};
const SHARES = new Set(["perfect", "accuracy", "coverage"]);

/** The first number of a card that says how good a model is. */
export function firstNumber(numbers: Record<string, unknown>): string {
  for (const [name, value] of Object.entries(numbers)) {
    if (typeof value !== "number" || !Number.isFinite(value)) continue;
    if (SHARES.has(name)) return `${(100 * value).toPrecision(3)} % ${NAMES[name] ?? name}`;
    const told = Math.abs(value) < 0.01 && value !== 0 ? value.toExponential(0) : String(Number(value.toPrecision(3)));
    return `${told} ${NAMES[name] ?? name.replaceAll("_", " ")}`;
  }
  return "";
}

/** Under what the data and the weights are: one word where they agree, nothing where none is known. */
export function licenceOf({ licence }: Model): { name: string; means: string }[] {
  const { data, weights } = licence ?? {};
  if (data && weights && data.name !== weights.name)
    return [{ ...weights, name: `weights: ${weights.name}` }, { ...data, name: `data: ${data.name}` }];
  const one = weights ?? data;
  return one ? [one] : [];
}
