// Numbers as they are read: aligned, with a true minus, and in units one can picture.

/** So many decimals; what is no number says so. */
export function fixed(x: number | null | undefined, decimals = 2): string {
  if (x === null || x === undefined || Number.isNaN(x)) return "NaN";
  const text = Math.abs(x).toFixed(decimals);
  return x < 0 && Number(text) !== 0 ? `−${text}` : text;
}

/** A number of any size in at most four digits: 0.0123, 12.3, 1.1 × 10⁻¹⁶. */
export function short(x: number | null): string {
  if (x === null || !Number.isFinite(x)) return "NaN";
  const size = Math.abs(x);
  if (size === 0) return "0";
  if (size >= 1e-3 && size < 1e5) return fixed(x, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
  const [digits, power] = x.toExponential(1).split("e");
  return `${digits.replace("-", "−")} × 10${raised(Number(power))}`;
}

function raised(power: number): string {
  return [...String(power)].map((sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(sign)])).join("");
}

/** 12,345 */
export const whole = (n: number): string => n.toLocaleString("en-US");

export function bytes(n: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  const step = Math.min(units.length - 1, n < 1024 ? 0 : Math.floor(Math.log2(n) / 10));
  const size = n / 1024 ** step;
  return `${step && size < 10 ? size.toFixed(1) : Math.round(size)} ${units[step]}`;
}

/** A count of operations, in thousands, millions, billions. */
export function counted(n: number): string {
  const names: [number, string][] = [[1e9, "billion"], [1e6, "million"], [1e3, "thousand"]];
  const [size, name] = names.find(([least]) => n >= least) ?? [1, ""];
  const share = n / size;
  return `${share < 10 && name ? share.toFixed(1) : Math.round(share)} ${name}`.trim();
}

export const letter = (i: number): string => String.fromCharCode(65 + i);
