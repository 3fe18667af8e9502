// Types of the answer of /api/overview. src/exporter/overview.h says what each member is.

export interface Place {
  uuid: string;
  limit: number;
  used: number | null;
  peak: number | null;
  refused: number | null;
  share: number | null;
  share_max: number | null;
  busy_seconds: number;
  waiting_seconds: number;
  throttled_seconds: number | null;
  weight: number;
  high_priority: boolean;
}

export interface Container {
  id: string;
  name: string;
  namespace: string;
  pod: string;
  container: string;
  origin: string;
  mode: string;
  answers: boolean;
  started: number;
  calls: number | null;
  refused_calls: number | null;
  gpus: Place[];
}

export interface Gpu {
  uuid: string;
  index: number;
  model: string;
  pci: string;
  healthy: boolean;
  policy: string | null;
  slices: number;
  slices_max: number;
  share_granted: number;
  memory: {
    total: number;
    granted: number;
    used: number | null;
    free: number | null;
    unmanaged: number | null;
  };
  busy_seconds: number;
  counted_seconds: number;
  unmanaged_busy_seconds: number;
  unmanaged_processes: number | null;
}

export interface Event {
  time: string;
  kind: string;
  sentence: string;
}

export interface Node {
  name: string;
  error: string | null;
  version: string;
  driver: string;
  time: number;
  gpus: Gpu[];
  containers: Container[];
  events: Event[];
}

export interface Overview {
  kind: 'node' | 'cluster';
  time: number;
  nodes: Node[];
}

/** A container on one of its GPUs. */
export interface Slice {
  container: Container;
  place: Place;
}

/** Returns the slices of a GPU, in the order of the node's containers. */
export function slicesOf(node: Node, uuid: string): Slice[] {
  return node.containers.flatMap((container) =>
    container.gpus.filter((place) => place.uuid === uuid).map((place) => ({container, place})),
  );
}
