// Items by group, in CSR form: group g holds items[indptr[g]] … items[indptr[g + 1] - 1], in their original order.

export interface Groups {
  indptr: Int32Array;
  items: Int32Array;
}

/** `groupOf` gives each item's group, or -1 for none. */
export function groupItems(size: number, groups: number, groupOf: (item: number) => number): Groups {
  const indptr = new Int32Array(groups + 1);
  const add = (array: Int32Array, at: number, amount: number) => {
    array[at] = (array[at] ?? 0) + amount;
  };
  for (let item = 0; item < size; item++) {
    const group = groupOf(item);
    if (group >= 0) add(indptr, group + 1, 1);
  }
  for (let group = 0; group < groups; group++) add(indptr, group + 1, indptr[group] ?? 0);
  const items = new Int32Array(indptr[groups] ?? 0);
  const next = indptr.slice();
  for (let item = 0; item < size; item++) {
    const group = groupOf(item);
    if (group < 0) continue;
    items[next[group] ?? 0] = item;
    add(next, group, 1);
  }
  return { indptr, items };
}
