// The calculator's part where events compete, in front of page.js: the risk of each, by each horizon
// and over time. Same numbers as Model.predict_cumulative_incidence; a test in a browser compares them.
function makeIncidence(facts) {
  "use strict";
  const PIECES = 8; // per interval: the curves bend in it
  const { ends, shares, unit, horizons } = facts, last = ends[ends.length - 1];

  /** Each event's share of its hazard before a time. */
  function shareBefore(time) {
    let k = 1;
    while (k < ends.length - 1 && ends[k] < time) k++;
    const part = (time - ends[k - 1]) / (ends[k] - ends[k - 1]);
    return shares.map((own) => (part === 1 ? own[k] : own[k - 1] + part * (own[k] - own[k - 1])));
  }

  /** Risks of all events at growing times, and of none, as Model.incidence adds them up. */
  function follow(f, times) {
    const grid = [...new Set([...ends.slice(1), ...times])].sort((a, b) => a - b), sizes = f.map((x) => Math.exp(x));
    const risks = f.map(() => 0), found = new Map();
    let gone = 0, before = shares.map(() => 0);
    for (const time of grid) {
      const here = shareBefore(time), steps = sizes.map((size, c) => size * (here[c] - before[c]));
      const total = steps.reduce((a, b) => a + b, 0), died = Math.exp(-gone) * -Math.expm1(-total);
      if (total > 0) steps.forEach((step, c) => { risks[c] += step / total * died; });
      gone += total;
      before = here;
      found.set(time, [...risks, Math.exp(-gone)]);
    }
    return times.map((time) => (time === 0 ? [...f.map(() => 0), 1] : found.get(time)));
  }

  const chances = (f) => follow(f, [last])[0];

  /** The table of horizons, and the risks stacked up over time; null for nobody. */
  function show(f, names, tools) {
    const { byId, draw, make, format, roundTicks, levels } = tools, whole = byId("over-time");
    whole.hidden = f === null;
    if (f === null) return;
    const by = follow(f, horizons.map(([time]) => time)), table = byId("horizons");
    if (table) {
      table.tBodies[0].replaceChildren(...horizons.map(([, words], k) => {
        const row = make("tr"), head = make("th", "by " + words);
        head.scope = "row";
        row.append(head, ...by[k].slice(0, -1).map((p) => make("td", family.tell(p), "num")));
        row.dataset.risks = JSON.stringify(by[k]);
        return row;
      }));
    }
    const times = ends.slice(1).flatMap((end, k) => Array.from({ length: PIECES }, (_, i) =>
      (i + 1 === PIECES ? end : ends[k] + (i + 1) / PIECES * (end - ends[k]))));
    const box = byId("survival"), all = [0, ...times], points = follow(f, all);
    const wide = Math.min(Math.max(box.clientWidth || 480, 280), 960), left = 52, right = wide - 14, top = 12, bottom = 186;
    box.replaceChildren();
    box.setAttribute("viewBox", "0 0 " + wide + " 220");
    const px = (share) => left + share * (right - left), py = (p) => bottom - p * (bottom - top);
    for (const p of [0, 0.25, 0.5, 0.75, 1]) {
      draw(box, "line", { class: "grid", x1: left, x2: right, y1: py(p), y2: py(p) });
      draw(box, "text", { x: left - 6, y: py(p) + 4, "text-anchor": "end" }, 100 * p + " %");
    }
    for (const time of roundTicks({ range: [0, last], log: false })) {
      draw(box, "text", { x: px(time / last), y: 206, "text-anchor": "middle" }, format(time));
    }
    levels.stack(box, points.map((p, k) => [all[k] / last, p]), { px, py, apart: 0, missing: null, bars: false });
    const told = horizons.map(([, words], k) => "by " + words + " " + names.map((name, c) => name + " " + family.tell(by[k][c])).join(", "));
    byId("survival-words").textContent = "Which event came first, stacked up: " + told.join("; ") + "." + (unit ? " Time in " + unit + "." : "");
  }

  return { chances, show };
}
