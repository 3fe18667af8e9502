// figures.mjs URL TOKEN: opens the page, and for each line of its input says in a line what the page
// shows of GPUs and slices.

import {createInterface} from 'node:readline';

import {check, openPage, withBrowser} from './browser.mjs';
import {shown} from './look.mjs';

const [url, token] = process.argv.slice(2);
await withBrowser(async (browser) => {
  const options = {
    httpCredentials: {username: 'any', password: token}, ignoreHTTPSErrors: true,
  };
  const {page, faults} = await openPage(browser, url, options);
  await page.goto(url);
  await page.waitForSelector('.gpu');
  for await (const line of createInterface({input: process.stdin})) {
    check(line === 'show', `not understood: ${line}`);
    console.log(JSON.stringify(await page.evaluate(shown)));
  }
  check(faults.length === 0, faults.join('\n'));
});
