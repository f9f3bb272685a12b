// Numbers in the words of show/_format.py.
export const NOT_MEASURED = "—";

export function number(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined) return NOT_MEASURED;
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+∞" : "-∞";
  if (value === 0) return "0";
  // Rounded first: 0.00099999 has the exponent of 0.001.
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  const power = Number(exponent);
  if (power >= -3 && power <= 4) return value.toFixed(Math.max(0, digits - 1 - power));
  return `${mantissa}e${power}`;
}

export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return number(share);
  if (share === 0 || share === 1) return String(share * 100);
  const text = (100 * share).toFixed(1);
  return { "0.0": "<0.1", "100.0": ">99.9" }[text] ?? text;
}

/** A tick of a log axis: 10⁻³, 1, 10, 10⁴. */
export function power(exponent: number): string {
  if (exponent >= 0 && exponent <= 2) return String(10 ** exponent);
  if (exponent === -1) return "0.1";
  const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const raised = [...String(Math.abs(exponent))].map((d) => digits[Number(d)]).join("");
  return `10${exponent < 0 ? "⁻" : ""}${raised}`;
}

export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** What could move text about or turn its direction is spelled out, as in a table. */
export function printable(text: string): string {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Fits an address into so many characters: what is left out is in its middle. */
export function fold(text: string, width: number): string {
  return cut(printable(text), Math.floor((width - 1) * 0.4), width);
}

/** As `fold`, of names that stand side by side: cut where they can be told apart. */
export function foldAll(texts: string[], width: number): string[] {
  const shown = texts.map(printable);
  const all = [...new Set(shown)];
  const best = Math.floor((width - 1) * 0.4);
  const heads = [...Array(width).keys()].sort((a, b) => Math.abs(a - best) - Math.abs(b - best));
  const apart = heads.find((head) => new Set(all.map((t) => cut(t, head, width))).size === all.length);
  return shown.map((t) => (apart === undefined ? inParts(t, width) : cut(t, apart, width)));
}

function cut(text: string, head: number, width: number): string {
  if (text.length <= width) return text;
  return `${text.slice(0, head)}…${text.slice(text.length - (width - 1 - head))}`;
}

/** Each long part of an address is folded; the last one says what it is, and stays. */
function inParts(text: string, width: number): string {
  const path = text.split("/");
  const last = path.pop() ?? "";
  for (let size = width; size > 2; size--) {
    const folded = [...path.map((part) => fold(part, size)), last].join("/");
    if (folded.length <= width) return folded;
  }
  return fold(text, width);
}
