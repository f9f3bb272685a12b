// All numbers of the chosen line at the chosen step, and what was trained.
import { el, replace } from "./dom";
import { count, counted, number, percent, printable } from "./format";
import { MEASURED, NAN, NEGINF, POSINF, stepsOf, type Facts, type Kind, type Snapshot, type Quantity } from "./source";

export const KIND_WORDS: Record<Kind, string> = {
  weight: "weight",
  activation: "activation (its gradient)",
  value: "activation (its value)",
};

export interface DetailsView {
  name: string | null;
  kind: Kind;
  quantities: Quantity[];
  runs: { facts: Facts; snapshot: Snapshot | null; line: number }[];
}

export function showDetails(root: HTMLElement, view: DetailsView): void {
  if (!view.name) {
    replace(root, el("h2", {}, "Numbers"), el("p", { class: "quiet" }, "Choose a row."));
    return;
  }
  const head = el("tr", {}, el("th", { scope: "col" }, ""));
  for (const [i, { facts, snapshot }] of view.runs.entries()) {
    const step = snapshot ? stepsOf(snapshot) : "—";
    const name = view.runs.length > 1 ? `${printable(facts.name)}, ` : "";
    head.append(
      el("th", { scope: "col" }, el("span", { class: `dot run${i}` }), `${name}${step}`),
    );
  }
  const body = el("tbody");
  for (const quantity of view.quantities) {
    if (!quantity.kinds.includes(view.kind)) continue;
    const row = el("tr", {}, el("th", { scope: "row", title: quantity.meaning }, quantity.label));
    for (const { snapshot, line } of view.runs) {
      const [text, alarm] = cell(quantity, snapshot, line);
      row.append(
        el("td", { class: alarm ? "alarm" : "", "data-quantity": quantity.name }, text),
      );
    }
    body.append(row);
  }
  const size = view.runs[0].facts.lines[view.kind]?.sizes[view.runs[0].line];
  const of = `${KIND_WORDS[view.kind]}${size ? `, ${counted(size, "element")}` : ""}`;
  replace(
    root,
    el("h2", {}, "Numbers"),
    el("p", { class: "address", "data-address": "" }, printable(view.name)),
    el("p", { class: "quiet" }, of),
    el("table", { class: "numbers" }, el("thead", {}, head), body),
  );
}

function cell(quantity: Quantity, snapshot: Snapshot | null, line: number): [string, boolean] {
  if (!snapshot || line < 0) return ["—", false];
  if (quantity.name === "nonfinite") {
    const marks = ["NaN", "+∞", "-∞"];
    const words = marks
      .map((mark, k) => [snapshot.counts[k * snapshot.lines + line], mark] as const)
      .filter(([many]) => many > 0)
      .map(([many, mark]) => `${count(many)} ${mark}`);
    if (words.length) return [words.join(", "), true];
  }
  const at = snapshot.quantities.indexOf(quantity.name) * snapshot.lines + line;
  const flags = snapshot.flags[at];
  if (!(flags & MEASURED)) return ["—", false];
  if (flags & NAN) return ["NaN", true];
  if (flags & POSINF) return ["+∞", true];
  if (flags & NEGINF) return ["-∞", true];
  const value = snapshot.values[at];
  return [quantity.scale === "share" ? share(quantity, value) : number(value), false];
}

function share(quantity: Quantity, value: number): string {
  return quantity.percent ? percent(value) : number(value, 3);
}

/** What was trained and what watching cost, in a few lines. */
export function showAbout(root: HTMLElement, runs: Facts[]): void {
  replace(root, el("h2", {}, "What was trained"));
  for (const [i, facts] of runs.entries()) {
    const { run = {}, overhead, dropped } = facts.notes;
    const lines: [string, string][] = [
      ["run", facts.name],
      ["model", run.model ?? "—"],
      ["parameters", run.parameters ? count(run.parameters) : "—"],
      ["optimizer", (run.optimizers ?? []).join(", ") || "—"],
      ["backend", run.backend ? `${run.backend}, Keras ${run.keras}` : "—"],
      ["recorded", `${counted(facts.records, "step")}, ${count(facts.first)} to ${count(facts.last)}`],
    ];
    if (overhead) lines.push(["watching cost", cost(overhead)]);
    if (dropped) lines.push(["dropped", counted(dropped.count ?? 0, "record")]);
    const list = el("dl", { class: "facts" });
    for (const [what, text] of lines) {
      const dot = what === "run" && runs.length > 1 && el("span", { class: `dot run${i}` });
      list.append(el("dt", {}, what), el("dd", {}, dot, printable(String(text))));
    }
    root.append(list);
  }
}

function cost(overhead: Record<string, any>): string {
  if (typeof overhead.share !== "number" || typeof overhead.record_ms !== "number") {
    return "not known: no step was far enough from a record to compare with";
  }
  return `${percent(overhead.share)} % of the time, ${number(overhead.record_ms, 2)} ms a record`;
}
