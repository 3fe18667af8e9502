import {useEffect, useState} from 'preact/hooks';

import {Events} from './events';
import {GpuCard} from './gpu';
import {History, WHOLE} from './history';
import type {Node, Overview} from './overview';
import {type News, useNews} from './poll';
import {liveOf} from './rows';
import {bytes, count, percent} from './words';

/** Nodes up to which all are open at first. */
const FEW = 3;

function sum<One>(list: One[], figure: (one: One) => number): number {
  return list.reduce((all, one) => all + figure(one), 0);
}

/** Returns the mean use of the GPUs now. Null: not known yet. */
function busyOf(nodes: Node[], histories: Map<string, History>): number | null {
  const parts = nodes.flatMap((node) => {
    const history = histories.get(node.name);
    return history ? node.gpus.map((gpu) => liveOf(gpu, history, WHOLE)) : [];
  });
  const known = parts.filter((part) => part !== null);
  return known.length === 0 ? null : sum(known, (part) => part) / known.length;
}

function Summary({nodes, histories}: {nodes: Node[]; histories: Map<string, History>}) {
  const gpus = nodes.flatMap((node) => node.gpus);
  const total = sum(gpus, (gpu) => gpu.memory.total);
  const busy = busyOf(nodes, histories);
  const used = sum(gpus, (gpu) => gpu.memory.used ?? 0);
  const granted = sum(gpus, (gpu) => gpu.memory.granted);
  const tiles: [string, string, string][] = [
    ['GPUs', `${gpus.length}`, count(sum(nodes, (node) => node.containers.length), 'container')],
    ['Memory granted', percent(total === 0 ? 0 : granted / total),
      `${bytes(granted)} of ${bytes(total)}`],
    ['Memory used', percent(total === 0 ? 0 : used / total), `${bytes(used)} of ${bytes(total)}`],
    ['GPU time used', busy === null ? '–' : percent(busy), 'now, mean of all GPUs'],
  ];
  return (
    <dl class="summary">
      {tiles.map(([name, figure, more]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd class="figure">{figure}</dd>
          <dd class="quiet">{more}</dd>
        </div>
      ))}
    </dl>
  );
}

function NodeBody({node, history, Heading}: {
  node: Node;
  history: History | undefined;
  Heading: 'h2' | 'h3';
}) {
  if (node.error !== null) {
    return <p class="fault">No news from {node.name}: {node.error}</p>;
  }
  if (node.gpus.length === 0) {
    return <p class="empty">This host has no GPU that a driver serves.</p>;
  }
  const known = history ?? new History();
  return <>{node.gpus.map((gpu) => (
    <GpuCard key={gpu.uuid} node={node} gpu={gpu} history={known} Heading={Heading} />
  ))}</>;
}

function ClusterNode({node, histories, few}: {
  node: Node;
  histories: Map<string, History>;
  few: boolean;
}) {
  const [open, setOpen] = useState(few);
  const busy = busyOf([node], histories);
  const words = node.error !== null ? 'no news' : [
    count(node.gpus.length, 'GPU'),
    count(node.containers.length, 'container'),
    busy === null ? '' : `${percent(busy)} busy`,
  ].filter((word) => word !== '').join(' · ');
  return (
    <details class="node" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <h2>{node.name}</h2>
        <span class={node.error === null ? 'quiet' : 'bad'}>{words}</span>
      </summary>
      {open && <NodeBody node={node} history={histories.get(node.name)} Heading="h3" />}
    </details>
  );
}

/** Returns what keeps the page from news, in a sentence; empty: nothing. */
function faultOf({overview, failed, at}: News): string {
  if (failed !== null) {
    const since = at === 0 ? '' : ` since ${new Date(at).toLocaleTimeString()}`;
    return `No news${since}: ${failed}. The page asks again every 2 seconds.`;
  }
  const silent = overview?.nodes.filter((node) => node.error !== null) ?? [];
  return silent.length > 0 && overview!.nodes.length > 1
    ? `No news from ${silent.map((node) => node.name).slice(0, 5).join(', ')}` +
        `${silent.length > 5 ? ` and ${silent.length - 5} more` : ''}.`
    : '';
}

function Head({overview}: {overview: Overview | null}) {
  const node = overview?.kind === 'node' ? overview.nodes[0] : undefined;
  const title = node ? node.name : overview ? count(overview.nodes.length, 'node') : '';
  useEffect(() => {
    document.title = title === '' ? 'cgpu' : `${title} – cgpu`;
  }, [title]);
  return (
    <header class="head">
      <h1><span class="brand">cgpu</span>{title}</h1>
      {node && (
        <p class="quiet">cgpu {node.version}{node.driver && ` · driver ${node.driver}`}</p>
      )}
    </header>
  );
}

export function App() {
  const news = useNews();
  const {overview, histories} = news;
  const fault = faultOf(news);
  return (
    <>
      <Head overview={overview} />
      <div role="status" aria-live="polite">{fault !== '' && <p class="fault">{fault}</p>}</div>
      {overview === null ? (
        <main>{fault === '' && <p class="empty">Asking for the first figures …</p>}</main>
      ) : (
        <main>
          <Summary nodes={overview.nodes} histories={histories} />
          <div class="columns">
            <div class="nodes">
              {overview.kind === 'node' ? overview.nodes.map((node) => (
                <NodeBody key={node.name} node={node} history={histories.get(node.name)} Heading="h2" />
              )) : overview.nodes.map((node) => (
                <ClusterNode key={node.name} node={node} histories={histories}
                             few={overview.nodes.length <= FEW} />
              ))}
            </div>
            <Events overview={overview} />
          </div>
        </main>
      )}
      <footer><a class="quiet" href="/licenses.txt">Licences</a></footer>
    </>
  );
}
