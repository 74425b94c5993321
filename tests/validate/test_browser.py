"""The page of the report in a real browser without a screen: clicked, filtered and printed."""

import pytest

from superposition.validate import ledger
from superposition.validate.report import build
from superposition.validate.runner import registry
from superposition.validate.runner.declarations import Section, TopicContent

from .browser import needs_browser, result_of_page

pytestmark = needs_browser

# Two frames, one at an address that asks for a filter. Waiting for a frame's
# load event lets its own script run first.
HARNESS = """<!DOCTYPE html><html><body>
<iframe id="page" src="report.html"></iframe>
<iframe id="asked" src="report.html#source=cowsik2024&sort=id&order=descending"></iframe>
<iframe id="row" src="report.html#c9"></iframe>
<script>
const result = {};
const frame = id => document.getElementById(id);
const all = (page, inside) => [...page.querySelectorAll('#claims > tbody > tr' + inside)];
const shown = page => all(page, '').filter(row => !row.hidden).map(row => row.id);
function look() {
  const view = frame('page').contentWindow, page = view.document;
  const field = name => page.getElementById('filter-' + name);
  const set = (name, value) => {
    field(name).value = value;
    field(name).dispatchEvent(new view.Event('input', { bubbles: true }));
  };
  result.all = shown(page);
  result.count = page.getElementById('shown').textContent;
  result.loaded = view.performance.getEntriesByType('resource').map(entry => entry.name);

  set('verdict', 'misprint');
  result.corrected = shown(page);
  result.address = view.location.hash;
  set('verdict', '');
  set('words', 'lambda MINUS');
  result.words = shown(page);
  set('words', '');

  const heads = [...page.querySelectorAll('#claims > thead th')];
  const button = heads[0].querySelector('button');
  button.focus();
  result.focused = page.activeElement === button;
  result.sorted = [];
  for (let k = 0; k < 3; k++) {
    button.click();
    result.sorted.push([heads[0].getAttribute('aria-sort'), ...shown(page)]);
  }
  page.querySelector('[data-show="holds, up to constants"]').click();
  result.badge = shown(page);
  set('verdict', '');

  const details = page.querySelector('#c8 details');
  result.closed = details.querySelector('div').checkVisibility();
  details.querySelector('summary').click();
  result.opened = details.querySelector('div').checkVisibility();
  details.querySelector('.code > summary').click();
  result.code = details.querySelector('pre').checkVisibility();

  const open = () => all(page, ' > td > details').filter(one => one.open).length;
  view.dispatchEvent(new view.Event('beforeprint'));
  result.printed = open();
  view.dispatchEvent(new view.Event('afterprint'));
  result.after = open();
  page.getElementById('open-rows').click();
  result.opened_all = open();
  page.getElementById('open-rows').click();
  result.closed_all = open();

  result.asked = shown(frame('asked').contentDocument);
  result.row = frame('row').contentDocument.querySelector('#c9 details').open;
}
addEventListener('load', () => {
  try { look(); } catch (error) { result.error = String(error); }
  document.body.dataset.result = JSON.stringify(result);
});
</script></body></html>"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    shown = TopicContent("Text.", [], [], "A straight line was found, and this sentence is of use.")
    part = build.write_topic(folder, "toy", "line", shown)
    rows = ledger.run(["C8", "C9", "C18", "L3", "L32"])
    facts = build.run_facts("quick", 0, 1.0, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "load_section", lambda name: Section(name, "A toy", "Text.", {}, []))
        page = build.render_page([part], rows, facts)
    (folder / "report.html").write_text(page, encoding="utf-8")
    (folder / "harness.html").write_text(HARNESS, encoding="utf-8")
    return result_of_page(folder / "harness.html", "--allow-file-access-from-files", seconds=120)


ALL = ["l3", "l32", "c8", "c9", "c18"]


def test_nothing_is_loaded_and_rows_are_filtered(seen):
    assert seen["loaded"] == []
    assert (seen["all"], seen["count"]) == (ALL, "5 of 5 claims")
    assert (seen["corrected"], seen["address"]) == (["c8"], "#verdict=misprint")
    assert seen["words"] == ["l3"]  # typed as in the ledger's text, though the page shows another letter
    assert seen["badge"] == ["c18"]
    assert seen["asked"] == ["c18", "c9", "c8"]  # by the address
    assert seen["row"]


def test_rows_open_to_evidence_and_code_and_on_paper(seen):
    assert (seen["closed"], seen["opened"], seen["code"]) == (False, True, True)
    assert (seen["opened_all"], seen["closed_all"]) == (5, 0)
    assert (seen["printed"], seen["after"]) == (5, 1)


def test_rows_are_sorted_with_the_keyboard_too(seen):
    assert seen["focused"]
    up, down, none = seen["sorted"]
    assert up == ["ascending", "c8", "c9", "c18", "l3", "l32"]
    assert down == ["descending", "l32", "l3", "c18", "c9", "c8"]
    assert none == [None, *ALL]
