// One model at work: what it was asked, how far it is, and what came of it.

import { opened, run } from "./server";
import { manyHeaded, type Source } from "./source";
import type { Asked, RunEvent } from "./types";

export class Session {
  source = $state.raw<Source | null>(null);
  error = $state("");
  /** The last that was heard of a run that goes on, or null where none does. */
  heard = $state<RunEvent | null>(null);
  milliseconds = $state(0);
  private stop: AbortController | null = null;

  get running(): boolean {
    return this.heard !== null;
  }

  /** Ask the model; a run that goes on is stopped. What was there stays on the screen until then. */
  async ask(asked: Asked): Promise<void> {
    await this.under(async (signal) => {
      this.heard = { kind: "waiting", ahead: 0 };
      return opened(await run(asked, (event) => {
        // an old run may still speak when a new one has begun
        if (!signal.aborted) this.heard = event;
      }, signal));
    });
  }

  /** Show a trace that the server has. */
  async open(id: string): Promise<void> {
    await this.under(() => opened(id));
  }

  cancel(): void {
    this.stop?.abort();
  }

  private async under(find: (signal: AbortSignal) => Promise<Source>): Promise<void> {
    this.stop?.abort();
    const mine = (this.stop = new AbortController());
    const began = performance.now();
    this.error = "";
    try {
      const source = await find(mine.signal);
      if (mine !== this.stop) return;
      // many heads are seen as a wall first: what it is drawn from comes while the page is made
      const wall = manyHeaded(source.manifest);
      if (wall) source.thumbs(wall.id).catch(() => undefined);
      this.source = source;
      this.milliseconds = performance.now() - began;
    } catch (error) {
      if (mine !== this.stop) return;
      const aborted = error instanceof DOMException && error.name === "AbortError";
      if (!aborted) this.error = error instanceof Error ? error.message : String(error);
    }
    if (mine === this.stop) this.heard = null;
  }
}
