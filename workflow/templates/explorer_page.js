// Draws what explorer.js computes, as SVG, and lets readers move the inputs.

const VIRIDIS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];
const LINES = { today: "#777777", improved: "#222222", model: "#0B7A3B" };
const [GOAL, MET, NOT_MET] = ["#9A2A7B", "#31688E", "#dedede"];

const data = JSON.parse(document.getElementById("data").textContent);
const inputs = [...document.querySelectorAll("aside [name]")];
const views = document.getElementById("views");
const tip = document.getElementById("tip");
const colours = Object.fromEntries(Object.entries(data.lines).map(([name, when]) => [when, LINES[name]]));

// A mark that says its words, and that a click sets inputs by.
function mark(name, text, changes, attributes) {
  const node = svgNode(name, { class: "mark", role: "graphics-symbol", "aria-label": text, ...attributes });
  if (changes) {
    node.setAttribute("cursor", "pointer");
    node.addEventListener("click", () => set(changes));
  }
  return node;
}

const rateAxis = () => ({ low: data.rate_limits[0], high: data.rate_limits[1], title: data.cache_rate_label });
const valueAxis = ({ subject, top }) => ({
  low: 0,
  high: top,
  title: subject.axis,
  hasGrid: true,
  ticks: ticks(0, top, 6).filter(({ value }) => subject.sign > 0 || value <= 100),
});

function goalMarks(answer, view) {
  const at = view.y(answer.goal);
  const isLeft = answer.subject.hasRates && (answer.best.improved ?? answer.best.model ?? answer.best.today).cache_rate_percent > 50;
  const place = isLeft ? [LEFT + 4, "start"] : [view.right - 4, "end"];
  return [
    line(LEFT, at, view.right, at, { stroke: GOAL, "stroke-width": 1.5, "stroke-dasharray": "7 4" }),
    words(place[0], at - 5, `goal ${answer.goalWords}`, { "text-anchor": place[1], fill: GOAL, ...halo }),
  ];
}

function lookedAtMark(answer, view) {
  const at = view.x(answer.lookedAt.cache_rate_percent);
  return line(at, view.top, at, view.bottom, { stroke: "#444", "stroke-dasharray": "2 3" });
}

function drawLines(answer, width) {
  const legend = Object.entries(colours).map(([name, fill]) => ({ name, symbol: { fill, height: 3 } }));
  const height = answer.subject.views.includes("bars") ? 220 : 410;
  const view = frame({ title: answer.subject.linesTitle, legend, width, height, x: rateAxis(), y: valueAxis(answer) });
  for (const [when, stroke] of Object.entries(colours)) {
    const points = answer.lines.filter((one) => one.when === when);
    const corners = points.map((one) => `${view.x(one.cache_rate_percent)},${view.y(one.value)}`).join(" ");
    const dashes = stroke === LINES.model && data.lines.improved ? "6 3" : "none";
    view.group.append(svgNode("polyline", { points: corners, fill: "none", stroke, "stroke-width": 2, "stroke-dasharray": dashes }));
    for (const { cache_rate_percent, value, low, high, words: text } of points) {
      const [cx, cy] = [view.x(cache_rate_percent), view.y(value)];
      view.group.append(line(cx, view.y(low), cx, view.y(high), { stroke, "stroke-width": 1.5, opacity: 0.6 }));
      view.group.append(mark("circle", text, { cache_rate_percent }, { cx, cy, r: 3.8, fill: stroke }));
    }
  }
  view.group.append(lookedAtMark(answer, view), ...goalMarks(answer, view));
  const [low, high] = data.rate_limits;
  const labelsEnd = view.top + 15 + 17 * (legend.length - 1);
  for (const { when, line: place, cache_rate_percent, value, label } of answer.bestMarks) {
    const [x, y, fill] = [view.x(cache_rate_percent), view.y(value), colours[when]];
    const anchor = cache_rate_percent < low + 15 ? "start" : cache_rate_percent > high - 15 ? "end" : "middle";
    view.group.append(
      line(x, y, x, labelsEnd, { stroke: fill, opacity: 0.5 }),
      shape(DIAMOND, x, y, { fill, stroke: "white" }),
      words(x, view.top + 12 + 17 * place, label, { "text-anchor": anchor, "font-size": 13, "font-weight": "bold", fill, ...halo }),
    );
  }
  return view;
}

function drawBars(answer, width) {
  const { hasRates } = answer.subject;
  const middles = new Map(answer.bars.map(({ name, left, right }) => [name, (left + right) / 2]));
  const names = { low: -1, high: 1, title: "", ticks: [...middles].map(([label, value]) => ({ value, label })) };
  const legend = data.classes.map(({ label, colour }) => ({ name: label, symbol: { fill: colour, height: 12 } }));
  const title = answer.subject.barsTitle + answer.bySomething;
  const view = frame({ title, legend, width, height: hasRates ? 220 : 300, x: hasRates ? rateAxis() : names, y: valueAxis(answer) });
  for (const { words: text, colour, cache_rate_percent, left, right, bottom_s, end_s } of answer.bars) {
    const [x, y] = [view.x(left), view.y(end_s)];
    const place = { x, y, width: view.x(right) - x, height: view.y(bottom_s) - y, fill: colour };
    view.group.append(mark("rect", text, hasRates ? { cache_rate_percent } : null, place));
  }
  view.group.append(...(hasRates ? [lookedAtMark(answer, view)] : goalMarks(answer, view)));
  return view;
}

// The colour of a cache rate: low ones are dark, as in figure 4.
function colourOf(rate, [low, high]) {
  const place = ((rate - low) / (high - low)) * (VIRIDIS.length - 1);
  const [from, to] = [Math.floor(place), Math.ceil(place)].map((number) =>
    [1, 3, 5].map((start) => parseInt(VIRIDIS[number].slice(start, start + 2), 16)));
  return `rgb(${from.map((part, number) => Math.round(part + (to[number] - part) * (place % 1))).join(", ")})`;
}

function drawMap(answer, width) {
  const { hasRates } = answer.subject;
  const { grid_edges: edges } = data;
  const limits = answer.colourLimits;
  const axis = (place) => ({ low: edges[0], high: edges.at(-1), title: `${answer.labels[place]} improvement (% more throughput)` });
  const notes = [
    answer.subject.notMet + (data.recommended[answer.state.scenario] ? " Star: cheapest." : ""),
    "Circle: the sliders; click to set them.",
    `Other classes: as ${answer.byModel || !data.lines.improved ? "they are" : "set by their sliders"}.`,
  ];
  const title = answer.subject.mapTitle + answer.goalWords + answer.bySomething;
  const view = frame({ title, notes, width, height: 410, x: axis(0), y: axis(1) });
  const [xName, yName] = [answer.state.x_class, answer.state.y_class].map((name) => `${name}_improvement_percent`);
  for (const cell of answer.cells) {
    const [x, y] = [view.x(edges[cell.column]), view.y(edges[cell.row + 1])];
    const size = { width: view.x(edges[cell.column + 1]) - x, height: view.y(edges[cell.row]) - y };
    const met = hasRates ? colourOf(Math.min(cell.min_cache_rate_percent, limits[1]), limits) : MET;
    const look = { fill: cell.sufficient ? met : NOT_MET, stroke: "white", "stroke-width": 0.5 };
    view.group.append(mark("rect", cell.words, { [yName]: cell.y_percent, [xName]: cell.x_percent }, { x, y, ...size, ...look }));
  }
  const ignored = { "pointer-events": "none" };
  for (const { x_percent, y_percent, min_cache_rate_percent: rate } of hasRates ? answer.rates : [])
    view.group.append(words(view.x(x_percent), view.y(y_percent) + 4, `${rate} %`, { "text-anchor": "middle", "font-weight": "bold", ...halo, ...ignored }));
  if (answer.cheapest) {
    const { x_percent, y_percent } = answer.cheapest;
    view.group.append(shape(STAR, view.x(x_percent), view.y(y_percent), { fill: "white", stroke: "black", ...ignored }));
  }
  const [cx, cy] = answer.axes.map((axis) => answer.percents[axis]);
  view.group.append(svgNode("circle", { cx: view.x(cx), cy: view.y(cy), r: 7, fill: "none", stroke: "black", "stroke-width": 3, ...ignored }));
  return hasRates ? withColours(view, limits, width) : view;
}

// A map with the colours of cache rates below it.
function withColours(view, [low, high], width) {
  const top = view.bottom + 62;
  const stops = VIRIDIS.map((colour, place) => svgNode("stop", { offset: place / (VIRIDIS.length - 1), "stop-color": colour }));
  view.group.append(
    words(LEFT, top - 6, "least cache rate that meets the goal (%)"),
    svgNode("linearGradient", { id: "viridis" }, ...stops),
    svgNode("rect", { x: LEFT, y: top, width, height: 15, fill: "url(#viridis)" }),
    ...ticks(low, high, 5).map(({ value, label }) =>
      words(LEFT + ((value - low) / (high - low)) * width, top + 29, label, { "text-anchor": "middle" })),
  );
  return { ...view, height: top + 34 };
}

const DRAWN = { lines: drawLines, bars: drawBars, map: drawMap };

// One column of views, or two on wide screens, with the map in the second.
function draw(answer) {
  const isWide = window.innerWidth >= 1200;
  const width = Math.max(200, Math.min(420, views.clientWidth / (isWide ? 2 : 1) - LEFT - 24));
  const svg = svgNode("svg", { role: "graphics-document", "aria-label": "charts", "font-family": FONT, "font-size": 12 });
  let [across, down, height] = [0, 0, 0];
  for (const name of answer.subject.views) {
    if (isWide && name === "map") [across, down] = [width + LEFT + 24, 0];
    const view = DRAWN[name](answer, width);
    view.group.setAttribute("transform", `translate(${across} ${down})`);
    view.group.classList.add(name);
    svg.append(view.group);
    down += view.height + 14;
    height = Math.max(height, down);
  }
  const size = { width: across + width + LEFT + 20, height };
  for (const [key, value] of Object.entries(size)) svg.setAttribute(key, value);
  svg.prepend(svgNode("rect", { ...size, fill: "white" }));
  views.replaceChildren(svg);
}

// With the model, the sliders have its steps, and only its classes can be changed.
function showInputs(answer) {
  for (const [place, { name }] of data.classes.entries()) {
    const input = inputs.find((one) => one.name === `${name}_improvement_percent`);
    if (answer.byModel) state[input.name] = answer.percents[place];
    input.step = answer.byModel ? data.grid_step : 1;
    input.disabled = answer.byModel && !answer.axes.includes(place);
  }
  for (const input of inputs) {
    input.value = state[input.name];
    if (input.type === "range") input.parentElement.querySelector("output").textContent = `${state[input.name]} %`;
  }
}

const valueOf = ({ value }) => (Number.isNaN(Number(value)) ? value : Number(value));
const state = Object.fromEntries(inputs.map((input) => [input.name, valueOf(input)]));
let answer;

function set(changes) {
  Object.assign(state, changes);
  answer = new Answer(data, state);
  showInputs(answer);
  for (const output of document.querySelectorAll("output[id]")) output.textContent = answer.texts[output.id] ?? "";
  draw(answer);
}

// The charts as a file: an SVG, or a PNG with two dots for each of the page.
const svgAddress = () => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(views.firstChild))}`;

function savePng() {
  const image = new Image();
  image.addEventListener("load", () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 2 * image.width, height: 2 * image.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    Object.assign(document.createElement("a"), { download: "explorer.png", href: canvas.toDataURL() }).click();
  });
  image.src = svgAddress();
}

for (const input of inputs) input.addEventListener("input", () => set({ [input.name]: valueOf(input) }));
window.addEventListener("resize", () => draw(answer));
views.addEventListener("pointermove", ({ target, pageX, pageY }) => {
  tip.textContent = target.classList.contains("mark") ? target.getAttribute("aria-label") : "";
  Object.assign(tip.style, { left: `${Math.min(pageX + 12, window.innerWidth - 230)}px`, top: `${pageY + 16}px` });
});
views.addEventListener("pointerleave", () => { tip.textContent = ""; });
document.getElementById("save_svg").addEventListener("click", ({ target }) => { target.href = svgAddress(); });
document.getElementById("save_png").addEventListener("click", savePng);
set({});
window.explorer = { state, set, get answer() { return answer; } };
