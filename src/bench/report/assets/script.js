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
