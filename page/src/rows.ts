// The slices of a GPU as the page shows them, a row each. Pure.

import type {History, Rates} from './history';
import type {Container, Gpu, Node, Place} from './overview';
import {slicesOf} from './overview';
import type {Slots} from './slots';
import {nameOf} from './words';

/** Seconds that "now" is. */
const NOW = 5;

export interface Row {
  container: Container;
  place: Place;
  slot: number; // number and colour, from 0
  name: string;
  live: Rates | null;
}

/** Returns the rows of a GPU, in the order of their numbers. */
export function rowsOf(node: Node, gpu: Gpu, history: History, slots: Slots): Row[] {
  const slices = slicesOf(node, gpu.uuid);
  slots.keep(slices.map((slice) => slice.container.id));
  const rows = slices.map(({container, place}) => ({
    container,
    place,
    slot: slots.of(container.id),
    name: nameOf(container),
    live: history.last(gpu.uuid, container.id, NOW),
  }));
  return rows.sort((one, other) => one.slot - other.slot);
}

/** Returns the use of the whole GPU now, or of another of History's names. */
export function liveOf(gpu: Gpu, history: History, id: string): number | null {
  return history.last(gpu.uuid, id, NOW)?.busy ?? null;
}
