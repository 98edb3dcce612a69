// What the page of designs computes from the embedded numbers and the prices that are typed in, as
// tierscope/analysis/designs/{choice,answer,summary}.py do. No time depends on a price.

const QUANTITIES = ["price", "watts", "rack_units"];
const NONE = -1;
const rounded = (number) => Number(number.toPrecision(9));
const sum = (list) => list.reduce((one, other) => one + other, 0);
const isKnown = (number) => number !== null && number !== undefined;
const fill = (pattern, words) => pattern.replace(/\{(\w+)\}/g, (_, key) => words[key] ?? "");
const thousands = (number) => number.toLocaleString("en-US", { maximumFractionDigits: 0 });
const cents = (number) => number.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
// As in tables: three digits, or whole numbers.
const shortNumber = (number) => (Math.abs(number) < 999.5 ? String(Number(number.toPrecision(3))) : thousands(number));

class Answer {
  constructor(data, state) {
    Object.assign(this, { data, state });
    this.designs = data.designs.map((one) => ({ ...one, costs: this.costsOf(one) }));
    this.of = new Map(this.designs.map((one) => [one.design, one]));
    this.choose();
    this.front = this.frontOf();
    this.told = this.toldOf();
    this.texts = this.sentences();
  }

  costsOf(one) {
    const { state, data: { kinds } } = this;
    const costs = { hardware: one.hardware };
    for (const quantity of [...QUANTITIES, "usable_tib"]) {
      const known = kinds.filter((kind) => isKnown(state[`${kind}.${quantity}`]));
      const parts = known.map((kind) => one[kind] * state[`${kind}.${quantity}`]);
      if (quantity === "price" && isKnown(state["lfs_device.price_per_gib"])) parts.push(one.room_gib * state["lfs_device.price_per_gib"]);
      costs[quantity] = parts.length ? rounded(sum(parts)) : null;
    }
    const isTold = isKnown(costs.price) && state.hours && isKnown(state.accelerator_hour) && one.useful;
    costs.hour_price = isTold ? rounded((costs.price / state.hours + one.n_accelerators * state.accelerator_hour) / one.useful) : null;
    return costs;
  }

  knows(name) {
    return this.designs.some((one) => isKnown(one.costs[name]));
  }

  isWithin({ costs, ...one }) {
    const { state, data: { kinds } } = this;
    const numbers = { ...one, ...costs };
    const exceeds = (name) => isKnown(state[`limit.${name}`]) && isKnown(numbers[name]) && numbers[name] > state[`limit.${name}`];
    const room = state["limit.usable_tib"];
    return ![...QUANTITIES, ...kinds].some(exceeds) && !(isKnown(room) && isKnown(costs.usable_tib) && costs.usable_tib < room);
  }

  // The cheapest first, of equally cheap ones the best.
  inOrder(designs, margin = (one) => one.margin) {
    return [...designs].sort((one, other) => this.price(one) - this.price(other) || margin(other) - margin(one) || one.design - other.design);
  }

  cheapest(...asked) {
    return this.inOrder(...asked)[0]?.design ?? NONE;
  }

  price({ costs }) {
    return costs[this.by];
  }

  choose() {
    const { state } = this;
    this.by = this.knows(state.by) ? state.by : (["hour_price", ...QUANTITIES].find((name) => this.knows(name)) ?? "hardware");
    const isAllowed = (one) => one.fits && this.isWithin(one);
    const allowed = this.designs.filter((one) => isAllowed(one) && isKnown(this.price(one)));
    const most = (designs) => Math.max(0, ...designs.map((one) => one.n_accelerators));
    const is = (verdict) => (one) => one.verdict === verdict;
    this.need = state.need || most(allowed.filter(is("meets"))) || most(this.designs.filter((one) => one.fits));
    this.compared = this.designs.filter((one) => isAllowed(one) && one.n_accelerators >= this.need);
    const enough = this.compared.filter((one) => isKnown(this.price(one)));
    this.chosen = this.cheapest(enough.filter(is("meets")));
    const price = this.chosen === NONE ? Infinity : this.price(this.of.get(this.chosen));
    const cheaper = enough.filter((one) => this.price(one) < price);
    const misses = cheaper.filter(is("misses"));
    const nearness = (one) => (one.is_simulated ? one.margin : -Infinity);
    const rank = (one) => (this.chosen === NONE ? nearness(one) : this.price(one));
    const last = Math.max(...misses.map(rank));
    this.miss = this.cheapest(misses.filter((one) => rank(one) === last));
    this.undecided = this.inOrder(cheaper.filter(is("undecided"))).map((one) => one.design);
    const told = Object.keys(this.data.null_words).filter((model) => this.designs.some((one) => isKnown(one[model])));
    const chooses = (model) => this.cheapest(enough.filter((one) => isKnown(one[model]) && one[model] >= 0), (one) => one[model]);
    this.null = Object.fromEntries(told.map((model) => [model, chooses(model)]));
  }

  frontOf() {
    const shown = this.compared.filter((one) => one.is_simulated && isKnown(this.price(one)));
    const least = (one) => (this.by === "hardware" ? [...this.data.kinds, "room_gib"].map((kind) => one[kind]) : [this.price(one)]);
    const points = shown.map((one) => [...least(one), -one.margin]);
    const found = this.inOrder(shown.filter((_, place) => isOnFront(points[place], points)), () => 0);
    return found.filter((one, place) => found.findIndex((other) => other.name === one.name) === place).map((one) => one.design);
  }

  // The front, the chosen design, what misses next and is undecided, by cost.
  toldOf() {
    const found = new Set([...this.front, this.chosen, this.miss, ...this.undecided.slice(0, 12)]);
    found.delete(NONE);
    return this.inOrder([...found].map((design) => this.of.get(design)), () => 0).map((one) => one.design);
  }

  sentences() {
    const { data, chosen, miss, undecided } = this;
    const { sentences } = data;
    const [one, below] = [this.of.get(chosen), this.of.get(miss)];
    const differ = (of, other) => of.n_accelerators === other.n_accelerators && this.price(of) !== this.price(other);
    const isOnly = !this.compared.some((of) => this.compared.some((other) => differ(of, other)));
    const other = one ? sentences.cheaper : sentences.nearest;
    let rest = below ? fill(sentences.miss, { ...below, other }) : one && !undecided.length && !isOnly ? sentences.cheapest : "";
    if (undecided.length) {
      const count = `${undecided.length} ${undecided.length === 1 ? "cheaper one is" : "cheaper ones are"}`;
      rest += fill(sentences.undecided, { count, name: this.of.get(undecided[0]).name });
    }
    const answer = one ? fill(sentences.chosen, { ...one, price: this.priceWords(one), rest }) : fill(sentences.none, { rest });
    const limits = [one?.limits, fill(below?.limits_miss ?? "", { other })].filter(Boolean).join("; ");
    const limit = limits ? `${limits[0].toUpperCase()}${limits.slice(1)}.` : "";
    const measure = chosen === data.configured ? data.measure : `With the configuration's prices: ${data.measure}`;
    return { answer, limit, measure, simple: this.nullWords() };
  }

  priceWords({ costs, ...one }) {
    if (!isKnown(costs.price)) return "";
    const { state, data: { sentences, unit, kinds, pieces } } = this;
    const isPriced = (kind) => one[kind] && (isKnown(state[`${kind}.price`]) || isKnown(state[`${kind}.price_per_gib`]));
    const money = (number) => `${number} ${unit}`.trimEnd();
    const words = { money: money(thousands(costs.price)), kinds: kinds.filter(isPriced).map((kind) => `${pieces[kind]}s`).join(" and ") };
    const hour = this.by === "hour_price" ? fill(sentences.hour, { money: money(cents(costs.hour_price)) }) : "";
    return fill(sentences.price, words) + hour;
  }

  nullWords() {
    const { null_words: of, sentences } = this.data;
    const words = (design) => (design === this.chosen ? "the same" : fill("{name} ({verdict})", this.of.get(design)));
    const told = Object.entries(this.null).map(([model, design]) => `${of[model]}: ${design === NONE ? "none" : words(design)}`);
    return told.length ? fill(sentences.null, { models: told.join("; ") }) : "";
  }
}

// No other point is as little in all and less in one.
function isOnFront(point, points) {
  const beats = (other) => other.every((number, place) => number <= point[place]) && other.some((number, place) => number < point[place]);
  return !points.some(beats);
}
