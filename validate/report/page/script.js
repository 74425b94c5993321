'use strict';
const table = document.getElementById('claims');
const body = table.tBodies[0];
const inOrder = [...body.rows];
const heads = [...table.tHead.rows[0].cells];
const fields = Object.fromEntries(
  ['verdict', 'source', 'words'].map(name => [name, document.getElementById('filter-' + name)]));
const details = '#claims > tbody > tr > td > details';
const opener = document.getElementById('open-rows');
let sorted = { column: -1, descending: false };

function filter() {
  const words = fields.words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of inOrder) {
    const text = (row.textContent + ' ' + row.dataset.words).toLowerCase();
    const fits = (!fields.verdict.value || row.dataset.verdict === fields.verdict.value)
      && (!fields.source.value || row.dataset.source === fields.source.value)
      && words.every(word => text.includes(word));
    row.hidden = !fits;
    shown += fits;
  }
  document.getElementById('shown').textContent = `${shown} of ${inOrder.length} claims`;
}

// A third click on a heading gives back the order of the ledger.
function sort(column, descending) {
  sorted = { column, descending };
  heads.forEach((head, k) => {
    if (k === column) head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
    else head.removeAttribute('aria-sort');
  });
  const key = row => row.cells[column].dataset.sort ?? row.cells[column].textContent;
  const rows = [...inOrder];
  if (column >= 0) {
    const order = new Intl.Collator('en', { numeric: true });
    rows.sort((a, b) => (descending ? -1 : 1) * order.compare(key(a), key(b)));
  }
  body.append(...rows);
}

// What is shown is in the address, so that it can be sent to somebody.
function remember() {
  const state = new URLSearchParams();
  for (const [name, field] of Object.entries(fields)) if (field.value) state.set(name, field.value);
  if (sorted.column >= 0) {
    state.set('sort', heads[sorted.column].textContent.trim());
    if (sorted.descending) state.set('order', 'descending');
  }
  history.replaceState(null, '', '#' + (state.size ? state : 'ledger-of-claims'));
}

function recall() {
  const anchor = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (anchor) {
    if (anchor.parentElement === body) {
      for (const field of Object.values(fields)) field.value = '';
      filter();
      anchor.querySelector('details').open = true;
      anchor.scrollIntoView();
    }
    return;
  }
  const state = new URLSearchParams(location.hash.slice(1));
  if (!['sort', ...Object.keys(fields)].some(name => state.has(name))) return;
  for (const [name, field] of Object.entries(fields)) field.value = state.get(name) ?? '';
  sort(heads.findIndex(head => head.textContent.trim() === state.get('sort')), state.get('order') === 'descending');
  filter();
  document.getElementById('ledger-of-claims').scrollIntoView();
}

for (const field of Object.values(fields)) field.addEventListener('input', () => { filter(); remember(); });
heads.forEach((head, k) => head.querySelector('button').addEventListener('click', () => {
  if (sorted.column !== k) sort(k, false);
  else if (!sorted.descending) sort(k, true);
  else sort(-1, false);
  remember();
}));
for (const badge of document.querySelectorAll('[data-show]')) {
  badge.addEventListener('click', () => {
    for (const [name, field] of Object.entries(fields)) field.value = name === 'verdict' ? badge.dataset.show : '';
    filter();
  });
}
opener.addEventListener('click', () => {
  const shown = [...document.querySelectorAll(details)].filter(one => !one.closest('tr').hidden);
  const open = shown.some(one => !one.open);
  shown.forEach(one => { one.open = open; });
  opener.textContent = open ? 'close all shown' : 'open all shown';
});

// On paper nothing can be opened.
let closed = [];
addEventListener('beforeprint', () => {
  closed = [...document.querySelectorAll(details)].filter(one => !one.open);
  closed.forEach(one => { one.open = true; });
});
addEventListener('afterprint', () => closed.forEach(one => { one.open = false; }));
addEventListener('hashchange', recall);
document.querySelector('.filters').hidden = false;
filter();
recall();
