// Where in a trace one looks: map, layer, head, query, key, step and scale, all of it in the address.

import { shapedRow, shapeOf, type Shape } from "./fields";
import type { Place } from "./route.svelte";
import { mapOf, type Source } from "./source";
import { axisOf, labelsOf, type MapInfo, type Scale } from "./types";

export interface Readout {
  q: number;
  k: number;
  weight: number | null;
}

export interface Cell {
  q: number;
  k: number;
}

const SIDED = new Set(["map", "layer", "head"]);

export class Spot {
  /** What the mouse or the keys stand on; it is read out, but not in the address. */
  hover = $state<Cell | null>(null);
  /** The row of the cell that is read out, as it is shown, once it has come. */
  row = $state.raw<{ of: string; weights: Float32Array } | null>(null);
  // what is made of the address is made once, so that whoever follows it sees when nothing changed
  private made: { of: string; shape: Shape } | null = null;
  private labels = new Map<string, string[]>();

  /** @param side what the address writes behind map, layer and head that are of this trace alone */
  constructor(
    private place: Place,
    readonly source: Source,
    private side = "",
  ) {}

  get manifest() {
    return this.source.manifest;
  }
  get map(): MapInfo {
    return mapOf(this.manifest, this.place.text(this.own("map")));
  }
  get layer(): number {
    return this.place.index(this.own("layer"), this.map.layers);
  }
  get head(): number {
    return this.place.index(this.own("head"), this.map.heads);
  }
  get scale(): Scale {
    const given = this.place.text("scale", "sqrt");
    return given === "linear" || given === "log" ? given : "sqrt";
  }
  /** The step of a scrubber, or null where none was chosen. */
  get step(): number | null {
    const given = this.place.text("step");
    return given === "" ? null : Number(given);
  }
  /** The cell that was chosen to stay. */
  get pin(): Cell | null {
    return this.pinned("pin");
  }
  /** The one that was chosen beside it, to put two rows side by side. */
  get second(): Cell | null {
    return this.pinned("second");
  }
  /** What is read out now: the cell under the mouse, or else the one that was pinned. */
  get cell(): Cell | null {
    return this.hover ?? this.pin;
  }
  get queries(): string[] {
    return this.labelled(this.map.query);
  }
  get keys(): string[] {
    return this.labelled(this.map.key);
  }
  /** How the map is shown: words whole, keys hidden (`words`, `hide` of the address), or as it is. */
  get shape(): Shape {
    const { manifest, map, place } = this;
    const [words, hide] = [place.text("words") === "1", place.text("hide")];
    const of = `${map.id}/${words}/${hide}`;
    if (this.made?.of !== of)
      this.made = { of, shape: shapeOf(axisOf(manifest, map.query), axisOf(manifest, map.key), { words, hide: hide.split(" ") }) };
    return this.made.shape;
  }
  /** The attention in Python's words, where it can be edited. */
  get name(): string | null {
    return this.map.names[this.layer] ?? null;
  }

  /** Change what the address says; `quiet` leaves no way back. */
  set(change: Record<string, string | number | undefined>, quiet = true): void {
    const mine = Object.entries(change).map(([name, value]) => [this.side && SIDED.has(name) ? name + this.side : name, value]);
    this.place.set(Object.fromEntries(mine), quiet);
  }
  choose(map: string): void {
    this.hover = null;
    this.set({ map, layer: undefined, head: undefined, pin: undefined, second: undefined });
  }
  turn(name: "layer" | "head", by: number): void {
    const size = name === "layer" ? this.map.layers : this.map.heads;
    this.set({ [name]: (this[name] + by + size) % size });
  }

  /** What else the address says. */
  text(name: string): string {
    return this.place.text(name);
  }
  /** The cell of what is shown that a cell of the map is part of. */
  shown(cell: Cell): Cell {
    const { queries, keys } = this.shape;
    const holds = (place: number) => (group: { places: number[] }) => group.places.includes(place);
    return this.shape.id ? { q: queries.findIndex(holds(cell.q)), k: keys.findIndex(holds(cell.k)) } : cell;
  }
  /** The other way round: the first cell of the map that a cell of what is shown holds. */
  within({ q, k }: Cell): Cell {
    return { q: this.shape.queries[q].places[0], k: this.shape.keys[k].places[0] };
  }

  /** The exact row of a query of what is shown. */
  async rowOf(q: number): Promise<Float32Array> {
    const { map, layer, head, shape, source } = this;
    const rows = shape.queries[q].places.map((place) => source.row(map.id, layer, head, place));
    return shapedRow(await Promise.all(rows), shape);
  }

  /** Fetch the exact row of the cell that is read out; a late answer to an old question is dropped. */
  async read(): Promise<void> {
    const of = this.asked;
    if (!of || this.row?.of === of) return;
    const weights = await this.rowOf(this.shown(this.cell!).q);
    if (this.asked === of) this.row = { of, weights };
  }

  /** The exact row that is read out, as it is shown, or null until it has come. */
  get weights(): Float32Array | null {
    return this.row && this.row.of === this.asked ? this.row.weights : null;
  }

  /** The exact weight that is read out, or null until it has come. */
  get weight(): number | null {
    return this.cell && this.weights ? this.weights[this.shown(this.cell).k] : null;
  }

  private labelled(axis: string): string[] {
    const there = this.labels.get(axis) ?? labelsOf(axisOf(this.manifest, axis));
    this.labels.set(axis, there);
    return there;
  }
  /** A side that has nothing of its own in the address follows the other. */
  private own(name: string): string {
    return this.side && this.place.text(name + this.side) ? name + this.side : name;
  }
  private pinned(name: string): Cell | null {
    const [q, k] = this.place.text(name).split(".").map(Number);
    const [Q, K] = this.map.sizes;
    return q >= 0 && k >= 0 && q < Q && k < K ? { q, k } : null;
  }
  private get asked(): string {
    const { cell, map, layer, head, shape } = this;
    return cell ? `${map.id}/${layer}/${head}/${shape.id}/${this.shown(cell).q}` : "";
  }
}
