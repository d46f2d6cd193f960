// The models that the server offers, asked for once.

import { models } from "./server";
import type { Model } from "./types";

class Shelf {
  all = $state.raw<Model[]>([]);
  error = $state("");
  private asked = false;

  load(): void {
    if (this.asked) return;
    this.asked = true;
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
