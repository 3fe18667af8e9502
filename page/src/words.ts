// Figures as words. Pure.

import type {Container} from './overview';

const MIB = 2 ** 20;
const GIB = 2 ** 30;
/** Stands between a number and its unit, which stay on one line. */
const SPACE = '\u00a0';

/** Returns bytes as "300 MiB" or "1.5 GiB". */
export function bytes(count: number): string {
  const mib = Math.round(count / MIB);
  if (mib < 1024) {
    return `${mib}${SPACE}MiB`;
  }
  const gib = count / GIB;
  return `${gib < 100 ? Math.round(gib * 10) / 10 : Math.round(gib)}${SPACE}GiB`;
}

/** Returns a part of one as "30 %". A part that is not zero is never shown as zero. */
export function percent(part: number): string {
  const value = part * 100;
  if (value > 0 && value < 0.1) {
    return `<0.1${SPACE}%`;
  }
  return `${value < 1 ? Math.round(value * 10) / 10 : Math.round(value)}${SPACE}%`;
}

const FRACTIONS: [number, string][] = [
  [1, 'all'],
  [3 / 4, 'three quarters'],
  [2 / 3, 'two thirds'],
  [1 / 2, 'half'],
  [1 / 3, 'a third'],
  [1 / 4, 'a quarter'],
];
const NEAR = 0.005;

/** Returns a part of one in the words that people use for it. */
export function fraction(part: number): string {
  return FRACTIONS.find(([value]) => Math.abs(value - part) <= NEAR)?.[1] ?? percent(part);
}

/** Returns a time of so many seconds as "45 s", "3 min", "2 h" or "5 d". */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) {
    return `${whole}${SPACE}s`;
  }
  if (whole < 3600) {
    return `${Math.floor(whole / 60)}${SPACE}min`;
  }
  return whole < 86400 ? `${Math.floor(whole / 3600)}${SPACE}h` : `${Math.floor(whole / 86400)}${SPACE}d`;
}

/** Returns "1 slice" or "3 slices". */
export function count(number: number, one: string): string {
  return `${number} ${one}${number === 1 ? '' : 's'}`;
}

const LONGEST_NAME = 64;

/** Returns what to call a container: by its pod, if it is of one. A long name is cut. */
export function nameOf(container: Container): string {
  const name = wholeNameOf(container);
  return name.length <= LONGEST_NAME ? name : `${name.slice(0, LONGEST_NAME)}…`;
}

// Letters that nobody sees, and those that turn the direction of others.
const UNSEEN = /[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g;

/** Returns a text that others chose with all of its letters seen, in their order. */
export function plain(text: string): string {
  return text.replace(UNSEEN, '\ufffd');
}

function wholeNameOf(container: Container): string {
  if (container.pod !== '') {
    return container.container === '' ? container.pod : `${container.pod}/${container.container}`;
  }
  return container.name || container.id;
}

/** Returns whether an event tells of something that went wrong. */
export function isBad(kind: string): boolean {
  return kind.endsWith('_refused') || kind === 'forced' || kind === 'gpu_lost';
}
