/** What a part of the page was last drawn from; drawing costs, comparing does not. */
export class Changes {
  private seen = new Map<string, unknown[]>();

  /** Whether a part depends on something that is not as it was. */
  of(part: string, ...on: unknown[]): boolean {
    const before = this.seen.get(part);
    if (before && on.length === before.length && on.every((x, i) => x === before[i])) return false;
    this.seen.set(part, on);
    return true;
  }
}
