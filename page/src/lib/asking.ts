// What an address asks of a model: its input, options and edits.

import type { Route } from "./route.svelte";
import type { Asked, Edit, Model } from "./types";

/** The edits of an address; one that somebody mangled has none. */
export function editsOf(route: Route, name = "edits"): Edit[] {
  try {
    const found = JSON.parse(route.params[name] ?? "[]");
    return Array.isArray(found) ? found.filter((e) => typeof e?.at === "string" && typeof e?.do === "string") : [];
  } catch {
    return [];
  }
}

export function askedOf(route: Route, model: Model): Asked {
  const options: Asked["options"] = {};
  for (const { name, kind } of model.input.options) {
    const given = route.params[`o.${name}`];
    if (given !== undefined) options[name] = kind === "whole" ? Number(given) : given;
    else if (model.input.options.find((o) => o.name === name)!.default !== "")
      options[name] = model.input.options.find((o) => o.name === name)!.default;
  }
  return { model: model.name, input: route.params.input ?? model.input.example, options, edits: editsOf(route) };
}

/** An edit in a few words. */
export function told(edit: Edit): string {
  const heads = edit.heads?.length ? ` in head ${edit.heads.join(", ")}` : "";
  if (edit.do === "ablate") return `ablate head ${edit.heads?.join(", ")}`;
  if (edit.do === "hide") return `hide ${edit.cells?.length} cell${edit.cells?.length === 1 ? "" : "s"}${heads}`;
  if (edit.do === "score") return `score by ${edit.score}`;
  if (edit.do === "select") return `select by ${edit.select}`;
  if (edit.do === "heat") return `temperature ${edit.temperature}`;
  return `force query ${edit.query} onto key ${edit.key} with ${edit.weight}${heads}`;
}
