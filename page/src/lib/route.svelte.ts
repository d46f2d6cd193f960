// The address is the state: whatever is on the screen stands behind the #, so a link restores it.

import { getContext, setContext } from "svelte";

export interface Route {
  screen: string;
  names: string[];
  params: Record<string, string>;
}

export function parsed(hash: string): Route {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [screen, ...names] = path.split("/").map(decodeURIComponent);
  return { screen, names, params: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

export function written(route: Route): string {
  const path = [route.screen, ...route.names].map(encodeURIComponent).join("/");
  const query = new URLSearchParams(route.params).toString();
  return `#/${path}${query ? `?${query}` : ""}`;
}

/** Where one is; `bound` to the address, unless it is not ours: in a notebook, in a saved file. */
export class Place {
  now = $state<Route>({ screen: "", names: [], params: {} });

  constructor(private bound: boolean) {
    if (!bound) return;
    this.now = parsed(location.hash);
    const follow = () => (this.now = parsed(location.hash));
    addEventListener("hashchange", follow);
    addEventListener("popstate", follow);
  }

  /** Go somewhere else; Back comes back from there. */
  go(screen: string, names: string[] = [], params: Record<string, string> = {}): void {
    this.write({ screen, names, params }, false);
  }

  /** Change some of what the address says, undefined to take it away; `quiet` leaves no way back. */
  set(change: Record<string, string | number | undefined>, quiet = true): void {
    const params = { ...this.now.params };
    for (const [name, value] of Object.entries(change))
      if (value === undefined || value === "") delete params[name];
      else params[name] = String(value);
    this.write({ ...this.now, params }, quiet);
  }

  text(name: string, otherwise = ""): string {
    return this.now.params[name] ?? otherwise;
  }

  /** A whole number from 0 to below `size`; what is not there is the nearest that is. */
  index(name: string, size: number, otherwise = 0): number {
    const value = Number(this.now.params[name] ?? otherwise);
    return Number.isFinite(value) ? Math.max(0, Math.min(size - 1, Math.round(value))) : otherwise;
  }

  private write(route: Route, quiet: boolean): void {
    const hash = written(route);
    if (this.bound && hash !== location.hash) {
      if (quiet) history.replaceState(null, "", hash);
      else history.pushState(null, "", hash);
    }
    this.now = route;
  }
}

const KEY = Symbol("place");
export const givePlace = (place: Place): Place => setContext(KEY, place);
export const thePlace = (): Place => getContext(KEY);
