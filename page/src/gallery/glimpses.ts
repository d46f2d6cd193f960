// Glimpses of models at work: each is run on its example when its card is seen, strictly one after
// the other, and kept as long as the page is open.

import { askedOf } from "../lib/asking";
import { opened, run } from "../lib/server";
import type { Model } from "../lib/types";
import { glimpseOf, type Glimpse } from "./glimpse";

const known = new Map<string, Promise<Glimpse>>();
let last: Promise<unknown> = Promise.resolve();
let stop = new AbortController();

/** What a model attends to on its example. */
export function glimpse(model: Model): Promise<Glimpse> {
  const there = known.get(model.name);
  if (there) return there;
  const { signal } = stop;
  const asked = askedOf({ screen: "", names: [], params: {} }, model);
  const found = last.then(async () => {
    signal.throwIfAborted();
    return glimpseOf(await opened(await run(asked, () => undefined, signal)));
  });
  known.set(model.name, found);
  found.catch(() => known.delete(model.name));
  last = found.catch(() => undefined);
  return found;
}

/** Nobody looks any more: what runs is stopped, what waits is forgotten. */
export function leave(): void {
  stop.abort();
  stop = new AbortController();
}
