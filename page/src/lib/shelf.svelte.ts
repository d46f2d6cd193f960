// The models that the server offers, asked for once.

import { about, models } from "./server";
import type { About, Model } from "./types";

class Shelf {
  all = $state.raw<Model[]>([]);
  error = $state("");
  /** The folders of runs that the server could not read. */
  unreadable = $state.raw<About["unreadable"]>({ count: 0, named: [] });
  private asked = false;

  load(): void {
    if (this.asked) return;
    this.asked = true;
    this.error = "";
    about().then(({ unreadable }) => (this.unreadable = unreadable), () => undefined);
    models().then(
      (found) => (this.all = found),
      (error: Error) => {
        this.asked = false;
        this.error = error.message;
      },
    );
  }

  named(name: string): Model | undefined {
    return this.all.find((model) => model.name === name);
  }
}

export const shelf = new Shelf();
