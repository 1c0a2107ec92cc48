// Sets the marks of paper.py into a page as it is printed, and returns where they were set.
() => {
  let last = 0;
  const walk = (root) => document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const texts = (root) => {
    const walker = walk(root), found = [];
    while (walker.nextNode()) if (walker.currentNode.data.trim()) found.push(walker.currentNode);
    return found;
  };
  const isMark = (node) => node.parentElement.className === "mark";
  const shown = (node) => node.parentElement.checkVisibility() && !node.parentElement.closest("svg");
  function mark() {
    const span = document.createElement("span");
    span.className = "mark";
    span.textContent = "q" + ++last + "z";
    span.style.fontSize = "2px";
    span.style.whiteSpace = "nowrap";
    span.style.unicodeBidi = "isolate-override";
    span.style.direction = "ltr";
    return [span, last];
  }
  function before(node) { const [span, id] = mark(); node.before(span); return id; }
  function after(node) { const [span, id] = mark(); node.after(span); return id; }

  const printed = (selector) => [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility());
  const everything = texts(document.body);
  const next = (element) => everything.find((node) => !isMark(node) && shown(node) &&
    element.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING && !element.contains(node));

  const headings = printed("h1, h2, h3, summary, caption").map((element) => {
    const follows = next(element);
    return { words: element.textContent, head: after(texts(element).at(-1)), text: follows ? before(follows) : null };
  });
  const tables = printed("main table").map((table) => ({
    words: table.caption.textContent,
    heads: [...(table.tHead ? table.tHead.querySelectorAll("th") : [])].map((cell) => ({
      words: cell.textContent, marks: texts(cell).filter((node) => !isMark(node)).map(after),
    })).filter((cell) => cell.marks.length),
    rows: [...table.tBodies[0].rows].filter((row) => row.checkVisibility()).map((row) => {
      const inside = texts(row).filter((node) => !isMark(node) && shown(node));
      return [before(inside[0]), ...[...row.cells].map((cell) => {
        const own = texts(cell).filter((node) => !isMark(node) && shown(node)).at(-1);
        return own ? after(own) : null;
      }).filter((id) => id !== null)];
    }),
  }));
  const figures = printed("figure").map((figure) => {
    const title = figure.querySelector("figcaption");
    const drawing = figure.querySelector("svg.chart"), [, , , height] = drawing.getAttribute("viewBox").split(" ");
    const ends = [3, Number(height) - 1].map((y) => {
      const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
      text.textContent = "q" + ++last + "z";
      text.style.fontSize = "2px";
      text.setAttribute("y", y);
      drawing.append(text);
      return last;
    });
    return { first: figure, words: title.textContent, marks: [after(texts(title).at(-1)), ...ends] };
  });
  const groups = printed(".charts").filter((group) => group.querySelector("figure")).map((group) => ({
    words: group.previousElementSibling.textContent,
    marks: [after(texts(group.previousElementSibling).at(-1)), figures.find((f) => f.first === group.querySelector("figure")).marks[0]],
  }));
  return { headings, tables, figures: figures.map(({ words, marks }) => ({ words, marks })).concat(groups) };
}
