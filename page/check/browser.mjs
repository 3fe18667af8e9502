// Starts Chromium, and watches what a page does that it must not do.

import {chromium} from 'playwright-core';

const PROGRAM = '/usr/bin/chromium';
const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync',
];

export function check(condition, sentence) {
  if (!condition) {
    throw new Error(sentence);
  }
}

/** Calls `use` with a browser, which ends with it. */
export async function withBrowser(use) {
  const browser = await chromium.launch({executablePath: PROGRAM, args: FLAGS});
  try {
    await use(browser);
  } finally {
    await browser.close();
  }
}

/** Opens a page of the site at `url`; `faults` grows by whatever the page must not do. */
export async function openPage(browser, url, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const faults = [];
  page.on('dialog', (dialog) => {
    faults.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('pageerror', (error) => faults.push(`an error: ${error}`));
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') {
      faults.push(`on the console: ${message.text()}`);
    }
  });
  page.on('request', (request) => {
    const asked = request.url();
    if (!asked.startsWith('data:') && new URL(asked).origin !== new URL(url).origin) {
      faults.push(`a request elsewhere: ${asked}`);
    }
  });
  await page.exposeFunction('tellViolation', (words) => faults.push(`against the policy: ${words}`));
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => {
      void window.tellViolation(`${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  return {context, page, faults};
}
