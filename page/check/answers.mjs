// Answers of /api/overview that no test can bring about in a few seconds, as a server would give
// them one after the other.

const GIB = 2 ** 30;

function place(uuid, limit, used, share, more) {
  return {
    uuid, limit: limit * GIB, used: used * GIB, peak: used * GIB, refused: 0, share,
    share_max: 1, busy_seconds: 0, waiting_seconds: 0, throttled_seconds: 0, weight: 1,
    high_priority: false, ...more,
  };
}

function container(id, name, gpus, more) {
  return {
    id, name, namespace: '', pod: '', container: '', origin: 'flags', mode: 'cgpu', answers: true,
    started: 1_700_000_000, calls: 12345, refused_calls: 0, gpus, ...more,
  };
}

function gpu(index, total, used, outside, more) {
  return {
    uuid: `GPU-${index}`, index, model: 'Tesla V100-SXM2-16GB', pci: '0000:0b:00.0', healthy: true,
    policy: 'soft', slices: 4, slices_max: 20, share_granted: 0.85,
    memory: {
      total: total * GIB, granted: 12 * GIB, used: used * GIB, free: (total - used) * GIB,
      unmanaged: outside * GIB,
    },
    busy_seconds: 0, counted_seconds: 0, unmanaged_busy_seconds: 0, unmanaged_processes: 1, ...more,
  };
}

/** Parts of the GPU's time: used, waiting, throttled. */
const USE = {a: [0.42, 0.1, 0], b: [0.14, 0.05, 0.32], c: [0.004, 0, 0], d: [0.09, 0.2, 0], e: [0.6, 0, 0]};
const OUTSIDE = 0.06;

function grow(entry, id, time) {
  // Not steady, so that the lines have a form.
  const wave = 1 + 0.35 * Math.sin(time / 17 + id.length) * Math.sin(time / 5);
  const [busy, waiting, throttled] = USE[id] ?? [0.01, 0, 0];
  entry.busy_seconds += 2 * busy * wave;
  entry.waiting_seconds += 2 * waiting;
  entry.throttled_seconds += 2 * throttled;
  return 2 * busy * wave;
}

export function event(time, kind, sentence) {
  return {time, kind, sentence};
}

/** A node with four slices on one GPU, one on another that does not answer. `names`: of the slices. */
export function node(name, names, events = []) {
  const [a, b, c, d, e] = names;
  return {
    name, error: null, version: '0.1.0', driver: '580.95.05', time: 0,
    gpus: [gpu(0, 16, 9.3, 1.2), gpu(1, 16, 2.6, 0, {
      slices: 1, share_granted: 0, policy: null, healthy: false,
      memory: {total: 16 * GIB, granted: 4 * GIB, used: 2.6 * GIB, free: 13.4 * GIB, unmanaged: 0},
    })],
    containers: [
      container('a', a, [place('GPU-0', 5, 4.1, 0.4)]),
      container('b', b, [place('GPU-0', 2, 1.9, 0.15, {refused: 42, share_max: 0.3})],
        {refused_calls: 45, namespace: 'ml', pod: b, container: 'main'}),
      container('c', c, [place('GPU-0', 4, 0.5, 0.25)]),
      container('d', d, [place('GPU-0', 1, 0.9, 0.05, {high_priority: true})]),
      container('e', e, [place('GPU-1', 4, 2.6, null)], {mode: 'share'}),
    ],
    events,
  };
}

/** Lets two seconds of use go by. */
export function pass(overview) {
  overview.time += 2;
  for (const node of overview.nodes) {
    node.time = overview.time;
    for (const gpu of node.gpus) {
      gpu.counted_seconds += 2;
      gpu.unmanaged_busy_seconds += gpu.index === 0 ? 2 * OUTSIDE : 0;
      gpu.busy_seconds += gpu.index === 0 ? 2 * OUTSIDE : 0;
    }
    for (const container of node.containers) {
      for (const place of container.gpus) {
        const gpu = node.gpus.find((one) => one.uuid === place.uuid);
        gpu.busy_seconds += grow(place, container.id, node.time);
      }
    }
  }
  return overview;
}

export const EVENTS = [
  event('2026-01-02T03:14:05.678Z', 'memory_refused', 'ml/serve-0 (3f2a00bc11de) was refused 42 allocations over its limit of 2048 MiB on GPU 0'),
  event('2026-01-02T03:13:05.678Z', 'started', 'trainer (aa2a00bc11de) started with 5120 MiB of GPU 0, from flags'),
  event('2026-01-02T03:12:05.678Z', 'gpu_lost', 'GPU 1 does not answer any more'),
  event('2026-01-02T03:11:05.678Z', 'memory_set', 'notebook (bb2a00bc11de) has a limit of 4096 MiB instead of 2048 MiB on GPU 0'),
  event('2026-01-02T03:04:05.678Z', 'daemon_started', 'cgpud 0.1.0 started'),
];
