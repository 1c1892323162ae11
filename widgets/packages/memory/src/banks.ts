// Which of the 32 banks a warp's access to shared memory uses, and how many passes it takes.

export interface Phase {
  lanes: number[];
  /** By bank: the lanes that use it, and the distinct 4-byte words they want. */
  banks: { lanes: number[]; words: number[] }[];
  /** Passes: the most distinct words of one bank. */
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
 * same word share it.
 */
export function bankUse(addresses: readonly number[], lanes: number, bytes: number): BankUse {
  const groups = bytes >= 16 ? 4 : bytes === 8 ? 2 : 1;
  const size = 32 / groups;
  const phases: Phase[] = [];
  for (let group = 0; group < groups; group++) {
    const active = Array.from({ length: size }, (_, i) => group * size + i).filter(
      (lane) => (lanes >>> lane) & 1,
    );
    if (active.length) phases.push(phaseOf(addresses, active, bytes));
  }
  return {
    phases,
    passes: phases.reduce((sum, phase) => sum + phase.passes, 0),
    least: phases.length,
  };
}

function phaseOf(addresses: readonly number[], lanes: number[], bytes: number): Phase {
  const banks = Array.from({ length: BANKS }, () => ({ lanes: [] as number[], words: [] as number[] }));
  for (const lane of lanes) {
    const first = Math.floor((addresses[lane] as number) / 4);
    const last = Math.floor(((addresses[lane] as number) + bytes - 1) / 4);
    for (let word = first; word <= last; word++) {
      const bank = banks[word % BANKS] as { lanes: number[]; words: number[] };
      bank.lanes.push(lane);
      if (!bank.words.includes(word)) bank.words.push(word);
    }
  }
  return { lanes, banks, passes: Math.max(1, ...banks.map((bank) => bank.words.length)) };
}

export function bankSentence(use: BankUse): string {
  const times = (count: number) => `${count} pass${count === 1 ? "" : "es"}`;
  if (use.passes === use.least) return `No bank conflict: ${times(use.passes)} through the 32 banks.`;
  const worst = Math.max(...use.phases.map((phase) => phase.passes));
  return `${worst === 8 || worst === 11 || worst === 18 ? "An" : "A"} ${worst}-way bank conflict: ${times(use.passes)} instead of ${use.least}.`;
}
