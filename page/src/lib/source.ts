// Where the numbers of a trace come from: the server, or the file that the page was saved as.

import type { Manifest, MapInfo } from "./types";

export interface Tile {
  level: number;
  row: number;
  column: number;
}

/** The side of a tile, in cells of its level. */
export const TILE = 512;

export interface Source {
  manifest: Manifest;
  /** u8 (layers, heads, h, w), √ of the weights. */
  thumbs(map: string): Promise<Uint8Array>;
  /** u8, at most 512 × 512, √ of the weights. */
  cells(map: string, layer: number, head: number, tile: Tile): Promise<Uint8Array>;
  /** The exact weights of one query. */
  row(map: string, layer: number, head: number, query: number): Promise<Float32Array>;
  /** (n, columns) along its axis. */
  series(id: string): Promise<Float32Array>;
  /** u8 (C, Y, X). */
  image(axis: string): Promise<Uint8Array>;
  /** A file of this kind; without a server, only the browser can make one. */
  exported?(kind: string, how: Record<string, string>, signal: AbortSignal): Promise<Blob>;
  /** Lay a picture under a grid, and give the id of the new trace; only a server can. */
  lay?(axis: string, picture: Blob): Promise<string>;
}

export function mapOf(manifest: Manifest, id: string | undefined): MapInfo {
  return manifest.maps.find((map) => map.id === id) ?? manifest.maps[0];
}

/** The first map that has more than one head, in one layer or in several. */
export const manyHeaded = (manifest: Manifest): MapInfo | undefined => manifest.maps.find((map) => map.layers * map.heads > 1);

/** Rows and columns of a tile, which are fewer at the edges. */
export function tileSize(sizes: [number, number], tile: Tile): [number, number] {
  const [q, k] = sizes.map((n) => Math.ceil(n / 2 ** tile.level));
  return [Math.min(TILE, q - tile.row * TILE), Math.min(TILE, k - tile.column * TILE)];
}

/** What was asked for already is given again, up to so many bytes; what was used last stays. */
export class Kept {
  private held = new Map<string, Promise<ArrayBufferView>>();
  private sizes = new Map<string, number>();
  private total = 0;

  constructor(private most = 96 * 2 ** 20) {}

  get<T extends ArrayBufferView>(name: string, make: () => Promise<T>): Promise<T> {
    const there = this.held.get(name);
    if (there) {
      this.held.delete(name);
      this.held.set(name, there);
      return there as Promise<T>;
    }
    const made = make();
    this.held.set(name, made);
    made.then(
      (array) => this.weigh(name, array.byteLength),
      () => this.held.delete(name),
    );
    return made;
  }

  private weigh(name: string, bytes: number): void {
    if (!this.held.has(name)) return;
    this.sizes.set(name, bytes);
    this.total += bytes;
    for (const old of this.held.keys()) {
      if (this.total <= this.most || old === name) return;
      this.total -= this.sizes.get(old) ?? 0;
      this.sizes.delete(old);
      this.held.delete(old);
    }
  }
}
