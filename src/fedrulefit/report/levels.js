// The calculator's part for outcomes of several levels, in front of page.js: the probability of each,
// and how they stack up as one value moves. Same numbers as Model.predict_proba; a test in a browser
// compares them.
function makeLevels(names, apart, tools) {
  "use strict";
  const { byId, draw, make } = tools;
  const BAR = 26; // how wide a bar of a level of the covariate is, at most

  /** What paints a level: a colour of its own, or, in an order, one colour that grows stronger. */
  function paint(c) {
    if (!apart) return { class: "level", "fill-opacity": 0.15 + 0.85 * c / (names.length - 1) };
    return { class: "level lv" + c % 8, ...(c > 7 ? { "fill-opacity": 0.55 } : {}) };
  }
  const likeliest = (chances) => chances.indexOf(Math.max(...chances));
  const above = (chances, c) => chances.slice(c).reduce((a, b) => a + b, 0);
  const tell = (chances) => names.map((name, c) => name + " " + family.tell(chances[c])).join(", ");

  /** Show a patient's probabilities, and those before a value moved, or null; return the headline. */
  function show(chances, before) {
    const table = byId("levels"), box = byId("stack"), output = byId("risk");
    box.replaceChildren();
    table.hidden = chances === null;
    if (chances === null) {
      delete output.dataset.levels;
      return "";
    }
    output.dataset.levels = JSON.stringify(chances);
    let start = 0;
    chances.forEach((p, c) => {
      draw(box, "rect", { ...paint(c), x: 100 * start, width: 100 * p, height: 10 });
      start += p;
    });
    byId("levels-before").textContent = before ? "; in brackets, with the value entered" : "";
    const most = likeliest(chances);
    table.tBodies[0].replaceChildren(...names.map((name, c) => {
      const row = make("tr"), head = make("th");
      head.scope = "row";
      draw(draw(head, "svg", { viewBox: "0 0 12 12", class: "swatch", "aria-hidden": "true" }), "rect", { ...paint(c), width: 12, height: 12 });
      head.append(" ", make("bdi", name));
      row.append(head, make("td", family.tell(chances[c]) + (before ? " (" + family.tell(before[c]) + ")" : ""), "num"));
      if (!apart) row.append(make("td", family.tell(Math.min(above(chances, c), 1)), "num"));
      if (c === most) row.className = "likeliest";
      return row;
    }));
    return names[most] + ", " + family.tell(chances[most]).replaceAll(" ", "\u00a0");
  }

  const tellParts = (c) => (apart
    ? "What adds up to “" + names[c] + "”"
    : "What adds up to the odds of going on from “" + names[0] + "”; those of further steps start elsewhere");

  /** Stack the probabilities along a number, or in a bar at each level of the covariate. */
  function stack(box, points, place) {
    const { px, py, apart: aside, missing, bars } = place;
    const heights = (chances) => chances.reduce((ends, p) => [...ends, ends[ends.length - 1] + p], [0]);
    const bar = (x, width, chances) => {
      const ends = heights(chances);
      names.forEach((_, c) => draw(box, "rect", { ...paint(c), x: x - width / 2, width, y: py(ends[c + 1]), height: py(ends[c]) - py(ends[c + 1]) }));
    };
    if (bars) {
      const width = Math.min(BAR, 0.8 * (px(1) - px(0)) / points.length);
      for (const [share, chances] of points) bar(px(share), width, chances);
    } else {
      const all = points.map(([share, chances]) => [px(share).toFixed(1), heights(chances)]);
      names.forEach((_, c) => {
        const upper = all.map(([x, ends]) => x + " " + py(ends[c + 1]).toFixed(1));
        const lower = all.map(([x, ends]) => x + " " + py(ends[c]).toFixed(1)).reverse();
        draw(box, "path", { ...paint(c), d: "M" + [...upper, ...lower].join("L") + "Z" });
      });
    }
    if (missing !== null) bar(aside, 20, missing);
  }

  /** The same in words; `now` is the patient's probabilities and value, or null. */
  function tellStack(all, missing, now) {
    const ranges = names.map((name, c) => {
      const own = all.map((chances) => chances[c]);
      return name + " from " + family.tell(Math.min(...own)) + " to " + family.tell(Math.max(...own));
    });
    return ranges.join(", ") + (missing === null ? "" : "; if missing (?) " + tell(missing)) + "; all else as entered" +
      (now === null ? "." : "; now " + tell(now[0]) + ", at " + now[1] + ".");
  }

  return { show, likeliest, tellParts, stack, tellStack };
}
