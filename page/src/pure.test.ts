import {describe, expect, it} from 'vitest';

import {History, OUTSIDE, WHOLE} from './history';
import type {Container, Gpu, Node, Place} from './overview';
import {slicesOf} from './overview';
import {Slots} from './slots';
import {wasteOf} from './waste';
import {bytes, count, fraction, isBad, nameOf, percent, plain, span} from './words';

const GIB = 2 ** 30;

const PLACE: Place = {
  uuid: 'GPU-1',
  limit: 4 * GIB,
  used: 1 * GIB,
  peak: 2 * GIB,
  refused: 0,
  share: 0.5,
  share_max: 1,
  busy_seconds: 0,
  waiting_seconds: 0,
  throttled_seconds: 0,
  weight: 1,
  high_priority: false,
};
const CONTAINER: Container = {
  id: 'a',
  name: 'trainer',
  namespace: '',
  pod: '',
  container: '',
  origin: 'flags',
  mode: 'cgpu',
  answers: true,
  started: 0,
  calls: 0,
  refused_calls: 0,
  gpus: [],
};
const GPU: Gpu = {
  uuid: 'GPU-1',
  index: 0,
  model: 'V100',
  pci: '',
  healthy: true,
  policy: 'soft',
  slices: 1,
  slices_max: 20,
  share_granted: 0.5,
  memory: {total: 16 * GIB, granted: 4 * GIB, used: GIB, free: 15 * GIB, unmanaged: 0},
  busy_seconds: 0,
  counted_seconds: 0,
  unmanaged_busy_seconds: 0,
  unmanaged_processes: 0,
};

/** The words as they are read: a space is a space. */
function read(words: string | null): string | null {
  return words?.replaceAll('\u00a0', ' ') ?? null;
}

function node(time: number, gpu: Partial<Gpu>, place: Partial<Place> | null): Node {
  const containers = place ? [{...CONTAINER, gpus: [{...PLACE, ...place}]}] : [];
  const gpus = [{...GPU, ...gpu}];
  return {name: 'n', error: null, version: '', driver: '', time, gpus, containers, events: []};
}

/** A history with an answer every two seconds, of a slice that uses so much of the time. */
function steady(seconds: number, busy: number): History {
  const history = new History();
  for (let time = 0; time <= seconds; time += 2) {
    history.add(node(1000 + time, {counted_seconds: time}, {busy_seconds: time * busy}));
  }
  return history;
}

describe('words', () => {
  it('has bytes in MiB and GiB', () => {
    expect([0, 300 * 2 ** 20, 1.25 * GIB, 4 * GIB, 15.78125 * GIB, 139 * GIB].map(bytes).map(read)).toEqual(
      ['0 MiB', '300 MiB', '1.3 GiB', '4 GiB', '15.8 GiB', '139 GiB'],
    );
  });
  it('shows no use as zero', () => {
    expect([0, 0.0002, 0.004, 0.03, 0.996, 1].map(percent).map(read)).toEqual(
      ['0 %', '<0.1 %', '0.4 %', '3 %', '100 %', '100 %'],
    );
  });
  it('has words for parts', () => {
    expect([1, 0.5, 0.333, 0.25, 0.3, 0.05].map(fraction).map(read)).toEqual(
      ['all', 'half', 'a third', 'a quarter', '30 %', '5 %'],
    );
  });
  it('has spans of time and counts', () => {
    expect([-1, 45, 60, 3599, 3600, 86400 * 5].map(span).map(read)).toEqual(
      ['0 s', '45 s', '1 min', '59 min', '1 h', '5 d'],
    );
    expect([count(1, 'slice'), count(0, 'slice')]).toEqual(['1 slice', '0 slices']);
  });
  it('calls a container by its pod, its name or its id', () => {
    expect(nameOf({...CONTAINER, pod: 'train-0', container: 'main'})).toBe('train-0/main');
    expect(nameOf({...CONTAINER, pod: 'train-0'})).toBe('train-0');
    expect(nameOf(CONTAINER)).toBe('trainer');
    expect(nameOf({...CONTAINER, name: ''})).toBe('a');
    expect(nameOf({...CONTAINER, name: 'x'.repeat(65)})).toBe(`${'x'.repeat(64)}…`);
  });
  it('shows letters that hide', () => {
    expect(plain('\u202egnp.exe\u200b')).toBe('\ufffdgnp.exe\ufffd');
    expect(plain('Müller 训练 <b>')).toBe('Müller 训练 <b>');
  });
  it('knows events that tell of harm', () => {
    expect(['memory_refused', 'gpu_lost', 'started', 'gpu_back'].map(isBad)).toEqual(
      [true, true, false, false],
    );
  });
});

describe('slices', () => {
  it('are those of one GPU', () => {
    const other = {...PLACE, uuid: 'GPU-2'};
    const all = {...node(1, {}, {}), containers: [{...CONTAINER, gpus: [PLACE, other]}]};
    expect(slicesOf(all, 'GPU-2').map((slice) => slice.place)).toEqual([other]);
  });
  it('keep their numbers while others come and go', () => {
    const slots = new Slots();
    slots.keep(['a', 'b', 'c']);
    slots.keep(['a', 'c']);
    slots.keep(['a', 'c', 'd', 'e']);
    expect(['a', 'c', 'd', 'e'].map((name) => slots.of(name))).toEqual([0, 2, 1, 3]);
  });
});

describe('history', () => {
  it('knows nothing after one answer', () => {
    const history = new History();
    expect(history.last('GPU-1', 'a', 5)).toBeNull();
    history.add(node(1, {}, {}));
    expect(history.last('GPU-1', 'a', 5)).toBeNull();
  });
  it('has rates of two answers', () => {
    const history = new History();
    history.add(node(10, {busy_seconds: 5, counted_seconds: 7, unmanaged_busy_seconds: 1}, {}));
    const seconds = {busy_seconds: 2, waiting_seconds: 1, throttled_seconds: 0.5};
    history.add(node(14, {busy_seconds: 8, counted_seconds: 11, unmanaged_busy_seconds: 2}, seconds));
    const wanted = {busy: 0.5, waiting: 0.25, throttled: 0.125, seconds: 4};
    expect(history.last('GPU-1', 'a', 5)).toEqual(wanted);
    expect(history.last('GPU-1', WHOLE, 5)?.busy).toBe(0.75);
    expect(history.last('GPU-1', OUTSIDE, 5)?.busy).toBe(0.25);
  });
  it('is exact though counts come late and in steps', () => {
    const history = new History();
    for (let time = 0; time < 20; time += 2) {
      const late = Math.max(0, Math.floor((time - 0.5) / 1.4) * 1.4);
      history.add(node(100 + time, {counted_seconds: late}, {busy_seconds: late * 0.3}));
    }
    expect(history.last('GPU-1', 'a', 5)?.busy).toBeCloseTo(0.3, 6);
  });
  it('does not count idle time from before', () => {
    const history = new History();
    history.add(node(0, {counted_seconds: 0}, {busy_seconds: 0}));
    history.add(node(10, {counted_seconds: 600}, {busy_seconds: 10}));
    expect(history.last('GPU-1', 'a', 10)?.busy).toBeCloseTo(0.8, 6);
  });
  it('takes the last seconds alone', () => {
    const history = steady(60, 1);
    history.add(node(1062, {counted_seconds: 62}, {busy_seconds: 60}));
    history.add(node(1064, {counted_seconds: 64}, {busy_seconds: 60}));
    expect(history.last('GPU-1', 'a', 4)?.busy).toBe(0);
    expect(history.last('GPU-1', 'a', 8)?.busy).toBe(0.5);
  });
  it('begins again where the counts do, and with the container', () => {
    const history = steady(10, 0.5);
    history.add(node(1012, {counted_seconds: 1}, {busy_seconds: 0.5}));
    expect(history.last('GPU-1', 'a', 5)).toBeNull();
    const other = new History();
    other.add(node(1, {}, null));
    other.add(node(3, {counted_seconds: 2}, {busy_seconds: 0}));
    other.add(node(5, {counted_seconds: 4}, {busy_seconds: 2}));
    expect(other.last('GPU-1', 'a', 60)?.seconds).toBe(2);
  });
  it('skips an answer that it has, and begins again when the clock is set back', () => {
    const history = steady(4, 1);
    history.add(node(1004, {}, {}));
    history.add(node(1003, {}, {}));
    expect(history.times()).toEqual([1000, 1002, 1004]);
    history.add(node(10, {}, {}));
    expect(history.times()).toEqual([10]);
  });
  it('has a line, and stays small', () => {
    const history = steady(20_000, 0.25);
    const line = history.line('GPU-1', 'a');
    expect(line.length).toBeLessThanOrEqual(1200);
    expect(line.length).toBe(history.times().length);
    expect(line[0]).toEqual({time: 1000, share: null, used: GIB});
    expect(line.slice(5).every((point) => Math.abs((point.share ?? 0) - 0.25) < 0.001)).toBe(true);
  });
});

describe('the history of one of many nodes', () => {
  it('still has the last minute', () => {
    const history = new History();
    for (let time = 0; time <= 10_000; time += 2) {
      history.add(node(time, {counted_seconds: time}, {busy_seconds: time}), 1000);
    }
    expect(history.times().length).toBeLessThanOrEqual(60);
    expect(history.last('GPU-1', 'a', 60)?.seconds).toBe(60);
  });
});

describe('waste', () => {
  const of = (history: History, place: Partial<Place> = {}) =>
    read(wasteOf(GPU, {container: CONTAINER, place: {...PLACE, ...place}}, history));
  it('is told of an idle slice', () => {
    expect(of(steady(60, 0.03))).toBe(
      'trainer holds 4 GiB and half of the compute time, ' +
        'and used 3 % of the GPU’s time in the last minute.',
    );
    expect(of(steady(60, 0), {share: null})).toBe(
      'trainer holds 4 GiB, and used 0 % of the GPU’s time in the last minute.',
    );
  });
  it('is not told of one that works, is small, or is new', () => {
    expect(of(steady(60, 0.2))).toBeNull();
    expect(of(steady(60, 0.03), {share: 0.05})).toBeNull();
    expect(of(steady(60, 0), {limit: 2 ** 20})).toBeNull();
    expect(of(steady(40, 0))).toBeNull();
  });
});
