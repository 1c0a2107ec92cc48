
// The page's program: the calculator. The controls of tables and colours are in tables.js.
// Same arithmetic as Model.predict; a test in a browser compares them.
// `family`, in front of it, is what the kind of the outcome makes of F (report/embedded.py).
(() => {
  "use strict";
  const island = JSON.parse(document.getElementById("island").textContent);
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const MOST_PARTS = 30;

  // ---- the model ---------------------------------------------------------

  /** Code of a known value: the number of cut-offs ≤ x, or the place of a level. */
  function encode(axis, x) {
    if (axis.kind === "category") return x;
    let low = 0, high = axis.cutoffs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (axis.cutoffs[middle] <= x) low = middle + 1; else high = middle;
    }
    return low;
  }

  function holds([feature, runs, missing], codes) {
    const code = codes[feature];
    if (code === null) return missing === 1;
    for (let k = 0; k < runs.length; k += 2) if (runs[k] <= code && code <= runs[k + 1]) return true;
    return false;
  }

  function linearValue(axis, x) {
    const known = x === null ? axis.fill : x;
    const inside = Math.min(Math.max(known, axis.limits[0]), axis.limits[1]);
    return island.ruleSpread * (inside - axis.centre) / axis.spread;
  }

  /** What each term adds to F. `values` has null for missing. */
  function addends(values) {
    const codes = values.map((x, j) => (x === null ? null : encode(island.axes[j], x)));
    return island.terms.map((term) => {
      if (term.linear !== undefined) {
        return term.coefficient * linearValue(island.axes[term.linear], values[term.linear]);
      }
      return term.conditions.every((c) => holds(c, codes)) ? term.coefficient : 0;
    });
  }

  const predictor = (values) => addends(values).reduce((a, b) => a + b, island.intercept);
  /** F of each level, or of each step of a scale, where the outcome has several levels. */
  const predictors = (values) => {
    const added = addends(values);
    return island.baseline.map((own, c) => added.reduce((sum, x, k) =>
      (counts(island.terms[k], c) ? sum + x : sum), island.intercept + own));
  };
  const counts = (term, c) => term.level === undefined || term.level === c;
  const incidence = island.incidence && makeIncidence(island.incidence);
  const chances = (values) => (incidence ? incidence.chances : family.levels)(predictors(values));
  /** The level whose terms are told: the event of interest where events compete, else the likeliest. */
  const choose = (values) => (incidence || !island.apart ? 0 : levels.likeliest(chances(values)));
  const risk = (values) => (island.apart ? chances(values)[choose(values)] : family.inverse(predictor(values)));

  // ---- words and elements ------------------------------------------------

  /** A number to its step, or four significant digits: as numerals.py writes it. */
  function format(x, step) {
    const steps = step ? Math.round(x / step) * step : NaN;
    const even = Math.abs(steps - x) <= 1e-9 * Math.max(step, Math.abs(x));
    const text = even ? String(Number(steps.toPrecision(12)))
      : Math.abs(x) >= 1e4 ? x.toFixed(0) : String(Number(x.toPrecision(4)));
    return text.replace("-", "−");
  }
  function make(tag, text, className) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  }
  function draw(parent, tag, attributes, text) {
    const element = document.createElementNS(SVG, tag);
    for (const name in attributes) element.setAttribute(name, attributes[name]);
    if (text !== undefined) element.textContent = text;
    parent.appendChild(element);
    return element;
  }
  const nameOf = (axis) => axis.name + (axis.unit ? " (" + axis.unit + ")" : "");
  function wordOf(axis, x) {
    if (x === null) return "missing";
    return axis.words ? axis.words[x] : format(x, axis.step) + (axis.unit ? " " + axis.unit : "");
  }

  // ---- the patient -------------------------------------------------------

  const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
  const INFINITE = /^([+-]?)inf(inity)?$/i;
  const controls = island.axes.map((_, j) => byId("x" + j));
  let everyPart = false;

  const GROUPS = "[1-9]\\d{0,2}(?:([ \u00a0\u2009\u202f'’])\\d{3})(?:\\1\\d{3})*";
  const grouped = (sign, least) => "[1-9]\\d{0,2}(?:\\" + sign + "\\d{3}){" + least + ",}";
  const whole = (...patterns) => (text) => patterns.some((p) => new RegExp("^(?:" + p + ")$").test(text));
  const FRACTION = /^\d+(?:e[+-]?\d+)?$/i, EITHER = /^[1-9]\d{0,2},\d{3}$/;
  const beforeComma = whole("\\d*", grouped(".", 1), GROUPS), beforePoint = whole(grouped(",", 1), GROUPS);
  const setApart = whole(grouped(",", 1), grouped(".", 1), GROUPS);
  const bare = (text) => text.replace(/\D/g, "");

  /** Number that a text spells, or undefined: as table/spelling.py. */
  function parse(text) {
    const plain = text.replaceAll("−", "-"), infinite = INFINITE.exec(plain);
    if (infinite) return infinite[1] === "-" ? -Infinity : Infinity;
    if (NUMBER.test(plain)) return Number(plain);
    const sign = /^[+-]/.test(plain) ? plain[0] : "", digits = plain.slice(sign.length);
    if (EITHER.test(digits)) return undefined;
    for (const [mark, fits] of [[",", beforeComma], [".", beforePoint]]) {
      const place = digits.lastIndexOf(mark), fraction = digits.slice(place + 1);
      if (place < 0 || !FRACTION.test(fraction) || setApart(digits)) continue;
      const before = digits.slice(0, place);
      return fits(before) ? Number(sign + (bare(before) || "0") + "." + fraction) : undefined;
    }
    return setApart(digits) ? Number(sign + bare(digits)) : undefined;
  }

  /** What kind of cell a text is to its covariate, as table/reading.py tells, and its value. */
  function look(axis, text) {
    if (text === "") return ["missing", null];
    if (axis.words) return ["known", Number(text)];
    const x = parse(text);
    if (axis.missing.some((word) => word === text.toLowerCase() || (word !== "" && Number(word) === x))) return ["missing", null];
    if (x === undefined) return ["unreadable", null];
    return [x < axis.range[0] ? "below" : x > axis.range[1] ? "above" : "known", x];
  }

  /** A text's value (null for missing, undefined where it leaves no prediction), kind and flag. */
  function readText(axis, text) {
    const [kind, x] = look(axis, text.trim()), flag = axis.flags[kind];
    return { value: flag ? (flag.refused ? undefined : flag.value) : x, kind, flag };
  }

  function read(j) {
    const control = controls[j], cell = readText(island.axes[j], control.value), { kind, flag } = cell;
    if (kind === "unreadable") control.setAttribute("aria-invalid", "true"); else control.removeAttribute("aria-invalid");
    byId("x" + j + "-hint").querySelector(".problem").textContent = flag && kind !== "missing" ? flag.text + "." : "";
    return cell;
  }

  function update() {
    const cells = controls.map((_, j) => read(j)), values = cells.map((cell) => cell.value);
    const needed = cells.flatMap((cell, j) => (cell.kind === "missing" && cell.flag ? [island.axes[j].name] : []));
    const unusual = cells.flatMap((cell) => (cell.kind !== "missing" && cell.flag ? [cell.flag.text + "."] : []));
    const output = byId("risk"), note = byId("risk-note");
    output.dataset.flags = JSON.stringify(cells.flatMap((cell) => (cell.flag ? [cell.flag.text] : [])));
    byId("risk-flags").textContent = unusual.join(" ");
    if (values.includes(undefined)) {
      output.textContent = "–";
      delete output.dataset.risk;
      note.textContent = needed.length ? "Still needed: " + needed.join(", ") + "." : "";
      setBar(0);
      tellRange(undefined);
      byId("parts").tBodies[0].replaceChildren();
      byId("parts").hidden = true;
      byId("parts-all").hidden = true;
      if (levels) levels.show(null);
    } else {
      const p = risk(values), told = levels && levels.show(chances(values), chancesBefore(values));
      output.textContent = (incidence ? "" : told) || family.tell(p);
      output.dataset.risk = String(p);
      const unknown = values.filter((x) => x === null).length;
      note.textContent = unknown ? "With " + unknown + " of " + values.length + " values unknown." : "";
      setBar(family.share ? family.share(p) : 0);
      tellRange(p);
      showParts(values);
    }
    if (overTime) showOverTime(values);
    if (incidence) incidence.show(values.includes(undefined) ? null : predictors(values), island.levels, { byId, draw, make, format, roundTicks, levels });
    showCurve(values);
  }

  /** Risks by horizon and the survival curve, beside that with the value before it was moved. */
  function showOverTime(values) {
    const before = beforeMove(values);
    overTime(values.includes(undefined) ? undefined : predictor(values), before === null ? null : predictor(before));
  }

  /** Values as they were before the slider moved one, or null. */
  function beforeMove(values) {
    if (moved === null) return null;
    const before = values.map((x, k) => (moved.j === k ? readText(island.axes[k], moved.text).value : x));
    return before.includes(undefined) ? null : before;
  }
  const chancesBefore = (values) => (beforeMove(values) === null ? null : chances(beforeMove(values)));

  function setBar(share) {
    const bar = byId("risk-bar");
    if (bar) bar.setAttribute("width", 100 * Math.min(Math.max(share, 0), 1));
  }

  /** Where a new patient's value lies, as far as held-out patients tell. */
  function tellRange(p) {
    const box = byId("risk-range");
    if (!box) return;
    const parts = p === undefined ? [] : family.ranges(p, island.reaches).map(([share, low, high]) =>
      "from " + low + " to " + high + " in " + share + " %");
    box.textContent = parts.length ? "As far as held-out patients tell, " + family.rangeWords + " " + parts.join(", and ") + "." : "";
  }

  function showParts(values) {
    const added = addends(values), own = choose(values);
    const order = island.terms.map((_, k) => k).filter((k) => added[k] !== 0 && counts(island.terms[k], own));
    if (levels) byId("parts-of").textContent = levels.tellParts(own);
    order.sort((a, b) => Math.abs(added[b]) - Math.abs(added[a]));
    const shown = everyPart ? order : order.slice(0, MOST_PARTS);
    const rows = [partRow("Starting point", island.intercept + (island.apart ? island.baseline[own] : 0), true)];
    for (const k of shown) rows.push(partRow(tellTerm(island.terms[k], values), added[k], false));
    const left = order.slice(shown.length).reduce((sum, k) => sum + added[k], 0);
    if (shown.length < order.length) rows.push(partRow(order.length - shown.length + " smaller ones", left, false));
    byId("parts").tBodies[0].replaceChildren(...rows);
    byId("parts").hidden = false;
    byId("parts-all").hidden = shown.length === order.length;
  }

  /** A rule as it stands; a linear term at this patient's value. */
  function tellTerm(term, values) {
    if (term.linear === undefined) return term.words;
    const axis = island.axes[term.linear];
    return axis.name + " = " + wordOf(axis, values[term.linear]) + " (linear)";
  }

  function partRow(words, value, start) {
    const row = make("tr"), head = make("th");
    head.scope = "row";
    head.append(make("bdi", words));
    const style = start ? "num" : value > 0 ? "num up" : "num down";
    const sign = value > 0 && !start ? "+" : "";
    row.append(head);
    if (family.additive) {
      row.append(make("td", start ? family.tell(family.inverse(value)) : family.tellEffect(family.effect(value), format), style));
      return row;
    }
    row.append(make("td", sign + value.toFixed(3).replace("-", "−"), style));
    row.append(make("td", start ? format(family.start(value)) : family.sign + family.tellEffect(family.effect(value), format), style));
    return row;
  }

  // ---- one value moves ---------------------------------------------------

  const STEPS = 200;
  const vary = byId("vary"), move = byId("move"), back = byId("back");
  let moved = null; // what stood in the control before the slider moved it
  const chosen = () => Number(vary.value);

  /** Place on the slider, 0 to 1, ↔ value. */
  function toValue(axis, share) {
    if (axis.words) return Math.min(Math.floor(share * axis.words.length), axis.words.length - 1);
    const [low, high] = axis.range;
    let x = axis.log ? low * Math.pow(high / low, share) : low + share * (high - low);
    if (axis.step) x = Math.round(x / axis.step) * axis.step;
    return Math.min(Math.max(Number(x.toPrecision(axis.step ? 12 : 4)), low), high);
  }
  function toShare(axis, x) {
    if (axis.words) return (x + 0.5) / axis.words.length;
    const [low, high] = axis.range;
    const share = axis.log ? Math.log(Math.max(x, low) / low) / Math.log(high / low) : (x - low) / (high - low);
    return Math.min(Math.max(share, 0), 1);
  }

  /** Values of the curve: both ends of every piece between cut-offs and limits. */
  function places(axis) {
    const [low, high] = axis.range;
    const inner = axis.cutoffs.concat(axis.limits).filter((x) => low < x && x < high);
    const ends = [...new Set([low, ...inner, high])].sort((a, b) => a - b);
    const found = [];
    for (let k = 0; k + 1 < ends.length; k++) {
      // The right end belongs to the next piece: its risk is that of the last value before it.
      for (let part = 0; part <= 4; part++) {
        found.push([ends[k] + (ends[k + 1] - ends[k]) * part / 4, k, part === 4]);
      }
    }
    return found;
  }

  function showCurve(values) {
    const box = byId("curve"), words = byId("curve-words");
    box.replaceChildren();
    words.textContent = "";
    const whole = byId("curve").parentElement;
    if (!vary.options.length) { whole.hidden = true; return; }
    const j = chosen(), axis = island.axes[j];
    const others = values.some((x, k) => x === undefined && k !== j);
    move.disabled = others;
    if (others) { words.textContent = "Enter the other values that are needed first."; return; }
    const at = (x) => (levels ? chances : risk)(values.map((old, k) => (k === j ? x : old)));
    const wide = Math.min(Math.max(box.clientWidth || 640, 300), 960);
    box.setAttribute("viewBox", "0 0 " + wide + " 220");
    const end = wide - 12, apart = wide - 26;
    const left = 48, right = axis.complete ? end : wide - 52, top = 12, bottom = 186;
    const points = axis.words
      ? axis.words.map((_, k) => [toShare(axis, k), at(k)])
      : linePoints(axis, at);
    const missing = axis.complete ? null : at(null);
    const heights = points.map((p) => p[1]).concat(missing === null ? [] : [missing]);
    const [ground, most, marks] = levels ? [0, 1, [0, 0.25, 0.5, 0.75, 1]] : family.shares ? shareScale(heights) : numberScale(heights);
    const px = (share) => left + share * (right - left), py = (p) => bottom - (p - ground) / (most - ground) * (bottom - top);
    for (const p of marks) {
      draw(box, "line", { class: "grid", x1: left, x2: end, y1: py(p), y2: py(p) });
      draw(box, "text", { x: left - 6, y: py(p) + 4, "text-anchor": "end" }, family.shares ? Number((100 * p).toPrecision(3)) + " %" : format(p));
    }
    drawTicks(box, axis, px);
    const now = values[j];
    move.setAttribute("aria-valuetext", now === undefined ? "not given" : wordOf(axis, now));
    if (now !== undefined && now !== null) move.value = String(Math.round(STEPS * toShare(axis, now)));
    if (levels) {
      levels.stack(box, points, { px, py, apart, missing, bars: Boolean(axis.words) });
      if (missing !== null) draw(box, "text", { x: apart, y: 206, "text-anchor": "middle" }, "?");
      if (now !== undefined) {
        const x = now === null ? apart : px(toShare(axis, now));
        draw(box, "line", { class: "here", x1: x, x2: x, y1: top, y2: bottom });
      }
      words.textContent = nameOf(axis) + ": " + levels.tellStack(points.map((p) => p[1]), missing, now === undefined ? null : [at(now), wordOf(axis, now)]);
      return;
    }
    if (axis.words) {
      for (const [share, p] of points) draw(box, "circle", { class: "dot", cx: px(share), cy: py(p), r: 6 });
    } else {
      draw(box, "path", { class: "line", d: "M" + points.map(([s, p]) => px(s).toFixed(1) + " " + py(p).toFixed(1)).join("L") });
    }
    if (missing !== null) {
      draw(box, "circle", { class: "dot", cx: apart, cy: py(missing), r: 6 });
      draw(box, "text", { x: apart, y: 206, "text-anchor": "middle" }, "?");
    }
    if (now !== undefined) {
      draw(box, "circle", { class: "now", cx: now === null ? apart : px(toShare(axis, now)), cy: py(at(now)), r: 7 });
    }
    const risks = points.map((p) => p[1]);
    words.textContent = nameOf(axis) + ": " + family.level + " from " + family.tell(Math.min(...risks)) + " to " + family.tell(Math.max(...risks)) +
      (missing === null ? "" : ", " + family.tell(missing) + " if missing (?)") + ", all else as entered" +
      (now === undefined ? "." : "; now " + family.tell(at(now)) + " at " + wordOf(axis, now) + ".");
  }

  /** Ends of the upright axis and its marks: of probabilities, from 0 on. */
  function shareScale(heights) {
    const highest = Math.max(...heights, 0);
    const most = [0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1].find((m) => highest <= m) || 1;
    return [0, most, [0, 1, 2, 3, 4].map((k) => most * k / 4)];
  }
  /** Of other numbers, around those that are drawn. */
  function numberScale(heights) {
    const low = Math.min(...heights, ...(family.fromZero ? [0] : [])), high = Math.max(...heights), span = high - low || Math.abs(high) || 1;
    const ends = [family.fromZero ? low : low - 0.08 * span, high + 0.08 * span];
    return [...ends, roundTicks({ range: ends, log: false })];
  }

  /** Prediction along a number. Within a piece the rules are those of its left end. */
  function linePoints(axis, at) {
    const found = places(axis);
    return found.map(([x, , last]) => {
      const before = last ? x - (x - axis.range[0]) * 1e-9 - 1e-12 : x;
      return [toShare(axis, x), at(before)];
    });
  }

  function drawTicks(box, axis, px) {
    const ticks = axis.words ? axis.words.map((_, k) => k) : roundTicks(axis);
    const every = Math.ceil(ticks.length / 8);
    ticks.filter((_, k) => k % every === 0).forEach((x) => {
      let text = axis.words ? axis.words[x] : format(x);
      if (text.length > 12) text = text.slice(0, 11) + "…";
      draw(box, "text", { x: px(toShare(axis, x)), y: 206, "text-anchor": "middle" }, text);
    });
  }

  /** A few round numbers inside a number's range. */
  function roundTicks(axis) {
    const [low, high] = axis.range, found = [];
    if (axis.log && high / low >= 30) {
      for (let x = Math.pow(10, Math.ceil(Math.log10(low) - 1e-9)); x <= high; x *= 10) found.push(x);
      return found;
    }
    const size = Math.pow(10, Math.floor(Math.log10((high - low) / 4)));
    const step = size * [1, 2, 2.5, 5, 10].find((m) => (high - low) / (m * size) <= 6);
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(Number((k * step).toPrecision(12)));
    return found;
  }

  const levels = island.levels && makeLevels(island.levels, island.apart, { byId, draw, make });
  const overTime = island.timeline && makeOverTime(island.timeline, { byId, draw, make, format, roundTicks });
  const form = byId("patient"), forget = () => { moved = null; back.hidden = true; };
  for (const kind of ["input", "reset"]) form.addEventListener(kind, forget);
  vary.addEventListener("change", forget);
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(update, 0));
  byId("parts-all").addEventListener("click", () => { everyPart = true; update(); });
  vary.addEventListener("change", update);
  addEventListener("resize", update);
  move.addEventListener("input", () => {
    const j = chosen();
    if (moved === null || moved.j !== j) moved = { j, text: controls[j].value };
    controls[j].value = String(toValue(island.axes[j], Number(move.value) / STEPS));
    back.hidden = false;
    update();
  });
  back.addEventListener("click", () => {
    if (moved !== null) controls[moved.j].value = moved.text;
    forget();
    update();
    move.focus();
  });
  update();
})();
