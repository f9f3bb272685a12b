import { el, replace } from "./dom";

export class Tooltip {
  readonly root = el("div", { class: "tooltip", role: "tooltip", hidden: true });

  show(lines: string[] | null, event: PointerEvent | null): void {
    this.root.hidden = !lines || !event;
    if (!lines || !event) return;
    replace(this.root, ...lines.map((line, i) => el(i ? "div" : "strong", {}, line)));
    const { clientX: x, clientY: y } = event;
    const { offsetWidth: w, offsetHeight: h } = this.root;
    const left = x + 14 + w > window.innerWidth ? x - 14 - w : x + 14;
    const top = Math.min(Math.max(4, y + 14), window.innerHeight - h - 4);
    this.root.style.transform = `translate(${Math.max(4, left)}px, ${top}px)`;
  }
}
