// The notebook that "Debug a kernel" opens where there is no kernel to debug yet: one to write one's own over.

const WELCOME = `# Debug a kernel

Run the two cells below (Shift+Enter). The last line opens the debugger on a kernel that has not run yet: ▶| steps, ◀ goes back.
Then put your own kernel in its place; no GPU is needed. CUDA C++ goes through \`sglab.cuda(source)[grid, block]\`, PTX through
\`sglab.ptx(text)[grid, block]\`; Numba and CuTe DSL kernels work, too.`;

const KERNEL = `import sglab
import torch
import triton
import triton.language as tl


@triton.jit
def scaled_sum(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    total = 2 * tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask)
    tl.store(out + at, total, mask=mask)


x, y, out = torch.randn(1000), torch.randn(1000), torch.empty(1000)`;

const STEP = `launch = sglab.step(scaled_sum[(4,)], x, y, out, 1000, BLOCK=256)
launch`;

const NEXT = `The panel at the left (the symbol with four pages) lists \`launch\`, and opens every widget on it in a tab of its own: warps on a timeline,
barriers, shared memory. **Next finding** goes to what the sanitizers found.`;

function cell(id: string, source: string, code: boolean): object {
  const common = { id, metadata: {}, source };
  return code
    ? { ...common, cell_type: "code", outputs: [], execution_count: null }
    : { ...common, cell_type: "markdown" };
}

/** Its content in nbformat 4.5, for this kernel. */
export function starterNotebook(kernel: { name: string; display_name: string; language: string }): object {
  return {
    cells: [
      cell("welcome", WELCOME, false),
      cell("kernel", KERNEL, true),
      cell("step", STEP, true),
      cell("next", NEXT, false),
    ],
    metadata: { kernelspec: kernel },
    nbformat: 4,
    nbformat_minor: 5,
  };
}
