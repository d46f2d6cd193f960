// A head as the text of an SVG: letters stay letters, and every cell is one where they are few.

import { cividis, share, type Colour } from "./colour";
import { visible, type Scale } from "./types";

export interface Drawn {
  title: string;
  about: string;
  queries: string[];
  keys: string[];
  /** (Q, K), line by line. */
  weights: Float32Array;
  scale: Scale;
}

/** Beyond so many cells a matrix is one picture of a pixel a cell. */
export const MOST_CELLS = 4096;
const FONT = 'font-family="system-ui, -apple-system, Segoe UI, Noto Sans, sans-serif"';
const INK = "#1b2027";
const SOFT = "#565e69";

export function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]!);
}

export function hex(colour: Colour): string {
  return `#${colour.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

const short = (label: string): string => {
  const signs = [...visible(label)];
  return signs.length > 24 ? `${signs.slice(0, 23).join("")}…` : signs.join("");
};

export function greatest(weights: Float32Array): number {
  return weights.reduce((most, weight) => Math.max(most, weight), 0);
}

/** The colours of a head, a pixel a cell, as ImageData has them. */
export function pixels(weights: Float32Array, scale: Scale): Uint8ClampedArray<ArrayBuffer> {
  const most = greatest(weights);
  const found = new Uint8ClampedArray(4 * weights.length);
  weights.forEach((weight, i) => found.set([...cividis(share(weight, most, scale)), 255], 4 * i));
  return found;
}

/**
 * The head as the text of an SVG.
 * @param breadth how many pixels wide a text of 12 px is
 * @param picture the address of a picture of the head; asked for where its cells are many
 */
export function matrixSvg(drawn: Drawn, breadth: (text: string) => number, picture: () => string): string {
  const { queries, keys, weights, scale } = drawn;
  const [Q, K] = [queries.length, keys.length];
  const few = Q * K <= MOST_CELLS;
  const cell = few ? Math.max(14, Math.min(26, Math.floor(900 / Math.max(Q, K)))) : Math.max(1, 900 / Math.max(Q, K));
  const [rows, columns] = [queries.map(short), keys.map(short)];
  const longest = (texts: string[]) => texts.reduce((most, text) => Math.max(most, breadth(text)), 0);
  const [left, top] = cell >= 12 ? [longest(rows) + 20, longest(columns) + 60] : [20, 60];
  const [wide, high] = [Math.max(left + K * cell + 20, breadth(drawn.title) * 1.5 + 20, 340), top + Q * cell + 64];
  const most = greatest(weights);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${round(wide)}" height="${round(high)}" viewBox="0 0 ${round(wide)} ${round(high)}" ${FONT} font-size="12" fill="${INK}" shape-rendering="crispEdges">`,
    `<title>${escaped(drawn.title)}</title><desc>${escaped(drawn.about)}</desc>`,
    `<rect width="100%" height="100%" fill="#ffffff"/>`,
    `<text x="10" y="24" font-size="15" font-weight="600">${escaped(drawn.title)}</text>`,
    `<text x="10" y="42" fill="${SOFT}">rows are queries, columns are keys</text>`,
  ];
  if (few)
    weights.forEach((weight, i) => {
      const [q, k] = [Math.floor(i / K), i % K];
      const said = `${escaped(visible(queries[q]))} → ${escaped(visible(keys[k]))}: ${weight}`;
      parts.push(`<rect x="${round(left + k * cell)}" y="${round(top + q * cell)}" width="${cell}" height="${cell}" fill="${hex(cividis(share(weight, most, scale)))}"><title>${said}</title></rect>`);
    });
  else
    parts.push(`<image x="${round(left)}" y="${round(top)}" width="${round(K * cell)}" height="${round(Q * cell)}" preserveAspectRatio="none" image-rendering="pixelated" href="${picture()}"/>`);
  if (cell >= 12) {
    rows.forEach((label, q) => parts.push(`<text x="${round(left - 6)}" y="${round(top + (q + 0.5) * cell + 4)}" text-anchor="end">${escaped(label)}</text>`));
    columns.forEach((label, k) => parts.push(`<text transform="translate(${round(left + (k + 0.5) * cell + 4)} ${round(top - 6)}) rotate(-90)">${escaped(label)}</text>`));
  }
  return [...parts, ...legend(left, top + Q * cell + 18, most, scale), `<text x="10" y="${round(high - 10)}" font-size="10" fill="${SOFT}">${escaped(drawn.about)}</text>`, "</svg>"].join("\n");
}

const round = (x: number): number => Math.round(x * 100) / 100;

function legend(x: number, y: number, most: number, scale: Scale): string[] {
  const bars = Array.from({ length: 48 }, (_, i) =>
    `<rect x="${round(x + 14 + 3 * i)}" y="${round(y)}" width="3" height="10" fill="${hex(cividis(share((most * i) / 47, most, scale)))}"/>`);
  const word = (at: number, text: string) => `<text x="${round(at)}" y="${round(y + 9)}" font-size="11" fill="${SOFT}">${text}</text>`;
  return [word(x, "0"), ...bars, word(x + 14 + 48 * 3 + 6, `${most.toFixed(4)} (${scale})`)];
}
