// The dashboard's page: asks for the class's state every few seconds and draws it. All text is set as text, never as HTML.

const PERIOD_MS = 4000;
const MOST_ROWS = 8;
const by = (id) => document.getElementById(id);
let state = null;

function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== "") made.textContent = text;
  return made;
}

/** Seconds as people say them. */
function ago(seconds) {
  if (seconds === null) return "";
  if (seconds < 10) return "just now";
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

function number(value) {
  return Number.isInteger(value) ? String(value) : value.toFixed(1);
}

const DID = { check: "checked", attempt: "handed in", hint: "took a hint in", grade: "was graded in" };
const points = (student) => Object.values(student.labs).reduce((sum, lab) => sum + lab.points, 0);
const ORDERS = {
  attention: (a, b) => b.stuck - a.stuck || b.running - a.running || a.name.localeCompare(b.name),
  name: (a, b) => a.name.localeCompare(b.name),
  points: (a, b) => points(b) - points(a) || a.name.localeCompare(b.name),
};

function drawTotals(totals) {
  const of = [
    ["running", `of ${totals.students} are in`],
    ["busy", "computing now"],
    ["stuck", "stuck"],
    ["checks", "checks"],
    ["submitted", "labs handed in"],
  ];
  by("totals").replaceChildren(
    ...of.map(([name, text]) => {
      const one = element("div", name === "stuck" && totals.stuck ? "stuck" : "");
      one.append(element("dt", "", text), element("dd", "", number(totals[name])));
      return one;
    }),
  );
}

function seatCell(student) {
  const cell = element("td");
  const text = !student.running ? "out" : student.busy ? "computing" : "in";
  cell.append(element("span", `state ${student.busy ? "busy" : student.running ? "in" : ""}`, text));
  return cell;
}

function whereCell(student) {
  const cell = element("td", "where");
  if (student.lab) cell.append(element("div", "", `${DID[student.did]} ${student.lab}, ${ago(student.ago)}`));
  if (student.stuck) cell.append(element("div", "why", `stuck: ${student.fruitless} checks without a new point`));
  const open = student.documents.map((path) => path.replace(/^.*\//, "").replace(/\.ipynb$/, ""));
  if (open.length) cell.append(element("div", "quiet", `open: ${open.join(", ")}`));
  if (!student.lab && !open.length) cell.append(element("span", "quiet", student.running ? "no notebook open" : "–"));
  return cell;
}

function memoryCell(student) {
  const cell = element("td", "memory");
  if (student.memory === null) {
    cell.append(element("span", "quiet", student.running ? "not known" : "–"));
    return cell;
  }
  const used = `${Math.round(student.memory / 2 ** 20)} MiB`;
  if (student.memory_limit) {
    const meter = element("meter");
    Object.assign(meter, { max: student.memory_limit, high: 0.85 * student.memory_limit, optimum: 0, value: student.memory });
    meter.setAttribute("aria-label", `${used} of ${Math.round(student.memory_limit / 2 ** 20)} MiB`);
    cell.append(meter);
  }
  cell.append(element("span", "quiet", used));
  return cell;
}

function labCell(lab, got) {
  const cell = element("td", "lab");
  if (!got) return cell;
  const share = got.points / lab.points;
  const kind = got.checks === 0 ? "" : share >= 1 ? "full" : share > 0 ? "part" : "none";
  const text = `${got.checks ? number(Math.round(got.points)) : ""}${got.submitted ? "✓" : ""}`;
  const span = element("span", kind, text || "·");
  const hints = got.hints ? `, ${got.hints} hints` : "";
  span.title = `${lab.title}: ${number(got.points)} of ${lab.points}, ${got.checks} checks${hints}`;
  cell.append(span);
  return cell;
}

function drawStudents({ students, labs }) {
  by("columns").replaceChildren(
    ...["Student", "Seat", "Where", "Memory"].map((text) => element("th", "", text)),
    ...labs.map((lab) => {
      const head = element("th", "lab", lab.id);
      head.title = lab.title;
      return head;
    }),
  );
  for (const head of by("columns").children) head.scope = "col";
  by("rows").replaceChildren(
    ...[...students].sort(ORDERS[by("order").value]).map((student) => {
      const row = element("tr", student.stuck ? "stuck" : "");
      row.append(element("td", "", student.name), seatCell(student), whereCell(student), memoryCell(student));
      row.append(...labs.map((lab) => labCell(lab, student.labs[lab.id])));
      return row;
    }),
  );
}

function bar(share) {
  const box = element("div", "bar");
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  rect.setAttribute("width", `${100 * share}%`);
  rect.setAttribute("height", "5");
  svg.append(rect);
  box.append(svg);
  return box;
}

function item(title, count, text, share, small) {
  const one = element("li");
  const head = element("div", "head");
  head.append(element("strong", "", title), element("span", "count", count));
  one.append(head, bar(share), element("p", "", text));
  if (small) one.append(element("p", "quiet", small));
  return one;
}

function drawList(id, items, nothing) {
  by(id).replaceChildren(...(items.length ? items.slice(0, MOST_ROWS) : [element("li", "empty", nothing)]));
}

function draw() {
  if (!state) return;
  drawTotals(state.totals);
  drawStudents(state);
  const tried = (lab) => state.students.filter((student) => student.labs[lab]?.checks).length;
  drawList(
    "ideas",
    state.ideas.map((idea) => {
      const of = tried(idea.lab);
      const count = `${idea.students.length} of ${of}`;
      return item(`${idea.lab} ${idea.title}`, count, idea.feedback, idea.students.length / of, idea.students.join(", "));
    }),
    "No known wrong idea in anybody's latest check.",
  );
  drawList(
    "criteria",
    state.criteria.map((row) => {
      const percent = `${Math.round(100 * row.mean)} %`;
      return item(`${row.lab} ${row.exercise}`, percent, row.text, row.mean, `${row.none} of ${row.of} have nothing for it yet`);
    }),
    "Nobody has checked a lab yet, or all have full marks.",
  );
}

async function look() {
  try {
    const token = document.cookie.match(/(?:^|; )_xsrf=([^;]*)/)?.[1] ?? "";
    const answer = await fetch("api/state", { headers: { Accept: "application/json", "X-XSRFToken": token } });
    if (!answer.ok) throw new Error(answer.status === 403 ? "sign in again" : `the hub answers ${answer.status}`);
    state = await answer.json();
    by("fresh").textContent = `as of ${new Date(state.now * 1000).toLocaleTimeString()}`;
    by("fresh").className = "";
    draw();
  } catch (error) {
    by("fresh").textContent = `no news: ${error.message}`;
    by("fresh").className = "late";
  }
  setTimeout(look, PERIOD_MS);
}

by("order").addEventListener("change", draw);
look();
