// Asks the server again and again for as long as the page is seen.

import {useEffect, useState} from 'preact/hooks';

import {History} from './history';
import type {Overview} from './overview';
import {plain} from './words';

const EVERY_MS = 2000;
const TIMEOUT_MS = 10_000;

export interface News {
  overview: Overview | null; // the latest that came
  histories: Map<string, History>; // by the node's name
  failed: string | null; // why no newer one came
  at: number; // when it came, milliseconds of this machine's clock
}

async function ask(): Promise<Overview> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const response = await fetch('/api/overview', {signal});
  if (!response.ok) {
    throw new Error(`${response.status}: ${(await response.text()).slice(0, 200).trim()}`);
  }
  const seen = (_: string, value: unknown) => (typeof value === 'string' ? plain(value) : value);
  return JSON.parse(await response.text(), seen) as Overview;
}

function reasonOf(error: unknown): string {
  if (error instanceof DOMException && error.name === 'TimeoutError') {
    return 'the server gave no answer in 10 s';
  }
  if (error instanceof TypeError) {
    return 'the server cannot be reached';
  }
  return error instanceof Error ? `the server answers ${error.message}` : String(error);
}

function remember(histories: Map<string, History>, overview: Overview): void {
  const names = new Set(overview.nodes.map((node) => node.name));
  for (const name of histories.keys()) {
    if (!names.has(name)) {
      histories.delete(name);
    }
  }
  for (const node of overview.nodes) {
    if (node.error === null) {
      const history = histories.get(node.name) ?? new History();
      histories.set(node.name, history);
      history.add(node, overview.nodes.length);
    }
  }
}

/** Returns the news, and renders again when there are some. */
export function useNews(): News {
  const [news, setNews] = useState<News>({
    overview: null,
    histories: new Map(),
    failed: null,
    at: 0,
  });
  useEffect(() => {
    let timer = 0;
    let asking = false;
    const turn = async () => {
      clearTimeout(timer);
      if (asking || document.hidden) {
        return;
      }
      asking = true;
      try {
        const overview = await ask();
        setNews((old) => {
          remember(old.histories, overview);
          return {...old, overview, failed: null, at: Date.now()};
        });
      } catch (error) {
        setNews((old) => ({...old, failed: reasonOf(error)}));
      }
      asking = false;
      timer = window.setTimeout(turn, EVERY_MS);
    };
    document.addEventListener('visibilitychange', turn);
    void turn();
    return () => {
      document.removeEventListener('visibilitychange', turn);
      clearTimeout(timer);
    };
  }, []);
  return news;
}
