// The calculator's part over time, in front of page.js where the outcome is a time to an event:
// risks by each horizon, and the patient's survival curve. Same numbers as Model.predict_risks and
// Model.predict_survival; a test in a browser compares them.
function makeOverTime(timeline, tools) {
  "use strict";
  const { byId, draw, make, format, roundTicks } = tools;
  const PIECES = 8; // per interval: the curve bends in it
  const { ends, shares, unit, horizons } = timeline, last = ends[ends.length - 1];
  const percent = (p) => Number((100 * p).toPrecision(3)) + " %";

  /** Chance of no event up to a time, of the share of the hazard before it. */
  const alive = (f, share) => 1 - family.inverse(f + Math.log(share));

  /** Times and chances of the curve, from 0 to the last horizon. */
  function follow(f) {
    const points = [[0, 1]];
    for (let k = 0; k + 1 < ends.length; k++) {
      for (let piece = 1; piece <= PIECES; piece++) {
        const share = piece / PIECES;
        const at = (from, to) => (piece === PIECES ? to : from + share * (to - from));
        points.push([at(ends[k], ends[k + 1]), alive(f, at(shares[k], shares[k + 1]))]);
      }
    }
    return points;
  }

  function showRisks(f) {
    const table = byId("horizons");
    if (!table) return;
    table.tBodies[0].replaceChildren(...horizons.map(([, by, shift]) => {
      const row = make("tr"), head = make("th", "by " + by), risk = family.inverse(f + shift);
      head.scope = "row";
      row.append(head, make("td", family.tell(risk), "num"));
      row.dataset.risk = String(risk);
      return row;
    }));
  }

  function drawCurves(f, before) {
    const box = byId("survival"), points = follow(f), others = before === null ? [] : follow(before);
    box.replaceChildren();
    box.dataset.points = JSON.stringify(points);
    const wide = Math.min(Math.max(box.clientWidth || 480, 280), 960);
    box.setAttribute("viewBox", "0 0 " + wide + " 220");
    const lowest = Math.min(...points.concat(others).map((p) => p[1]));
    const [ground, marks] = [[0.9, 5], [0.8, 4], [0.5, 5]].find(([g]) => lowest >= g) || [0, 4];
    const left = 52, right = wide - 14, top = 12, bottom = 186;
    const px = (time) => left + time / last * (right - left);
    const py = (p) => bottom - (p - ground) / (1 - ground) * (bottom - top);
    for (let k = 0; k <= marks; k++) {
      const p = ground + (1 - ground) * k / marks;
      draw(box, "line", { class: "grid", x1: left, x2: right, y1: py(p), y2: py(p) });
      draw(box, "text", { x: left - 6, y: py(p) + 4, "text-anchor": "end" }, percent(p));
    }
    for (const time of roundTicks({ range: [0, last], log: false })) {
      draw(box, "text", { x: px(time), y: 206, "text-anchor": "middle" }, format(time));
    }
    for (const [time] of horizons.slice(0, -1)) {
      draw(box, "line", { class: "even", x1: px(time), x2: px(time), y1: top, y2: bottom });
    }
    const line = (curve) => "M" + curve.map(([t, p]) => px(t).toFixed(1) + " " + py(p).toFixed(1)).join("L");
    if (others.length) draw(box, "path", { class: "line other", d: line(others) });
    draw(box, "path", { class: "line", d: line(points) });
    for (const [time, , shift] of horizons) {
      draw(box, "circle", { class: "dot", cx: px(time), cy: py(1 - family.inverse(f + shift)), r: 5 });
    }
    return ground;
  }

  /** Show a patient's F; `before` is F before the slider moved a value, or null. */
  return (f, before) => {
    const whole = byId("over-time");
    whole.hidden = f === undefined;
    if (whole.hidden) return;
    showRisks(f);
    const ground = drawCurves(f, before);
    const chances = (own) => horizons.map(([, by, shift]) => family.tell(1 - family.inverse(own + shift)) + " up to " + by).join(", ");
    byId("survival-words").textContent = "Chance to have no event: " + chances(f) + "." +
      (before === null ? "" : " Dashed, with the value entered: " + chances(before) + ".") +
      (ground ? " The upright axis starts at " + percent(ground) + "." : "") + (unit ? " Time in " + unit + "." : "");
  };
}
