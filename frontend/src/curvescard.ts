// The card of the numbers of a whole step: its norm, its loss, what was clipped.
import type { Range } from "./axis";
import { CURVES, CurvesChart, type CurvesEvents } from "./curves";
import { el } from "./dom";
import type { Theme } from "./palette";
import type { Sides } from "./sides";
import { MEASURED, type Curves } from "./source";
import type { State } from "./state";

/** As wide as the names beside the heat map, so that steps are above steps. */
const LABELS = 212;

export class CurvesCard {
  readonly root: HTMLElement;
  private chart: CurvesChart;
  private tabs = el("div", { class: "tabs", role: "group", "aria-label": "Curve" });

  constructor(events: CurvesEvents & { change(change: Partial<State>): void }) {
    this.chart = new CurvesChart(events);
    for (const [name, label] of CURVES) {
      const choose = () => events.change({ curve: name });
      this.tabs.append(el("button", { type: "button", "data-curve": name, onclick: choose }, label));
    }
    const key = el("span", { class: "key" }, el("i", { class: "clipkey" }), "clipped");
    this.root = el(
      "section",
      { class: "card", "aria-label": "Curves" },
      el("div", { class: "head" }, this.tabs, key),
      this.chart.root,
    );
  }

  show(state: State, sides: Sides, range: Range, theme: Theme): void {
    const runs = sides.both.flatMap(({ facts, curves }, i) => {
      const on = i === 0 || state.other;
      return on && facts.value && curves.value ? [{ name: facts.value.name, curves: curves.value }] : [];
    });
    for (const button of this.tabs.querySelectorAll("button")) {
      const name = button.dataset.curve!;
      const known = runs.some(({ curves }) => measured(curves, name));
      button.hidden = !known && name !== "global_norm";
      button.setAttribute("aria-pressed", String(name === state.curve));
    }
    const side = Boolean(state.other) && state.view === "side";
    this.chart.show({
      runs,
      curve: state.curve,
      range,
      step: sides.step,
      findings: sides.facts.flatMap((facts) => facts.findings),
      theme,
      left: side ? 56 : LABELS,
    });
  }
}

function measured(curves: Curves, name: string): boolean {
  const n = curves.first.length;
  const row = curves.names.indexOf(name);
  return curves.flags.subarray(row * n, (row + 1) * n).some((flags) => flags & MEASURED);
}
