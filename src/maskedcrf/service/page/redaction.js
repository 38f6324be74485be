// The redacted text: a switch, a threshold, and what the model's calibration promises there.

import { percent } from "./lattice.js";

const $ = (id) => document.getElementById(id);
const STEPS = 100;  // of the slider where nothing is promised
const LOSSES = { entities: "of the entities", tokens: "of the entities\u2019 words", types: "of the entities of any type" };
const digits = (threshold) => String(Number(threshold.toPrecision(4)));

export class RedactionView {
  // `changed` is called when the user has moved something and the text is to be asked for again.
  constructor(changed) {
    this.points = [];
    this.promise = null;
    $("redact").addEventListener("change", changed);
    $("threshold").addEventListener("input", () => { this.describe(); changed(); });
  }

  // What the service tells of its promise: thresholds to choose from, the strictest first.
  about({ promise, reason }) {
    this.promise = promise;
    const whole = promise ? [[promise.miss_rate, promise.threshold, promise.hidden], ...promise.curve] : [];
    whole.sort((a, b) => b[0] - a[0]);  // of two miss rates promised at one threshold, the lower counts
    const byThreshold = new Map(whole.map(([missRate, threshold, hidden]) => [threshold, { missRate, threshold, hidden }]));
    this.points = [...byThreshold.values()].sort((a, b) => a.threshold - b.threshold);
    if (!promise) this.points = Array.from({ length: STEPS }, (_, step) => ({ threshold: (step + 1) / STEPS }));
    $("threshold").max = this.points.length - 1;
    $("sentence").textContent = promise ? `The model\u2019s own promise, at threshold ${digits(promise.threshold)}: ${promise.sentence}` : `Nothing is promised: ${reason}.`;
    this.threshold = promise ? promise.threshold : 0.5;
  }

  get on() { return $("redact").checked; }
  set on(value) { $("redact").checked = value; }

  get point() { return this.points[$("threshold").value]; }
  get threshold() { return this.point.threshold; }
  set threshold(wanted) {
    const distance = ({ threshold }) => Math.abs(Math.log((threshold + 1e-9) / (wanted + 1e-9)));
    const nearest = this.points.reduce((best, point) => (distance(point) < distance(best) ? point : best));
    $("threshold").value = this.points.indexOf(nearest);
    this.describe();
  }

  describe() {
    const { threshold, missRate, hidden } = this.point;
    const facts = [[digits(threshold), "threshold: words at least so probable are hidden"]];
    if (this.promise) {
      const confidence = this.promise.confidence === null ? "" : `, with ${percent(this.promise.confidence)} confidence`;
      facts.push([`\u2264 ${percent(missRate)}`, `${LOSSES[this.promise.loss]} missed, on average${confidence}`]);
      facts.push([percent(hidden), "of all other words hidden too"]);
    }
    $("promised").replaceChildren(...facts.map(([value, text]) => {
      const fact = Object.assign(document.createElement("div"), { className: "fact" });
      fact.append(Object.assign(document.createElement("b"), { textContent: value }), text);
      return fact;
    }));
    $("threshold").setAttribute("aria-valuetext", facts.map((fact) => fact.join(" ")).join(", "));
  }

  // The answer to a text: marks in place of what is hidden.
  show(text, { hidden }) {
    const characters = Array.from(text);  // offsets count code points
    const parts = [];
    let done = 0;
    for (const { start, end, type, probability, source } of hidden) {
      const mark = Object.assign(document.createElement("mark"), { className: "hidden-entity", textContent: `[${type || "HIDDEN"}]` });
      mark.title = `${percent(probability)}, ${source}`;
      parts.push(characters.slice(done, start).join(""), mark);
      done = end;
    }
    $("redacted").replaceChildren(...parts, characters.slice(done).join(""));
    this.say("");
    $("redaction-status").textContent = `${hidden.length} hidden`;
  }

  // Why there is no redacted text.
  refuse(message) {
    $("redacted").replaceChildren();
    this.say(`Not redacted: ${message}.`);
  }

  say(message) {
    $("not-redacted").hidden = message === "";
    $("not-redacted").textContent = message;
    $("redaction-status").textContent = message;
  }
}
