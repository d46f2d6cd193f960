// All that a tape shows of one trace, fetched at once: bytes of eight maps, and the series.

import { weightOf } from "../../lib/colour";
import { mapOf, type Source } from "../../lib/source";
import { axisOf, labelsOf } from "../../lib/types";
import { whole } from "../../lib/whole";
import { KINDS, jump, mapsOf, used, wrong, type Kind } from "./machine";
import type { Orders } from "./Stages.svelte";

const SERIES = ["inputs", "outputs", "targets", "memory"];
const TOLD = ["strength", "gate", "shift", "sharpness"] as const;
/** More numbers than these of a memory are not fetched. */
const MOST = 2 ** 24;

export interface Tape {
  source: Source;
  labels: string[];
  /** Slots of the memory, and which of them are shown. */
  N: number;
  slots: number[];
  /** Which head of each kind this is, and how many there are. */
  head: Record<Kind, number>;
  heads: Record<Kind, number>;
  bytes: Record<string, Uint8Array>;
  series: Record<string, Float32Array>;
  wrong: [number, number][];
  jump: number;
}

export async function read(source: Source, head: number): Promise<Tape> {
  const { manifest } = source;
  const map = mapOf(manifest, "read");
  const [, N] = map.sizes;
  const labels = labelsOf(axisOf(manifest, map.query));
  const heads = { read: map.heads, write: mapOf(manifest, "write").heads };
  const which = { read: head, write: Math.min(head, heads.write - 1) };
  const bytes: Tape["bytes"] = {};
  const series: Tape["series"] = {};
  const wanted = [...SERIES, ...KINDS.flatMap((kind) => TOLD.map((of) => `${kind}.${of}`))];
  const there = manifest.series.filter((s) => wanted.includes(s.id) && s.axis === map.query && s.columns * labels.length <= MOST);
  await Promise.all([
    ...KINDS.flatMap((kind) => mapsOf(kind).map(async (id) => (bytes[id] = await whole(source, mapOf(manifest, id), 0, which[kind])))),
    ...there.map(async ({ id }) => (series[id] = await source.series(id))),
  ]);
  return {
    source, labels, N, heads, bytes, series,
    slots: used(Object.values(bytes), N),
    head: which,
    wrong: series.outputs && series.targets ? wrong(series.outputs, series.targets, labels) : [],
    jump: jump(bytes["read.gated"], bytes.read, N),
  };
}

/** The row of a series at a step, of one head where it has several. */
export function at(tape: Tape, id: string, step: number, part = 0, parts = 1): Float32Array {
  const values = tape.series[id] ?? new Float32Array(0);
  const size = values.length / tape.labels.length / parts;
  return values.subarray((step * parts + part) * size, (step * parts + part + 1) * size);
}

/** What a head was told at a step. */
export function told(tape: Tape, kind: Kind, step: number): Orders {
  const [strength, gate, shift, sharpness] = TOLD.map((of) => at(tape, `${kind}.${of}`, step, tape.head[kind], tape.heads[kind]));
  return { strength: strength[0], gate: gate[0], shift: [...shift], sharpness: sharpness[0] };
}

/** Weights (N) of a map at a step as bytes tell them, off by less than 0.004. */
export function about(tape: Tape, id: string, step: number): Float32Array {
  return Float32Array.from(tape.bytes[id].subarray(step * tape.N, (step + 1) * tape.N), weightOf);
}

export type Rows = Record<string, Float32Array>;

/** The weights of all stages of both heads at a step, exact. */
export async function exact(tape: Tape, step: number): Promise<Rows> {
  const ids = KINDS.flatMap((kind) => mapsOf(kind).map((id) => ({ id, head: tape.head[kind] })));
  const rows = await Promise.all(ids.map(({ id, head }) => tape.source.row(id, 0, head, step)));
  return Object.fromEntries(ids.map(({ id }, i) => [id, rows[i]]));
}

/** The slot with most weight. */
export const most = (weights: Float32Array): number => weights.indexOf(Math.max(...weights));
