// Finds slices that hold what they do not use. Pure.

import type {History} from './history';
import type {Gpu, Slice} from './overview';
import {bytes, fraction, nameOf, percent} from './words';

const MINUTE = 60;
/** Seconds of which something must be known. */
const ENOUGH = 55;
/** Part of the GPU's time that an idle slice uses at most, and part of what it was promised. */
const IDLE = 0.05;
const IDLE_OF_PROMISE = 0.1;
/** Part of the GPU's memory that is worth a word. */
const WORTH = 0.02;

/** Returns a sentence about a slice that was idle in the last minute. Null: it was not. */
export function wasteOf(gpu: Gpu, {container, place}: Slice, history: History): string | null {
  const rates = history.last(gpu.uuid, container.id, MINUTE);
  if (!rates || rates.seconds < ENOUGH || place.limit < WORTH * gpu.memory.total) {
    return null;
  }
  const most = place.share === null ? IDLE : Math.min(IDLE, IDLE_OF_PROMISE * place.share);
  if (rates.busy > most) {
    return null;
  }
  const time =
    place.share !== null && place.share > 0
      ? ` and ${fraction(place.share)} of the compute time`
      : '';
  return (
    `${nameOf(container)} holds ${bytes(place.limit)}${time}, ` +
    `and used ${percent(rates.busy)} of the GPU’s time in the last minute.`
  );
}
