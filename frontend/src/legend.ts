// What the colours of the heat map mean.
import { el, replace } from "./dom";
import { number, percent, power } from "./format";
import { css, type Theme } from "./palette";
import { powers } from "./axis";
import type { Scale } from "./cells";

export function showLegend(root: HTMLElement, scale: Scale, label: string, theme: Theme): void {
  const ramp = scale.kind === "ratio" || scale.kind === "change" ? theme.fork : theme.ramp;
  const stops = Array.from({ length: 17 }, (_, i) => css(ramp[Math.round((i / 16) * 255)]));
  const bar = el("div", { class: "ramp", "aria-hidden": "true" });
  bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
  const ends = el("div", { class: "ends" });
  for (const [at, text] of ticksOf(scale)) {
    const tick = el("span", {}, text);
    tick.style.left = `${100 * at}%`;
    ends.append(tick);
  }
  const swatch = (colour: string, sign: string, text: string) => {
    const box = el("i", { "aria-hidden": "true" }, sign);
    box.style.background = colour;
    return el("span", { class: "swatch" }, box, text);
  };
  const words = scale.kind === "ratio" ? `${label}: second ÷ first` : scale.kind === "change" ? `${label}: second − first` : label;
  const hatch = swatch("", "", "not measured");
  hatch.firstElementChild!.className = "hatched";
  replace(
    root,
    el("span", { class: "name" }, words),
    el("div", { class: "scale" }, bar, ends),
    swatch(theme.nan, "×", "NaN"),
    swatch(theme.posinf, "+", "+∞"),
    swatch(theme.neginf, "−", "−∞"),
    scale.kind === "log" && swatch(theme.zero, "", "zero"),
    hatch,
  );
}

function ticksOf(scale: Scale): [number, string][] {
  const place = (at: number) => (at - scale.low) / (scale.high - scale.low);
  if (scale.kind === "share") return [0, 0.5, 1].map((v) => [v, `${percent(v)} %`.replace(".0 %", " %")]);
  if (scale.kind === "change") {
    return [scale.low, 0, scale.high].map((v) => [place(v), `${v > 0 ? "+" : ""}${number(100 * v, 2)} %`]);
  }
  if (scale.kind === "ratio") {
    const most = number(10 ** scale.high, 2);
    return [[0, `÷ ${most}`], [0.5, "equal"], [1, `× ${most}`]];
  }
  return powers(scale.low, scale.high, 4).map((v) => [place(v), power(v)]);
}
