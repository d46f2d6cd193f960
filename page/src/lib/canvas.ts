// What every canvas needs: its size in the pixels of the screen, and the colours of the theme.

import type { Colour } from "./colour";

export const FONT = 'system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif';

/** A canvas made so large, emptied, and ready to be drawn on in CSS pixels. */
export function ready(canvas: HTMLCanvasElement, wide: number, high: number): CanvasRenderingContext2D {
  const ratio = devicePixelRatio || 1;
  const [w, h] = [Math.round(wide * ratio), Math.round(high * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, wide, high);
  return context;
}

/** The colours of the theme, by the names of their variables. */
export function inks(element: Element): (name: string) => string {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}

/** A colour of the theme in numbers; it is written as #rrggbb, or as #rgb where a build made it short. */
export function numbers(ink: string): Colour {
  const digits = ink.slice(1);
  const value = parseInt(digits.length === 3 ? digits.replace(/./g, "$&$&") : digits, 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** One colour, so far on the way to another. */
export const between = (a: Colour, b: Colour, share: number): Colour =>
  a.map((x, i) => Math.round(x + (b[i] - x) * Math.max(0, Math.min(1, share)))) as Colour;
