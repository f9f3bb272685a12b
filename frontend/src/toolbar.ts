// What to look at: run, comparison, quantity, lines.
import { el, options } from "./dom";
import { printable } from "./format";
import type { Kind, Quantity } from "./source";
import type { State } from "./state";

const KINDS: [Kind, string][] = [
  ["weight", "weights"],
  ["activation", "activations"],
  ["value", "values"],
];

export class Toolbar {
  readonly root: HTMLElement;
  private run = select("run", "Run");
  private other = select("other", "Compare with");
  private view = select("view", "View");
  private quantity = select("quantity", "Quantity");
  private kind = select("kind", "Of");
  private filter = el("input", {
    type: "search",
    id: "gw-filter",
    placeholder: "Filter layers, e.g. conv* kernel",
    "aria-label": "Filter layers by text",
    spellcheck: "false",
    autocomplete: "off",
  });
  private grouped = el("input", { type: "checkbox", id: "gw-grouped" });
  private theme = el("button", { type: "button", class: "icon", "aria-label": "Light or dark" }, "◐");
  readonly status = el("span", { class: "status", role: "status", "aria-live": "polite" });

  constructor(change: (change: Partial<State>) => void, toggleTheme: () => void) {
    const on = (node: HTMLSelectElement, name: keyof State) =>
      node.addEventListener("change", () => change({ [name]: node.value || null }));
    on(this.run, "run");
    on(this.other, "other");
    on(this.view, "view");
    on(this.quantity, "quantity");
    on(this.kind, "kind");
    this.filter.addEventListener("input", () => change({ filter: this.filter.value }));
    this.grouped.addEventListener("change", () => change({ grouped: this.grouped.checked }));
    this.theme.addEventListener("click", toggleTheme);
    const labelled = (text: string, node: HTMLElement, extra = "") =>
      el("label", { class: `field ${extra}` }, el("span", {}, text), node);
    this.root = el(
      "header",
      { class: "toolbar", role: "toolbar", "aria-label": "What to show" },
      labelled("Run", this.run),
      labelled("Compare with", this.other),
      labelled("View", this.view, "view"),
      labelled("Show", this.quantity),
      labelled("of", this.kind),
      labelled("Filter", this.filter, "grow"),
      el("label", { class: "check" }, this.grouped, "Group by block"),
      this.status,
      this.theme,
    );
  }

  show(state: State, runs: string[], quantities: Quantity[], kinds: Kind[]): void {
    const named = runs.map((run) => [run, printable(run)] as [string, string]);
    options(this.run, named, state.run ?? "");
    const others = named.filter(([run]) => run !== state.run);
    options(this.other, [["", "nothing"], ...others], state.other ?? "");
    options(this.view, [["side", "side by side"], ["difference", "difference"]], state.view);
    this.view.closest("label")!.hidden = !state.other;
    this.other.closest("label")!.hidden = runs.length < 2;
    const known = quantities.filter((quantity) => quantity.kinds.includes(state.kind));
    options(this.quantity, known.map((q) => [q.name, q.label]), state.quantity);
    this.quantity.title = known.find((q) => q.name === state.quantity)?.meaning ?? "";
    options(this.kind, KINDS.filter(([kind]) => kinds.includes(kind)), state.kind);
    this.kind.closest("label")!.hidden = kinds.length < 2;
    if (document.activeElement !== this.filter) this.filter.value = state.filter;
    this.grouped.checked = state.grouped;
  }

  /** Also while somebody is typing in it. */
  clearFilter(): void {
    this.filter.value = "";
  }
}

function select(name: string, label: string): HTMLSelectElement {
  return el("select", { id: `gw-${name}`, "aria-label": label });
}
