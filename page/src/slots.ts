// Numbers and colours of slices. Pure.

/** Gives each of a changing set of names a number that it keeps: the least that is free, from 0. */
export class Slots {
  #slots = new Map<string, number>();

  /** Keeps these names and forgets all others. */
  keep(names: string[]): void {
    const there = new Set(names);
    for (const name of this.#slots.keys()) {
      if (!there.has(name)) {
        this.#slots.delete(name);
      }
    }
    const taken = new Set(this.#slots.values());
    let free = 0;
    for (const name of names) {
      if (!this.#slots.has(name)) {
        while (taken.has(free)) {
          ++free;
        }
        taken.add(free);
        this.#slots.set(name, free);
      }
    }
  }

  of(name: string): number {
    return this.#slots.get(name) ?? 0;
  }
}
