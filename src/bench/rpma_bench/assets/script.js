// Tables sort by the column whose heading is pressed. Reading needs no script.
for (const table of document.querySelectorAll('table.sortable')) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.order === undefined ? cell.textContent : Number(cell.dataset.order);
  };
  const sort = (head, column) => {
    const down = head.ariaSort === 'ascending';
    heads.forEach(other => other.removeAttribute('aria-sort'));
    head.ariaSort = down ? 'descending' : 'ascending';
    const rows = [...body.rows].sort((a, b) => {
      const x = key(a, column), y = key(b, column);
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    body.append(...rows);
  };
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    head.addEventListener('click', () => sort(head, column));
    head.addEventListener('keydown', event => { if (event.key === 'Enter') sort(head, column); });
  });
}
// The value of the nearest point is shown under the pointer.
const hint = document.getElementById('hint');
for (const svg of document.querySelectorAll('figure .drawing > svg')) {
  svg.querySelectorAll('.point > title').forEach(title => title.remove());
  svg.addEventListener('pointermove', event => {
    let nearest = null, least = 40 ** 2;
    for (const point of svg.querySelectorAll('.point')) {
      const box = point.querySelector('.target').getBoundingClientRect();
      const distance = (box.x + box.width / 2 - event.clientX) ** 2 + (box.y + box.height / 2 - event.clientY) ** 2;
      if (distance < least || point.contains(event.target)) [nearest, least] = [point, point.contains(event.target) ? -1 : distance];
    }
    hint.hidden = nearest === null;
    if (nearest === null) return;
    hint.textContent = nearest.dataset.words;
    hint.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - hint.offsetWidth - 6))}px`;
    hint.style.top = `${event.clientY + 18 + hint.offsetHeight < innerHeight ? event.clientY + 18 : event.clientY - hint.offsetHeight - 10}px`;
  });
  svg.addEventListener('pointerleave', () => { hint.hidden = true; });
}
