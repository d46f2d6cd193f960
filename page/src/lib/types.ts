// What passes between the server and the page; docs/page.md has it in words.

export type Axis =
  | {
      id: string;
      kind: "tokens";
      size: number;
      labels: string[];
      words: (number | null)[] | null;
      special: number[];
      names: string[] | null;
    }
  | { id: string; kind: "grid"; size: number; rows: number; columns: number; image: number[] | null }
  | { id: string; kind: "slots"; size: number }
  | { id: string; kind: "points"; size: number; xy: [number, number][] }
  | { id: string; kind: "steps"; size: number; labels: string[] };

export interface Stats {
  entropy: number[][];
  max: number[][];
  sink: number[][];
}

export interface MapInfo {
  id: string;
  query: string;
  key: string;
  layers: number;
  heads: number;
  causal: boolean;
  names: string[];
  sizes: [number, number];
  thumb: [number, number];
  levels: number;
  stats: Stats;
}

export interface SeriesInfo {
  id: string;
  axis: string;
  columns: number;
}

export interface Edit {
  at: string;
  do: "ablate" | "hide" | "score" | "select" | "heat" | "force";
  heads?: number[] | null;
  cells?: [number | null, number][];
  score?: string;
  select?: string;
  temperature?: number;
  query?: number;
  key?: number;
  weight?: number;
}

export interface Asked {
  model: string;
  input: string;
  options: Record<string, string | number>;
  edits: Edit[];
}

export interface Manifest {
  schema: 1;
  id: string;
  title: string;
  model: string;
  family: string;
  dtype: string;
  device: string;
  seed: number | null;
  versions: Record<string, string>;
  notes: string[];
  edits: unknown[];
  outputs: Record<string, unknown>;
  bytes: number;
  seconds: number | null;
  asked: Asked | null;
  python: string;
  axes: Axis[];
  maps: MapInfo[];
  series: SeriesInfo[];
}

export interface Option {
  name: string;
  about: string;
  kind: "whole" | "text" | "choice";
  default: string | number;
  least: number | null;
  most: number | null;
  values: string[];
}

export interface Input {
  kind: "text" | "bits" | "points" | "numbers";
  about: string;
  example: string;
  most: number;
  form: Record<string, unknown>;
  options: Option[];
}

export interface Licence {
  name: string;
  means: string;
}

/** What the server tells of itself, as far as the page shows it. */
export interface About {
  unreadable: { count: number; named: { name: string; why: string }[] };
}

export interface Model {
  name: string;
  about: string;
  recipe: string;
  family: string;
  run: boolean;
  numbers: Record<string, unknown>;
  licence: { data?: Licence; weights?: Licence };
  input: Input;
}

export type RunEvent =
  | { kind: "waiting"; ahead: number }
  | { kind: "progress"; done: number; total: number | null; text: string | null }
  | { kind: "done"; trace: string }
  | { kind: "failed"; error: string }
  | { kind: "cancelled" };

export type Scale = "linear" | "sqrt" | "log";

export function axisOf(manifest: Manifest, id: string): Axis {
  const found = manifest.axes.find((axis) => axis.id === id);
  if (!found) throw new Error(`The trace has no axis ${id}.`);
  return found;
}

/** What each place of an axis is called. */
export function labelsOf(axis: Axis): string[] {
  if (axis.kind === "tokens" || axis.kind === "steps") return axis.labels;
  if (axis.kind === "grid")
    return Array.from({ length: axis.size }, (_, i) => `${Math.floor(i / axis.columns)},${i % axis.columns}`);
  return Array.from({ length: axis.size }, (_, i) => String(i));
}

/** A label as it can be seen: what is blank or a control character has a sign of its own. */
export function visible(label: string): string {
  if (label === "") return "∅";
  return label
    // a space inside a label is seen; at its ends, or alone, it is not
    .replace(/^ +| +$/g, (blanks) => "␣".repeat(blanks.length))
    .replace(/\t/g, "⇥")
    .replace(/\r?\n/g, "↵")
    .replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, "�");
}
