// Helpers that draw charts as SVG, of pages that compute in the browser.

const FONT = 'system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif';
const [LEFT, BELOW] = [52, 44]; // room for axes
const STAR = [...Array(10).keys()].map((corner) => {
  const [radius, angle] = [corner % 2 ? 4 : 10, (corner * Math.PI) / 5];
  return [radius * Math.sin(angle), -radius * Math.cos(angle)];
});
const DIAMOND = [[0, -7], [7, 0], [0, 7], [-7, 0]];

function svgNode(name, attributes, ...content) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...content);
  return node;
}

const line = (x1, y1, x2, y2, attributes) => svgNode("line", { x1, y1, x2, y2, ...attributes });
const words = (x, y, text, attributes = {}) => svgNode("text", { x, y, ...attributes }, text);
const halo = { stroke: "white", "stroke-width": 4, "stroke-linejoin": "round", "paint-order": "stroke" };
const shape = (corners, x, y, attributes) =>
  svgNode("polygon", { points: corners.map(([dx, dy]) => [x + dx, y + dy]).join(" "), ...attributes });

function widthOf(text) {
  const canvas = widthOf.canvas ??= document.createElement("canvas").getContext("2d");
  canvas.font = `12px ${FONT}`;
  return canvas.measureText(text).width;
}

// Round numbers between two, about as many as are wanted.
function ticks(low, high, wanted) {
  const power = 10 ** Math.floor(Math.log10((high - low) / wanted));
  const step = power * [10, 5, 2, 1].find((factor) => (high - low) / wanted / power > factor / 1.5);
  const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const first = Math.ceil(low / step);
  const numbers = Array.from({ length: Math.floor(high / step) - first + 1 }, (_, place) => (first + place) * step);
  return numbers.map((value) => ({ value, label: value.toFixed(places) }));
}

// Those of an axis of such a width whose labels do not touch.
function roomyTicks(low, high, width) {
  let [found, wanted] = [ticks(low, high, width / 40), width / 40];
  const needed = () => (found.length + 1) * (8 + Math.max(...found.map(({ label }) => widthOf(label))));
  while (found.length > 2 && needed() > width) found = ticks(low, high, (wanted -= 1));
  return found;
}

// A view with title, legend and axes; its `x` and `y` tell where numbers lie.
function frame({ title, notes = [], legend = [], width, height, x, y }) {
  const group = svgNode("g", { role: "graphics-object", "aria-label": title });
  group.append(words(0, 14, title, { "font-size": 14, "font-weight": "bold", "xml:space": "preserve" }));
  notes.forEach((note, place) => group.append(words(0, 30 + 15 * place, note, { fill: "#555" })));
  let [across, down] = [LEFT, 32];
  for (const { name, symbol } of legend) {
    const room = widthOf(name) + 38;
    if (across > LEFT && across + room > LEFT + width) [across, down] = [LEFT, down + 16];
    group.append(svgNode("rect", { x: across, y: down - 4 - symbol.height / 2, width: 14, ...symbol }), words(across + 20, down, name));
    across += room;
  }
  const top = legend.length ? down + 14 : 22 + 15 * notes.length;
  const bottom = top + height;
  const xOf = (value) => LEFT + ((value - x.low) / (x.high - x.low)) * width;
  const yOf = (value) => bottom - ((value - y.low) / (y.high - y.low)) * height;
  for (const { value, label } of y.ticks ?? ticks(y.low, y.high, height / 40)) {
    const at = yOf(value);
    if (y.hasGrid) group.append(line(LEFT, at, LEFT + width, at, { stroke: "#e6e6e6" }));
    group.append(line(LEFT - 5, at, LEFT, at, { stroke: "#888" }), words(LEFT - 8, at + 4, label, { "text-anchor": "end" }));
  }
  for (const { value, label } of x.ticks ?? roomyTicks(x.low, x.high, width)) {
    const at = xOf(value);
    group.append(line(at, bottom, at, bottom + 5, { stroke: "#888" }), words(at, bottom + 18, label, { "text-anchor": "middle" }));
  }
  group.append(
    line(LEFT, top, LEFT, bottom, { stroke: "#888" }),
    line(LEFT, bottom, LEFT + width, bottom, { stroke: "#888" }),
    words(LEFT + width / 2, bottom + 36, x.title, { "text-anchor": "middle" }),
    words(0, 0, y.title, { "text-anchor": "middle", transform: `translate(12 ${top + height / 2}) rotate(-90)` }),
  );
  return { group, x: xOf, y: yOf, top, bottom, right: LEFT + width, height: bottom + BELOW };
}
