// Which of the 32 banks a warp's access to shared memory uses, and how many passes it takes.

export interface Bank {
  /** That use it. */
  lanes: number[];
  /** The distinct 4-byte words they want. */
  words: number[];
  /** What it serves one after the other: its words; where lanes take turns, each lane's. */
  served: number;
}

export interface Phase {
  lanes: number[];
  banks: Bank[];
  /** Of the bank that serves most. */
  passes: number;
}

export interface BankUse {
  phases: Phase[];
  passes: number;
  /** Passes of an access without conflicts. */
  least: number;
}

export const BANKS = 32;

/**
 * An access of 4 bytes a lane is one phase; of 8 bytes, one per half warp; of 16, one per quarter. Lanes that want the
 * same word share it, unless they take turns, as those of an atomic do.
 */
export function bankUse(addresses: readonly number[], lanes: number, bytes: number, turns = false): BankUse {
  const groups = bytes >= 16 ? 4 : bytes === 8 ? 2 : 1;
  const size = 32 / groups;
  const phases: Phase[] = [];
  for (let group = 0; group < groups; group++) {
    const active = Array.from({ length: size }, (_, i) => group * size + i).filter(
      (lane) => (lanes >>> lane) & 1,
    );
    if (active.length) phases.push(phaseOf(addresses, active, bytes, turns));
  }
  return {
    phases,
    passes: phases.reduce((sum, phase) => sum + phase.passes, 0),
    least: phases.length,
  };
}

function phaseOf(addresses: readonly number[], lanes: number[], bytes: number, turns: boolean): Phase {
  const banks = Array.from({ length: BANKS }, (): Bank => ({ lanes: [], words: [], served: 0 }));
  for (const lane of lanes) {
    const first = Math.floor((addresses[lane] as number) / 4);
    const last = Math.floor(((addresses[lane] as number) + bytes - 1) / 4);
    for (let word = first; word <= last; word++) {
      const bank = banks[word % BANKS] as Bank;
      bank.lanes.push(lane);
      const known = bank.words.includes(word);
      if (!known) bank.words.push(word);
      if (turns || !known) bank.served++;
    }
  }
  return { lanes, banks, passes: Math.max(1, ...banks.map(({ served }) => served)) };
}

export function bankSentence(use: BankUse): string {
  const times = (count: number) => `${count} pass${count === 1 ? "" : "es"}`;
  if (use.passes === use.least) return `No bank conflict: ${times(use.passes)} through the 32 banks.`;
  const worst = Math.max(...use.phases.map((phase) => phase.passes));
  const rest = `${times(use.passes)} instead of ${use.least}.`;
  const busiest = use.phases.flatMap(({ banks }) => banks).filter(({ served }) => served === worst);
  if (busiest.every(({ words }) => words.length < worst)) {
    const whose = busiest.some(({ words }) => words.length === 1) ? "the same word" : "words of one bank";
    return `${worst} lanes change ${whose} one after the other: ${rest}`;
  }
  return `${worst === 8 || worst === 11 || worst === 18 ? "An" : "A"} ${worst}-way bank conflict: ${rest}`;
}
