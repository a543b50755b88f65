// Runs in the report, looks at what was drawn and leaves what it found as text in the page.
window.addEventListener('load', () => {
  const faults = [];
  const expect = (holds, words) => { if (!holds) faults.push(words); };
  const root = document.documentElement;
  expect(root.scrollWidth <= root.clientWidth, `the page is ${root.scrollWidth} wide in a window of ${root.clientWidth}`);

  const elsewhere = performance.getEntriesByType('resource').map(entry => entry.name).filter(name => !name.startsWith('data:'));
  expect(elsewhere.length === 0, `loads ${elsewhere}`);

  const luminance = colour => {
    const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const inside = (a, b) => a.left >= b.left - 3 && a.right <= b.right + 3 && a.top >= b.top - 3 && a.bottom <= b.bottom + 3;
  const touch = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;

  const figures = [...document.querySelectorAll('figure')];
  for (const figure of figures) {
    const drawing = figure.querySelector('.drawing'), name = figure.querySelector('h3').textContent;
    const shown = [...drawing.children].filter(svg => svg.getBoundingClientRect().width > 0), [svg] = shown, box = svg.getBoundingClientRect();
    expect(shown.length === 1, `${name}: shows ${shown.length} drawings`);
    expect(box.width <= drawing.clientWidth, `${name}: is ${box.width} wide in a place of ${drawing.clientWidth}`);
    expect(box.width > 250 && box.height > 50, `${name}: is ${box.width} by ${box.height}`);
    expect(svg.querySelector('title').textContent && svg.querySelector('desc').textContent, `${name}: has no words for those who cannot see it`);
    const marks = [...svg.querySelectorAll('.line, .mark, .bar')];
    expect(marks.length > 0, `${name}: is empty`);
    const ground = getComputedStyle(figure).backgroundColor;
    for (const mark of marks) {
      expect(inside(mark.getBoundingClientRect(), box), `${name}: a mark lies outside`);
      const style = getComputedStyle(mark), colour = mark.classList.contains('line') ? style.stroke : style.fill;
      expect(contrast(colour, ground) >= 3, `${name}: ${colour} is hardly seen on ${ground}`);
    }
    const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
    for (const [words, place] of texts) {
      expect(inside(place, box), `${name}: "${words}" lies outside`);
      for (const [other, there] of texts)
        expect(place === there || !touch(place, there), `${name}: "${words}" touches "${other}"`);
    }
  }

  for (const grid of document.querySelectorAll('.figures')) {
    const end = grid.getBoundingClientRect().right, rows = {};
    for (const { top, right } of [...grid.children].map(figure => figure.getBoundingClientRect()))
      rows[top] = Math.max(rows[top] ?? 0, right);
    expect(Object.values(rows).every(right => right > end - 3), `${grid.closest('section').id}: a row of figures is half empty`);
  }

  const table = document.querySelector('table.sortable');
  if (table) {
    const column = [...table.tHead.rows[0].cells].findIndex(head => head.textContent === 'median');
    const values = () => [...table.tBodies[0].rows].map(row => Number(row.cells[column].dataset.order));
    for (const direction of [1, -1]) {
      table.tHead.rows[0].cells[column].click();
      const found = values();
      expect(found.every((v, i) => i === 0 || (v - found[i - 1]) * direction >= 0), 'the table does not sort');
    }
  }
  const note = document.createElement('pre');
  note.id = 'probe';
  note.textContent = JSON.stringify({ figures: figures.length, faults: [...new Set(faults)] });
  document.body.append(note);
});
