// looks.mjs URL FOLDER: shows the page answers that it makes up, some with hostile names, and checks
// what it looks like, by keyboard and for a screen reader. Writes screenshots into the folder.

import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join} from 'node:path';

import {EVENTS, event, node, pass} from './answers.mjs';
import {check, openPage, withBrowser} from './browser.mjs';
import {wrongBoxes} from './look.mjs';

const [url, folder] = process.argv.slice(2);
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const NAMES = ['trainer', 'serve-0', 'notebook', 'batch', 'tool'];
const HOSTILE = [
  '<img src=x onerror=alert(1)>', '"><script>alert(2)</script>', 'x'.repeat(256),
  '\u202egnp.exe', '${alert(3)}{{4}}javascript:alert(5)',
];
const HOSTILE_EVENTS = [event('2026-01-02T03:14:05.678Z', 'started', HOSTILE[0] + HOSTILE[1])];
// Answers: of a minute, and enough to know what is used.
const MINUTE = 31;
const FEW = 4;
const SILENT = {
  name: 'gpu-node-3', error: 'connection refused', version: '', driver: '', time: 0, gpus: [],
  containers: [], events: [],
};

/** A page that has had so many answers. `asked.fails`: the next ones do not come. */
async function show(browser, overview, answers, options) {
  const shown = await openPage(browser, url, options);
  const {page} = shown;
  const asked = {count: 0, fails: false};
  await page.route('**/api/overview', (route) => {
    ++asked.count;
    return asked.fails ? route.abort() : route.fulfill({json: pass(overview)});
  });
  await page.clock.install();
  await page.goto(url);
  await page.waitForSelector('main > .summary');
  const turn = async () => {
    const before = asked.count;
    await page.clock.runFor(2000);
    while (asked.count === before) {
      await page.clock.runFor(100);
    }
    await page.evaluate(() => new Promise(requestAnimationFrame));
  };
  for (let answer = 1; answer < answers; ++answer) {
    await turn();
  }
  return {...shown, asked, turn};
}

async function checkAxe(page, where) {
  await page.evaluate(AXE);
  const {violations} = await page.evaluate(() => window.axe.run({resultTypes: ['violations']}));
  const said = violations.map((one) => `${one.impact} ${one.id}: ${one.nodes[0].html}`);
  check(said.length === 0, `${where}: ${said.join('\n')}`);
}

/** Reaches each slice by keys alone. */
async function checkKeys(page, slices) {
  const reached = new Set();
  const active = () => page.evaluate(() => {
    const element = document.activeElement;
    const style = getComputedStyle(element);
    return {
      slice: element.matches('.slice'), label: element.getAttribute('aria-label'),
      visible: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
      details: document.querySelectorAll('.details').length,
      body: element === document.body,
    };
  });
  for (let stop = 0; stop < 20; ++stop) {
    await page.keyboard.press('Tab');
    let at = await active();
    check(at.body || at.visible, `the focus on ${at.label} is not seen`);
    while (at.slice && !reached.has(at.label)) {
      check(at.details > 0, `${at.label} has no details`);
      reached.add(at.label);
      await page.keyboard.press('ArrowRight');
      at = await active();
    }
  }
  check(reached.size === slices, `keys reach ${[...reached].join('; ')}`);
  await page.keyboard.press('Escape');
}

async function checkNode(browser, width, colorScheme) {
  const where = `${width}-${colorScheme}`;
  const overview = {kind: 'node', time: 1.76e9, nodes: [node('gpu-node-1', NAMES, EVENTS)]};
  const {page, faults, context} = await show(browser, overview, MINUTE,
    {viewport: {width, height: 900}, colorScheme, reducedMotion: 'reduce'});
  await page.screenshot({path: join(folder, `node-${where}.png`), fullPage: true});
  const wrong = await page.evaluate(wrongBoxes);
  check(wrong.length === 0, `${where}: ${wrong.join('\n')}`);
  await checkAxe(page, where);
  const waste = await page.locator('.waste li').allTextContents();
  check(waste.length === 1 && waste[0].startsWith('notebook holds 4\u00a0GiB and a quarter of'),
        `idle: ${waste}`);
  const moves = await page.evaluate(() =>
    getComputedStyle(document.querySelector('.slice')).transitionDuration);
  check(moves === '0s', `something moves: ${moves}`);
  await checkKeys(page, 5);
  const still = await page.evaluate(wrongBoxes);
  check(still.length === 0 && faults.length === 0, `${where}: ${[...still, ...faults].join('\n')}`);
  await context.close();
}

async function checkHostile(browser) {
  const hostile = node('gpu-node-1', HOSTILE, HOSTILE_EVENTS);
  const overview = {kind: 'cluster', time: 1.76e9, nodes: [hostile, SILENT]};
  const {page, faults, context} = await show(browser, overview, FEW,
    {viewport: {width: 360, height: 800}});
  await page.screenshot({path: join(folder, 'hostile-360.png'), fullPage: true});
  const names = await page.locator('.name').allTextContents();
  check(names.includes(HOSTILE[0]) && names.includes(`${HOSTILE[1]}/main`) &&
        names.includes('\ufffdgnp.exe'), `names: ${names}`);
  const made = await page.locator('#app :is(img, script, iframe, object, a:not(.quiet))').count();
  check(made === 0, `names made ${made} elements`);
  const wrong = await page.evaluate(wrongBoxes);
  check(wrong.length === 0 && faults.length === 0, [...wrong, ...faults].join('\n'));
  check(await page.getByText('No news from gpu-node-3: connection refused').count() === 1,
        'the silent node is not told of');
  await checkAxe(page, 'hostile');
  await context.close();
}

/** Stops while nobody looks, and says when there is no news. */
async function checkNews(browser) {
  const overview = {kind: 'node', time: 1.76e9, nodes: [node('gpu-node-1', NAMES, EVENTS)]};
  const {page, asked, turn, context} = await show(browser, overview, FEW,
    {viewport: {width: 1440, height: 900}});
  const see = (hidden) => page.evaluate((value) => {
    Object.defineProperty(document, 'hidden', {value, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  await see(true);
  const before = asked.count;
  await page.clock.runFor(30_000);
  check(asked.count === before, 'it asks while nobody looks');
  await see(false);
  await turn();
  asked.fails = true;
  await turn();
  const status = page.getByRole('status');
  await status.getByText('the server cannot be reached').waitFor();
  await page.screenshot({path: join(folder, 'no-news-1440.png')});
  asked.fails = false;
  await turn();
  await page.waitForFunction(() => document.querySelector('[role=status]').textContent === '');
  await context.close();
}

await withBrowser(async (browser) => {
  await checkNode(browser, 1440, 'light');
  await checkNode(browser, 1440, 'dark');
  await checkNode(browser, 360, 'light');
  await checkNode(browser, 360, 'dark');
  await checkHostile(browser);
  await checkNews(browser);
});
console.log('all is as it should be');
