// The newest events, in plain words.

import type {Event, Overview} from './overview';
import {isBad} from './words';

const MOST = 50;

interface Told extends Event {
  node: string;
}

function newest(overview: Overview): Told[] {
  return overview.nodes
    .flatMap((node) => node.events.map((event) => ({...event, node: node.name})))
    .sort((one, other) => (one.time < other.time ? 1 : one.time > other.time ? -1 : 0))
    .slice(0, MOST);
}

function clock(time: string): string {
  const date = new Date(time);
  const day = date.toDateString() === new Date().toDateString();
  return day ? date.toLocaleTimeString() : date.toLocaleString();
}

export function Events({overview}: {overview: Overview}) {
  const events = newest(overview);
  return (
    <section class="events" aria-labelledby="events">
      <h2 id="events">Recent events</h2>
      {events.length === 0 ? (
        <p class="empty">Nothing was told. cgpud keeps the events of a host.</p>
      ) : (
        <ol tabIndex={0} aria-labelledby="events">
          {events.map((event, at) => (
            <li key={`${event.time} ${at}`} class={isBad(event.kind) ? 'bad' : ''}>
              <time dateTime={event.time}>{clock(event.time)}</time>
              {overview.kind === 'cluster' && <span class="where">{event.node}</span>}
              <span class="sentence">{event.sentence}</span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}
