// What the page asks of its own server, and of nobody else.

import { access } from "./access.svelte";
import { Kept, tileSize, type Source, type Tile } from "./source";
import type { About, Asked, Manifest, MapInfo, Model, RunEvent } from "./types";

/** Ask, and give the answer, or throw the sentence that the server said. */
export async function ask(
  path: string,
  how: RequestInit & { headers?: Record<string, string> } = {},
): Promise<Response> {
  const known = await access.header();
  let answer: Response;
  try {
    answer = await fetch(path, { ...how, credentials: "omit", headers: { ...how.headers, ...known } });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is `regard serve` still running?");
  }
  if (answer.ok) return answer;
  if (answer.status === 401) access.lost(known);
  const told = await answer.json().catch(() => null);
  throw new Error(told?.error ?? `The server answered ${answer.status}.`);
}

export async function json<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  if (body === undefined) return (await ask(path, { signal })).json();
  const headers = { "Content-Type": "application/json" };
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(body), signal })).json();
}

async function bytes(path: string, length: number): Promise<ArrayBuffer> {
  const body = await (await ask(path)).arrayBuffer();
  if (body.byteLength !== length)
    throw new Error(`Expected ${length} bytes of ${path}, got ${body.byteLength}.`);
  return body;
}

export const about = (): Promise<About> => json("/api/about");

export const models = (): Promise<Model[]> => json("/api/models");

/** A trace that the server holds. */
export async function opened(id: string): Promise<Source> {
  return new Served(await json<Manifest>(`/api/traces/${encodeURIComponent(id)}`));
}

/** Put a trace file onto the server, and give its id. */
export async function put(file: Blob): Promise<string> {
  return (await (await ask("/api/traces", { method: "POST", body: file })).json()).id;
}

class Served implements Source {
  private kept = new Kept();

  constructor(readonly manifest: Manifest) {}

  private at(path: string): string {
    return `/api/traces/${encodeURIComponent(this.manifest.id)}/${path}`;
  }

  private map(id: string): MapInfo {
    return this.manifest.maps.find((map) => map.id === id)!;
  }

  private u8(path: string, length: number): Promise<Uint8Array> {
    return this.kept.get(path, async () => new Uint8Array(await bytes(this.at(path), length)));
  }

  private f32(path: string, length: number): Promise<Float32Array> {
    return this.kept.get(path, async () => new Float32Array(await bytes(this.at(path), 4 * length)));
  }

  thumbs(map: string): Promise<Uint8Array> {
    const { layers, heads, thumb } = this.map(map);
    return this.u8(`thumbs/${map}`, layers * heads * thumb[0] * thumb[1]);
  }

  cells(map: string, layer: number, head: number, tile: Tile): Promise<Uint8Array> {
    const [h, w] = tileSize(this.map(map).sizes, tile);
    const { level, row, column } = tile;
    return this.u8(`cells/${map}/${layer}/${head}?level=${level}&row=${row}&column=${column}`, h * w);
  }

  row(map: string, layer: number, head: number, query: number): Promise<Float32Array> {
    return this.f32(`rows/${map}/${layer}/${head}/${query}`, this.map(map).sizes[1]);
  }

  series(id: string): Promise<Float32Array> {
    const { axis, columns } = this.manifest.series.find((series) => series.id === id)!;
    const { size } = this.manifest.axes.find((each) => each.id === axis)!;
    return this.f32(`series/${id}`, size * columns);
  }

  image(axis: string): Promise<Uint8Array> {
    const grid = this.manifest.axes.find((each) => each.id === axis)!;
    const sizes = grid.kind === "grid" && grid.image ? grid.image : [0];
    return this.u8(`images/${axis}`, sizes.reduce((a, b) => a * b));
  }

  async exported(kind: string, how: Record<string, string>, signal: AbortSignal): Promise<Blob> {
    return (await ask(this.at(`export/${kind}?${new URLSearchParams(how)}`), { signal })).blob();
  }

  async lay(axis: string, picture: Blob): Promise<string> {
    return (await (await ask(this.at(`images/${axis}`), { method: "POST", body: picture })).json()).id;
  }
}

/** Run a model; `hear` gets what happens meanwhile. Gives the id of the trace. */
export async function run(
  asked: Asked,
  hear: (event: RunEvent) => void,
  signal: AbortSignal,
): Promise<string> {
  const { id } = await json<{ id: string }>("/api/runs", asked);
  let stop = (): void => undefined;
  const stopped = new Promise<never>((_, fail) => {
    stop = () => {
      // the server ends what it tells of the run, so nothing else has to be broken off
      ask(`/api/runs/${id}`, { method: "DELETE" }).catch(() => undefined);
      fail(new DOMException("cancelled", "AbortError"));
    };
  });
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop);
  try {
    const last = await Promise.race([events(`/api/runs/${id}/events`, hear), stopped]);
    if (last?.kind === "done") return last.trace;
    if (last?.kind === "failed") throw new Error(last.error);
    if (last?.kind === "cancelled") throw new DOMException("cancelled", "AbortError");
    throw new Error("The run ended without an answer.");
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** Hear all events, and give the last. (Chromium takes a streamed body of `fetch` that was read to
 *  its end for a request that failed; of an XMLHttpRequest it does not.) */
async function events(path: string, hear: (event: RunEvent) => void): Promise<RunEvent | undefined> {
  const known = Object.entries(await access.header());
  return new Promise((done, fail) => {
    const asking = new XMLHttpRequest();
    let read = 0;
    let last: RunEvent | undefined;
    const more = () => {
      const end = asking.responseText.lastIndexOf("\n\n");
      if (end < read) return;
      for (const line of asking.responseText.slice(read, end).split("\n"))
        if (line.startsWith("data:")) hear((last = JSON.parse(line.slice(5)) as RunEvent));
      read = end + 2;
    };
    asking.onprogress = more;
    asking.onload = () => {
      more();
      done(last);
    };
    asking.onerror = () => fail(new Error("The server does not answer. Is `regard serve` still running?"));
    asking.open("GET", path);
    for (const [name, value] of known) asking.setRequestHeader(name, value);
    asking.send();
  });
}
