// The slices of a GPU as a table: the text form of its bars.

import {Mark} from './bars';
import type {Row} from './rows';
import {bytes, count, percent, span} from './words';

/** Shows bytes, and has them to the byte for programs. */
function Bytes({value}: {value: number | null}) {
  return value === null ? <span>not known</span> : <data value={value}>{bytes(value)}</data>;
}

function Part({value}: {value: number | null}) {
  return value === null ? <span>–</span> : <data value={value}>{percent(value)}</data>;
}

/** The time that a container spent: a bar, and words for a part that is worth one. */
function Time({live}: {live: Row['live']}) {
  if (!live) {
    return <span class="quiet">measuring …</span>;
  }
  const parts = [
    ['waits', live.waiting],
    ['throttled', live.throttled],
  ] as const;
  const words = parts.filter(([, part]) => part >= 0.005);
  return (
    <>
      <span class="times" aria-hidden="true">
        <i class="t-used" style={{width: `${live.busy * 100}%`}} />
        <i class="t-waits" style={{width: `${live.waiting * 100}%`}} />
        <i class="t-throttled" style={{width: `${live.throttled * 100}%`}} />
      </span>
      <span class="quiet">
        {words.length === 0
          ? 'does not wait'
          : words.map(([name, part]) => `${name} ${percent(part)}`).join(', ')}
      </span>
    </>
  );
}

function refusals({container, place}: Row): string {
  const allocations = place.refused ?? 0;
  const calls = Math.max(0, (container.refused_calls ?? 0) - allocations);
  const said = [
    allocations > 0 ? count(allocations, 'allocation') : '',
    calls > 0 ? count(calls, 'call') : '',
  ].filter((word) => word !== '');
  return said.join(', ') || 'none';
}

function promise({place}: Row): string {
  if (place.share === null) {
    return 'no promise';
  }
  const most = place.share_max;
  const up = most !== null && most > place.share + 0.005 && most < 0.995;
  return `of ${percent(place.share)} promised${up ? `, at most ${percent(most)}` : ''}`;
}

function SliceRow({row, chosen, choose}: {
  row: Row;
  chosen: boolean;
  choose: () => void;
}) {
  const {container, place, live} = row;
  const refused = refusals(row);
  return (
    <tr class={chosen ? 'chosen' : ''} role="row" onClick={choose}>
      <th scope="row" role="rowheader">
        <div class="named">
          <Mark slot={row.slot} />
          <span class="names">
            <span class="name">{row.name}</span>
            <span class="quiet">
              {container.namespace !== '' && `${container.namespace} · `}
              {container.answers ? `for ${span(Date.now() / 1000 - container.started)}` : 'no answer'}
              {place.high_priority && ' · high priority'}
              {container.mode === 'share' && ' · not held to it'}
            </span>
          </span>
        </div>
      </th>
      <td role="cell" data-label="Memory">
        <span class="value"><Bytes value={place.used} /></span>
        <span class="quiet">of <Bytes value={place.limit} />, peak <Bytes value={place.peak} /></span>
      </td>
      <td role="cell" data-label="GPU time">
        <span class="value"><Part value={live ? live.busy : null} /></span>
        <span class="quiet">{promise(row)}</span>
      </td>
      <td role="cell" data-label="Time spent"><Time live={live} /></td>
      <td role="cell" data-label="Refused" class={refused === 'none' ? 'quiet' : 'bad'}>{refused}</td>
    </tr>
  );
}

export function Slices({label, rows, chosen, choose}: {
  label: string;
  rows: Row[];
  chosen: string | null;
  choose: (id: string) => void;
}) {
  return (
    <table class="slices" role="table" aria-label={label}>
      <thead role="rowgroup">
        <tr role="row">
          {['Slice', 'Memory', 'GPU time', 'Time spent', 'Refused'].map((head) => (
            <th key={head} scope="col" role="columnheader">{head}</th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((row) => (
          <SliceRow key={row.container.id} row={row} chosen={row.container.id === chosen}
                    choose={() => choose(row.container.id)} />
        ))}
      </tbody>
    </table>
  );
}
