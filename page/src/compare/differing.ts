// What two traces have in common, and where they differ.

import { best } from "../lib/fields";
import { axisOf, labelsOf, type Asked, type Edit, type Manifest, type MapInfo, type Model } from "../lib/types";

export interface Shared {
  /** Rows and columns that exist in both, or why there are none. */
  sizes: [number, number] | null;
  said: string;
}

/** How many labels two lists begin with alike. */
export function alike(a: string[], b: string[]): number {
  const most = Math.min(a.length, b.length);
  for (let i = 0; i < most; i++) if (a[i] !== b[i]) return i;
  return most;
}

/** The rows and columns of two maps that can be put one on the other. */
export function sharedBy(a: Manifest, mapA: MapInfo, b: Manifest, mapB: MapInfo): Shared {
  const [keyA, keyB] = [axisOf(a, mapA.key), axisOf(b, mapB.key)];
  if (keyA.kind !== keyB.kind) return { sizes: null, said: `A looks at ${keyA.kind}, B at ${keyB.kind}.` };
  if (keyA.kind !== "tokens" && keyA.size !== keyB.size)
    return { sizes: null, said: `A looks at ${keyA.size} ${keyA.kind}, B at ${keyB.size}.` };
  const K = keyA.kind === "tokens" ? alike(labelsOf(keyA), labelsOf(keyB)) : keyA.size;
  if (!K) return { sizes: null, said: "A and B look at other tokens: their first keys differ." };
  const [QA, QB] = [mapA.sizes[0], mapB.sizes[0]];
  const said = [
    QA === QB ? "" : `A has ${QA} rows and B has ${QB}: the first ${Math.min(QA, QB)} are compared.`,
    K === keyA.size && K === keyB.size ? "" : `Only the first ${K} key${K === 1 ? " is" : "s are"} the same in both.`,
  ];
  return { sizes: [Math.min(QA, QB), K], said: said.filter(Boolean).join(" ") };
}

export interface Word {
  text: string;
  same: boolean;
}

/** Two texts word by word; what both have in the same order is the same. */
export function wordsApart(a: string, b: string): [Word[], Word[]] {
  const [x, y] = [a, b].map((text) => text.split(/\s+/).filter(Boolean).slice(0, 2000));
  // the length of what x from i and y from j have in common
  const long = Array.from({ length: x.length + 1 }, () => new Uint16Array(y.length + 1));
  for (let i = x.length - 1; i >= 0; i--)
    for (let j = y.length - 1; j >= 0; j--) long[i][j] = x[i] === y[j] ? long[i + 1][j + 1] + 1 : Math.max(long[i + 1][j], long[i][j + 1]);
  const found: [Word[], Word[]] = [[], []];
  let [i, j] = [0, 0];
  while (i < x.length || j < y.length)
    if (i < x.length && j < y.length && x[i] === y[j]) {
      found[0].push({ text: x[i++], same: true });
      found[1].push({ text: y[j++], same: true });
    } else if (j >= y.length || (i < x.length && long[i + 1][j] >= long[i][j + 1])) found[0].push({ text: x[i++], same: false });
    else found[1].push({ text: y[j++], same: false });
  return found;
}

export interface Apart {
  q: number;
  k: number;
  a: number;
  b: number;
}

/** The cells where two matrices of the same columns differ most. */
export function farthest(a: Float32Array, b: Float32Array, columns: number, count: number): Apart[] {
  const by = a.map((weight, i) => Math.abs(weight - b[i]));
  return best(by, count).filter((i) => by[i] > 0).map((i) => ({ q: Math.floor(i / columns), k: i % columns, a: a[i], b: b[i] }));
}

/** What a side is asked: the edits are its own, and options only those its model has. */
export function askedBy(model: Model, input: string, params: Record<string, string>, edits: Edit[]): Asked {
  const options: Asked["options"] = {};
  for (const { name, kind, default: first } of model.input.options) {
    const given = params[`o.${name}`] ?? first;
    if (given !== "") options[name] = kind === "whole" ? Number(given) : given;
  }
  return { model: model.name, input, options, edits };
}

/** The edits with one of a kind in some attentions, in the place of those that were there. */
export function instead(edits: Edit[], at: string[], one: Omit<Edit, "at">, none: boolean): Edit[] {
  const others = edits.filter((edit) => !(edit.do === one.do && at.includes(edit.at)));
  return none ? others : [...others, ...at.map((name): Edit => ({ at: name, ...one }))];
}
