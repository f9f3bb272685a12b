// Findings as a list; a click goes to the layer and the step.
import { el, replace } from "./dom";
import { count, counted, fold, number, printable } from "./format";
import type { Facts, Finding } from "./source";

// The tab shows what the monitor wrote down; a report judges the run itself.
const NONE = "The monitor has found nothing wrong so far. A report judges the whole run.";

export interface FindingsView {
  runs: Facts[];
  chosen: Finding | null;
}

export class FindingsList {
  readonly root = el("section", { class: "card findings", "aria-label": "Findings" });
  private key = "";

  constructor(private pick: (finding: Finding, run: string) => void) {}

  show({ runs, chosen }: FindingsView): void {
    // Compared by what they say: every look for news brings the same ones as new objects.
    const open = JSON.stringify(chosen);
    const key = JSON.stringify([runs.map((r) => [r.name, r.findings]), open]);
    if (key === this.key) return;
    this.key = key;
    const total = runs.reduce((sum, run) => sum + run.findings.length, 0);
    const badge = el("span", { class: total ? "badge bad" : "badge good" }, String(total));
    replace(this.root, el("h2", {}, "Findings ", badge));
    for (const [i, run] of runs.entries()) {
      if (runs.length > 1) {
        this.root.append(
          el("h3", {}, el("span", { class: `dot run${i}` }), printable(run.name)),
        );
      }
      if (!run.findings.length) {
        this.root.append(el("p", { class: "quiet" }, NONE));
      }
      const list = el("ol", { class: "plain" });
      for (const finding of run.findings) {
        list.append(this.item(finding, run.name, JSON.stringify(finding) === open));
      }
      if (run.findings.length) this.root.append(list);
    }
  }

  private item(finding: Finding, run: string, chosen: boolean): HTMLElement {
    const since = finding.since ?? finding.step;
    const until = typeof finding.until === "number" ? ` until step ${count(finding.until)}` : "";
    const where = finding.addresses ?? [];
    const title = finding.title || finding.symptom;
    const seen = Object.entries(finding.evidence ?? {})
      .map(([what, value]) => `${what} ${short(value)}`)
      .join(", ");
    const button = el(
      "button",
      {
        class: "finding",
        type: "button",
        "data-symptom": finding.symptom,
        "aria-pressed": chosen ? "true" : "false",
        title: "Show it in the charts",
        onclick: () => this.pick(finding, run),
      },
      el("strong", {}, capital(title)),
      el("span", { class: "meta" }, `${finding.symptom} · since step ${count(since)}${until}`),
      where.length
        ? el(
            "span",
            { class: "where" },
            printable(fold(where[0], 40)),
            where.length > 1 ? ` and ${counted(where.length - 1, "more place")}` : "",
          )
        : null,
    );
    const more = el(
      "div",
      { class: "more" },
      seen ? el("p", {}, el("b", {}, "Evidence: "), ...prose(seen), ".") : null,
      finding.healthy ? el("p", {}, el("b", {}, "Healthy: "), ...prose(finding.healthy), ".") : null,
      finding.try_first
        ? el("p", {}, el("b", {}, "Try first: "), ...prose(finding.try_first))
        : null,
    );
    return el("li", {}, button, more);
  }
}

/** Words in which what stands between backticks is code. */
function prose(text: string): (Node | string)[] {
  const parts = printable(text).split("`");
  if (parts.length % 2 === 0) return [printable(text)];
  return parts.map((part, i) => (i % 2 ? el("code", {}, part) : part));
}

function short(value: number | string): string {
  if (typeof value === "string") return value;
  return Number.isInteger(value) && Math.abs(value) < 1e6 ? count(value) : number(value, 3);
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
