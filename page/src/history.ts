// Answers of one node since the page was opened, and what follows from two of them. Pure.

import type {Node} from './overview';

/** Counts that only grow, in seconds. */
interface Counts {
  busy: number;
  waiting: number;
  throttled: number;
  used: number | null; // memory, in bytes; this one does not only grow
}

interface Moment {
  time: number; // seconds of Unix time
  counted: Map<string, number>; // of each GPU
  counts: Map<string, Counts>; // by keyOf()
}

/** Parts of the time of a GPU, 0 to 1. */
export interface Rates {
  busy: number;
  waiting: number;
  throttled: number;
  seconds: number; // between the two answers
}

export interface Point {
  time: number;
  share: number | null;
  used: number | null;
}

/** Stands for a whole GPU, and for all programs outside of cgpu, in the place of a container's id. */
export const WHOLE = '*';
export const OUTSIDE = '-';

/** Seconds that the count of a GPU's use may be late (src/exporter/overview.h), and as much on a busy host. */
const LATE = 2.5;
/** Seconds that a point of a line covers at least. */
const STEP = 4;
/** Answers that are kept of all nodes together, and of each at least. */
const MOST = 1200;
const LEAST = 60;

function keyOf(uuid: string, id: string): string {
  return `${uuid} ${id}`;
}

function momentOf(node: Node): Moment {
  const moment: Moment = {time: node.time, counted: new Map(), counts: new Map()};
  for (const gpu of node.gpus) {
    moment.counted.set(gpu.uuid, gpu.counted_seconds);
    const busy = (seconds: number) => ({busy: seconds, waiting: 0, throttled: 0, used: null});
    moment.counts.set(keyOf(gpu.uuid, WHOLE), busy(gpu.busy_seconds));
    moment.counts.set(keyOf(gpu.uuid, OUTSIDE), busy(gpu.unmanaged_busy_seconds));
  }
  for (const container of node.containers) {
    for (const place of container.gpus) {
      moment.counts.set(keyOf(place.uuid, container.id), {
        busy: place.busy_seconds,
        waiting: place.waiting_seconds,
        throttled: place.throttled_seconds ?? 0,
        used: place.used,
      });
    }
  }
  return moment;
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most);
}

/** Returns what was used from one moment to a later one. Null: it is not known. */
function between(first: Moment, last: Moment, uuid: string, id: string): Rates | null {
  const key = keyOf(uuid, id);
  const from = first.counts.get(key);
  const to = last.counts.get(key);
  const seconds = last.time - first.time;
  if (!from || !to || seconds <= 0 || to.busy < from.busy) {
    return null; // a restart of the server begins the counts again
  }
  const counted = (last.counted.get(uuid) ?? 0) - (first.counted.get(uuid) ?? 0);
  // The counts of use are late: they cover another span than the two answers.
  const covered = clamp(counted, Math.max(seconds - LATE, seconds / 2), seconds + LATE);
  return {
    busy: Math.min(1, (to.busy - from.busy) / covered),
    waiting: clamp((to.waiting - from.waiting) / seconds, 0, 1),
    throttled: clamp((to.throttled - from.throttled) / seconds, 0, 1),
    seconds,
  };
}

export class History {
  #moments: Moment[] = [];

  /** Adds an answer of one of so many nodes. Forgets every second old one where there are many. */
  add(node: Node, nodes = 1): void {
    const last = this.#moments.at(-1);
    if (last && node.time <= last.time) {
      if (node.time < last.time - 60) {
        this.#moments = []; // the node's clock was set back
      } else {
        return;
      }
    }
    this.#moments.push(momentOf(node));
    const most = Math.max(LEAST, Math.floor(MOST / nodes));
    if (this.#moments.length > most) {
      const half = most / 2;
      this.#moments = this.#moments.filter((_, at) => at >= half || at % 2 === 0);
    }
  }

  /** Returns the rates of the last so many seconds, or of the time since its first answer. */
  last(uuid: string, id: string, seconds: number): Rates | null {
    const last = this.#moments.at(-1);
    if (!last) {
      return null;
    }
    const key = keyOf(uuid, id);
    let first = this.#moments.length - 1;
    for (let at = first - 1; at >= 0; --at) {
      const moment = this.#moments[at]!;
      const enough = last.time - this.#moments[first]!.time >= seconds;
      if (enough || !moment.counts.has(key)) {
        break;
      }
      first = at;
    }
    return between(this.#moments[first]!, last, uuid, id);
  }

  /** Returns the times of all answers. */
  times(): number[] {
    return this.#moments.map((moment) => moment.time);
  }

  /** Returns a point for each of times(). */
  line(uuid: string, id: string): Point[] {
    const key = keyOf(uuid, id);
    let first = 0;
    return this.#moments.map((moment, at) => {
      while (first + 1 < at && moment.time - this.#moments[first + 1]!.time >= STEP) {
        ++first;
      }
      const rates = between(this.#moments[first]!, moment, uuid, id);
      return {
        time: moment.time,
        share: rates ? rates.busy : null,
        used: moment.counts.get(key)?.used ?? null,
      };
    });
  }
}
