// What the explorer computes from the embedded data and the positions of the inputs: points, map and
// texts, which explorer_page.js draws. As in tierscope/analysis, every process's classes are scaled, the
// slowest process is picked, and repetitions are averaged.

// A number with so many significant digits, never with an exponent.
function digits(number, count) {
  const [, exponent] = number.toExponential(count - 1).split("e");
  return Number(number.toPrecision(count)).toFixed(Math.max(0, count - 1 - exponent));
}

const shortest = (number) => String(Number(digits(number, 3)));
const factorOf = (percent) => 100 / (100 + percent);
const mean = (list) => list.reduce((one, other) => one + other, 0) / list.length;

// Of equal ones the first.
const least = (list, key) => list.reduce((one, other) => (key(other) < key(one) ? other : one));

// The slowest process of each repetition after an improvement: means over the repetitions.
function byRule({ runs_s }, { factors }) {
  const classes_s = factors.map(() => 0);
  let value = 0;
  for (const processes_s of runs_s) {
    let [slowest, most_s] = [null, -1];
    for (const process_s of processes_s) {
      let time_s = 0;
      for (let place = 0; place < factors.length; place++) time_s += process_s[place] * factors[place];
      if (time_s > most_s) [slowest, most_s] = [process_s, time_s];
    }
    value += most_s / runs_s.length;
    factors.forEach((factor, place) => { classes_s[place] += (slowest[place] * factor) / runs_s.length; });
  }
  return { value, error: 1, classes_s };
}

// The model's answer for a cell of a pair's map; there is none for cell -1.
function byModel({ answers }, { pair, cell }) {
  if (cell < 0) return null;
  const { values, error_percent, parts } = answers[pair];
  const classes_s = parts.map((part) => (values[cell] * part[cell]) / 100000);
  return { value: values[cell], error: 1 + (error_percent[cell] || 0) / 100, classes_s };
}

// The subjects of a page: each computes and says in its own way what all have.
const SWEEP = {
  sign: 1, // less is better
  hasRates: true, // it has a point for each cache rate
  methods: {
    today: (point) => byRule(point, { factors: [1, 1, 1, 1] }),
    improved: byRule,
    model: byModel,
  },
  views: ["lines", "bars", "map"],
  axis: "I/O time (s)",
  linesTitle: "a  I/O time of the slowest process",
  barsTitle: "b  By class, with the improvements",
  mapTitle: "c  Improvements that meet ",
  notMet: "Grey: no cache rate meets it.",
  best: "best time",
  top: (most, nLines) => (1.1 + 0.1 * nLines) * most || 1,
  words: (value, count = 3) => `${digits(value, count)} s`,
  goal: (percent, best) => (percent / 100) * best,
  goalWords: (goal) => `${digits(goal, 3)} s`,
  goalNote(percent) { return `${percent} % of today's ${this.best}`; },
  lookedAt: (rate) => `Cache rate ${rate} %`,
  lookedAtNote: (point) => `(${point.interval})`,
  bestNote: (point) => `best: ${point.best_set}`,
  met: (rate) => `met, least cache rate ${rate} %`,
  missed(value, goal) { return `not met, the ${this.best} is ${shortest(100 * (value / goal - 1))} % above the goal`; },
  cut(value, today) {
    const percent = today > 0 ? 100 * (value / today - 1) : 0;
    const sign = percent < 0 ? "−" : "+";
    return Math.abs(percent) < 0.05 ? "(±0 %)" : `(${sign}${Math.abs(percent).toFixed(1)} %)`;
  },
  cell: (rate, best) => `${rate < 101 ? `cache rate ${rate} % suffices` : "not enough"}, best ${best}`,
  cheapestAt: (rate) => `, at a cache rate of ${rate} %.`,
  bars: (points, method, width) => points.map((point) => ({
    name: `cache rate ${point.cache_rate_percent} %`,
    estimate: point[method],
    cache_rate_percent: point.cache_rate_percent,
    middle: point.cache_rate_percent,
    width,
  })),
};
const UTILISATION = {
  ...SWEEP,
  sign: -1,
  methods: { today: (point) => byModel(point, { pair: 0, cell: 0 }), model: byModel },
  views: ["lines", "map"],
  axis: "Accelerator utilisation (%)",
  linesTitle: "a  Accelerator utilisation",
  mapTitle: "b  Improvements that meet ",
  top: () => 125, // room for labels
  words: (value) => `AU ${value.toFixed(1)} %`,
  goal: (percent) => percent,
  goalWords: (goal) => `${shortest(goal)} % AU`,
  goalNote: () => "",
  lookedAtNote: () => "",
  bestNote: () => "",
  missed: (value, goal) => `not met, ${(goal - value).toFixed(1)} points below the goal`,
  cut: () => "",
};
const JOB = {
  ...SWEEP,
  hasRates: false,
  views: ["bars", "map"],
  barsTitle: "a  I/O time of the slowest process by class",
  mapTitle: "b  Improvements that meet ",
  notMet: "Grey: not met.",
  best: "time",
  lookedAt: () => "I/O time of the slowest process",
  lookedAtNote: () => "",
  met: () => "met",
  cell: (rate, time) => `${rate < 101 ? "enough" : "not enough"}, ${time}`,
  cheapestAt: () => ".",
  bars: ([point]) => [
    { name: "today", estimate: point.today, middle: -0.475, width: 0.375 },
    { name: "with the improvements", estimate: point.improved, middle: 0.475, width: 0.375 },
  ],
};
const SUBJECTS = { sweep: SWEEP, utilisation: UTILISATION, job: JOB };

// Everything that the page shows.
class Answer {
  constructor(data, state) {
    Object.assign(this, { data, state, subject: SUBJECTS[data.subject] });
    this.names = data.classes.map(({ name }) => name);
    this.axes = [state.x_class, state.y_class].map((name) => this.names.indexOf(name));
    this.labels = this.axes.map((axis) => data.classes[axis].label);
    this.place();
    this.lists = Object.keys(data.lines);
    this.points = data.points
      .filter((point) => point.scenario === state.scenario && point.epoch === state.epoch)
      .map((point) => ({ ...point, ...this.estimates(point) }));
    this.best = Object.fromEntries(this.lists.map((name) => [name, this.bestOf(name)]));
    this.lookedAt = least(this.points, (point) => Math.abs(point.cache_rate_percent - state.cache_rate_percent));
    this.goal = this.subject.goal(state.goal_percent, this.best.today.today.value);
    this.goalWords = this.subject.goalWords(this.goal);
    this.bySomething = this.byModel || !data.lines.improved ? ", by the model" : ", by the rule";
    if (!data.pairs.length) this.bySomething = "";
    this.cells = this.map();
    this.sufficient = this.cells.filter((cell) => cell.sufficient);
    this.cheapest = data.recommended[state.scenario] ? this.cheapestCell() : undefined;
    this.texts = { ...this.commonTexts(), ...Object.assign({}, ...this.lists.map((name) => this.textsOf(name))) };
  }

  // The improvements that are shown, and where the model's answer to them is; cell -1 if it has none.
  place() {
    const { data, state, axes } = this;
    const { grid, grid_step: step } = data;
    const { x_class: x, y_class: y } = state;
    const find = (...pair) => data.pairs.findIndex((known) => String(known) === String(pair));
    this.swapped = find(y, x) >= 0;
    this.pair = Math.max(find(x, y), find(y, x));
    this.hasModel = this.pair >= 0 && data.scenes.includes(`${state.scenario} ${state.epoch}`);
    this.byModel = this.hasModel && state.method === "model";
    const nearest = (percent) => (percent < grid.at(-1) ? Math.round(percent / step) * step : grid.at(-1));
    this.percents = this.names.map((name, place) => {
      const percent = state[`${name}_improvement_percent`];
      if (!this.byModel) return percent;
      return axes.includes(place) ? Math.min(nearest(percent), grid.at(-1)) : 0;
    });
    this.factors = this.percents.map(factorOf);
    const [column, row] = axes.map((axis) => grid.indexOf(this.percents[axis]));
    const isOnMap = this.percents.every((percent, place) => axes.includes(place) || !percent);
    this.cell = this.hasModel && isOnMap && column >= 0 && row >= 0 ? this.cellAt(column, row) : -1;
  }

  // The model's answers stand in rows of the first class of its pair.
  cellAt(column, row) {
    return this.swapped ? row * this.data.grid.length + column : column * this.data.grid.length + row;
  }

  estimates(point) {
    return Object.fromEntries(this.lists.map((name) => [name, this.subject.methods[name](point, this)]));
  }

  bestOf(name) {
    return this.points[0][name] && least(this.points, (point) => this.subject.sign * point[name].value);
  }

  // Embedded numbers are rounded; a goal that is met exactly stays met.
  meets(value) {
    const { goal, subject: { sign } } = this;
    return sign * value <= sign * goal * (1 + sign * 1e-10);
  }

  // For every combination of two improvements the least cache rate that meets the goal, or 101.
  map() {
    const { subject, pair, axes: [x, y] } = this;
    const method = subject.methods[this.byModel ? "model" : "improved"];
    const cellOf = (x_percent, column, y_percent, row) => {
      const factors = this.factors.map((factor, place) =>
        (place === x ? factorOf(x_percent) : place === y ? factorOf(y_percent) : factor));
      const values = this.points.map((point) => method(point, { factors, pair, cell: this.cellAt(column, row) }).value);
      const met = this.points.filter((_, place) => x !== y && this.meets(values[place]));
      const rate = Math.min(101, ...met.map((point) => point.cache_rate_percent));
      const best = subject.words(least(values, (value) => subject.sign * value));
      const words = `${this.combination(x_percent, y_percent)}: ${subject.cell(rate, best)}`;
      return { x_percent, y_percent, column, row, min_cache_rate_percent: rate, sufficient: rate < 101, words };
    };
    const grid = method ? [...this.data.grid.entries()] : [];
    return grid.flatMap(([row, y_percent]) => grid.map(([column, x_percent]) => cellOf(x_percent, column, y_percent, row)));
  }

  combination(x_percent, y_percent) {
    return `${this.labels[0]} +${x_percent} %, ${this.labels[1]} +${y_percent} %`;
  }

  // As in tierscope/analysis: of costs that are equal to 12 digits the one that needs the least cache
  // rate, then the one of the smallest improvements in the order of classes.
  cheapestCell() {
    const { cost } = this.data;
    const { x_class: x, y_class: y } = this.state;
    const keys = ({ x_percent, y_percent, min_cache_rate_percent }) => [
      Number((cost[x] * x_percent + cost[y] * y_percent).toExponential(11)),
      min_cache_rate_percent,
      ...(this.axes[0] < this.axes[1] ? [x_percent, y_percent] : [y_percent, x_percent]),
    ];
    const difference = (one, other) => {
      const others = keys(other);
      return keys(one).map((key, place) => key - others[place]).find(Boolean) || 0;
    };
    return [...this.sufficient].sort(difference)[0];
  }

  // Where to write least cache rates that many cells have: close to the middle of them.
  get rates() {
    const rateOf = (cell) => cell.min_cache_rate_percent;
    const groups = [...new Set(this.sufficient.map(rateOf))].map((rate) => this.sufficient.filter((cell) => rateOf(cell) === rate));
    return groups.filter((group) => group.length >= 0.1 * this.cells.length).map((group) => {
      const [x, y] = [mean(group.map((cell) => cell.x_percent)), mean(group.map((cell) => cell.y_percent))];
      return least(group, (cell) => (cell.x_percent - x) ** 2 + (cell.y_percent - y) ** 2);
    });
  }

  // The cache rates of the map's colours, at least 20 % apart.
  get colourLimits() {
    const rates = this.sufficient.map((cell) => cell.min_cache_rate_percent);
    const [low, high] = [Math.min(...rates), Math.max(...rates)];
    return rates.length ? [Math.max(0, Math.min(low, high - 20)), Math.min(100, Math.max(high, low + 20))] : [0, 100];
  }

  get top() {
    const values = this.points.map((point) => point.today.value);
    return this.subject.top(Math.max(this.goal, ...values), this.lists.length);
  }

  get lines() {
    const rowOf = (name, { cache_rate_percent, [name]: { value, error, ...one } }) => ({
      when: this.data.lines[name],
      cache_rate_percent,
      value,
      low: value / error,
      high: value * error,
      words: `cache rate ${cache_rate_percent} %, ${this.data.lines[name]}: ${this.subject.words(value, 4)}${this.ends({ value, error })}`,
    });
    return this.lists.filter((name) => this.best[name]).flatMap((name) => this.points.map((point) => rowOf(name, point)));
  }

  // The best point of each line that is better than today's.
  get bestMarks() {
    const { sign, words } = this.subject;
    const marks = this.lists.filter((name) => this.best[name]).map((name, line) => {
      const { cache_rate_percent, [name]: { value } } = this.best[name];
      return { when: this.data.lines[name], line, cache_rate_percent, value, label: `${cache_rate_percent} %: ${words(value)}` };
    });
    return marks.filter(({ line, value }) => line === 0 || sign * value < sign * marks[0].value);
  }

  get bars() {
    const bars = this.subject.bars(this.points, this.byModel ? "model" : "improved", this.data.half_width);
    return bars.flatMap(({ name, estimate: { classes_s }, middle, width, cache_rate_percent }) => {
      let end_s = 0;
      return classes_s.map((time_s, place) => {
        const { label, colour } = this.data.classes[place];
        const words = `${name}, ${label}: ${this.subject.words(time_s, 4)}`;
        const [left, right, bottom_s] = [middle - width, middle + width, end_s];
        end_s += time_s;
        return { name, io_class: label, colour, words, cache_rate_percent, time_s, left, right, bottom_s, end_s };
      });
    });
  }

  ends({ value, error }) {
    return error > 1 ? ` (${digits(value / error, 3)} to ${digits(value * error, 3)} s)` : "";
  }

  commonTexts() {
    const { subject, lookedAt, state, goalWords } = this;
    return {
      looked_at: subject.lookedAt(lookedAt.cache_rate_percent),
      best: "Best cache rate",
      goal: `Goal: ${goalWords}`,
      goal_note: subject.goalNote(state.goal_percent),
      method: this.missingWords(),
      combinations: this.combinationsWords(),
    };
  }

  // What a column of the table says: today, or an estimate with the improvements.
  textsOf(name) {
    const { subject } = this;
    const meeting = this.points.find((point) => this.best[name] && this.meets(point[name].value));
    const texts = { [`goal_${name}`]: "–" };
    if (meeting) texts[`goal_${name}`] = subject.met(meeting.cache_rate_percent);
    else if (this.best[name]) texts[`goal_${name}`] = subject.missed(this.best[name][name].value, this.goal);
    const rows = { looked_at: [this.lookedAt, this.lookedAt], best: [this.best[name], this.best.today] };
    for (const [row, [point, before]] of Object.entries(rows)) {
      texts[`${row}_${name}`] = "–";
      if (!point?.[name]) continue;
      const { value, error, classes_s } = point[name];
      const where = row === "best" ? ` at ${point.cache_rate_percent} %` : "";
      const note = row === "best" ? subject.bestNote : subject.lookedAtNote;
      const isToday = name === "today";
      texts[`${row}_${name}`] = subject.words(value) + this.ends({ value, error }) + where;
      texts[`${row}_${name}_note`] = isToday ? note(point) : subject.cut(value, before.today.value);
      texts[`${row}_${name}_limit`] = [this.limit(value, classes_s), isToday && point.stall].filter(Boolean).join("; ");
    }
    return texts;
  }

  limit(value, classes_s) {
    const most_s = Math.max(...classes_s);
    const percent = value > 0 ? (100 * most_s) / value : 0;
    const largest = this.data.classes[classes_s.indexOf(most_s)];
    return largest && `${largest.label} ${this.data.limits} (${percent.toFixed(0)} %)`;
  }

  missingWords() {
    const { data, state } = this;
    if (!data.pairs.length || this.cell >= 0) return "";
    if (state.method !== "model" && this.hasModel)
      return "The model has no answer for these sliders; choose it on the left to move them to positions with an answer.";
    const what = data.lines.improved ? "scenario, epoch or pair" : "pair";
    const instead = data.lines.improved && state.method === "model" ? ": shown by the rule." : ".";
    return `The model has no answer for this ${what} of classes in ${data.map_chart}${instead}`;
  }

  combinationsWords() {
    const { data, cheapest, labels: [x, y] } = this;
    if (this.axes[0] === this.axes[1]) return `Choose two different classes for ${data.map_chart}.`;
    if (!this.cells.length) return `Choose other classes for ${data.map_chart}.`;
    const words = `${this.sufficient.length} of ${this.cells.length} combinations of ${x} and ${y} meet the goal of ${this.goalWords}${this.bySomething}.`;
    if (!cheapest) return words;
    const { x_percent, y_percent, min_cache_rate_percent } = cheapest;
    return `${words} The cheapest of these: ${this.combination(x_percent, y_percent)}${this.subject.cheapestAt(min_cache_rate_percent)}`;
  }
}
