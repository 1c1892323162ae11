// Colours for code: a line in, pieces with a class out. Comments and strings that span lines carry a state over.

export type Language = "ptx" | "cuda" | "python";
/** "": plain; a comment or a string of the previous line continues to its end mark. */
export type LineState = "" | "*/" | '"""' | "'''";

export interface Piece {
  text: string;
  kind: "" | "comment" | "string" | "number" | "keyword" | "name" | "register" | "directive";
}

const WORDS = {
  cuda:
    "alignas asm auto bool break case char class const constexpr continue decltype default do double else enum " +
    "explicit extern false float for goto half if inline int int32_t int64_t long namespace new noexcept nullptr " +
    "operator private protected public requires return short signed sizeof static static_assert static_cast struct " +
    "switch template this true typename uint32_t uint64_t uint8_t union unsigned using virtual void volatile while " +
    "__device__ __forceinline__ __global__ __host__ __launch_bounds__ __noinline__ __restrict__ __shared__ " +
    "__constant__ __grid_constant__",
  python:
    "and as assert async await break class continue def del elif else except False finally for from global if " +
    "import in is lambda None nonlocal not or pass raise return True try while with yield",
};
const KEYWORDS = {
  cuda: new Set(WORDS.cuda.split(" ")),
  python: new Set(WORDS.python.split(" ")),
  ptx: new Set<string>(),
};

const PTX =
  /(\/\/.*|\/\*.*?\*\/)|("[^"]*")|(%[\w.$]+|%\w+)|((?<![\w.$])\.[a-z]\w*(?:::\w+)*)|((?<![\w$%.])(?:0[xXfFdD][0-9a-fA-F]+|\d+)\b)|([A-Za-z_$][\w$]*(?:\.[\w:]+)*)/g;
const CUDA =
  /(\/\/.*|\/\*.*?\*\/|\/\*.*$)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(#\s*\w+)|((?<![\w$])(?:0[xX][0-9a-fA-F']+|\d[\d'.]*(?:[eE][+-]?\d+)?)[uUlLfF]*\b)|([A-Za-z_]\w*)/g;
const PYTHON =
  /(#.*)|("""(?:.*?"""|.*$)|'''(?:.*?'''|.*$)|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(@[\w.]+)|((?<![\w$])(?:0[xX][0-9a-fA-F_]+|\d[\d_.]*(?:[eE][+-]?\d+)?)\b)|([A-Za-z_]\w*)/g;

export function pieces(
  line: string,
  language: Language,
  before: LineState,
): { pieces: Piece[]; after: LineState } {
  const found: Piece[] = [];
  let at = 0;
  if (before) {
    const end = line.indexOf(before);
    const kind = before === "*/" ? "comment" : "string";
    if (end < 0) return { pieces: [{ text: line, kind }], after: before };
    at = end + before.length;
    found.push({ text: line.slice(0, at), kind });
  }
  const pattern = language === "ptx" ? PTX : language === "cuda" ? CUDA : PYTHON;
  let after: LineState = "";
  pattern.lastIndex = at;
  for (let match = pattern.exec(line); match; match = pattern.exec(line)) {
    if (match.index > at) found.push({ text: line.slice(at, match.index), kind: "" });
    at = match.index + match[0].length;
    found.push({ text: match[0], kind: kindOf(match, language, line.slice(at)) });
    after = opened(match[0], language);
  }
  if (at < line.length) found.push({ text: line.slice(at), kind: "" });
  return { pieces: found, after };
}

function kindOf(match: RegExpExecArray, language: Language, rest: string): Piece["kind"] {
  const [text, comment, string, third, fourth] = match;
  if (comment) return "comment";
  if (string) return "string";
  if (third) return language === "ptx" ? "register" : "directive";
  if (fourth) return language === "ptx" ? "directive" : "number";
  if (/^\d/.test(text)) return "number";
  if (KEYWORDS[language].has(text)) return "keyword";
  if (language === "ptx") return /^(\$L|\w*BB)/.test(text) ? "name" : text.includes(".") ? "keyword" : "";
  return rest.startsWith("(") ? "name" : "";
}

/** What a piece leaves open at the end of its line. */
function opened(text: string, language: Language): LineState {
  if (language === "cuda") return text.startsWith("/*") && !text.endsWith("*/") ? "*/" : "";
  if (language !== "python") return "";
  for (const mark of ['"""', "'''"] as const)
    if (text.startsWith(mark) && (text.length < 6 || !text.endsWith(mark))) return mark;
  return "";
}
