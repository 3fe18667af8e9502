// Looks at a page from within it.

/** Returns what is wrong with the boxes: those that reach beyond the page or overlap. */
export function wrongBoxes() {
  const wrong = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) {
    wrong.push(`the page is ${document.documentElement.scrollWidth} wide, not ${width}`);
  }
  const scrolls = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.overflowY === 'auto' || style.clipPath !== 'none') {
        return true;
      }
    }
    return false;
  };
  const elements = [...document.querySelectorAll('#app *')].filter((element) =>
    !element.closest('.chart *, .slice *') && !scrolls(element));
  const boxes = elements.flatMap((element) => [...element.getClientRects()]
    .filter((box) => box.width > 1 && box.height > 1)
    .map((box) => ({box, element})));
  const nameOf = (element) =>
    `${element.localName}.${element.className} "${element.textContent.trim().slice(0, 30)}"`;
  boxes.forEach(({box, element}, at) => {
    if (box.right > width + 1 || box.left < -1) {
      wrong.push(`${nameOf(element)} reaches beyond the page`);
    }
    for (const other of boxes.slice(at + 1)) {
      const across = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
      const down = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
      if (across > 2 && down > 4 && !element.contains(other.element)) {
        wrong.push(`${nameOf(element)} and ${nameOf(other.element)} overlap, ${across} x ${down}`);
      }
    }
    if (element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== 'inline') {
      wrong.push(`${nameOf(element)} has more than it shows`);
    }
  });
  return wrong;
}

/** Returns what the page shows of GPUs and of their slices, as programs read it. */
export function shown() {
  const value = (cell, at) => {
    const data = cell.querySelectorAll('data')[at];
    return data ? Number(data.value) : null;
  };
  const gpus = [...document.querySelectorAll('.gpu')].map((gpu) => {
    const [memory, , time] = gpu.querySelectorAll('.lane-figure');
    return {used: value(memory, 0), busy: value(time, 0)};
  });
  const slices = [...document.querySelectorAll('table.slices tbody tr')].map((row) => {
    const [memory, time] = row.querySelectorAll('td');
    return {
      name: row.querySelector('.name').textContent,
      used: value(memory, 0),
      limit: value(memory, 1),
      peak: value(memory, 2),
      busy: value(time, 0),
    };
  });
  return {gpus, slices};
}
