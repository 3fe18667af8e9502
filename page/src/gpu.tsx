// A GPU: its bars, its slices, what they waste, and lines over time.

import {useMemo, useRef, useState} from 'preact/hooks';

import {Bars} from './bars';
import {Chart} from './chart';
import {type History, OUTSIDE, WHOLE} from './history';
import type {Gpu, Node} from './overview';
import {type Row, liveOf, rowsOf} from './rows';
import {Slots} from './slots';
import {Slices} from './table';
import {wasteOf} from './waste';
import {bytes, count, percent, span} from './words';

const GIB = 2 ** 30;

function Details({row}: {row: Row}) {
  const {container, place} = row;
  const facts: [string, string][] = [
    ['Container', container.name || container.id],
    ['Id', container.id],
    ['Pod', container.pod && `${container.namespace}/${container.pod}`],
    ['In the pod', container.container],
    ['Origin', container.origin],
    ['Started', new Date(container.started * 1000).toLocaleString()],
    ['Limit', bytes(place.limit)],
    ['Most held', place.peak === null ? 'not known' : bytes(place.peak)],
    ['Weight', `${place.weight}${place.high_priority ? ', high priority' : ''}`],
    ['Driver calls', container.calls === null ? 'not known' : container.calls.toLocaleString()],
    ['Refused calls', container.refused_calls === null ? 'not known'
      : container.refused_calls.toLocaleString()],
  ];
  return (
    <dl class="details">
      {facts.filter(([, fact]) => fact !== '').map(([name, fact]) => (
        <div key={name}><dt>{name}</dt><dd>{fact}</dd></div>
      ))}
    </dl>
  );
}

function Legend({gpu}: {gpu: Gpu}) {
  const {total, granted, unmanaged} = gpu.memory;
  const outside = unmanaged ?? 0;
  return (
    <ul class="legend">
      <li><span class="key solid" aria-hidden="true" />used</li>
      <li><span class="key pale" aria-hidden="true" />{bytes(granted)} granted</li>
      <li><span class="key none" aria-hidden="true" />
        {bytes(Math.max(0, total - granted - outside))} free to grant</li>
      {outside > 0 && (
        <li><span class="key outside" aria-hidden="true" />{bytes(outside)} outside of cgpu
          {gpu.unmanaged_processes ? ` in ${count(gpu.unmanaged_processes, 'process')
            .replace('processs', 'processes')}` : ''}</li>
      )}
    </ul>
  );
}

function Lines({gpu, rows, history, chosen}: {
  gpu: Gpu;
  rows: Row[];
  history: History;
  chosen: number | null;
}) {
  const times = history.times();
  const lines = useMemo(
    () => rows.map((row) => ({slot: row.slot, points: history.line(gpu.uuid, row.container.id)})),
    [times.at(-1), rows.map((row) => row.container.id).join(' ')],
  );
  const most = Math.max(1, ...rows.map((row) => row.place.limit)) / GIB;
  const past = span((times.at(-1) ?? 0) - (times[0] ?? 0));
  const say = (what: string, figure: (row: Row) => string) =>
    `${what} in the last ${past}. Now: ${rows.map((row) => `${row.name} ${figure(row)}`).join(', ')}`;
  return (
    <div class="charts">
      <figure>
        <figcaption>GPU time of each slice</figcaption>
        <Chart times={times} most={1} ticks={[0, 0.5, 1]} show={percent} chosen={chosen}
               label={say('GPU time', (row) => (row.live ? percent(row.live.busy) : 'not known'))}
               lines={lines.map(({slot, points}) => (
                 {slot, values: points.map((point) => point.share)}))} />
      </figure>
      <figure>
        <figcaption>Memory of each slice</figcaption>
        <Chart times={times} most={most * 1.05} ticks={[0, most / 2, most]} chosen={chosen}
               show={(value) => bytes(value * GIB)}
               label={say('Memory', ({place}) =>
                 (place.used === null ? 'not known' : bytes(place.used)))}
               lines={lines.map(({slot, points}) => (
                 {slot, values: points.map((p) => (p.used === null ? null : p.used / GIB))}))} />
      </figure>
    </div>
  );
}

/** `Heading`: below that of what the GPU is in. */
export function GpuCard({node, gpu, history, Heading}: {
  node: Node;
  gpu: Gpu;
  history: History;
  Heading: 'h2' | 'h3';
}) {
  const slots = useRef(new Slots());
  const [chosen, choose] = useState<string | null>(null);
  const rows = rowsOf(node, gpu, history, slots.current);
  const row = rows.find((one) => one.container.id === chosen);
  const waste = rows.map((one) => wasteOf(gpu, one, history)).filter((words) => words !== null);
  return (
    <section class="gpu" aria-label={`GPU ${gpu.index} of ${node.name}`}>
      <header>
        <Heading class="title">GPU {gpu.index}<span class="model">{gpu.model}</span></Heading>
        {!gpu.healthy && <span class="chip bad">does not answer</span>}
        <span class="chip">{gpu.policy === null ? 'no policy yet' : `policy ${gpu.policy}`}</span>
        <span class="chip">{gpu.slices} of {count(gpu.slices_max, 'slice')}</span>
      </header>
      <Bars gpu={gpu} rows={rows} chosen={chosen} choose={choose}
            busy={liveOf(gpu, history, WHOLE)} outside={liveOf(gpu, history, OUTSIDE)} />
      <Legend gpu={gpu} />
      {row && <Details row={row} />}
      {waste.length > 0 && (
        <ul class="waste" aria-label="Idle slices">
          {waste.map((words) => <li key={words}>{words}</li>)}
        </ul>
      )}
      {rows.length === 0 ? (
        <p class="empty">No container has a slice of this GPU.</p>
      ) : (
        <>
          <Slices label={`Slices of GPU ${gpu.index} of ${node.name}`} rows={rows} chosen={chosen}
                  choose={choose} />
          <Lines gpu={gpu} rows={rows} history={history} chosen={row ? row.slot : null} />
        </>
      )}
    </section>
  );
}
