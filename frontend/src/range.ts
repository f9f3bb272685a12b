// Where in the run the pictures are: a bar to drag, and buttons.
import type { Range } from "./axis";
import { el } from "./dom";

export class RangeBar {
  readonly root: HTMLElement;
  private thumb = el("div", { class: "thumb" });
  private track = el("div", { class: "track" }, this.thumb);
  private whole: Range = [0, 1];
  private range: Range = [0, 1];

  constructor(zoom: (range: Range) => void, reset: () => void) {
    const button = (text: string, label: string, act: () => void) =>
      el("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick: act }, text);
    const by = (share: number) => {
      const width = this.range[1] - this.range[0];
      zoom([this.range[0] + share * width, this.range[1] + share * width]);
    };
    const scale = (factor: number) => {
      const [low, high] = this.range;
      const [middle, half] = [(low + high) / 2, ((high - low) / 2) * factor];
      zoom([middle - half, middle + half]);
    };
    this.root = el(
      "div",
      { class: "rangebar", role: "group", "aria-label": "Steps shown" },
      this.track,
      button("◂", "Earlier steps", () => by(-0.5)),
      button("▸", "Later steps", () => by(0.5)),
      button("+", "Zoom in", () => scale(0.5)),
      button("−", "Zoom out", () => scale(2)),
      button("All", "All steps", reset),
    );
    let from: { x: number; range: Range } | null = null;
    this.track.addEventListener("pointerdown", (event) => {
      const box = this.track.getBoundingClientRect();
      const width = this.range[1] - this.range[0];
      const step = this.whole[0] + ((event.clientX - box.left) / box.width) * (this.whole[1] - this.whole[0]);
      if (event.target !== this.thumb) zoom([step - width / 2, step + width / 2]);
      from = { x: event.clientX, range: this.range };
      this.track.setPointerCapture(event.pointerId);
    });
    this.track.addEventListener("pointermove", (event) => {
      if (!from) return;
      const box = this.track.getBoundingClientRect();
      const shift = ((event.clientX - from.x) / box.width) * (this.whole[1] - this.whole[0]);
      zoom([from.range[0] + shift, from.range[1] + shift]);
    });
    this.track.addEventListener("pointerup", () => (from = null));
  }

  show(whole: Range, range: Range): void {
    [this.whole, this.range] = [whole, range];
    const width = whole[1] - whole[0] || 1;
    this.thumb.style.left = `${(100 * (range[0] - whole[0])) / width}%`;
    this.thumb.style.width = `${Math.max(1.5, (100 * (range[1] - range[0])) / width)}%`;
  }
}
