// A whole head in bytes, put together from its tiles: for views that need every weight at once.

import { TILE, tileSize, type Source } from "./source";
import type { MapInfo } from "./types";

/** So many weights may a view hold at once. */
export const MOST = 2 ** 23;

export const small = (map: MapInfo): boolean => map.sizes[0] * map.sizes[1] <= MOST;

/** u8 (Q, K), the roots of all weights of a head. */
export async function whole(source: Source, map: MapInfo, layer: number, head: number): Promise<Uint8Array> {
  const [Q, K] = map.sizes;
  const found = new Uint8Array(Q * K);
  const tiles = [];
  for (let row = 0; row * TILE < Q; row++)
    for (let column = 0; column * TILE < K; column++) tiles.push({ level: 0, row, column });
  await Promise.all(
    tiles.map(async (tile) => {
      const bytes = await source.cells(map.id, layer, head, tile);
      const [h, w] = tileSize(map.sizes, tile);
      for (let y = 0; y < h; y++)
        found.set(bytes.subarray(y * w, (y + 1) * w), (tile.row * TILE + y) * K + tile.column * TILE);
    }),
  );
  return found;
}
