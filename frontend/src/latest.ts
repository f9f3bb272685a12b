// One answer at a time: while one is on its way, only the newest wish waits.
export class Latest<T> {
  value: T | null = null;
  /** What the value answers; a newer wish may be on its way. */
  of = "";
  private wanted = "";
  private busy = false;
  private pending: (() => Promise<T>) | null = null;

  constructor(
    private changed: () => void,
    private failed: (error: unknown) => void,
  ) {}

  want(key: string, fetch: () => Promise<T>): void {
    if (key === this.wanted) return;
    this.wanted = key;
    if (this.busy) this.pending = fetch;
    else void this.run(key, fetch);
  }

  forget(): void {
    this.wanted = this.of = "";
    this.value = null;
    this.pending = null;
  }

  get waiting(): boolean {
    return this.busy;
  }

  private async run(key: string, fetch: () => Promise<T>): Promise<void> {
    this.busy = true;
    try {
      const value = await fetch();
      if (this.wanted) [this.value, this.of] = [value, key];
      this.changed();
    } catch (error) {
      if (this.wanted === key) this.wanted = "";
      this.failed(error);
    }
    this.busy = false;
    const next = this.pending;
    this.pending = null;
    if (next && this.wanted !== this.of) void this.run(this.wanted, next);
  }
}
