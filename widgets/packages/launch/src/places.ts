// Where positions of the launch are among the shown cluster's events. A position p is the moment before event p of the
// whole launch; step r of a widget is the moment at which r of the cluster's events have been executed.

export class Places {
  constructor(private at: Int32Array) {}

  get size(): number {
    return this.at.length;
  }

  /** How many of the cluster's events come before a position. */
  stepAt(position: number): number {
    let low = 0;
    let high = this.at.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.at[middle] as number) < position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The step at which what happened at a position is over. */
  stepBehind(position: number): number {
    return Math.min(this.at.length, this.stepAt(position) + 1);
  }

  /** The position after the last executed event. */
  positionAt(step: number): number {
    return step > 0 ? (this.at[step - 1] as number) + 1 : 0;
  }

  /** The number among the cluster's of an event of the launch; -1 for another cluster's. */
  indexOf(event: number): number {
    const step = this.stepAt(event);
    return this.at[step] === event ? step : -1;
  }
}
