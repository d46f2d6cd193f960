// Vectors of bits as one would type them, and back: `01101001 11110000`, said again so many times
// (`… x 3`), in items of which one is asked about (`… | … ? …`), or with a number each (`…:0.5`).

import type { Input } from "../lib/types";

export interface Bounds {
  least: number;
  most: number;
}

/** How a text is put together; what a form has none of is null. */
export interface Form {
  width: number;
  vectors: Bounds;
  count: Bounds | null;
  items: Bounds | null;
  weights: Bounds | null;
}

export interface Typed {
  /** Bits (n, width); of items, all of their vectors one after the other. */
  vectors: number[][];
  /** How often they are said, where the form has a count. */
  count: number;
  /** Which item is asked about, where there are items. */
  asked: number;
  /** The number behind each vector, where there is one. */
  weights: number[];
}

export function formOf(input: Input): Form {
  const { width = 8, vectors, count = null, items = null, weights = null } = input.form as Partial<Form>;
  return { width, vectors: vectors ?? { least: 1, most: input.most }, count, items, weights };
}

/** How many vectors go together: those of an item, or one. */
export const together = (form: Form): number => (form.items ? form.vectors.most : 1);

/** How many vectors a text may have at least and at most. */
export function room(form: Form): Bounds {
  const { items, vectors } = form;
  return items ? { least: items.least * vectors.most, most: items.most * vectors.most } : vectors;
}

function read(text: string, width: number): number[][] | null {
  const groups = text.replace(/,/g, " ").split(/\s+/).filter(Boolean);
  if (!groups.every((group) => /^[01]+$/.test(group) && group.length % width === 0)) return null;
  const bits = groups.join("");
  return Array.from({ length: bits.length / width }, (_, i) => [...bits.slice(i * width, (i + 1) * width)].map(Number));
}

/** What a text says, or null where it is not of this form. */
export function parsed(text: string, form: Form): Typed | null {
  if (form.items) return items(text, form);
  if (form.weights) return weighted(text, form);
  const found = form.count ? /^([^]*)[x×]\s*([1-9][0-9]*)\s*$/.exec(text) : ["", text, "1"];
  const vectors = found && read(found[1], form.width);
  return vectors?.length ? { vectors, count: Number(found![2]), asked: 0, weights: [] } : null;
}

function items(text: string, form: Form): Typed | null {
  const [shown, query, ...more] = text.split("?");
  if (query === undefined || more.length) return null;
  const each = [...shown.split("|"), query].map((part) => read(part, form.width));
  if (!each.every((item) => item?.length === together(form))) return null;
  const asked = each.pop()!;
  const place = each.findIndex((item) => String(item) === String(asked));
  return place < 0 ? null : { vectors: each.flat() as number[][], count: 1, asked: place, weights: [] };
}

function weighted(text: string, form: Form): Typed | null {
  const pairs = text.replace(/,/g, " ").split(/\s+/).filter(Boolean).map((pair) => pair.split(":"));
  const vectors = pairs.map(([bits]) => read(bits, form.width));
  const weights = pairs.map(([, weight]) => (weight ? Number(weight) : NaN));
  const whole = pairs.every((pair) => pair.length === 2) && vectors.every((vector) => vector?.length === 1);
  if (!pairs.length || !whole || !weights.every(Number.isFinite)) return null;
  return { vectors: vectors.map((vector) => vector![0]), count: 1, asked: 0, weights };
}

/** The text of what was clicked. */
export function written(typed: Typed, form: Form): string {
  const words = typed.vectors.map((vector) => vector.join(""));
  if (form.width === 1) return words.join("");
  if (form.weights) return words.map((word, i) => `${word}:${typed.weights[i]}`).join(" ");
  if (!form.items) return words.join(" ") + (form.count ? ` x ${typed.count}` : "");
  const size = together(form);
  const items = Array.from({ length: words.length / size }, (_, i) => words.slice(i * size, (i + 1) * size).join(" "));
  return `${items.join(" | ")} ? ${items[typed.asked]}`;
}

/** The same with one bit turned. */
export function turned(typed: Typed, vector: number, bit: number): Typed {
  const vectors = typed.vectors.map((bits, i) => (i === vector ? bits.map((b, j) => (j === bit ? 1 - b : b)) : bits));
  return { ...typed, vectors };
}

/** The same with one vector more at the end, or one item; as it is where there is no room. */
export function longer(typed: Typed, form: Form, random: () => number = Math.random): Typed {
  const size = together(form);
  if (typed.vectors.length + size > room(form).most) return typed;
  const more = Array.from({ length: size }, () => drawn(form.width, random));
  const weights = form.weights ? [...typed.weights, weight(form, random)] : [];
  return { ...typed, vectors: [...typed.vectors, ...more], weights };
}

/** The same without a vector, or without the item that it is of. */
export function shorter(typed: Typed, form: Form, vector: number): Typed {
  const size = together(form);
  if (typed.vectors.length - size < room(form).least) return typed;
  const item = Math.floor(vector / size);
  const gone = (_: unknown, i: number) => Math.floor(i / size) !== item;
  const vectors = typed.vectors.filter(gone);
  // the one that is asked about stays; the last has none behind it
  const asked = Math.max(0, Math.min(typed.asked - (item < typed.asked ? 1 : 0), vectors.length / size - 2));
  return { ...typed, vectors, asked, weights: typed.weights.filter(gone) };
}

/** As many vectors, drawn anew. */
export function anew(typed: Typed, form: Form, random: () => number = Math.random): Typed {
  const vectors = typed.vectors.map(() => drawn(form.width, random));
  return { ...typed, vectors, weights: typed.weights.map(() => weight(form, random)) };
}

/** As few vectors as may be, and no bit set. */
export function cleared(typed: Typed, form: Form): Typed {
  const least = Math.max(form.width === 1 ? Math.min(8, room(form).most) : 1, room(form).least);
  const vectors = Array.from({ length: least }, () => new Array<number>(form.width).fill(0));
  return { ...typed, vectors, asked: 0, weights: form.weights ? vectors.map(() => 0) : [] };
}

/** Why the model would refuse it, in a sentence, or "" where it would not. */
export function trouble(typed: Typed, form: Form): string {
  const { least, most } = room(form);
  const size = together(form);
  const n = typed.vectors.length;
  if (n < least || n > most) return `Expected ${least / size} to ${most / size} ${size > 1 ? "items" : "vectors"}, got ${n / size}.`;
  if (!form.items) return "";
  const items = Array.from({ length: n / size }, (_, i) => String(typed.vectors.slice(i * size, (i + 1) * size)));
  if (items.filter((item) => item === items[typed.asked]).length > 1) return "The item that is asked about must come once.";
  return typed.asked >= items.length - 1 ? "The last item has none behind it to ask for." : "";
}

const drawn = (width: number, random: () => number): number[] => Array.from({ length: width }, () => (random() < 0.5 ? 0 : 1));
function weight(form: Form, random: () => number): number {
  const { least, most } = form.weights!;
  return Math.round((least + (most - least) * random()) * 100) / 100;
}
