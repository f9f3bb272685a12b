// Light or dark: as TensorBoard is, else as the system is, unless the button says else.
export class Themes {
  private chosen: boolean | null = null;
  private printing = false;
  private system = window.matchMedia("(prefers-color-scheme: dark)");

  constructor(private changed: () => void) {}

  get dark(): boolean {
    if (this.printing) return false;
    return this.chosen ?? this.outer() ?? this.system.matches;
  }

  toggle(): void {
    this.chosen = !this.dark;
    this.changed();
  }

  start(): void {
    this.system.addEventListener("change", this.changed);
    const body = this.body();
    if (body) {
      const watch = new MutationObserver(this.changed);
      watch.observe(body, { attributes: true, attributeFilter: ["class"] });
    }
    window.addEventListener("beforeprint", () => this.print(true));
    window.addEventListener("afterprint", () => this.print(false));
    this.changed();
  }

  private print(on: boolean): void {
    this.printing = on;
    this.changed();
  }

  /** The page around the frame, which has the same origin. */
  private body(): HTMLElement | null {
    try {
      return window.parent !== window ? window.parent.document.body : null;
    } catch {
      return null;
    }
  }

  private outer(): boolean | null {
    const body = this.body();
    return body ? body.classList.contains("dark-mode") : null;
  }
}
