// The instructions that ran: text, PTX line, source line, as sglab/widgets/launch_code.py writes them.

export interface Place {
  file: string;
  line: number;
}

export interface Instruction {
  pc: number;
  ptxLine: number;
  text: string;
  opcode: string;
  kind: string;
  /** The source line, then those at which the function around it was inlined. */
  chain: Place[];
}

interface Table {
  pc: number[];
  line: number[];
  text: string[];
  opcode: number[];
  kind: number[];
  chain: number[];
  opcodes: string[];
  kinds: string[];
  files: string[];
  chains: [number, number][][];
}

const OPERATION_WAIT = /^(cp\.async(\.bulk)?\.wait_(group|all)|wgmma\.wait_group|tcgen05\.wait)\b/;

export class Code {
  #at: Map<number, number>;

  constructor(private table: Table) {
    this.#at = new Map(table.pc.map((pc, i) => [pc, i]));
  }

  get pcs(): readonly number[] {
    return this.table.pc;
  }

  at(pc: number): Instruction {
    const { table } = this;
    const i = this.#at.get(pc) as number;
    const chain = table.chains[table.chain[i] as number] ?? [];
    return {
      pc,
      ptxLine: table.line[i] as number,
      text: table.text[i] as string,
      opcode: table.opcodes[table.opcode[i] as number] as string,
      kind: table.kinds[table.kind[i] as number] as string,
      chain: chain.map(([file, line]) => ({ file: table.files[file] as string, line })),
    };
  }

  /** The instructions that wait for a warp's own asynchronous operations: copies, wgmma, tensor memory. */
  operationWaits(): Set<number> {
    const { opcode, opcodes, pc } = this.table;
    return new Set(pc.filter((_, i) => OPERATION_WAIT.test(opcodes[opcode[i] as number] as string)));
  }

  /** By pc: a number that instructions of one source line share; without a source, of one PTX line. */
  lineNumbers(): Int32Array {
    const { table } = this;
    const numbers = new Int32Array(Math.max(0, ...table.pc) + 1);
    const known = new Map<string, number>();
    table.pc.forEach((pc, i) => {
      const place = table.chains[table.chain[i] as number]?.[0];
      const key = place ? place.join(":") : `ptx ${table.line[i]}`;
      const number = known.get(key) ?? known.size;
      known.set(key, number);
      numbers[pc] = number;
    });
    return numbers;
  }
}

export function decodeCode(bytes: Uint8Array): Code {
  return new Code(JSON.parse(new TextDecoder().decode(bytes)) as Table);
}

/** "mla_decode.cu:263". */
export function placeText({ file, line }: Place): string {
  return `${file.split("/").at(-1)}:${line}`;
}
