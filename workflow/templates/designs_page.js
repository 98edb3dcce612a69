// Draws what designs.js computes, and lets readers type in prices.

const COLOURS = { meets: "#117733", undecided: "#c9a227", misses: "#999999" };
const [GOAL, CHOSEN] = ["#117733", "#9A2A7B"];
const data = JSON.parse(document.getElementById("data").textContent);
const inputs = [...document.querySelectorAll("[data-asked]")];
const views = document.getElementById("views");

const padded = (numbers) => {
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const room = 0.06 * (high - low) || 0.1 * Math.abs(high) || 1;
  return { low: low - room, high: high + room };
};

function withWords(node, text) {
  node.append(svgNode("title", {}, text));
  node.setAttribute("aria-label", text);
  return node;
}

function draw(answer) {
  const shown = answer.compared.filter((one) => isKnown(answer.price(one)) && isKnown(one.value));
  if (!shown.length) return views.replaceChildren();
  const width = Math.max(220, Math.min(760, views.clientWidth - LEFT - 24));
  const legend = Object.entries(COLOURS).map(([name, fill]) => ({ name, symbol: { fill, height: 12 } }));
  const unit = answer.by.includes("price") && data.unit ? `, ${data.unit}` : "";
  const x = { ...padded(shown.map(answer.price, answer)), title: data.by_words[answer.by] + unit };
  const y = { ...padded([data.goal, ...shown.flatMap((one) => [one.low, one.high])]), title: data.axis, hasGrid: true };
  const view = frame({ title: "Cost and goal", legend, width, height: 300, x, y });
  const at = (one) => [view.x(answer.price(one)), view.y(one.value)];
  const onFront = answer.front.map((design) => answer.of.get(design));
  const goal = view.y(data.goal);
  view.group.append(
    svgNode("polyline", { points: onFront.map((one) => at(one).join(",")).join(" "), fill: "none", stroke: "#444", "stroke-width": 1.5 }),
    line(LEFT, goal, view.right, goal, { stroke: GOAL, "stroke-width": 1.5, "stroke-dasharray": "7 4" }),
    words(view.right - 4, goal - 5, "goal", { "text-anchor": "end", fill: GOAL, ...halo }),
  );
  for (const one of shown) {
    const [[cx, cy], colour] = [at(one), COLOURS[one.verdict]];
    const text = `${one.name}: ${shortNumber(answer.price(one))}; ${one.fed}: ${one.verdict}`;
    const isChosen = one.design === answer.chosen;
    const mark = isChosen ? shape(STAR, cx, cy, { fill: CHOSEN, stroke: "white" }) : svgNode("circle", { cx, cy, r: 4.5, fill: colour, stroke: "white" });
    view.group.append(line(cx, view.y(one.low), cx, view.y(one.high), { stroke: colour }), withWords(mark, text));
  }
  const size = { width: view.right + 20, height: view.height };
  const svg = svgNode("svg", { role: "graphics-document", "aria-label": "designs", "font-family": FONT, "font-size": 12, ...size });
  svg.append(view.group);
  return views.replaceChildren(svg);
}

function tableRow(answer, one) {
  const names = Object.keys(data.cost_units).filter((name) => answer.knows(name));
  const known = names.map((name) => (isKnown(one.costs[name]) ? shortNumber(one.costs[name]) : "–"));
  const cells = [one.name, ...known, one.fed, one.verdict + (one.design === answer.chosen ? " (chosen)" : "")];
  const row = document.createElement("tr");
  row.className = one.design === answer.chosen ? "chosen" : "";
  for (const [place, text] of cells.entries())
    row.append(Object.assign(document.createElement("td"), { textContent: text, className: place && place <= known.length ? "number" : "" }));
  return row;
}

function valueOf({ value, type, name }) {
  if (type === "select-one") return name === "need" ? Number(value) : value;
  return value === "" || Number.isNaN(Number(value)) || Number(value) < 0 ? null : Number(value);
}

const state = Object.fromEntries(inputs.map((input) => [input.name, valueOf(input)]));
let answer;

function set(changes) {
  Object.assign(state, changes);
  answer = new Answer(data, state);
  for (const input of inputs) if (input.name in changes) input.value = state[input.name] ?? "";
  for (const output of document.querySelectorAll("output[id]")) output.textContent = answer.texts[output.id] ?? "";
  for (const heading of document.querySelectorAll("[data-cost]")) heading.hidden = !answer.knows(heading.dataset.cost);
  document.getElementById("told").replaceChildren(...answer.told.map((design) => tableRow(answer, answer.of.get(design))));
  draw(answer);
}

for (const input of inputs) input.addEventListener("input", () => { state[input.name] = valueOf(input); set({}); });
window.addEventListener("resize", () => draw(answer));
set({});
window.explorer = { state, set, get answer() { return answer; } };
