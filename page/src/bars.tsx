// A GPU as bars cut into slices: its memory, and its compute time.

import type {ComponentChildren, JSX} from 'preact';
import {useRef} from 'preact/hooks';

import type {Gpu} from './overview';
import type {Row} from './rows';
import {bytes, percent} from './words';

interface Props {
  gpu: Gpu;
  rows: Row[];
  chosen: string | null; // id of a container
  choose: (id: string | null) => void;
}

/** Returns the style of a part that has so much of its bar. */
function wide(part: number): JSX.CSSProperties {
  return {width: `${Math.max(0, Math.min(100, part * 100))}%`};
}

function Lane({name, figure, children}: {
  name: string;
  figure: ComponentChildren;
  children: JSX.Element;
}) {
  return (
    <div class="lane">
      <span class="lane-name">{name}</span>
      {children}
      <span class="lane-figure">{figure}</span>
    </div>
  );
}

/** Returns a number of a slice, as its place in the bars and in the table shows it. */
export function Mark({slot}: {slot: number}) {
  return <span class={`mark c${slot % 8}`}>{slot + 1}</span>;
}

function sliceLabel({slot, name, place}: Row): string {
  const used = place.used === null ? 'use not known' : `${bytes(place.used)} used`;
  return `${slot + 1}, ${name}: ${bytes(place.limit)} of memory, ${used}`;
}

/** The slices of the memory. One of them takes the focus, and arrow keys move it. */
function MemorySlices({gpu, rows, chosen, choose}: Props) {
  const bar = useRef<HTMLDivElement>(null);
  const outside = gpu.memory.unmanaged ?? 0;
  const whole = Math.max(gpu.memory.total, gpu.memory.granted + outside);
  const current = Math.max(0, rows.findIndex((row) => row.container.id === chosen));
  const move = (event: KeyboardEvent) => {
    const last = rows.length - 1;
    const at = {
      ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: last,
    }[event.key];
    if (event.key === 'Escape') {
      choose(null);
    } else if (at !== undefined) {
      event.preventDefault();
      const next = Math.max(0, Math.min(last, at));
      (bar.current!.children[next] as HTMLElement).focus();
    }
  };
  return (
    <div class="bar memory" role="toolbar" ref={bar} onKeyDown={move}
         aria-label={`Slices of GPU ${gpu.index}; arrow keys move between them`}>
      {rows.map((row, at) => (
        <button key={row.container.id} type="button" class={`slice c${row.slot % 8}`}
                style={wide(row.place.limit / whole)} tabIndex={at === current ? 0 : -1}
                title={sliceLabel(row)} aria-label={sliceLabel(row)}
                aria-pressed={row.container.id === chosen}
                onFocus={() => choose(row.container.id)}
                onClick={() => choose(row.container.id)}>
          <span class="fill" style={wide((row.place.used ?? 0) / row.place.limit)} />
          <span class="number">{row.slot + 1}</span>
        </button>
      ))}
      {outside > 0 && (
        <span class="outside" style={wide(outside / whole)}
              title={`programs outside of cgpu use ${bytes(outside)}`} />
      )}
    </div>
  );
}

function Promised({rows, choose}: Pick<Props, 'rows' | 'choose'>) {
  return (
    <div class="bar promised" aria-hidden="true">
      {rows.map((row) => row.place.share !== null && (
        <span key={row.container.id} class={`part pale c${row.slot % 8}`}
              style={wide(row.place.share)} title={`${row.name}: ${percent(row.place.share)}`}
              onClick={() => choose(row.container.id)} />
      ))}
    </div>
  );
}

function UsedNow({rows, outside}: {rows: Row[]; outside: number}) {
  return (
    <div class="bar now" aria-hidden="true">
      {rows.map((row) => row.live !== null && row.live.busy > 0 && (
        <span key={row.container.id} class={`part c${row.slot % 8}`}
              style={wide(row.live.busy)} title={`${row.name}: ${percent(row.live.busy)}`} />
      ))}
      {outside > 0 && (
        <span class="part outside" style={wide(outside)}
              title={`programs outside of cgpu: ${percent(outside)}`} />
      )}
    </div>
  );
}

function MemoryFigure({memory}: Gpu) {
  const total = bytes(memory.total);
  return memory.used === null ? <>{total}, use not known</> : (
    <><data value={memory.used}>{bytes(memory.used)}</data> of {total} used</>
  );
}

/** The bars. `busy` and `outside`: parts of the GPU's time; null: not known yet. */
export function Bars(props: Props & {busy: number | null; outside: number | null}) {
  const {gpu, rows, busy, outside} = props;
  return (
    <div class="bars">
      <Lane name="Memory" figure={<MemoryFigure {...gpu} />}>
        <MemorySlices {...props} />
      </Lane>
      <Lane name="Promised time" figure={gpu.share_granted > 0 ? `${percent(gpu.share_granted)} promised` : 'none'}>
        <Promised {...props} />
      </Lane>
      <Lane name="Used time" figure={busy === null ? 'measuring …'
        : <><data value={busy}>{percent(busy)}</data> busy</>}>
        <UsedNow rows={rows} outside={outside ?? 0} />
      </Lane>
    </div>
  );
}
