// What the browser can save by itself, without a server: a picture of what is shown, and its numbers.

import { escaped, matrixSvg, pixels, type Drawn } from "./drawing";
import type { Spot } from "./spot.svelte";

interface Head {
  queries: string[];
  keys: string[];
  weights: Float32Array;
}

/** The head as it is shown, words whole or keys hidden, and its exact weights (Q, K). */
async function headOf(spot: Spot): Promise<Head> {
  const [queries, keys] = [spot.shape.queries, spot.shape.keys].map((groups) => groups.map((group) => group.label));
  const rows = await Promise.all(queries.map((_, q) => spot.rowOf(q)));
  const weights = new Float32Array(queries.length * keys.length);
  rows.forEach((row, q) => weights.set(row, q * keys.length));
  return { queries, keys, weights };
}

/** Where a trace comes from, in a line. */
export function origin(spot: Spot): string {
  const { model, seed, dtype, versions } = spot.manifest;
  const facts = [model, dtype, seed === null ? "" : `seed ${seed}`, ...Object.entries(versions).map((pair) => pair.join(" "))];
  return facts.filter(Boolean).join(" · ");
}

const placeOf = (spot: Spot): string => {
  const { map, layer, head } = spot;
  return [map.id, map.layers > 1 ? `layer ${layer}` : "", map.heads > 1 ? `head ${head}` : ""].filter(Boolean).join(" · ");
};

/** The numbers of the head that is shown, exact, and what its rows and columns are. */
export async function numbers(spot: Spot): Promise<string> {
  const { manifest, map, layer, head } = spot;
  const { queries, keys, weights } = await headOf(spot);
  const { title, model, seed, versions, outputs } = manifest;
  const rows = queries.map((_, q) => Array.from(weights.subarray(q * keys.length, (q + 1) * keys.length)));
  return JSON.stringify({ title, model, seed, versions, map: map.id, layer, head, queries, keys, weights: rows, outputs });
}

/** The head as an SVG. */
export async function headSvg(spot: Spot): Promise<string> {
  const shown = await headOf(spot);
  const title = [spot.manifest.title || spot.manifest.model, placeOf(spot)].filter(Boolean).join(" · ");
  const drawn: Drawn = { title, about: origin(spot), ...shown, scale: spot.scale };
  const context = document.createElement("canvas").getContext("2d")!;
  context.font = "12px system-ui, -apple-system, Segoe UI, Noto Sans, sans-serif";
  return matrixSvg(drawn, (text) => context.measureText(text).width, () => {
    const canvas = document.createElement("canvas");
    [canvas.height, canvas.width] = [shown.queries.length, shown.keys.length];
    canvas.getContext("2d")!.putImageData(new ImageData(pixels(shown.weights, spot.scale), canvas.width, canvas.height), 0, 0);
    return canvas.toDataURL("image/png");
  });
}

// what a drawing on the page takes from the style sheet, and must bring along
const STYLES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "opacity",
  "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "paint-order", "visibility", "image-rendering",
];

/** A view as it stands on the screen: drawings stay drawings, and a canvas is a picture in its place. */
export function viewSvg(view: HTMLElement, spot: Spot): string | null {
  const found = [...view.querySelectorAll<SVGSVGElement | HTMLCanvasElement>("svg, canvas")].filter(
    (one) => !one.parentElement?.closest("svg, table") && !one.closest("label, button, .legend, [hidden]") && one.getBoundingClientRect().width > 60,
  );
  if (!found.length) return null;
  const boxes = found.map((one) => one.getBoundingClientRect());
  const [left, top] = [Math.min(...boxes.map((b) => b.left)), Math.min(...boxes.map((b) => b.top))];
  const [right, below] = [Math.max(...boxes.map((b) => b.right)), Math.max(...boxes.map((b) => b.bottom))];
  const style = getComputedStyle(view.closest(".regard") ?? view);
  const [paper, ink] = [style.getPropertyValue("--sheet") || "#ffffff", style.getPropertyValue("--ink") || "#000000"];
  const [wide, high] = [Math.ceil(right - left) + 20, Math.ceil(below - top) + 60];
  const title = [spot.manifest.title || spot.manifest.model, placeOf(spot)].filter(Boolean).join(" · ");
  const parts = found.map((one, i) => {
    const [x, y, w, h] = [boxes[i].left - left + 10, boxes[i].top - top + 34, boxes[i].width, boxes[i].height];
    if (one instanceof HTMLCanvasElement)
      return one.width && one.height ? `<image x="${x}" y="${y}" width="${w}" height="${h}" href="${one.toDataURL("image/png")}"/>` : "";
    return placed(one, x, y, w, h);
  });
  const words = found.flatMap((one, i) => wordsOver(one, boxes[i], 10 - left, 34 - top));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${wide}" height="${high}" viewBox="0 0 ${wide} ${high}" font-family="${escaped(style.fontFamily)}" fill="${ink}">`,
    `<title>${escaped(title)}</title><desc>${escaped(origin(spot))}</desc><rect width="100%" height="100%" fill="${paper}"/>`,
    `<text x="10" y="22" font-size="14" font-weight="600">${escaped(title)}</text>`,
    ...parts,
    ...words,
    `<text x="10" y="${high - 8}" font-size="10" opacity="0.75">${escaped(origin(spot))}</text></svg>`,
  ].join("\n");
}

/** The words of the page that stand over or beside a drawing, as text at the same places. */
function wordsOver(drawing: Element, box: DOMRect, right: number, down: number): string[] {
  const walk = document.createTreeWalker(drawing.parentElement!, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  const found: string[] = [];
  while (walk.nextNode()) {
    const text = walk.currentNode as Text;
    if (!text.data.trim() || text.parentElement!.closest("svg, table, .hidden, [hidden], option, p, label")) continue;
    range.selectNodeContents(text);
    const at = range.getBoundingClientRect();
    const [x, y] = [at.left + at.width / 2, at.top + at.height / 2];
    if (!at.width || x < box.left || x > box.right || y < box.top || y > box.bottom) continue;
    const style = getComputedStyle(text.parentElement!);
    found.push(
      `<text x="${x + right}" y="${y + down}" text-anchor="middle" dominant-baseline="central" font-size="${style.fontSize}" font-weight="${style.fontWeight}" fill="${style.color}">${escaped(text.data.trim())}</text>`,
    );
  }
  return found;
}

function placed(drawing: SVGSVGElement, x: number, y: number, w: number, h: number): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const [theirs, ours] = [drawing.querySelectorAll("*"), copy.querySelectorAll("*")];
  theirs.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) ours[i].setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "style", "tabindex", "role"]) ours[i].removeAttribute(name);
  });
  for (const [name, value] of Object.entries({ x, y, width: w, height: h })) copy.setAttribute(name, String(value));
  for (const name of ["class", "style", "tabindex", "role"]) copy.removeAttribute(name);
  return new XMLSerializer().serializeToString(copy);
}

/** An SVG as a PNG with so many pixels for each of its own. */
export async function png(svg: string, factor = 2): Promise<Blob> {
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.naturalWidth * factor;
    canvas.height = image.naturalHeight * factor;
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    const made = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
    if (!made) throw new Error("The picture is too large for this browser; take the SVG.");
    return made;
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** Hand a file to whoever sits before the browser. */
export function download(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

