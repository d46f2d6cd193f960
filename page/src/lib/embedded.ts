// A trace without a server: its numbers lie in the page itself, packed, and are unpacked when asked for.

import { TILE, tileSize, type Source, type Tile } from "./source";
import type { Manifest, MapInfo } from "./types";

/** What `regard.view.traces.page_json` writes: the manifest, and each array in gzip and base64. */
export interface Packed {
  manifest: Manifest;
  /** Where one looks first, as an address would say it. */
  place: Record<string, string>;
  arrays: Record<string, { dtype: "f4" | "f2" | "u1"; data: string }>;
}

/** Some numbers out of many, from one index up to another. */
type Part = (from: number, to: number) => Float32Array;

/** A weight as it goes over the wire: round(255 √p) in float32, a half to the even side, as torch has it. */
export function inByte(weight: number): number {
  const root = Math.fround(Math.fround(Math.sqrt(Math.min(1, Math.max(0, weight)))) * 255);
  const low = Math.floor(root);
  return root - low === 0.5 ? low + (low % 2) : Math.round(root);
}

/** Weights (Q, K) as (h, w): every weight counts in one bin, number ⌊i h / Q⌋, and the greatest stays. */
export function pooled(weights: Float32Array, sizes: [number, number], small: [number, number]): Float32Array {
  const [Q, K] = sizes;
  const [h, w] = small;
  const found = new Float32Array(h * w);
  for (let q = 0; q < Q; q++) {
    const at = Math.floor((q * h) / Q) * w;
    for (let k = 0; k < K; k++) {
      const bin = at + Math.floor((k * w) / K);
      const weight = weights[q * K + k];
      if (weight > found[bin]) found[bin] = weight;
    }
  }
  return found;
}

/** One tile of a head (Q, K) that is pooled by 2^level. */
export function tileOf(weights: Float32Array, sizes: [number, number], tile: Tile): Uint8Array {
  const [Q, K] = sizes;
  const by = 2 ** tile.level;
  const [h, w] = tileSize(sizes, tile);
  const [top, left] = [tile.row * TILE * by, tile.column * TILE * by];
  const most = new Float32Array(h * w);
  for (let q = top; q < Math.min(Q, top + h * by); q++) {
    const at = Math.floor((q - top) / by) * w;
    for (let k = left; k < Math.min(K, left + w * by); k++) {
      const bin = at + Math.floor((k - left) / by);
      const weight = weights[q * K + k];
      if (weight > most[bin]) most[bin] = weight;
    }
  }
  return Uint8Array.from(most, inByte);
}

/** The number of sixteen bits: a sign, five of exponent, ten of fraction. */
export function half(bits: number): number {
  const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

export async function unzipped(bytes: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  if (typeof DecompressionStream === "undefined")
    throw new Error("This browser cannot unpack the numbers; one of 2023 or later can.");
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/** The data of a page, or a sentence about what is wrong with it. */
export function packedIn(text: string): Packed {
  let found: Partial<Packed> | null = null;
  try {
    found = JSON.parse(text);
  } catch {
    // said below
  }
  if (!found?.manifest?.maps || !found.arrays) throw new Error("The data of this page is damaged.");
  return { place: {}, ...found } as Packed;
}

/** The data of a cell of a notebook: the same, zipped. */
export async function packedFrom(view: DataView): Promise<Packed> {
  const bytes = new Uint8Array(view.byteLength);
  bytes.set(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
  return packedIn(new TextDecoder().decode(await unzipped(bytes)));
}

const SIZES = { f4: 4, f2: 2, u1: 1 };

export class Embedded implements Source {
  readonly manifest: Manifest;
  private open = new Map<string, Promise<ArrayBuffer>>();
  private halves: Float32Array | null = null;

  constructor(private packed: Packed) {
    this.manifest = packed.manifest;
  }

  private map(id: string): MapInfo {
    const found = this.manifest.maps.find((map) => map.id === id);
    if (!found) throw new Error(`The trace has no map ${id}.`);
    return found;
  }

  private unpacked(name: string, length: number): Promise<ArrayBuffer> {
    const there = this.open.get(name);
    if (there) return there;
    const made = this.unpack(name, length);
    this.open.set(name, made);
    return made;
  }

  private async unpack(name: string, length: number): Promise<ArrayBuffer> {
    const packed = this.packed.arrays[name];
    if (!packed) throw new Error(`The data of this page has no ${name}.`);
    const bytes = await unzipped(fromBase64(packed.data));
    const expected = length * SIZES[packed.dtype];
    if (bytes.byteLength !== expected) throw new Error(`Expected ${expected} bytes of ${name}, got ${bytes.byteLength}.`);
    return bytes;
  }

  /** A way to read some of an array; what is kept in half the bits is made whole as it is read. */
  private async part(name: string, length: number): Promise<Part> {
    const bytes = await this.unpacked(name, length);
    if (this.packed.arrays[name].dtype === "f4") {
      const whole = new Float32Array(bytes);
      return (from, to) => whole.subarray(from, to);
    }
    const bits = new Uint16Array(bytes);
    const table = (this.halves ??= Float32Array.from({ length: 65536 }, (_, i) => half(i)));
    return (from, to) => Float32Array.from(bits.subarray(from, to), (i) => table[i]);
  }

  private async weights(id: string): Promise<Part> {
    const { layers, heads, sizes } = this.map(id);
    return this.part(`maps.${id}`, layers * heads * sizes[0] * sizes[1]);
  }

  private async headOf(id: string, layer: number, head: number): Promise<Float32Array> {
    const { heads, sizes } = this.map(id);
    const length = sizes[0] * sizes[1];
    const from = (layer * heads + head) * length;
    return (await this.weights(id))(from, from + length);
  }

  async thumbs(id: string): Promise<Uint8Array> {
    const { layers, heads, sizes, thumb } = this.map(id);
    const [large, small] = [sizes[0] * sizes[1], thumb[0] * thumb[1]];
    const part = await this.weights(id);
    const found = new Uint8Array(layers * heads * small);
    for (let i = 0; i < layers * heads; i++)
      found.set(Uint8Array.from(pooled(part(i * large, (i + 1) * large), sizes, thumb), inByte), i * small);
    return found;
  }

  async cells(id: string, layer: number, head: number, tile: Tile): Promise<Uint8Array> {
    return tileOf(await this.headOf(id, layer, head), this.map(id).sizes, tile);
  }

  async row(id: string, layer: number, head: number, query: number): Promise<Float32Array> {
    const { heads, sizes } = this.map(id);
    const from = ((layer * heads + head) * sizes[0] + query) * sizes[1];
    return (await this.weights(id))(from, from + sizes[1]);
  }

  async series(id: string): Promise<Float32Array> {
    const found = this.manifest.series.find((series) => series.id === id);
    if (!found) throw new Error(`The trace has no series ${id}.`);
    const length = found.columns * this.manifest.axes.find((axis) => axis.id === found.axis)!.size;
    return (await this.part(`series.${id}`, length))(0, length);
  }

  async image(id: string): Promise<Uint8Array> {
    const grid = this.manifest.axes.find((axis) => axis.id === id);
    if (grid?.kind !== "grid" || !grid.image) throw new Error(`The trace has no image under ${id}.`);
    return new Uint8Array(await this.unpacked(`images.${id}`, grid.image.reduce((a, b) => a * b)));
  }
}
