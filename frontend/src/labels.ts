// The names beside the heat map: of each row, or of blocks where rows are thin.
import { el, replace } from "./dom";
import { foldAll, printable } from "./format";
import { blocksOf, type Row } from "./rows";

const LEAST_HEIGHT = 11;

export class RowLabels {
  readonly root = el("div", { class: "labels" });
  private rows: Row[] | null = null;
  private rowHeight = 0;

  constructor(private pick: (name: string) => void) {}

  show(rows: Row[], rowHeight: number, chosen: number): void {
    if (rows !== this.rows || rowHeight !== this.rowHeight) {
      [this.rows, this.rowHeight] = [rows, rowHeight];
      this.root.style.height = `${rows.length * rowHeight}px`;
      replace(this.root, ...this.buttons(rows, rowHeight));
    }
    for (const label of this.root.querySelectorAll("button")) {
      label.classList.toggle("chosen", Number(label.dataset.row) === chosen);
    }
  }

  private buttons(rows: Row[], rowHeight: number): HTMLElement[] {
    const each = rowHeight >= LEAST_HEIGHT;
    const names = rows.map((row) => row.label);
    const blocks = each
      ? names.map((label, i) => ({ label, first: i, last: i }))
      : blocksOf(names, Math.floor((rows.length * rowHeight) / 14));
    let free = 0;
    const spaced = blocks.filter(({ first, last }) => {
      const middle = ((first + last + 1) / 2) * rowHeight;
      if (middle - free < 5.5) return false;
      free = middle + 5.5;
      return true;
    });
    const counts = spaced.map(({ first }) => {
      const many = rows[first].names.length;
      return each && many > 1 ? ` (${many})` : "";
    });
    const room = 30 - Math.max(0, ...counts.map((many) => many.length));
    const folded = foldAll(spaced.map(({ label }) => label), room);
    return spaced.map(({ label, first, last }, i) => {
      const row = rows[first];
      const button = el(
        "button",
        {
          type: "button",
          class: each ? "label" : "label block",
          tabindex: "-1",
          title: printable(label),
          "data-row": first,
          onclick: () => this.pick(row.names[0]),
        },
        folded[i] + counts[i],
      );
      const tall = Math.max(12, (last - first + 1) * rowHeight);
      button.style.top = `${((first + last + 1) / 2) * rowHeight - tall / 2}px`;
      button.style.height = button.style.lineHeight = `${tall}px`;
      return button;
    });
  }
}
