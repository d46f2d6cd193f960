// Every view, and of which traces it is one. To add one: a Svelte file here, and a line below.

import type { Component } from "svelte";
import type { Spot } from "../lib/spot.svelte";
import type { Edit, Manifest } from "../lib/types";
import { RIBBONS } from "../lib/curves";
import { LARGEST } from "../lib/fields";
import Arcs from "./Arcs.svelte";
import Heads from "./Heads.svelte";
import Ribbons from "./Ribbons.svelte";
import Wall from "./Wall.svelte";
import Image from "./Image.svelte";
import { gridOf } from "./image/over";
import Plane from "./Plane.svelte";
import Tape from "./Tape.svelte";
import { pointing } from "./plane/pointing";
import { isMachine } from "./tape/machine";
import { mapOf } from "../lib/source";
import { small } from "../lib/whole";

export interface ViewProps {
  spot: Spot;
  /** The edits that were made of what is shown. */
  edits: Edit[];
  /** Make one more; undefined where the trace comes from no model that runs here. */
  edit?: (edit: Edit) => void;
  /** Change an option of the run, such as the prefix; undefined as above. */
  option?: (name: string, value: string | number | undefined) => void;
}

export interface View {
  id: string;
  title: string;
  /** Whether a trace can be seen so. The first that fits is shown first. */
  fits(manifest: Manifest): boolean;
  component: Component<ViewProps>;
}

const tokens = (m: Manifest, most: number): boolean =>
  m.maps.some((map) => Math.max(...map.sizes) <= most && [map.query, map.key].every((id) => m.axes.find((axis) => axis.id === id)?.kind === "tokens"));

export const VIEWS: View[] = [
  { id: "tape", title: "Tape", fits: (m) => isMachine(m) && small(mapOf(m, "read")), component: Tape },
  { id: "plane", title: "Plane", fits: (m) => { const found = pointing(m); return !!found && small(found.map); }, component: Plane },
  { id: "image", title: "Image", fits: (m) => m.maps.some((map) => gridOf(m, map)), component: Image },
  { id: "wall", title: "Heads", fits: (m) => m.maps.some((map) => map.layers * map.heads > 1), component: Wall },
  { id: "heads", title: "Matrix", fits: (m) => m.maps.length > 0, component: Heads },
  { id: "ribbons", title: "Ribbons", fits: (m) => tokens(m, RIBBONS), component: Ribbons },
  { id: "arcs", title: "Arcs", fits: (m) => tokens(m, LARGEST), component: Arcs },
];

export const viewsOf = (manifest: Manifest): View[] => VIEWS.filter((view) => view.fits(manifest));
