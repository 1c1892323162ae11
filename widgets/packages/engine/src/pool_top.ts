/** How many slots a chart of a pool is high: all of them, or the most that were in use where that is less than half. */
export function poolTop(most: number, poolSize: number): number {
  return most && most < poolSize / 2 ? most : poolSize;
}
