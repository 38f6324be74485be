// The lattice: an accessible grid of nodes, one row a tag and one column a token, with the paths drawn behind it.

const SVG = "http://www.w3.org/2000/svg";
const MOST_ROWS = 11;

export const percent = (share) => {
  if (share > 0 && share < 0.0001) return "< 0.01 %";
  if (share < 1 && share > 0.9999) return "> 99.99 %";
  return (100 * share).toFixed(2) + " %";
};

const make = (name, attributes, parent) => {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent?.append(element);
  return element;
};

export class Lattice {
  #home; #found; #state; #cells = new Map(); #rows = []; #svg; #at = [0, 0]; #shown = null; #ranked = null;

  // `state(position, tag)` is "fixed", "forbidden" or "free"; `choose(position, tag)` changes it.
  constructor(home, { state, choose, describe }) {
    this.#home = home;
    this.#state = state;
    this.choose = choose;
    this.describe = describe;
    this.everyIllegal = this.everyTag = false;
    new ResizeObserver(() => this.draw()).observe(home);
  }

  show(found) {
    this.#found = found;
    const refocus = this.#home.contains(document.activeElement);
    this.#rows = this.#chooseRows();
    this.#shown = this.#ranked = null;
    this.#build();
    if (refocus) this.#focus(...this.#at);
    this.draw();
  }

  get hidesTags() {
    return this.#found.tags.length > MOST_ROWS;
  }

  // Every tag on a path or chosen by the user, then the likeliest.
  #chooseRows() {
    const { tags, path, comparison_path, marginals, nbest, tokens } = this.#found;
    const all = [...tags.keys()];
    if (this.everyTag || !this.hidesTags) return all;
    const needed = new Set([...path, ...comparison_path, ...nbest.flatMap((one) => one.tags)]);
    for (const tag of all) if (tokens.some((_, at) => this.#state(at, tag) !== "free")) needed.add(tag);
    const mass = (tag) => Math.max(...marginals.map((row) => row[tag]));
    const likeliest = all.filter((tag) => !needed.has(tag)).sort((a, b) => mass(b) - mass(a));
    const kept = new Set([...needed, ...likeliest.slice(0, Math.max(0, MOST_ROWS - needed.size))]);
    return all.filter((tag) => kept.has(tag));
  }

  #build() {
    const { tokens, tags } = this.#found;
    const table = document.createElement("table");
    table.className = "grid";
    table.setAttribute("role", "grid");
    table.setAttribute("aria-labelledby", "lattice-title");
    table.setAttribute("aria-describedby", "lattice-hint");
    const head = table.createTHead().insertRow();
    head.append(document.createElement("td"));
    for (const token of tokens) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = cell.title = token;
      head.append(cell);
    }
    this.#cells.clear();
    const body = table.createTBody();
    for (const tag of this.#rows) {
      const row = body.insertRow();
      const name = document.createElement("th");
      name.scope = "row";
      name.textContent = tags[tag];
      row.append(name);
      tokens.forEach((_, position) => row.append(this.#node(position, tag)));
    }
    this.#svg = make("svg", { "aria-hidden": "true" });
    this.#home.replaceChildren(this.#svg, table);
    this.#at = [Math.min(this.#at[0], tokens.length - 1), Math.min(this.#at[1], this.#rows.length - 1)];
    this.#cell(...this.#at).tabIndex = 0;
    table.addEventListener("keydown", (event) => this.#key(event));
    table.addEventListener("pointerleave", () => this.#show(null));
    table.addEventListener("focusout", () => this.#show(null));
  }

  #node(position, tag) {
    const { tokens, tags, marginals, emissions, path, comparison, comparison_path } = this.#found;
    const state = this.#state(position, tag);
    const cell = document.createElement("td");
    cell.setAttribute("role", "gridcell");
    cell.tabIndex = -1;
    cell.dataset.position = position;
    cell.dataset.tag = tags[tag];
    cell.classList.add(state);
    cell.classList.toggle("on", path[position] === tag);
    const node = document.createElement("span");
    node.className = "node";
    node.textContent = state === "forbidden" ? "\u00d7" : "";
    node.style.setProperty("--p", marginals[position][tag]);
    const facts = [tokens[position], tags[tag], percent(marginals[position][tag]), `score ${emissions[position][tag].toFixed(2)}`];
    if (path[position] === tag) facts.push("on the best legal path");
    if (comparison_path[position] === tag) facts.push(comparison === "unmasked" ? "on the unmasked path" : "best tag of the token alone");
    if (state !== "free") facts.push(state);
    cell.setAttribute("aria-label", facts.join(", "));
    cell.append(node);
    const row = this.#rows.indexOf(tag);
    cell.addEventListener("click", () => { this.#focus(position, row); this.choose(position, tag); });
    cell.addEventListener("pointerenter", () => this.#show([position, tag]));
    cell.addEventListener("focus", () => this.#show([position, tag]));
    this.#cells.set(`${position} ${tag}`, cell);
    return cell;
  }

  #cell(position, row) {
    return this.#cells.get(`${position} ${this.#rows[row]}`);
  }

  #focus(position, row) {
    this.#cell(...this.#at).tabIndex = -1;
    this.#at = [position, row];
    const cell = this.#cell(position, row);
    cell.tabIndex = 0;
    cell.focus({ preventScroll: true });
    cell.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  #key(event) {
    const [position, row] = this.#at;
    const last = this.#found.tokens.length - 1;
    const moves = {
      ArrowLeft: [position - 1, row], ArrowRight: [position + 1, row],
      ArrowUp: [position, row - 1], ArrowDown: [position, row + 1],
      Home: [0, event.ctrlKey ? 0 : row], End: [last, event.ctrlKey ? this.#rows.length - 1 : row],
    };
    if (event.key in moves) {
      const [column, line] = moves[event.key];
      if (this.#cell(column, line)) this.#focus(column, line);
    } else if (event.key === "Enter" || event.key === " ") {
      this.choose(position, this.#rows[row]);
    } else return;
    event.preventDefault();
  }

  #show(node) {
    this.#shown = node;
    this.describe(node);
    this.draw();
  }

  // Draw one path of the list beside the others, or none.
  rank(tags) {
    this.#ranked = tags;
    this.draw();
  }

  draw() {
    if (!this.#svg?.isConnected || this.#home.offsetParent === null) return;  // nothing to measure
    const { path, comparison_path, tokens, legal } = this.#found;
    this.#svg.replaceChildren();
    if (this.everyIllegal) {
      for (let position = 1; position < tokens.length; position++)
        for (const from of this.#rows) for (const to of this.#rows)
          if (!legal[from][to]) this.#edge(position, from, to, "illegal all", "all");
      for (const tag of this.#rows) this.#edgesOfSentence(tag, tag, "all");
    }
    if (this.#shown) this.#around(...this.#shown);
    if (this.#ranked) this.#path(this.#ranked, "ranked");
    this.#path(comparison_path, "free");
    this.#path(path, "masked");
  }

  #path(tags, kind) {
    const { legal } = this.#found;
    for (let position = 1; position < tags.length; position++) {
      const [from, to] = [tags[position - 1], tags[position]];
      this.#edge(position, from, to, legal[from][to] ? kind : "illegal");
    }
    if (kind === "free") this.#edgesOfSentence(tags[0], tags.at(-1));
  }

  // All steps into and out of one node, the illegal ones crossed out.
  #around(position, tag) {
    const { legal, tokens } = this.#found;
    for (const other of this.#rows) {
      if (position > 0) this.#edge(position, other, tag, legal[other][tag] ? "possible" : "illegal all", "all");
      if (position + 1 < tokens.length) this.#edge(position + 1, tag, other, legal[tag][other] ? "possible" : "illegal all", "all");
    }
  }

  #edge(position, from, to, kind, size = "") {
    const [x1, y1] = this.#centre(position - 1, from);
    const [x2, y2] = this.#centre(position, to);
    const length = Math.hypot(x2 - x1, y2 - y1);
    const [dx, dy] = [(12 * (x2 - x1)) / length, (12 * (y2 - y1)) / length];
    const shift = kind === "free" || kind === "illegal" ? 3 : 0;  // so that both paths show where they agree
    const ends = { x1: x1 + dx, y1: y1 + dy + shift, x2: x2 - dx, y2: y2 - dy + shift };
    make("line", { ...ends, class: kind }, this.#svg);
    if (kind.startsWith("illegal")) this.#cross((x1 + x2) / 2, (y1 + y2) / 2 + shift, size);
  }

  #edgesOfSentence(first, last, size = "") {
    const { start, end, tokens } = this.#found;
    const [x1, y1] = this.#centre(0, first);
    const [x2, y2] = this.#centre(tokens.length - 1, last);
    if (!start[first]) this.#outside(x1 - 34, y1, x1 - 12, size);
    if (!end[last]) this.#outside(x2 + 12, y2, x2 + 34, size);
  }

  #outside(from, y, to, size) {
    make("line", { x1: from, y1: y, x2: to, y2: y, class: `illegal ${size}` }, this.#svg);
    this.#cross((from + to) / 2, y, size);
  }

  #cross(x, y, size) {
    const arm = size ? 3 : 6;
    const shape = `M${x - arm} ${y - arm}L${x + arm} ${y + arm}M${x - arm} ${y + arm}L${x + arm} ${y - arm}`;
    make("path", { d: shape, class: `cross ${size}` }, this.#svg);
  }

  #centre(position, tag) {
    const home = this.#home.getBoundingClientRect();
    const box = this.#cells.get(`${position} ${tag}`).firstChild.getBoundingClientRect();
    return [box.left + box.width / 2 - home.left, box.top + box.height / 2 - home.top];
  }
}
