// The page: a sentence, its entities, its lattice, and what the rules change. All state is in the address.

import { Lattice, percent } from "./lattice.js";
import { RedactionView } from "./redaction.js";

const EXAMPLE = "Ann Lee flew to Oslo.";
const PATIENCE = 150;  // milliseconds without a key before the server is asked
const NEXT = { free: "fixed", fixed: "forbidden", forbidden: "free" };

const $ = (id) => document.getElementById(id);
const chosen = new Map();  // "position tag name" -> "fixed" | "forbidden"
let tags = [];
let found = null;  // the lattice that is shown, if there is one
let shown = "";  // the text whose results are shown
let asked = null;
let timer = 0;
let redacting = null;
let redactionTimer = 0;

// What the best legal path is compared with. A model trained with the mask never learnt what an illegal step is worth,
// so its unmasked path would mean nothing: there it is the best tag of each token alone.
const COMPARISONS = {
  unmasked: { name: "unmasked path", heading: "Unmasked path", steps: "in the path that this model takes without the mask" },
  per_token: { name: "best tag per token", heading: "Best tag alone", steps: "if each token takes the encoder\u2019s best tag for it alone" },
};

const key = (position, tag) => `${position} ${tag}`;
const lattice = new Lattice($("lattice"), {
  state: (position, tag) => chosen.get(key(position, tags[tag])) ?? "free",
  choose: (position, tag) => {
    const next = NEXT[chosen.get(key(position, tags[tag])) ?? "free"];
    if (next === "fixed") for (const other of tags) if (chosen.get(key(position, other)) === "fixed") chosen.delete(key(position, other));
    chosen.delete(key(position, tags[tag]));
    if (next !== "free") chosen.set(key(position, tags[tag]), next);
    ask();
  },
  describe: (node) => { $("detail").textContent = node ? detail(...node) : ""; },
});

const redaction = new RedactionView(() => {
  writeAddress();
  clearTimeout(redactionTimer);
  redactionTimer = setTimeout(redact, PATIENCE);
});

function element(name, text = "", ...children) {
  const made = document.createElement(name);
  made.textContent = text;
  made.append(...children);
  return made;
}

function bar(share, kind = "") {
  const made = element("span", "", element("span"));
  made.className = `bar ${kind}`;
  made.setAttribute("aria-hidden", "true");
  made.firstChild.style.setProperty("--p", share);
  return made;
}

// The tags each position may carry, as the service takes them.
function fixedTags() {
  const fixed = {};
  const split = [...chosen].map(([name, state]) => [name.slice(0, name.indexOf(" ")), name.slice(name.indexOf(" ") + 1), state]);
  for (const [position, tag, state] of split) if (state === "fixed") fixed[position] = tag;
  for (const [position, tag, state] of split)
    if (state === "forbidden" && typeof fixed[position] !== "string")
      fixed[position] = (fixed[position] ?? tags).filter((other) => other !== tag);
  return fixed;
}

const sentence = () => $("text").value.toWellFormed?.() ?? $("text").value;

async function post(address, question, signal) {
  const response = await fetch(address, {
    method: "POST", headers: { "Content-Type": "application/json" }, signal, body: JSON.stringify(question),
  });
  return response.json();
}

async function ask() {
  clearTimeout(timer);
  writeAddress();
  asked?.abort();
  const text = sentence();
  $("free").disabled = chosen.size === 0;
  $("share").disabled = text.trim() === "";
  if (text.trim() === "") { $("results").hidden = true; return complain(""); }
  const fixed = fixedTags();
  if (Object.values(fixed).some((allowed) => allowed.length === 0)) return complain("Every tag of a token is forbidden; free one of them.");
  asked = new AbortController();
  const { signal } = asked;
  try {
    const whole = await post("lattice", { text, fixed, nbest: 5 }, signal);
    // A text that is too long for a lattice alone still has entities; what is wrong otherwise is refused again.
    const answer = whole.error === "refused" ? await post("tag", { text, fixed, probabilities: true }, signal) : whole;
    if (answer.error) return complain(answer.message);
    shown = text;
    found = whole.error ? null : whole;
    complain("");
    $("results").hidden = answer.tokens.length === 0;
    if (answer.tokens.length) found ? show() : showWithoutLattice(answer, whole.message);
    await redact();
  } catch (error) {
    if (error.name !== "AbortError") complain("The server does not answer.");
  }
}

// The text as it is shown above, redacted at the chosen threshold; one question at a time.
async function redact() {
  redacting?.abort();
  $("of-redaction").hidden = !redaction.on;
  if (!redaction.on || $("results").hidden) return;
  redacting = new AbortController();
  const text = shown;
  try {
    const answer = await post("redact", { text, threshold: redaction.threshold }, redacting.signal);
    if (answer.error) redaction.refuse(answer.message);
    else redaction.show(text, answer);
  } catch (error) {
    if (error.name !== "AbortError") complain("The server does not answer.");
  }
}

function complain(message) {
  $("error").hidden = message === "";
  if ($("error").textContent !== message) $("error").textContent = message;
  if (message && shown !== sentence()) $("results").hidden = true;
  if (message && found && !$("results").hidden) lattice.show(found);  // so that the choice that led here shows
}

function show() {
  tags = found.tags;
  $("of-lattice").hidden = false;
  $("no-lattice").hidden = true;
  const { offsets } = found;
  const entities = found.entities.map((one) => ({ ...one, start: offsets[one.start][0], end: offsets[one.end - 1][1] }));
  const names = showEntities(found.text, entities);
  lattice.show(found);
  $("rows-label").hidden = !lattice.hidesTags;
  $("keep-fixed").disabled = ![...chosen.values()].includes("fixed");
  $("kept").textContent = "";
  showTable();
  showFacts();
  showBest();
  const { name } = COMPARISONS[found.comparison];
  $("comparison").textContent = name;
  const steps = found.broken.length;
  $("status").textContent = `${names}. Illegal steps, ${name}: ${steps}.`;
}

// Append the sentence to the server's gold file: its fixed tags, or all of its best path.
async function keep(complete) {
  const text = found.text;
  const answer = await post("collect", { text, fixed: fixedTags(), complete }).catch(() => ({ error: true, message: "The server does not answer." }));
  const left = answer.open === 1 ? "1 token left open" : `${answer.open} tokens left open`;
  $("kept").textContent = answer.error ? `Not kept: ${answer.message}.` : `Kept${answer.open ? `, ${left}` : ""}; ${answer.sentences} so far.`;
}

function showWithoutLattice({ text, entities }, reason) {
  $("of-lattice").hidden = true;
  $("no-lattice").hidden = false;
  $("no-lattice").textContent = `The lattice is left out: ${reason}.`;
  $("status").textContent = `${showEntities(text, entities)}. ${$("no-lattice").textContent}`;
}

function hue(type) {
  const types = [...new Set(tags.map((tag) => tag.replace(/^[A-Z]-/, "")))];
  return Math.round((210 + types.indexOf(type) * 137.5) % 360);
}

// Mark the entities in their text; returns them in words.
function showEntities(text, entities) {
  const characters = Array.from(text);  // offsets count code points
  const words = (start, end) => characters.slice(start, end).join("");
  const parts = [];
  let done = 0;
  for (const { start, end, type, probability } of entities) {
    parts.push(words(done, start));
    const mark = element("mark", words(start, end), element("small", `${type} ${percent(probability)}`));
    mark.className = "entity";
    mark.dataset.type = type;
    mark.style.setProperty("--hue", hue(type));
    parts.push(mark);
    done = end;
  }
  $("entities").replaceChildren(...parts, words(done));
  return entities.map((one) => `${words(one.start, one.end)} ${one.type} ${percent(one.probability)}`).join("; ") || "No entities";
}

function detail(position, tag) {
  const { tokens, emissions, marginals, legal, transitions, start, end } = found;
  const steps = (name, cells) => (cells.length ? ` ${name} ${cells.join(", ")}.` : "");
  const score = (value) => (value < 0 ? "\u2212" : "+") + Math.abs(value).toFixed(2);
  const before = position ? [...tags.keys()] : [];
  const into = before.filter((from) => legal[from][tag]).map((from) => `${tags[from]} ${score(transitions[from][tag])}`);
  const never = before.filter((from) => !legal[from][tag]).map((from) => tags[from]);
  if (position === 0 && !start[tag]) never.push("the start of a sentence");
  const last = position === tokens.length - 1 && !end[tag] ? " It cannot end a sentence." : "";
  return `${tokens[position]}, ${tags[tag]}: probability ${percent(marginals[position][tag])}, score ${emissions[position][tag].toFixed(2)}.`
    + steps("From", into.slice(0, 12)) + steps("Never from", never.slice(0, 12)) + last;
}

function tableOf(table, caption, header, rows) {
  const head = element("thead", "", element("tr", "", ...header.map((name) => Object.assign(element("th", name), { scope: "col" }))));
  const name = element("caption", caption);
  name.className = "visually-hidden";
  table.replaceChildren(name, head, element("tbody", "", ...rows));
}

function showTable() {
  const illegal = new Set(found.broken.map((step) => step.position));
  const rows = found.tokens.map((token, at) => element("tr", "",
    Object.assign(element("th", token), { scope: "row" }),
    element("td", tags[found.path[at]]), element("td", percent(found.marginals[at][found.path[at]])),
    element("td", tags[found.comparison_path[at]]), element("td", illegal.has(at) ? "illegal" : "legal")));
  tableOf($("table"), "Both paths, token by token", ["Token", "Best legal path", "Probability", COMPARISONS[found.comparison].heading, "Its step here"], rows);
}

function showFacts() {
  const fact = (value, text, ...more) => {
    const made = element("div", "", element("b", value), element("span", text), ...more);
    made.className = "fact";
    return made;
  };
  const steps = found.broken.map(({ position, previous, tag }) => {
    const where = position === 0 ? "at the start" : position === found.tokens.length ? "at the end" : `at \u201c${found.tokens[position]}\u201d`;
    return element("li", `${previous} \u2192 ${tag} ${where}`);
  });
  const count = found.broken.length;
  $("facts").replaceChildren(
    fact(percent(found.nbest[0].probability), "probability of this path among the legal ones", bar(found.nbest[0].probability)),
    ...(found.illegal_mass === null ? [] : [
      fact(percent(found.illegal_mass), "of its probability this model spends on illegal paths without the mask", bar(found.illegal_mass, "bad")),
    ]),
    fact(String(count), `illegal step${count === 1 ? "" : "s"} ${COMPARISONS[found.comparison].steps}`, element("ul", "", ...steps)),
  );
}

function showBest() {
  const best = found.nbest[0].tags;
  const rows = found.nbest.map((one, rank) => {
    const spelt = element("td");
    spelt.className = "tags";
    one.tags.forEach((tag, at) => {
      const name = element("span", tags[tag]);
      name.title = found.tokens[at];
      name.classList.toggle("differs", tag !== best[at]);
      spelt.append(name, " ");
    });
    const button = element("button", String(rank + 1));
    button.setAttribute("aria-label", `Draw path ${rank + 1} in the lattice`);
    const row = element("tr", "", element("td", "", button), element("td", "", bar(one.probability), percent(one.probability)), spelt);
    for (const event of ["pointerenter", "focusin", "click"]) row.addEventListener(event, () => lattice.rank(one.tags));
    for (const event of ["pointerleave", "focusout"]) row.addEventListener(event, () => lattice.rank(null));
    return row;
  });
  tableOf($("nbest"), "The best legal paths and their probabilities", ["Rank", "Probability", "Tags"], rows);
}

// The address after #: text, and one fix or not for each tag the user has chosen.
function writeAddress() {
  const state = new URLSearchParams();
  if (sentence()) state.set("text", sentence());
  for (const [name, how] of chosen) state.append(how === "fixed" ? "fix" : "not", name.replace(" ", ":"));
  if ($("illegal").checked) state.set("illegal", "1");
  if (redaction.on) state.set("redact", String(redaction.threshold));
  history.replaceState(null, "", state.size ? `#${state}` : location.pathname);
}

function readAddress() {
  const state = new URLSearchParams(location.hash.slice(1));
  $("text").value = state.get("text") ?? "";
  chosen.clear();
  for (const [name, how] of [["fix", "fixed"], ["not", "forbidden"]])
    for (const each of state.getAll(name)) chosen.set(each.replace(":", " "), how);
  lattice.everyIllegal = $("illegal").checked = state.has("illegal");
  redaction.on = state.has("redact");
  const wanted = Number.parseFloat(state.get("redact"));
  if (wanted >= 0 && wanted <= 1) redaction.threshold = wanted;
  ask();
}

$("text").addEventListener("input", () => {
  chosen.clear();  // positions are those of the old sentence
  clearTimeout(timer);
  timer = setTimeout(ask, PATIENCE);
});
$("ask").addEventListener("submit", (event) => event.preventDefault());
$("example").addEventListener("click", () => { $("text").value = EXAMPLE; chosen.clear(); ask(); });
$("free").addEventListener("click", () => { chosen.clear(); ask(); });
$("keep-fixed").addEventListener("click", () => keep(false));
$("keep-all").addEventListener("click", () => keep(true));
$("share").addEventListener("click", async () => {
  const button = $("share");
  try {
    await navigator.clipboard.writeText(location.href);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Copy the address bar";  // without a secure context there is no clipboard
  }
  setTimeout(() => { button.textContent = "Copy link"; }, 2000);
});
$("illegal").addEventListener("change", () => { lattice.everyIllegal = $("illegal").checked; writeAddress(); lattice.draw(); });
$("rows").addEventListener("change", () => { lattice.everyTag = $("rows").checked; lattice.show(found); });
addEventListener("hashchange", readAddress);

const [about, promise] = await Promise.all(["health", "promise"].map(async (name) => (await fetch(name)).json()));
redaction.about(promise);
tags = about.tags;
$("collect").hidden = !about.collects;
$("model").textContent = `${about.tags.length} tags, ${about.scheme}, maskedcrf ${about.version}`;
readAddress();
