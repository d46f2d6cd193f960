// Where the page begins: in its own window, in a file that was saved, or in a cell of a notebook.

import { mount, unmount } from "svelte";
import "./app.css";
import App from "./App.svelte";
import Shown from "./Shown.svelte";
import { access } from "./lib/access.svelte";
import { Embedded, packedFrom, packedIn, type Packed } from "./lib/embedded";

function shown(target: HTMLElement, packed: Packed, inside: boolean): Record<string, unknown> {
  return mount(Shown, { target, props: { source: new Embedded(packed), first: packed.place, inside } });
}

/** A sentence instead of what cannot be shown. */
function sorry(target: HTMLElement, error: unknown): void {
  const told = document.createElement("p");
  told.setAttribute("role", "alert");
  told.textContent = error instanceof Error ? error.message : String(error);
  target.append(told);
}

const served = document.getElementById("regard");
const saved = document.getElementById("regard-data");
if (served) {
  access.begin();
  mount(App, { target: served });
}
if (saved) {
  const target = document.getElementById("regard-shown") ?? document.body;
  try {
    shown(target, packedIn(saved.textContent ?? ""), false);
  } catch (error) {
    sorry(target, error);
  }
}

interface Cell {
  model: { get(name: "data"): DataView };
  el: HTMLElement;
}

/** What anywidget calls for a cell of a notebook. */
export default {
  async render({ model, el }: Cell): Promise<() => void> {
    try {
      const app = shown(el, await packedFrom(model.get("data")), true);
      return () => void unmount(app);
    } catch (error) {
      sorry(el, error);
      return () => undefined;
    }
  },
};
